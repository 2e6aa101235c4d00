//! Starting a program in new namespaces or in the caller's, as another user where root asks for it.
//!
//! The child shares the caller's memory until it has executed the program, as with posix_spawn(3), and the calling
//! thread waits so long. It makes system calls on what was prepared before, and nothing else.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// The dumpable state of this process before a child that shares its memory first took another identity, which changes
/// that state. Read once: two starts side by side would else each take the other's change for the original state.
static DUMPABLE: OnceLock<Option<DumpableBehavior>> = OnceLock::new();

/// The stack of a child that makes system calls only.
const STACK: usize = 64 << 10;

/// The namespaces that a child gets; clone(2). Two others have to wait: [`enter_late_namespaces`].
pub const NAMESPACES: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// The namespaces of [`enter_late_namespaces`].
pub const LATE_NAMESPACES: c_int = libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP;

/// Gives the calling process a copy of the mounts that there are now, and makes its cgroup the root of those that it
/// sees: so it must be in its group, and the host's mounts must be as it shall have them.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `EINVAL` if the kernel has no such namespaces; `ENOSPC` if there are too many.
pub fn enter_late_namespaces() -> rustix::io::Result<()> {
    // SAFETY: changes what mounts and groups this process sees, and no memory or descriptors.
    match unsafe { libc::unshare(LATE_NAMESPACES) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// The capabilities of a new user namespace that the program keeps: enough to make mounts, to leave the host's root, to
/// bring up an interface, to listen at its low ports, to see what the kernel refuses there, and to give all of them up.
const KEPT_CAPABILITIES: [CapabilitySet; 6] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_CHROOT,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::NET_RAW,
    CapabilitySet::SETPCAP,
];

/// A program to start.
#[derive(Debug)]
pub struct CloneRequest<'a> {
    /// The program's file.
    pub program: BorrowedFd<'a>,
    /// Its name and its arguments. Its environment is empty.
    pub arguments: &'a [&'a CStr],
    /// Its standard input.
    pub input: BorrowedFd<'a>,
    /// Its standard output and error; the caller's if none.
    pub output: Option<BorrowedFd<'a>>,
    /// Descriptors that the program gets under the numbers that they have here, whatever they say of exec.
    pub inherited: &'a [BorrowedFd<'a>],
    /// True if the program gets new [`NAMESPACES`] and capabilities over them.
    pub isolated: bool,
    /// The user and the group that the program runs as, without supplementary groups; the caller's if none. Only root
    /// may.
    pub user: Option<(u32, u32)>,
}

/// A program that was started: a child of the caller's process, and the first process of its PID namespace where it has
/// one of its own.
#[derive(Debug)]
pub struct ClonedChild {
    /// Its number in the caller's PID namespace.
    pub pid: i32,
    /// Its descriptor, which names no other process ever.
    pub pidfd: OwnedFd,
}

/// The stage at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum CloneStage {
    /// Becoming the user: setgroups(2), setresgid(2), setresuid(2).
    Identity = 1,
    /// clone(2) with the namespaces.
    Namespaces = 2,
    /// Keeping capabilities across the exec.
    Capabilities = 3,
    /// Standard input, or the exec itself.
    Exec = 4,
}

/// The part of the caller's memory that the children read.
struct ChildParameters {
    program: RawFd,
    input: RawFd,
    output: Option<RawFd>,
    inherited: *const RawFd,
    inherited_len: usize,
    isolated: bool,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    user: Option<(u32, u32)>,
    /// The end of the second child's stack.
    stack: *mut c_void,
    pid: c_int,
    pidfd: c_int,
    failed: Option<(CloneStage, Errno)>,
}

/// Starts a program.
///
/// # Errors
/// The stage and what the kernel said: `EPERM` or `ENOSPC` of clone(2) where user namespaces are forbidden or used up.
pub fn start(what: &CloneRequest<'_>) -> Result<ClonedChild, (CloneStage, Errno)> {
    let mut arguments: Vec<*const c_char> = what.arguments.iter().map(|a| a.as_ptr()).collect();
    arguments.push(ptr::null());
    let environment = [ptr::null::<c_char>()];
    let mut stacks: Vec<u128> = vec![0; 2 * STACK / size_of::<u128>()];
    let (lower, upper) = stacks.split_at_mut(STACK / size_of::<u128>());
    let inherited: Vec<RawFd> = what.inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let mut shared = ChildParameters {
        program: what.program.as_raw_fd(),
        input: what.input.as_raw_fd(),
        output: what.output.as_ref().map(AsRawFd::as_raw_fd),
        inherited: inherited.as_ptr(),
        inherited_len: inherited.len(),
        isolated: what.isolated,
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        user: what.user,
        stack: lower.as_mut_ptr_range().end.cast(),
        pid: -1,
        pidfd: -1,
        failed: None,
    };
    // A signal handler must not run in the child: it would run in this process's memory.
    let blocked = SignalBlock::all();
    match what.user {
        None => isolated(&mut shared, upper.as_mut_ptr_range().end.cast(), 0),
        Some(_) => by_way_of_user(&mut shared, upper.as_mut_ptr_range().end.cast()),
    }
    drop(blocked);
    if let Some(failed) = shared.failed {
        reap(&shared);
        return Err(failed);
    }
    // SAFETY: clone(2) has just put this descriptor into our table, for us alone.
    let pidfd = unsafe { OwnedFd::from_raw_fd(shared.pidfd) };
    Ok(ClonedChild {
        pid: shared.pid,
        pidfd,
    })
}

/// Clones the child that executes the program, and waits until it has.
fn isolated(shared: &mut ChildParameters, stack: *mut c_void, more: c_int) {
    let namespaces = if shared.isolated { NAMESPACES } else { 0 };
    let flags =
        namespaces | libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD | more;
    let mut pidfd: c_int = -1;
    // SAFETY: the child runs `execute` on a stack of its own with a pointer to `shared`, which outlives it, for this
    // thread waits until the child has executed a program or ended (CLONE_VFORK). It only makes system calls.
    let pid = unsafe {
        libc::clone(
            execute,
            stack,
            flags,
            ptr::from_mut(shared).cast(),
            &raw mut pidfd,
        )
    };
    if pid < 0 {
        shared.failed = Some((CloneStage::Namespaces, last_errno()));
    } else {
        shared.pid = pid;
        shared.pidfd = pidfd;
    }
}

/// Has a child become the user and make the second child, which becomes this process's child (CLONE_PARENT).
fn by_way_of_user(shared: &mut ChildParameters, stack: *mut c_void) {
    let dumpable = DUMPABLE.get_or_init(|| rustix::process::dumpable_behavior().ok());
    // CLONE_FILES: the descriptor of the second child's process shall be in our table.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: as in `isolated`; the child runs `become_user` and ends by _exit.
    let pid = unsafe { libc::clone(become_user, stack, flags, ptr::from_mut(shared).cast()) };
    if pid < 0 {
        shared.failed = Some((CloneStage::Identity, last_errno()));
        return;
    }
    wait_for(pid);
    // Another user's ids make the memory that is shared not dumpable; it is ours alone again.
    if let Some(before) = dumpable {
        let _ = rustix::process::set_dumpable_behavior(*before);
    }
}

extern "C" fn become_user(shared: *mut c_void) -> c_int {
    // SAFETY: the pointer is to the `Shared` of `start`, whose thread waits for us.
    let shared = unsafe { &mut *shared.cast::<ChildParameters>() };
    if let Some((uid, gid)) = shared.user
        && let Err(errno) = change_identity(uid, gid)
    {
        shared.failed = Some((CloneStage::Identity, errno));
    } else {
        let stack = shared.stack;
        isolated(shared, stack, libc::CLONE_PARENT);
    }
    0
}

/// Takes another identity, in this process only: rustix makes the plain system calls.
fn change_identity(uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (
        rustix::process::Uid::from_raw(uid),
        rustix::process::Gid::from_raw(gid),
    );
    let (own_uid, own_gid) = (rustix::process::getuid(), rustix::process::getgid());
    match rustix::thread::set_thread_groups(&[]) {
        // Root of a user namespace may not; who stays who they are gains nothing by the groups that they have.
        Err(Errno::PERM) if (own_uid, own_gid) == (uid, gid) => {}
        dropped => dropped?,
    }
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

extern "C" fn execute(shared: *mut c_void) -> c_int {
    // SAFETY: as in `become_user`.
    let shared = unsafe { &mut *shared.cast::<ChildParameters>() };
    if shared.isolated
        && let Err(errno) = keep_capabilities()
    {
        shared.failed = Some((CloneStage::Capabilities, errno));
        return 127;
    }
    if let Err(errno) = take_descriptors(shared) {
        shared.failed = Some((CloneStage::Exec, errno));
        return 127;
    }
    let (file, flags) = (shared.program, libc::AT_EMPTY_PATH);
    // SAFETY: the vectors end with a null pointer and, like the texts in them, outlive this call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file,
            c"".as_ptr(),
            shared.arguments,
            shared.environment,
            flags,
        )
    };
    shared.failed = Some((CloneStage::Exec, last_errno()));
    127
}

/// Puts descriptors where the program finds them. The table of descriptors is the child's own.
fn take_descriptors(shared: &ChildParameters) -> rustix::io::Result<()> {
    let moves = [
        Some((shared.input, 0)),
        shared.output.map(|fd| (fd, 1)),
        shared.output.map(|fd| (fd, 2)),
    ];
    for (from, to) in moves.into_iter().flatten() {
        // SAFETY: takes numbers.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(last_errno());
        }
    }
    // SAFETY: `start` has made these from a list that outlives the child's time in this memory.
    let inherited = unsafe { std::slice::from_raw_parts(shared.inherited, shared.inherited_len) };
    for fd in inherited {
        // SAFETY: takes numbers.
        if unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) } < 0 {
            return Err(last_errno());
        }
    }
    Ok(())
}

/// Makes some capabilities survive the exec, whatever the user is called in the namespace (capabilities(7), ambient).
fn keep_capabilities() -> rustix::io::Result<()> {
    let sets = rustix::thread::capabilities(None)?;
    let inheritable = KEPT_CAPABILITIES
        .iter()
        .fold(sets.inheritable, |all, one| all | *one);
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            inheritable,
            ..sets
        },
    )?;
    for one in KEPT_CAPABILITIES {
        rustix::thread::configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Takes away what is left of a child that could not execute its program.
fn reap(shared: &ChildParameters) {
    if shared.pid > 0 {
        wait_for(shared.pid);
    }
    if shared.pidfd >= 0 {
        // SAFETY: clone(2) has put this descriptor into our table, for us alone.
        drop(unsafe { OwnedFd::from_raw_fd(shared.pidfd) });
    }
}

fn wait_for(pid: c_int) {
    let mut status = 0;
    // SAFETY: waits for a child of ours into a local variable.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0
        && last_errno() == Errno::INTR
    {}
}

fn last_errno() -> Errno {
    // SAFETY: errno of the calling thread always has an address.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// All signals of the calling thread blocked, until dropped.
struct SignalBlock(libc::sigset_t);

impl SignalBlock {
    fn all() -> Self {
        let every = full_set();
        let mut before = empty_set();
        // SAFETY: reads and fills local variables; the mask is this thread's.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const every, &raw mut before) };
        Self(before)
    }
}

impl Drop for SignalBlock {
    fn drop(&mut self) {
        // SAFETY: reads the set that pthread_sigmask(3) gave out.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

pub(crate) fn full_set() -> libc::sigset_t {
    let mut every = empty_set();
    // SAFETY: fills a local variable.
    unsafe { libc::sigfillset(&raw mut every) };
    every
}

pub(crate) fn empty_set() -> libc::sigset_t {
    // SAFETY: a set of signals is plain numbers, and all of them zero is the empty set.
    unsafe { std::mem::zeroed() }
}
