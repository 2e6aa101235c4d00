//! The power goes while an agent works: what its disk holds then is a clone of its image.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, begin, err, until};
use crate::common::disk::{Disk, run as tool, says};
use crate::common::tree::contents;
use crate::common::{binary, describe, need_mount, need_root, run_limited};
use crate::need::skip;

const SCRIPT: &str = "echo agent >a; rm -r dir; mv b moved; echo new >new; echo >ready
i=0; while sleep 0.005; do i=$((i+1)); echo $i >>a; echo $i >later-$i; mv later-$i later.$((i%7)); done";

fn agent(store: &Path, script: &str) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(store);
    command.args(["--", "bash", "-c", script]);
    command
}

/// The next agent works, and says what the one before had done; what was on the disk of it can be taken back.
#[test]
fn the_next_one_says_what_was_done_before_the_power_went() {
    need_mount!();
    need_root!("for loop devices");
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    let disk = Disk::within(&base.at("mnt"), &["mkfs.ext4", "-q"], 64).unwrap();
    let store = disk.store();
    fs::create_dir(store.join("dir")).unwrap();
    for (path, text) in [("a", "one\n"), ("b", "two\n"), ("dir/c", "three\n")] {
        fs::write(store.join(path), text).unwrap();
    }
    let before = contents(&store);
    let mut child = begin(agent(&store, SCRIPT));
    until("it works", || store.join("later.6").exists());
    tool("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
    let cuts: Vec<Disk> = (0..3)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(60));
            disk.cut(&base.at("mnt"))
        })
        .collect();
    kill_process(
        Pid::from_raw(child.id().cast_signed()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    child.wait().unwrap();
    for cut in &cuts {
        let store = cut.store();
        let output = run_limited(agent(&store, "cat new; cat b"), LIMIT);
        assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
        assert_eq!(output.stdout, b"new\n", "{}", describe(&output));
        let said = err(&output);
        for wanted in ["was killed", "/new ", "/moved "] {
            assert!(said.contains(wanted), "{wanted} is not in {said}");
        }
        let undo = said.lines().find(|line| line.contains("trumanfs undo "));
        let id = undo.and_then(|line| line.split("--run ").nth(1));
        let id = id.and_then(|rest| rest.split_whitespace().next());
        let undone = says(&store, &["undo", "--run", id.unwrap(), "--force"]);
        assert!(undone.contains("undone "), "{undone}");
        let mut after = contents(&store);
        // Of what was done after the last sync, the disk may have a change without its record, or the record alone: that is
        // a conflict, and all the rest is taken back by force.
        after.retain(|path, _| !path.to_string_lossy().starts_with("later"));
        assert_eq!(after, before, "{undone}");
    }
}
