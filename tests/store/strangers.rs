//! An operator's commands where they cannot do what they should: as another user, on a home whose daemon has died, on a
//! TARGET that is none. Each says what is wrong by its path, and what to do; none says the name of a system call alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{
    Home, binary, copy_program, describe, need_mount, need_root, run_limited, trumanfs,
};

const NOBODY: &str = "65534";

/// What an operator may type about a store; `T` stands for the TARGET.
const LINES: &[&[&str]] = &[
    &["log", "T"],
    &["log", "T", "--run", "last"],
    &["undo", "T", "2"],
    &["redo", "T"],
    &["restore", "T", "a", "--at", "2"],
    &["show", "T", "2"],
    &["diff", "T"],
    &["versions", "T", "a"],
    &["usage", "T"],
    &["cat", "T", "a"],
    &["trash", "list", "T"],
    &["trash", "usage", "T"],
    &["trash", "restore", "T", "a"],
    &["trash", "purge", "T", "--all"],
    &["checkpoint", "list", "T"],
    &["checkpoint", "create", "T", "c"],
    &["session", "list", "T"],
    &["fsck", "T"],
    &["status", "T"],
    &["exec", "--root", "T", "--", "ls"],
    &["exec", "--root", "T", "--", "rm b"],
    &["shell", "--root", "T"],
];

fn line(words: &[&str], target: &Path) -> Vec<String> {
    let target = target.to_str().unwrap();
    let words = words.iter().map(|word| match *word {
        "T" => target.to_owned(),
        word => word.to_owned(),
    });
    words.collect()
}

#[track_caller]
fn says(words: &[String], output: &Output, exit: i32, all: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(exit),
        "{words:?}: {}",
        describe(output)
    );
    for part in all {
        assert!(said.contains(part), "{words:?}: no {part:?} in {said}");
    }
    for call in ["openat2", "open:", "stat:"] {
        assert!(!said.contains(call), "{words:?}: {said}");
    }
    assert!(output.stdout.is_empty(), "{words:?}: {}", describe(output));
}

/// The message was `openat2 "sessions": Permission denied` or `open: Permission denied`, of no store and with no remedy.
#[test]
fn another_users_store_is_named_with_who_may() {
    need_root!("another user asks");
    let dir = tempfile::tempdir().unwrap();
    let open = || fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), open()).unwrap();
    let program = dir.path().join("trumanfs");
    copy_program(binary(), &program);
    fs::set_permissions(&program, open()).unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::set_permissions(&store, open()).unwrap();
    let made = ["exec", "--root", "T", "--", "echo a > a; rm a; echo b > b"];
    let made = trumanfs(&line(&made, &store));
    assert!(made.status.success(), "{}", describe(&made));
    for (mode, what) in [(0o755, "its .trumanfs"), (0o700, "this directory")] {
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
        for words in LINES {
            let words = line(words, &store);
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
            command.arg(&program).args(&words).current_dir("/");
            let output = run_limited(command, Duration::from_secs(20));
            let named = store.to_str().unwrap();
            let all = [named, NOBODY, what, "belongs to user 0", "run this as root"];
            says(&words, &output, 7, &all);
        }
    }
}

/// `exec --root HOME` said `stat: Transport endpoint is not connected` and "Give a store, or the home it is mounted at".
#[test]
fn a_dead_home_is_named_with_how_to_clean_it_up() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("mkdir sub; echo a > sub/a");
    home.kill_daemon_only();
    let umount = format!("trumanfs umount {}", home.home().display());
    for words in LINES {
        let words = line(words, &home.path("sub"));
        says(&words, &trumanfs(&words), 6, &["has died", &umount]);
    }
    for words in [
        &["exec", "--root", "T", "--", "ls"][..],
        &["shell", "--root", "T"],
    ] {
        let words = line(words, home.home());
        says(&words, &trumanfs(&words), 6, &["has died", &umount]);
    }
    let words = line(&["status", "T"], home.home());
    says(&words, &trumanfs(&words), 1, &["has died", &umount]);
    // What needs the store alone has it: the registry of mounts says which one that is.
    let log = trumanfs(&line(&["log", "T"], home.home()));
    assert!(
        String::from_utf8_lossy(&log.stdout).contains("/sub/a"),
        "{}",
        describe(&log)
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().to_str().unwrap();
    for words in [["mount", "T", elsewhere], ["mount", elsewhere, "T"]] {
        let words = line(&words, &home.path("sub"));
        says(&words, &trumanfs(&words), 6, &["has died", &umount]);
    }
    let umounted = trumanfs(&line(&["umount", "T"], home.home()));
    assert!(umounted.status.success(), "{}", describe(&umounted));
}

/// What a terminal would obey, hide, or turn around.
const TRICKS: &str = "a\u{202e}b\u{2066}c\u{200b}d\u{9b}31m\u{1b}[2J\re\u{7f}f";

#[track_caller]
fn is_plain(words: &[String], text: &[u8]) {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let odd = |c: char| {
        (c.is_control() && c != '\n') || TRICKS.chars().any(|trick| trick == c && !c.is_ascii())
    };
    assert!(!text.chars().any(odd), "{words:?}: {text:?}");
}

/// Bidirectional controls were shown as they are; they make `rm important # txt.fdp` look like another line.
#[test]
fn names_and_lines_do_not_act_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let exec = |line: &str| trumanfs(&["exec", "--root", store.to_str().unwrap(), "--", line]);
    let name = TRICKS;
    for line in [
        format!("mkdir '{name}'; echo one > '{name}/f'; echo two > '{name}/f'"),
        format!("rm '{name}/f'; echo '{name}' > g; touch '{name}/h'"),
    ] {
        let output = exec(&line);
        assert!(output.status.success(), "{}", describe(&output));
    }
    let path = format!("/{name}/f");
    let entry = fs::read_dir(store.join(".trash")).unwrap();
    let mut entry = entry.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let entry = entry.find(|entry| entry.contains('_')).unwrap();
    let session = ["log", "T", "--all", "--run", "last"];
    let lines: &[&[&str]] = &[
        &["log", "T"],
        &["log", "T", "--all"],
        &session,
        &["diff", "T"],
        &["diff", "T", "-p"],
        &["diff", "T", "--stat"],
        &["show", "T", "2"],
        &["versions", "T", &path],
        &["trash", "list", "T"],
        &["trash", "usage", "T"],
        &["trash", "restore", "T", "no\u{202e}entry"],
        &["checkpoint", "create", "T", "c\u{202e}d"],
        &["checkpoint", "list", "T"],
        &["session", "show", "T", "last"],
        &["undo", "T", "--session", "last", "--dry-run"],
        &["restore", "T", &path, "--at", "last", "--dry-run"],
        &["cat", "T", "\u{202e}"],
        &["fsck", "T"],
        &["exec", "--root", "\u{202e}", "--", "ls"],
        &["trash", "restore", "T", &entry],
        &["undo", "T", "--run", "last"],
        &["redo", "T"],
        &["log", "T"],
    ];
    for words in lines {
        let words = line(words, store);
        let output = trumanfs(&words);
        assert!(
            output.status.code().is_some(),
            "{words:?}: {}",
            describe(&output)
        );
        is_plain(&words, &output.stderr);
        // A content that goes into a file or a pipe is exact.
        if !words.contains(&"-p".to_owned()) {
            is_plain(&words, &output.stdout);
        }
    }
    // JSON is exact: a program is not deceived.
    let log = trumanfs(&line(&["log", "T", "--json"], store));
    let log = String::from_utf8(log.stdout).unwrap();
    assert!(
        log.contains("a\u{202e}b\u{2066}c\u{200b}d\\\\xc2\\\\x9b31m"),
        "{log}"
    );
}

/// It said "No such file or directory", of nothing.
#[test]
fn a_working_directory_that_is_gone_is_named() {
    let script = "cd \"$1\" && rmdir \"$1\" && exec \"$0\" exec --root here -- ls";
    let dir = tempfile::tempdir().unwrap().keep();
    let mut command = Command::new("sh");
    command.args(["-c", script, binary()]).arg(&dir);
    let output = run_limited(command, Duration::from_secs(20));
    let words = ["exec".to_owned()];
    says(
        &words,
        &output,
        3,
        &["here: the working directory", "Give an absolute path"],
    );
    assert!(!dir.exists());
}
