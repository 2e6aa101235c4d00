//! Mounting a home.
//!
//! As root the home is mounted by `mount(2)`; else by `fusermount3`, as every unprivileged FUSE mount is. Nothing of
//! the store shows in the mount table: the source is always `trumanfs`.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags};

use super::atime::{AccessTimeSetting, AccessTimes};
use crate::error::{Error, Result, reason};
use crate::mounts::diagnosis::{self, FailedStep, find_obstacle};
use crate::mounts::obstacle::MountObstacle;
use crate::mounts::table::TYPE;

/// The mount flags of a home.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct HomeMountFlags {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Programs cannot be started.
    pub no_exec: bool,
    /// The setting of access times.
    pub access: AccessTimeSetting,
    /// Others than the owner get in, and the kernel checks permissions.
    pub allow_other: bool,
}

impl HomeMountFlags {
    /// Returns the attributes for fsmount(2), with the access times that the store has.
    pub(super) fn attributes(&self, access: AccessTimeSetting) -> MountAttrFlags {
        let mut attributes = access.attributes();
        attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, self.read_only);
        attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, self.no_exec);
        attributes
    }
}

/// Mounts a home for a user, with the access times that the store has, and returns the descriptor on which its requests
/// come.
///
/// # Errors
/// [`Error::Refused`] with what `mount(2)` or `fusermount3` says, and the remedy for its cause.
pub(super) fn mount(
    home: &Path,
    wanted: &HomeMountFlags,
    access: AccessTimeSetting,
    uid: u32,
    gid: u32,
) -> Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        mount_as_root(home, wanted, access, (uid, gid))
    } else {
        mount_by_fusermount(home, wanted, access)
    }
}

fn mount_as_root(
    home: &Path,
    wanted: &HomeMountFlags,
    access: AccessTimeSetting,
    (uid, gid): (u32, u32),
) -> Result<OwnedFd> {
    let device = diagnosis::open_device().map_err(diagnosis::device_error)?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid}",
        device.as_raw_fd()
    );
    if wanted.allow_other {
        data.push_str(",allow_other,default_permissions");
    }
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | access.flags();
    for (wanted, flag) in [
        (wanted.read_only, MountFlags::RDONLY),
        (wanted.no_exec, MountFlags::NOEXEC),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    let data = std::ffi::CString::new(data).map_err(|_| Error::Invalid)?;
    // Its path has no links: who puts one there meanwhile does not choose what root mounts over.
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(CWD, home, open, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let mounted = place.and_then(|place| {
        let place = format!("/proc/self/fd/{}", place.as_raw_fd());
        rustix::mount::mount("trumanfs", place, TYPE, flags, data.as_c_str())
    });
    mounted.map_err(|errno| {
        find_obstacle(FailedStep::Mount(errno)).error(format!(
            "cannot mount {}: {}",
            home.display(),
            Error::os("mount")(errno)
        ))
    })?;
    Ok(device)
}

/// fusermount3 mounts and sends the descriptor over a socket whose number is in `_FUSE_COMMFD` (libfuse's protocol).
fn mount_by_fusermount(
    home: &Path,
    wanted: &HomeMountFlags,
    access: AccessTimeSetting,
) -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let failed = |obstacle: MountObstacle, what: &str| {
        obstacle.error(format!("cannot mount {}: {what}", home.display()))
    };
    let no_socket = |errno: Errno| failed(MountObstacle::Unknown, &errno.to_string());
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(no_socket)?;
    // The only descriptor that the child inherits.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).map_err(no_socket)?;
    let mut options = String::from("fsname=trumanfs,subtype=trumanfs,nosuid,nodev");
    for (wanted, word) in [
        (wanted.read_only, ",ro"),
        (wanted.no_exec, ",noexec"),
        // The only one of its words for this.
        (access.times == Some(AccessTimes::Never), ",noatime"),
        (wanted.allow_other, ",allow_other,default_permissions"),
    ] {
        if wanted {
            options.push_str(word);
        }
    }
    let mut child = Command::new("fusermount3")
        .args(["-o", &options, "--"])
        .arg(home)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let obstacle = find_obstacle(FailedStep::HelperStart(errno));
            failed(obstacle, &format!("fusermount3: {}", reason(&error)))
        })?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let mut complaint = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut complaint);
    }
    let _ = child.wait();
    received.ok_or_else(|| {
        let obstacle = find_obstacle(FailedStep::Helper(&complaint));
        failed(obstacle, complaint.trim())
    })
}

fn receive_descriptor(socket: &OwnedFd) -> Option<OwnedFd> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut data = [std::io::IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}
