//! The keeper of a home that only sandboxes enter: a process in a mount namespace of its own, in which that home is all
//! that is mounted, so no path of the host leads into it. It hands clones of the mount out as descriptors. Where nothing
//! can be mounted on the host, it mounts the home itself.
//!
//! Owns both ends of that: the process, and what the daemon asks it. The daemon cannot do this itself: a user may clone
//! mounts, and mount, only in a user namespace, where the owners of most files have no numbers.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
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
use crate::mounts::diagnosis;
use crate::sys::namespaces::UserNamespace;

/// The word that makes a program the keeper: [`helper::run`](crate::helper::run) recognises it.
pub const KEEPER_WORD: &str = "__home";

/// The longest message: a path.
const MAX_MESSAGE: usize = 4096;

/// The beginning of the request to mount a home; a path begins with `/`.
const MOUNT_WORD: &str = "mount ";

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

    /// Has the keeper mount the home in a user namespace of its own, and returns the descriptor on which its requests
    /// come. Only the user and the group of this process have numbers there, so the home must be for them.
    ///
    /// # Errors
    /// Errors of the system calls: `EPERM` where a user may have no user namespace, `EACCES` where /dev/fuse is not for
    /// everybody.
    pub(super) fn mount(&self, attributes: MountAttrFlags) -> Result<OwnedFd> {
        let message = format!("{MOUNT_WORD}{}", attributes.bits());
        self.ask(message.as_bytes())?.ok_or_else(has_ended)
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
    let socket = rustix::stdio::stdin();
    let Ok((request, _)) = receive(socket) else {
        return;
    };
    let taken = take_alone(&request);
    let device = taken.as_ref().ok().and_then(|(_, device)| device.as_ref());
    if answer(socket, taken.as_ref().err(), device).is_err() {
        return;
    }
    let Ok((tree, device)) = taken else { return };
    // The home ends with the daemon, which has the other copy.
    drop(device);
    while receive(socket).is_ok_and(|(request, _)| !request.is_empty()) {
        let cloned = clone(&tree, "");
        let sent = answer(socket, cloned.as_ref().err(), cloned.as_ref().ok());
        if sent.is_err() {
            return;
        }
    }
}

/// Leaves the mounts of the host, but for a home: the others must not stay in use because of this process. Returns the
/// home, and where it is mounted here, the descriptor for its requests.
fn take_alone(request: &[u8]) -> rustix::io::Result<(OwnedFd, Option<OwnedFd>)> {
    let attributes = std::str::from_utf8(request)
        .ok()
        .and_then(|text| text.strip_prefix(MOUNT_WORD)?.parse().ok())
        .map(MountAttrFlags::from_bits_retain);
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    crate::sys::namespaces::leave_mounts(match attributes {
        Some(_) => UserNamespace::OfOwnIds,
        None => UserNamespace::IfNeeded,
    })?;
    // Closes /proc/PID/root and cwd to processes of this user.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let (tree, device) = match attributes {
        Some(attributes) => {
            let (tree, device) = mount(attributes, uid.as_raw(), gid.as_raw())?;
            (tree, Some(device))
        }
        None => (clone(CWD, Path::new(OsStr::from_bytes(request)))?, None),
    };
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let root = rustix::mount::fsmount(context.as_fd(), flags, attributes)?;
    attach(&root, Path::new(ROOT_MOUNT_POINT))?;
    rustix::process::fchdir(&root)?;
    // With one and the same directory for both, the old root comes to lie on the new one; pivot_root(2).
    match rustix::process::pivot_root(".", ".") {
        Ok(()) => rustix::mount::unmount(".", UnmountFlags::DETACH)?,
        // A filter refuses it, as Docker's does: the mounts of the container stay in use.
        Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    // Only what is mounted somewhere can be cloned again.
    attach(&tree, Path::new("."))?;
    rustix::process::chdir("/")?;
    Ok((tree, device))
}

/// Mounts a home that is nowhere yet, for a user and a group of this user namespace. The kernel wants the device opened
/// in the namespace in which it is mounted (fuse_fill_super).
fn mount(attributes: MountAttrFlags, uid: u32, gid: u32) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let device = diagnosis::open_device()?;
    let context = rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [
        ("source", "trumanfs".to_owned()),
        ("subtype", "trumanfs".to_owned()),
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", uid.to_string()),
        ("group_id", gid.to_string()),
    ] {
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let tree = rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    Ok((tree, device))
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
