//! `trumanfs hook`: events of agents, replayed, and the calls that come of them, made.
//!
//! The events in `hooks/` were recorded from Claude Code 2.1.197 and Codex 0.169.0, which took their calls from `hooks/model.py`.
//! Only the paths are others: `@ROOT@` is the home. `hook_agents.rs` has the agents themselves do it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Hanging, Home, binary, describe, need_mount, repository, trumanfs};

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
    // Codex runs the call as it was after an answer that it does not know.
    let asks = answer["hookSpecificOutput"]["permissionDecision"] == "ask";
    assert!(!asks || words[0] == "claude-code", "{answer}");
    answer
}

/// What both take: no field but these, `allow` with a rewritten input alone. `ask` is Claude Code's, see `answer`.
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
        Some("allow" | "ask") => assert_eq!(
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

/// Lines of `--shell bash` are never denied by their words, and run in the home.
#[test]
fn lines_of_a_real_shell_are_rewritten_whatever_they_say() {
    need_mount!();
    let home = Home::mount();
    let words = |line: &str| {
        json!({
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": line, "description": "d"},
            "cwd": home.home(),
            "permission_mode": "default",
            "session_id": "s",
        })
    };
    let root = home.home().to_str().unwrap();
    for (line, decision, out) in [
        (
            "for i in 1 2; do echo $i >> f; done; sort -r f",
            "ask",
            "2\n1\n",
        ),
        ("ls; cat f | head -n 1", "allow", "f\n1\n"),
        ("python3 - <<'E'\nprint('it\\'s')\nE", "ask", "it's\n"),
    ] {
        let said = answer(
            &["claude-code", "--root", root, "--shell", "bash"],
            &words(line),
        );
        let said = &said["hookSpecificOutput"];
        assert_eq!(said["permissionDecision"], decision, "{line}: {said}");
        assert_eq!(said["updatedInput"]["description"], "d");
        let rewritten = said["updatedInput"]["command"].as_str().unwrap();
        assert!(rewritten.contains("--shell bash"), "{rewritten}");
        let mut shell = Command::new("sh");
        shell.args(["-c", rewritten]).stdin(Stdio::null());
        let output = crate::common::run_limited(shell, Duration::from_secs(60));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            out,
            "{line}: {}",
            describe(&output)
        );
    }
    // In plan mode a line that may change something is not let through.
    let mut event = words("echo x > g");
    event["permission_mode"] = "plan".into();
    let said = answer(
        &["claude-code", "--root", root, "--shell", "bash", "--allow"],
        &event,
    );
    assert_eq!(
        said["hookSpecificOutput"]["permissionDecision"], "ask",
        "{said}"
    );
    // Both shells at once are an error, and denied.
    let said = answer(
        &["codex", "--shell", "bash", "--policy", "default"],
        &words("ls"),
    );
    assert_eq!(
        said["hookSpecificOutput"]["permissionDecision"], "deny",
        "{said}"
    );
}

#[test]
fn a_line_is_run_in_the_home_and_all_else_of_the_call_stays() {
    for (agent, name, out) in [
        ("claude-code", "claude-code-bash.json", "it's here\n"),
        ("codex", "codex-bash.json", "1 a.txt\n"),
        ("codex", "codex-code-mode.json", "six\n"),
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
        ("sort f | head", "bash: sort: command not found"),
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
    // What else the line does is done.
    event["tool_input"]["command"] = json!("rg x || grep -r x");
    let asked = answer(&["claude-code"], &event)["hookSpecificOutput"].clone();
    assert_eq!(asked["permissionDecision"], "allow", "{asked}");
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
    for name in ["claude-code-write.json", "claude-code-edit.json"] {
        let event = event(name, home.home());
        assert_eq!(answer(&["claude-code"], &event), json!({}), "{name}");
    }
    let mut event = event("claude-code-edit.json", home.home());
    event["tool_name"] = json!("MultiEdit");
    assert_eq!(answer(&["claude-code"], &event), json!({}));
    // Beside a home, nothing would be kept.
    let (_dir, root) = store();
    let patch = self::event("codex-apply-patch.json", &root);
    assert!(denied(&answer(&["codex"], &patch)).contains("is not mounted"));
    for name in ["claude-code-write.json", "claude-code-edit.json"] {
        let event = self::event(name, &root);
        assert!(denied(&answer(&["claude-code"], &event)).contains("is not mounted"));
    }
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
    // A call without a tool, or from nowhere, is none that is understood.
    for incomplete in [
        json!({"hook_event_name": "PreToolUse"}),
        json!({"hook_event_name": "PreToolUse", "cwd": root, "tool_input": {"command": "ls"}}),
        json!({"hook_event_name": "PreToolUse", "cwd": root, "tool_name": "", "tool_input": {}}),
        json!({"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "x"}}),
        json!({"hook_event_name": "PreToolUse", "cwd": "src", "tool_name": "Read", "tool_input": {"file_path": "x"}}),
        json!({"hook_event_name": "PreToolUse", "cwd": root, "tool_name": "Bash"}),
        json!({"hook_event_name": "", "cwd": root, "tool_name": "Bash", "tool_input": {"command": "ls"}}),
        json!({"hook_event_name": "pretooluse", "cwd": root, "tool_name": "Bash", "tool_input": {"command": "ls"}}),
    ] {
        for agent in ["claude-code", "codex"] {
            denied(&answer(
                &[agent, "--root", root.to_str().unwrap()],
                &incomplete,
            ));
        }
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

/// A pattern of Glob is a path, too: Claude Code searches where it begins, and takes `~` for the user's home directory.
#[test]
fn a_search_outside_the_home_finds_nothing() {
    let (_dir, root) = store();
    fs::create_dir(root.join("sub")).unwrap();
    let absent = |event: &Value, typed: &str| {
        let why = denied(&answer(&["claude-code"], event));
        assert_eq!(
            why,
            format!("{typed}: No such file or directory"),
            "{event}"
        );
    };
    absent(&event("claude-code-glob.json", &root), "/etc/*.conf");
    absent(&event("claude-code-grep.json", &root), "~");
    let mut event = event("claude-code-glob.json", &root);
    let inside = format!("{}/**/*.rs", root.display());
    for (pattern, path) in [
        ("*.txt", None),
        ("**/*", None),
        ("nothing/yet/*", None),
        ("sub/../*.txt", None),
        (&*inside, None),
        ("../*.txt", Some("sub")),
        ("{a,b}/*", Some("sub")),
    ] {
        event["tool_input"] = json!({"pattern": pattern});
        if let Some(path) = path {
            event["tool_input"]["path"] = json!(path);
        }
        assert_eq!(answer(&["claude-code"], &event), json!({}), "{pattern}");
    }
    for (pattern, path) in [
        ("../*", None),
        ("../../*", Some("sub")),
        ("/*", None),
        ("{/etc,sub}/*", None),
        ("{sub,..}/*", None),
        (r"\.\./*", None),
        ("*/../../x", None),
        ("{a", None),
        ("~/*", None),
        ("a\0b", None),
        (".trumanfs/*", None),
    ] {
        fs::create_dir_all(root.join(".trumanfs")).unwrap();
        event["tool_input"] = json!({"pattern": pattern});
        if let Some(path) = path {
            event["tool_input"]["path"] = json!(path);
        }
        absent(&event, pattern);
    }
    event["tool_input"] = json!({"pattern": 5});
    assert!(denied(&answer(&["claude-code"], &event)).contains("pattern is not a text"));
}

/// Claude Code trims paths as JavaScript does and takes `~` for the home directory; a path may lead outside in no reading.
#[test]
fn paths_are_read_as_the_agents_read_them() {
    let (_dir, root) = store();
    let with = ["claude-code", "--root", root.to_str().unwrap()];
    let mut event = event("claude-code-grep.json", &root);
    let tools = [
        ("Read", "file_path"),
        ("Write", "file_path"),
        ("Edit", "file_path"),
        ("MultiEdit", "file_path"),
        ("NotebookEdit", "notebook_path"),
        ("Glob", "path"),
        ("Grep", "path"),
        ("LS", "path"),
        ("LSP", "filePath"),
    ];
    // (`reading.rs` has all that is trimmed.)
    for (tool, argument) in tools {
        event["tool_name"] = json!(tool);
        let mut decision = |path: &str| {
            event["tool_input"] = json!({ argument: path, "pattern": "*" });
            answer(&with, &event)
        };
        for (around, path) in [
            (" ", "/etc"),
            ("\n", ".."),
            ("\u{feff}", "~"),
            ("\u{a0}", "~/x"),
        ] {
            for path in [
                format!("{around}{path}"),
                format!("{path}{around}"),
                format!(" {around}{path}{around}\n"),
            ] {
                let why = denied(&decision(&path));
                assert_eq!(why, format!("{path}: No such file or directory"), "{tool}");
            }
        }
        for path in [
            "/etc/.",
            "./../",
            "/etc/",
            "sub//../..",
            "/",
            "//etc",
            "/proc/self/cwd",
        ] {
            denied(&decision(path));
        }
        // Blanks around a path in the home are no reason to deny it, and neither are names that only look like others.
        for path in [
            " there.txt",
            "there.txt\n",
            "a b",
            "file:///etc/passwd",
            "%2e%2e/x",
            "~root/x",
            "..\\x",
        ] {
            let answer = decision(path);
            let is_kept = matches!(tool, "Read" | "Glob" | "Grep" | "LS" | "LSP");
            match is_kept {
                true => assert_eq!(answer, json!({}), "{tool} {path:?}"),
                false => assert!(
                    denied(&answer).contains("is not mounted"),
                    "{tool} {path:?}"
                ),
            }
        }
    }
    // A pattern is read with and without its backslashes: `a\` may be a link.
    std::os::unix::fs::symlink("/etc", root.join("a\\")).unwrap();
    event["tool_name"] = json!("Glob");
    for pattern in [
        format!("{}/a\\/*", root.display()),
        " /etc/*".to_owned(),
        "\u{feff}/etc/*".to_owned(),
    ] {
        event["tool_input"] = json!({ "pattern": pattern });
        denied(&answer(&with, &event));
    }
    event["tool_input"] = json!({ "pattern": "*.conf", "path": "\t/etc" });
    denied(&answer(&with, &event));
}

/// Tools of Claude Code that send a file away, or run something besides a line of the shell.
#[test]
fn files_that_other_tools_send_are_those_of_the_home() {
    let (_dir, root) = store();
    let with = ["claude-code", "--root", root.to_str().unwrap()];
    let mut event = event("claude-code-read.json", &root);
    for (tool, inside, outside) in [
        (
            "Artifact",
            json!({"file_path": "there.txt"}),
            json!({"file_path": " /etc/passwd"}),
        ),
        (
            "SendUserFile",
            json!({"files": ["there.txt"]}),
            json!({"files": ["there.txt", "/etc/passwd"]}),
        ),
        (
            "SendUserFile",
            json!({"files": "there.txt"}),
            json!({"files": "~/x"}),
        ),
        (
            "SendUserMessage",
            json!({"message": "x", "attachments": ["there.txt", {"file_uuid": "1", "file_name": "/x"}]}),
            json!({"message": "x", "attachments": ["/etc/passwd"]}),
        ),
        (
            "SendUserMessage",
            json!({"message": "/etc/passwd"}),
            json!({"message": "x", "attachments": 5}),
        ),
        (
            "Projects",
            json!({"method": "project_info"}),
            json!({"local_path": "../x"}),
        ),
        (
            "DesignSync",
            json!({"files": [{"path": "/a", "localPath": "there.txt"}, {"path": "b", "data": "x"}]}),
            json!({"files": [{"path": "a", "localPath": "/etc/passwd"}]}),
        ),
        (
            "DesignSync",
            json!({"localDir": "."}),
            json!({"localDir": "/etc"}),
        ),
        (
            "Workflow",
            json!({"script": "x"}),
            json!({"scriptPath": "/etc/x.js"}),
        ),
        (
            "EnterWorktree",
            json!({"name": "x"}),
            json!({"path": "/srv/x"}),
        ),
    ] {
        event["tool_name"] = json!(tool);
        event["tool_input"] = inside.clone();
        assert_eq!(answer(&with, &event), json!({}), "{tool} {inside}");
        event["tool_input"] = outside.clone();
        denied(&answer(&with, &event));
    }
    for (tool, input) in [
        ("PowerShell", json!({"command": "Get-Content /etc/passwd"})),
        ("REPL", json!({"code": "process.exit()"})),
    ] {
        event["tool_name"] = json!(tool);
        event["tool_input"] = input;
        let why = denied(&answer(&with, &event));
        assert!(why.starts_with(tool), "{why}");
    }
}

/// Codex' `view_image` reads a file like any other.
#[test]
fn other_tools_that_read_or_run_are_known() {
    let (_dir, root) = store();
    let mut event = event("codex-view-image.json", &root);
    let why = denied(&answer(&["codex"], &event));
    assert_eq!(why, "/etc/passwd: No such file or directory");
    event["tool_input"]["path"] = json!("there.txt");
    assert_eq!(answer(&["codex"], &event), json!({}));
    let mut event = self::event("claude-code-bash.json", &root);
    event["tool_name"] = json!("Monitor");
    event["tool_input"] = json!({"command": "cat there.txt", "description": "looks"});
    let output = run(&answer(&["claude-code"], &event));
    assert_eq!(output.stdout, b"old\n", "{}", describe(&output));
    event["tool_input"] = json!({"ws": {"url": "wss://example.org/"}, "description": "looks"});
    assert_eq!(answer(&["claude-code"], &event), json!({}));
}

/// What `exec` would refuse when the program is reached is refused before anything of the line runs, in the same words.
#[test]
fn a_program_that_the_policy_refuses_is_denied_in_its_words() {
    let (dir, root) = store();
    let policy = dir.path().join("policy.yaml");
    fs::write(
        &policy,
        "git: {subcommands: {status: {}}}\nsort: {flags: {-r: none}}\n",
    )
    .unwrap();
    let with = ["claude-code", "--policy", policy.to_str().unwrap()];
    let mut event = event("claude-code-bash.json", &root);
    let mut why = |line: &str| {
        event["tool_input"]["command"] = json!(line);
        denied(&answer(&with, &event))
    };
    let alone = why("git push origin");
    assert!(
        alone.starts_with("bash: git: blocked by git.subcommands: "),
        "{alone}"
    );
    let rest = format!("{alone}; nothing of the line has run");
    for line in [
        "ls; git push origin",
        "cat there.txt | git push origin",
        "(git push origin)",
        "x=$(git push origin); echo $x",
        "cd sub && git push origin",
    ] {
        assert_eq!(
            why(line),
            if line.starts_with('(') {
                alone.clone()
            } else {
                rest.clone()
            },
            "{line}"
        );
    }
    for line in [
        "sort -r /etc/passwd",
        "sort ../x",
        "GIT_DIR=/etc git status",
        "sort --x",
    ] {
        let why = why(line);
        assert!(
            why.starts_with("bash: ") && why.contains(": blocked by "),
            "{line}: {why}"
        );
    }
    // What only the run can tell is left to the run.
    for line in [
        "git status",
        "x=push; git $x",
        "cd sub && sort ../there.txt",
        "sort /tmp/x/y",
    ] {
        event["tool_input"]["command"] = json!(line);
        let answer = answer(&with, &event);
        assert_eq!(
            answer["hookSpecificOutput"]["permissionDecision"], "ask",
            "{line}: {answer}"
        );
    }
    // The words are those of the run.
    need_mount!();
    let words = [
        "exec",
        "--root",
        root.to_str().unwrap(),
        "--policy",
        policy.to_str().unwrap(),
        "--",
        "git push origin",
    ];
    let ran = trumanfs(&words);
    assert_eq!(
        String::from_utf8_lossy(&ran.stderr).trim_end(),
        alone,
        "{}",
        describe(&ran)
    );
}

/// A rewritten line is asked about where the agent would have asked.
#[test]
fn a_rewrite_takes_no_permission_away_from_a_person() {
    let (dir, root) = store();
    let policy = dir.path().join("policy.yaml");
    fs::write(&policy, "git: {subcommands: {status: {}}}\n").unwrap();
    let with = ["claude-code", "--policy", policy.to_str().unwrap()];
    let freely = [with[0], with[1], with[2], "--allow"];
    let mut event = event("claude-code-bash.json", &root);
    for (mode, needs) in [
        ("default", ["allow", "ask", "ask", "allow"]),
        ("plan", ["allow", "ask", "ask", "ask"]),
        ("acceptEdits", ["allow", "allow", "ask", "allow"]),
        ("bypassPermissions", ["allow"; 4]),
        ("dontAsk", ["allow", "ask", "ask", "allow"]),
        ("auto", ["allow", "ask", "ask", "allow"]),
    ] {
        event["permission_mode"] = json!(mode);
        let mut decision = |words: &[&str], line: &str| {
            event["tool_input"]["command"] = json!(line);
            answer(words, &event)["hookSpecificOutput"]["permissionDecision"].clone()
        };
        let found = [
            decision(&with, "cat there.txt | grep old"),
            decision(&with, "rm there.txt"),
            decision(&with, "git status"),
            decision(&freely, "rm there.txt"),
        ];
        assert_eq!(found, needs, "{mode}");
    }
    // Codex has no such answer, and asks by itself: see `hook_agents.rs`.
    let event = self::event("codex-bash.json", &root);
    assert_eq!(
        answer(&["codex"], &event)["hookSpecificOutput"]["permissionDecision"],
        "allow"
    );
    assert!(denied(&answer(&["codex", "--allow"], &event)).contains("--allow is for claude-code"));
}

/// An agent makes the call as it was where its hook fails. So a slip in the settings is a denial that names it.
#[test]
fn a_mistyped_command_line_is_a_denial() {
    let (_dir, root) = store();
    let mut event = event("claude-code-bash.json", &root);
    // More than a pipe holds: an agent that cannot write its event takes the hook for failed.
    event["tool_input"]["command"] = json!(format!("echo {}", "x".repeat(100_000)));
    for (words, named) in [
        (&["claude-code", "--rot", "/x"][..], "--rot"),
        (&["cluade-code"], "cluade-code"),
        (&[], "<AGENT>"),
        (&["claude-code", "--root"], "--root"),
        (&["claude-code", "codex"], "codex"),
        (&["claude-code", "--json"], "--json"),
    ] {
        let why = denied(&answer(words, &event));
        assert!(why.starts_with("trumanfs hook: "), "{words:?}: {why}");
        let said = asked(words, event.to_string().as_bytes()).stderr;
        assert!(
            String::from_utf8_lossy(&said).contains(named),
            "{words:?}: {why}"
        );
    }
}

/// A writer that keeps the pipe open does not keep the agent waiting until it gives the hook up.
#[test]
fn an_event_is_waited_for_no_longer_than_agents_wait() {
    let (_dir, root) = store();
    let whole = event("claude-code-bash.json", &root).to_string();
    for (written, decision) in [(&whole[..], "ask"), (&whole[..40], "deny"), ("", "deny")] {
        let started = Instant::now();
        let mut child = Command::new(binary())
            .args(["hook", "claude-code"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(written.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(output.status.code(), Some(0));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            answer["hookSpecificOutput"]["permissionDecision"], decision,
            "{answer}"
        );
    }
}

/// A home whose daemon hangs is no way past the hook.
#[test]
fn a_home_that_does_not_answer_is_a_denial() {
    need_mount!();
    let home = Home::mount();
    let mut event = event("claude-code-read.json", home.home());
    event["tool_input"]["file_path"] = json!("never/seen/before");
    // The kernel knows what the home itself is, and asks no more about that.
    fs::read_dir(home.home()).unwrap().for_each(drop);
    fs::metadata(home.home()).unwrap();
    let hanging = Hanging::daemon_of(&home);
    // Whoever looks up a name in a directory waits for who creates one in it, and no signal ends that.
    let new = home.path("new");
    let creates = std::thread::spawn(move || fs::write(new, "").unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let words = ["claude-code", "--root", home.home().to_str().unwrap()];
    let began = Instant::now();
    let output = asked(&words, event.to_string().as_bytes());
    assert!(
        began.elapsed() < Duration::from_secs(45),
        "{:?}",
        began.elapsed()
    );
    drop(hanging);
    creates.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let why = denied(&serde_json::from_slice(&output.stdout).unwrap());
    assert!(why.contains("does not answer"), "{why}");
}

/// The line runs in the home, where another file of that name may lie that an agent has written.
#[test]
fn a_policy_is_the_file_that_was_meant_wherever_the_line_runs() {
    let (dir, root) = store();
    fs::write(dir.path().join("pol.yaml"), "sort: {arguments: path}\n").unwrap();
    let event = json!({
        "hook_event_name": "PreToolUse", "cwd": root, "tool_name": "Bash", "permission_mode": "default",
        "tool_input": {"command": "echo b | sort"},
    });
    for (policy, wanted) in [
        ("pol.yaml", dir.path().join("pol.yaml")),
        ("default", "default".into()),
    ] {
        let mut child = Command::new(binary())
            .args(["hook", "claude-code", "--policy", policy, "--root"])
            .arg(&root)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(event.to_string().as_bytes());
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let line = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str();
        let wanted = format!("--policy {}", wanted.display());
        assert!(line.is_some_and(|line| line.contains(&wanted)), "{answer}");
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
