//! Former contents take only the space of what was destroyed, and all remain readable.
//!
//! The space that a version shares with the content after it is freed once nobody writes to the file any more. Here
//! files are changed slightly and often; afterwards the space is measured, and every former state is read back, byte
//! for byte.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use crate::common::disk::Disk;
use crate::common::{Home, need_mount, skip};

/// Numbers that look like chance, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next(255) + 1) as u8).collect()
    }
}

/// Waits until every former content is final.
fn settle(home: &Home) {
    let mut waited = 0;
    while home.status().unwrap()["not_final"].as_u64() != Some(0) {
        std::thread::sleep(Duration::from_millis(50));
        waited += 1;
        assert!(waited < 1200, "versions do not become final");
    }
}

/// What the versions take on the disk, the lists beside them too.
fn taken(store: &Path) -> u64 {
    let mut sum = 0;
    for session in fs::read_dir(store.join(".trumanfs/sessions")).unwrap() {
        let versions = session.unwrap().path().join("versions");
        for version in fs::read_dir(versions).into_iter().flatten() {
            // A new list is renamed at any moment.
            let meta = version.unwrap().metadata();
            sum += meta.map_or(0, |meta| meta.blocks() * 512);
        }
    }
    sum
}

fn at(store: &Path, path: &str, seq: u64) -> Vec<u8> {
    let seq = seq.to_string();
    let out = crate::common::trumanfs(&["cat", store.to_str().unwrap(), path, "--at", &seq]);
    assert!(
        out.status.success(),
        "{path} at {seq}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// One byte changed in a file of 900 KB, over and over: the case.
#[test]
fn one_byte_changed_costs_a_block() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"], &["--durable"]] {
        let mut chance = Chance(7);
        let original = chance.bytes(900_000);
        let mut home = Home::prepared(
            |store| fs::write(store.join("f"), &original).unwrap(),
            options,
        );
        let mut now = original.clone();
        let mut states = vec![(
            home.status().unwrap()["records"].as_u64().unwrap(),
            now.clone(),
        )];
        for _ in 0..40 {
            let place = chance.next(900_000);
            let file = fs::OpenOptions::new()
                .write(true)
                .open(home.path("f"))
                .unwrap();
            file.write_all_at(b"\0", place).unwrap();
            drop(file);
            now[place as usize] = 0;
            states.push((
                home.status().unwrap()["records"].as_u64().unwrap(),
                now.clone(),
            ));
        }
        settle(&home);
        let took = taken(home.store());
        // The last one is whole: the file itself is no place for what was kept, as its owner may change it.
        assert!(took < 900_000 + 40 * 20_000, "{took} bytes for forty bytes");
        let told = home.status().unwrap()["kept_bytes"].as_u64().unwrap();
        assert!(told.abs_diff(took) < 64 * 1024, "{told} told, {took} taken");
        home.umount();
        for (seq, state) in &states {
            assert!(at(home.store(), "/f", *seq) == *state, "after {seq}");
        }
        let undo =
            crate::common::trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
        assert!(undo.status.success(), "{undo:?}");
        assert!(fs::read(home.store().join("f")).unwrap() == original);
        let fsck = crate::common::trumanfs(&["fsck", home.store().to_str().unwrap()]);
        assert!(fsck.status.success(), "{fsck:?}");
    }
}

/// Rewritten with nearly the same bytes: the old inode moves aside, and gives back what the next one has as well.
#[test]
fn rewriting_with_the_same_bytes_costs_one_content() {
    need_mount!();
    let mut chance = Chance(11);
    let original = chance.bytes(3_000_000);
    let mut home = Home::prepared(|store| fs::write(store.join("f"), &original).unwrap(), &[]);
    let mut now = original.clone();
    for i in 0..5 {
        now[i * 400_000] ^= 0x55;
        fs::write(home.path("f"), &now).unwrap();
    }
    settle(&home);
    let took = taken(home.store());
    assert!(took < 3_000_000 + 5 * 20_000, "{took} bytes for five");
    home.umount();
    assert!(at(home.store(), "/f", 0) == original);
    let undo =
        crate::common::trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert!(undo.status.success(), "{undo:?}");
    assert!(fs::read(home.store().join("f")).unwrap() == original);
}

/// The same, written over in place: the blocks that were saved twice are given back.
#[test]
fn overwriting_with_the_same_bytes_costs_one_content() {
    need_mount!();
    let mut chance = Chance(19);
    let original = chance.bytes(5_000_000);
    let mut home = Home::prepared(|store| fs::write(store.join("f"), &original).unwrap(), &[]);
    let mut now = original.clone();
    for round in 0..3 {
        now[2_000_000 + round] ^= 0x55;
        let file = fs::OpenOptions::new()
            .write(true)
            .open(home.path("f"))
            .unwrap();
        file.write_all_at(&now, 0).unwrap();
    }
    settle(&home);
    let took = taken(home.store());
    assert!(took < 5_000_000 + 3 * 20_000, "{took} bytes for three");
    home.umount();
    assert!(at(home.store(), "/f", 0) == original);
    let undo =
        crate::common::trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert!(undo.status.success(), "{undo:?}");
    assert!(fs::read(home.store().join("f")).unwrap() == original);
}

/// Neighbours saved around the writes to a big file are given back once saved again, however big the file is.
#[test]
fn what_was_saved_twice_is_given_back() {
    need_mount!();
    let size = 300 << 20;
    let original = Chance(5).bytes(1 << 20);
    let mut home = Home::prepared(
        |store| {
            let file = fs::File::create(store.join("f")).unwrap();
            file.set_len(size).unwrap();
            for at in [0, 20 << 20, size - (1 << 20)] {
                file.write_all_at(&original, at).unwrap();
            }
        },
        &[],
    );
    let write = |text: &[u8]| {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(home.path("f"))
            .unwrap();
        for at in [0, 20 << 20, size - (1 << 20)] {
            for block in [3, 9, 11] {
                file.write_all_at(text, at + block * 4096).unwrap();
            }
        }
    };
    write(b"\0");
    settle(&home);
    let once = taken(home.store());
    assert!((3 << 16..4 << 16).contains(&once), "{once}");
    // While somebody reads a version, nothing goes.
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let session = sessions.last().unwrap().unwrap().path();
    let reader = fs::File::open(session.join("versions/00000001")).unwrap();
    rustix::fs::flock(&reader, rustix::fs::FlockOperation::LockShared).unwrap();
    write(b"\x01");
    std::thread::sleep(Duration::from_millis(700));
    assert!(taken(home.store()) >= 2 * once);
    drop(reader);
    settle(&home);
    let after = taken(home.store());
    // Nine blocks, the list of them, and what the file system needs to find so many pieces.
    assert!(after <= once + 12 * 4096, "{after}");
    let told = home.status().unwrap()["kept_bytes"].as_u64().unwrap();
    assert!(told.abs_diff(after) <= 8192, "{told} told, {after} taken");
    home.umount();
    let undo =
        crate::common::trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert!(undo.status.success(), "{undo:?}");
    let file = fs::File::open(home.store().join("f")).unwrap();
    for at in [0, 20 << 20, size - (1 << 20)] {
        let mut now = vec![0; 1 << 20];
        file.read_exact_at(&mut now, at).unwrap();
        assert!(now == original, "at {at}");
    }
    assert_eq!(file.metadata().unwrap().len(), size);
}

/// Where the file system shares blocks, nothing is saved as a big file is overwritten.
#[test]
fn where_blocks_are_shared_nothing_is_saved() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "{why}"),
    };
    let original = Chance(3).bytes(4 << 20);
    let mut home = Home::plan()
        .on(&disk.at("mnt"))
        .prepare(|store| fs::write(store.join("f"), &original).unwrap())
        .mount();
    for round in 0..2 {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(home.path("f"))
            .unwrap();
        for block in 0..20 {
            file.write_all_at(b"over", (round + block * 3) * 4096)
                .unwrap();
        }
    }
    let kept: Vec<_> = home
        .journal()
        .into_iter()
        .filter(|record| record["op"] == "write")
        .map(|record| record["kept"]["how"].clone())
        .collect();
    assert_eq!(kept, ["cloned", "cloned"]);
    home.umount();
    let undo =
        crate::common::trumanfs(&["undo", home.store().to_str().unwrap(), "--session", "last"]);
    assert!(undo.status.success(), "{undo:?}");
    assert!(fs::read(home.store().join("f")).unwrap() == original);
}

/// A big version whose blocks are shared gives back what it shares, and nobody reads or hashes all of it for that.
#[test]
fn a_big_version_gives_back_what_it_shares_without_being_read() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("xfs", "{why}"),
    };
    let original = Chance(3).bytes((8 << 20) + 1000);
    let mut home = Home::plan()
        .on(&disk.at("mnt"))
        .prepare(|store| fs::write(store.join("f"), &original).unwrap())
        .mount();
    let mut contents = vec![original.clone()];
    let write = |contents: &mut Vec<Vec<u8>>, bytes: &[u8], at: u64| {
        let file = fs::OpenOptions::new().write(true).open(home.path("f"));
        file.unwrap().write_all_at(bytes, at).unwrap();
        let mut now = contents.last().unwrap().clone();
        now[at as usize..][..bytes.len()].copy_from_slice(bytes);
        contents.push(now);
    };
    // What is in memory only has still the place of what it replaces.
    for (bytes, at) in [
        (&b"over"[..], 4098),
        (b"over the edge", (1 << 20) - 5),
        (b"end", (8 << 20) + 997),
        (&original[..50_000], 0),
    ] {
        write(&mut contents, bytes, at);
        settle(&home);
    }
    for n in 0..5 {
        write(&mut contents, b"again", 2_000_000 + n * 3);
    }
    settle(&home);
    let mut sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    let versions = sessions.next().unwrap().unwrap().path().join("versions");
    let list = fs::read_to_string(versions.join("00000001.map")).unwrap();
    assert_eq!(list, format!("4096 4096\ncontent {} -\n", original.len()));
    // The last one counts in full, though it shares its blocks with the file.
    assert!(taken(home.store()) < 9 << 20, "{}", taken(home.store()));
    for (n, content) in contents.iter().enumerate() {
        // The session's first record says only that it begins.
        assert!(at(home.store(), "/f", n as u64 + 1) == *content, "{n}");
    }
    home.umount();
    let store = home.store().to_str().unwrap();
    let undo = crate::common::trumanfs(&["undo", store, "--session", "last"]);
    assert!(undo.status.success(), "{undo:?}");
    assert!(fs::read(home.store().join("f")).unwrap() == original);
}

/// A block of the file system may be smaller than the blocks by which contents are compared.
#[test]
fn a_hole_of_a_kilobyte_takes_nothing_with_it() {
    need_mount!();
    for mkfs in [
        &["mkfs.ext4", "-q", "-F", "-b", "1024"][..],
        &["mkfs.xfs", "-q", "-m", "reflink=1", "-b", "size=1024"],
    ] {
        let disk = match Disk::new(mkfs, 512) {
            Ok(disk) => disk,
            Err(why) => skip!("file system", "{why}"),
        };
        let mut original = Chance(5).bytes(3 << 20);
        let size = original.len();
        original[1024..2048].fill(0);
        original[size - 3072..size - 2048].fill(0);
        for small in [100 << 10, size] {
            let original = &original[size - small..];
            let hole = original.chunks(1024).position(|part| part == [0; 1024]);
            let hole = hole.unwrap() as u64 * 1024;
            let home = Home::plan()
                .on(&disk.at("mnt"))
                .prepare(|store| {
                    let file = fs::File::create(store.join("f")).unwrap();
                    file.write_all_at(&original[..hole as usize], 0).unwrap();
                    file.write_all_at(&original[hole as usize + 1024..], hole + 1024)
                        .unwrap();
                })
                .mount();
            let file = fs::OpenOptions::new().write(true).open(home.path("f"));
            file.as_ref()
                .unwrap()
                .write_all_at(b"over", hole + 1100)
                .unwrap();
            drop(file);
            settle(&home);
            let file = fs::OpenOptions::new().write(true).open(home.path("f"));
            file.unwrap().write_all_at(b"more", hole + 1200).unwrap();
            settle(&home);
            let taken = taken(home.store());
            assert!(
                taken < small as u64 + (64 << 10),
                "{mkfs:?} {small}: {taken}"
            );
            assert!(at(home.store(), "/f", 0) == original, "{mkfs:?} {small}");
        }
    }
}

/// Kept contents do not depend on the file, which its owner may change.
#[test]
fn what_was_changed_behind_the_mount_was_kept_whole() {
    need_mount!();
    let mut chance = Chance(13);
    let original = chance.bytes(100_000);
    let mut home = Home::prepared(|store| fs::write(store.join("f"), &original).unwrap(), &[]);
    let mut contents = vec![original];
    for place in [5, 6] {
        let file = fs::OpenOptions::new().write(true).open(home.path("f"));
        file.unwrap().write_all_at(b"\0", place).unwrap();
        settle(&home);
        let mut now = contents.last().unwrap().clone();
        now[place as usize] = 0;
        contents.push(now);
    }
    home.umount();
    let behind = fs::OpenOptions::new()
        .write(true)
        .open(home.store().join("f"))
        .unwrap();
    behind.write_all_at(b"\0", 50_000).unwrap();
    assert!(at(home.store(), "/f", 1) == contents[0]);
    assert!(at(home.store(), "/f", 2) == contents[1]);
}

/// A range that was a hole is one again, whatever was done to it.
#[test]
fn what_was_a_hole_is_one_again() {
    need_mount!();
    for (size, options) in [
        (900_000, &[][..]),
        (6_000_000, &[]),
        (6_000_000, &["--no-passthrough"]),
    ] {
        let sparse = |store: &Path| {
            for i in 0..6 {
                let file = fs::File::create(store.join(i.to_string())).unwrap();
                file.write_all_at(&[7; 16384], 0).unwrap();
                file.write_all_at(&[8; 4096], size - 4096).unwrap();
                file.sync_all().unwrap();
            }
        };
        let mut home = Home::prepared(sparse, options);
        let top = home.store().to_owned();
        let stat = |i: i32| {
            let meta = fs::metadata(top.join(i.to_string())).unwrap();
            (meta.len(), meta.blocks())
        };
        let before: Vec<_> = (0..6).map(stat).collect();
        home.sh(&format!(
            "fallocate -l {} 0; fallocate -n -l {size} 1; fallocate -z -o 100000 -l 100000 2; fallocate -p -l 8192 3
             dd if=/dev/zero of=4 bs=4096 seek=30 count=9 conv=notrunc status=none
             fallocate -n -o 20480 -l 65536 5; cat 0 1 2 3 4 5 > /dev/null",
            size + 100_000
        ));
        let after: Vec<_> = (0..6).map(stat).collect();
        let changed = before
            .iter()
            .zip(&after)
            .all(|(before, after)| before != after);
        assert!(changed, "{before:?} {after:?}");
        home.umount();
        let store = home.store().to_str().unwrap();
        let undo = crate::common::trumanfs(&["undo", store, "--session", "last"]);
        assert!(undo.status.success(), "{undo:?}");
        for i in 0..6 {
            let file = fs::File::open(home.store().join(i.to_string())).unwrap();
            file.sync_all().unwrap();
        }
        let again: Vec<_> = (0..6).map(stat).collect();
        assert_eq!(again, before, "{size} {options:?}");
        let twice = crate::common::trumanfs(&["undo", store, "--session", "last"]);
        let said = String::from_utf8_lossy(&twice.stdout).into_owned();
        assert!(said.contains("nothing to undo"), "{said}");
    }
}

/// Reads a state back, if it has not been evicted: then exactly that is said.
fn at_or_gone(store: &Path, path: &str, at: &str) -> Option<Vec<u8>> {
    let out = crate::common::trumanfs(&["cat", store.to_str().unwrap(), path, "--at", at]);
    if out.status.success() {
        return Some(out.stdout);
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("evicted"), "{path} at {at}: {said}");
    assert!(out.stdout.is_empty());
    None
}

fn change(chance: &mut Chance, file: &Path, content: &mut Vec<u8>) {
    let size = content.len() as u64;
    let options = |append: bool| {
        fs::OpenOptions::new()
            .write(true)
            .append(append)
            .open(file)
            .unwrap()
    };
    match chance.next(7) {
        0 => {
            let length = chance.next(60_000) as usize;
            *content = chance.bytes(length);
            fs::write(file, &content).unwrap();
        }
        1 => {
            let mut with_same = content.clone();
            if let Some(byte) = with_same.get_mut(chance.next(size.max(1)) as usize) {
                *byte ^= 0x2a;
            }
            *content = with_same;
            fs::write(file, &content).unwrap();
        }
        2 => {
            let to = chance.next(size + 20_000);
            options(false).set_len(to).unwrap();
            content.resize(to as usize, 0);
        }
        3 => {
            let more = chance.bytes(9000);
            std::io::Write::write_all(&mut options(true), &more).unwrap();
            content.extend(more);
        }
        _ => {
            let open = options(false);
            for _ in 0..chance.next(4) + 1 {
                let (at, length) = (chance.next(size + 5000), chance.next(9000) as usize);
                let bytes = chance.bytes(length);
                open.write_all_at(&bytes, at).unwrap();
                if length > 0 {
                    content.resize(content.len().max(at as usize + length), 0);
                    content[at as usize..at as usize + length].copy_from_slice(&bytes);
                }
            }
        }
    }
}

/// Files are changed at random while there is room for a few former contents only. Whatever is evicted: every state that
/// there was is read back as it was or told as evicted, those from before each session are there, and an undo finds them.
#[test]
fn what_is_evicted_is_what_was_in_between() {
    need_mount!();
    let mut evicted = 0;
    for (seed, options) in [
        (3, &[][..]),
        (5, &["--no-passthrough"]),
        (17, &["--copy-up-to", "8K"]),
    ] {
        let mut chance = Chance(seed);
        let mut all = vec!["--keep-max", "700K", "--keep-evict"];
        all.extend(options);
        let mut contents: Vec<Vec<u8>> = (0..3).map(|_| chance.bytes(50_000)).collect();
        let start = contents.clone();
        let mut home = Home::prepared(
            |store| {
                for (i, content) in start.iter().enumerate() {
                    fs::write(store.join(i.to_string()), content).unwrap();
                }
            },
            &all,
        );
        let mut states: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
        let mut starts = Vec::new();
        for session in 0..2 {
            if session > 0 {
                home.remount_with(&all);
            }
            let status = home.status().unwrap();
            let id = status["session"].as_str().unwrap().to_owned();
            starts.push((format!("{id}:0"), contents.clone()));
            for round in 0..40 {
                let i = chance.next(3) as usize;
                change(&mut chance, &home.path(i.to_string()), &mut contents[i]);
                let seq = home.status().unwrap()["records"].as_u64().unwrap();
                states.push((format!("{id}:{seq}"), contents.clone()));
                if round % 20 == 19 {
                    settle(&home);
                }
            }
        }
        settle(&home);
        let room = home.status().unwrap()["kept_bytes"].as_u64().unwrap();
        assert!(room <= 700 * 1024, "{room}");
        home.umount();
        let store = home.store();
        for (at, state) in states.iter().step_by(2).chain(&starts) {
            for (i, content) in state.iter().enumerate() {
                match at_or_gone(store, &format!("/{i}"), at) {
                    Some(found) => assert!(found == *content, "seed {seed}: /{i} at {at} is wrong"),
                    None => evicted += 1,
                }
            }
        }
        let (at, before) = &starts[1];
        for (i, content) in before.iter().enumerate() {
            assert!(
                at_or_gone(store, &format!("/{i}"), at).as_ref() == Some(content),
                "{at}"
            );
        }
        let store = store.to_str().unwrap();
        let fsck = crate::common::trumanfs(&["fsck", store]);
        assert!(fsck.status.success(), "{fsck:?}");
        let undo = crate::common::trumanfs(&["undo", store, "--session", "last"]);
        assert!(undo.status.success(), "{undo:?}");
        for (i, content) in before.iter().enumerate() {
            assert!(fs::read(home.store().join(i.to_string())).unwrap() == *content);
        }
    }
    assert!(evicted > 10, "{evicted}");
}

/// A file is written anew until it has the inode number again that it had first, whose content was evicted: the time of
/// birth of the one is not the other's.
#[test]
fn evicted_inode_number_that_the_file_gets_again_is_no_change_outside() {
    need_mount!();
    // It gives the lowest number that is free.
    let disk = match Disk::new(&["mkfs.ext4", "-q", "-F"], 512) {
        Ok(disk) => disk,
        Err(why) => skip!("ext4", "{why}"),
    };
    let options = ["--keep-max", "200K", "--keep-evict", "--copy-up-to", "8K"];
    let mut home = Home::plan()
        .on(&disk.at("mnt"))
        .options(&options)
        .prepare(|store| fs::write(store.join("0"), [7; 50_000]).unwrap())
        .mount();
    let store = home.store().to_owned();
    let point = |home: &Home| {
        let status = home.status().unwrap();
        format!(
            "{}:{}",
            status["session"].as_str().unwrap(),
            status["records"]
        )
    };
    let mut chance = Chance(23);
    let mut write_until_it_comes_again = |home: &Home, name: &str, first: u64| {
        // What a file held before the session is not evicted; this may be.
        let open = fs::OpenOptions::new().write(true).open(home.path(name));
        open.unwrap().write_all_at(b"once", 9000).unwrap();
        let mut rounds = 0;
        while rounds == 0 || fs::metadata(store.join(name)).unwrap().ino() != first {
            assert!(rounds < 40, "/{name} does not get its first inode again");
            fs::write(home.path(name), chance.bytes(50_000)).unwrap();
            settle(home);
            rounds += 1;
        }
    };
    let inode = |name| fs::metadata(home.store().join(name)).unwrap().ino();
    let (old, before) = (inode("0"), point(&home));
    fs::write(home.path("made"), [8; 50_000]).unwrap();
    let (made, after) = (inode("made"), point(&home));
    fs::write(home.path("other"), "").unwrap();
    write_until_it_comes_again(&home, "0", old);
    assert!(at_or_gone(&store, "/0", &after) == Some(vec![7; 50_000]));
    home.remount_with(&options);
    write_until_it_comes_again(&home, "made", made);
    home.umount();
    assert!(at_or_gone(&store, "/made", &after) == Some(vec![8; 50_000]));
    let early =
        crate::common::trumanfs(&["cat", store.to_str().unwrap(), "/made", "--at", &before]);
    let said = String::from_utf8_lossy(&early.stderr);
    assert!(said.contains("nothing was at /made"), "{said}");
}

/// The daemon is killed while it gives space back; every state is there afterwards, and nothing is amiss.
#[test]
fn killed_while_it_gives_back_it_leaves_all_readable() {
    need_mount!();
    let mut chance = Chance(23);
    let original = chance.bytes(300_000);
    let mut listed = 0;
    for round in 0..6_u64 {
        let mut home = Home::prepared(|store| fs::write(store.join("f"), &original).unwrap(), &[]);
        let mut now = original.clone();
        let mut states = vec![(1, now.clone())];
        for change in 0..30 {
            let place = chance.next(300_000) as usize;
            now[place] ^= 1;
            if change % 5 == 4 {
                fs::write(home.path("f"), &now).unwrap();
            } else {
                let file = fs::OpenOptions::new()
                    .write(true)
                    .open(home.path("f"))
                    .unwrap();
                file.write_all_at(&now[place..=place], place as u64)
                    .unwrap();
            }
            states.push((
                home.status().unwrap()["records"].as_u64().unwrap(),
                now.clone(),
            ));
        }
        // When it has given back the first so many.
        while home.status().unwrap()["not_final"].as_u64() == Some(1)
            && taken(home.store()) > 31 * 300_000 - round * 1_500_000
        {
            std::thread::yield_now();
        }
        home.kill_daemon();
        let versions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
        let versions = versions.last().unwrap().unwrap().path().join("versions");
        let names = fs::read_dir(versions)
            .unwrap()
            .map(|name| name.unwrap().file_name());
        listed += names
            .filter(|name| name.to_string_lossy().ends_with(".map"))
            .count();
        for (seq, state) in &states {
            assert!(at(home.store(), "/f", *seq) == *state, "after {seq}");
        }
        home.remount_with(&[]);
        home.umount();
        let store = home.store().to_str().unwrap();
        let fsck = crate::common::trumanfs(&["fsck", store]);
        assert!(fsck.status.success(), "{fsck:?}");
        let id = crate::common::trumanfs(&["session", "list", store, "--json"]);
        let first: serde_json::Value =
            serde_json::from_slice(id.stdout.split(|b| *b == b'\n').next().unwrap()).unwrap();
        let id = first["session"].as_str().unwrap();
        let undo = crate::common::trumanfs(&["undo", store, "--session", id]);
        assert!(undo.status.success(), "{undo:?}");
        assert!(fs::read(home.store().join("f")).unwrap() == original);
    }
    assert!(listed > 0, "nothing was given back before the end");
}

/// A file that is too big to copy, opened for writing some thousand times: each opening leaves a version, and all of
/// them lie between the first content and now. The end of the session does not wait for what each shares with all later
/// ones, and an operator needs no more open files at once than the system allows.
#[test]
fn a_big_file_that_was_opened_thousands_of_times_is_unmounted_and_undone() {
    need_mount!();
    let original = Chance(41).bytes(3 << 20);
    let mut home = Home::prepared(
        |store| fs::write(store.join("f"), &original).unwrap(),
        &["--copy-up-to=1M"],
    );
    let open = || {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).open(home.path("f")).unwrap()
    };
    let mut now = original.clone();
    for n in 0..4000_usize {
        let at = n * 4096 % now.len();
        // Every hundredth is big enough to be compared with what came later, and comes back as it was.
        let length = if n % 100 == 0 { 5 * 4096 } else { 10 };
        let end = now.len().min(at + length);
        let file = open();
        if n % 100 == 0 {
            let as_it_was = now[at..end].to_vec();
            file.write_all_at(&vec![0x33; end - at], at as u64).unwrap();
            file.write_all_at(&as_it_was, at as u64).unwrap();
        } else {
            now[at..end].fill((n % 255) as u8);
            file.write_all_at(&now[at..end], at as u64).unwrap();
        }
    }
    assert!(fs::read(home.path("f")).unwrap() == now);
    // Fails if the daemon has not ended after twenty seconds.
    home.umount();
    let store = home.store().to_str().unwrap();
    let listed = crate::common::trumanfs(&["versions", store, "/f", "--json"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let whole = format!("\"size\":{}", original.len());
    let former = listed.matches(&whole).count();
    assert!(former >= 4000 && !listed.contains("lost"), "{former}");
    let undo = format!("ulimit -Sn 256 && exec \"$0\" undo '{store}' --session last");
    let undo = std::process::Command::new("sh")
        .args(["-c", &undo, env!("CARGO_BIN_EXE_trumanfs")])
        .output()
        .unwrap();
    assert!(undo.status.success(), "{undo:?}");
    assert!(fs::read(home.store().join("f")).unwrap() == original);
    let few = format!("ulimit -n 256 && exec \"$0\" cat '{store}' /f --at 2");
    let few = std::process::Command::new("sh")
        .args(["-c", &few, env!("CARGO_BIN_EXE_trumanfs")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&few.stderr);
    assert!(
        !few.status.success() && said.contains("ulimit -n"),
        "{few:?}"
    );
}

/// The lists beside versions count as well: of a file that is opened again and again for a small write, each takes as much
/// as what it lists. What the session began with (2 MiB of it) is not evicted.
#[test]
fn the_limit_is_for_the_lists_of_versions_as_well() {
    need_mount!();
    let original = Chance(43).bytes(8 << 20);
    let home = Home::prepared(
        |store| fs::write(store.join("f"), &original).unwrap(),
        &["--keep-max", "4M", "--keep-evict"],
    );
    let shared = std::process::Command::new("cp")
        .arg("--reflink=always")
        .args([
            home.store().join("f"),
            home.store().join(".trumanfs/shared"),
        ])
        .output()
        .unwrap();
    if shared.status.success() {
        skip!(
            "unshared-blocks",
            "files share blocks here, so that a version counts as the whole file"
        );
    }
    let mut most = 0;
    for n in 0..1500_u64 {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).open(home.path("f")).unwrap();
        file.write_all_at(b"changed", n * 4096 % (2 << 20)).unwrap();
        if n % 250 == 249 {
            most = most.max(taken(home.store()));
        }
    }
    assert!(
        most > 3 << 20 && most <= (4 << 20) + (64 << 10),
        "{most} bytes"
    );
}
