//! The memory maps of a process (proc_pid_maps(5)).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that reading the maps may take: it waits for a lock of the process, which another thread may hold while it
/// waits for the caller.
const TIME_LIMIT: Duration = Duration::from_millis(5);

/// The time for which a process that could not be looked at is not asked again: a program that is being executed closes
/// all its descriptors while nobody can read its maps.
const PAUSE: Duration = Duration::from_millis(20);

/// The process that could not be looked at in time last, and when.
static UNREADABLE: Mutex<Option<(u32, Instant)>> = Mutex::new(None);

/// Returns whether a process has a shared map of a file through which it may write; true where that cannot be told in
/// time.
pub fn may_write_through_a_map(pid: u32) -> bool {
    let is_unreadable = |at: &(u32, Instant)| at.0 == pid && at.1.elapsed() < PAUSE;
    if pid == 0 || last_unreadable().as_ref().is_some_and(is_unreadable) {
        return true;
    }
    let (sender, answer) = sync_channel(1);
    let look = move || {
        // What a process maps that may not be looked at nobody knows.
        let _ = sender.send(look_for_map(pid).unwrap_or(true));
    };
    let thread = std::thread::Builder::new().name("maps".to_owned());
    match thread.spawn(look) {
        Ok(_) => answer.recv_timeout(TIME_LIMIT).unwrap_or_else(|_| {
            *last_unreadable() = Some((pid, Instant::now()));
            true
        }),
        Err(_) => true,
    }
}

fn last_unreadable() -> MutexGuard<'static, Option<(u32, Instant)>> {
    UNREADABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_for_map(pid: u32) -> std::io::Result<bool> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    if let Some(found) = query_maps(&maps) {
        return Ok(found);
    }
    let maps = std::io::read_to_string(maps)?;
    Ok(maps.lines().any(is_shared))
}

/// Asks the kernel for the first shared, writable map of a file. `None` where it cannot be asked: before Linux 6.11.
fn query_maps(maps: &File) -> Option<bool> {
    let mut query = MapQuery {
        size: size_of::<MapQuery>() as u64,
        flags: WRITABLE | SHARED | OR_NEXT | OF_FILE,
        ..MapQuery::default()
    };
    // SAFETY: the descriptor lives through the call, which reads and writes the query, whose size it is told.
    let rc = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
    if rc == 0 {
        return Some(true);
    }
    let error = std::io::Error::last_os_error();
    (error.raw_os_error() == Some(libc::ENOENT)).then_some(false)
}

/// `PROCMAP_QUERY`, its flags and its argument (linux/fs.h).
const PROCMAP_QUERY: libc::Ioctl = 0xC068_6611_u32 as libc::Ioctl;
const WRITABLE: u64 = 0x02;
const SHARED: u64 = 0x08;
const OR_NEXT: u64 = 0x10;
const OF_FILE: u64 = 0x20;

#[repr(C)]
#[derive(Debug, Default)]
struct MapQuery {
    size: u64,
    flags: u64,
    address: u64,
    /// Start, end, flags, size of a page, offset and inode.
    found: [u64; 6],
    device: [u32; 2],
    /// The room for the name and the build id, which are not asked for, and their addresses.
    rooms: [u32; 2],
    texts: [u64; 2],
}

/// Returns whether a line is of a shared map of a file that is writable.
fn is_shared(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let permissions = fields.nth(1).unwrap_or_default().as_bytes();
    permissions.get(3) == Some(&b's') && permissions.get(1) == Some(&b'w')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shared_writable_maps_are_recognised() {
        for (line, shared) in [
            (
                "7f0000000000-7f0000001000 rw-s 00000000 fe:00 131 /home/a",
                true,
            ),
            (
                "7f0000000000-7f0000001000 rw-p 00000000 fe:00 131 /home/a",
                false,
            ),
            (
                "7f0000000000-7f0000001000 r--s 00000000 fe:00 131 /home/a",
                false,
            ),
            ("7f0000000000-7f0000001000 rw-p 00000000 00:00 0", false),
        ] {
            assert_eq!(is_shared(line), shared, "{line}");
        }
        assert!(may_write_through_a_map(0));
    }

    #[test]
    fn kernel_and_text_agree() {
        let own = std::process::id();
        let by_text = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(is_shared)
        };
        let asked = || query_maps(&File::open("/proc/self/maps").unwrap());
        assert_eq!(asked().unwrap_or_else(by_text), by_text());
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        // SAFETY: a new map at an address of the kernel's choice, which nobody reads or writes.
        let map = unsafe {
            let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
            let shared = rustix::mm::MapFlags::SHARED;
            rustix::mm::mmap(std::ptr::null_mut(), 4096, access, shared, &file, 0).unwrap()
        };
        assert!(by_text() && asked().unwrap_or(true));
        assert!(may_write_through_a_map(own));
        // SAFETY: the map that was made here.
        unsafe { rustix::mm::munmap(map, 4096).unwrap() };
    }
}
