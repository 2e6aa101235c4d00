//! Keeps the documents true: runs the examples of the semantics (`docs/SEMANTICS.md` and `docs/semantics/`) on mounted
//! homes, and the README's that begin with `mkdir`, and checks that the files and tests named in any document exist.
//!
//! An example is a block fenced as `console`, followed by flags of `trumanfs mount`. Each runs in a home of its own
//! over an empty store, in one bash whose working directory is the home; `$STORE` is the store. Lines that begin with
//! `$ ` (and `> `, their continuation) are input, all others are the expected output. `{timestamp}`, `{time}` and
//! `{pid}` stand for what differs each time.
//!
//! `SEMANTICS_SHOW=1` prints the actual output of every example.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_root, run_limited};

/// Stands between the outputs of two commands.
const MARK: &str = "\u{1e}";

struct Example {
    line: usize,
    flags: Vec<String>,
    steps: Vec<Step>,
}

struct Step {
    command: String,
    output: Vec<String>,
}

fn repository() -> &'static Path {
    crate::common::repository()
}

/// Returns the documents below `docs/`, sorted.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![repository().join("docs")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the path of a document from the repository's root.
fn document_name(document: &Path) -> String {
    let name = document.strip_prefix(repository()).unwrap();
    name.to_string_lossy().into_owned()
}

/// The page whose examples run beside a home: they make their own stores.
const README: &str = "README.md";

/// Returns the examples of every page of the semantics and of the README, with the page's name.
fn runnable_examples() -> Vec<(String, Example)> {
    let docs = repository().join("docs");
    let readme = fs::read_to_string(repository().join(README)).unwrap();
    // The README's other blocks have ids and times in them.
    let mut found: Vec<(String, Example)> = examples(&readme)
        .into_iter()
        .filter(|one| one.steps[0].command.starts_with("mkdir "))
        .map(|one| (README.to_owned(), one))
        .collect();
    assert!(found.len() > 1, "the README's examples were not found");
    for page in documents() {
        if page == docs.join("SEMANTICS.md") || page.starts_with(docs.join("semantics")) {
            let name = document_name(&page);
            let text = fs::read_to_string(&page).unwrap();
            found.extend(examples(&text).into_iter().map(|one| (name.clone(), one)));
        }
    }
    found
}

fn examples(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut current: Option<Example> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut current, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                if words.next().as_deref() == Some("console") {
                    current = Some(Example {
                        line: index + 1,
                        flags: words.collect(),
                        steps: Vec::new(),
                    });
                }
            }
            (Some(_), Some(_)) => found.extend(current.take()),
            (Some(example), None) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    example.steps.push(Step {
                        command: command.to_owned(),
                        output: Vec::new(),
                    });
                    continue;
                }
                let step = example
                    .steps
                    .last_mut()
                    .expect("an example begins with a command");
                match line.strip_prefix("> ") {
                    Some(more) if step.output.is_empty() => {
                        let _ = write!(step.command, "\n{more}");
                    }
                    _ => step.output.push(line.to_owned()),
                }
            }
            (None, None) => {}
        }
    }
    found
}

/// Runs an example of a page and returns what each of its commands printed.
fn run(page: &str, example: &Example) -> Vec<Vec<String>> {
    let mut script = String::new();
    for step in &example.steps {
        let _ = write!(script, "{{ {}\n}} 2>&1\nprintf '{MARK}\\n'\n", step.command);
    }
    let home = Home::plan().options(&example.flags).mount();
    let scratch = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let dir = if page == README {
        scratch.path()
    } else {
        home.home()
    };
    let binary = Path::new(crate::common::binary());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script])
        .current_dir(dir)
        .env("XDG_STATE_HOME", scratch.path().join("state"))
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("STORE", home.store())
        .env(
            "PATH",
            format!("{}:{path}", binary.parent().unwrap().display()),
        );
    let output = run_limited(bash, Duration::from_secs(30));
    assert!(
        output.status.success(),
        "{page}:{}: {}",
        example.line,
        describe(&output)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    // What a command prints without a newline at its end is a line all the same.
    text.split(&format!("{MARK}\n"))
        .take(example.steps.len())
        .map(|part| part.lines().map(canonical).collect())
        .collect()
}

/// Replaces what differs each time by its name in braces, and runs of blanks by one.
fn canonical(line: &str) -> String {
    let line = replace(line, "dddddddd'T'dddddd.ddddddZ", "{timestamp}");
    let line = replace(&line, "dddd-dd-dd dd:dd:dd", "{time}");
    let line = without_pids(&line);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces each place of this form: `d` is a digit, anything else is itself.
fn replace(line: &str, form: &str, by: &str) -> String {
    let form: Vec<char> = form.chars().filter(|c| *c != '\'').collect();
    let line: Vec<char> = line.chars().collect();
    let fits = |at: usize| {
        form.iter().enumerate().all(|(i, form)| {
            line.get(at + i).is_some_and(|c| {
                if *form == 'd' {
                    c.is_ascii_digit()
                } else {
                    c == form
                }
            })
        })
    };
    let (mut out, mut at) = (String::new(), 0);
    while at < line.len() {
        if fits(at) {
            out.push_str(by);
            at += form.len();
        } else {
            out.push(line[at]);
            at += 1;
        }
    }
    out
}

/// `rm[1234]` becomes `rm[{pid}]`.
fn without_pids(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let digits = after.chars().take_while(char::is_ascii_digit).count();
        out.push_str(before);
        out.push('[');
        rest = match after[digits..].starts_with(']') && digits > 0 {
            true => {
                out.push_str("{pid}");
                &after[digits..]
            }
            false => after,
        };
    }
    out + rest
}

#[test]
fn the_examples_of_the_semantics_are_true() {
    need_mount!();
    need_root!(
        "for passthrough: without it the times that the kernel writes back are recorded, too"
    );
    let examples = runnable_examples();
    assert!(examples.len() > 10, "the examples were not found");
    let show = std::env::var_os("SEMANTICS_SHOW").is_some();
    let mut problems = String::new();
    for (page, example) in &examples {
        for (step, got) in example.steps.iter().zip(run(page, example)) {
            let expected: Vec<String> = step.output.iter().map(|line| canonical(line)).collect();
            if show {
                println!(
                    "{page}:{}: $ {}\n{}",
                    example.line,
                    step.command,
                    got.join("\n")
                );
            }
            if expected != got {
                let _ = write!(
                    problems,
                    "\n{page}:{}: $ {}\n  written: {expected:#?}\n  true: {got:#?}",
                    example.line, step.command
                );
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// What a document says in backquotes and looks like a file of this repository, with the name of a function after `::`.
fn cited(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    const PLACES: &[&str] = &[
        "src/",
        "crates/",
        "tests/",
        "docs/",
        "benches/",
        "mount-scripts/",
        ".ci/",
    ];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| {
            PLACES.iter().any(|place| quoted.starts_with(place))
                && !quoted.contains(char::is_whitespace)
        })
        .map(|quoted| match quoted.split_once("::") {
            Some((file, function)) => (file, Some(function)),
            None => (quoted, None),
        })
}

#[test]
fn documents_name_what_exists() {
    let mut documents = documents();
    documents.push(repository().join("README.md"));
    let mut problems = Vec::new();
    let mut count = 0;
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let name = document_name(&document);
        // Code blocks hold commands and output, not citations.
        let prose: String = text.split("```").step_by(2).collect();
        for (file, function) in cited(&prose) {
            count += 1;
            let path = repository().join(file);
            let found = match function {
                None => path.exists(),
                Some(function) => fs::read_to_string(&path)
                    .is_ok_and(|code| code.contains(&format!("fn {function}("))),
            };
            if !found {
                problems.push(format!("{name}: {file} {}", function.unwrap_or_default()));
            }
        }
        for (at, _) in prose.match_indices("](") {
            let target = prose[at + 2..].split([')', '#']).next().unwrap();
            if !target.is_empty()
                && !target.contains("://")
                && !document.parent().unwrap().join(target).exists()
            {
                problems.push(format!("{name}: the link to {target}"));
            }
        }
    }
    assert!(count > 20, "no citations found");
    assert!(
        problems.is_empty(),
        "named, but not there:\n  {}",
        problems.join("\n  ")
    );
}

#[test]
fn examples_are_read_and_compared_as_described() {
    let text = "```console --hide *.key\n$ a \\\n> b\nout\n```\n```sh\n$ no\n```\n";
    let found = examples(text);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].flags, ["--hide", "*.key"]);
    assert_eq!(found[0].steps[0].command, "a \\\nb");
    assert_eq!(found[0].steps[0].output, ["out"]);
    assert_eq!(
        canonical("  7  2026-01-16 10:15:30  rm[12]   x ⇒ trash 20260116T101530.123456Z_a [b]"),
        "7 {time} rm[{pid}] x ⇒ trash {timestamp}_a [b]"
    );
    let cited: Vec<_> = cited("see `src/x.rs` and `tests/y.rs::z`, not `rm -r src/`").collect();
    assert_eq!(cited, [("src/x.rs", None), ("tests/y.rs", Some("z"))]);
}
