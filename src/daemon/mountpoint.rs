//! Mounting and unmounting a home, and what the mount table says.
//!
//! As root the home is mounted by `mount(2)`; else by `fusermount3`, as every unprivileged FUSE mount is. Nothing of the
//! store shows in the mount table: the source is always `trumanfs`.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags};

use super::atime::{Access, AccessTimes};
use crate::error::{Error, Result};

/// The type under which homes are mounted.
pub const TYPE: &str = "fuse.trumanfs";

/// How a home is mounted.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct MountFlagsWanted {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Programs cannot be started.
    pub no_exec: bool,
    /// When times of access change.
    pub access: Access,
    /// Others than the owner get in, and the kernel checks permissions.
    pub allow_other: bool,
}

/// Mounts a home for a user, with the access times that the store has, and returns the descriptor on which its requests come.
///
/// # Errors
/// [`Error::Refused`] with what `mount(2)` or `fusermount3` says.
pub fn mount(
    home: &Path,
    wanted: &MountFlagsWanted,
    access: Access,
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
    wanted: &MountFlagsWanted,
    access: Access,
    (uid, gid): (u32, u32),
) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let device = device.map_err(|errno| no_device(&Error::os("open")(errno)))?;
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
    rustix::mount::mount("trumanfs", home, TYPE, flags, data.as_c_str()).map_err(|errno| {
        Error::refused(
            format!("cannot mount {}: {}", home.display(), Error::os("mount")(errno)),
            "Mounting needs CAP_SYS_ADMIN; in a container, start it with `--cap-add SYS_ADMIN --device /dev/fuse`.",
        )
    })?;
    Ok(device)
}

/// Says why there is no /dev/fuse.
pub fn no_device(error: &Error) -> Error {
    Error::refused(
        format!("/dev/fuse cannot be opened: {error}"),
        "Load the module with `modprobe fuse`; in a container, start it with `--device /dev/fuse`.",
    )
}

/// fusermount3 mounts and sends the descriptor over a socket whose number is in `_FUSE_COMMFD` (libfuse's protocol).
fn mount_by_fusermount(home: &Path, wanted: &MountFlagsWanted, access: Access) -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let failed = |what: String| {
        Error::refused(
            format!("cannot mount {}: {what}", home.display()),
            "Mounting without being root needs fusermount3: install the package fuse3.",
        )
    };
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| failed(errno.to_string()))?;
    // The only descriptor that the child inherits.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())
        .map_err(|errno| failed(errno.to_string()))?;
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
        .map_err(|error| failed(format!("fusermount3: {error}")))?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    let _ = child.wait();
    received.ok_or_else(|| failed(said.trim().to_owned()))
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

/// How long a home may be in use that is to be unmounted: whoever looks at a program that has just ended, through /proc, holds
/// what the program had open for that moment, be it `ps` or the daemon itself.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// Unmounts a home. `lazy` takes it out of sight at once, although it is in use; else it may be in use for a moment.
///
/// # Errors
/// [`Error::Refused`] where it is in use or nothing is mounted.
pub fn unmount(home: &Path, lazy: bool) -> Result<()> {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        match unmount_once(home, lazy)? {
            Unmounted::Yes => return Ok(()),
            Unmounted::InUse if std::time::Instant::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Unmounted::InUse => {
                return Err(Error::refused(
                    format!("{} is in use", home.display()),
                    "Leave it with every shell and program (`fuser -vm` on it lists them), or use --lazy.",
                ));
            }
        }
    }
}

/// What came of an attempt.
enum Unmounted {
    Yes,
    InUse,
}

fn unmount_once(home: &Path, lazy: bool) -> Result<Unmounted> {
    if rustix::process::geteuid().is_root() {
        let flags = if lazy {
            UnmountFlags::DETACH
        } else {
            UnmountFlags::NOFOLLOW
        };
        return match rustix::mount::unmount(home, flags) {
            Ok(()) => Ok(Unmounted::Yes),
            Err(rustix::io::Errno::BUSY) => Ok(Unmounted::InUse),
            Err(rustix::io::Errno::INVAL) => Err(not_mounted(home)),
            Err(errno) => Err(Error::refused(
                format!(
                    "cannot unmount {}: {}",
                    home.display(),
                    Error::os("umount2")(errno)
                ),
                "Only root and whoever mounted a home may unmount it.",
            )),
        };
    }
    let flag = if lazy { "-uzq" } else { "-uq" };
    match Command::new("fusermount3")
        .arg(flag)
        .arg("--")
        .arg(home)
        .status()
    {
        Ok(status) if status.success() => Ok(Unmounted::Yes),
        // It says no more than that it could not.
        Ok(_) if find(home).is_none() => Err(not_mounted(home)),
        Ok(_) => Ok(Unmounted::InUse),
        Err(error) => Err(Error::refused(
            format!("cannot unmount {}: fusermount3: {error}", home.display()),
            "Install the package fuse3.",
        )),
    }
}

/// Says that a path is a home already.
pub fn already_mounted(home: &Path) -> Error {
    Error::refused(
        format!("{}: a home is already mounted there", home.display()),
        "Unmount it with `trumanfs umount`, or use another directory.",
    )
}

/// Says that a path is no home.
pub fn not_mounted(home: &Path) -> Error {
    Error::refused(
        format!("{} is not a mounted home", home.display()),
        "`trumanfs status` lists the homes that are mounted.",
    )
}

/// Returns whether something lies in a mounted home.
pub fn holds(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = format!(
        "{}:{}",
        rustix::fs::major(meta.dev()),
        rustix::fs::minor(meta.dev())
    );
    mounted().iter().any(|home| home.device == device)
}

/// A home in the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedAt {
    /// Where.
    pub path: PathBuf,
    /// The device number, `major:minor`.
    pub device: String,
}

/// Returns all homes in this process's mount table, later ones last.
pub fn mounted() -> Vec<MountedAt> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|b| *b == b'\n')
        .filter_map(parse_mountinfo)
        .collect()
}

/// One line of mountinfo (proc(5)): id, parent, major:minor, root, mountpoint, options, optional fields, `-`, type, …
fn parse_mountinfo(line: &[u8]) -> Option<MountedAt> {
    let mut fields = line.split(|b| *b == b' ');
    let device = String::from_utf8(fields.nth(2)?.to_vec()).ok()?;
    let path = unescape_octal(fields.nth(1)?);
    fields.find(|field| *field == b"-")?;
    (fields.next()? == TYPE.as_bytes()).then(|| MountedAt {
        path: PathBuf::from(std::ffi::OsString::from_vec(path)),
        device,
    })
}

/// The mount table writes space, tab, newline and backslash as `\040` and so on.
fn unescape_octal(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail
            .get(..3)
            .filter(|d| *first == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) => {
                let value = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
                bytes.push((value & 0xff) as u8);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Finds a home in the mount table by its path, without touching it: it may be dead.
pub fn find(home: &Path) -> Option<MountedAt> {
    let home = resolve_without_touching(home);
    mounted()
        .into_iter()
        .rev()
        .find(|mounted| mounted.path == home)
}

/// Resolves all but the last component, for a path whose end may be a dead mount.
pub fn resolve_without_touching(path: &Path) -> PathBuf {
    if let Ok(path) = std::fs::canonicalize(path) {
        return path;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (
        path.parent()
            .and_then(|parent| std::fs::canonicalize(parent).ok()),
        path.file_name(),
    ) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn the_mount_table_is_read() {
        let line = b"39 22 0:34 / /mnt/my\\040home rw,nosuid,nodev shared:7 - fuse.trumanfs trumanfs rw,user_id=0";
        let mounted = parse_mountinfo(line).unwrap();
        assert_eq!(mounted.path.as_os_str().as_bytes(), b"/mnt/my home");
        assert_eq!(mounted.device, "0:34");
        assert!(parse_mountinfo(b"22 1 8:1 / / rw - ext4 /dev/sda1 rw").is_none());
        assert!(parse_mountinfo(b"").is_none());
    }
}
