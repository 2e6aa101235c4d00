//! A filter of system calls that allows what is listed.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The system calls of a process that works on files by descriptors which it has, and makes no process and no socket.
const FILES: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_ftruncate,
    libc::SYS_fchmod,
    libc::SYS_utimensat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_copy_file_range,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_readlinkat,
    // What it talks by is open.
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    // Memory, time, threads' locks, the end.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // A test ends a process and its parent at a point.
    #[cfg(debug_assertions)]
    libc::SYS_kill,
    #[cfg(debug_assertions)]
    libc::SYS_getppid,
];

/// `FICLONE` of linux/fs.h.
const FICLONE: u64 = 0x4004_9409;

/// Allows this thread what works on files, and no more: all other system calls end the process.
///
/// # Errors
/// In words, where the kernel or the architecture has no such filters.
pub fn allow_files() -> std::result::Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let mut rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        FILES.iter().map(|number| (*number, Vec::new())).collect();
    let clone = seccompiler::SeccompCondition::new(
        1,
        seccompiler::SeccompCmpArgLen::Dword,
        seccompiler::SeccompCmpOp::Eq,
        FICLONE,
    )
    .and_then(|condition| seccompiler::SeccompRule::new(vec![condition]))
    .map_err(|error| error.to_string())?;
    rules.insert(libc::SYS_ioctl, vec![clone]);
    let (otherwise, listed) = (SeccompAction::KillProcess, SeccompAction::Allow);
    let filter = SeccompFilter::new(rules, otherwise, listed, arch);
    let program: Result<BpfProgram, _> =
        filter
            .map_err(|error| error.to_string())
            .and_then(|filter| {
                filter
                    .try_into()
                    .map_err(|error: seccompiler::BackendError| error.to_string())
            });
    seccompiler::apply_filter(&program?).map_err(|error| error.to_string())
}
