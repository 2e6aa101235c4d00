//! Running programs: with an environment of their own, under a time limit, and in an ordinary directory for
//! comparison.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{Home, describe, run_limited};

/// How long one script may take.
const SCRIPT_LIMIT: Duration = Duration::from_secs(200);
/// How long a home lives; two builds and a suite of somebody else's tests may run beside it.
const HOME_LIMIT: Duration = Duration::from_secs(300);

/// How the homes are mounted in which the same programs must work.
pub(crate) const PLAIN: &[&str] = &[];
/// Data passes through the daemon, and the kernel writes back.
pub(crate) const NO_PASSTHROUGH: &[&str] = &["--no-passthrough"];

/// Mounts a home with the limit that programs need.
pub(crate) fn mount(options: &[&str]) -> Home {
    Home::plan().options(options).limit(HOME_LIMIT).mount()
}

/// Makes a command with an environment of its own: nothing of cargo's, of the user's or of the machine's settings.
pub(crate) fn command(program: &str, dir: &Path, base: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(dir);
    let outside = base.join("user");
    fs::create_dir_all(&outside).expect("mkdir user");
    let temp = dir.join("tmp");
    fs::create_dir_all(&temp).expect("mkdir tmp");
    let mut path: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    path.push("/usr/sbin".into());
    command
        .env("PATH", std::env::join_paths(path).expect("PATH"))
        .env("HOME", &outside)
        .env("TMPDIR", &temp)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        // Hashes of commits are the same everywhere.
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_NAME", "C")
        .env("GIT_COMMITTER_EMAIL", "c@example.org")
        .env("GIT_COMMITTER_DATE", "2026-01-02T00:00:00Z")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("BASE", base)
        .env("SCRIPTS", scripts());
    command
}

/// Where the scripts beside this file are.
pub(crate) fn scripts() -> PathBuf {
    crate::common::repository().join("tests/mounted/programs")
}

/// Runs a bash script in a directory; `-e`, `-u`, `pipefail`.
pub(crate) fn try_bash(dir: &Path, base: &Path, script: &str) -> Output {
    let mut command = command("bash", dir, base);
    command.args([
        "-Eeuo",
        "pipefail",
        "-c",
        &format!("{NAME_WHAT_FAILS}{script}"),
    ]);
    run_limited(command, SCRIPT_LIMIT)
}

/// A script is long; which of its commands failed is what one wants to know.
const NAME_WHAT_FAILS: &str = r#"trap 'echo "failed ($?): $BASH_COMMAND" >&2' ERR; "#;

/// What a script does first in a mount namespace of its own: the homes of other tests came along, and would not end as
/// long as it lasts.
pub(crate) const LEAVE_OTHERS: &str = r#"{ grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done"#;

/// Runs a bash script, expects it to succeed, and returns what it printed.
pub(crate) fn bash(dir: &Path, base: &Path, script: &str) -> String {
    let output = try_bash(dir, base, script);
    assert!(
        output.status.success(),
        "a script in {}: {}",
        dir.display(),
        end_of(&describe(&output))
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last few hundred characters of what was said.
fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(1500);
    text.get(text.ceil_char_boundary(from)..)
        .unwrap_or_default()
}

/// Runs a bash script in the home.
pub(crate) fn in_home(home: &Home, script: &str) -> String {
    bash(home.home(), home.base(), script)
}

/// Runs a bash script in an ordinary directory first, then in the home, and expects the same words and the same end.
pub(crate) fn same(home: &Home, script: &str) -> String {
    let native = tempfile::TempDir::with_prefix_in("native-", home.base()).expect("tempdir");
    let work = |dir: PathBuf| {
        fs::create_dir_all(&dir).expect("mkdir work");
        dir
    };
    let expected = bash(&work(native.path().join("work")), native.path(), script);
    let got = bash(&work(home.path("work")), home.base(), script);
    assert_same(&expected, &got, script);
    got
}

fn assert_same(expected: &str, got: &str, script: &str) {
    if expected == got {
        return;
    }
    let differing: Vec<_> = expected
        .lines()
        .zip(got.lines())
        .filter(|(expected, got)| expected != got)
        .take(10)
        .map(|(expected, got)| format!("  native: {expected}\n  home:   {got}"))
        .collect();
    panic!(
        "the home answers differently ({} lines natively, {} in the home):\n{}\nby the script\n{}",
        expected.lines().count(),
        got.lines().count(),
        differing.join("\n"),
        end_of(script)
    );
}

/// Runs a Python script from beside this file in the home, with arguments, and returns what it printed.
pub(crate) fn python(home: &Home, script: &str, args: &[&str]) -> String {
    let mut command = command("python3", home.home(), home.base());
    command.arg(scripts().join(script)).args(args);
    let output = run_limited(command, SCRIPT_LIMIT);
    assert!(
        output.status.success(),
        "{script} {args:?}: {}",
        describe(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command as another user.
pub(crate) fn as_user(uid: u32, dir: &Path, base: &Path, script: &str) -> Output {
    let mut command = command("setpriv", dir, base);
    let id = |option: &str| OsString::from(format!("--{option}={uid}"));
    command
        .args([id("reuid"), id("regid")])
        .args(["--clear-groups", "bash", "-euo", "pipefail", "-c", script])
        .env("HOME", "/nonexistent")
        .env("TMPDIR", "/tmp");
    run_limited(command, SCRIPT_LIMIT)
}
