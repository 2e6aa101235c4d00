//! The keeper of a home that only sandboxes enter: a process in a mount namespace of its own, in which that home is all
//! that is mounted, so no path of the host leads into it. It hands clones of the mount out as descriptors.
//!
//! Owns both ends of that: the process, and what the daemon asks it. The daemon cannot do this itself: a user may clone
//! mounts only in a user namespace, where the owners of most files have no numbers.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::error::{Error, Result, reason};

/// The word that makes a program the keeper: [`helper::run`](crate::helper::run) recognises it.
pub const KEEPER_WORD: &str = "__home";

/// The longest message: a path.
const MAX_MESSAGE: usize = 4096;

/// The directory on which the keeper's own root is mounted until it is the root: a directory that every system has.
const ROOT_MOUNT_POINT: &str = "/tmp";

/// The daemon's end: the home exists while this does, and while a sandbox has a clone of it.
#[derive(Debug)]
pub(super) struct HomeKeeper {
    socket: Mutex<Option<OwnedFd>>,
    process: Mutex<Child>,
}

impl HomeKeeper {
    /// Starts the process.
    pub(super) fn start() -> Result<HomeKeeper> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(Error::os("socketpair"))?;
        let process = Command::new("/proc/self/exe")
            .arg0("trumanfs")
            .arg(KEEPER_WORD)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()
            .map_err(|error| Error::refused(format!("no keeper: {}", reason(&error)), ""))?;
        Ok(HomeKeeper {
            socket: Mutex::new(Some(ours)),
            process: Mutex::new(process),
        })
    }

    /// Hands over the home that is mounted at a path, which may be unmounted there afterwards.
    ///
    /// # Errors
    /// Errors of the system calls: `EPERM` where a user may have no mount namespace.
    pub(super) fn take(&self, home: &Path) -> Result<()> {
        self.ask(home.as_os_str().as_bytes()).map(drop)
    }

    /// Returns a clone of the home's mount, which is nowhere yet.
    ///
    /// # Errors
    /// [`Error::Refused`] if the keeper has ended.
    pub(super) fn tree(&self) -> Result<OwnedFd> {
        self.ask(b"+")?.ok_or_else(has_ended)
    }

    fn ask(&self, message: &[u8]) -> Result<Option<OwnedFd>> {
        let socket = self.socket.lock();
        let socket = socket.as_ref().ok_or_else(has_ended)?;
        rustix::net::send(socket, message, SendFlags::NOSIGNAL).map_err(|_| has_ended())?;
        let (answer, fd) = receive(socket).map_err(|_| has_ended())?;
        match <[u8; 4]>::try_from(answer.as_slice()).map(i32::from_ne_bytes) {
            Ok(0) => Ok(fd),
            Ok(errno) => Err(Error::os("mount namespace")(Errno::from_raw_os_error(
                errno,
            ))),
            Err(_) => Err(has_ended()),
        }
    }

    /// Ends the process, and so the home where no sandbox has it.
    pub(super) fn end(&self) {
        drop(self.socket.lock().take());
        let _ = self.process.lock().wait();
    }
}

impl Drop for HomeKeeper {
    fn drop(&mut self) {
        self.end();
    }
}

fn has_ended() -> Error {
    Error::refused(
        "the process that keeps this home for sandboxes has ended",
        "Wait until the programs in the home have ended, and give the command once more.",
    )
}

/// Does the keeper's work, until the other end of its standard input is closed.
pub fn run_keeper() {
    let _ = rustix::thread::set_name(c"trumanfs");
    // Closes /proc/PID/root and cwd to processes of this user.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let socket = rustix::stdio::stdin();
    let Ok((path, _)) = receive(socket) else {
        return;
    };
    let home = PathBuf::from(std::ffi::OsString::from_vec(path));
    let taken = take_alone(&home);
    if answer(socket, taken.as_ref().err(), None).is_err() {
        return;
    }
    let Ok(tree) = taken else { return };
    while receive(socket).is_ok_and(|(request, _)| !request.is_empty()) {
        let cloned = clone(&tree, "");
        let sent = answer(socket, cloned.as_ref().err(), cloned.as_ref().ok());
        if sent.is_err() {
            return;
        }
    }
}

/// Leaves the mounts of the host, but for a home: the others must not stay in use because of this process.
fn take_alone(home: &Path) -> rustix::io::Result<OwnedFd> {
    crate::sys::namespaces::leave_mounts()?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let tree = clone(CWD, home)?;
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let root = rustix::mount::fsmount(context.as_fd(), flags, attributes)?;
    attach(&root, Path::new(ROOT_MOUNT_POINT))?;
    rustix::process::fchdir(&root)?;
    // With one and the same directory for both, the old root comes to lie on the new one; pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    // Only what is mounted somewhere can be cloned again.
    attach(&tree, Path::new("/"))?;
    Ok(tree)
}

fn clone(dir: impl AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(dir, path, flags)
}

fn attach(tree: &OwnedFd, at: &Path) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", CWD, at, flags)
}

fn answer(
    socket: impl AsFd,
    failed: Option<&Errno>,
    tree: Option<&OwnedFd>,
) -> rustix::io::Result<()> {
    let code = failed.map_or(0, |errno| errno.raw_os_error()).to_ne_bytes();
    send(socket, &code, tree)
}

/// Sends a message, with a descriptor.
pub(super) fn send(
    socket: impl AsFd,
    message: &[u8],
    fd: Option<&OwnedFd>,
) -> rustix::io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fd.into_iter().map(AsFd::as_fd).collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let data = [std::io::IoSlice::new(message)];
    rustix::net::sendmsg(socket, &data, &mut control, SendFlags::NOSIGNAL).map(drop)
}

fn receive(socket: impl AsFd) -> rustix::io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut data = [std::io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut data, &mut control, flags)
    })?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    bytes.truncate(received.bytes);
    Ok((bytes, fd))
}
