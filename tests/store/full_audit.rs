//! Requests of an executor in a store whose disk is full: each says so, the audit log and the journal have whole lines
//! only, and what is told of a request that could not be written down is told.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use trumanfs::exec::shell::Shell;
use trumanfs::exec::{Limits, Outcome, Status, StoreAccess, open};

use crate::common::{Home, describe, need_mount, skip, trumanfs};
use crate::full_disk::Small;

/// Uses up what the disk has, to the last block, beside the store.
fn fill(disk: &Path) {
    let file = fs::File::create(disk.join("filler")).unwrap();
    let mut at = 0;
    for length in [1 << 20, 4096, 512, 1] {
        let bytes = vec![b'x'; length];
        while file.write_all_at(&bytes, at).is_ok() {
            at += length as u64;
            assert!(at < 1 << 30, "the disk does not get full");
        }
    }
    let _ = file.sync_all();
}

fn shell(root: &Path) -> Shell {
    Shell::at(
        open(root, &StoreAccess::default()).unwrap(),
        Limits::default(),
    )
}

/// Runs a line until its line in the log no longer fits, and once more. Returns what came of the last.
fn until_it_is_full(shell: &mut Shell, line: &str) -> Outcome {
    for _ in 0..200 {
        let outcome = shell.run(line.as_bytes());
        assert_eq!(outcome.status, Status::Success, "{outcome:?}");
        if !outcome.warnings.is_empty() {
            return shell.run(line.as_bytes());
        }
    }
    panic!("the log finds space on a full disk");
}

/// The audit log, of whole lines alone.
fn audit(store: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap();
    assert!(text.ends_with('\n'), "torn: {text:?}");
    let parsed = text.lines().map(|line| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("torn: {error}: {line:?}"))
    });
    parsed.collect()
}

/// A line was cut off where the block ended, and stayed so.
fn requests_on_a_full_disk(small: &Small, root: &Path, store: &Path) {
    let mut shell = shell(root);
    assert_eq!(shell.run(b"mkdir d; echo a > d/a").status, Status::Success);
    // The next line crosses a page: a kernel writes one page after the other, and may write the first alone.
    let length = || {
        fs::metadata(store.join(".trumanfs/audit.jsonl"))
            .unwrap()
            .len()
    };
    while length() % 4096 < 4096 - 200 {
        assert_eq!(shell.run(b"cat d/a").warnings, Vec::<String>::new());
        assert!(length() < 1 << 20);
    }
    fill(&small.path());
    let read = until_it_is_full(&mut shell, "cat d/a");
    assert_eq!(read.stdout, b"a\n");
    assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
    assert!(read.warnings[0].contains("audit log was not written"));
    assert!(
        read.warnings[0].contains("No space left"),
        "{:?}",
        read.warnings
    );
    let before = audit(store).len();
    // A change too: it happens or it does not, and says which.
    for n in 0..20 {
        let line = format!("echo {} > d/b{n}", "b".repeat(8192));
        let changed = shell.run(line.as_bytes());
        let text = fs::read(root.join(format!("d/b{n}"))).unwrap_or_default();
        match changed.status {
            Status::Success => assert_eq!(text.len(), 8193),
            _ => assert!(!changed.stderr.is_empty(), "{changed:?}"),
        }
    }
    audit(store);
    fs::remove_file(small.path().join("filler")).unwrap();
    let after = shell.run(b"rm -r d");
    assert_eq!(after.status, Status::Success, "{after:?}");
    assert_eq!(after.warnings, Vec::<String>::new());
    let lines = audit(store);
    assert!(lines.len() > before);
    assert_eq!(lines.last().unwrap()["run"], after.run.to_string());
    drop(shell);
    for verb in [
        &["log"][..],
        &["fsck"],
        &["undo", "--run", "last"],
        &["log", "--op", "run"],
    ] {
        let (verb, rest) = verb.split_first().unwrap();
        let words = [&[*verb, store.to_str().unwrap()], rest].concat();
        let output = trumanfs(&words);
        assert!(output.status.success(), "{verb}: {}", describe(&output));
    }
    assert!(root.join("d/a").exists());
}

#[test]
fn requests_in_an_unmounted_store_on_a_full_ext4() {
    match Small::ext4(24, true) {
        Ok(small) => {
            let store = small.path().join("store");
            fs::create_dir(&store).unwrap();
            requests_on_a_full_disk(&small, &store, &store);
        }
        Err(reason) => skip!("ext4", "{reason}"),
    }
}

#[test]
fn requests_in_a_mounted_home_on_a_full_ext4() {
    need_mount!();
    match Small::ext4(24, true) {
        Ok(small) => {
            let home = Home::on(&small.path(), &[]);
            requests_on_a_full_disk(&small, home.home(), home.store());
        }
        Err(reason) => skip!("ext4", "{reason}"),
    }
}
