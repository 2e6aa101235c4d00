//! Numbers of system calls, of the architecture that this is built for, and constants of their arguments.

/// Defines constants from those of libc.
macro_rules! numbers {
    ($($(#[$on:meta])? $name:ident = $call:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($call), "`")]
            $(#[$on])?
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            pub const $name: u32 = libc::$call as u32;
        )*
    };
}

numbers! {
    ACCT = SYS_acct;
    ADD_KEY = SYS_add_key;
    ADJTIMEX = SYS_adjtimex;
    BPF = SYS_bpf;
    CHROOT = SYS_chroot;
    CLOCK_ADJTIME = SYS_clock_adjtime;
    CLOCK_SETTIME = SYS_clock_settime;
    CLONE = SYS_clone;
    CLONE3 = SYS_clone3;
    DELETE_MODULE = SYS_delete_module;
    FINIT_MODULE = SYS_finit_module;
    FSCONFIG = SYS_fsconfig;
    FSMOUNT = SYS_fsmount;
    FSOPEN = SYS_fsopen;
    FSPICK = SYS_fspick;
    INIT_MODULE = SYS_init_module;
    IOCTL = SYS_ioctl;
    #[cfg(target_arch = "x86_64")] IOPERM = SYS_ioperm;
    #[cfg(target_arch = "x86_64")] IOPL = SYS_iopl;
    IOPRIO_SET = SYS_ioprio_set;
    IO_URING_ENTER = SYS_io_uring_enter;
    IO_URING_REGISTER = SYS_io_uring_register;
    IO_URING_SETUP = SYS_io_uring_setup;
    KCMP = SYS_kcmp;
    KEXEC_FILE_LOAD = SYS_kexec_file_load;
    KEXEC_LOAD = SYS_kexec_load;
    KEYCTL = SYS_keyctl;
    MEMFD_CREATE = SYS_memfd_create;
    MEMFD_SECRET = SYS_memfd_secret;
    MOUNT = SYS_mount;
    MOUNT_SETATTR = SYS_mount_setattr;
    MOVE_MOUNT = SYS_move_mount;
    OPEN_BY_HANDLE_AT = SYS_open_by_handle_at;
    OPEN_TREE = SYS_open_tree;
    PERF_EVENT_OPEN = SYS_perf_event_open;
    PIDFD_GETFD = SYS_pidfd_getfd;
    PIVOT_ROOT = SYS_pivot_root;
    PRLIMIT64 = SYS_prlimit64;
    PROCESS_VM_READV = SYS_process_vm_readv;
    PROCESS_VM_WRITEV = SYS_process_vm_writev;
    PTRACE = SYS_ptrace;
    QUOTACTL = SYS_quotactl;
    QUOTACTL_FD = SYS_quotactl_fd;
    REBOOT = SYS_reboot;
    REQUEST_KEY = SYS_request_key;
    SCHED_SETAFFINITY = SYS_sched_setaffinity;
    SCHED_SETATTR = SYS_sched_setattr;
    SCHED_SETPARAM = SYS_sched_setparam;
    SCHED_SETSCHEDULER = SYS_sched_setscheduler;
    SETDOMAINNAME = SYS_setdomainname;
    SETHOSTNAME = SYS_sethostname;
    SETNS = SYS_setns;
    SETPRIORITY = SYS_setpriority;
    SETTIMEOFDAY = SYS_settimeofday;
    SOCKET = SYS_socket;
    SOCKETPAIR = SYS_socketpair;
    SWAPOFF = SYS_swapoff;
    SWAPON = SYS_swapon;
    SYSLOG = SYS_syslog;
    UMOUNT2 = SYS_umount2;
    UNSHARE = SYS_unshare;
    USERFAULTFD = SYS_userfaultfd;
    VHANGUP = SYS_vhangup;

    TIOCSTI = TIOCSTI;
    TIOCLINUX = TIOCLINUX;
    AF_UNIX = AF_UNIX;
    AF_INET = AF_INET;
    AF_INET6 = AF_INET6;
    AF_NETLINK = AF_NETLINK;
    NETLINK_ROUTE = NETLINK_ROUTE;
    RET_ALLOW = SECCOMP_RET_ALLOW;
    RET_ERRNO = SECCOMP_RET_ERRNO;
    RET_KILL = SECCOMP_RET_KILL_PROCESS;
}

/// `open_tree_attr(2)`, which libc does not know; the same on all architectures.
pub const OPEN_TREE_ATTR: u32 = 467;

/// The newest system call that was looked at when the filter was written (`file_setattr`, Linux 6.17).
pub const NEWEST: u32 = 469;

/// The bit of an x32 system call; numbers from here on are no system calls of the architecture.
pub const X32: u32 = 0x4000_0000;

/// The flags of clone(2) and unshare(2) that make namespaces. `CLONE_NEWTIME` (0x80) is a signal's number for clone.
#[allow(clippy::cast_sign_loss)]
pub const NEW_NAMESPACES: u32 = (super::clone::NAMESPACES | super::clone::LATE_NAMESPACES) as u32;

/// `CLONE_NEWTIME`, for unshare(2) alone.
pub const NEW_TIME: u32 = 0x80;

/// The kernel's number of this architecture (linux/audit.h); `None` where a filter has not been thought through.
pub const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};
