//! Calls on `O_PATH` descriptors by `AT_EMPTY_PATH`. The way by `/proc/self/fd` would take several µs.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// fchmodat2(2), Linux 6.6; the same number on every architecture, and not yet in libc for all of them.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Sets permission bits of what a descriptor stands for, `O_PATH` too. Before Linux 6.6, and where a container's filter of
/// system calls knows nothing newer, by way of `/proc`.
///
/// # Errors
/// Any error from `fchmodat2(2)`, or from `chmod(2)`: `ENOENT` without `/proc`.
pub fn chmod(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    // SAFETY: the descriptor lives through the call, and the path is empty and ends with NUL.
    let rc = unsafe {
        libc::syscall(
            SYS_FCHMODAT2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH,
        )
    };
    match check(rc) {
        Err(Errno::NOSYS) => chmod_by_proc(fd, mode),
        set => set,
    }
}

/// As [`chmod`], without a call that older kernels lack.
fn chmod_by_proc(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::chmod(link, rustix::fs::Mode::from_raw_mode(mode))
}

/// Starts writing a file's data out, without waiting for it (sync_file_range(2)).
///
/// # Errors
/// Any error from `sync_file_range(2)`.
pub fn begin_writing_out(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes numbers, and the descriptor lives through the call.
    check(libc::c_long::from(unsafe {
        libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE)
    }))
}

/// Writes a file's data out and waits for it, but not for a commit (sync_file_range(2)): ext4 and xfs then have the
/// data on disk before any later change of names and extents.
///
/// # Errors
/// Any error from `sync_file_range(2)`.
pub fn write_out(fd: BorrowedFd<'_>) -> Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes numbers, and the descriptor lives through the call.
    check(libc::c_long::from(unsafe {
        libc::sync_file_range(fd.as_raw_fd(), 0, 0, flags)
    }))
}

/// Returns whether nobody can change a file's content any more by an open, nor by a shared map that outlived its descriptor: whether
/// it can be leased for reading (fcntl(2), `F_SETLEASE`), which is undone at once. `file` is open for reading only.
///
/// # Errors
/// `EACCES` for another user's file without CAP_LEASE; `EINVAL` where the file system has no leases.
pub fn has_no_writer(file: BorrowedFd<'_>) -> Result<bool> {
    const F_SETSIG: libc::c_int = 10; // asm-generic/fcntl.h; not in libc.
    let set = |what: libc::c_int, to: libc::c_int| {
        // SAFETY: takes integers, and the descriptor lives through the call.
        check(libc::c_long::from(unsafe {
            libc::fcntl(file.as_raw_fd(), what, to)
        }))
    };
    // Whoever opens the file for writing at this moment has the kernel send a signal: not SIGIO, which would end this process, but
    // one that is ignored by default (signal(7)).
    set(F_SETSIG, libc::SIGURG)?;
    match set(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            set(libc::F_SETLEASE, libc::F_UNLCK)?;
            Ok(true)
        }
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns the generation of an inode: a number that differs when the inode number is reused (ioctl_iflags(2)). Needs
/// a readable descriptor.
///
/// # Errors
/// `ENOTTY` if the file system does not support it.
pub fn generation(fd: BorrowedFd<'_>) -> Result<u32> {
    // The kernel writes an int, although the request is declared with a long (fs/ext4/ioctl.c, fs/xfs/xfs_ioctl.c).
    let mut answer = [0_u32; 2];
    // SAFETY: the descriptor lives through the call, which writes at most a long into `answer`.
    let rc = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_GETVERSION, answer.as_mut_ptr()) };
    check(libc::c_long::from(rc))?;
    Ok(answer[0])
}

/// Checks permissions with the effective ids: `R_OK`, `W_OK`, `X_OK`.
///
/// # Errors
/// `EACCES`, `EROFS`; any error from `faccessat2(2)`.
pub fn access(fd: BorrowedFd<'_>, wanted: u32) -> Result<()> {
    // SAFETY: the descriptor lives through the call, and the path is empty and ends with NUL.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            wanted,
            libc::AT_EMPTY_PATH | libc::AT_EACCESS,
        )
    };
    check(rc)
}

fn check(rc: libc::c_long) -> Result<()> {
    if rc == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn permissions_are_set_and_checked_without_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
        let fd = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        for set in [chmod_by_proc, chmod] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            set(fd.as_fd(), 0o640).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o640);
        }
        access(fd.as_fd(), rustix::fs::Access::READ_OK.bits()).unwrap();
        // Even root may not run a file without any execute bit.
        let run = access(fd.as_fd(), rustix::fs::Access::EXEC_OK.bits());
        assert_eq!(run, Err(Errno::ACCESS));
    }
}
