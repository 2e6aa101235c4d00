//! `exec --shell` and `shell --shell`: lines in a real shell, one alone and many in a session.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::common::{binary, describe, need_mount, need_root, need_tools, run_limited};

const LIMIT: Duration = Duration::from_secs(60);

fn exec(store: &Path, line: &str, more: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(["exec", "--shell", "bash", "--root"]);
    command.arg(store).args(more).arg(line).stdin(Stdio::null());
    run_limited(command, LIMIT)
}

/// Runs a session in a store whose lines come from standard input.
fn session(store: &Path, more: &[&str], tmp: Option<&str>, lines: &str) -> Output {
    let mut command = Command::new(binary());
    command.args(["shell", "--shell", "bash"]).args(more);
    command.arg("--root").arg(store);
    command.envs(tmp.map(|tmp| ("TMPDIR", tmp)));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that cannot begin has ended before this.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn line_alone_is_bashs_own() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let output = exec(
        store.path(),
        "for i in 1 2; do echo $i >> f; done; sort -r f; nosuch; exit 3",
        &[],
    );
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert_eq!(output.stdout, b"2\n1\n");
    assert_eq!(
        output.stderr,
        b"bash: line 1: nosuch: command not found\n".replace_first()
    );
    let output = exec(store.path(), "echo 'open", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("bash: -c: line 1:"));
    let json = exec(store.path(), "rm f; echo gone", &["--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["status"], &json["stdout"], &json["changed"]),
        (&"success".into(), &"gone\n".into(), &true.into())
    );
    // It is taken back whole.
    let mut undo = Command::new(binary());
    undo.arg("undo")
        .arg(store.path())
        .args(["--run", json["run"].as_str().unwrap()]);
    let output = run_limited(undo, LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(std::fs::read(store.path().join("f")).unwrap(), b"1\n2\n");
}

trait ReplaceFirst {
    fn replace_first(&self) -> Vec<u8>;
}

impl ReplaceFirst for [u8] {
    /// The number of a line is said or not, as the version of bash has it.
    fn replace_first(&self) -> Vec<u8> {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", "true; nosuch"])
            .env("LC_ALL", "C");
        let said = run_limited(bash, LIMIT).stderr;
        if said.starts_with(b"bash: line 1:") {
            self.to_vec()
        } else {
            said
        }
    }
}

#[test]
fn limits_and_signals_end_a_line() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let output = exec(
        store.path(),
        "echo a; sleep 1000; echo b",
        &["--timeout", "3"],
    );
    assert_eq!(output.status.code(), Some(124), "{}", describe(&output));
    assert_eq!(output.stdout, b"a\n");
    let output = exec(
        store.path(),
        "seq 1 100000",
        &["--max-lines", "4", "--tail"],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("1\n2\n...") && text.ends_with("99999\n100000\n"),
        "{text}"
    );
    // A reader that wants no more ends it, as in any pipe.
    let mut pipe = Command::new("bash");
    let line = format!(
        "{} exec --shell bash --max-lines 0 --max-bytes 0 --root \"$0\" yes | head -n 1",
        binary()
    );
    pipe.args(["-c", &line]).arg(store.path());
    assert_eq!(run_limited(pipe, LIMIT).stdout, b"y\n");
    // Ctrl-C.
    let mut command = Command::new(binary());
    command
        .args(["exec", "--shell", "bash", "--root"])
        .arg(store.path());
    command
        .arg("touch begun; sleep 1000; touch late")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while !store.path().join("begun").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", describe(&output));
    assert!(!store.path().join("late").exists());
}

#[test]
fn what_is_outside_does_not_exist_for_a_line() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    std::fs::write(beside.path().join("secret"), "x").unwrap();
    let secret = beside.path().join("secret");
    let line = format!(
        "cat {0}; ls {1}; echo x > {0}; cat /etc/shadow; ls /srv /home; ls -d .trumanfs; cat .trumanfs/*; \
         echo 1 > /usr/x; python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'",
        secret.display(),
        beside.path().display()
    );
    let output = exec(store.path(), &line, &[]);
    assert_eq!(output.stdout, b"", "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.to_lowercase().contains("denied"), "{said}");
    assert_eq!(std::fs::read(&secret).unwrap(), b"x");
}

#[test]
fn lines_on_standard_input_are_a_session_and_read_the_rest() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let script = "x=1\nf() {\necho \"in f $x\"\n}\nf\nfor i in a b\ndo echo $i\ndone\nread -r y; echo \"got $y\"\nthis is read\n\
                  cat <<E\nhere $x\nE\nmkdir d; cd d\nbasename \"$PWD\"\ngrep -c '' <<< \"$x\"\nfalse\necho $?\nexit 7\necho not here\n";
    let output = session(store.path(), &[], None, script);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        out,
        "in f 1\na\nb\ngot this is read\nhere 1\nd\n1\n1\n",
        "{}",
        describe(&output)
    );
    assert_eq!(output.status.code(), Some(7), "{}", describe(&output));
}

#[test]
fn another_shell_runs_lines_too() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    for shell in ["sh", "/bin/sh", "dash"] {
        let mut command = Command::new(binary());
        command
            .args(["exec", "--shell", shell, "--root"])
            .arg(store.path());
        command
            .arg("echo a | tr a b; [ -n \"$BASH_VERSION\" ] || echo plain")
            .stdin(Stdio::null());
        let output = run_limited(command, LIMIT);
        assert!(output.status.success(), "{shell}: {}", describe(&output));
        assert!(output.stdout.starts_with(b"b\n"));
    }
    let mut command = Command::new(binary());
    command
        .args(["exec", "--shell", "/usr/bin/nosuch", "--root"])
        .arg(store.path());
    let output = run_limited(
        {
            command.arg("true");
            command
        },
        LIMIT,
    );
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/usr/bin/nosuch: there is no such shell")
    );
    // What is for the other shell alone is an error and not ignored.
    for option in [
        &["--hide", "x"][..],
        &["--policy", "default"],
        &["--net", "learn"],
    ] {
        let output = exec(store.path(), "true", option);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{option:?}: {}",
            describe(&output)
        );
    }
    let mut command = Command::new(binary());
    command
        .args(["exec", "--net", "none", "--root"])
        .arg(store.path())
        .arg("true");
    assert_eq!(run_limited(command, LIMIT).status.code(), Some(2));
}

#[test]
fn killed_server_leaves_no_pipes_for_long() {
    need_mount!();
    let (store, tmp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pipes = || {
        let listed = std::fs::read_dir(tmp.path()).unwrap();
        listed
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with("trumanfs-shell-")
            })
            .count()
    };
    let session = || {
        let mut command = Command::new(binary());
        command
            .args(["shell", "--shell", "bash", "--root"])
            .arg(store.path())
            .env("TMPDIR", tmp.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"touch begun\n")
            .unwrap();
        while !store.path().join("begun").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    let mut killed = session();
    assert_eq!(pipes(), 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    // As if a minute had passed.
    for entry in std::fs::read_dir(tmp.path()).unwrap() {
        let mut touch = Command::new("touch");
        touch
            .args(["-d", "2 minutes ago"])
            .arg(entry.unwrap().path());
        assert!(run_limited(touch, LIMIT).status.success());
    }
    std::fs::remove_file(store.path().join("begun")).unwrap();
    let mut next = session();
    assert_eq!(pipes(), 1);
    drop(next.stdin.take());
    assert!(next.wait().unwrap().success());
    assert_eq!(pipes(), 0);
}

/// Not even root gets into the home of another user, but lines run there as that user.
#[test]
fn root_runs_lines_in_the_home_of_another_user() {
    need_mount!();
    need_root!("to run lines as another user");
    let store = tempfile::tempdir().unwrap();
    std::fs::create_dir(store.path().join("sub")).unwrap();
    for path in [store.path().to_owned(), store.path().join("sub")] {
        std::os::unix::fs::chown(path, Some(12345), Some(12345)).unwrap();
    }
    let lines = "id -u; echo x > f\nbasename \"$PWD\"\n";
    let output = session(store.path(), &["--cwd", "sub"], None, lines);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "12345\nsub\n",
        "{}",
        describe(&output)
    );
    assert_eq!(output.stderr, b"", "{}", describe(&output));
    assert_eq!(std::fs::read(store.path().join("sub/f")).unwrap(), b"x\n");
}

/// A full disk, or a directory that is not there: nothing is run, and the words name the directory.
#[test]
fn temporary_directory_without_room_is_named() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    // Whoever needs the directory for the home itself is told so by the mount.
    let output = session(store.path(), &[], Some("/nonexistent"), "touch f\n");
    assert!(!output.status.success(), "{}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("/nonexistent"),
        "{}",
        describe(&output)
    );
    assert!(!store.path().join("f").exists());
}

/// git has the name of whoever starts a line, and what a repository says of itself counts before it.
#[test]
fn commits_are_the_owners() {
    need_mount!();
    need_tools!("git");
    let (store, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(
        user.path().join(".gitconfig"),
        "[user]\n\tname = Some \\\"One\\\" Else\n\temail = s@example.org\n[core]\n\texcludesFile = ~/ignored\n",
    )
    .unwrap();
    std::fs::write(user.path().join("ignored"), "*.tmp\n").unwrap();
    let line = "git init -q -b main . && touch a x.tmp && git add . && git commit -q -m one && git log --format='%an <%ae>' \
                && git status --porcelain --ignored && git config user.name Own && git commit -q --allow-empty -m two \
                && git log -1 --format=%an";
    let mut command = Command::new(binary());
    command
        .args(["exec", "--shell", "bash", "--root"])
        .arg(store.path())
        .arg(line);
    command
        .env("HOME", user.path())
        .env_remove("GIT_CONFIG_GLOBAL")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null());
    let output = run_limited(command, LIMIT);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        out,
        "Some \"One\" Else <s@example.org>\n!! x.tmp\nOwn\n",
        "{}",
        describe(&output)
    );
}
