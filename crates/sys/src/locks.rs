//! The holders of a file's flock(2) lock, from the kernel's list of locks (proc_locks(5)).

use std::os::fd::BorrowedFd;

/// Returns the other processes that hold a lock on a file. Empty if the list cannot be read or has another device
/// number than stat(2), as with btrfs, or if the process is in another PID namespace.
pub fn holders(file: BorrowedFd<'_>) -> Vec<u32> {
    let (Ok(text), Ok(stat)) = (
        std::fs::read_to_string("/proc/locks"),
        rustix::fs::fstat(file),
    ) else {
        return Vec::new();
    };
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let name = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let own = std::process::id();
    let mut found: Vec<u32> = text
        .lines()
        .filter_map(|line| {
            // `1: FLOCK  ADVISORY  WRITE 708 00:1b:3 0 EOF`; a waiting process has `->` before FLOCK.
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields[..] {
                [_, "FLOCK", _, _, pid, at, ..] if at == name => pid.parse().ok(),
                _ => None,
            }
        })
        .filter(|pid| *pid != 0 && *pid != own)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}
