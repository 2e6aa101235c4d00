//! Forks: everything comes along, nothing that changes afterwards is shared, and a fork that is killed leaves nothing
//! or all of it. On xfs and btrfs contents are shared; elsewhere (`--copy`) they are copied.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::disk::Disk;
use crate::common::tree::tree;
use crate::common::{Home, describe, need_mount, skip, trumanfs};

pub(super) fn run(code: i32, args: &[&str]) -> String {
    let output = trumanfs(args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        describe(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Fills a store with one of everything.
fn fill(store: &Path) {
    for dir in ["d/e/f", "node_modules/p", "shut"] {
        fs::create_dir_all(store.join(dir)).unwrap();
    }
    fs::write(store.join("d/one"), "one\n").unwrap();
    fs::write(store.join("d/e/f/deep"), "deep\n").unwrap();
    fs::write(store.join("node_modules/p/index.js"), "1;\n").unwrap();
    fs::write(store.join(".gitignore"), "node_modules\n").unwrap();
    fs::write(store.join("program"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(store.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(store.join("d/one"), store.join("second-name")).unwrap();
    symlink("d/one", store.join("link")).unwrap();
    let sparse = fs::File::create(store.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        store.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    fs::write(store.join("shut/in"), "in\n").unwrap();
    fs::set_permissions(store.join("shut"), fs::Permissions::from_mode(0o555)).unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
    let file = fs::File::open(store.join("program")).unwrap();
    file.set_modified(old).unwrap();
}

/// A fork of a mounted home, with `flags`, compared with its origin; then both change in every way.
fn forks_apart(base: &Path, flags: &[&str]) {
    let home = Home::plan()
        .on(base)
        .prepare(fill)
        .options(&["--symlinks=inside", "--hide=*.secret"])
        .mount();
    home.sh("echo gone >gone; rm gone; echo two >two; echo new >>d/one; mv d/e moved");
    let store = home.store().to_owned();
    let was = tree(&store);
    let fork = store.with_file_name("fork");
    let said = run(
        0,
        &[&["fork", "--json", text(home.home()), "fork"], flags].concat(),
    );
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["store"], text(&fork), "{said}");
    assert_eq!(tree(&fork), was);
    assert_eq!(
        tree(&store),
        was,
        "forking has changed something in the origin"
    );
    assert!(!fork.join(".trash").read_dir().unwrap().any(|entry| {
        let name = entry.unwrap().file_name();
        name != ".gitignore"
    }));
    let status = run(1, &["status", "--json", text(&fork)]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["fork"]["origin"], text(&store), "{status}");
    assert_eq!(status["fork"]["point"], said["point"], "{status}");
    assert!(run(1, &["status", text(&fork)]).contains(&format!("of {} as", text(&store))));
    // What the origin was mounted with holds in the fork.
    let hidden = run(
        0,
        &["exec", "--root", text(&fork), "--", "echo x >d/new; ls d"],
    );
    assert!(hidden.contains("new"), "{hidden}");
    let journal = fs::read_to_string(journal(&fork)).unwrap();
    assert!(journal.contains("*.secret"), "{journal}");
    run(0, &["undo", text(&fork), "--to", "forked"]);
    let as_forked = tree(&fork);
    assert_eq!(as_forked, was);

    // Edits of the origin: in the home, beside it in place, attributes, removals.
    home.sh("echo changed >d/one; chmod 600 two; rm -r moved; echo more >>program");
    let in_place = fs::OpenOptions::new()
        .write(true)
        .open(store.join("node_modules/p/index.js"));
    std::io::Write::write_all(&mut in_place.unwrap(), b"2").unwrap();
    assert_eq!(
        tree(&fork),
        was,
        "an edit of the origin has reached the fork"
    );
    let changed = tree(&store);
    let in_place = fs::OpenOptions::new().write(true).open(fork.join("two"));
    std::io::Write::write_all(&mut in_place.unwrap(), b"2").unwrap();
    run(
        0,
        &[
            "exec",
            "--root",
            text(&fork),
            "--",
            "rm -r node_modules d; echo >program",
        ],
    );
    assert_eq!(
        tree(&store),
        changed,
        "an edit of the fork has reached the origin"
    );
    assert!(run(0, &["fsck", text(&fork)]).contains("everything agrees"));

    let taken = run(4, &[&["fork", text(&store), "fork"], flags].concat());
    assert!(taken.contains("is there already"), "{taken}");
    let inside = run(
        6,
        &[&["fork", text(&store), text(&store.join("x"))], flags].concat(),
    );
    assert!(inside.contains("lies in the store"), "{inside}");
    let inside = run(
        6,
        &[&["fork", text(&store), text(&home.path("x"))], flags].concat(),
    );
    assert!(inside.contains("in a home"), "{inside}");
    fs::remove_dir_all(&fork).unwrap();
}

/// The journal of the oldest session.
fn journal(store: &Path) -> PathBuf {
    let sessions = fs::read_dir(store.join(".trumanfs/sessions")).unwrap();
    let oldest = sessions.map(|entry| entry.unwrap().path()).min().unwrap();
    oldest.join("journal.jsonl")
}

#[test]
fn a_copied_fork_is_apart() {
    need_mount!();
    forks_apart(&std::env::temp_dir(), &["--copy"]);
}

#[test]
fn a_fork_on_xfs_is_apart() {
    need_mount!();
    match Disk::new(&["mkfs.xfs", "-q", "-m", "reflink=1"], 512) {
        Ok(disk) => forks_apart(&disk.at("mnt"), &[]),
        Err(why) => skip!("xfs", "no xfs: {why} (package xfsprogs)"),
    }
}

#[test]
fn a_fork_on_btrfs_is_apart() {
    need_mount!();
    match Disk::new(&["mkfs.btrfs", "-q"], 512) {
        Ok(disk) => forks_apart(&disk.at("mnt"), &[]),
        Err(why) => skip!("btrfs", "no btrfs: {why} (package btrfs-progs)"),
    }
}

#[test]
fn where_blocks_cannot_be_shared_a_fork_is_refused_and_leaves_nothing() {
    need_mount!();
    let disk = match Disk::new(&["mkfs.ext4", "-q"], 64) {
        Ok(disk) => disk,
        Err(why) => skip!("ext4", "no ext4: {why}"),
    };
    let store = disk.at("mnt/store");
    fs::write(store.join("f"), "f\n").unwrap();
    run(0, &["exec", "--root", text(&store), "--", "touch g"]);
    let refused = run(6, &["fork", text(&store), "fork"]);
    assert!(refused.contains("--copy"), "{refused}");
    let mut left: Vec<_> = fs::read_dir(disk.at("mnt"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["lost+found", "store"]);
}

/// The names beside a store.
pub(super) fn beside(store: &Path) -> Vec<String> {
    let names = fs::read_dir(store.parent().unwrap()).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_fork_that_is_killed_leaves_nothing_or_all_of_it() {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap().join("store");
    for n in 0..30 {
        fs::create_dir_all(store.join(format!("d{n}"))).unwrap();
        for m in 0..60 {
            fs::write(store.join(format!("d{n}/{m}")), format!("{n} {m}\n")).unwrap();
        }
    }
    run(0, &["exec", "--root", text(&store), "--", "touch d0/new"]);
    let was = tree(&store);
    let (mut dead, mut whole) = (0, 0);
    let mut wait = Duration::from_millis(4);
    while whole == 0 || dead < 5 {
        let mut fork = Command::new(crate::common::binary())
            .args(["fork", "--copy", text(&store), "fork"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(wait);
        let _ = fork.kill();
        fork.wait().unwrap();
        assert_eq!(tree(&store), was, "the origin has changed");
        let place = store.with_file_name("fork");
        match place.exists() {
            true => {
                whole += 1;
                assert_eq!(tree(&place), was, "a killed fork is not whole");
                assert_eq!(beside(&store), ["fork", "store"]);
                fs::remove_dir_all(&place).unwrap();
                wait = Duration::from_millis(4);
            }
            false => {
                dead += 1;
                wait = wait * 3 / 2;
            }
        }
        assert!(
            wait < Duration::from_secs(30),
            "{dead} died, {whole} were whole"
        );
    }
    // What a killed one has left goes with the next one; what is somebody else's does not.
    let left = store.with_file_name(".fork.forking");
    fs::create_dir_all(left.join("mine")).unwrap();
    if left.join(".trumanfs/fork").exists() {
        run(0, &["fork", "--copy", text(&store), "fork"]);
    } else {
        let refused = run(6, &["fork", "--copy", text(&store), "fork"]);
        assert!(refused.contains("no unfinished fork"), "{refused}");
        assert!(left.join("mine").exists());
    }
}

/// A program replaces many files one after the other, again and again. At each point the first of them are one step
/// ahead of the rest, so a fork that is no such state is of no point.
#[test]
fn a_fork_of_a_home_that_changes_is_of_one_point() {
    need_mount!();
    const FILES: usize = 40;
    let home = Home::prepared(
        |store| {
            for dir in ["a", "b"] {
                fs::create_dir(store.join(dir)).unwrap();
                for n in 0..FILES {
                    fs::write(store.join(format!("{dir}/{n:02}")), "0").unwrap();
                }
            }
            for n in 0..500 {
                fs::write(store.join(format!("filler{n}")), "filler\n").unwrap();
            }
        },
        &[],
    );
    let stop = AtomicBool::new(false);
    let pause = AtomicU64::new(3);
    let end = Instant::now() + Duration::from_secs(90);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 1.. {
                for n in 0..FILES {
                    if stop.load(Ordering::Relaxed) || Instant::now() > end {
                        return;
                    }
                    let (from, to) = match round % 2 {
                        0 => ("b", "a"),
                        _ => ("a", "b"),
                    };
                    let new = home.path("new");
                    fs::write(&new, round.to_string()).unwrap();
                    fs::rename(&new, home.path(format!("a/{n:02}"))).unwrap();
                    fs::rename(
                        home.path(format!("{from}/{n:02}")),
                        home.path(format!("{to}/{n:02}.moved")),
                    )
                    .unwrap();
                    fs::rename(
                        home.path(format!("{to}/{n:02}.moved")),
                        home.path(format!("{from}/{n:02}")),
                    )
                    .unwrap();
                    std::thread::sleep(Duration::from_millis(pause.load(Ordering::Relaxed)));
                }
            }
        });
        for n in 0..3 {
            let name = format!("fork{n}");
            let fork = || trumanfs(&["fork", "--copy", text(home.store()), &name]);
            let mut forked = fork();
            // On a machine that has much else to do, a fork may not keep up with this pace.
            if describe(&forked).contains("changes faster than it can be forked") {
                pause.store(40, Ordering::Relaxed);
                forked = fork();
            }
            if !forked.status.success() {
                stop.store(true, Ordering::Relaxed);
                panic!("{}", describe(&forked));
            }
            let fork = home.store().with_file_name(&name);
            let step = |n: usize| -> u64 {
                let place = |dir: &str, end: &str| fork.join(format!("{dir}/{n:02}{end}"));
                let all = [place("a", ""), place("a", ".moved"), place("b", ".moved")];
                let there = all.iter().find_map(|path| fs::read_to_string(path).ok());
                there.unwrap_or_default().parse().unwrap_or(u64::MAX)
            };
            let steps: Vec<u64> = (0..FILES).map(step).collect();
            let (first, last) = (steps[0], steps[FILES - 1]);
            let falls = steps.windows(2).all(|pair| pair[0] >= pair[1]);
            if !falls || first > last + 1 {
                stop.store(true, Ordering::Relaxed);
                panic!("this is no state of the home: {steps:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
