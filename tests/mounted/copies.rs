//! Copies of a store, by `cp -a`, `rsync` and `tar`, unused and used, mounted and not. The inodes in the journal mean
//! nothing in a copy, so questions about the past are refused with the reason, and nothing changes. Also stores that
//! are not copies: another path, a bind mount. For copies on file systems of their own, see `tests/store/disks.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_root, run_limited, skip, trumanfs};
use trumanfs::journal::ChainLink;

const CP: &str = "cp -a \"$1\" \"$2\"";

/// All that a store has, its own directory too: kind, content and when it last changed.
fn everything(store: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(store.join(&dir)).unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            let meta = fs::symlink_metadata(store.join(&path)).unwrap();
            let content = match meta.is_file() {
                true => fs::read(store.join(&path)).unwrap(),
                false => Vec::new(),
            };
            if meta.is_dir() {
                pending.push(path.clone());
            }
            all.insert(path, (meta.mode(), meta.mtime(), content));
        }
    }
    all
}

/// Runs a command on a store.
fn on(store: &Path, line: &str) -> Output {
    let mut words = line.split(' ').map(PathBuf::from);
    let mut args: Vec<PathBuf> = vec![words.next().unwrap()];
    let parts = ["trash", "session", "checkpoint"];
    if parts.iter().any(|verb| line.starts_with(verb)) {
        args.extend(words.next());
    }
    args.push(store.to_owned());
    args.extend(words);
    trumanfs(&args)
}

fn fails(store: &Path, line: &str, code: i32) {
    let output = on(store, line);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}: {}",
        describe(&output)
    );
    assert!(
        told.contains("this store is a copy: session "),
        "{line}: {told}"
    );
    assert!(told.contains("Do it in the original"), "{line}: {told}");
}

fn works(store: &Path, line: &str) -> String {
    let output = on(store, line);
    assert!(output.status.success(), "{line}: {}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Copies a store with a program, which gets the two paths last.
fn copied(from: &Path, to: &Path, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args([from, to]);
    let output = run_limited(command, Duration::from_secs(30));
    assert!(output.status.success(), "{script}: {}", describe(&output));
}

/// A store that was mounted and worked in, and is not mounted any more.
fn worked_in() -> Home {
    let mut home = Home::prepared(
        |store| {
            fs::create_dir_all(store.join("d/secret")).unwrap();
            fs::write(store.join("f"), "one\n").unwrap();
            fs::write(store.join("g"), "gee\n").unwrap();
        },
        &["--hide", "/d/secret"],
    );
    home.sh("echo two > f; printf more >> f; mkdir e; echo x > e/x; rm e/x; mv g h; mv d moved; chmod 600 h; ln h i; rm i");
    home.umount();
    home
}

const PAST: &[&str] = &[
    "undo --session last",
    "undo --session last --force",
    "undo --session last --keep-both",
    "undo --session last --dry-run",
    "undo 3",
    "restore f",
    "restore f --at last",
    "restore e --at last --to /elsewhere",
    "versions /f",
    "versions /h",
    "diff",
    "diff last..now /f",
    "cat /f --at last",
];

/// The copies whose past can be asked for: what the original says of inodes must not be believed.
#[test]
fn in_a_copy_the_past_of_the_original_is_refused_and_nothing_changes() {
    need_mount!();
    need_root!(
        "for passthrough: without it the times that the kernel writes back are recorded, too"
    );
    let home = worked_in();
    let ways = [
        ("cp", CP),
        ("rsync", "mkdir \"$2\"; rsync -aHAX \"$1/\" \"$2/\""),
        (
            "tar",
            "mkdir \"$2\"; tar -C \"$1\" -cf - . | tar -C \"$2\" -xpf -",
        ),
    ];
    for (name, script) in ways {
        if Command::new(name).arg("--version").output().is_err() {
            crate::need::skipped(
                "tools",
                &format!("not tried: {name}, which is not installed"),
            );
            continue;
        }
        let copy = home.base().join(name);
        copied(home.store(), &copy, script);
        let before = everything(&copy);
        for line in PAST {
            fails(&copy, line, 6);
            assert_eq!(everything(&copy), before, "{name}: {line}");
        }
        // What needs no inode goes on.
        assert!(works(&copy, "log").contains("/f"), "{name}");
        assert!(works(&copy, "show 2").contains("/f"), "{name}");
        let entry = works(&copy, "trash list");
        let entry = entry.split('\n').next().unwrap();
        assert!(entry.ends_with("_x") || entry.ends_with("_i"), "{entry}");
        let fsck = works(&copy, "fsck");
        assert!(fsck.contains("the store is a copy"), "{fsck}");
        assert!(!fsck.contains("problem"), "{fsck}");
        assert_eq!(everything(&copy), before, "{name}");
        let report = copy.with_extension("html");
        works(&copy, &format!("report --html {}", report.display()));
        let report = fs::read_to_string(report).unwrap();
        assert!(report.contains("this store is a copy"));
        works(&copy, &format!("trash restore {entry} --to /back"));
        assert!(copy.join("back").exists());
    }
    // The original is none.
    assert!(!works(home.store(), "fsck").contains("copy"));
    works(home.store(), "undo --session last");
    assert_eq!(fs::read(home.store().join("f")).unwrap(), b"one\n");
    assert!(home.store().join("d/secret").exists());
}

/// A copy is a store: what is done in it can be taken back in it, and what was hidden by inode is told.
#[test]
fn what_is_done_in_a_copy_is_undone_there() {
    need_mount!();
    let mut home = worked_in();
    let (original, copy) = (home.base().join("original"), home.store().to_owned());
    fs::rename(&copy, &original).unwrap();
    copied(&original, &copy, CP);
    let said = describe(&home.mount_again());
    assert!(said.contains("the store is a copy"), "{said}");
    assert!(!said.contains("after a crash"), "{said}");
    assert!(
        said.contains("a thing that moving had kept hidden"),
        "{said}"
    );
    home.sh("test -d moved/secret; echo three > f; rm h; mkdir new; echo 4 > new/file");
    works(&copy, "restore f --at last --to /was");
    fails(&copy, "versions /e/x", 6);
    let output = on(&copy, "versions /f");
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    let output = on(&copy, "cat /f --at last");
    assert_eq!(output.stdout, b"two\nmore", "{}", describe(&output));
    works(&copy, "undo --session last");
    assert_eq!(fs::read(copy.join("f")).unwrap(), b"two\nmore");
    assert!(copy.join("h").exists() && !copy.join("new").exists());
    home.umount();
    let first = works(&copy, "session list");
    let first = first
        .lines()
        .next()
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    fails(&copy, &format!("undo --session {first}"), 6);
    fails(&copy, "undo --since 2000-01-01 --force", 6);
    let fsck = works(&copy, "fsck");
    assert!(
        fsck.contains("the store is a copy") && !fsck.contains("problem"),
        "{fsck}"
    );
}

/// What a store is known by stays: under another path, through a bind mount, after a remount.
#[test]
fn a_store_that_moved_is_no_copy() {
    need_mount!();
    let home = worked_in();
    let moved = home.base().join("elsewhere");
    fs::rename(home.store(), &moved).unwrap();
    let seen = home.base().join("seen");
    fs::create_dir(&seen).unwrap();
    let bind: [&Path; 3] = ["--bind".as_ref(), &moved, &seen];
    if !Command::new("mount").args(bind).status().unwrap().success() {
        skip!("root", "needs root to bind directories");
    }
    let diff = trumanfs(&["diff".as_ref(), seen.as_os_str()]);
    let undone = trumanfs(&[
        "undo".as_ref(),
        seen.as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
    ]);
    let gone = Command::new("umount").arg(&seen).status().unwrap();
    assert!(gone.success());
    assert_eq!(diff.status.code(), Some(1), "{}", describe(&diff));
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(moved.join("f")).unwrap(), b"one\n");
    works(&moved, "redo");
    works(&moved, "versions /f");
    assert!(!works(&moved, "fsck").contains("copy"));
}

/// A daemon that died left records whose outcome only the disk knows: the disk of the original, not that of a copy.
#[test]
fn in_a_copy_of_a_store_whose_daemon_died_nothing_is_settled_by_inode() {
    need_mount!();
    let mut home = Home::mount();
    home.sh("echo a > a; echo b > b; echo c > c; rm a; mv b d; ln c e");
    home.kill_daemon();
    let (original, copy) = (home.base().join("original"), home.store().to_owned());
    fs::rename(&copy, &original).unwrap();
    copied(&original, &copy, CP);
    fails(&copy, "undo --session last", 6);
    let said = describe(&home.mount_again());
    assert!(
        said.contains("the store is a copy") && !said.contains("had not been done"),
        "{said}"
    );
    home.umount();
    for store in [&copy, &original] {
        let log = works(store, "log --all");
        assert!(!log.contains("abort") && !log.contains("not done"), "{log}");
    }
    works(&original, "undo --session last");
    assert!(!original.join("c").exists());
}

/// Makes of a store what an earlier release would have left: records that do not say where they were made, and no seals.
fn as_of_an_earlier_release(store: &Path) {
    for session in fs::read_dir(store.join(".trumanfs/sessions")).unwrap() {
        let journal = session.unwrap().path().join("journal.jsonl");
        let (mut text, mut prev) = (String::new(), None::<ChainLink>);
        for line in fs::read_to_string(&journal).unwrap().lines() {
            if line.contains("\"op\":\"seal\"") {
                // Copies that seals alone name were not made either.
                let seal: serde_json::Value = serde_json::from_str(line).unwrap();
                let stamps = seal["stamps"].as_array().into_iter().flatten();
                for n in stamps.filter_map(|stamp| stamp["n"].as_u64()) {
                    let versions = journal.with_file_name("versions");
                    fs::remove_file(versions.join(format!("{n:08}"))).unwrap();
                }
                continue;
            }
            let mut line = line.replacen("\"v\":6", "\"v\":1", 1);
            if let (Some(from), None) = (line.find(",\"store\":{"), &prev) {
                let end = from + line[from..].find('}').unwrap() + 1;
                line.replace_range(from..end, "");
            }
            let at = line.rfind(",\"prev\":\"").unwrap() + 9;
            line.truncate(at);
            line += &prev.map_or("0".repeat(64), |prev| prev.to_string());
            line += "\"}";
            prev = Some(ChainLink::of(line.as_bytes()));
            text.push_str(&line);
            text.push('\n');
        }
        fs::write(&journal, text).unwrap();
    }
}

/// Sessions of an earlier release do not say where they were recorded: what lies in the trash, or what they left, tells.
#[test]
fn a_copy_of_a_store_of_an_earlier_release_is_known_by_what_it_holds() {
    need_mount!();
    // With something in the trash, with a version that is the file itself, and with neither.
    let scripts = [
        "rm f",
        "echo two > f",
        "mkdir e; mv f e/x; chmod 600 e/x",
        "mkdir -p e/y; mv e z; mv f z/y/f; printf more >> z/y/f",
    ];
    for script in scripts {
        let mut home = Home::prepared(|store| fs::write(store.join("f"), "one\n").unwrap(), &[]);
        home.sh(script);
        home.umount();
        as_of_an_earlier_release(home.store());
        assert!(!works(home.store(), "fsck").contains("copy"), "{script}");
        let copy = home.base().join("copy");
        copied(home.store(), &copy, CP);
        fails(&copy, "undo --session last", 6);
        fails(&copy, "undo --session last --force", 6);
        // Once found out, it is written down: what is done later hides it no more.
        let first = works(&copy, "session list");
        let first = first.split(' ').next().unwrap().to_owned();
        works(&copy, "checkpoint create here");
        fs::remove_dir_all(copy.join(".trash")).unwrap();
        fails(&copy, &format!("undo --session {first}"), 6);
        works(home.store(), "undo --session last");
        assert_eq!(
            fs::read(home.store().join("f")).unwrap(),
            b"one\n",
            "{script}"
        );
    }
}
