//! Forks at places with hostile names, several at once, on a full disk; merges while both sides are worked in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::fork::{beside, run, text};
use crate::common::disk::Disk;
use crate::common::tree::tree;
use crate::common::{Home, binary, need_mount, skip, trumanfs};

fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    let store = fs::canonicalize(dir.path()).unwrap().join("store");
    fs::create_dir(&store).unwrap();
    for n in 0..50 {
        fs::write(store.join(n.to_string()), n.to_string()).unwrap();
    }
    run(0, &["exec", "--root", text(&store), "--", "touch begun"]);
    (dir, store)
}

/// Names of more than 246 bytes had none for the directory that the fork is made in; a fork of the name `.trumanfs` made
/// a store of the directory around, so that nothing beside it could be forked or mounted any more.
#[test]
fn a_fork_has_any_name_but_those_of_a_stores_own_directories() {
    let (_dir, store) = store();
    let (long, longer) = ("n".repeat(248), "n".repeat(255));
    for name in [
        &*long,
        &*longer,
        "new\nline",
        "\u{1b}[31mred",
        ".hidden",
        "-f",
    ] {
        run(0, &["fork", "--copy", text(&store), "--", name]);
        let fork = store.with_file_name(name);
        assert_eq!(tree(&fork), tree(&store), "{name:?}");
        fs::remove_dir_all(&fork).unwrap();
    }
    for name in [".trumanfs", ".trash"] {
        let refused = run(6, &["fork", "--copy", text(&store), name]);
        assert!(
            refused.contains("cannot be the place of a fork"),
            "{refused}"
        );
    }
    for (name, code) in [("..", 2), ("/", 2), (".", 4), ("store", 4), ("no/such", 3)] {
        run(code, &["fork", "--copy", text(&store), name]);
    }
    assert_eq!(beside(&store), ["store"]);
    symlink("nowhere", store.with_file_name("link")).unwrap();
    let taken = run(4, &["fork", "--copy", text(&store), "link"]);
    assert!(taken.contains("is there already"), "{taken}");
    assert!(!store.with_file_name("nowhere").exists());
}

#[test]
fn of_several_forks_to_one_name_one_is_made() {
    let (_dir, store) = store();
    let forks = (0..4).map(|_| {
        let mut fork = Command::new(binary());
        fork.args(["fork", "--copy", text(&store), "fork"]);
        fork.stdout(Stdio::null()).stderr(Stdio::null());
        fork.spawn().unwrap()
    });
    let forks: Vec<_> = forks.collect();
    let ends = forks
        .into_iter()
        .map(|mut fork| fork.wait().unwrap().code());
    let mut ends: Vec<i32> = ends.map(Option::unwrap).collect();
    ends.sort_unstable();
    assert_eq!(ends, [0, 4, 4, 4]);
    assert_eq!(tree(&store.with_file_name("fork")), tree(&store));
    assert_eq!(beside(&store), ["fork", "store"]);
}

/// The disk that is full was not named.
#[test]
fn a_fork_on_a_full_disk_leaves_nothing() {
    let disk = match Disk::new(&["mkfs.ext4", "-q"], 32) {
        Ok(disk) => disk,
        Err(why) => skip!("ext4", "no ext4: {why}"),
    };
    let store = disk.at("mnt/store");
    for n in 0..20 {
        fs::write(store.join(n.to_string()), vec![b'x'; 800_000]).unwrap();
    }
    run(0, &["exec", "--root", text(&store), "--", "touch begun"]);
    let (was, names) = (tree(&store), beside(&store));
    let full = run(7, &["fork", "--copy", text(&store), "fork"]);
    let place = disk.at("mnt/fork");
    assert!(
        full.contains(&format!("{}: the disk is full", place.display())),
        "{full}"
    );
    assert!(full.contains("Nothing was made"), "{full}");
    assert_eq!((tree(&store), beside(&store)), (was, names));
}

/// A merge meets what is done in both homes at any moment: one may find a conflict with what moves on under it, and changes
/// nothing then, but in the end all is there, and nothing counts as an edit beside the fork's home.
#[test]
fn a_fork_is_merged_while_both_are_worked_in() {
    need_mount!();
    let home = Home::prepared(|store| fs::write(store.join("5"), "5").unwrap(), &[]);
    run(0, &["fork", "--copy", text(home.store()), "fork"]);
    let fork = home.store().with_file_name("fork");
    let mount = home.store().with_file_name("mount");
    fs::create_dir(&mount).unwrap();
    run(0, &["mount", text(&fork), text(&mount)]);
    let stop = AtomicBool::new(false);
    let said: Vec<String> = std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..3000 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (dir, moved) = (mount.join(format!("d{n}")), mount.join(format!("moved{n}")));
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("x"), n.to_string()).unwrap();
                fs::rename(&dir, &moved).unwrap();
                fs::write(home.path(format!("ours{n}")), "ours").unwrap();
            }
        });
        let merges = (0..6).map(|_| {
            let merged = trumanfs(&["merge", "--json", text(home.home()), text(&mount)]);
            String::from_utf8_lossy(&merged.stdout).into_owned()
                + &String::from_utf8_lossy(&merged.stderr)
        });
        let said = merges.collect();
        stop.store(true, Ordering::Relaxed);
        said
    });
    trumanfs(&["merge", text(home.home()), text(&mount)]);
    let last = trumanfs(&["merge", text(home.home()), text(&mount)]);
    let moved = fs::read_dir(&mount)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let missing: Vec<_> = moved.filter(|name| !home.path(name).exists()).collect();
    run(0, &["umount", text(&mount)]);
    assert!(!said.iter().any(|said| said.contains("beside")), "{said:?}");
    assert_eq!(
        last.status.code(),
        Some(1),
        "{}",
        crate::common::describe(&last)
    );
    assert!(missing.is_empty(), "{missing:?}");
}
