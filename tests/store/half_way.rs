//! Putting a content back that stops half-way: on a disk that fills up, and where the process is killed. What was there
//! stays kept, the journal says what happened, and it can be taken back.
//!
//! The file has two names, so its inode cannot be replaced: its new content is written over the old one.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::disk::Disk;
use crate::common::random::Random;
use crate::common::{Home, binary, describe, need_mount, need_root, skip, trumanfs};
use crate::full_disk::Small;
use crate::review::{done, run};

/// A content that says all the way through whose it is.
fn filled(word: &str, length: usize) -> Vec<u8> {
    format!("<{word}>\n").bytes().cycle().take(length).collect()
}

/// A store with a file of two names, and what its content is and was.
struct Written {
    store: PathBuf,
    was: Vec<u8>,
    is: Vec<u8>,
    /// The operation before the change.
    before: String,
}

/// Changes a file of two names in place, in a session that ends.
fn written(base: &Path, length: usize, script: &str) -> (Home, Written) {
    let was = filled("was", length);
    let home = Home::plan()
        .on(base)
        .prepare(|store| {
            fs::write(store.join("f"), &was).unwrap();
            fs::hard_link(store.join("f"), store.join("g")).unwrap();
        })
        .mount();
    let before = home.journal().last().unwrap().clone();
    home.sh(script);
    let written = Written {
        store: home.store().to_owned(),
        was,
        is: fs::read(home.path("f")).unwrap(),
        before: format!(
            "{}:{}",
            home.journal()[0]["session"].as_str().unwrap(),
            before["seq"]
        ),
    };
    assert_ne!(written.is, written.was);
    (home, written)
}

impl Written {
    fn restore(&self) -> Output {
        let words: [&str; 2] = ["restore", self.store.to_str().unwrap()];
        trumanfs(&[&words[..], &["/f", "--at", &self.before]].concat())
    }

    fn now(&self) -> Vec<u8> {
        let now = fs::read(self.store.join("f")).unwrap();
        assert!(now == fs::read(self.store.join("g")).unwrap(), "two names");
        now
    }

    /// The records of changed contents by an operator that stand.
    fn contents(&self) -> usize {
        let records = records(&self.store);
        let is_aborted = |record: &Value| {
            let of_it = |other: &&Value| {
                other["op"] == "abort"
                    && other["of"] == record["seq"]
                    && other["session"] == record["session"]
            };
            records.iter().any(|other| of_it(&other))
        };
        let contents = records.iter().filter(|record| record["op"] == "content");
        contents.filter(|record| !is_aborted(record)).count()
    }

    /// Takes the last operation of an operator back: the file is as it was before that. Where it was killed between its
    /// record and its first write, there may be nothing to do.
    #[track_caller]
    fn redone(&self) {
        let store = self.store.to_str().unwrap();
        let was_untouched = self.now() == self.is;
        let output = trumanfs(&["redo", store]);
        match output.status.code() {
            Some(0) => {}
            Some(1) if was_untouched => {}
            _ => panic!("{}", describe(&output)),
        }
        assert!(self.now() == self.is, "not all of it came back");
    }

    /// The same, and nothing is wrong with the store.
    #[track_caller]
    fn taken_back(&self) {
        self.redone();
        let store = self.store.to_str().unwrap();
        let (said, _) = done(0, &["fsck", store]);
        assert!(said.contains("everything agrees"), "{said}");
    }
}

/// The records of all sessions, each with its session.
fn records(store: &Path) -> Vec<Value> {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let mut sessions: Vec<PathBuf> = sessions.map(|entry| entry.unwrap().path()).collect();
    sessions.sort();
    let of = |session: &PathBuf| -> Vec<Value> {
        let text = fs::read_to_string(session.join("journal.jsonl")).unwrap_or_default();
        let name = session.file_name().unwrap().to_str().unwrap().to_owned();
        let lines = text.lines().filter_map(|line| {
            // The last one may be half written.
            let mut record: Value = serde_json::from_str(line).ok()?;
            record["session"] = name.clone().into();
            Some(record)
        });
        lines.collect()
    };
    sessions.iter().flat_map(of).collect()
}

/// Leaves so much room on a disk, in a file beside the store that is to be removed.
fn leave(at: &Path, room: u64) -> PathBuf {
    let filler = at.join("filler");
    let file = fs::File::create(&filler).unwrap();
    let free = rustix::fs::statvfs(at).unwrap();
    let free = free.f_bavail * free.f_frsize;
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, flags, 0, free.saturating_sub(room).max(1)).unwrap();
    filler
}

/// With more and more room: it is not begun, or stops half-way, or is done. Returns how often each was so.
fn with_more_and_more_room(at: &Path, written: &Written, rooms: &[u64]) -> [usize; 3] {
    let mut ends = [0; 3];
    for room in rooms {
        assert!(written.now() == written.is);
        let before = written.contents();
        let filler = leave(at, *room);
        let output = written.restore();
        let said = describe(&output);
        fs::remove_file(filler).unwrap();
        let now = written.now();
        let recorded = written.contents() - before;
        let end = match (output.status.code(), recorded) {
            (Some(0), 1) => {
                assert!(now == written.was, "{room}: {said}");
                2
            }
            (Some(5), 1) => {
                assert!(
                    said.contains("only part of the new content"),
                    "{room}: {said}"
                );
                assert!(said.contains("is full"), "{room}: {said}");
                1
            }
            (Some(code), 0) if code != 0 => {
                assert!(now == written.is, "{room}: nothing is recorded: {said}");
                assert!(said.contains("is full"), "{room}: {said}");
                0
            }
            other => panic!("{room}: {other:?}: {said}"),
        };
        ends[end] += 1;
        if end > 0 {
            written.taken_back();
        }
    }
    ends
}

const MIB: u64 = 1 << 20;

/// What is now a hole takes space when the former content comes back.
fn in_a_hole(small: &Small, is_mounted: bool) {
    let script = "truncate -s 0 f; truncate -s 3M f; printf end >> f";
    let (mut home, written) = written(&small.path(), 3 << 20, script);
    if !is_mounted {
        home.umount();
    }
    let rooms = [1, 2, 4, 5, 12].map(|room| room * MIB);
    let ends = with_more_and_more_room(&small.path(), &written, &rooms);
    assert!(ends.iter().all(|end| *end > 0), "{ends:?}");
}

#[test]
fn a_full_tmpfs_stops_it_and_nothing_is_lost() {
    need_mount!();
    need_root!("to mount a tmpfs");
    in_a_hole(&Small::tmpfs("size=24m"), false);
    in_a_hole(&Small::tmpfs("size=24m"), true);
}

#[test]
fn a_full_ext4_stops_it_and_nothing_is_lost() {
    need_mount!();
    for is_mounted in [false, true] {
        match Small::ext4(32, false) {
            Ok(small) => in_a_hole(&small, is_mounted),
            Err(reason) => skip!("ext4", "{reason}"),
        }
    }
}

/// Where blocks are shared, a former content takes no space when it comes back.
#[test]
fn a_full_xfs_with_shared_blocks_does_not_stop_it() {
    need_mount!();
    need_root!("to mount a disk");
    let disk = match Disk::new(&["mkfs.xfs", "-q"], 400) {
        Ok(disk) => disk,
        Err(reason) => skip!("xfs", "{reason}"),
    };
    let script = "python3 -c \"open('f', 'r+b').write(b'<other>' * 1200000)\"";
    let (mut home, written) = written(&disk.at("mnt"), 8 << 20, script);
    home.umount();
    let rooms = [4, 9, 12, 15, 40].map(|room| room * MIB);
    let ends = with_more_and_more_room(&disk.at("mnt"), &written, &rooms);
    drop(home);
    assert_eq!(ends, [0, 0, 5]);
}

/// Starts a command that changes a content, and waits until that is recorded.
fn until_recorded(words: &[&str], written: &Written) -> Child {
    let before = written.contents();
    let child = Command::new(binary())
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while written.contents() == before {
        assert!(begun.elapsed() < Duration::from_secs(30), "{words:?}");
    }
    child
}

/// Returns whether a content is neither of two.
fn is_half(written: &Written) -> bool {
    let now = written.now();
    now != written.was && now != written.is
}

const KILLED: u64 = 6;
const LONG: usize = 24 << 20;
const OTHER: &str = "python3 -c \"open('f', 'r+b').write(b'<other>' * 3000000)\"";

/// Where the record was written and the process killed, the file is what it was, or is to be, or neither; what it was is
/// whole in any case.
#[test]
fn killed_half_way_it_can_be_taken_back() {
    need_mount!();
    let base = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let (mut home, written) = written(base.path(), LONG, OTHER);
    home.umount();
    let store = written.store.to_str().unwrap();
    let (mut random, mut halves) = (Random(0x4a1f), 0);
    for _ in 0..KILLED {
        let mut child =
            until_recorded(&["restore", store, "/f", "--at", &written.before], &written);
        std::thread::sleep(Duration::from_micros(random.below(4000)));
        child.kill().unwrap();
        child.wait().unwrap();
        halves += u32::from(is_half(&written));
        written.taken_back();
    }
    if halves == 0 {
        skip!("chance", "none of {KILLED} kills came half-way");
    }
}

/// The same of the daemon. Whoever asked it hears that part of it may have been done.
#[test]
fn a_daemon_that_is_killed_half_way_leaves_what_can_be_taken_back() {
    need_mount!();
    let base = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let (mut home, written) = written(base.path(), LONG, OTHER);
    let store = written.store.to_str().unwrap().to_owned();
    let mut halves = 0;
    for _ in 0..4 {
        let child = until_recorded(
            &["restore", &store, "/f", "--at", &written.before],
            &written,
        );
        home.kill_daemon();
        let output = child.wait_with_output().unwrap();
        let said = describe(&output);
        match output.status.code() {
            Some(0) => {}
            Some(5) => assert!(said.contains("went away in the middle"), "{said}"),
            _ => panic!("{said}"),
        }
        halves += u32::from(is_half(&written));
        home.mount_again();
        written.redone();
        home.umount();
        done(0, &["fsck", &store]);
        home.mount_again();
    }
    if halves == 0 {
        skip!("chance", "none of 4 kills came half-way");
    }
}

/// A text with a hole behind its lines: taking a hunk back writes zeros into it.
#[test]
fn a_rejected_hunk_that_stops_half_way_can_be_taken_back() {
    need_mount!();
    need_root!("to mount a tmpfs");
    let small = Small::tmpfs("size=24m");
    let lines = |word: &str| -> String { (0..3000).map(|n| format!("{word} {n}\n")).collect() };
    let prepare = |store: &Path| {
        fs::write(store.join("f"), lines("was")).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(store.join("f"))
            .unwrap();
        file.write_at(b"end\n", 3 << 20).unwrap();
        fs::hard_link(store.join("f"), store.join("g")).unwrap();
    };
    let mut home = Home::plan().on(&small.path()).prepare(prepare).mount();
    let script = "python3 -c \"import os; f = open('f', 'r+b'); f.write(b'now 0')\"";
    home.sh(script);
    let is = fs::read(home.path("f")).unwrap();
    let (mut halves, mut clean) = (0, 0);
    for is_mounted in [true, false] {
        if !is_mounted {
            home.umount();
        }
        let store = home.store().to_str().unwrap().to_owned();
        for room in [2, 4, 5].map(|room| room * MIB) {
            let filler = leave(&small.path(), room);
            let words = ["reject", &store, "--session", "last", "/f", "--hunk", "1"];
            let first = home.journal()[0]["session"].as_str().unwrap().to_owned();
            let words = words.map(|word| if word == "last" { first.as_str() } else { word });
            let output = trumanfs(&words);
            fs::remove_file(filler).unwrap();
            let (said, now) = (describe(&output), fs::read(home.store().join("f")).unwrap());
            match output.status.code() {
                Some(5) => {
                    assert!(said.contains("/f: only part of the new content"), "{said}");
                    assert!(said.contains("trumanfs redo"), "{said}");
                    halves += 1;
                    done(0, &["redo", &store]);
                }
                Some(0) => panic!("{room}: there was room: {said}"),
                _ => {
                    assert!(said.contains("/f: ") && said.contains("is full"), "{said}");
                    assert!(now == is, "{said}");
                    clean += 1;
                }
            }
            assert!(fs::read(home.store().join("f")).unwrap() == is, "{said}");
        }
        done(0, &["fsck", &store]);
    }
    assert!(halves > 0 && clean > 0, "{halves} {clean}");
}

/// A hunk that came back with a redo can be rejected again.
#[test]
fn after_a_redo_it_can_be_done_again() {
    need_mount!();
    let base = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let home = Home::plan()
        .on(base.path())
        .prepare(|store| fs::write(store.join("a"), "one\ntwo\n").unwrap())
        .mount();
    let at = home.home().to_str().unwrap();
    let ours = run(&home, "echo three >> a");
    for _ in 0..3 {
        done(0, &["reject", at, &ours, "a", "--hunk", "1"]);
        assert_eq!(fs::read(home.path("a")).unwrap(), b"one\ntwo\n");
        done(0, &["redo", at]);
        assert_eq!(fs::read(home.path("a")).unwrap(), b"one\ntwo\nthree\n");
    }
}
