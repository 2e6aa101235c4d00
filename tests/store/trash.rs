//! Purging and what it must not touch: everything outside the entry, open files, files with another name. Counts,
//! hidden inodes and the trash's size end up as if the entry had never existed.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::{Home, describe, need_mount, skip, trumanfs};
use serde_json::Value;

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn trash(home: &Home, verb: &str, more: &[&str]) -> Output {
    let mut args = vec![
        OsStr::new("trash"),
        OsStr::new(verb),
        home.store().as_os_str(),
    ];
    args.extend(more.iter().map(OsStr::new));
    trumanfs(&args)
}

#[track_caller]
fn purge(home: &Home, more: &[&str]) -> String {
    let output = trash(home, "purge", more);
    assert_eq!(code(&output), 0, "{}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The names that a purge would take, without what stands before them.
fn would(home: &Home, more: &[&str]) -> Vec<String> {
    let mut args = more.to_vec();
    args.extend(["--dry-run", "--json"]);
    let output = trash(home, "purge", &args);
    assert!(matches!(code(&output), 0 | 1), "{}", describe(&output));
    let choice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = choice["entries"].as_array().unwrap();
    let mut names: Vec<String> = entries
        .iter()
        .map(|entry| entry["path"].as_str().unwrap_or("?").to_owned())
        .collect();
    names.sort();
    names
}

fn name_of(entry: &Path) -> &str {
    entry.file_name().unwrap().to_str().unwrap()
}

fn net(text: &str) -> std::collections::BTreeMap<String, i64> {
    let mut counts = std::collections::BTreeMap::new();
    for line in text.lines() {
        let (sign, id) = match line.strip_prefix('-') {
            Some(id) => (-1, id),
            None => (1, line.trim_start_matches('+')),
        };
        *counts.entry(id.to_owned()).or_insert(0) += sign;
    }
    counts.retain(|_, count| *count != 0);
    counts
}

#[test]
fn without_a_choice_it_is_a_usage_error_and_a_wrong_name_deletes_nothing() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo a > a; rm a");
    assert_eq!(code(&trash(&home, "purge", &[])), 2);
    assert_eq!(code(&trash(&home, "purge", &["--versions"])), 2);
    assert_eq!(
        code(&trash(&home, "purge", &["--all", "--keep-last", "3"])),
        2
    );
    assert_eq!(code(&trash(&home, "purge", &["--older-than", "soon"])), 2);
    let entry = home.trashed("a").remove(0);
    let output = trash(
        &home,
        "purge",
        &[name_of(&entry), "20200101T000000.000000Z_b"],
    );
    assert_eq!(code(&output), 3, "{}", describe(&output));
    assert!(entry.exists());
    assert_eq!(code(&trash(&home, "purge", &["--larger-than", "1G"])), 1);
}

#[test]
fn an_entry_is_deleted_for_good_recorded_and_nothing_else() {
    need_mount!();
    let mut home = Home::mount();
    for mounted in [true, false] {
        home.sh("mkdir -p d/e; echo 1 > d/e/f; echo keep > d2; rm -r d; echo 2 > g; rm g d2");
        if !mounted {
            home.umount();
        }
        let (d, g) = (
            home.trashed("d").pop().unwrap(),
            home.trashed("g").pop().unwrap(),
        );
        assert!(purge(&home, &[name_of(&d), name_of(&g)]).starts_with("purged 2 things"));
        assert!(!d.exists() && !g.exists());
        let left = home.trashed("d2").pop().unwrap();
        let output = trash(&home, "restore", &[name_of(&left)]);
        assert_eq!(code(&output), 0, "{}", describe(&output));
        let journal = home.journal();
        let record = journal.iter().rfind(|r| r["op"] == "purge").unwrap();
        let entries: Vec<_> = record["entries"].as_array().unwrap().iter().collect();
        assert_eq!(entries, [name_of(&d), name_of(&g)]);
        assert!(record["actor"]["pid"].as_u64().unwrap() > 0);
        assert_eq!(
            fs::read_dir(home.store().join(".trumanfs/purging"))
                .unwrap()
                .count(),
            0
        );
        if mounted {
            // Also what the kernel had been told of the entry.
            assert!(!home.path(".trash").join(name_of(&d)).exists());
            fs::remove_file(home.path("d2")).unwrap();
        }
    }
}

#[test]
fn what_the_kernel_knows_of_a_purged_entry_is_forgotten() {
    need_mount!();
    let home = Home::mount();
    home.sh("mkdir d; echo 1 > d/f; rm -r d");
    let entry = home.trashed("d").remove(0);
    let seen = home.path(".trash").join(name_of(&entry));
    assert_eq!(fs::read_to_string(seen.join("f")).unwrap(), "1\n");
    purge(&home, &["--all"]);
    assert!(!seen.exists());
    assert!(!seen.join("f").exists());
    assert!(fs::read_dir(home.path(".trash")).unwrap().next().is_none());
}

#[test]
fn links_and_mounts_in_an_entry_are_not_followed() {
    need_mount!();
    let mut home = Home::mount();
    let outside = home.base().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    home.sh("mkdir -p d/mnt d/sub; echo 1 > d/sub/f");
    std::os::unix::fs::symlink(&outside, home.store().join("d/link")).unwrap();
    std::os::unix::fs::symlink(outside.join("precious"), home.store().join("d/link2")).unwrap();
    fs::rename(home.store().join("d"), home.store().join(".trash/d")).unwrap();
    let inside = home.store().join(".trash/d/mnt");
    rustix::mount::mount_bind(&outside, &inside).unwrap();
    let output = trash(&home, "purge", &["d"]);
    let moved = home.store().join(".trumanfs/purging/d/mnt");
    assert_eq!(code(&output), 5, "{}", describe(&output));
    assert!(outside.join("precious").exists());
    assert!(
        moved.join("precious").exists(),
        "the mount is where it was left"
    );
    assert!(
        !home.store().join(".trumanfs/purging/d/sub").exists(),
        "the rest is gone"
    );
    rustix::mount::unmount(&moved, rustix::mount::UnmountFlags::DETACH).unwrap();
    // What was left is deleted with the next purge, and at the next mount.
    home.umount();
    home.mount_again();
    let until = Instant::now() + Duration::from_secs(60);
    while home.store().join(".trumanfs/purging/d").exists() {
        assert!(
            Instant::now() < until,
            "an unfinished purge is not finished"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(outside.join("precious").exists());
}

#[test]
fn a_tree_deeper_than_any_path_is_deleted() {
    need_mount!();
    let home = Home::mount();
    // Behind the mount, for speed: 4000 levels of 20 bytes are 80 kB of path.
    let mut dir: std::os::fd::OwnedFd = fs::File::open(home.store().join(".trash")).unwrap().into();
    for _ in 0..4000 {
        rustix::fs::mkdirat(&dir, "a_rather_longer_name", 0o755.into()).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        dir = rustix::fs::openat(&dir, "a_rather_longer_name", flags, 0.into()).unwrap();
        rustix::fs::openat(&dir, "f", rustix::fs::OFlags::CREATE, 0o600.into()).unwrap();
    }
    drop(dir);
    purge(&home, &["a_rather_longer_name"]);
    assert!(home.trash().is_empty());
    assert_eq!(
        fs::read_dir(home.store().join(".trumanfs/purging"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn another_hard_link_lives_on_and_is_counted_rightly() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo data > a; ln a b; ln a c; rm a");
    assert_eq!(fs::metadata(home.path("b")).unwrap().nlink(), 2);
    let printed = purge(&home, &["--all"]);
    assert!(printed.contains("0 bytes free"), "{printed}");
    assert_eq!(fs::metadata(home.path("b")).unwrap().nlink(), 2);
    assert_eq!(fs::read_to_string(home.path("c")).unwrap(), "data\n");
    home.sh("rm b c");
    purge(&home, &["--all"]);
    let links = fs::read_to_string(home.store().join(".trumanfs/links")).unwrap();
    assert!(net(&links).is_empty(), "{links}");
}

#[test]
fn a_hidden_inode_is_forgotten_when_it_is_purged() {
    need_mount!();
    let mut home = Home::prepared(
        |store| {
            fs::create_dir_all(store.join("d/secret")).unwrap();
            fs::write(store.join("d/secret/key"), "k").unwrap();
        },
        &["--hide", "/d/secret"],
    );
    home.sh("mv d e; rmdir e");
    let pinned =
        |home: &Home| net(&fs::read_to_string(home.store().join(".trumanfs/pinned")).unwrap());
    assert_eq!(pinned(&home).len(), 1);
    assert_eq!(home.trash().len(), 1);
    purge(&home, &["--all"]);
    assert!(pinned(&home).is_empty());
    // A new directory may get the number of the old one.
    home.sh("for i in 1 2 3 4 5 6 7 8; do mkdir new$i; done; test $(ls | wc -l) = 8");
    home.remount();
    home.sh("test $(ls | wc -l) = 8");
}

#[test]
fn open_files_survive_the_purge_of_their_entry() {
    need_mount!();
    let home = Home::mount();
    fs::create_dir(home.path("d")).unwrap();
    let mut files = Vec::new();
    for name in ["a", "d/b"] {
        let path = home.path(name);
        fs::write(&path, "before").unwrap();
        files.push(
            fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap(),
        );
    }
    home.sh("rm -r a d");
    purge(&home, &["--all"]);
    for file in &mut files {
        assert_eq!(file.metadata().unwrap().len(), 6);
        file.seek(std::io::SeekFrom::End(0)).unwrap();
        file.write_all(b" and after").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
        file.sync_all().unwrap();
    }
}

#[test]
fn conditions_narrow_the_choice() {
    need_mount!();
    let home = Home::mount();
    home.sh("head -c 300000 /dev/zero > big; echo 1 > old; echo 2 > new; rm big old new");
    // The journal knows it under its old name only. What its name says of the time is a clock's word, which decides nothing.
    let old = home.trashed("old").remove(0);
    fs::rename(&old, old.with_file_name("20200101T000000.000000Z_old")).unwrap();
    assert_eq!(would(&home, &["--older-than", "1d"]), [""; 0]);
    assert_eq!(would(&home, &["--larger-than", "256K"]), ["/big"]);
    assert_eq!(would(&home, &["--keep-last", "1"]), ["/big"]);
    assert_eq!(would(&home, &["--keep-last", "9"]), [""; 0]);
    assert_eq!(
        would(&home, &["--older-than", "1d", "--larger-than", "1M"]),
        [""; 0]
    );
    assert_eq!(would(&home, &["--all"]).len(), 3);
    assert_eq!(home.trash().len(), 3, "--dry-run changes nothing");
    assert!(!home.journal().iter().any(|r| r["op"] == "purge"));
}

#[test]
fn noise_is_known_by_what_it_is() {
    need_mount!();
    let home = Home::mount();
    let python = r#"
import os, sqlite3, tempfile
with open("passing", "w") as f: f.write("x")
os.unlink("passing")
with open("renamed.tmp", "w") as f: f.write("x")
os.rename("renamed.tmp", "renamed")
os.unlink("renamed")
with tempfile.TemporaryDirectory(dir=".", prefix="tree") as d:
    os.mkdir(d + "/sub")
    open(d + "/sub/f", "w").close()
open("foreign", "w").close()
os.system("echo text >> foreign")
os.unlink("foreign")
"#;
    let output = home.run("python3", &["-c", python]);
    if !output.status.success() {
        skip!("tools", "needs python3 with sqlite3: {}", describe(&output));
    }
    home.sh("touch a.lock; echo 123 > b.lock; echo 'a file of dependencies, @generated' > Cargo.lock; mkdir -p .git; echo x > .git/index.lock");
    home.sh("echo 'dear diary' > dream-journal; printf '\\331\\325\\005\\371 \\241c\\327 and so on' > db-journal");
    home.sh(
        "echo content > file; printf '\\067\\177\\006\\202more' > db-wal; echo tsunami > new-wal",
    );
    home.sh("rm -f a.lock b.lock Cargo.lock .git/index.lock dream-journal db-journal file db-wal new-wal");
    let chosen = would(&home, &["--ephemeral"]);
    let (tree, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|p| p.starts_with("/tree"));
    assert_eq!(tree.len(), 1, "{tree:?}");
    let expected = [
        "/.git/index.lock",
        "/a.lock",
        "/b.lock",
        "/db-journal",
        "/db-wal",
        "/passing",
        "/renamed",
    ];
    assert_eq!(others, expected);
    purge(&home, &["--ephemeral"]);
    assert_eq!(
        would(&home, &["--all"]),
        [
            "/Cargo.lock",
            "/dream-journal",
            "/file",
            "/foreign",
            "/new-wal"
        ]
    );
}

#[test]
fn usage_says_what_takes_the_space() {
    need_mount!();
    let mut home = Home::mount();
    assert_eq!(code(&trash(&home, "usage", &[])), 1);
    home.sh("head -c 100000 /dev/zero > a; rm a");
    home.remount();
    home.sh("mkdir d; head -c 200000 /dev/zero > d/b; echo 1 > c; mv c d/b; rm -r d");
    let output = trash(&home, "usage", &["--json"]);
    assert_eq!(code(&output), 0, "{}", describe(&output));
    let usage: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(usage["trash"]["count"], 3);
    assert_eq!(usage["trash"]["bytes"], 300_002);
    assert_eq!(usage["sessions"].as_object().unwrap().len(), 2);
    assert_eq!(usage["programs"]["mv"]["trash"]["bytes"], 200_000);
    assert_eq!(usage["biggest"][0]["path"], "/d/b");
    let text = String::from_utf8(trash(&home, "usage", &[]).stdout).unwrap();
    assert!(
        text.contains("by session") && text.contains("by program"),
        "{text}"
    );
    let before = home.status().unwrap()["trash_bytes"].as_u64().unwrap();
    assert!(before >= 300_000, "{before}");
    purge(&home, &["--all"]);
    assert_eq!(home.status().unwrap()["trash_bytes"], 0);
}

#[test]
fn taking_back_and_purging_at_the_same_time_lose_nothing() {
    need_mount!();
    let home = Home::mount();
    for round in 0..20 {
        home.sh("mkdir d; for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > d/$i; done; rm -r d");
        let entry = home.trashed("d").pop().unwrap();
        let from = home.path(".trash").join(name_of(&entry));
        let to = home.path(format!("back{round}"));
        let mover = std::thread::spawn({
            let to = to.clone();
            move || fs::rename(from, to).is_ok()
        });
        let output = trash(&home, "purge", &[name_of(&entry)]);
        assert!(matches!(code(&output), 0 | 3 | 1), "{}", describe(&output));
        if mover.join().unwrap() {
            assert_eq!(fs::read_dir(&to).unwrap().count(), 10, "round {round}");
        } else {
            assert!(!entry.exists() && !to.exists());
        }
    }
}

#[test]
fn former_contents_are_purged_by_age_and_number() {
    need_mount!();
    let mut home = Home::mount();
    for mounted in [true, false] {
        home.sh(
            "for i in 1 2 3 4; do echo content $i > f; done; rm -f gone; echo x > gone; rm gone",
        );
        if !mounted {
            home.umount();
        }
        let versions = |home: &Home| {
            let output = trash(home, "usage", &["--json"]);
            let usage: Value = serde_json::from_slice(&output.stdout).unwrap();
            usage["versions"]["count"].as_u64().unwrap()
        };
        let before = versions(&home);
        assert!(before >= 3, "{before}");
        assert!(purge(&home, &["--keep-last", "1", "--versions=only"]).starts_with("purged"));
        assert_eq!(versions(&home), 1);
        assert!(!home.trash().is_empty());
        purge(&home, &["--all", "--versions"]);
        assert_eq!(versions(&home), 0);
        assert!(home.trash().is_empty());
        let journal = home.journal();
        assert!(
            journal
                .iter()
                .any(|r| r["op"] == "evict" && r["actor"]["pid"].is_u64())
        );
    }
}

#[test]
fn a_removed_name_of_a_file_that_was_written_to_comes_back_as_it_was() {
    need_mount!();
    let mut home = Home::mount();
    for mounted in [true, false] {
        home.sh("printf 'what it was' > a; chmod 640 a; touch -d @1000000000.5 a; ln a b; rm a; printf 'something else' > b; printf '!' >> b");
        if !mounted {
            home.umount();
        }
        let entry = home.trashed("a").pop().unwrap();
        let output = trash(&home, "restore", &[name_of(&entry)]);
        assert_eq!(code(&output), 0, "{}", describe(&output));
        let at = |name: &str| {
            if mounted {
                home.path(name)
            } else {
                home.store().join(name)
            }
        };
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "what it was");
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "something else!");
        let meta = fs::metadata(at("a")).unwrap();
        assert_eq!(
            (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()),
            (0o640, 1_000_000_000, 500_000_000)
        );
        assert_ne!(meta.ino(), fs::metadata(at("b")).unwrap().ino());
        assert!(entry.exists());
        // Nothing is in the way of the second round but what is there.
        assert_eq!(code(&trash(&home, "restore", &[name_of(&entry)])), 4);
        if mounted {
            home.sh("rm -f a b");
        }
    }
}
