//! Read leases of files (fcntl(2), `F_SETLEASE`): the kernel grants one while nobody has the file open for writing, a shared
//! map that can be written to included, and lets nobody open it so before the holder has been told.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// The command that sets the signal of a lease (fcntl(2)), which libc does not have for glibc.
const F_SETSIG: i32 = 10;

/// Takes a read lease. Ends when the file is closed.
///
/// # Errors
/// `EAGAIN` where somebody has the file open for writing; `EINVAL` where the file system has no leases; `EACCES` where the file
/// belongs to another user.
pub fn take(file: BorrowedFd<'_>) -> Result<(), Errno> {
    control(file, libc::F_SETLEASE, libc::F_RDLCK).map(drop)
}

/// As [`take`], for a process that goes on with other work: the signal that tells of a breaking is one that does nothing
/// unless the process asked for it (SIGURG).
///
/// # Errors
/// As [`take`].
pub fn take_quietly(file: BorrowedFd<'_>) -> Result<(), Errno> {
    control(file, F_SETSIG, libc::SIGURG)?;
    take(file)
}

/// Returns whether the read lease still holds: nobody has tried to open the file for writing, or to cut it.
pub fn holds(file: BorrowedFd<'_>) -> bool {
    control(file, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
}

/// Ignores the signal by which the kernel tells a holder that its lease is being broken; its default action ends the process.
pub fn ignore_breaking() {
    // SAFETY: sets no handler, so nothing runs in a signal's context.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

fn control(file: BorrowedFd<'_>, command: i32, word: i32) -> Result<i32, Errno> {
    // SAFETY: the descriptor is open for the call, and both commands take and return integers.
    let answer = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, word) };
    match answer {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        answer => Ok(answer),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn read_lease_is_refused_while_a_file_is_open_for_writing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let writer = std::fs::File::create(&path).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        match take(reader.as_fd()) {
            // This file system has none.
            Err(Errno::INVAL) => return,
            taken => assert_eq!(taken, Err(Errno::AGAIN)),
        }
        drop(writer);
        assert_eq!(take(reader.as_fd()), Ok(()));
        assert!(holds(reader.as_fd()));
        ignore_breaking();
        // With O_NONBLOCK, who opens it does not wait.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let opened = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        assert_eq!(opened.err(), Some(Errno::AGAIN));
        assert!(!holds(reader.as_fd()));
    }
}
