//! The shipped grammars are sound, and say of installed tools what these do.

use std::process::{Command, Output, Stdio};

use super::super::read::FieldReader;
use super::super::yaml::{self, YamlValue};
use super::files::FILES;
use super::flag_value::{FlagValue, WordReading};
use super::tool::{FlagTable, ToolGrammar};
use super::{grammar, read};

/// Reads the grammar of a tool in a file.
fn read_tool(text: &str, name: &str) -> (ToolGrammar, Vec<String>) {
    let root = yaml::read(text.as_bytes(), "g.yaml").unwrap().unwrap();
    let mut reader = FieldReader::new("g.yaml");
    let tool = read::tool(&mut reader, &root, name);
    let problems = reader.problems.iter().map(ToString::to_string).collect();
    (tool, problems)
}

#[test]
fn shipped_grammars_are_sound() {
    let mut count = 0;
    for file in &FILES {
        let root = yaml::read(file.text.as_bytes(), "g.yaml").unwrap().unwrap();
        let YamlValue::Map(tools) = root.value else {
            panic!("no map: {:?}", file.tools)
        };
        let mut names: Vec<&str> = tools.iter().flat_map(|tool| tool.key.split(' ')).collect();
        names.sort_unstable();
        assert_eq!(names, file.tools);
        count += names.len();
        for name in names {
            let (tool, problems) = read_tool(file.text, name);
            assert_eq!(problems, Vec::<String>::new(), "{name}");
            for row in &tool.subcommands {
                for (flag, fact) in &row.flags {
                    let said = |sub: &String| tool.fact(Some(sub), flag).as_ref() == Some(fact);
                    assert!(row.names.iter().all(said), "{name}: `{flag}` in two rows");
                }
            }
            assert!(grammar(name).is_some());
        }
    }
    assert_eq!(count, 43);
    assert!(grammar("no-such-tool").unwrap().flags.is_empty());
}

#[test]
fn mistakes_in_a_grammar_are_found() {
    for (text, said) in [
        (
            "a: { flagz: -x }",
            "g.yaml:1: a.flagz: unknown key of a grammar",
        ),
        ("a: { text: x }", "g.yaml:1: a.text: `x` is no flag"),
        (
            "a: { text: -x, path: -x -y }",
            "g.yaml:1: a.path: `-x` stands here twice",
        ),
        (
            "a: { text: -x -x }",
            "g.yaml:1: a.text: `-x` stands here twice",
        ),
        ("a: { like: b }", "g.yaml:1: `b` has no grammar here"),
        (
            "a: { arguments: some }",
            "g.yaml:1: a.arguments: `some` is unknown; write paths, texts, program or projects",
        ),
        (
            "a: { clusters: no }",
            "g.yaml:1: a.clusters: `no` stands here; true or false",
        ),
        (
            "a: { aliases: { b: x, c: x } }",
            "g.yaml:1: a.aliases.c: `x` stands here twice",
        ),
        (
            "a: { subcommands: { b: { texts: -x } } }",
            "g.yaml:1: a.subcommands.b: unknown key of a sub-command",
        ),
    ] {
        let problems = read_tool(text, "a").1;
        assert!(
            problems.iter().any(|problem| problem.starts_with(said)),
            "{text}: {problems:?}"
        );
    }
}

/// Returns the flags that take any word.
fn any_word(flags: &FlagTable) -> impl Iterator<Item = &String> {
    let takes = FlagValue::Value(WordReading::Text);
    let any = flags.iter().filter(move |(_, fact)| fact.takes == takes);
    any.map(|(flag, _)| flag)
}

fn misses_value(output: &Output, words: &[&str]) -> bool {
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    !output.status.success() && words.iter().any(|word| said.contains(word))
}

/// A flag that is said to take the next word and does not would let that word pass unseen. So git, asked with such a
/// flag and nothing behind it, must miss a value, or not know the flag.
#[test]
fn git_flags_that_take_any_word_take_one() {
    if Command::new("git").arg("--version").output().is_err() {
        crate::need::skip!("git", "needs git");
    }
    let dir = tempfile::tempdir().unwrap();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(dir.path())
            .args(words)
            .env("LC_ALL", "C")
            .env("GIT_EDITOR", "true");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CEILING_DIRECTORIES", dir.path());
        git.stdin(Stdio::null()).output().unwrap()
    };
    assert!(git(&["init", "-q"]).status.success());
    let commit = "-c user.name=a -c user.email=a@b commit -q --allow-empty -m x";
    let commit: Vec<&str> = commit.split(' ').collect();
    assert!(git(&commit).status.success());
    let misses = [
        "value",
        "argument",
        "unknown",
        "invalid option",
        "unrecognized",
        "expects",
        "requires",
        "usage:",
    ];
    let mut wrong = Vec::new();
    for row in &grammar("git").unwrap().subcommands {
        for sub in &row.names {
            for flag in any_word(&row.flags) {
                let output = git(&[sub, flag]);
                if !misses_value(&output, &misses) {
                    wrong.push(format!("git {sub} {flag}: {output:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// As for git. A tool that is not installed here, or does not know the flag, says nothing about it.
#[test]
fn flags_that_take_any_word_take_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wrong, mut asked) = (Vec::new(), 0);
    let tools = FILES.iter().flat_map(|file| file.tools);
    for name in tools.filter(|name| !matches!(**name, "git" | "python")) {
        let tool = grammar(name).unwrap();
        for flag in any_word(&tool.flags).filter(|_| tool.dashed_values) {
            let mut command = Command::new(name);
            command.args((*name == "find").then_some("."));
            command
                .arg(flag)
                .current_dir(dir.path())
                .env("LC_ALL", "C")
                .stdin(Stdio::null());
            let Ok(output) = command.output() else {
                continue;
            };
            asked += 1;
            let misses = [
                "argument",
                "parameter",
                "requires",
                "not an option",
                "unrecognized",
            ];
            if !misses_value(&output, &misses) {
                wrong.push(format!("{name} {flag}: {output:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(asked > 20, "only {asked} flags could be tried");
}
