//! Storms: several programs change the same files at once. Afterwards the home shows what the store holds, sizes and bytes.
//!
//! `TRUMANFS_ROUNDS` makes more rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod common;

use std::fs;
use std::time::Duration;

use common::calls::*;
use common::{Home, child, need_mount, skip};

fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("TRUMANFS_ROUNDS").ok();
    asked.map_or(usual, |text| text.parse().unwrap())
}

/// Says in what a file of the home differs from that of the store.
fn difference(home: &Home, name: &str) -> Option<String> {
    let (shown, stored) = (home.path(name), home.store().join(name));
    let sizes = [&shown, &stored].map(|path| stat(path).map(|stat| stat.size));
    if sizes[0] != sizes[1] {
        return Some(format!(
            "{name}: in the home / in the store: {:?} / {:?}",
            sizes[0], sizes[1]
        ));
    }
    (sizes[0].is_ok() && fs::read(shown).unwrap() != fs::read(stored).unwrap())
        .then(|| format!("{name}: other bytes"))
}

/// What the home's kernel does by itself when an open that empties has returned (`fuse_do_setattr`, `ATTR_OPEN`): it sets the size to
/// zero once more. Whoever has waited for the inode writes before that. A process of `SCHED_FIFO` that waits is the next to get
/// the lock (`rwsem_try_write_lock`), so here it happens in some of a hundred rounds instead of one in thousands.
fn emptied_while_another_writes(options: &[&str], also: fn(&rustix::fd::OwnedFd)) {
    if !child::spawn(|| Ok(first_come_first_served().is_ok().to_string()))
        .join()
        .is_ok_and(|allowed| allowed == "true")
    {
        skip!("needs the right to real-time scheduling");
    }
    let home = Home::plan()
        .options(options)
        .limit(Duration::from_secs(120))
        .mount();
    let path = home.path("f");
    let mut wrong = Vec::new();
    for round in 0..rounds(400) {
        fs::write(&path, vec![b'o'; 3000]).unwrap();
        let writer = {
            let path = path.clone();
            child::spawn(move || {
                first_come_first_served().map_err(|errno| errno.to_string())?;
                let fd = open(&path, O_RDWR, 0).map_err(|errno| errno.to_string())?;
                std::thread::sleep(Duration::from_micros(round * 37 % 700));
                for _ in 0..=round % 8 {
                    pwrite(&fd, &[b'x'; 5000], 0).map_err(|errno| errno.to_string())?;
                    also(&fd);
                }
                Ok(String::new())
            })
        };
        drop(open(&path, O_WRONLY | O_TRUNC, 0).unwrap());
        writer.join().unwrap();
        wrong.extend(difference(&home, "f").map(|what| format!("round {round}: {what}")));
    }
    assert!(
        wrong.is_empty(),
        "{} rounds:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_open_that_empties_leaves_the_size_that_others_write() {
    need_mount!();
    emptied_while_another_writes(&[], |_| {});
    emptied_while_another_writes(&[], |fd| fchmod(fd, 0o644).unwrap());
}

#[test]
fn an_open_that_empties_leaves_the_size_that_others_write_without_passthrough() {
    need_mount!();
    emptied_while_another_writes(&["--no-passthrough"], |_| {});
    emptied_while_another_writes(&["--no-passthrough"], |fd| fchmod(fd, 0o644).unwrap());
    let believed = ["--no-passthrough", "--cache-ttl", "60"];
    emptied_while_another_writes(&believed, |fd| fchmod(fd, 0o644).unwrap());
}
