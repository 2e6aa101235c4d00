//! Stores on file systems of their own: ext4 that comes back under another device number, as after a boot or on another
//! machine; xfs and btrfs, which can share blocks; a snapshot.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{describe, need_mount, run_limited, skip, trumanfs};

/// A file system in a file, and a home over a store in it; all of it is taken down when dropped.
struct Disk {
    dir: tempfile::TempDir,
    /// A loop device that is occupied, so that the disk gets another one.
    occupied: Option<String>,
}

fn run(program: &str, args: &[&Path]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args);
    let output = run_limited(command, Duration::from_secs(20));
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{program}: {}", describe(&output))),
    }
}

impl Disk {
    /// `mkfs`: the program that makes the file system, and its options.
    fn new(mkfs: &[&str], megabytes: u64) -> Result<Disk, String> {
        let dir = tempfile::TempDir::with_prefix("trumanfs-disk-").unwrap();
        let disk = Disk {
            dir,
            occupied: None,
        };
        for name in ["image", "other"] {
            let file = fs::File::create(disk.at(name)).unwrap();
            file.set_len(megabytes << 20).unwrap();
        }
        fs::create_dir(disk.at("mnt")).unwrap();
        fs::create_dir(disk.at("home")).unwrap();
        let (program, options) = mkfs.split_first().unwrap();
        let mut args: Vec<&Path> = options.iter().map(Path::new).collect();
        let image = disk.at("image");
        args.push(&image);
        if Command::new(program).arg("-V").output().is_err() {
            return Err(format!("needs {program}"));
        }
        run(program, &args)?;
        disk.attach()
            .map_err(|why| format!("needs loop devices: {why}"))?;
        fs::create_dir(disk.store()).unwrap();
        Ok(disk)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.at("mnt/store")
    }

    fn home(&self, name: &str) -> PathBuf {
        self.at("home").join(name)
    }

    fn device(&self) -> u64 {
        fs::metadata(self.store()).unwrap().dev()
    }

    fn attach(&self) -> Result<(), String> {
        let options: [&Path; 2] = ["-o".as_ref(), "loop".as_ref()];
        run(
            "mount",
            &[options[0], options[1], &self.at("image"), &self.at("mnt")],
        )
        .map(drop)
    }

    /// Takes the disk away and brings it back under another number.
    fn renumber(&mut self) {
        run("umount", &[&self.at("mnt")]).unwrap();
        let args: [&Path; 3] = ["--find".as_ref(), "--show".as_ref(), &self.at("other")];
        self.occupied = Some(run("losetup", &args).unwrap());
        self.attach().unwrap();
    }

    fn mount_home(&self) {
        let mount: [&Path; 4] = [
            "mount".as_ref(),
            &self.store(),
            &self.at("home"),
            "--hide=/d/secret".as_ref(),
        ];
        let output = trumanfs(&mount);
        assert!(output.status.success(), "{}", describe(&output));
        assert!(common::watch::is_mountpoint(&self.at("home")));
    }

    fn umount_home(&self) {
        let output = trumanfs(&["umount".as_ref(), &*self.at("home")]);
        assert!(output.status.success(), "{}", describe(&output));
    }

    fn says(&self, words: &[&str]) -> String {
        says(&self.store(), words)
    }
}

/// Runs a command on a store, and returns what it says, errors too.
fn says(store: &Path, words: &[&str]) -> String {
    let (verb, rest) = words.split_first().unwrap();
    let mut args: Vec<PathBuf> = vec![verb.into(), store.into()];
    args.extend(rest.iter().map(PathBuf::from));
    let output = trumanfs(&args);
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

impl Drop for Disk {
    fn drop(&mut self) {
        for name in ["home", "mnt"] {
            if common::watch::is_mountpoint(&self.at(name)) {
                let _ = run("umount", &["--lazy".as_ref(), &self.at(name)]);
            }
        }
        if let Some(device) = &self.occupied {
            let _ = run("losetup", &["--detach".as_ref(), device.as_ref()]);
        }
    }
}

fn sh(dir: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(dir);
    let output = run_limited(command, Duration::from_secs(20));
    assert!(output.status.success(), "{script}: {}", describe(&output));
}

#[test]
fn what_was_recorded_holds_when_the_disk_has_another_number() {
    need_mount!();
    let mut disk = match Disk::new(&["mkfs.ext4", "-q"], 16) {
        Ok(disk) => disk,
        Err(why) => skip!("no disk of its own: {why}"),
    };
    sh(
        &disk.store(),
        "mkdir src d; echo one >src/a; echo two >f; echo three >x; ln x y; echo hidden >d/secret",
    );
    disk.mount_home();
    sh(
        &disk.at("home"),
        "echo other >f; rm -r src; rm x; mkdir new; echo 4 >new/file; mv new moved; mv d e; chmod 600 y",
    );
    disk.umount_home();
    let before = disk.device();
    disk.renumber();
    if disk.device() == before {
        skip!("the disk came back under the same number");
    }

    let found = disk.says(&["fsck"]);
    assert!(
        found.contains("everything agrees") && !found.contains("note"),
        "{found}"
    );
    let versions = disk.says(&["versions", "/f"]);
    assert!(versions.contains("4 bytes"), "{versions}");
    let diff = disk.says(&["diff"]);
    assert!(
        diff.contains("D  /src/a") && !diff.contains("not all is known"),
        "{diff}"
    );

    // What was hidden stays so where it was carried, and a link in the trash is none of the home's.
    disk.mount_home();
    assert!(!disk.home("e/secret").exists(), "a hidden file shows");
    assert!(disk.store().join("e/secret").exists());
    assert_eq!(fs::metadata(disk.home("y")).unwrap().nlink(), 1);
    disk.umount_home();

    let first = fs::read_dir(disk.store().join(".trumanfs/sessions")).unwrap();
    let mut first: Vec<_> = first.map(|entry| entry.unwrap().file_name()).collect();
    first.sort();
    let undone = disk.says(&["undo", "--session", first[0].to_str().unwrap()]);
    assert!(undone.starts_with("undone"), "{undone}");
    let there = |name: &str| fs::read_to_string(disk.store().join(name)).unwrap();
    assert_eq!(
        ["src/a", "f", "x", "y", "d/secret"].map(there),
        ["one\n", "two\n", "three\n", "three\n", "hidden\n"]
    );
    assert!(!disk.store().join("moved").exists() && !disk.store().join("e").exists());
    let ino = |name: &str| fs::metadata(disk.store().join(name)).unwrap().ino();
    assert_eq!(ino("x"), ino("y"));
}

/// How much of a file system is used, in bytes.
fn used(at: &Path) -> u64 {
    let space = rustix::fs::statvfs(at).unwrap();
    (space.f_blocks - space.f_bfree) * space.f_frsize
}

/// A former content shares its blocks with the file where the store's file system can do that: it takes no time and, but
/// for what is overwritten, no space.
fn contents_are_cloned(disk: &Disk, also: impl FnOnce()) {
    let big: Vec<u8> = (0..10_u32 << 20)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(disk.store().join("big"), &big).unwrap();
    fs::write(disk.store().join("small"), "one\n").unwrap();
    run("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
    let before = used(&disk.at("mnt"));
    disk.mount_home();
    sh(
        &disk.at("home"),
        "printf over | dd of=big bs=1 seek=20000000 conv=notrunc status=none
         printf O | dd of=small bs=1 conv=notrunc status=none; truncate -s 30000000 big",
    );
    disk.umount_home();
    run("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
    let grown = used(&disk.at("mnt")).saturating_sub(before);
    assert!(
        grown < 16 << 20,
        "{grown} bytes more for a few that were overwritten"
    );
    let versions = disk.says(&["versions", "/big"]);
    assert_eq!(versions.matches("a clone").count(), 2, "{versions}");
    also();
    let undone = disk.says(&["undo", "--session", "last"]);
    assert!(undone.starts_with("undone"), "{undone}");
    assert!(
        fs::read(disk.store().join("big")).unwrap() == big,
        "big is not as it was"
    );
    assert_eq!(fs::read(disk.store().join("small")).unwrap(), b"one\n");
    let found = disk.says(&["fsck"]);
    assert!(found.contains("everything agrees"), "{found}");
}

#[test]
fn on_xfs_contents_are_cloned() {
    need_mount!();
    match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 512) {
        Ok(disk) => contents_are_cloned(&disk, || ()),
        Err(why) => skip!("no xfs: {why} (package xfsprogs)"),
    }
}

#[test]
fn on_btrfs_contents_are_cloned_and_a_snapshot_is_a_store() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.btrfs", "-q"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("no btrfs: {why} (package btrfs-progs)"),
    };
    fs::remove_dir(disk.store()).unwrap();
    btrfs(&["subvolume", "create"], &[&disk.store()]);
    contents_are_cloned(&disk, || {
        let snapshot = disk.at("mnt/snapshot");
        btrfs(&["subvolume", "snapshot"], &[&disk.store(), &snapshot]);
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_ne!(device(&disk.store()), device(&snapshot));
        let undone = says(&snapshot, &["undo", "--session", "last"]);
        assert!(undone.starts_with("undone"), "{undone}");
        assert_eq!(fs::read(snapshot.join("small")).unwrap(), b"one\n");
    });
}

fn btrfs(words: &[&str], paths: &[&Path]) {
    let words = words.iter().map(Path::new);
    let args: Vec<&Path> = words.chain(paths.iter().copied()).collect();
    run("btrfs", &args).unwrap();
}
