//! What a test needs of the machine: the only place where a test is skipped.
//!
//! Each thing has a key. `REQUIRE=root,fuse,loop` lists what a machine has: a test that would be skipped for one of these fails instead.
//! `REQUIRE=all` lets nothing be skipped. A key that nobody knows fails the test too, so that a slip of the pen requires nothing less.
//!
//! A skip prints `SKIPPED [key] test: reason`, past libtest's capture, and is the only sign that a test has shown nothing. Unit tests in
//! `src/` have this file as `crate::need`.

use std::io::Write as _;

/// The keys, and what each stands for.
pub(crate) const KEYS: &[(&str, &str)] = &[
    ("root", "the tests run as root"),
    ("fuse", "a home can be mounted"),
    (
        "user-mounts",
        "an ordinary user can mount, with fusermount3",
    ),
    (
        "passthrough",
        "the kernel reads and writes the store's files itself",
    ),
    ("namespaces", "mount namespaces can be made"),
    ("loop", "loop devices can be attached"),
    ("ext4", "ext4 can be made and mounted"),
    ("xfs", "xfs can be made and mounted"),
    ("btrfs", "btrfs can be made and mounted"),
    (
        "labels",
        "the file system of the temporary directory has extended attributes and security labels",
    ),
    (
        "direct",
        "the file system of the temporary directory has O_DIRECT",
    ),
    (
        "immutable",
        "the file system of the temporary directory has immutable files",
    ),
    (
        "unshared-blocks",
        "files of the temporary directory's file system share no blocks",
    ),
    ("realtime", "threads may be given a real-time priority"),
    ("processors", "there are several processors"),
    (
        "chance",
        "something happened that depends on what else the machine does; never required",
    ),
    (
        "fanotify",
        "the file system of the temporary directory can be watched",
    ),
    ("ext4-abort", "ext4 can be made to give up"),
    ("registry", "packages can be had from npm's registry"),
    ("python-tests", "Python's own tests are installed"),
    ("system-python", "there is a Python in /usr/bin"),
    (
        "kernel",
        "Linux 6.9 or newer, with /proc/PID/pagemap and kcmp(2) for whoever runs the tests",
    ),
    (
        "tools",
        "the programs that mount-scripts/setup installs, and cargo",
    ),
    ("browser", "a browser that runs without a screen"),
    ("playwright", "Playwright is in target/package-tools"),
    ("device", "there is a device that an agent can be shown"),
    ("containers", "runc starts containers"),
    (
        "container-filter",
        "the filter of system calls of containers is installed",
    ),
    ("sandbox", "programs can be run in a sandbox"),
    (
        "apparmor",
        "AppArmor's parser is installed, of release 4 or newer",
    ),
    ("no-policy", "the machine has no policy of real programs"),
    ("ssh-server", "a server of SSH is installed"),
    ("go", "Go is installed"),
    (
        "mcp-clients",
        "clients of the Model Context Protocol are in target/mcp-clients",
    ),
    (
        "agents",
        "Claude Code, Codex, Gemini CLI and opencode are in target/agents",
    ),
    (
        "package-tools",
        "uv, pnpm, Node and npm are in target/package-tools",
    ),
    (
        "stand-in",
        "file systems in user space can be made with pyfuse3 (python3-pyfuse3)",
    ),
    ("pynacl", "PyNaCl is in target/pynacl"),
    ("jsonschema", "python3 has jsonschema"),
];

/// Prints that the test is skipped, and returns from it; fails it where what is missing is required: `skip!("loop", "no disk: {why}")`.
macro_rules! skip {
    ($key:literal, $($reason:tt)*) => {{
        $crate::need::skipped($key, &format!($($reason)*));
        return;
    }};
}
pub(crate) use skip;

/// Whether a thing is required by a list of keys.
fn is_required(list: &str, key: &str) -> Result<bool, String> {
    let known = |key: &str| KEYS.iter().any(|(known, _)| *known == key);
    if !known(key) {
        return Err(format!("{key:?} is no key of tests/common/need.rs"));
    }
    let mut required = false;
    for word in list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        if word != "all" && !known(word) {
            return Err(format!(
                "REQUIRE has {word:?}, which is no key of tests/common/need.rs"
            ));
        }
        required |= word == "all" || word == key;
    }
    Ok(required)
}

/// Says that a test is skipped, for want of what `key` stands for; fails it where that is required.
#[allow(clippy::panic, reason = "a panic is how a test fails")]
pub(crate) fn skipped(key: &str, reason: &str) {
    let list = std::env::var("REQUIRE").unwrap_or_default();
    match is_required(&list, key) {
        Ok(false) => {}
        Ok(true) => {
            panic!("skipping this is not allowed, since REQUIRE={list} has {key}: {reason}")
        }
        Err(problem) => panic!("{problem}"),
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // `eprintln!` would be captured, and a captured skip reads like a pass. One write, so that no other test's line gets into it.
    let line = format!("SKIPPED [{key}] {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_not_skipped() {
        assert_eq!(is_required("", "loop"), Ok(false));
        assert_eq!(is_required("root,fuse", "loop"), Ok(false));
        assert_eq!(is_required("root, loop,fuse", "loop"), Ok(true));
        assert_eq!(is_required("all", "loop"), Ok(true));
        assert!(is_required("root,lop", "loop").is_err());
        assert!(is_required("root", "lop").is_err());
    }
}
