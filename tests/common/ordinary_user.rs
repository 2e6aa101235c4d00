//! The tests of a binary once more, as an ordinary user who mounts with fusermount3 and so has no passthrough.
//!
//! The run has a mount namespace of its own, in which it sees a device file that everybody may open and no other test's
//! homes; they all end with it. (The POSIX cases in an ordinary directory need no second run, nor do the storms, half of
//! which are without passthrough for root.) What an ordinary user cannot do is skipped there with its reason, under the
//! key `root`, and nothing for another reason but [`LACKING`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use super::{copy_program, describe, repository, run_limited};

/// The user: fusermount3 wants one with a name.
const USER: u32 = 65534;

/// What may be missing besides: the kernel offers it to root alone, or it lies where the user cannot go.
const LACKING: &[&str] = &[
    "mcp-clients",
    "package-tools",
    "pynacl",
    "jsonschema",
    "stand-in",
    "root",
    "passthrough",
    "loop",
    "ext4",
    "xfs",
    "btrfs",
    "ext4-abort",
    "namespaces",
    "user-mounts",
    "labels",
    "immutable",
    "realtime",
    "processors",
    "chance",
    "kernel",
    "fanotify",
    "tools",
    "python-tests",
    "system-python",
    "browser",
    "playwright",
    "device",
    "containers",
    "container-filter",
    "ssh-server",
    "go",
    "apparmor",
];

const SCRIPT: &str = r#"
    cd "$1"
    { grep -F ' - fuse.trumanfs ' /proc/self/mountinfo || true; } | cut -d' ' -f5 | while read -r at; do umount --lazy "$at" 2>/dev/null || ! mountpoint -q "$at"; done
    mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/fuse c 10 229; mount --bind dev/fuse /dev/fuse
    # Those who may let others in are ordinary users, too.
    { cat /etc/fuse.conf; echo user_allow_other; } >fuse.conf; mount --bind fuse.conf /etc/fuse.conf
    export TMPDIR="$1/tmp" HOME="$1/tmp" TRUMANFS_BINARY="$1/bin/trumanfs" TRUMANFS_REPOSITORY="$1/repository" REQUIRE=fuse,direct
    unset XDG_RUNTIME_DIR
    exec setpriv --reuid="$2" --regid="$2" --clear-groups ./bin/tests --skip ordinary_user:: --skip ::native --skip storms:: --test-threads "$3" 2>&1
"#;

/// Runs the tests of this binary again. `at_least`: so many of them must pass, and not by being skipped.
pub(crate) fn run_again(at_least: usize) -> Result<String, String> {
    let base = tempfile::TempDir::with_prefix("trumanfs-user-").expect("a temporary directory");
    let at = |name: &str| base.path().join(name);
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    for dir in ["bin", "repository", "tmp"] {
        fs::create_dir(at(dir)).expect("mkdir");
    }
    std::os::unix::fs::chown(at("tmp"), Some(USER), Some(USER)).expect("chown");
    copy_program(
        std::env::current_exe().expect("this program"),
        at("bin/tests"),
    );
    copy_program(super::binary(), at("bin/trumanfs"));
    let mut copy = Command::new("cp");
    copy.arg("-r").args([
        "README.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "docs",
        "examples",
        "src",
        "crates",
        "tests",
        "benches",
        "mount-scripts",
        "agents",
        ".ci",
    ]);
    copy.arg(at("repository")).current_dir(repository());
    let output = run_limited(copy, Duration::from_secs(60));
    assert!(output.status.success(), "{}", describe(&output));

    let mut run = Command::new("unshare");
    run.args([
        "--mount",
        "--propagation",
        "private",
        "bash",
        "-euc",
        SCRIPT,
        "bash",
    ]);
    run.arg(base.path()).arg(USER.to_string()).arg("4");
    let output = run_limited(run, Duration::from_secs(900));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let skipped: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("SKIPPED "))
        .collect();
    for line in &skipped {
        let key = line
            .trim_start_matches("SKIPPED [")
            .split(']')
            .next()
            .unwrap_or_default();
        if !LACKING.contains(&key) {
            return Err(format!(
                "skipped as an ordinary user, for no good reason: {line}"
            ));
        }
    }
    if !output.status.success() {
        let failures = said
            .split_once("failures:")
            .map_or(&*said, |(_, failures)| failures);
        return Err(format!(
            "as an ordinary user: {}: {failures}",
            output.status
        ));
    }
    let passed = said
        .lines()
        .filter(|line| line.starts_with("test ") && line.ends_with("... ok"))
        .count();
    let shown = passed - skipped.len().min(passed);
    if shown < at_least {
        return Err(format!(
            "only {shown} tests ran as an ordinary user:\n{}",
            skipped.join("\n")
        ));
    }
    Ok(format!(
        "{shown} tests pass as an ordinary user, {} are not for one:\n{}",
        skipped.len(),
        skipped.join("\n")
    ))
}
