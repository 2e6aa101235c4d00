//! A thread's scheduling policy. (Its affinity is set by rustix.)

use rustix::io::{Errno, Result};

/// A thread's policy with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedPolicy {
    number: libc::c_int,
    priority: libc::c_int,
}

/// Returns a thread's policy.
///
/// # Errors
/// `ESRCH` for a thread that has ended.
pub fn policy(thread: u32) -> Result<SchedPolicy> {
    let thread = thread.cast_signed();
    // SAFETY: takes an integer and touches no memory.
    let number = checked(unsafe { libc::sched_getscheduler(thread) })?;
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives through the call.
    checked(unsafe { libc::sched_getparam(thread, &raw mut param) })?;
    Ok(SchedPolicy {
        number,
        priority: param.sched_priority,
    })
}

/// Sets a thread's policy.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE or a sufficient `RLIMIT_NICE`; `ESRCH`.
pub fn set_policy(thread: u32, policy: SchedPolicy) -> Result<()> {
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = policy.priority;
    // SAFETY: the structure lives through the call.
    let rc =
        unsafe { libc::sched_setscheduler(thread.cast_signed(), policy.number, &raw const param) };
    checked(rc).map(|_| ())
}

/// Makes a thread yield to all others (`SCHED_IDLE`). Threads that it starts do not inherit this.
///
/// # Errors
/// As [`set_policy`].
pub fn set_yielding(thread: u32) -> Result<()> {
    set_policy(
        thread,
        SchedPolicy {
            number: libc::SCHED_IDLE | libc::SCHED_RESET_ON_FORK,
            priority: 0,
        },
    )
}

/// Returns whether a thread may leave [`set_yielding`] again. If not, its nice value has risen by one.
///
/// The kernel asks for the same right as for a lower nice value (`can_nice`: CAP_SYS_NICE or `RLIMIT_NICE`), so that is
/// what is tried: a thread that tried the policy itself could be stopped in it for seconds by others.
pub fn may_stop_yielding(thread: u32) -> bool {
    let thread = rustix::process::Pid::from_raw(thread.cast_signed());
    let Ok(nice) = rustix::process::getpriority_process(thread) else {
        return false;
    };
    nice < LOWEST
        && rustix::process::setpriority_process(thread, nice + 1).is_ok()
        && rustix::process::setpriority_process(thread, nice).is_ok()
}

/// The highest nice value.
const LOWEST: i32 = 19;

/// Gives the calling thread's reads the lowest priority (`IOPRIO_CLASS_IDLE`), if the disk's scheduler supports it.
///
/// # Errors
/// Any error from `ioprio_set(2)`.
pub fn set_idle_reads() -> Result<()> {
    // linux/ioprio.h: `who` 0 of IOPRIO_WHO_PROCESS is the calling thread; the class is in the upper three of sixteen
    // bits.
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
