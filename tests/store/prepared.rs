//! A store prepared by someone else: a `.trumanfs` or `.trash` with any content that came with the files (in a clone
//! or an archive). Nothing outside the store is ever written or read, nothing waits forever, and whatever cannot be
//! ours is refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Home, describe, need_mount, need_root, trumanfs, watch};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use trumanfs::journal::ChainLink;

const NOBODY: u32 = 65534;

/// A store, a mountpoint and, on the same file system, what is none of theirs.
struct Place {
    _dir: tempfile::TempDir,
    store: PathBuf,
    home: PathBuf,
    outside: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::TempDir::with_prefix("trumanfs-prepared-").unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let [store, home, outside] = ["store", "home", "outside"].map(|name| {
        fs::create_dir(base.join(name)).unwrap();
        base.join(name)
    });
    fs::write(store.join("f"), "f").unwrap();
    fs::write(outside.join("precious"), "treasure\n").unwrap();
    Place {
        _dir: dir,
        store,
        home,
        outside,
    }
}

impl Place {
    fn run(&self, args: &[&str]) -> Output {
        let named = |arg: &&str| match *arg {
            "STORE" => self.store.as_os_str().to_owned(),
            "HOME" => self.home.as_os_str().to_owned(),
            other => OsStr::new(other).to_owned(),
        };
        trumanfs(&args.iter().map(named).collect::<Vec<_>>())
    }

    /// Everything that an operator may type, each within the harness's limit, and mounting with a change in the home.
    fn everything(&self, what: &str) {
        let lines: [&[&str]; 10] = [
            &["log", "STORE", "--all"],
            &["diff", "STORE"],
            &["cat", "STORE", "/f", "--at", "last"],
            &["trash", "list", "STORE"],
            &["fsck", "STORE"],
            &["exec", "--root", "STORE", "--", "cat f; echo x > made"],
            &["undo", "STORE", "--session", "last", "--force"],
            &["restore", "STORE", "/f", "--at", "last"],
            &["fsck", "STORE", "--repair"],
            &["mount", "STORE", "HOME"],
        ];
        for line in lines {
            let output = self.run(line);
            let said = describe(&output);
            assert!(output.status.code().is_some(), "{what}: {line:?}: {said}");
            assert!(!said.contains("panicked"), "{what}: {line:?}: {said}");
            assert!(!said.contains("treasure"), "{what}: {line:?}: {said}");
            if line[0] == "mount" && output.status.success() {
                let _ = fs::remove_file(self.home.join("f"));
                let ended = self.run(&["umount", "HOME"]);
                assert!(ended.status.success(), "{what}: {}", describe(&ended));
            }
        }
        watch::abort_and_detach(&self.home);
        self.untouched(what);
    }

    fn untouched(&self, what: &str) {
        let names = fs::read_dir(&self.outside).unwrap();
        let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["precious"], "{what}");
        let precious = fs::read(self.outside.join("precious")).unwrap();
        assert_eq!(precious, b"treasure\n", "{what}");
        let meta = fs::metadata(self.outside.join("precious")).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, 0o644, "{what}");
    }
}

fn private(dir: &Path) {
    fs::DirBuilder::new().mode(0o700).create(dir).unwrap();
}

fn list(dir: &Path) -> Vec<(PathBuf, u64, i64)> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                pending.push(path.clone());
            }
            found.push((path, meta.ino(), meta.ctime_nsec()));
        }
    }
    found.sort();
    found
}

#[test]
fn directories_that_cannot_be_ours_are_refused() {
    need_mount!();
    need_root!("to give directories to others");
    for (name, mode, uid) in [
        (".trumanfs", 0o755, 0),
        (".trumanfs", 0o700, NOBODY),
        (".trumanfs", 0o711, 0),
        (".trash", 0o755, 0),
        (".trash", 0o700, NOBODY),
        (".trash", 0o1777, 0),
    ] {
        let what = format!("{name} {mode:o} of {uid}");
        let place = place();
        let dir = place.store.join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("theirs"), "theirs").unwrap();
        chown(&dir, Some(uid), Some(uid)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        let before = list(&dir);
        for line in [
            &["mount", "STORE", "HOME"][..],
            &["exec", "--root", "STORE", "--", "rm f"],
        ] {
            let output = place.run(line);
            watch::abort_and_detach(&place.home);
            let said = describe(&output);
            assert!(!output.status.success(), "{what}: {line:?}: {said}");
            let words = [
                &format!("{name} in the store was not made by"),
                "move it away",
            ];
            for word in words {
                assert!(said.contains(word), "{what}: {line:?}: {said}");
            }
            assert_eq!(list(&dir), before, "{what}: {line:?}");
            assert!(place.store.join("f").exists(), "{what}: {line:?}");
        }
        // The remedy.
        fs::rename(&dir, place.outside.join("away")).unwrap();
        let mut home = place.run(&["mount", "STORE", "HOME"]);
        assert!(home.status.success(), "{what}: {}", describe(&home));
        home = place.run(&["umount", "HOME"]);
        assert!(home.status.success(), "{what}: {}", describe(&home));
    }
}

/// The trash of `--owner` is the owner's; root may look after it when nothing is mounted, and mount the store otherwise.
#[test]
fn the_trash_of_an_owner_is_ours() {
    need_mount!();
    need_root!("to mount for another user");
    let place = place();
    chown(&place.store, Some(NOBODY), Some(NOBODY)).unwrap();
    let done = |line: &[&str]| {
        let output = place.run(line);
        assert!(output.status.success(), "{line:?}: {}", describe(&output));
        output
    };
    for options in [&["--owner", "65534"][..], &[], &["--owner", "1"]] {
        done(&[&["mount", "STORE", "HOME"], options].concat());
        done(&["umount", "HOME"]);
        done(&["exec", "--root", "STORE", "--", "echo x > x; rm x"]);
        done(&["trash", "purge", "STORE", "--all"]);
    }
}

/// One thing in the place of each file that a store has of its own.
#[test]
fn nothing_in_a_prepared_state_directory_leads_out_or_waits() {
    need_mount!();
    let session = "20260101T000000.000000Z-0000";
    let journal = format!("sessions/{session}/journal.jsonl");
    let version = format!("sessions/{session}/versions/00000001");
    let map = format!("{version}.map");
    let files = [
        "lock",
        "links",
        "pinned",
        "links.new",
        "pinned.new",
        "tried.1",
        "tried.2",
        "control.sock",
        ".gitignore",
        "purging",
        "purging/x",
        "sessions",
        &journal,
        &version,
        &map,
    ];
    for name in files {
        for kind in [
            "pipe",
            "device",
            "hard link",
            "symlink",
            "huge",
            "directory",
            "link of a directory",
        ] {
            let what = format!("{name}: {kind}");
            let place = place();
            let state = place.store.join(".trumanfs");
            private(&state);
            let at = state.join(name);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            let node = |kind, dev| {
                mknodat(CWD, &at, kind, Mode::from_raw_mode(0o600), dev).unwrap();
            };
            let precious = place.outside.join("precious");
            match kind {
                "pipe" => node(FileType::Fifo, 0),
                // /dev/zero: whoever reads it to its end never comes back.
                "device" => node(FileType::CharacterDevice, makedev(1, 5)),
                "hard link" => fs::hard_link(&precious, &at).unwrap(),
                "symlink" => symlink(&precious, &at).unwrap(),
                "huge" => fs::File::create(&at).unwrap().set_len(1 << 42).unwrap(),
                "directory" => fs::create_dir(&at).unwrap(),
                _ => symlink(&place.outside, &at).unwrap(),
            }
            place.everything(&what);
        }
    }
}

/// Puts other words into the journal of a store, so that its chain holds.
fn rewrite(store: &Path, change: impl Fn(&str) -> String) {
    let mut sessions: Vec<_> = fs::read_dir(store.join(".trumanfs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sessions.sort();
    let journal = sessions.pop().unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let mut prev = None::<ChainLink>;
    let mut new = String::new();
    for line in text.lines() {
        let at = line.rfind("\"prev\":\"").unwrap() + "\"prev\":\"".len();
        let (record, was) = line.split_at(at);
        let (was, end) = was.split_at(was.find('"').unwrap());
        let prev_digits = prev.map_or("0".repeat(was.len()), |link| link.to_string());
        let line = format!("{}{prev_digits}{end}", change(record));
        prev = Some(ChainLink::of(line.as_bytes()));
        new += &line;
        new.push('\n');
    }
    fs::write(journal, new).unwrap();
}

/// The same store, and so the same identities; but its journal says what no daemon ever wrote.
#[test]
fn a_prepared_journal_names_nothing_outside() {
    need_mount!();
    let changes = "echo longer > f; mv f g; rm g; echo x > f; chmod 600 f; mkdir d; rmdir d";
    let swaps: [(&str, &str, &str); 14] = [
        ("paths climb", "\"/f\"", "\"/../outside/precious\""),
        (
            "paths climb from below",
            "\"/f\"",
            "\"/d/../../outside/precious\"",
        ),
        ("paths without a root", "\"/f\"", "\"../outside/precious\""),
        ("targets climb", "\"/g\"", "\"/../outside/taken\""),
        (
            "targets are the state directory",
            "\"/g\"",
            "\"/.trumanfs/lock\"",
        ),
        (
            "paths are the state directory",
            "\"/f\"",
            "\"/.trumanfs/lock\"",
        ),
        (
            "entries climb",
            "\"trash\":\"",
            "\"trash\":\"../../outside/",
        ),
        ("entries are two names", "\"trash\":\"", "\"trash\":\"x/"),
        ("versions", "\"n\":1", "\"n\":18446744073709551615"),
        ("numbers", "\"seq\":3", "\"seq\":18446744073709551615"),
        ("sizes", "\"size\":", "\"size\":9223372036854775807,\"x\":"),
        ("modes and owners", "\"mode\":", "\"mode\":2541,\"y\":"),
        (
            "sessions",
            "\"session\":\"",
            "\"session\":\"../../../outside/",
        ),
        ("time", "\"time\":\"2", "\"time\":\"9"),
    ];
    for (what, from, to) in swaps {
        for ended in [true, false] {
            let place = place();
            let done = |line: &[&str]| {
                let output = place.run(line);
                assert!(output.status.success(), "{what}: {}", describe(&output));
            };
            done(&["mount", "STORE", "HOME"]);
            let script = format!("cd {}; {changes}", place.home.display());
            let worked = std::process::Command::new("sh")
                .args(["-ec", &script])
                .status();
            assert!(worked.unwrap().success());
            done(&["umount", "HOME"]);
            rewrite(&place.store, |line| {
                match line.contains("\"op\":\"end\"") && !ended {
                    true => {
                        line.replace("\"op\":\"end\"", "\"op\":\"mkdir\",\"path\":\"/nothing\"")
                    }
                    false => line.replace(from, to),
                }
            });
            place.everything(&format!("{what}, ended {ended}"));
        }
    }
}

/// What keeps git from adding the store's own directories is no entry of the trash, and does not exist for the occupant.
#[test]
fn git_on_the_host_adds_nothing_of_ours() {
    need_mount!();
    let mut home = Home::mount();
    let git = |args: &[&str]| {
        let output = home.run(
            "git",
            &[&["-C", home.store().to_str().unwrap()], args].concat(),
        );
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    fs::write(home.path("f"), "f").unwrap();
    fs::write(home.path("g"), "g").unwrap();
    fs::remove_file(home.path("g")).unwrap();
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    assert_eq!(git(&["ls-files"]), "f\n");
    let in_trash = home.path(".trash/.gitignore");
    assert!(home.store().join(".trash/.gitignore").exists());
    assert!(!in_trash.exists());
    for made in [
        fs::write(&in_trash, "x"),
        fs::rename(&in_trash, home.path("x")),
        fs::create_dir(&in_trash),
    ] {
        assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
    let names = fs::read_dir(home.path(".trash")).unwrap();
    assert_eq!(names.count(), 1, "the entry of g");
    let listed = trumanfs(&["trash".as_ref(), "list".as_ref(), home.store().as_os_str()]);
    assert!(
        !describe(&listed).contains("gitignore"),
        "{}",
        describe(&listed)
    );
    assert_eq!(home.trash().len(), 1);
    let all = ["trash", "purge", home.store().to_str().unwrap(), "--all"];
    let purged = trumanfs(&all);
    assert!(purged.status.success(), "{}", describe(&purged));
    assert!(home.store().join(".trash/.gitignore").exists());
    let found = trumanfs(&["fsck".as_ref(), home.store().as_os_str()]);
    assert!(found.status.success(), "{}", describe(&found));
    // A store from before this gets them with its next mount; one that is there stays as it is.
    home.umount();
    fs::remove_file(home.store().join(".trumanfs/.gitignore")).unwrap();
    fs::write(home.store().join(".trash/.gitignore"), "!*\n").unwrap();
    home.mount_again();
    assert_eq!(
        fs::read(home.store().join(".trumanfs/.gitignore")).unwrap(),
        b"*\n"
    );
    assert_eq!(
        fs::read(home.store().join(".trash/.gitignore")).unwrap(),
        b"!*\n"
    );
}
