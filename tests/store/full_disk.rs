//! A store whose disk is full, out of inodes, read-only or failing: each operation either happens or does not, old
//! and new content are complete, and the daemon keeps running. Also stores and homes that must be refused before
//! anything is done.
//!
//! Owns the small file systems that this needs: tmpfs, and ext4 in a file.

use std::fs;
use std::os::unix::fs::symlink as plant_link;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::calls::*;
use crate::common::{Home, describe, need_mount, run_limited, skip, trumanfs, watch};
use rustix::mount::{MountFlags, UnmountFlags};

/// A small file system of its own, in a temporary directory; unmounted when dropped, and that must be after the home.
pub(crate) struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    pub(crate) fn tmpfs(options: &str) -> Small {
        let dir = tempfile::TempDir::with_prefix("trumanfs-small-").unwrap();
        let at = fs::canonicalize(dir.path()).unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount(
            "tmpfs",
            &at,
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        )
        .unwrap();
        Small { dir }
    }

    /// Ext4 in a file; none, with the reason, where there is no mkfs.ext4 or no loop device.
    pub(crate) fn ext4(megabytes: u64, journal: bool) -> Result<Small, String> {
        let dir = tempfile::TempDir::with_prefix("trumanfs-small-").unwrap();
        let image = dir.path().join("image");
        let at = dir.path().join("mnt");
        fs::create_dir(&at).unwrap();
        fs::File::create(&image)
            .unwrap()
            .set_len(megabytes << 20)
            .unwrap();
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-m", "0"]);
        if !journal {
            mkfs.args(["-O", "^has_journal"]);
        }
        match mkfs.arg(&image).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Err(format!("mkfs.ext4: {}", describe(&output))),
            Err(error) => return Err(format!("needs mkfs.ext4 (package e2fsprogs): {error}")),
        }
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(&image).arg(&at);
        let output = run_limited(mount, Duration::from_secs(60));
        if !output.status.success() {
            return Err(format!("needs loop devices: {}", describe(&output)));
        }
        Ok(Small { dir })
    }

    pub(crate) fn path(&self) -> PathBuf {
        let top = fs::canonicalize(self.dir.path()).unwrap();
        if top.join("mnt").exists() {
            top.join("mnt")
        } else {
            top
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let at = self.path();
        let _ = rustix::mount::unmount(&at, UnmountFlags::empty())
            .or_else(|_| rustix::mount::unmount(&at, UnmountFlags::DETACH));
    }
}

/// Content that says whose it is all the way through.
fn content(name: &str, length: usize) -> Vec<u8> {
    format!("<{name}>").bytes().cycle().take(length).collect()
}

fn is_full<T>(result: Sys<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(Errno::NOSPC) => true,
        Err(errno) => panic!("expected success or ENOSPC, got {errno:?}"),
    }
}

/// Writes new files until the disk is full. Returns the names of those that were written whole.
fn fill(home: &Home) -> Vec<String> {
    let mut whole = Vec::new();
    for length in [65536, 4096, 512] {
        for n in 0.. {
            let name = format!("fill-{length}-{n}");
            let Ok(fd) = open(home.path(&name), O_CREAT | O_WRONLY, 0o644) else {
                break;
            };
            let bytes = content(&name, length);
            // Without passthrough a full disk may come to light only when written data leaves the cache.
            if write(&fd, &bytes) != Ok(bytes.len()) || fsync(&fd).is_err() {
                break;
            }
            whole.push(name);
            assert!(n < 20_000, "the disk does not get full");
        }
    }
    whole
}

/// Where there is no space to save the surroundings of a write, its own blocks are saved alone.
#[test]
fn on_a_full_disk_a_write_saves_no_more_than_it_must() {
    need_mount!();
    let small = Small::tmpfs("size=16m");
    // Too big to copy.
    let original = content("f", 5 << 20);
    let mut home = Home::plan()
        .on(&small.path())
        .prepare(|store| fs::write(store.join("f"), &original).unwrap())
        .mount();
    let fd = open(home.path("f"), O_RDWR, 0).unwrap();
    // Space for ten blocks is left, and none for a region of sixteen.
    let free = statvfs(small.path()).unwrap().f_bavail * 4096;
    fs::write(small.path().join("fill"), vec![1; free as usize - 40960]).unwrap();
    let mut written = 0;
    while pwrite(&fd, b"over", written * 4096 * 2) == Ok(4) {
        written += 1;
    }
    assert!((4..=10).contains(&written), "{written}");
    drop(fd);
    fs::remove_file(small.path().join("fill")).unwrap();
    home.umount();
    let store = home.store().to_str().unwrap();
    let undo = trumanfs(&["undo", store, "--session", "last"]);
    assert!(undo.status.success(), "{}", describe(&undo));
    assert!(fs::read(home.store().join("f")).unwrap() == original);
    let fsck = trumanfs(&["fsck", store]);
    assert!(fsck.status.success(), "{}", describe(&fsck));
}

/// What a path in the store, or failing that the newest entry of that name in the trash, holds.
fn kept(home: &Home, name: &str) -> Option<Vec<u8>> {
    fs::read(home.store().join(name))
        .ok()
        .or_else(|| fs::read(home.trashed(name).pop()?).ok())
}

fn on_a_full_disk(small: &Small, options: &[&str]) {
    let mut home = Home::on(&small.path(), options);
    for name in ["keep", "replace", "remove", "append", "cut"] {
        fs::write(home.path(name), content(name, 3000)).unwrap();
    }
    fs::create_dir(home.path("dir")).unwrap();
    fs::write(home.path("new"), content("new", 3000)).unwrap();
    home.sh("sync -f .");
    let whole = fill(&home);
    assert!(whole.len() > 5, "only {} files fit", whole.len());
    // Nothing more can be made, and nothing that is there suffers from the trying.
    let big = content("big", 1 << 20);
    let fd = open(home.path("append"), O_WRONLY | O_APPEND, 0);
    if let Ok(fd) = fd {
        // A few: without passthrough the kernel takes any amount, and finds out when it writes back.
        for _ in 0..8 {
            let _ = write(&fd, &big);
        }
        let _ = fsync(&fd);
    }
    let now = fs::read(home.path("append")).unwrap();
    assert!(now.starts_with(&content("append", 3000)), "append");
    // Removals and replacements are moves and need no space; the journal has space reserved for them.
    let removed = unlink(home.path("remove"));
    assert_eq!(removed, Ok(()), "removing from a full disk");
    assert_eq!(
        fs::read(home.trashed("remove").pop().unwrap()).unwrap(),
        content("remove", 3000)
    );
    let replaced = rename(home.path("new"), home.path("replace"));
    assert_eq!(replaced, Ok(()), "replacing on a full disk");
    assert_eq!(
        fs::read(home.path("replace")).unwrap(),
        content("new", 3000)
    );
    assert_eq!(
        fs::read(home.trashed("replace").pop().unwrap()).unwrap(),
        content("replace", 3000)
    );
    assert_eq!(rmdir(home.path("dir")), Ok(()));
    // On and on, until even the journal is full: every one happens or does not.
    let mut refused = 0;
    for n in 0..3000 {
        let (one, other) = (home.path("keep"), home.path("kept"));
        let (from, to) = if n % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        let full = is_full(rename(from, to));
        refused += u32::from(full);
        let (from, to) = (lstat(from).is_ok(), lstat(to).is_ok());
        assert_eq!(
            (from, to),
            (full, !full),
            "a move on a full disk is half done"
        );
        if full {
            break;
        }
    }
    assert!(refused > 0, "the disk was never too full for a record");
    for name in &whole[..whole.len().min(20)] {
        let full = is_full(unlink(home.path(name)));
        assert_eq!(
            lstat(home.path(name)).is_ok(),
            full,
            "{name} was removed, or was not"
        );
        let length = name.split('-').nth(1).unwrap().parse().unwrap();
        assert_eq!(kept(&home, name), Some(content(name, length)), "{name}");
    }
    // What is made is made whole or not at all.
    for n in 0..5 {
        let dir = home.path(format!("d{n}"));
        assert_eq!(is_full(mkdir(&dir, 0o755)), lstat(&dir).is_err());
        let file = home.path(format!("e{n}"));
        let made = open(&file, O_CREAT | O_EXCL | O_WRONLY, 0o644);
        assert_eq!(is_full(made), lstat(&file).is_err());
    }
    assert!(home.status().is_ok(), "the daemon is there");
    // Everything that was whole is whole, and after the operator has made room it goes on.
    home.umount();
    for entry in home.trash() {
        if entry.to_string_lossy().contains("fill-") {
            fs::remove_file(home.store().join(".trash").join(entry)).unwrap();
        }
    }
    // Room for more than the new session's journal reserves (128 KiB): large files first.
    for name in whole
        .iter()
        .skip(20)
        .take(5)
        .chain(whole.iter().rev().take(5))
    {
        let _ = fs::remove_file(home.store().join(name));
    }
    home.mount_again();
    fs::write(home.path("after"), content("after", 3000)).unwrap();
    unlink(home.path("after")).unwrap();
    assert_eq!(kept(&home, "after"), Some(content("after", 3000)));
    for name in whole.iter().skip(20) {
        if home.store().join(name).exists() {
            let length = name.split('-').nth(1).unwrap().parse().unwrap();
            assert_eq!(fs::read(home.path(name)).unwrap(), content(name, length));
        }
    }
    let log = trumanfs(&["log".as_ref(), home.store().as_os_str()]);
    assert!(log.status.success(), "{}", describe(&log));
}

#[test]
fn a_full_tmpfs_loses_nothing() {
    need_mount!();
    on_a_full_disk(&Small::tmpfs("size=4m"), &[]);
}

#[test]
fn a_full_tmpfs_loses_nothing_without_passthrough() {
    need_mount!();
    on_a_full_disk(
        &Small::tmpfs("size=4m"),
        &["--no-passthrough", "--allow-other"],
    );
}

#[test]
fn a_full_ext4_loses_nothing() {
    need_mount!();
    match Small::ext4(16, false) {
        Ok(small) => on_a_full_disk(&small, &[]),
        Err(reason) => skip!("ext4", "{reason}"),
    }
}

#[test]
fn no_inodes_left() {
    need_mount!();
    let small = Small::tmpfs("size=16m,nr_inodes=200");
    let home = Home::on(&small.path(), &[]);
    fs::write(home.path("old"), "old").unwrap();
    fs::create_dir(home.path("dir")).unwrap();
    let mut made = 0;
    let refused = loop {
        match open(home.path(format!("f{made}")), O_CREAT | O_WRONLY, 0o644) {
            Ok(fd) => write(&fd, b"content").unwrap(),
            Err(errno) => break errno,
        };
        made += 1;
        assert!(made < 1000);
    };
    assert_eq!(refused, Errno::NOSPC);
    assert_eq!(mkdir(home.path("more"), 0o755), Err(Errno::NOSPC));
    assert_eq!(mkfifo(home.path("pipe"), 0o644), Err(Errno::NOSPC));
    for name in ["more", "pipe"] {
        assert_eq!(lstat(home.path(name)), Err(Errno::NOENT));
    }
    // None of these needs an inode: the trash takes the one that is there.
    unlink(home.path("f0")).unwrap();
    rename(home.path("f1"), home.path("old")).unwrap();
    rename(home.path("f2"), home.path("dir/f2")).unwrap();
    renameat2(home.path("f3"), home.path("f4"), RENAME_EXCHANGE).unwrap();
    // A former content does need one. Where it cannot be kept, it stays.
    let refused = fs::write(home.path("f5"), "longer than it was before").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(fs::read(home.path("f5")).unwrap(), b"content");
    assert_eq!(fs::read(home.path("old")).unwrap(), b"content");
    assert_eq!(
        fs::read(home.trashed("old").pop().unwrap()).unwrap(),
        b"old"
    );
    home.sh("rm -r dir");
    let entry = home.trashed("dir").pop().unwrap();
    assert_eq!(fs::read(entry.join("f2")).unwrap(), b"content");
    // A removal frees nothing: that is what a trash means. Only the operator makes room.
    assert_eq!(mkdir(home.path("more"), 0o755), Err(Errno::NOSPC));
    fs::remove_dir_all(entry).unwrap();
    mkdir(home.path("more"), 0o755).unwrap();
}

/// Also of a session that had said nothing until then: there is space for it.
#[test]
fn the_log_tells_of_a_full_disk() {
    need_mount!();
    let small = match Small::ext4(16, false) {
        Ok(small) => small,
        Err(reason) => skip!("ext4", "{reason}"),
    };
    let home = Home::on(&small.path(), &[]);
    fill(&home);
    let mut made = (0..1000).map(|number| mkdir(home.path(format!("more{number}")), 0o755));
    assert_eq!(made.find(Result::is_err), Some(Err(Errno::NOSPC)));
    let log = home.log();
    let of = "the store failed: mkdir of inode 1 by process ";
    let line = log.lines().find(|line| line.contains(of));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("WARN") && line.ends_with("No space left on device"),
        "{line}"
    );
    assert!(
        line.contains("mkdirat \"more") || line.contains("write"),
        "{line}"
    );
}

/// ext4's own way to find itself broken: from then on it is read-only.
#[test]
fn a_store_that_turns_read_only() {
    need_mount!();
    let small = match Small::ext4(16, true) {
        Ok(small) => small,
        Err(reason) => skip!("ext4", "{reason}"),
    };
    let mut home = Home::on(&small.path(), &[]);
    for name in ["f", "g"] {
        fs::write(home.path(name), content(name, 3000)).unwrap();
    }
    fs::create_dir(home.path("d")).unwrap();
    home.sh("sync -f .");
    let mut abort = Command::new("mount");
    abort.args(["-o", "remount,abort"]).arg(small.path());
    let output = run_limited(abort, Duration::from_secs(60));
    if fs::write(small.path().join("probe"), "x").is_ok() {
        skip!(
            "ext4-abort",
            "this kernel cannot make ext4 abort: {}",
            describe(&output)
        );
    }
    let refused = |what: &str, result: Sys<()>| match result {
        Err(Errno::ROFS | Errno::IO | Errno::SHUTDOWN) => {}
        other => panic!("{what}: {other:?}"),
    };
    let p = |name: &str| home.path(name);
    refused("unlink", unlink(p("f")));
    refused("rename", rename(p("f"), p("h")));
    refused("replace", rename(p("f"), p("g")));
    refused("rmdir", rmdir(p("d")));
    refused("mkdir", mkdir(p("e"), 0o755));
    refused("chmod", chmod(p("f"), 0o600));
    refused("truncate", truncate(p("f"), 0));
    refused("link", link(p("f"), p("h")));
    refused("create", open(p("e"), O_CREAT | O_WRONLY, 0o644).map(drop));
    refused("write", open(p("f"), O_WRONLY, 0).map(drop));
    refused("empty", open(p("f"), O_WRONLY | O_TRUNC, 0).map(drop));
    for name in ["f", "g"] {
        assert_eq!(fs::read(p(name)).unwrap(), content(name, 3000), "{name}");
        assert_eq!(
            fs::read(home.store().join(name)).unwrap(),
            content(name, 3000)
        );
    }
    assert!(lstat(p("d")).is_ok());
    for name in ["e", "h"] {
        assert_eq!(lstat(p(name)), Err(Errno::NOENT), "{name}");
    }
    assert!(home.trash().is_empty());
    assert!(home.status().is_ok(), "the daemon is there");
    home.umount();
}

#[test]
fn a_store_on_a_read_only_disk_is_refused() {
    need_mount!();
    let small = Small::tmpfs("size=4m");
    let mut home = Home::on(&small.path(), &[]);
    fs::write(home.path("f"), "f").unwrap();
    home.umount();
    let flags = MountFlags::RDONLY;
    rustix::mount::mount_remount(small.path(), flags, c"").unwrap();
    let output = mount(home.store(), home.home());
    assert!(!output.status.success(), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ead-only"), "{said}");
    assert!(!watch::is_mountpoint(home.home()));
    // Reading what was is possible.
    let log = trumanfs(&["log".as_ref(), home.store().as_os_str()]);
    assert!(log.status.success(), "{}", describe(&log));
    rustix::mount::mount_remount(small.path(), MountFlags::empty(), c"").unwrap();
    home.mount_again();
    assert_eq!(fs::read(home.path("f")).unwrap(), b"f");
}

// ── Refused before anything is done ─────────────────────────────────────────────────────────────────────────────────────────────

fn mount(store: &Path, home: &Path) -> Output {
    trumanfs(&["mount".as_ref(), store.as_os_str(), home.as_os_str()])
}

/// Expects exit status 6 and a message with these words, and that nothing is mounted.
fn assert_refused(store: &Path, home: &Path, words: &[&str]) {
    assert_not_mounted(6, store, home, words);
}

/// Expects this exit status and a message with these words, and that nothing is mounted.
fn assert_not_mounted(code: i32, store: &Path, home: &Path, words: &[&str]) {
    // There may be a mount already, and that one stays.
    let mounts = || watch::mounts().iter().filter(|m| m.point == home).count();
    let before = mounts();
    let output = mount(store, home);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if mounts() != before {
        watch::abort_and_detach(home);
        panic!("mounted, although {words:?}");
    }
    assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

/// One directory shown at another by bindfs; unmounted when dropped.
struct Bound(PathBuf);

impl Bound {
    fn mount(from: &Path, at: &Path, options: &[&str]) -> Result<Bound, String> {
        let mut bindfs = Command::new("bindfs");
        match bindfs.args(options).args([from, at]).output() {
            Ok(output) if output.status.success() => Ok(Bound(at.to_owned())),
            Ok(output) => panic!("bindfs: {}", describe(&output)),
            Err(error) => Err(format!("needs bindfs: {error}")),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

struct Place {
    _dir: tempfile::TempDir,
    store: PathBuf,
    home: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::TempDir::with_prefix("trumanfs-refused-").unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let (store, home) = (base.join("store"), base.join("home"));
    fs::create_dir(&store).unwrap();
    fs::create_dir(&home).unwrap();
    fs::write(store.join("f"), "f").unwrap();
    Place {
        _dir: dir,
        store,
        home,
    }
}

#[test]
fn a_trash_that_is_none_is_refused() {
    need_mount!();
    for what in [
        "a symlink",
        "a dangling symlink",
        "a file",
        "another file system",
    ] {
        let place = place();
        let outside = place.store.parent().unwrap().join("outside");
        fs::create_dir(&outside).unwrap();
        let trash = place.store.join(".trash");
        let mut guard = None;
        let words: &[&str] = match what {
            "a symlink" => {
                plant_link(&outside, &trash).unwrap();
                &[".trash", "is a symlink or something else than a directory"]
            }
            "a dangling symlink" => {
                plant_link("/nonexistent", &trash).unwrap();
                &[".trash", "is a symlink or something else than a directory"]
            }
            "a file" => {
                fs::write(&trash, "precious").unwrap();
                &[".trash", "is a symlink or something else than a directory"]
            }
            _ => {
                fs::create_dir(&trash).unwrap();
                rustix::mount::mount("tmpfs", &trash, "tmpfs", MountFlags::empty(), None).unwrap();
                guard = Some(trash.clone());
                &[".trash", "another file system"]
            }
        };
        let refused = std::panic::catch_unwind(|| assert_refused(&place.store, &place.home, words));
        if let Some(mounted) = guard {
            rustix::mount::unmount(mounted, UnmountFlags::DETACH).unwrap();
        }
        refused.unwrap_or_else(|panic| panic!("{what}: {}", crate::common::child::words(&*panic)));
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
        assert_eq!(fs::read(place.store.join("f")).unwrap(), b"f");
    }
}

#[test]
fn a_state_directory_that_is_none_is_refused() {
    need_mount!();
    let outside = tempfile::tempdir().unwrap();
    let with_link = place();
    plant_link(outside.path(), with_link.store.join(".trumanfs")).unwrap();
    assert_refused(&with_link.store, &with_link.home, &[".trumanfs"]);
    let with_file = place();
    fs::write(with_file.store.join(".trumanfs"), "precious").unwrap();
    assert_refused(&with_file.store, &with_file.home, &[".trumanfs"]);
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    // Links further in, for somebody who prepared the store: the lock, the sessions, a session's own.
    for name in ["lock", "sessions", "links", "pinned"] {
        let place = place();
        let mut private = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.create(place.store.join(".trumanfs")).unwrap();
        plant_link(
            outside.path().join("made"),
            place.store.join(".trumanfs").join(name),
        )
        .unwrap();
        let output = mount(&place.store, &place.home);
        watch::abort_and_detach(&place.home);
        assert!(!output.status.success(), "{name}: {}", describe(&output));
        assert!(
            fs::read_dir(outside.path()).unwrap().next().is_none(),
            "something was made by way of {name}"
        );
    }
}

/// The store on bindfs: it cannot do what removals and replacements are made of.
#[test]
fn a_store_whose_file_system_lacks_the_moves_is_refused() {
    need_mount!();
    let below = place();
    let place = place();
    fs::remove_file(place.store.join("f")).unwrap();
    let bound = match Bound::mount(&below.store, &place.store, &[]) {
        Ok(bound) => bound,
        Err(reason) => skip!("tools", "{reason}"),
    };
    let refused = std::panic::catch_unwind(|| {
        let words = ["cannot do RENAME_", "removals", "ext4"];
        assert_refused(&place.store, &place.home, &words);
        let exec = |line: &str| {
            trumanfs(&[
                "exec".as_ref(),
                "--root".as_ref(),
                place.store.as_os_str(),
                "--".as_ref(),
                line.as_ref(),
            ])
        };
        let said = describe(&exec("rm f"));
        assert!(said.contains("cannot do RENAME_"), "{said}");
        assert_eq!(exec("cat f").stdout, b"f", "reading needs no moves");
        let names = |dir| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        assert_eq!(names(&below.store).collect::<Vec<_>>(), ["f"], "half-made");
        // A store that was used elsewhere before: nothing in it is touched, and its log can be read.
        let other = Place {
            store: below.store.clone(),
            ..self::place()
        };
        let mounted = mount(&other.store, &other.home);
        assert!(mounted.status.success(), "{}", describe(&mounted));
        fs::remove_file(other.home.join("f")).unwrap();
        let ended = trumanfs(&["umount".as_ref(), other.home.as_os_str()]);
        assert!(ended.status.success(), "{}", describe(&ended));
        let state = |dir: &Path| {
            let mut list = Command::new("find");
            // Not the blocks: a file system gives those back that it had set aside. Nor the time: the refused mount tries.
            list.args([".", "-printf", "%p %y %i %m %s\n"]);
            list.current_dir(dir.join(".trumanfs"));
            let text = String::from_utf8(list.output().unwrap().stdout).unwrap();
            assert!(text.contains("journal.jsonl"), "{text}");
            text
        };
        let before = state(&below.store);
        assert_refused(&place.store, &place.home, &words);
        assert_eq!(state(&below.store), before);
        let log = trumanfs(&["log".as_ref(), place.store.as_os_str()]);
        assert!(describe(&log).contains("unlink /f"), "{}", describe(&log));
    });
    drop(bound);
    refused.unwrap_or_else(|panic| panic!("{}", crate::common::child::words(&*panic)));
}

#[test]
fn a_store_whose_file_system_keeps_no_modes_is_refused() {
    need_mount!();
    let (below, place) = (place(), place());
    fs::remove_file(place.store.join("f")).unwrap();
    let bound = match Bound::mount(&below.store, &place.store, &["-p", "0755"]) {
        Ok(bound) => bound,
        Err(reason) => skip!("tools", "{reason}"),
    };
    let refused = std::panic::catch_unwind(|| {
        assert_refused(&place.store, &place.home, &["keeps no modes", "ext4"]);
        assert!(!below.store.join(".trumanfs").exists(), "half-made");
    });
    drop(bound);
    refused.unwrap_or_else(|panic| panic!("{}", crate::common::child::words(&*panic)));
}

#[test]
fn a_store_that_is_served_is_refused_and_its_holder_named() {
    need_mount!();
    let home = Home::mount();
    let other = place();
    let pid = home.daemon_pid().to_string();
    let (point, store) = (home.home().to_str().unwrap(), home.store());
    assert_refused(store, &other.home, &["already being served", &pid, point]);
    // By way of another path to it as well.
    let alias = other.store.join("alias");
    plant_link(store, &alias).unwrap();
    assert_refused(&alias, &other.home, &["already being served", point]);
    // And a home that is in use is not used twice.
    assert_refused(&other.store, home.home(), &["already mounted"]);
    fs::write(home.path("f"), "still works").unwrap();
}

#[test]
fn a_home_in_its_store_and_the_reverse_are_refused() {
    need_mount!();
    let place = place();
    let inner = place.store.join("a/b");
    fs::create_dir_all(&inner).unwrap();
    assert_refused(&place.store, &inner, &["lies in the store"]);
    assert_refused(&inner, &place.store, &["lies in the home"]);
    assert_refused(&place.store, &place.store, &["lies in"]);
    // By way of a link, and of `..`.
    let alias = place.home.join("alias");
    plant_link(&inner, &alias).unwrap();
    assert_refused(&place.store, &alias, &["lies in the store"]);
    let dots = place.home.join("../store/a");
    assert_refused(&place.store, &dots, &["lies in the store"]);
    // By way of a bind mount.
    let bound = place.home.join("bound");
    fs::create_dir(&bound).unwrap();
    rustix::mount::mount_bind(&place.store, &bound).unwrap();
    let refused = std::panic::catch_unwind(|| {
        assert_refused(&place.store, &bound.join("a/b"), &["lies in the store"]);
        assert_refused(&place.store, &bound, &["lies in"]);
    });
    let _ = rustix::mount::unmount(&bound, UnmountFlags::DETACH);
    refused.unwrap_or_else(|panic| panic!("{}", crate::common::child::words(&*panic)));
    // Nothing was begun.
    assert!(!place.store.join(".trumanfs").exists());
    assert!(!place.store.join(".trash").exists());
}

#[test]
fn what_is_not_there_or_no_directory_is_refused() {
    need_mount!();
    let place = place();
    let nothing = place.store.join("nothing");
    assert_not_mounted(3, &nothing, &place.home, &["nothing", "store"]);
    assert_not_mounted(3, &place.store, &nothing, &["nothing", "home"]);
    let file = place.store.join("f");
    assert_refused(&file, &place.home, &["not a directory"]);
    assert_refused(&place.store, &file, &["not a directory"]);
    // A mount without /dev/fuse cannot be tried here: taking the device away would take it from everybody.
}

// ── What is recorded on a full disk is what happened, and an operator can work there ─────────────────────────────────────────────

/// Everything that an operator does when the disk is full, from the reserve of the journal and of the store.
fn an_operator_works_on_a_full_disk(small: &Small, options: &[&str], given: bool) {
    let mut home = Home::plan()
        .on(&small.path())
        .options(options)
        .prepare(|store| {
            fs::create_dir(store.join("d")).unwrap();
            for n in 0..300 {
                fs::write(store.join(format!("d/f{n}")), content(&n.to_string(), 700)).unwrap();
            }
            fs::write(store.join("big"), content("big", 1_000_000)).unwrap();
        })
        .mount();
    if !given {
        // Nothing for removals: those for which the trash needs a block are recorded, fail, and are taken back.
        let spare = home.store().join(".trumanfs/reserve/space");
        fs::File::options()
            .write(true)
            .open(spare)
            .unwrap()
            .set_len(512 << 10)
            .unwrap();
    }
    home.sh("dd if=/dev/zero of=fill bs=64K count=2000 2>/dev/null || :; sync -f . || :");
    home.sh(
        "(echo x > big) || :; sed -i s/1/2/ d/f* || :; rm d/f* || :; rm -rf d || :; touch new || :",
    );
    // Until no more is recorded of what an occupant does.
    for n in 0..5000 {
        let (from, to) = [("fill", "fill2"), ("fill2", "fill")][n % 2];
        if rename(home.path(from), home.path(to)).is_err() {
            break;
        }
        assert!(n < 4999, "the journal does not get full");
    }
    assert_eq!(given, home.journal().iter().all(|r| r["op"] != "abort"));
    let store = home.store().to_owned();
    let told = |args: &[&str]| {
        let named = args.iter().map(|arg| match *arg {
            "STORE" => store.as_os_str(),
            other => other.as_ref(),
        });
        let output = trumanfs(&named.collect::<Vec<_>>());
        let said = describe(&output);
        let bare = said.contains("No space left") && !said.contains("trash purge");
        assert!(!bare, "{args:?}: {said}");
        output
    };
    let done = |args: &[&str]| {
        let output = told(args);
        assert!(output.status.success(), "{args:?}: {}", describe(&output));
    };
    done(&["checkpoint", "create", "STORE", "full"]);
    home.umount();
    a_true_record(&home);
    done(&["fsck", "STORE"]);
    home.mount_again();
    unlink(home.path("big")).unwrap();
    done(&["undo", "STORE", "--session", "last"]);
    assert!(lstat(home.path("big")).is_ok());
    // Killed, and mounted again: what its journal had reserved is there for the next.
    unlink(home.path("big")).unwrap();
    home.kill_daemon();
    home.mount_again();
    home.umount();
    a_true_record(&home);
    done(&["fsck", "STORE"]);
    let entry = home.trashed("big").pop().unwrap();
    let entry = entry.file_name().unwrap().to_str().unwrap();
    done(&["trash", "restore", "STORE", entry, "--to", "/back"]);
    let first = home.journal()[0]["session"].as_str().unwrap().to_owned();
    told(&["undo", "STORE", "--session", &first, "--force"]);
    done(&["fsck", "STORE"]);
    if let Some(entry) = home.trash().first() {
        done(&["trash", "purge", "STORE", entry.to_str().unwrap()]);
    }
    // The undo may have left nothing there.
    let purged = told(&["trash", "purge", "STORE", "--all"]);
    assert!(
        matches!(purged.status.code(), Some(0 | 1)),
        "{}",
        describe(&purged)
    );
    assert!(home.trash().is_empty());
    done(&["fsck", "STORE"]);
}

/// Each removal that is recorded, and not taken back, has happened; each that is taken back has not.
fn a_true_record(home: &Home) {
    let records = home.journal();
    let aborted: std::collections::HashSet<_> = records
        .iter()
        .filter(|record| record["op"] == "abort")
        .map(|record| record["of"].as_u64().unwrap())
        .collect();
    let first = records.iter().skip(1).position(|r| r["op"] == "begin");
    let first = &records[..first.map_or(records.len(), |at| at + 1)];
    let mut removed = 0;
    for record in first.iter().filter(|record| record["op"] == "unlink") {
        let entry = home
            .store()
            .join(".trash")
            .join(record["trash"].as_str().unwrap());
        let happened = !aborted.contains(&record["seq"].as_u64().unwrap());
        assert_eq!(lstat(&entry).is_ok(), happened, "{record}");
        removed += u32::from(happened);
    }
    assert!(removed > 0, "nothing was removed");
}

#[test]
fn an_operator_works_on_a_full_ext4() {
    need_mount!();
    for (options, given) in [
        (&[][..], true),
        (&["--no-passthrough"], true),
        (&[], false),
        (&["--no-passthrough"], false),
    ] {
        match Small::ext4(24, true) {
            Ok(small) => an_operator_works_on_a_full_disk(&small, options, given),
            Err(reason) => skip!("ext4", "{reason}"),
        }
    }
}

#[test]
fn an_operator_works_on_a_full_tmpfs() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        an_operator_works_on_a_full_disk(&Small::tmpfs("size=8m"), options, true);
    }
}

/// Not space but inodes are used up: those of the reserve are enough for a session.
#[test]
fn a_store_without_inodes_is_mounted_and_purged() {
    need_mount!();
    let small = Small::tmpfs("size=16m,nr_inodes=300");
    let mut home = Home::on(&small.path(), &[]);
    home.sh("mkdir d; for n in $(seq 400); do touch d/$n || :; done");
    assert_eq!(mkdir(home.path("more"), 0o755), Err(Errno::NOSPC));
    rename(home.path("d"), home.path("e")).unwrap();
    home.sh("rm -r e");
    home.umount();
    // Nobody takes what unmounting gave back.
    let taken: Vec<_> = (0..100)
        .map(|n| small.path().join(format!("taken{n}")))
        .take_while(|path| fs::write(path, "").is_ok())
        .collect();
    home.mount_again();
    home.umount();
    let all = ["trash", "purge", home.store().to_str().unwrap(), "--all"];
    let purged = trumanfs(&all);
    assert!(purged.status.success(), "{}", describe(&purged));
    home.mount_again();
    mkdir(home.path("more"), 0o755).unwrap();
    drop(taken);
}

/// Without passthrough the kernel takes what is written and finds out later; the closing says so, and so does `fsync`.
#[test]
fn without_passthrough_a_full_disk_is_told_at_the_closing_at_the_latest() {
    need_mount!();
    let small = Small::tmpfs("size=8m");
    let home = Home::on(&small.path(), &["--no-passthrough"]);
    for how in ["", "conv=fsync"] {
        let script =
            format!("dd if=/dev/zero of=fill bs=64K count=1000 {how} 2>&1 && echo fits || :");
        let said = home.sh(&script);
        assert!(said.contains("No space left"), "{how}: {said}");
    }
}

/// On a disk with little room `write` itself says that there is none, and nothing that it took is lost.
#[test]
fn without_passthrough_write_tells_of_a_full_disk() {
    need_mount!();
    let small = match Small::ext4(48, true) {
        Ok(small) => small,
        Err(reason) => skip!("ext4", "{reason}"),
    };
    let home = Home::on(&small.path(), &["--no-passthrough"]);
    let script = r#"
import errno, os
taken = 0
fd = os.open("fill", os.O_CREAT | os.O_WRONLY)
try:
    while taken < 1 << 30:
        taken += os.write(fd, b"x" * (1 << 20))
except OSError as error:
    assert error.errno == errno.ENOSPC, error
else:
    raise SystemExit("a gigabyte fits into 48 MiB")
os.close(fd)
assert os.stat("fill").st_size == taken, (os.stat("fill").st_size, taken)
assert open("fill", "rb").read() == b"x" * taken
"#;
    std::fs::write(home.store().join("fill.py"), script).unwrap();
    let said = home.sh("python3 fill.py 2>&1 && echo told");
    assert_eq!(said.trim(), "told");
}
