//! What `trumanfs fork` and `trumanfs merge` take, beside `cp -a --reflink=always`: seconds, and the space of the file
//! system, in percent of what the store takes. File systems that share blocks, made with their defaults in files in memory.
//!
//! `cargo bench --bench fork [-- FILES [SMALLEST LARGEST]]`, as root: 100,000 files in 1,000 directories, of 1 to 8 KB and
//! then of 20 to 50 KB where no sizes are given.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trumanfs");

fn main() {
    let given: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let files = given.first().copied().unwrap_or(100_000);
    let sizes = match given.get(1..3) {
        Some(&[smallest, largest]) => vec![(smallest, largest)],
        _ => vec![(1, 8), (20, 50)],
    };
    println!("{files} files   seconds and % of the store's space");
    for kilobytes in sizes {
        for mkfs in ["mkfs.xfs", "mkfs.btrfs"] {
            let disk = Disk::new(mkfs, files * (kilobytes.0 + kilobytes.1) / 2);
            measure(&disk, mkfs, files, kilobytes);
        }
    }
}

/// A file system in a file in memory, mounted until it is dropped.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(mkfs: &str, kilobytes: u64) -> Disk {
        let dir = tempfile::TempDir::with_prefix_in("trumanfs-bench-", "/dev/shm").unwrap();
        let disk = Disk { dir };
        let image = fs::File::create(disk.at("image")).unwrap();
        image.set_len((kilobytes << 10) * 3 + (4 << 30)).unwrap();
        fs::create_dir(disk.at("mnt")).unwrap();
        run(Command::new(mkfs).arg("-q").arg(disk.at("image")));
        let mut mount = Command::new("mount");
        run(mount
            .args(["-o", "loop"])
            .arg(disk.at("image"))
            .arg(disk.at("mnt")));
        disk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The bytes in use, when everything is where it stays.
    fn used(&self) -> u64 {
        run(Command::new("sync").arg("-f").arg(self.at("mnt")));
        let there = rustix::fs::statvfs(self.at("mnt")).unwrap();
        (there.f_blocks - there.f_bfree) * there.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.at("mnt")).status();
    }
}

fn measure(disk: &Disk, mkfs: &str, files: u64, (smallest, largest): (u64, u64)) {
    let empty = disk.used();
    let store = disk.at("mnt/store");
    let mut seed = 1_u64;
    for n in 0..files {
        let dir = store.join(format!("d{}", n % 1000));
        if n < 1000 {
            fs::create_dir_all(&dir).unwrap();
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = (smallest << 10) + (seed >> 33) % ((largest - smallest) << 10);
        fs::write(
            dir.join(n.to_string()),
            vec![b'x'; usize::try_from(size).unwrap()],
        )
        .unwrap();
    }
    let begun = [
        "exec",
        "--root",
        store.to_str().unwrap(),
        "--",
        "touch begun",
    ];
    run(Command::new(PROGRAM).args(begun));
    let before = disk.used();
    let what = format!("{mkfs:10} {smallest:2} to {largest:2} KB");
    let report = |name: &str, seconds: f64, was: u64| {
        let more = (disk.used() - was) as f64 / (before - empty) as f64 * 100.0;
        let apart = (disk.used() - was) as f64 / files as f64;
        println!("{what}   {name:38} {seconds:6.2} s   {more:5.1} %   {apart:6.0} bytes a file");
    };
    // Each once unmeasured would share nothing more: the first one of both reads what lies in memory already.
    let copy = disk.at("mnt/copy");
    let mut cp = Command::new("cp");
    cp.args(["-a", "--reflink=always"]).arg(&store).arg(&copy);
    let began = Instant::now();
    run(&mut cp);
    run(Command::new("sync").arg("-f").arg(disk.at("mnt")));
    report(
        "cp -a --reflink=always, and sync -f",
        seconds(began),
        before,
    );
    let was = disk.used();
    let fork = disk.at("mnt/fork");
    let took = trumanfs(&[Path::new("fork"), &store, &fork], 0);
    report("trumanfs fork", took, was);
    let was = disk.used();
    let nothing = trumanfs(&[Path::new("merge"), &store, &fork], 1);
    report("trumanfs merge of nothing", nothing, was);
    for n in 0..files / 100 {
        let path = fork.join(format!("d{}/{n}", n % 1000));
        fs::write(path, format!("edited {n}\n")).unwrap();
    }
    let was = disk.used();
    let took = trumanfs(&[Path::new("merge"), &store, &fork], 0);
    report("trumanfs merge of 1 % of the files", took, was);
}

fn trumanfs(args: &[&Path], code: i32) -> f64 {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status().unwrap();
    assert_eq!(status.code(), Some(code), "{args:?}");
    seconds(began)
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

fn run(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}
