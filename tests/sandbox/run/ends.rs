//! Ends of requests, by codes and signals, and beginnings of programs: streams, directory, environment.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{LIMIT, POLICY, Place, err, good, parsed};
use crate::common::{describe, need_mount, need_tools, run_limited};

#[test]
fn the_program_s_code_is_the_code() {
    need_mount!();
    let place = Place::mounted();
    for (words, code, status) in [
        (&["true"][..], 0, "success"),
        (&["false"], 1, "failed"),
        (&["sh", "-c", "exit 3"], 3, "failed"),
        (&["sh", "-c", "exit 125"], 125, "failed"),
        (&["sh", "-c", "kill -TERM $$"], 143, "failed"),
        (&["sh", "-c", "kill -KILL $$"], 137, "failed"),
        (&["sh", "-c", "kill -SEGV $$"], 139, "failed"),
        (&["gone"], 127, "error"),
        (&["rm", "x"], 125, "blocked"),
        (&["git", "push"], 125, "blocked"),
        (&["sleep", "30"], 124, "timeout"),
    ] {
        let output = place.run(&["--json"], words);
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        let outcome = parsed(&output);
        assert_eq!(outcome["return_code"], code, "{words:?}");
        assert_eq!(outcome["status"], status, "{words:?}: {outcome}");
        let said = outcome.get("error_message").is_some();
        assert_eq!(
            said,
            status != "success" && !(status == "failed" && code < 128),
            "{outcome}"
        );
    }
}

#[test]
fn a_file_that_is_no_program_ends_with_126() {
    need_mount!();
    let place = Place::mounted();
    let dir = place.home.base().join("tools");
    fs::create_dir_all(dir.join("bin")).unwrap();
    fs::write(dir.join("bin/plain"), "text\n").unwrap();
    fs::write(dir.join("bin/strange"), "\x7fELF nothing").unwrap();
    fs::set_permissions(dir.join("bin/strange"), fs::Permissions::from_mode(0o755)).unwrap();
    let bound = format!("{{bind_ro: [{}]}}\n", dir.display());
    let policy = format!("{POLICY}plain: {bound}strange: {bound}");
    fs::write(place.policy(), policy).unwrap();
    for (name, why) in [("plain", "Permission denied"), ("strange", "format")] {
        let output = place.run(&[], &[name]);
        assert_eq!(output.status.code(), Some(126), "{}", describe(&output));
        let said = err(&output);
        assert!(said.contains(name) && said.contains(why), "{said}");
        assert_eq!(
            said.matches("no sandbox").count(),
            0,
            "a sandbox there was: {said}"
        );
    }
}

#[test]
fn what_is_refused_says_why_and_runs_nothing() {
    need_mount!();
    let place = Place::mounted();
    for (options, words, rule) in [
        (&[][..], &["rm", "-r", "x"][..], "`rm` is no program"),
        (&[], &["./sh", "-c", "true"], "./sh"),
        (&[], &["git", "-c", "core.pager=x", "status"], "git"),
        (&["--cwd", "/etc"], &["true"], "/etc"),
        (&["--cwd", "../.."], &["true"], ".."),
        (&["--env", "LD_PRELOAD=x.so"], &["true"], "LD_PRELOAD"),
        (&["--env", "SAFE=other"], &["env"], "SAFE"),
    ] {
        let output = place.run(options, words);
        assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
        let said = err(&output);
        assert!(
            said.starts_with("blocked by ") && said.contains(rule),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(output.stdout, b"");
    }
    assert_eq!(fs::read_dir(place.home.home()).unwrap().count(), 0);
}

#[test]
fn what_is_mistyped_runs_nothing() {
    need_mount!();
    let place = Place::mounted();
    for (options, code) in [
        (&["--env", "x"][..], 2),
        (&["--timeout", "soon"], 2),
        (&["--max-tokens", "0"], 2),
        (&["--max-bytes", "0"], 2),
        (&["--root", "/nowhere/at/all"], 2), // twice
    ] {
        let output = place.run(options, &["sh", "-c", "echo ran"]);
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        assert_eq!(output.stdout, b"");
    }
    fs::write(place.policy(), "sh: {flag: [-c]}\n").unwrap();
    let output = place.run(&[], &["sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    let said = err(&output);
    assert!(
        said.contains("policy.yaml:1") && said.contains("sh.flag"),
        "{said}"
    );
}

#[test]
fn standard_input_is_the_caller_s() {
    need_mount!();
    let place = Place::mounted();
    let with = |stdin: Stdio| {
        let mut command = place.command(&[], &["cat"]);
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = with(Stdio::piped());
    child.stdin.take().unwrap().write_all(b"given\n").unwrap();
    assert_eq!(good(&child.wait_with_output().unwrap()), "given\n");
    let file = place.home.base().join("input");
    fs::write(&file, "from a file\n").unwrap();
    let child = with(fs::File::open(&file).unwrap().into());
    assert_eq!(good(&child.wait_with_output().unwrap()), "from a file\n");
    assert_eq!(good(&with(Stdio::null()).wait_with_output().unwrap()), "");
    // A pipe that stays open is no reason to wait for a program that does not read it.
    let mut command = place.command(&[], &["true"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let kept = child.stdin.take();
    let begun = Instant::now();
    assert!(child.wait().unwrap().success());
    assert!(begun.elapsed() < LIMIT);
    drop(kept);
}

/// A terminal would let a program type for its user.
#[test]
fn a_terminal_is_not_handed_on() {
    need_mount!();
    need_tools!("script");
    let place = Place::mounted();
    let words = [
        "sh",
        "-c",
        "tty; test -t 0 || test -t 1 || test -t 2 || echo none; cat",
    ];
    let run = place.command(&[], &words);
    let words: Vec<String> = std::iter::once(run.get_program())
        .chain(run.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]);
    let said = good(&run_limited(script, LIMIT));
    assert_eq!(said.replace('\r', ""), "not a tty\nnone\n");
}

#[test]
fn closed_streams_are_empty_ones() {
    need_mount!();
    let place = Place::mounted();
    let run = |redirections: &str, words: &str| {
        let mut shell = std::process::Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("\"$@\" -- {words} {redirections}"))
            .arg("sh");
        let run = place.command(&[], &[]);
        shell.arg(run.get_program());
        shell.args(run.get_args().filter(|word| *word != "--"));
        run_limited(shell, LIMIT)
    };
    assert_eq!(good(&run("<&-", "cat")), "");
    assert_eq!(good(&run("<&- 2>&-", "sh -c 'cat; echo done'")), "done\n");
    assert!(run(">&-", "sh -c 'echo lost; exit 0'").status.success());
    assert_eq!(run(">&- 2>&- <&-", "sh -c 'exit 7'").status.code(), Some(7));
}

#[test]
fn a_program_begins_where_it_is_told_to() {
    need_mount!();
    let place = Place::mounted();
    fs::create_dir_all(place.home.path("a/b c")).unwrap();
    let home = place.home.home().to_str().unwrap().to_owned();
    for (cwd, wanted) in [
        (".".to_owned(), ""),
        ("a".to_owned(), "/a"),
        ("a/b c/".to_owned(), "/a/b c"),
        ("a/../a/b c".to_owned(), "/a/b c"),
        (format!("{home}/a"), "/a"),
        (home.clone(), ""),
    ] {
        let outcome = place.json(&["--cwd", &cwd], &["pwd"]);
        assert_eq!(outcome["stdout"], format!("{home}{wanted}\n"), "{cwd}");
        assert_eq!(outcome["cwd"], format!("{home}{wanted}"), "{cwd}");
        assert_eq!(outcome["working_directory"], format!("{home}{wanted}"));
    }
    let output = place.run(&["--cwd", "missing"], &["pwd"]);
    let said = err(&output);
    assert!(said.contains("missing"), "{said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
}

#[test]
fn a_directory_in_a_home_is_no_home() {
    need_mount!();
    let place = Place::mounted();
    let sub = place.home.path("a/b");
    fs::create_dir_all(&sub).unwrap();
    let command = super::command(&sub, &place.policy(), &[], &["pwd"]);
    let output = run_limited(command, LIMIT);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    assert!(err(&output).contains("--cwd a/b"), "{}", err(&output));
    fs::write(place.home.path("file"), "").unwrap();
    let output = place.run(&["--cwd", "file"], &["pwd"]);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    let said = err(&output);
    assert!(said.contains("file: Not a directory; give"), "{said}");
}

#[test]
fn the_environment_is_the_policy_s() {
    need_mount!();
    let place = Place::mounted();
    let mut command = place.command(&["--env", "TZ=UTC"], &["env"]);
    command
        .env("SECRET", "of the caller")
        .env("LD_LIBRARY_PATH", "/x");
    let said = good(&run_limited(command, LIMIT));
    assert!(!said.contains("SECRET") && !said.contains("LD_"), "{said}");
    for line in ["SAFE=kept", "TZ=UTC", "TMPDIR=/tmp"] {
        assert!(said.lines().any(|l| l == line), "{line} in {said}");
    }
    assert!(said.contains("HOME=/tmp/.home\n"));
    let asked = place.run(
        &["--env", "ASKED=for it=x"],
        &["sh", "-c", "echo \"$ASKED\""],
    );
    assert_eq!(good(&asked), "for it=x\n");
}

#[test]
fn a_timeout_ends_what_has_left_its_parents() {
    need_mount!();
    let place = Place::mounted();
    let script = "setsid sh -c 'setsid sleep 1000 & echo $! >started; sleep 1000' & \
                  while ! [ -s started ]; do sleep 0.01; done; trap '' TERM; echo begun; sleep 1000";
    let begun = Instant::now();
    let output = place.run(&["--timeout", "1.5", "--json"], &["sh", "-c", script]);
    let outcome = parsed(&output);
    assert_eq!(outcome["status"], "timeout", "{outcome}");
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(outcome["stdout"], "begun\n");
    assert!(outcome["error_message"].as_str().unwrap().contains("1.5 s"));
    assert_eq!(outcome.get("warnings"), None, "nothing is left: {outcome}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_caller_can_only_lower_the_time() {
    need_mount!();
    let place = Place::mounted();
    let outcome = place.json(&["--timeout", "3000"], &["sleep", "30"]);
    assert_eq!(outcome["status"], "timeout");
    assert!(
        outcome["error_message"].as_str().unwrap().contains(" 1 s "),
        "{outcome}"
    );
}

#[test]
fn a_home_mounted_read_only_runs_what_says_so() {
    need_mount!();
    let mut place = Place::mounted();
    fs::write(place.home.path("file"), "text\n").unwrap();
    place.home.remount_with(&["--read-only"]);
    let policy =
        "cat: {arguments: path}\nsh: {flags: {-c: text}, arguments: text, read_only: true}\n";
    fs::write(place.policy(), policy).unwrap();
    let output = place.run(&[], &["cat", "file"]);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    assert!(err(&output).contains("read_only: true"), "{}", err(&output));
    let outcome = place.json(
        &[],
        &[
            "sh",
            "-c",
            "cat file; touch new || echo no; touch /tmp/x && echo yes",
        ],
    );
    assert_eq!(outcome["stdout"], "text\nno\nyes\n", "{outcome}");
    assert_eq!(outcome["changed"], json!(false));
}

#[test]
fn what_must_not_change_the_home_cannot() {
    need_mount!();
    let place = Place::mounted();
    fs::write(place.home.path("file"), "text\n").unwrap();
    let policy = "sh: {flags: {-c: text}, arguments: text, read_only: true}\n";
    fs::write(place.policy(), policy).unwrap();
    let script = "cat file; echo x >file; rm file; touch new; mkdir d; ls";
    let outcome = place.json(&[], &["sh", "-c", script]);
    assert_eq!(outcome["stdout"], "text\nfile\n", "{outcome}");
    assert_eq!(
        fs::read_to_string(place.home.path("file")).unwrap(),
        "text\n"
    );
}

#[test]
fn python_and_compilers_run() {
    need_mount!();
    need_tools!("gcc", "git");
    let place = Place::mounted();
    let script = "echo 'int puts(const char *); int main(void) { return puts(\"built\") < 0; }' >a.c; gcc -o a a.c; ./a";
    assert_eq!(place.sh(script), "built\n");
    assert_eq!(
        place.sh("git init -q r; cd r; echo x >x; git add x; git status --porcelain"),
        "A  x\n"
    );
    if std::path::Path::new("/usr/bin/python3").exists() {
        let said = good(&place.run(
            &[],
            &[
                "python3",
                "-c",
                "import os; open('p', 'w').write('x'); print(os.listdir())",
            ],
        ));
        assert!(said.contains("'p'"), "{said}");
    }
    // Nothing of the host's is there, by any name.
    let said = place.sh("ls -a / /root /home /run 2>&1 | grep -c secret || true; ls -d .trumanfs .trash/../.trumanfs 2>&1 | grep -c 'No such'");
    assert_eq!(said, "0\n2\n");
}
