//! Directory listings: the store's entries, without those hidden from the occupant.
//!
//! A position is the store's own (`d_off`), so it stays valid across changes and descriptors, as POSIX requires of
//! telldir(3), for as many entries as the store's file system can hold.

use std::mem::MaybeUninit;

use rustix::fs::{FileType, RawDir, SeekFrom};

use super::root::{Dir, Root};
use crate::error::{Error, Result};

/// An entry of a directory, as listed.
#[derive(Debug, Clone, Copy)]
pub struct DirEntry<'a> {
    /// The name; `.` and `..` are included.
    pub name: &'a [u8],
    /// The inode number.
    pub ino: u64,
    /// The type, or `Unknown` if the file system does not report it.
    pub kind: FileType,
    /// The position after the entry.
    pub next: u64,
}

/// Passes all entries of the store's directory from a position on to `visit`, until it returns false.
pub(super) fn list_raw(
    root: &Root,
    dir: &Dir,
    from: u64,
    mut visit: impl FnMut(DirEntry<'_>) -> bool,
) -> Result<()> {
    let fd = root.read_dir(dir)?;
    if from != 0 {
        rustix::fs::seek(&fd, SeekFrom::Start(from)).map_err(Error::os("lseek"))?;
    }
    let mut buffer = [MaybeUninit::<u8>::uninit(); 32 * 1024];
    let mut entries = RawDir::new(&fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let given = DirEntry {
            name: entry.file_name().to_bytes(),
            ino: entry.ino(),
            kind: entry.file_type(),
            next: entry.next_entry_cookie(),
        };
        if !visit(given) {
            break;
        }
    }
    Ok(())
}
