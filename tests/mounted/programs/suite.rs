//! Python's own file tests, run in the home.

use std::path::PathBuf;
use std::time::Duration;

use crate::common::{describe, need_mount, run_limited, skip};
use crate::programs::script::{command, mount};

/// What Python's tests of files, directories, mappings and locks are called. Those that take longest (tarfile, zipfile, io) are left
/// out for time; they passed when they were tried.
const SUITES: &[&str] = &[
    "test_tempfile",
    "test_shutil",
    "test_os",
    "test_posix",
    "test_mmap",
    "test_glob",
    "test_pathlib",
    "test_fcntl",
    "test_fileio",
    "test_file",
    "test_genericpath",
    "test_posixpath",
    "test_filecmp",
    "test_fileinput",
    "test_shelve",
    "test_mailbox",
    "test_stat",
    "test_unicode_file",
    "test_largefile",
    "test_dbm_dumb",
    "test_sqlite3",
];

/// Tests that cannot pass where symlinks do not exist, and do not ask first as the others do.
const NEED_SYMLINKS: &[&str] = &[
    // Meant to change a link's target; the link that setUp would have made is missing.
    "test_chmod_follow_symlinks_true",
    // Call symlink(2) itself, which answers EPERM.
    "test_lchown",
    "test_readlink_dir_fd",
    "test_symlink_dir_fd",
];

/// Finds a Python that has its tests with it, as pyenv's and those built from source have, and Debian's have not.
fn python_with_tests() -> Option<PathBuf> {
    let mut candidates = vec![PathBuf::from("python3"), PathBuf::from("/usr/bin/python3")];
    candidates.extend((8..16).rev().map(|minor| format!("python3.{minor}").into()));
    candidates.into_iter().find_map(|python| {
        let output = std::process::Command::new(python)
            .args([
                "-c",
                "import test.test_tempfile, test.test_os, sys; print(sys.executable)",
            ])
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| path.trim().into())
    })
}

#[test]
fn pythons_own_tests_pass() {
    need_mount!();
    let Some(python) = python_with_tests() else {
        skip!(
            "python-tests",
            "no Python here has its own tests (the package `test`) with it"
        );
    };
    let home = mount(&[]);
    let mut command = command(python.to_str().unwrap(), home.home(), home.base());
    command.args(["-m", "test", "-j2", "--timeout", "90", "--tempdir"]);
    command.arg(home.path("tmp"));
    NEED_SYMLINKS.iter().for_each(|name| {
        command.args(["-i", name]);
    });
    command.args(SUITES);
    let output = run_limited(command, Duration::from_secs(280));
    assert!(output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("SUCCESS"), "{said}");
}
