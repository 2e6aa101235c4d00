//! The homes in this process's mount table (proc(5), mountinfo), without a look at any of them: one may be dead.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

use trumanfs_types::error::Error;

/// The type under which homes are mounted.
pub const TYPE: &str = "fuse.trumanfs";

/// Returns whether something lies in a mounted home.
pub fn holds(meta: &std::fs::Metadata) -> bool {
    let device = device(meta);
    mounted().iter().any(|home| home.device == device)
}

/// Returns the device that something lies on, as the mount table has it: `major:minor`.
pub fn device(meta: &std::fs::Metadata) -> String {
    let device = meta.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major}:{minor}")
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

/// Returns where a directory of this name, or something below one, is mounted: it is there under another path (bind mounts).
pub fn mounts_of(name: &[u8]) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|b| *b == b'\n');
    lines.filter_map(|line| mount_of(name, line)).collect()
}

fn mount_of(name: &[u8], line: &[u8]) -> Option<PathBuf> {
    let mut fields = line.split(|b| *b == b' ');
    let root = unescape_octal(fields.nth(3)?);
    let path = unescape_octal(fields.next()?);
    let is_there = root.split(|b| *b == b'/').any(|part| part == name);
    is_there.then(|| PathBuf::from(std::ffi::OsString::from_vec(path)))
}

/// Parses a mountinfo line (proc(5)): id, parent, major:minor, root, mountpoint, options, optional fields, `-`, type, …
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

/// Returns the home that a path leads into, without touching it: it may be dead. A path that goes by way of a link or
/// out of the home again is not followed.
pub fn around(path: &Path) -> Option<MountedAt> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().find_map(find)
}

/// Returns whether this is what the kernel says of a home whose daemon has died.
pub fn is_dead(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOTCONN)
}

/// Returns whether the daemon of a home has died. The daemon itself is asked: what the kernel remembers of a home it tells
/// after that, too.
pub fn has_died(home: &Path) -> bool {
    let flags = AtFlags::STATX_FORCE_SYNC;
    let asked = rustix::fs::statx(CWD, home, flags, StatxFlags::BASIC_STATS);
    asked.is_err_and(|errno| errno == Errno::NOTCONN)
}

/// Says that a path lies in a home whose daemon has died.
pub fn dead(path: &Path) -> Error {
    match around(path) {
        Some(home) => Error::refused(
            format!("{}: the daemon of this home has died", home.path.display()),
            format!(
                "`trumanfs umount {}` cleans up; nothing is lost. Then it can be mounted again, and the store can be \
                 worked on by its own path.",
                home.path.display()
            ),
        ),
        None => Error::refused(
            format!("{} leads into a home whose daemon has died", path.display()),
            "`trumanfs status` names that home, and `trumanfs umount` on it cleans up; nothing is lost.",
        ),
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
