//! Every pair of opens of one file: whatever way the kernel and the daemon choose for their data, both see what a
//! native directory shows, and none fails.
//!
//! Kernel passthrough, page cache and direct requests do not go together on one inode in every order (fuse/iomode.c);
//! keeping contents block by block chooses among them at each open. So all orders are tried, with a small and a large
//! file, and the same steps on a native directory must give the same answers.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::calls::{self, Aligned};
use crate::common::{Home, need_mount};

const OPENS: &[(&str, i32)] = &[
    ("r", libc::O_RDONLY),
    ("w", libc::O_WRONLY),
    ("rw", libc::O_RDWR),
    ("append", libc::O_WRONLY | libc::O_APPEND),
    ("rw append", libc::O_RDWR | libc::O_APPEND),
    ("trunc", libc::O_WRONLY | libc::O_TRUNC),
    ("rw trunc", libc::O_RDWR | libc::O_TRUNC),
    ("r direct", libc::O_RDONLY | libc::O_DIRECT),
    ("rw direct", libc::O_RDWR | libc::O_DIRECT),
];

/// Does to one open file what its access allows, and says what came of it.
fn use_it(fd: &OwnedFd, flags: i32, mark: u8, answers: &mut Vec<String>) {
    let access = flags & libc::O_ACCMODE;
    let direct = flags & libc::O_DIRECT != 0;
    if access != libc::O_RDONLY {
        let block = Aligned::filled(mark, 4096);
        let written = match direct {
            true => calls::pwrite(fd, block.bytes(), 4096),
            false => calls::pwrite(fd, &[mark; 10], 5000),
        };
        answers.push(format!("write {written:?}"));
    }
    if access != libc::O_WRONLY {
        let read = match direct {
            true => calls::pread_aligned(fd, 8192, 0),
            false => calls::pread(fd, 8192, 0),
        };
        answers.push(format!("read {:?}", read.map(|bytes| sum(&bytes))));
    }
    if access == libc::O_RDWR && !direct {
        let map = calls::Map::new(fd.as_fd(), 4096, 0, true, true);
        let changed = map.map(|map| {
            map.put(2, &[mark; 7]);
            sum(&map.get(0, 10))
        });
        answers.push(format!("map {changed:?}"));
    }
    answers.push(format!("size {:?}", calls::fstat(fd).map(|s| s.size)));
}

fn sum(bytes: &[u8]) -> (usize, u64) {
    let mix = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    (bytes.len(), bytes.iter().fold(7, mix))
}

fn pair(dir: &Path, name: &str, one: i32, other: i32, first_closes: bool) -> Vec<String> {
    let path = dir.join(name);
    let mut answers = Vec::new();
    let a = calls::open(&path, one, 0).unwrap();
    use_it(&a, one, b'1', &mut answers);
    let b = match calls::open(&path, other, 0) {
        Ok(b) => b,
        Err(errno) => return vec![format!("open {errno:?}")],
    };
    use_it(&b, other, b'2', &mut answers);
    use_it(&a, one, b'3', &mut answers);
    let (left, flags, gone) = match first_closes {
        true => (b, other, a),
        false => (a, one, b),
    };
    drop(gone);
    use_it(&left, flags, b'4', &mut answers);
    let c = calls::open(&path, libc::O_RDONLY, 0).unwrap();
    use_it(&c, libc::O_RDONLY, b'5', &mut answers);
    drop((left, c));
    answers.push(format!("whole {:?}", sum(&fs::read(&path).unwrap())));
    answers
}

fn all_pairs(size: usize, options: &[&str]) {
    let content: Vec<u8> = (0..size).map(|n| (n / 7 % 251) as u8).collect();
    let names: Vec<(String, i32, i32, bool)> = OPENS
        .iter()
        .flat_map(|one| OPENS.iter().map(move |other| (one, other)))
        .flat_map(|(one, other)| {
            [true, false].map(|first| {
                let name = format!("{} then {}, {first}", one.0, other.0);
                (name, one.1, other.1, first)
            })
        })
        .collect();
    let fill = |dir: &Path| {
        for (name, ..) in &names {
            fs::write(dir.join(name), &content).unwrap();
        }
    };
    let home = Home::plan()
        .options(options)
        .limit(std::time::Duration::from_secs(200))
        .prepare(fill)
        .mount();
    let native = tempfile::tempdir_in(home.base()).unwrap();
    fill(native.path());
    let mut wrong = Vec::new();
    for (name, one, other, first) in &names {
        let expected = pair(native.path(), name, *one, *other, *first);
        let got = pair(home.home(), name, *one, *other, *first);
        if expected != got {
            wrong.push(format!("{name}:\n  native {expected:?}\n  home   {got:?}"));
        }
        let stored = fs::read(home.store().join(name)).unwrap();
        if stored != fs::read(native.path().join(name)).unwrap() {
            wrong.push(format!("{name}: the store has another content"));
        }
    }
    assert!(wrong.is_empty(), "size {size}:\n{}", wrong.join("\n"));
}

#[test]
fn pairs_on_a_small_file() {
    need_mount!();
    all_pairs(20_000, &[]);
}

#[test]
fn pairs_on_a_file_too_big_to_copy() {
    need_mount!();
    all_pairs(20_000, &["--copy-up-to", "4K"]);
}

#[test]
fn pairs_without_passthrough() {
    need_mount!();
    all_pairs(20_000, &["--copy-up-to", "4K", "--no-passthrough"]);
}

/// The place of a file that was being removed was noted after its move: one open in thirty was answered with ENOENT.
#[test]
fn who_creates_what_another_program_removes_is_never_told_that_it_is_absent() {
    need_mount!();
    for options in [&[][..], &["--no-passthrough"]] {
        let home = Home::with(options);
        let (path, over) = (home.path("f"), AtomicBool::new(false));
        let mut answers = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = fs::write(&path, "other");
                    let _ = fs::remove_file(&path);
                }
            });
            for _ in 0..1000 {
                for how in [libc::O_TRUNC, libc::O_APPEND] {
                    let flags = libc::O_WRONLY | libc::O_CREAT | how;
                    answers.extend(calls::open(&path, flags, 0o644).err());
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(answers, [], "{options:?}");
    }
}
