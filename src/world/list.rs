//! Directory listings: the store's entries, without those hidden from the occupant.
//!
//! A position is the store's own (`d_off`), so it stays valid across changes and descriptors, as POSIX requires of
//! telldir(3), for as many entries as the store's file system can hold.

use std::mem::MaybeUninit;

use rustix::fs::{FileType, RawDir, SeekFrom};

use super::root::{Dir, Root};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::store::layout::is_own_name;

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

/// The position after the trash where that lies elsewhere: it comes last. No file system is known to use it.
const AFTER_TRASH: u64 = i64::MAX.cast_unsigned() - 1;

/// Passes all entries of the store's directory from a position on to `visit`, until it returns false.
pub(super) fn list_raw(
    root: &Root,
    dir: &Dir,
    from: u64,
    mut visit: impl FnMut(DirEntry<'_>) -> bool,
) -> Result<()> {
    if from == AFTER_TRASH {
        return Ok(());
    }
    let unlisted = root.unlisted_name(dir);
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
        // An entry with a name of the store's own directories is not one of them: they lie elsewhere.
        if unlisted.is_some() && is_own_name(given.name) {
            continue;
        }
        if !visit(given) {
            return Ok(());
        }
    }
    if let Some(name) = unlisted
        && let Ok(meta) = dir.stat(Name::new(name)?)
    {
        visit(DirEntry {
            name,
            ino: meta.id.1,
            kind: meta.kind,
            next: AFTER_TRASH,
        });
    }
    Ok(())
}
