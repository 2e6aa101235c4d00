//! Work in a forked child: as another user, under another umask or limit, in a mount namespace of its own, or as a
//! second holder of a lock.
//!
//! Ids, umask, limits and namespaces belong to a process, and the test binary runs many tests at once; so anything
//! that changes them runs in a fork.

#![allow(unsafe_code, reason = "fork has no safe form")]

use std::any::Any;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Gid, Uid};

use super::wait_readable;

/// How long a child may take.
const CHILD_LIMIT: Duration = Duration::from_secs(30);

/// A child that runs; [`Child::join`] waits for what it has to say.
pub(crate) struct Child {
    pid: libc::pid_t,
    pipe: OwnedFd,
}

/// Forks a child that runs `work` and reports its answer. The child has the descriptors of the whole process.
pub(crate) fn spawn(work: impl FnOnce() -> Result<String, String>) -> Child {
    fork(work, false)
}

/// Forks a child that holds on to nothing of this process, for work that takes long: other tests' files are not kept open by it, nor
/// their homes busy.
pub(crate) fn spawn_alone(work: impl FnOnce() -> Result<String, String>) -> Child {
    fork(work, true)
}

/// Closes all descriptors but the three standard ones and `kept`.
fn close_all_but(kept: &impl AsRawFd) {
    let kept = kept.as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: this is a forked child that ends by _exit: nothing whose descriptor is closed here is used or dropped.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

fn fork(work: impl FnOnce() -> Result<String, String>, alone: bool) -> Child {
    let (reading, writing) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipe");
    // SAFETY: fork() copies only the calling thread. The child takes no lock that another thread of the parent may hold at this
    // moment (glibc makes malloc whole again after a fork), never returns into the test, and ends by _exit, without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        drop(reading);
        if alone {
            close_all_but(&writing);
        }
        let text = told(catch_unwind(AssertUnwindSafe(work)));
        let _ = File::from(writing).write_all(text.as_bytes());
        // SAFETY: ends this process at once; nothing of the parent's is touched.
        unsafe { libc::_exit(0) }
    }
    Child { pid, pipe: reading }
}

/// A forked child that does the same work round after round: a fork of a program that runs many tests takes longer than
/// most rounds.
pub(crate) struct Worker {
    pid: libc::pid_t,
    line: UnixStream,
}

impl Worker {
    /// Forks a child that does `work` with the number of each round. It holds on to nothing of this process.
    pub(crate) fn spawn(mut work: impl FnMut(u64) -> Result<String, String>) -> Worker {
        let (line, mut end) = UnixStream::pair().expect("socketpair");
        // SAFETY: as in `fork`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            close_all_but(&end);
            let mut round = [0; 8];
            while end.read_exact(&mut round).is_ok() {
                let round = u64::from_ne_bytes(round);
                let text = told(catch_unwind(AssertUnwindSafe(|| work(round))));
                let length = u32::try_from(text.len()).unwrap_or(0).to_ne_bytes();
                let _ = end.write_all(&[&length, text.as_bytes()].concat());
            }
            // SAFETY: ends this process at once; nothing of the parent's is touched.
            unsafe { libc::_exit(0) }
        }
        Worker { pid, line }
    }

    /// Begins a round.
    pub(crate) fn begin(&mut self, round: u64) {
        self.line.write_all(&round.to_ne_bytes()).expect("write");
    }

    /// Waits for the end of the round, and returns its answer.
    pub(crate) fn end(&mut self) -> Result<String, String> {
        let limit = Some(CHILD_LIMIT);
        self.line.set_read_timeout(limit).expect("setsockopt");
        let mut length = [0; 4];
        let mut read = |buffer: &mut [u8]| self.line.read_exact(buffer).map_err(|e| e.to_string());
        read(&mut length)?;
        let mut text = vec![0; usize::try_from(u32::from_ne_bytes(length)).unwrap_or(0)];
        read(&mut text)?;
        answer(&String::from_utf8_lossy(&text)).unwrap_or_else(|| Err("no answer".to_owned()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: waits for our own child; nobody wants its status.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Returns what a child says of how its work ended.
fn told(ended: std::thread::Result<Result<String, String>>) -> String {
    match ended.unwrap_or_else(|panic| Err(words(&*panic))) {
        Ok(text) => format!("+{text}"),
        Err(text) => format!("-{text}"),
    }
}

/// Returns the answer of what a child said.
fn answer(text: &str) -> Option<Result<String, String>> {
    match text.split_at_checked(1)? {
        ("+", text) => Some(Ok(text.to_owned())),
        ("-", text) => Some(Err(text.to_owned())),
        _ => None,
    }
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let plain = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    plain
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panicked".to_owned())
}

impl Child {
    /// The child's process number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for the child and returns its answer.
    pub(crate) fn join(self) -> Result<String, String> {
        self.join_within(CHILD_LIMIT)
    }

    /// Waits for the child so long at most, kills it then, and returns its answer.
    pub(crate) fn join_within(self, limit: Duration) -> Result<String, String> {
        let mut text = String::new();
        let mut killed = false;
        if wait_readable(&self.pipe, limit) {
            File::from(self.pipe)
                .read_to_string(&mut text)
                .map_err(|error| error.to_string())?;
        } else {
            // SAFETY: the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            killed = true;
        }
        let mut status = 0;
        // SAFETY: waits for our own child, into a local variable.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        match answer(&text) {
            Some(answer) => answer,
            None if killed => Err(format!("the child took longer than {limit:?}")),
            None => Err(format!("the child died with wait status {status:#x}")),
        }
    }
}

/// Runs `work` in a forked child and waits for its answer.
pub(crate) fn in_child(work: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    spawn(work).join()
}

/// Gives this process (a forked child) another user, group and supplementary groups, for good.
pub(crate) fn become_user(uid: u32, gid: u32, groups: &[u32]) {
    let groups: Vec<Gid> = groups.iter().map(|&group| Gid::from_raw(group)).collect();
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // The thread's ids are the process's: a forked child has one thread.
    rustix::thread::set_thread_groups(&groups).expect("setgroups");
    rustix::thread::set_thread_res_gid(gid, gid, gid).expect("setresgid");
    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("setresuid");
}

/// Runs `work` in a forked child as another user and waits for its answer.
pub(crate) fn as_user(
    uid: u32,
    gid: u32,
    groups: &[u32],
    work: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    in_child(|| {
        become_user(uid, gid, groups);
        work()
    })
}
