//! Stores on file systems of their own: ext4 that comes back under another device number, as after a boot or on
//! another machine; xfs and btrfs, which can share blocks; a snapshot.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::calls::{RENAME_EXCHANGE, renameat2};
use crate::common::disk::{Disk, run, says};
use crate::common::{describe, log_of, need_mount, run_limited, skip, trumanfs};

fn sh(dir: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(dir);
    let output = run_limited(command, Duration::from_secs(60));
    assert!(output.status.success(), "{script}: {}", describe(&output));
}

#[test]
fn what_was_recorded_holds_when_the_disk_has_another_number() {
    need_mount!();
    let mut disk = match Disk::new(&["mkfs.ext4", "-q"], 16) {
        Ok(disk) => disk,
        Err(why) => skip!("ext4", "no disk of its own: {why}"),
    };
    sh(
        &disk.store(),
        "mkdir src d; echo one >src/a; echo two >f; echo three >x; ln x y; echo hidden >d/secret",
    );
    disk.mount_home("--hide=/d/secret");
    sh(
        &disk.at("home"),
        "echo other >f; rm -r src; rm x; mkdir new; echo 4 >new/file; mv new moved; mv d e; chmod 600 y",
    );
    disk.umount_home();
    let before = disk.device();
    disk.renumber();
    if disk.device() == before {
        skip!("chance", "the disk came back under the same number");
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
    disk.mount_home("--hide=/d/secret");
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

/// Before, an input/output error was a line of trace, and daemon.log said nothing of a disk that could not be read.
#[test]
fn the_log_tells_of_a_disk_that_cannot_be_read() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.ext4", "-q"], 64) {
        Ok(disk) => disk,
        Err(why) => skip!("ext4", "no disk of its own: {why}"),
    };
    for number in 0..40 {
        let dir = disk.store().join(format!("d{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("file"), "content").unwrap();
    }
    // So that nothing of them is in memory: a namespace of another test may keep the mount, and with it what was read.
    disk.detach();
    disk.attach().unwrap();
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    disk.mount_home("--no-passthrough");
    let image = fs::File::options().write(true).open(disk.at("image"));
    image.unwrap().set_len(0).unwrap();
    let read = |number: u32| fs::read(disk.home(&format!("d{number}/file"))).map(drop);
    let errors = (0..40).filter_map(|number| read(number).err());
    let errors: Vec<_> = errors.map(|error| error.raw_os_error()).collect();
    let broken = [rustix::io::Errno::IO, rustix::io::Errno::UCLEAN];
    let broken = broken.map(|errno| Some(errno.raw_os_error()));
    assert!(!errors.is_empty(), "it could all be read");
    assert!(
        errors.iter().all(|error| broken.contains(error)),
        "{errors:?}"
    );
    let log = log_of(&disk.store());
    let told = |line: &&str| {
        line.contains("WARN") && line.contains(" of inode ") && line.contains("the store failed: ")
    };
    let lines: Vec<&str> = log.lines().filter(told).collect();
    assert!(!lines.is_empty(), "{log}");
    assert!(lines.len() < errors.len(), "a flood: {log}");
    assert!(
        lines.iter().any(|line| line.contains("lookup of inode")),
        "{log}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("Input/output error") || line.contains("needs cleaning")),
        "{log}"
    );
    assert!(!log.contains(disk.at("mnt").to_str().unwrap()), "{log}");
}

/// A copy on a fresh file system may have the very inode numbers of the original, and its store may be the root of it. It is
/// a copy all the same; with and without times of birth.
#[test]
fn a_copy_on_a_fresh_file_system_is_told_even_where_inode_numbers_are_the_same() {
    need_mount!();
    let kinds: [&[&str]; 3] = [
        &["mkfs.ext4", "-q"],
        &["mkfs.ext4", "-q", "-I", "128"],
        &["mkfs.xfs", "-q"],
    ];
    for mkfs in kinds {
        let made = |megabytes| Disk::new(mkfs, megabytes);
        let megabytes = if mkfs[0] == "mkfs.xfs" { 320 } else { 16 };
        let (mut disk, copy) = match (made(megabytes), made(megabytes)) {
            (Ok(disk), Ok(copy)) => (disk, copy),
            (Err(why), _) | (_, Err(why)) => skip!("ext4", "no disk of its own: {why}"),
        };
        sh(&disk.store(), "mkdir d; echo one >d/f; echo two >g");
        disk.mount_home("--hide=/nothing");
        sh(&disk.at("home"), "rm d/f; echo other >g; mv d e");
        disk.umount_home();
        let status = Command::new("sh")
            .args(["-ec", "tar -C \"$1\" -cf - . | tar -C \"$2\" -xpf -", "sh"])
            .args([disk.store(), copy.store()])
            .status();
        assert!(status.unwrap().success());
        for words in [
            &["undo", "--session", "last"][..],
            &["diff"],
            &["versions", "/g"],
        ] {
            let said = copy.says(words);
            assert!(said.contains("this store is a copy"), "{mkfs:?}: {said}");
        }
        assert!(
            copy.says(&["fsck"]).contains("the store is a copy"),
            "{mkfs:?}"
        );
        // The same disk under another number is none, nor is an image of it.
        disk.renumber();
        assert!(!disk.says(&["fsck"]).contains("copy"), "{mkfs:?}");
        disk.detach();
        let image = disk.at("image-of-it");
        fs::copy(disk.at("image"), &image).unwrap();
        disk.attach().unwrap();
        disk.detach();
        let imaged = Disk::of(&std::env::temp_dir(), &image);
        let undone = imaged.says(&["undo", "--session", "last"]);
        assert!(undone.starts_with("undone"), "{mkfs:?}: {undone}");
        assert_eq!(fs::read(imaged.store().join("d/f")).unwrap(), b"one\n");
    }
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
    disk.mount_home("--hide=/d/secret");
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
        Err(why) => skip!("xfs", "no xfs: {why} (package xfsprogs)"),
    }
}

/// xfs sets the time of a directory that an exchange gives another parent, and a replacement is an exchange.
#[test]
fn on_xfs_directories_that_change_places_keep_their_times() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.xfs", "-q"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "no disk of its own: {why}"),
    };
    let script =
        "mkdir -p a/d a/x b/g b/y; touch -d @1000000001 a/d a/x b/g b/y; touch -d @1000000002 a b";
    sh(&disk.store(), script);
    let time = |name: &str| fs::metadata(disk.store().join(name)).unwrap().mtime();
    disk.mount_home("--no-follow");
    sh(&disk.at("home"), "mv -T a/d b/g");
    renameat2(disk.home("a/x"), disk.home("b/y"), RENAME_EXCHANGE).unwrap();
    disk.umount_home();
    assert_eq!(["a/x", "b/g", "b/y"].map(time), [1_000_000_001; 3]);
    let undone = disk.says(&["undo", "--session", "last"]);
    assert!(undone.starts_with("undone"), "{undone}");
    assert_eq!(["a/d", "a/x", "b/g", "b/y"].map(time), [1_000_000_001; 4]);
    assert_eq!(["a", "b"].map(time), [1_000_000_002; 2]);
}

/// xfs reserves space behind the end of a file that grows. Where the next data of a content that is put back lay beyond
/// a hole, that space filled the hole.
#[test]
fn on_xfs_holes_of_a_content_that_is_put_back_stay() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.xfs", "-q"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "no disk of its own: {why}"),
    };
    sh(&disk.store(), "yes | head -c 18000 >f; ln f g");
    let space = || {
        disk.detach();
        disk.attach().unwrap();
        fs::metadata(disk.store().join("f")).unwrap().blocks()
    };
    disk.mount_home("--no-follow");
    sh(
        &disk.at("home"),
        "printf evil | dd of=f bs=1 seek=65536 conv=notrunc status=none",
    );
    disk.umount_home();
    let left = space();
    let undone = disk.says(&["undo", "--session", "last"]);
    assert!(undone.starts_with("undone"), "{undone}");
    let redone = disk.says(&["redo"]);
    assert!(redone.starts_with("redone"), "{redone}");
    assert_eq!(space(), left);
}

#[test]
fn on_btrfs_contents_are_cloned_and_a_snapshot_is_a_store() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.btrfs", "-q"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("btrfs", "no btrfs: {why} (package btrfs-progs)"),
    };
    fs::remove_dir(disk.store()).unwrap();
    btrfs(&["subvolume", "create"], &[&disk.store()]);
    contents_are_cloned(&disk, || {
        let snapshot = disk.at("mnt/snapshot");
        btrfs(&["subvolume", "snapshot"], &[&disk.store(), &snapshot]);
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_ne!(device(&disk.store()), device(&snapshot));
        let journal = journals(&snapshot);
        let undone = says(&snapshot, &["undo", "--session", "last"]);
        assert!(undone.starts_with("undone"), "{undone}{journal}");
        assert_eq!(fs::read(snapshot.join("small")).unwrap(), b"one\n");
        // What is sent has other inodes.
        let sent = disk.at("mnt/sent");
        fs::create_dir(&sent).unwrap();
        btrfs(
            &["property", "set"],
            &[&snapshot, "ro".as_ref(), "true".as_ref()],
        );
        let pipe = "btrfs -q send \"$1\" 2>&- | btrfs -q receive \"$2\"";
        let mut status = Command::new("sh");
        status.args(["-ec", pipe, "sh"]).args([&snapshot, &sent]);
        assert!(status.status().unwrap().success());
        let said = says(&sent.join("snapshot"), &["undo", "--session", "last"]);
        assert!(said.contains("this store is a copy"), "{said}");
    });
}

/// The journals of a store, with their seals: they tell why something is a conflict.
fn journals(store: &Path) -> String {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let journals = sessions.map(|session| session.unwrap().path().join("journal.jsonl"));
    journals
        .map(|journal| fs::read_to_string(journal).unwrap())
        .collect()
}

fn btrfs(words: &[&str], paths: &[&Path]) {
    let words = words.iter().map(Path::new);
    let args: Vec<&Path> = words.chain(paths.iter().copied()).collect();
    run("btrfs", &args).unwrap();
}

/// What is there, below a store: files with their contents, directories without.
fn tree(store: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![store.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(store).unwrap().to_owned();
            if name.starts_with(".trash") || name.starts_with(".trumanfs") {
                continue;
            }
            let content = path.is_file().then(|| fs::read(&path).unwrap());
            if content.is_none() {
                pending.push(path);
            }
            found.insert(name, content);
        }
    }
    found
}

/// One change of a storm. Most find nothing to do, which does not matter.
fn change(home: &Path, n: u64) {
    use std::io::{Seek, Write};
    let random = |salt: u64, below: u64| {
        let x = (n + 1)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(salt * 1_442_695_040_888_963_407);
        ((x ^ (x >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % below
    };
    let file = |salt| home.join(format!("d{}/f{}", random(salt, 3), random(salt + 9, 12)));
    let (one, two) = (file(1), file(2));
    let _ = match random(3, 8) {
        0 => fs::remove_file(&one),
        1 => fs::write(&one, format!("new {n}\n").repeat(n as usize % 700 + 1)),
        2 => fs::rename(&one, &two),
        3 => fs::create_dir(home.join(format!("n{n}"))),
        4 => fs::OpenOptions::new()
            .append(true)
            .open(&one)
            .and_then(|mut f| f.write_all(b"more\n")),
        5 => fs::OpenOptions::new()
            .write(true)
            .open(&one)
            .and_then(|f| f.set_len(n % 20)),
        // Who syncs makes what is overwritten go for good, unless it was on the disk elsewhere before.
        _ => fs::OpenOptions::new()
            .write(true)
            .open(&one)
            .and_then(|mut f| {
                f.seek(std::io::SeekFrom::Start(3))?;
                f.write_all(b"over")?;
                f.sync_all()
            }),
    };
}

/// The file systems on which the power is cut: what makes them, and how many megabytes they need.
const CUT: [(&[&str], u64); 2] = [
    (&["mkfs.ext4", "-q"], 64),
    (&["mkfs.xfs", "-q", "-m", "reflink=1"], 320),
];

/// What was just written, and never synced, is a former content like others once something destroys it: with `--durable` it
/// is on the disk before that, whichever way it is kept.
#[test]
fn with_durable_what_was_just_written_is_not_lost_with_what_destroyed_it() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    let base_at = base.at("mnt");
    for (mkfs, megabytes) in CUT {
        for option in ["--durable", "--durable --no-passthrough"] {
            let disk = Disk::within(&base_at, mkfs, megabytes).unwrap();
            let names = [
                "emptied", "cut", "over", "appended", "removed", "replaced", "big", "bigger",
            ];
            for (n, name) in names.iter().enumerate() {
                let size = if name.starts_with("big") {
                    3 << 20
                } else {
                    2152
                };
                let content: Vec<u8> = (0..size)
                    .map(|at| b'a' + (at % 23) as u8 + n as u8 % 3)
                    .collect();
                fs::write(disk.store().join(name), content).unwrap();
            }
            run("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
            disk.mount_home(option);
            sh(
                &disk.at("home"),
                "for f in emptied cut over appended removed replaced big bigger; do printf abc >>$f; done
                 echo new >made; echo other >other; sync other; mkdir d; echo there >d/there",
            );
            let made = trumanfs(&[
                "checkpoint",
                "create",
                disk.at("home").to_str().unwrap(),
                "written",
            ]);
            assert!(made.status.success(), "{}", describe(&made));
            let written = tree(&disk.at("home"));
            sh(
                &disk.at("home"),
                ": >emptied; truncate -s 100 cut; printf over | dd of=over bs=1 seek=2153 conv=notrunc status=none
                 printf def >>appended; rm removed made d/there; mv other replaced; : >bigger
                 printf over | dd of=big bs=1 seek=3145728 conv=notrunc status=none; rmdir d",
            );
            let after = disk.cut(&base_at);
            disk.umount_home();
            let undone = after.says(&["undo", "--to", "written"]);
            assert!(undone.starts_with("undone"), "{mkfs:?} {option}: {undone}");
            let there = tree(&after.store());
            let differs = |name: &&PathBuf| there.get(*name) != written.get(*name);
            let names: Vec<_> = there.keys().chain(written.keys()).filter(differs).collect();
            assert!(names.is_empty(), "{mkfs:?} {option}: {names:?}");
        }
    }
}

/// The power goes at any moment: what a disk holds then is a clone of its image. With `--durable` all that was on the disk
/// before the session can be had back.
#[test]
fn with_durable_a_power_cut_loses_nothing() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    for (mkfs, megabytes) in CUT {
        power_cuts(&base.at("mnt"), mkfs, megabytes);
    }
}

fn power_cuts(base_at: &Path, mkfs: &[&str], megabytes: u64) {
    let disk = Disk::within(base_at, mkfs, megabytes).unwrap();
    for n in 0..36 {
        let dir = disk.store().join(format!("d{}", n % 3));
        fs::create_dir_all(&dir).unwrap();
        fs::write(
            dir.join(format!("f{}", n / 3)),
            format!("start {n}\n").repeat(n * n),
        )
        .unwrap();
    }
    run("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
    let start = tree(&disk.store());
    disk.mount_home("--durable");
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let cuts: Vec<Disk> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                change(&disk.at("home"), done.fetch_add(1, Ordering::Relaxed));
            }
        });
        let cuts = (0..4_u64).map(|n| {
            let until = Instant::now() + Duration::from_secs(30);
            while done.load(Ordering::Relaxed) < 60 * (n + 1) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            disk.cut(base_at)
        });
        let cuts = cuts.collect();
        stop.store(true, Ordering::Relaxed);
        cuts
    });
    disk.umount_home();
    for (cut, after) in cuts.iter().enumerate() {
        after.mount_home("--durable");
        after.umount_home();
        let sessions = fs::read_dir(after.store().join(".trumanfs/sessions")).unwrap();
        let first = sessions
            .map(|entry| entry.unwrap().file_name())
            .min()
            .unwrap();
        let undone = after.says(&["undo", "--session", first.to_str().unwrap()]);
        assert!(undone.starts_with("undone"), "{mkfs:?} {cut}: {undone}");
        let there = tree(&after.store());
        let differs = |name: &&PathBuf| there.get(*name) != start.get(*name);
        let names: Vec<_> = there.keys().chain(start.keys()).filter(differs).collect();
        assert!(names.is_empty(), "{mkfs:?} {cut}: {names:?}");
    }
}

/// The move of a directory is on the disk as soon as anybody syncs anything; so must be what it would uncover.
#[test]
fn what_is_hidden_stays_so_where_the_power_goes_after_it_was_moved() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    for (mkfs, megabytes) in CUT {
        let disk = Disk::within(&base.at("mnt"), mkfs, megabytes).unwrap();
        sh(
            &disk.store(),
            "mkdir d; echo hidden >d/secret; echo other >other; sync -f .",
        );
        disk.mount_home("--hide=/d/secret");
        sh(&disk.at("home"), "mv d e; echo more >>other; sync other");
        let after = disk.cut(&base.at("mnt"));
        disk.umount_home();
        assert!(
            after.store().join("e/secret").exists(),
            "{mkfs:?}: it has not moved"
        );
        after.mount_home("--hide=/d/secret");
        assert!(
            !after.home("e/secret").exists(),
            "{mkfs:?}: a hidden file shows"
        );
        assert_eq!(fs::read_dir(after.home("e")).unwrap().count(), 0);
        after.umount_home();
    }
}

/// Runs the program as after another start of the machine.
fn after_a_boot(boot: &Path, words: &[&str]) -> std::process::Output {
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id; exec \"$@\"";
    command.args(["--mount", "sh", "-euc", script]).arg(boot);
    command.arg(crate::common::binary()).args(words);
    run_limited(command, Duration::from_secs(60))
}

/// Without `--durable`, nothing tells whether what was kept shortly before a power cut was on the disk: it may be zeros, or what the
/// disk held before. It is given back, and never without a word.
#[test]
fn what_was_kept_shortly_before_a_power_cut_is_doubted() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    let boot = base.at("boot_id");
    fs::write(&boot, "00000000-0000-4000-8000-000000000000\n").unwrap();
    let (mkfs, megabytes) = CUT[0];
    for durable in [false, true] {
        let disk = Disk::within(&base.at("mnt"), mkfs, megabytes).unwrap();
        sh(&disk.store(), "echo before >f; echo before >g; sync -f .");
        disk.mount_home(if durable {
            "--durable"
        } else {
            "--keep=versions"
        });
        sh(
            &disk.at("home"),
            "echo now >f; printf over | dd of=g bs=1 conv=notrunc status=none; sync -f .",
        );
        sh(&disk.store(), "sync -f .");
        let (after, daemon_died) = (disk.cut(&base.at("mnt")), disk.cut(&base.at("mnt")));
        disk.umount_home();
        let store = after.store();
        let store = store.to_str().unwrap();
        let code = if durable { 0 } else { 5 };
        let doubt = "nothing says that all of it was on the disk";
        // Before anybody has settled it, and after.
        let session = fs::read_dir(after.store().join(".trumanfs/sessions"))
            .unwrap()
            .next()
            .unwrap();
        let session = session.unwrap().file_name().into_string().unwrap();
        let cat = ["cat", store, "/f", "--at", &format!("{session}:1")];
        let undo = ["undo", store, "--session", &session];
        for words in [&cat[..], &undo[..], &cat[..]] {
            let output = after_a_boot(&boot, words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{words:?}: {}",
                describe(&output)
            );
            assert_eq!(said.contains(doubt), !durable, "{words:?}: {said}");
            assert!(durable || said.contains("/f: "), "{words:?}: {said}");
        }
        for name in ["f", "g"] {
            assert_eq!(
                fs::read_to_string(after.store().join(name)).unwrap(),
                "before\n"
            );
        }
        // Where only the daemon has died, the kernel has it all.
        let undone = daemon_died.says(&["undo", "--session", &session]);
        assert!(
            undone.starts_with("undone") && !undone.contains(doubt),
            "{undone}"
        );
    }
}

/// What a former content shares with the file is given back once the file is closed: not before the disk has it in the file.
#[test]
fn with_durable_nothing_is_given_back_that_is_not_on_the_disk_elsewhere() {
    need_mount!();
    let base = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 1024) {
        Ok(base) => base,
        Err(why) => skip!(
            "xfs",
            "no file system that clones files: {why} (package xfsprogs)"
        ),
    };
    for (mkfs, megabytes) in CUT {
        // A second after the first change the journal says how files were left. Where that reaches the disk and they do
        // not, what the power took looks like somebody's change (docs/semantics/outside.md).
        let quick = (0..20).find_map(|_| {
            let disk = Disk::within(&base.at("mnt"), mkfs, megabytes).unwrap();
            fs::write(disk.store().join("f"), "before ".repeat(3000)).unwrap();
            run("sync", &["--file-system".as_ref(), &disk.at("mnt")]).unwrap();
            disk.mount_home("--durable");
            let start = Instant::now();
            sh(
                &disk.at("home"),
                "seq 20000 >more; cat more >>f; printf over | dd of=f bs=1 conv=notrunc status=none",
            );
            // All versions are final then, and nothing has synced the file itself.
            disk.umount_home();
            let is_quick = start.elapsed() < Duration::from_millis(900);
            is_quick.then(|| (disk.cut(&base.at("mnt")), disk))
        });
        let Some((after, _disk)) = quick else {
            skip!("chance", "three commands and an unmount take a second here");
        };
        let list = after.says(&["versions", "/f", "--json"]);
        assert_eq!(list.lines().count(), 2, "{mkfs:?}: {list}");
        assert!(
            !list.contains("missing\"") && !list.contains("lost\""),
            "{mkfs:?}: {list}"
        );
        let sessions = fs::read_dir(after.store().join(".trumanfs/sessions")).unwrap();
        let session = sessions
            .map(|entry| entry.unwrap().file_name())
            .min()
            .unwrap();
        let undone = after.says(&["undo", "--session", session.to_str().unwrap()]);
        assert!(undone.starts_with("undone"), "{mkfs:?}: {undone}");
        let there = fs::read_to_string(after.store().join("f")).unwrap();
        assert!(there == "before ".repeat(3000), "{mkfs:?}: not as it was");
    }
}
