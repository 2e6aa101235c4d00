//! Threads and PID namespaces known by descriptors: their numbers may come to mean others, a descriptor does not.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::process::{Pid, PidfdFlags};

/// A thread of a process.
#[derive(Debug)]
pub struct ProcessThread {
    /// Its `comm` in `/proc`. Reading it takes no lock that an `execve` of the process holds.
    comm: File,
}

impl ProcessThread {
    /// Finds a thread of a process.
    ///
    /// # Errors
    /// `ENOENT` where the process has no thread of that number, or there is no such process.
    pub fn of(process: u32, thread: u32) -> Result<ProcessThread> {
        let comm = File::open(format!("/proc/{process}/task/{thread}/comm"));
        Ok(ProcessThread {
            comm: comm.map_err(|error| errno(&error))?,
        })
    }

    /// Returns whether it has not ended. Afterwards a read is `ESRCH`, whoever has its number.
    pub fn lives(&self) -> bool {
        let mut byte = [0];
        rustix::io::pread(self.comm.as_fd(), &mut byte, 0).is_ok()
    }
}

/// A PID namespace. While this lives no other one gets its number.
#[derive(Debug)]
pub struct PidNamespace {
    fd: OwnedFd,
    id: (u64, u64),
}

/// `NS_GET_PARENT`, as linux/nsfs.h has it.
const GET_PARENT: libc::c_ulong = 0xb702;

impl PidNamespace {
    /// Finds the namespace of a process, or of a thread.
    ///
    /// # Errors
    /// `ENOENT` where there is no such process; `EACCES` where it may not be looked at.
    pub fn of(process: u32) -> Result<PidNamespace> {
        PidNamespace::from_fd(namespace(process, GET_PID_NAMESPACE, "pid")?)
    }

    fn from_fd(fd: OwnedFd) -> Result<PidNamespace> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(PidNamespace {
            id: (stat.st_dev, stat.st_ino),
            fd,
        })
    }

    /// Returns its number: device and inode in the kernel's file system of namespaces.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Returns the number of the namespace of a process, without holding on to it.
    ///
    /// # Errors
    /// As [`PidNamespace::of`].
    pub fn id_of(process: u32) -> Result<(u64, u64)> {
        PidNamespace::of(process).map(|namespace| namespace.id)
    }

    /// Returns the namespace that it was made in.
    ///
    /// # Errors
    /// `EPERM` where that lies outside of the caller's own.
    pub fn parent(&self) -> Result<PidNamespace> {
        // SAFETY: takes a descriptor that is open and touches no memory.
        let fd = unsafe { libc::ioctl(self.fd.as_raw_fd(), GET_PARENT) };
        if fd < 0 {
            return Err(errno(&std::io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just made it for this call, and nobody else knows of it.
        PidNamespace::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// `PIDFD_THREAD`, `PIDFD_GET_PID_NAMESPACE` and `PIDFD_GET_USER_NAMESPACE`, as linux/pidfd.h has them.
const PIDFD_THREAD: u32 = libc::O_EXCL.cast_unsigned();
const GET_PID_NAMESPACE: libc::c_ulong = 0xff05;

const GET_USER_NAMESPACE: libc::c_ulong = 0xff09;

/// Returns the number of the user namespace of a process, or of a thread: device and inode.
///
/// # Errors
/// As [`PidNamespace::of`].
pub fn user_namespace_of(process: u32) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(namespace(process, GET_USER_NAMESPACE, "user")?)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Opens a namespace of a process, or of a thread.
///
/// By a pidfd, because `/proc/PID/ns` waits for an `execve` of the process on some kernels (6.18.44 is one). That may wait
/// in turn for the daemon that asks: an `execve` closes files, and the daemon writes back those of a home.
fn namespace(process: u32, request: libc::c_ulong, name: &str) -> Result<OwnedFd> {
    match by_pidfd(process, request) {
        Err(Errno::SRCH) => Err(Errno::NOENT),
        // Older than 6.11, which has the ioctl, or than 6.9, which has pidfds of threads.
        Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => {
            let file = File::open(format!("/proc/{process}/ns/{name}"));
            Ok(file.map_err(|error| errno(&error))?.into())
        }
        found => found,
    }
}

fn by_pidfd(process: u32, request: libc::c_ulong) -> Result<OwnedFd> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let flags = PidfdFlags::from_bits_retain(PIDFD_THREAD);
    let pidfd = rustix::process::pidfd_open(pid.ok_or(Errno::SRCH)?, flags)?;
    // SAFETY: takes a descriptor that is open and touches no memory.
    let fd = unsafe { libc::ioctl(pidfd.as_raw_fd(), request, 0) };
    if fd < 0 {
        return Err(errno(&std::io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just made it for this call, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn own_tid() -> u32 {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        tid.unsigned_abs()
    }

    #[test]
    fn a_thread_lives_until_it_ends_and_is_of_one_process() {
        let (number, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            number.send(own_tid()).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        let found = ProcessThread::of(std::process::id(), tid).unwrap();
        assert!(found.lives());
        assert_eq!(ProcessThread::of(1, tid).unwrap_err(), Errno::NOENT);
        drop(end);
        thread.join().unwrap();
        // The kernel takes a thread off its list a moment after whoever joins it is woken.
        while found.lives() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_own_namespace_is_that_of_the_parent_process() {
        let own = PidNamespace::of(std::process::id()).unwrap();
        assert_eq!(own.id(), PidNamespace::id_of(own_tid()).unwrap());
        let above = PidNamespace::id_of(std::os::unix::process::parent_id());
        assert_eq!(own.id(), above.unwrap());
        // What lies above it, if anything, cannot be seen from here.
        assert_eq!(own.parent().unwrap_err(), Errno::PERM);
        assert_eq!(PidNamespace::of(u32::MAX).unwrap_err(), Errno::NOENT);
    }
}
