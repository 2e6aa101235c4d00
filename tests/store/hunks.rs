//! Single hunks of a review: taken back into the file as it is now, or accepted; what others changed since is never lost.

use std::fs;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trumanfs::error::Error;
use trumanfs::name::{Name, WorldPath};
use trumanfs::world::keep::replace::NewContent;
use trumanfs::world::{Caller, NoOpenState, OpenState, World};

use crate::common::{Home, need_mount};
use crate::review::{done, listed, run};

/// The lines 1 to 40, some of them changed.
fn numbered(changed: &[(usize, &str)]) -> String {
    let line = |n: usize| {
        let changed = changed.iter().find(|(at, _)| *at == n);
        changed.map_or_else(|| format!("{n}\n"), |(_, line)| (*line).to_owned())
    };
    (1..=40).map(line).collect()
}

const CHANGED: [(usize, &str); 3] = [(5, "five\n"), (20, "twenty\n"), (35, "")];

/// Four files, what a run makes of them, and the same with the first changed line only.
fn four_files(store: &Path) {
    for name in ["a", "b", "c", "d"] {
        fs::write(store.join(name), numbered(&[])).unwrap();
    }
    fs::write(store.join("changed"), numbered(&CHANGED)).unwrap();
    fs::write(store.join("begun"), numbered(&CHANGED[..1])).unwrap();
}

fn read(home: &Home, name: &str) -> String {
    fs::read_to_string(home.path(name)).unwrap()
}

/// Lines that are not UTF-8.
fn latin() -> Vec<u8> {
    let mut text = b"\xe4\xf6\xfc\xff\n".to_vec();
    text.extend_from_slice(numbered(&[]).as_bytes());
    text
}

#[track_caller]
fn states(target: &str, path: &str, more: &[&str]) -> Vec<String> {
    let (all, _) = done(
        1,
        &[&["review", target, "--patch", "--json"], more].concat(),
    );
    let mut values = all
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = values.find(|value| value["path"] == path).unwrap();
    let hunks = found["hunks"].as_array().unwrap().clone();
    hunks
        .iter()
        .map(|hunk| hunk["state"].as_str().unwrap().to_owned())
        .collect()
}

/// One of three files loses a hunk, while a fourth, and other lines of the first, were changed by hand.
#[test]
fn a_hunk_goes_and_everything_else_stays() {
    need_mount!();
    let mut home = Home::prepared(four_files, &[]);
    let at = home.home().to_str().unwrap().to_owned();
    let ours = run(&home, "cat changed > a; cat changed > b; cat changed > c");
    home.sh("echo by-hand >> d; sed -i 's/^11$/by-hand/' a");
    let by_hand = [&CHANGED[..], &[(11, "by-hand\n")]].concat();
    assert_eq!(read(&home, "a"), numbered(&by_hand));

    let (patch, _) = done(1, &["review", &at, "--run", &ours, "--patch"]);
    assert!(
        patch.contains("@@ -17,7 +17,7 @@ hunk 2\n 17\n 18\n 19\n-20\n+twenty\n"),
        "{patch}"
    );
    assert!(
        !patch.contains("by-hand"),
        "what others did is no part of it: {patch}"
    );
    let (said, _) = done(0, &["reject", &at, &ours, "a", "--hunk", "2", "--dry-run"]);
    assert!(
        said.contains("would take back @@ -17,7 +17,7 @@ of /a"),
        "{said}"
    );
    assert_eq!(read(&home, "a"), numbered(&by_hand));

    let (said, _) = done(0, &["reject", &at, &ours, "a", "--hunk", "2"]);
    assert!(said.contains("put back the content of /a"), "{said}");
    assert!(said.contains("took back @@ -17,7 +17,7 @@ of /a"), "{said}");
    let without = [(5, "five\n"), (11, "by-hand\n"), (35, "")];
    assert_eq!(read(&home, "a"), numbered(&without));
    assert_eq!(read(&home, "b"), numbered(&CHANGED));
    assert_eq!(read(&home, "d"), numbered(&[]) + "by-hand\n");
    assert_eq!(
        states(&at, "/a", &["--run", &ours]),
        ["open", "gone", "open"]
    );
    let (_, said) = done(3, &["reject", &at, &ours, "a", "--hunk", "2"]);
    assert!(said.contains("/a: hunk 2 is as it was before"), "{said}");

    // It is a run of its own, which a redo takes back; and what is left can go as well, mounted or not.
    done(0, &["redo", &at]);
    assert_eq!(read(&home, "a"), numbered(&by_hand));
    home.umount();
    let store = home.store().to_str().unwrap().to_owned();
    done(
        0,
        &[
            "reject", &store, &ours, "/a", "--hunk", "1,2", "--hunk", "3",
        ],
    );
    let left = fs::read_to_string(home.store().join("a")).unwrap();
    assert_eq!(left, numbered(&[(11, "by-hand\n")]));
    let (fsck, _) = done(0, &["fsck", &store]);
    assert!(fsck.contains("everything agrees"), "{fsck}");
}

/// Lines that somebody changed since are named, with who did it, and stay.
#[test]
fn lines_that_others_changed_since_are_a_conflict() {
    need_mount!();
    let home = Home::prepared(four_files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(&home, "cat changed > a; mv changed b");
    // In place, and as an editor saves: another file in its place.
    home.sh("sed 's/^five$/fünf/' a > u; cat u > a; sed 's/^five$/fünf/' b > u; mv u b");
    let left = numbered(&[(5, "fünf\n"), (20, "twenty\n"), (35, "")]);
    for name in ["a", "b"] {
        let path = format!("/{name}");
        assert_eq!(read(&home, name), left);
        assert_eq!(
            states(at, &path, &["--run", &ours]),
            ["overtaken", "open", "open"],
            "{name}"
        );
        let before = home.journal().len();
        let (_, said) = done(4, &["reject", at, &ours, name, "--hunk", "1,2"]);
        assert!(
            said.contains(&format!("{path}: the lines of @@ -2,7 +2,7 @@")),
            "{said}"
        );
        assert!(
            said.contains(&format!(" {path} by ")) || said.contains(&format!("→ {path} by ")),
            "{said}"
        );
        assert_eq!(home.journal().len(), before, "a conflict writes nothing");
        assert_eq!(read(&home, name), left);
        done(0, &["reject", at, &ours, name, "--hunk", "2"]);
        assert_eq!(read(&home, name), numbered(&[(5, "fünf\n"), (35, "")]));
    }
}

/// Whose lines are whose cannot be told where others worked on the file in between.
#[test]
fn changes_of_others_in_between_are_a_conflict() {
    need_mount!();
    let home = Home::prepared(four_files, &[]);
    let at = home.home().to_str().unwrap();
    let line = "cat begun > a; cat; cat changed >> a";
    let mut child = Command::new(crate::common::binary())
        .args(["exec", "--root", at, "--", line])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while read(&home, "a") != numbered(&CHANGED[..1]) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the run does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    home.sh("sed -i 's/^11$/by-hand/' a");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let journal = home.journal();
    let record = journal.iter().find(|record| record["op"] == "run");
    let ours = record.unwrap()["origin"]["run"].as_str().unwrap();
    let now = read(&home, "a");
    assert!(now.contains("by-hand"), "{now}");
    let (_, said) = done(4, &["reject", at, ours, "a", "--hunk", "1"]);
    assert!(said.contains("were changed by others"), "{said}");
    assert_eq!(read(&home, "a"), now);
}

/// Accepted hunks leave the list; with the last one, the path does. What changes again is listed again.
#[test]
fn accepted_hunks_leave_the_list_one_by_one() {
    need_mount!();
    let home = Home::prepared(four_files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(&home, "cat changed > a");
    let (said, _) = done(0, &["accept", at, &ours, "a", "--hunk", "1"]);
    assert!(said.contains("accepted 1 hunk"), "{said}");
    assert_eq!(states(at, "/a", &[]), ["accepted", "open", "open"]);
    let (patch, _) = done(1, &["review", at, "--patch"]);
    assert!(
        !patch.contains("hunk 1") && patch.contains("hunk 2"),
        "{patch}"
    );
    done(3, &["accept", at, &ours, "a", "--hunk", "1"]);
    // A rejected one and the last one: nothing is left of the path.
    done(0, &["reject", at, &ours, "a", "--hunk", "2"]);
    assert_eq!(listed(at, &[]), ["m /a"]);
    let (said, _) = done(0, &["accept", at, &ours, "a", "--hunk", "3"]);
    assert!(said.contains("accepted 1 path"), "{said}");
    assert!(listed(at, &[]).is_empty());
    assert_eq!(read(&home, "a"), numbered(&[(5, "five\n"), (35, "")]));
    home.sh("sed -i 's/^5five$/x/; s/^30$/thirty/' a");
    let (patch, _) = done(1, &["review", at, "--patch"]);
    assert!(
        patch.contains("+thirty") && !patch.contains("five"),
        "{patch}"
    );
}

/// Of hunks with the same lines, the one that was accepted is, and the others are still to be reviewed.
#[test]
fn hunks_with_the_same_lines_are_told_apart() {
    need_mount!();
    let same = |more: &[usize]| -> String {
        let line = |n: usize| {
            if more.contains(&n) {
                "same\nmore\n"
            } else {
                "same\n"
            }
        };
        (1..=100).map(line).collect()
    };
    let files = |store: &Path| {
        fs::write(store.join("a"), same(&[])).unwrap();
        fs::write(store.join("changed"), same(&[20, 50, 80])).unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(&home, "cat changed > a");
    done(0, &["accept", at, &ours, "a", "--hunk", "2"]);
    assert_eq!(states(at, "/a", &[]), ["open", "accepted", "open"]);
    done(0, &["reject", at, &ours, "a", "--hunk", "1,3"]);
    assert_eq!(read(&home, "a"), same(&[50]));
    assert!(listed(at, &[]).is_empty());
}

/// What has no hunks, or not these, is said, and nothing is done.
#[test]
fn what_has_no_hunks_is_said() {
    need_mount!();
    let files = |store: &Path| {
        four_files(store);
        fs::write(store.join("binary"), [0; 100]).unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(
        &home,
        "echo x > new; rm b; echo x >> c; cp binary d; mkdir e",
    );
    let before = home.journal().len();
    for (code, path, hunk, said) in [
        (6, "new", "1", "/new was made as a whole"),
        (6, "b", "1", "/b was removed as a whole"),
        (6, "d", "1", "/d is no text"),
        (6, "e", "1", "/e is no file"),
        (3, "c", "2", "/c: hunk 2 is not there: it has 1"),
        (3, "c", "0", "/c: hunk 0 is not there"),
        (3, "nothing", "1", "/nothing is not among the changes"),
    ] {
        for verb in ["accept", "reject"] {
            let (_, told) = done(code, &[verb, at, &ours, path, "--hunk", hunk]);
            assert!(told.contains(said), "{verb} {path}: {told}");
        }
    }
    for args in [
        &["reject", at, &ours, "--hunk", "1"][..],
        &["accept", at, &ours, "a", "c", "--hunk", "1"],
        &["reject", at, &ours, "c", "--hunk", "1", "--force"],
        &["reject", at, &ours, "c", "--hunk", "x"],
    ] {
        done(2, args);
    }
    assert_eq!(home.journal().len(), before);
}

/// Hostile names and lines, no newline at the end, and a file that was moved since.
#[test]
fn odd_files_have_hunks_too() {
    need_mount!();
    let files = |store: &Path| {
        fs::write(store.join("a\n\x1b[31m"), "one\n\x1b]0;title\x07\r\nthree").unwrap();
        fs::write(store.join("b"), latin()).unwrap();
        let changed = [latin().get(5..).unwrap(), b"end\n"].concat();
        fs::write(store.join("changed"), changed).unwrap();
    };
    let home = Home::prepared(files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(&home, r#"echo more >> "$(ls a*)"; cat changed > b"#);
    home.sh("mkdir sub; mv b sub/moved");
    done(0, &["reject", at, &ours, "a\n\x1b[31m", "--hunk", "1"]);
    assert_eq!(read(&home, "a\n\x1b[31m"), "one\n\x1b]0;title\x07\r\nthree");
    done(0, &["reject", at, &ours, "sub/moved", "--hunk", "2"]);
    let moved = || fs::read(home.path("sub/moved")).unwrap();
    assert_eq!(moved(), latin().get(5..).unwrap());
    done(0, &["reject", at, &ours, "sub/moved", "--hunk", "1"]);
    assert_eq!(moved(), latin());
}

/// A file that somebody has open.
struct Open;

impl OpenState for Open {
    fn is_open(&self) -> bool {
        true
    }
}

/// A content that is made while somebody adds a line to the file.
struct Slow<'t> {
    text: &'t [u8],
    file: &'t Path,
}

impl NewContent for Slow<'_> {
    fn size(&self) -> u64 {
        self.text.len() as u64
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        let mut log = fs::File::options().append(true).open(self.file).unwrap();
        log.write_all(b"added\n").unwrap();
        rustix::io::pwrite(file, self.text, 0).unwrap();
        Ok(())
    }
}

/// What is added to an open file while its content is put back was in neither the file nor the versions.
#[test]
fn what_is_added_to_an_open_file_meanwhile_stays() {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap().join("store");
    fs::create_dir(&store).unwrap();
    let (world, _) = World::open_offline(&store).unwrap();
    for (was, text) in [
        ("old\n", "a longer one\n"),
        ("a longer one\n", "new\n"),
        ("", "new\n"),
    ] {
        let file = store.join("log");
        fs::write(&file, was).unwrap();
        let dir = world.dir(&WorldPath::root()).unwrap();
        let located = world.locate(&dir, Name::new(b"log").unwrap()).unwrap();
        let slow = Slow {
            text: text.as_bytes(),
            file: &file,
        };
        world
            .put_content(&located, &slow, &Open, Caller::myself())
            .unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{text}added\n"));
    }
    world.close();
}

/// A content that was made of another one than what is there.
struct Stale;

impl NewContent for Stale {
    fn size(&self) -> u64 {
        4
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        rustix::io::pwrite(file, b"new\n", 0).unwrap();
        Ok(())
    }

    fn check(&self, _old: BorrowedFd<'_>) -> Result<(), Error> {
        Err(Error::Conflict {
            what: "another".to_owned(),
            remedy: String::new(),
        })
    }
}

/// Neither over the old one nor in a new inode, and nothing of it is left.
#[test]
fn a_content_that_was_made_of_another_one_is_not_put_there() {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap().join("store");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("file"), "old\n").unwrap();
    let (world, _) = World::open_offline(&store).unwrap();
    let session = store.join(".trumanfs/sessions").join(world.session());
    for open_state in [&Open as &dyn OpenState, &NoOpenState] {
        let dir = world.dir(&WorldPath::root()).unwrap();
        let located = world.locate(&dir, Name::new(b"file").unwrap()).unwrap();
        let put = world.put_content(&located, &Stale, open_state, Caller::myself());
        assert!(matches!(put, Err(Error::Conflict { .. })), "{put:?}");
        assert_eq!(fs::read(store.join("file")).unwrap(), b"old\n");
        let versions = fs::read_dir(session.join("versions")).unwrap();
        assert_eq!(versions.count(), 0);
    }
    let journal = fs::read_to_string(session.join("journal.jsonl")).unwrap();
    assert!(!journal.contains("content"), "{journal}");
    world.close();
}

/// A path is listed twice where one file was moved onto another: its hunks are those of the one that is there.
#[test]
fn a_file_that_was_moved_onto_another_has_its_hunks() {
    need_mount!();
    let home = Home::prepared(four_files, &[]);
    let at = home.home().to_str().unwrap();
    let ours = run(&home, "cat changed > a; rm b; mv a b");
    assert_eq!(listed(at, &[]).len(), 2, "{:?}", listed(at, &[]));
    done(0, &["reject", at, &ours, "b", "--hunk", "2"]);
    assert_eq!(read(&home, "b"), numbered(&[(5, "five\n"), (35, "")]));
}
