//! The parts of fanotify(7) that notice changes behind a mount: marks on single directories or files, and events with
//! the handle of what was marked, the entry's name and the process that caused them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{Errno, Result};

/// The identity of a directory, or of a marked file, in events: its opaque file handle (name_to_handle_at(2)).
pub type NodeHandle = Box<[u8]>;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsEvent {
    /// The kinds of change, `FAN_*` bits.
    pub mask: u64,
    /// The process that caused it; 0 if the kernel does not report it.
    pub pid: i32,
    /// The directory, or the file if that is marked.
    pub node: NodeHandle,
    /// The entry; empty for an event about the directory itself.
    pub name: Vec<u8>,
}

/// An entry was created, removed or moved.
pub const NAMES: u64 =
    libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;
/// The content changed.
pub const CONTENT: u64 = libc::FAN_MODIFY;
/// The attributes changed.
pub const ATTRIBUTES: u64 = libc::FAN_ATTRIB;
/// The queue overflowed: events were lost.
pub const OVERFLOW: u64 = libc::FAN_Q_OVERFLOW;

const MASK: u64 = NAMES | CONTENT | ATTRIBUTES | libc::FAN_ONDIR | libc::FAN_EVENT_ON_CHILD;

/// Opens a notification group. Its queue is unlimited if the process has the privilege.
///
/// # Errors
/// `EINVAL` before Linux 5.13, `EMFILE` past the limit of groups, `EPERM`.
pub fn init() -> Result<OwnedFd> {
    let base =
        libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_REPORT_DFID_NAME;
    let privileged = base | libc::FAN_UNLIMITED_QUEUE | libc::FAN_UNLIMITED_MARKS;
    open_group(privileged).or_else(|_| open_group(base))
}

fn open_group(flags: u32) -> Result<OwnedFd> {
    // SAFETY: takes two integers and touches no memory.
    let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_LARGEFILE) as u32) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the call has just returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Watches a directory's entries, and returns the handle that identifies the directory in its events.
///
/// # Errors
/// `EOPNOTSUPP` and `ENODEV` if the file system has no handles, `ENOSPC` past the limit of marks, `EACCES` if the
/// directory may not be read.
pub fn watch(group: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<NodeHandle> {
    let handle = handle_of(dir)?;
    mark(group, dir, libc::FAN_MARK_ADD)?;
    Ok(handle)
}

/// Stops watching a directory.
///
/// # Errors
/// `ENOENT` if there was no mark.
pub fn unwatch(group: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<()> {
    mark(group, dir, libc::FAN_MARK_REMOVE)
}

/// Opens a notification group for the closes of files that were open for writing.
///
/// # Errors
/// As [`init`].
pub fn init_for_files() -> Result<OwnedFd> {
    let flags =
        libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_REPORT_FID;
    open_group(flags)
}

/// Watches a file for closes after writing, and returns the handle that identifies it in the events. It is watched until
/// it is removed, or by [`unwatch_file`].
///
/// # Errors
/// `EOPNOTSUPP` and `ENODEV` if the file system has no handles, `ENOSPC` past the limit of marks, `EACCES` if the file
/// may not be read.
pub fn watch_file(group: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<NodeHandle> {
    let handle = handle_of(file)?;
    mark_file(group, file, libc::FAN_MARK_ADD)?;
    Ok(handle)
}

/// Stops watching a file.
///
/// # Errors
/// `ENOENT` if there was no mark.
pub fn unwatch_file(group: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<()> {
    mark_file(group, file, libc::FAN_MARK_REMOVE)
}

fn mark_file(group: BorrowedFd<'_>, file: BorrowedFd<'_>, action: u32) -> Result<()> {
    let (group, file) = (group.as_raw_fd(), file.as_raw_fd());
    // SAFETY: both descriptors live through the call; without a path it marks what the second one is open on.
    let rc = unsafe {
        libc::fanotify_mark(group, action, libc::FAN_CLOSE_WRITE, file, std::ptr::null())
    };
    if rc == 0 { Ok(()) } else { Err(last_error()) }
}

fn mark(group: BorrowedFd<'_>, dir: BorrowedFd<'_>, action: u32) -> Result<()> {
    // SAFETY: both descriptors live through the call, and the path is a constant that ends with NUL.
    let rc = unsafe {
        libc::fanotify_mark(
            group.as_raw_fd(),
            action | libc::FAN_MARK_ONLYDIR,
            MASK,
            dir.as_raw_fd(),
            c".".as_ptr(),
        )
    };
    if rc == 0 { Ok(()) } else { Err(last_error()) }
}

/// The largest file handle (`MAX_HANDLE_SZ`).
const MAX_HANDLE: usize = 128;

#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_HANDLE],
}

fn handle_of(dir: BorrowedFd<'_>) -> Result<NodeHandle> {
    let mut handle = FileHandle {
        bytes: MAX_HANDLE as u32,
        kind: 0,
        handle: [0; MAX_HANDLE],
    };
    let mut mount = 0;
    // SAFETY: FileHandle has the layout of struct file_handle with space for the largest handle, as `bytes` says; the
    // path is empty and ends with NUL.
    let rc = unsafe {
        libc::name_to_handle_at(
            dir.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if rc != 0 {
        return Err(last_error());
    }
    let length = usize::try_from(handle.bytes).unwrap_or(0).min(MAX_HANDLE);
    let mut key = handle.kind.to_ne_bytes().to_vec();
    key.extend_from_slice(handle.handle.get(..length).unwrap_or_default());
    Ok(key.into())
}

/// Reads the pending events without waiting for more. `buffer` should hold 64 KiB.
///
/// # Errors
/// Any error from `read(2)`, except that `EAGAIN` gives an empty list.
pub fn read(group: &OwnedFd, buffer: &mut [u8]) -> Result<Vec<FsEvent>> {
    let length = match rustix::io::read(group.as_fd(), &mut *buffer) {
        Ok(n) => n,
        Err(Errno::AGAIN | Errno::INTR) => 0,
        Err(errno) => return Err(errno),
    };
    Ok(parse(buffer.get(..length).unwrap_or_default()))
}

/// Splits the kernel's buffer into events: each is a `fanotify_event_metadata` followed by information records, of
/// which the one of type FID, DFID or DFID_NAME holds fsid, file handle and, the last, name.
fn parse(mut bytes: &[u8]) -> Vec<FsEvent> {
    let mut events = Vec::new();
    while let Some(length) = u32_at(bytes, 0).and_then(|n| usize::try_from(n).ok()) {
        let Some(event) = bytes.get(..length).filter(|_| length >= 24) else {
            break;
        };
        bytes = bytes.get(length..).unwrap_or_default();
        let header = event.get(6..8).map_or(24, |b| {
            usize::from(u16::from_ne_bytes([at(b, 0), at(b, 1)]))
        });
        let mask = u64::from(u32_at(event, 8).unwrap_or(0))
            | u64::from(u32_at(event, 12).unwrap_or(0)) << 32;
        let pid = u32_at(event, 20).unwrap_or(0).cast_signed();
        let mut parsed = FsEvent {
            mask,
            pid,
            node: Box::default(),
            name: Vec::new(),
        };
        let mut infos = event.get(header..).unwrap_or_default();
        while let Some(size) = infos
            .get(2..4)
            .map(|b| usize::from(u16::from_ne_bytes([at(b, 0), at(b, 1)])))
        {
            let Some(info) = infos.get(..size).filter(|_| size >= 4) else {
                break;
            };
            infos = infos.get(size..).unwrap_or_default();
            let kinds = [
                libc::FAN_EVENT_INFO_TYPE_DFID_NAME,
                libc::FAN_EVENT_INFO_TYPE_DFID,
                libc::FAN_EVENT_INFO_TYPE_FID,
            ];
            if kinds.contains(&at(info, 0)) {
                read_info(info, &mut parsed);
            }
        }
        events.push(parsed);
    }
    events
}

/// An information record: header (4), fsid (8), handle_bytes (4), handle_type (4), handle, name with NUL.
fn read_info(info: &[u8], event: &mut FsEvent) {
    let length = u32_at(info, 12)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(0);
    let (Some(kind), Some(handle)) = (info.get(16..20), info.get(20..20 + length)) else {
        return;
    };
    event.node = [kind, handle].concat().into();
    let name = info.get(20 + length..).unwrap_or_default();
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default();
    if name != b"." {
        event.name = name.to_vec();
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn at(bytes: &[u8], index: usize) -> u8 {
    bytes.get(index).copied().unwrap_or(0)
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_close_after_writing_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("file");
        std::fs::write(&at, b"x").unwrap();
        let file: OwnedFd = std::fs::File::open(&at).unwrap().into();
        let group = init_for_files().unwrap();
        let handle = match watch_file(group.as_fd(), file.as_fd()) {
            Ok(handle) => handle,
            Err(errno) => {
                crate::need::skip!(
                    "fanotify",
                    "the temporary directory's file system has no fanotify marks ({errno})"
                );
            }
        };
        std::fs::read(&at).unwrap();
        std::fs::write(dir.path().join("other"), b"x").unwrap();
        assert!(read(&group, &mut vec![0; 65536]).unwrap().is_empty());
        std::fs::write(&at, b"y").unwrap();
        let events = read(&group, &mut vec![0; 65536]).unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        let event = events.first().unwrap();
        assert_eq!((&event.node, event.mask), (&handle, libc::FAN_CLOSE_WRITE));
        assert_eq!(event.pid, std::process::id().cast_signed());
        unwatch_file(group.as_fd(), file.as_fd()).unwrap();
        std::fs::write(&at, b"z").unwrap();
        assert!(read(&group, &mut vec![0; 65536]).unwrap().is_empty());
    }

    #[test]
    fn a_change_names_its_directory_entry_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let fd: OwnedFd = std::fs::File::open(dir.path()).unwrap().into();
        let group = init().unwrap();
        let handle = match watch(group.as_fd(), fd.as_fd()) {
            Ok(handle) => handle,
            Err(errno) => {
                crate::need::skip!(
                    "fanotify",
                    "the temporary directory's file system has no fanotify marks ({errno})"
                );
            }
        };
        std::fs::write(dir.path().join("new"), b"x").unwrap();
        let events = read(&group, &mut vec![0; 65536]).unwrap();
        let first = events.first().unwrap();
        assert_eq!((&first.node, first.name.as_slice()), (&handle, &b"new"[..]));
        assert_eq!(first.pid, std::process::id().cast_signed());
        unwatch(group.as_fd(), fd.as_fd()).unwrap();
        std::fs::write(dir.path().join("other"), b"x").unwrap();
        assert!(read(&group, &mut vec![0; 65536]).unwrap().is_empty());
    }
}
