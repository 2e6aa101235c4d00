//! A person in the store and an agent in its home: a small part of `benches/trials/two`, and how what stands in the way is
//! named.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_root, need_tools, run_limited, trumanfs};

/// Fixed seeds, with a run, an agent and a bare program in the home; the trial has thousands.
#[test]
fn trial_of_two_holds() {
    need_mount!();
    need_tools!("python3", "unshare", "sed");
    need_root!("the trial needs namespaces and a file system of its own");
    let trial = crate::common::repository().join("benches/trials/two/two.py");
    let kept = tempfile::TempDir::with_prefix("trumanfs-two-kept-").unwrap();
    let mut command = Command::new("python3");
    command
        .arg(trial)
        .args(["--seeds", "0,2,3", "--fs", "tmpfs", "--label", "test"])
        .args(["--binary", crate::common::binary()])
        .arg("--keep")
        .arg(kept.path());
    let output = run_limited(command, Duration::from_secs(300));
    assert!(output.status.success(), "{}", describe(&output));
}

/// A bare name does not say which of several things is meant.
#[test]
fn conflicts_name_whole_paths() {
    need_mount!();
    named_after("mkdir d/n", "echo text > d/n/owner", "/d/n has owner in it");
    let gone = "/d/g is not in the store any more";
    named_after("mv d/g d/g~; echo x > d/g", "rm -r d", gone);
}

/// Checks how an undo names a change of the home after one of its owner's.
#[track_caller]
fn named_after(change: &str, by_owner: &str, wanted: &str) {
    let prepare = |store: &Path| {
        fs::create_dir(store.join("d")).unwrap();
        fs::write(store.join("d/g"), "text").unwrap();
    };
    let mut home = Home::prepared(prepare, &[]);
    home.sh(change);
    let mut owner = Command::new("sh");
    owner.args(["-c", by_owner]).current_dir(home.store());
    assert!(owner.status().unwrap().success());
    home.umount();
    let store = home.store().to_str().unwrap();
    let output = trumanfs(&["undo", store, "--session", "last"]);
    let told = describe(&output);
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains(wanted), "{told}");
}
