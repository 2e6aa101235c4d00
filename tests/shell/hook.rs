//! `trumanfs hook`: events of agents, replayed, and the calls that come of them, made.
//!
//! The events in `hooks/` have the shapes that the agents' own documents give: Claude Code's reference of hooks, and the schemas in
//! Codex' repository (`codex-rs/hooks/schema/generated`). `@ROOT@` is the home.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::{Home, binary, describe, need_mount, repository, trumanfs};

fn event(name: &str, root: &Path) -> Value {
    let file = repository().join("tests/shell/hooks").join(name);
    let text =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text.replace("@ROOT@", root.to_str().unwrap())).unwrap()
}

fn asked(words: &[&str], event: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .arg("hook")
        .args(words)
        .env_remove("TRUMANFS_ROOT")
        .env_remove("CLAUDE_PROJECT_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not read all of it closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(event);
    child.wait_with_output().unwrap()
}

/// Asks the hook. It ends with 0 whatever it is asked.
fn answer(words: &[&str], event: &Value) -> Value {
    let output = asked(words, event.to_string().as_bytes());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{event}: {}",
        describe(&output)
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_as_both_formats_have_it(&answer);
    answer
}

/// What Codex takes: no field but these, and `allow` with a rewritten input alone. Claude Code takes all of it.
fn is_as_both_formats_have_it(answer: &Value) {
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    if answer == &json!({}) {
        return;
    }
    assert_eq!(keys(answer), ["hookSpecificOutput"], "{answer}");
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{answer}");
    match output["permissionDecision"].as_str() {
        Some("allow") => assert_eq!(
            keys(output),
            ["hookEventName", "permissionDecision", "updatedInput"]
        ),
        Some("deny") => {
            assert_eq!(
                keys(output),
                [
                    "hookEventName",
                    "permissionDecision",
                    "permissionDecisionReason"
                ]
            );
            assert!(
                !output["permissionDecisionReason"]
                    .as_str()
                    .unwrap()
                    .trim()
                    .is_empty()
            );
        }
        _ => panic!("{answer}"),
    }
}

fn denied(answer: &Value) -> String {
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{answer}");
    output["permissionDecisionReason"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Runs what became of a line, as an agent does.
fn run(answer: &Value) -> Output {
    let line = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str();
    let line = line.unwrap_or_else(|| panic!("{answer}"));
    Command::new("sh")
        .arg("-c")
        .arg(line)
        .current_dir("/")
        .output()
        .unwrap()
}

fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("it's a home");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("there.txt"), "old\n").unwrap();
    (dir, root)
}

#[test]
fn a_line_is_run_in_the_home_and_all_else_of_the_call_stays() {
    for (agent, name, out) in [
        ("claude-code", "claude-code-bash.json", "it's here\n"),
        ("codex", "codex-bash.json", "1 a.txt\n"),
    ] {
        let (_dir, root) = store();
        let event = event(name, &root);
        let answer = answer(&[agent], &event);
        let (mut before, mut after) = (
            event["tool_input"].clone(),
            answer["hookSpecificOutput"]["updatedInput"].clone(),
        );
        before.as_object_mut().unwrap().remove("command");
        after.as_object_mut().unwrap().remove("command");
        assert_eq!(before, after);
        let output = run(&answer);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            out,
            "{}",
            describe(&output)
        );
        // It was recorded, as what happens in a home is.
        let log = trumanfs(&["log".as_ref(), root.as_os_str()]);
        assert!(
            String::from_utf8_lossy(&log.stdout).contains(".txt"),
            "{}",
            describe(&log)
        );
    }
}

#[test]
fn hostile_lines_arrive_as_they_are() {
    let (_dir, root) = store();
    let long = format!("echo {}", "x".repeat(100_000));
    for line in [
        "echo \"a b\"  'c  d' \\'",
        "echo '$(rm -rf /)' \"`id`\" \\$HOME; echo $((1+1)) | cat",
        "echo a\necho b",
        "# nothing",
        "-- echo",
        "echo --help",
        "echo 'ä\u{1f600}\t' \\\\",
        "cat <<'X'\n$y 'quoted' \"twice\"\nX",
        &long,
    ] {
        let mut event = event("claude-code-bash.json", &root);
        event["tool_input"]["command"] = json!(line);
        let direct = trumanfs(&[
            "exec".as_ref(),
            "--root".as_ref(),
            root.as_os_str(),
            "--max-bytes".as_ref(),
            "30000".as_ref(),
            "--max-lines".as_ref(),
            "0".as_ref(),
            "--tail".as_ref(),
            "--".as_ref(),
            std::ffi::OsStr::new(line),
        ]);
        let answer = answer(&["claude-code"], &event);
        if answer["hookSpecificOutput"]["permissionDecision"] == "deny" {
            // What the shell would not run is denied in its words.
            let said = String::from_utf8_lossy(&direct.stderr).into_owned();
            assert_eq!(denied(&answer), said.trim_end(), "{line}");
            assert!(
                direct.stdout.is_empty() && !direct.status.success(),
                "{line}"
            );
            continue;
        }
        let output = run(&answer);
        assert_eq!(
            output.stdout,
            direct.stdout,
            "{line}: {}",
            describe(&output)
        );
        assert_eq!(output.status.code(), direct.status.code(), "{line}");
    }
}

#[test]
fn what_is_not_there_is_denied_in_the_executors_words() {
    let (_dir, root) = store();
    let mut event = event("claude-code-bash.json", &root);
    for (line, said) in [
        ("sudo ls", "bash: sudo: command not found"),
        (
            "while true; do ls; done",
            "bash: while: loops are not supported",
        ),
        ("echo 'open", "bash: "),
        ("a\0b", "bash: a line has no NUL"),
    ] {
        event["tool_input"]["command"] = json!(line);
        let why = denied(&answer(&["claude-code"], &event));
        assert!(why.starts_with(said), "{line}: {why}");
    }
    // With a policy, its programs are there.
    let policy = root.parent().unwrap().join("policy.yaml");
    fs::write(&policy, "git: {subcommands: {status: {}}}\n").unwrap();
    event["tool_input"]["command"] = json!("git status");
    denied(&answer(&["claude-code"], &event));
    let with = ["claude-code", "--policy", policy.to_str().unwrap()];
    let line = answer(&with, &event)["hookSpecificOutput"]["updatedInput"]["command"].to_string();
    assert!(line.contains("--policy"), "{line}");
    // A policy that cannot be read lets nothing pass.
    fs::write(&policy, "git: {no such key}\n").unwrap();
    denied(&answer(&with, &event));
    // No program can be started with a line of this length.
    event["tool_input"]["command"] = json!(format!("echo {}", "x".repeat(200_000)));
    let why = denied(&answer(&["claude-code"], &event));
    assert!(why.contains("too long"), "{why}");
    event["tool_input"]["command"] = json!("ls");
    // A home that is not there.
    denied(&answer(
        &["claude-code", "--root", "/nowhere/at/all"],
        &event,
    ));
}

#[test]
fn files_outside_the_home_do_not_exist() {
    let (_dir, root) = store();
    std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
    let mut event = event("claude-code-read.json", &root);
    assert_eq!(answer(&["claude-code"], &event), json!({}));
    let inside = root.join("not/yet").to_str().unwrap().to_owned();
    for path in ["there.txt", "./there.txt", "sub/../there.txt", &inside] {
        event["tool_input"]["file_path"] = json!(path);
        assert_eq!(answer(&["claude-code"], &event), json!({}), "{path}");
    }
    let up = format!("{}/../other", root.display());
    for path in [
        "/etc/passwd",
        "..",
        "../x",
        "link/passwd",
        "link",
        ".trumanfs/lock",
        &up,
        "a\0b",
        "",
    ] {
        // (The state directory is there once somebody has worked in the store.)
        fs::create_dir_all(root.join(".trumanfs")).unwrap();
        event["tool_input"]["file_path"] = json!(path);
        let answer = answer(&["claude-code", "--root", root.to_str().unwrap()], &event);
        if path.is_empty() {
            continue;
        }
        assert_eq!(
            denied(&answer),
            format!("{path}: No such file or directory"),
            "{path:?}"
        );
    }
}

#[test]
fn what_is_written_is_kept_or_not_written() {
    need_mount!();
    let home = Home::mount();
    fs::write(home.path("there.txt"), "old\n").unwrap();
    let patch = event("codex-apply-patch.json", home.home());
    assert_eq!(answer(&["codex"], &patch), json!({}));
    let mut event = event("claude-code-read.json", home.home());
    for tool in ["Write", "Edit", "MultiEdit"] {
        event["tool_name"] = json!(tool);
        assert_eq!(answer(&["claude-code"], &event), json!({}), "{tool}");
    }
    // Beside a home, nothing would be kept.
    let (_dir, root) = store();
    let patch = self::event("codex-apply-patch.json", &root);
    assert!(denied(&answer(&["codex"], &patch)).contains("is not mounted"));
    let mut patch = self::event("codex-apply-patch.json", home.home());
    patch["tool_input"]["command"] = json!(
        "*** Begin Patch\n*** Update File: there.txt\n*** Move to: ../out.txt\n*** End Patch"
    );
    assert_eq!(
        denied(&answer(&["codex"], &patch)),
        "../out.txt: No such file or directory"
    );
}

#[test]
fn what_is_no_call_of_ours_is_left_as_it_is_and_what_is_not_understood_is_denied() {
    let (_dir, root) = store();
    for name in ["claude-code-webfetch.json", "claude-code-after.json"] {
        assert_eq!(
            answer(&["claude-code"], &event(name, &root)),
            json!({}),
            "{name}"
        );
    }
    let mut event = event("claude-code-bash.json", &root);
    for input in [
        json!({}),
        json!({"command": 5}),
        json!({"command": null}),
        json!({"command": ["ls"]}),
    ] {
        event["tool_input"] = input.clone();
        assert!(
            denied(&answer(&["claude-code"], &event)).contains("command"),
            "{input}"
        );
    }
    let huge = vec![b' '; 40 << 20];
    for nonsense in [&b""[..], b"null", b"[]", b"{", b"{}", b"\xff\xfe", &huge] {
        let output = asked(&["claude-code"], nonsense);
        assert_eq!(output.status.code(), Some(0));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_as_both_formats_have_it(&answer);
        denied(&answer);
    }
}

/// `agents/home-shell`: what agents call that let a shell be named.
#[test]
fn a_shell_for_agents_runs_its_line_in_the_home() {
    let (_dir, root) = store();
    let shell = repository().join("agents/home-shell");
    fs::create_dir(root.join("sub")).unwrap();
    for words in [&["-c"][..], &["-lc"], &["-l", "-c"], &[]] {
        for (from, shown) in [
            (Path::new("/"), root.clone()),
            (&root.join("sub"), root.join("sub")),
        ] {
            let output = Command::new(&shell)
                .args(words)
                .arg("echo 'a  b'; pwd; ls /etc")
                .current_dir(from)
                .env("TRUMANFS", binary())
                .env("TRUMANFS_ROOT", &root)
                .env_remove("TRUMANFS_POLICY")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(
                said,
                format!("a  b\n{}\n", shown.display()),
                "{words:?}: {}",
                describe(&output)
            );
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(said, "ls: /etc: No such file or directory\n", "{words:?}");
        }
    }
}
