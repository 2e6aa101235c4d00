//! How the scheduler treats a thread: its policy. (Which processors it may use, rustix sets.)

use rustix::io::{Errno, Result};

/// A thread's policy and what goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    number: libc::c_int,
    priority: libc::c_int,
}

/// Returns a thread's policy.
///
/// # Errors
/// `ESRCH` for a thread that has ended.
pub fn policy(thread: u32) -> Result<Policy> {
    let thread = thread.cast_signed();
    // SAFETY: takes an integer and touches no memory.
    let number = checked(unsafe { libc::sched_getscheduler(thread) })?;
    // SAFETY: the structure is of integers, for which zero is a value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call.
    checked(unsafe { libc::sched_getparam(thread, &raw mut param) })?;
    Ok(Policy {
        number,
        priority: param.sched_priority,
    })
}

/// Sets a thread's policy.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE or as much `RLIMIT_NICE`; `ESRCH`.
pub fn set_policy(thread: u32, policy: Policy) -> Result<()> {
    // SAFETY: the structure is of integers, for which zero is a value.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = policy.priority;
    // SAFETY: the structure lives through the call.
    let rc =
        unsafe { libc::sched_setscheduler(thread.cast_signed(), policy.number, &raw const param) };
    checked(rc).map(|_| ())
}

/// Makes a thread one that yields to every other (`SCHED_IDLE`), but not the threads that it starts.
///
/// # Errors
/// As [`set_policy`].
pub fn set_yielding(thread: u32) -> Result<()> {
    set_policy(
        thread,
        Policy {
            number: libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK,
            priority: 0,
        },
    )
}

/// Lets the calling thread's reads wait for those of every other (`IOPRIO_CLASS_IDLE`), where the disk's scheduler knows of that.
///
/// # Errors
/// Any error from `ioprio_set(2)`.
pub fn set_idle_reads() -> Result<()> {
    // linux/ioprio.h: IOPRIO_WHO_PROCESS, of which 0 is the calling thread; the class is in the upper three bits of sixteen.
    let (who, idle): (libc::c_int, libc::c_int) = (1, 3 << 13);
    // SAFETY: takes integers and touches no memory.
    let rc = unsafe { libc::syscall(libc::SYS_ioprio_set, who, 0, idle) };
    checked(libc::c_int::try_from(rc).unwrap_or(-1)).map(|_| ())
}

fn checked(rc: libc::c_int) -> Result<libc::c_int> {
    if rc >= 0 {
        return Ok(rc);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
