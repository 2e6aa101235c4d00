//! The calls of a sandbox's first process for its children: starting the program, and waiting for ends.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit};

use super::clone::{empty_set, full_set};

/// A program that is to be started.
#[derive(Debug)]
pub struct ProgramSpec<'a> {
    /// Files that it may be; the first that exists is taken, as execvp(3) does.
    pub candidates: &'a [CString],
    /// Its arguments, with its name.
    pub arguments: &'a [CString],
    /// Its environment, `NAME=value`.
    pub environment: &'a [CString],
    /// Its working directory.
    pub directory: &'a CStr,
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
    /// True if the streams are a terminal of this session, in whose foreground the program is to be.
    pub terminal: bool,
    /// The limits of the program and all that it starts.
    pub rlimits: &'a [(Resource, Rlimit)],
    /// The rules about files that hold for the program and all that it starts.
    pub rules: Option<BorrowedFd<'a>>,
    /// The pipe for a failure, closed on exec: [`StartFailure::to_bytes`], or nothing.
    pub report: BorrowedFd<'a>,
}

/// The cause of a program's failure to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartFailure {
    /// True if the working directory failed, and not the program's file.
    pub at_directory: bool,
    /// The error of the kernel.
    pub errno: Errno,
}

impl StartFailure {
    /// Writes the failure as five bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 5] {
        let [a, b, c, d] = self.errno.raw_os_error().to_le_bytes();
        [u8::from(self.at_directory), a, b, c, d]
    }

    /// Reads what [`StartFailure::to_bytes`] wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [at_directory, number @ ..] = *<&[u8; 5]>::try_from(bytes).ok()?;
        Some(Self {
            at_directory: at_directory != 0,
            errno: Errno::from_raw_os_error(i32::from_le_bytes(number)),
        })
    }
}

/// Starts a program, in a session of its own unless it has a terminal of this one, with the default action for every
/// signal and none blocked. Only for a process with one thread.
///
/// # Errors
/// As fork(2): `EAGAIN` at a limit of processes.
pub fn spawn(program: &ProgramSpec<'_>) -> Result<i32> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        let all = texts.iter().map(|text| text.as_ptr());
        all.chain([ptr::null()]).collect()
    };
    let arguments = pointers(program.arguments);
    let environment = pointers(program.environment);
    // SAFETY: the caller has one thread, so no lock is held by another one; the child ends by exec or _exit.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_errno());
    }
    if pid > 0 {
        return Ok(pid);
    }
    let failure = become_program(program, &arguments, &environment);
    let _ = rustix::io::write(program.report, &failure.to_bytes());
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(127) }
}

fn become_program(
    program: &ProgramSpec<'_>,
    arguments: &[*const c_char],
    environment: &[*const c_char],
) -> StartFailure {
    let failed = |at_directory| {
        move |errno| StartFailure {
            at_directory,
            errno,
        }
    };
    let prepared = (|| {
        let [input, output, error] = program.streams;
        if program.terminal {
            set_mask(&full_set());
            take_foreground(input)?;
        } else {
            let _ = rustix::process::setsid();
        }
        rustix::stdio::dup2_stdin(input)?;
        rustix::stdio::dup2_stdout(output)?;
        rustix::stdio::dup2_stderr(error)?;
        reset_signals();
        if let Some(rules) = program.rules {
            super::landlock::restrict(rules)?;
        }
        // Last of all, because the limit of open files may leave room for no more.
        for (resource, limit) in program.rlimits {
            rustix::process::setrlimit(*resource, *limit)?;
        }
        Ok(())
    })();
    if let Err(errno) = prepared {
        return failed(false)(errno);
    }
    if let Err(errno) = rustix::process::chdir(program.directory) {
        return failed(true)(errno);
    }
    let mut worst = Errno::NOENT;
    for file in program.candidates {
        // SAFETY: the vectors end with a null pointer and outlive this call, as the texts in them do.
        unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        match last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => worst = Errno::ACCESS,
            other => return failed(false)(other),
        }
    }
    failed(false)(worst)
}

/// Puts the calling process into a group of its own, and that into the foreground of its terminal. All signals must be
/// blocked: whoever is in the background is stopped for it.
fn take_foreground(terminal: impl AsFd) -> Result<()> {
    rustix::process::setpgid(None, None)?;
    rustix::termios::tcsetpgrp(terminal, rustix::process::getpid())
}

fn reset_signals() {
    // By the plain system call, because libc keeps two signals for itself, and they may be ignored, too. All zeros is
    // the default action, without flags, in the kernel's structure of every architecture.
    let default = [0_u64; 4];
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: reads a local variable; the default action is no handler. What cannot be set (SIGKILL) stays.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    set_mask(&empty_set());
}

/// Blocks SIGCHLD and returns a descriptor that is readable when a child has ended (signalfd(2)).
///
/// # Errors
/// `EMFILE`, `ENOMEM`.
pub fn child_ends() -> Result<OwnedFd> {
    let mut set = empty_set();
    // SAFETY: adds to a local variable.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // All others go to their default: what blocked them was whoever started us.
    set_mask(&set);
    // SAFETY: reads a local variable and makes a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the descriptor was made just now, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_mask(set: &libc::sigset_t) {
    // SAFETY: reads a set of signals; the mask is this thread's.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, ptr::null_mut()) };
}

/// Forgets that children have ended, so that the descriptor of [`child_ends`] is readable at the next end.
pub fn forget_ends(ends: impl AsFd) {
    let mut signals = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while matches!(rustix::io::read(&ends, &mut signals), Ok(some) if some > 0) {}
}

/// Closes all descriptors of this process from `first` on. Only for a process whose descriptors nobody owns yet.
pub fn close_from(first: u32) {
    // SAFETY: the caller is a process at its start, in which nothing owns a descriptor from `first` on.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// The resources that processes have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// The largest resident memory of one process, in bytes.
    pub memory: u64,
}

/// The processes in a PID namespace beside its first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemainingProcesses {
    /// Nobody.
    Nobody,
    /// Some, and be they ended ones that nobody has waited for.
    Some,
    /// That cannot be known: the caller is not the first process.
    Unknown,
}

/// Kills all processes of this PID namespace but its first, and returns whether there were any. Does nothing unless the
/// caller is the first process.
pub fn kill_others() -> RemainingProcesses {
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        return RemainingProcesses::Unknown;
    }
    // SAFETY: takes numbers; -1 are all processes but the first, of this namespace and those below it.
    match unsafe { libc::kill(-1, libc::SIGKILL) } {
        0 => RemainingProcesses::Some,
        _ if last_errno() == Errno::SRCH => RemainingProcesses::Nobody,
        _ => RemainingProcesses::Unknown,
    }
}

/// Kills all children of this process, and returns whether there were any.
pub fn kill_children() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(listed) = std::fs::read_dir("/proc") else {
        return false;
    };
    let numbers = listed
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The parent is the second field after the name, which may have blanks and parentheses (proc_pid_stat(5)).
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_ascii_whitespace().nth(1) == Some(&own.to_string())
    };
    let mut found = false;
    for pid in numbers.filter(is_child) {
        found = true;
        // SAFETY: takes numbers; a child of this process keeps its number until it is waited for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    found
}

/// Returns the number of pages that shared memory of System V takes, in memory and swapped out, in this IPC namespace
/// (`SHM_INFO`, shmctl(2)).
///
/// None where the kernel is built without.
///
/// # Errors
/// Any error from `shmctl(2)`.
pub fn system_v_memory() -> Result<u64> {
    /// `struct shm_info` of linux/shm.h.
    #[derive(Default)]
    #[repr(C)]
    struct ShmInfo {
        used_ids: c_int,
        total: libc::c_ulong,
        resident: libc::c_ulong,
        swapped: libc::c_ulong,
        unused: [libc::c_ulong; 2],
    }
    const SHM_INFO: c_int = 14;
    let mut info = ShmInfo::default();
    // SAFETY: the kernel fills a local variable that has the layout of its structure.
    match unsafe { libc::syscall(libc::SYS_shmctl, 0, SHM_INFO, &raw mut info) } {
        0.. => Ok(info.resident + info.swapped),
        _ if last_errno() == Errno::NOSYS => Ok(0),
        _ => Err(last_errno()),
    }
}

/// Returns the resources that this process and all its children that were waited for have used (getrusage(2)).
#[must_use]
pub fn used_by_all() -> ResourceUsage {
    let [own, others] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(|who| {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: fills a local variable.
        unsafe { libc::getrusage(who, &raw mut usage) };
        usage
    });
    let cpu = [&own, &others].map(|one| duration(one.ru_utime) + duration(one.ru_stime));
    let memory = own.ru_maxrss.max(others.ru_maxrss);
    ResourceUsage {
        cpu_us: u64::try_from((cpu[0] + cpu[1]).as_micros()).unwrap_or(u64::MAX),
        memory: u64::try_from(memory).unwrap_or(0) << 10,
    }
}

/// The end of a child, and the resources that it and its own children have used (wait4(2)).
#[derive(Debug, Clone, Copy)]
pub struct ChildEnd {
    /// The wait status.
    pub status: c_int,
    /// Processor time of the child and of all its descendants that were waited for.
    pub cpu: std::time::Duration,
    /// The largest resident memory of one process among them, in bytes.
    pub memory: u64,
}

/// Waits for a child; returns nothing if it is still there and `block` is false.
///
/// # Errors
/// `ECHILD` if it is no child, or was waited for by somebody else.
pub fn wait(pid: i32, block: bool) -> Result<Option<ChildEnd>> {
    let mut status = 0;
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = if block { 0 } else { libc::WNOHANG };
    // SAFETY: fills two local variables.
    let found = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
    match found {
        0 => Ok(None),
        found if found < 0 => Err(last_errno()),
        _ => Ok(Some(ChildEnd {
            status,
            cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
            memory: u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10,
        })),
    }
}

/// Waits for the end of the process that a descriptor stands for, until a deadline; returns whether it has ended.
pub fn ends_by(process: impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return false,
            Ok(_) => return true,
        }
    }
}

fn duration(time: libc::timeval) -> std::time::Duration {
    std::time::Duration::from_micros(
        u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0),
    )
}

fn last_errno() -> Errno {
    // SAFETY: errno of the calling thread always has an address.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
