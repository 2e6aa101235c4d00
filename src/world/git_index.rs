//! Git's index (`gitformat-index(5)`), read to compare its entries.
//!
//! `git status` writes the index anew when only stat data has changed, so two files with other bytes may stand for the
//! same index. Entries count here: path, stage, mode, object id and flags. Stat data, optional extensions and the
//! checksum are caches. Reads versions 2, 3 and 4 with SHA-1 or SHA-256 ids, and never panics on other bytes.

use sha2::{Digest, Sha256};

/// The bytes of an entry's stat data before and after its mode.
const STAT_BEFORE_MODE: usize = 24;
const STAT_AFTER_MODE: usize = 12;

/// The lengths of object ids: SHA-1, SHA-256. The index does not say which one it has.
const ID_LENGTHS: [usize; 2] = [20, 32];

/// An entry has a second word of flags (skip-worktree, intent-to-add).
const EXTENDED: u16 = 0x4000;

/// The mode of a symlink, 120000.
const SYMLINK: [u8; 4] = [0, 0, 0xa0, 0];

/// The part of the flags that has the length of the name.
const NAME_LENGTH: u16 = 0x0fff;

/// Returns whether two index files have the same entries. False where either cannot be read as an index, or has a
/// mandatory extension other than `sdir` (a split index has its entries elsewhere).
pub fn same_entries(one: &[u8], two: &[u8]) -> bool {
    match (IndexEntries::read(one), IndexEntries::read(two)) {
        (Some(one), Some(two)) => one == two,
        _ => false,
    }
}

/// Returns the paths of an index, each with whether it is a symlink's. Nothing if it cannot be read.
pub fn tracked_files(index: &[u8]) -> Option<Vec<(Vec<u8>, bool)>> {
    let entries = IndexEntries::read(index)?.0.into_iter();
    let tracked = |entry: IndexEntry<'_>| (entry.path, entry.mode == SYMLINK);
    Some(entries.map(tracked).collect())
}

/// Returns the SHA-256 (hex) of an index's entries; `None` where [`same_entries`] would compare nothing.
pub fn entries_digest(index: &[u8]) -> Option<String> {
    let mut hash = Sha256::new();
    for entry in IndexEntries::read(index)?.0 {
        let length = (entry.path.len() as u64).to_le_bytes();
        let (first, second) = entry.flags;
        for part in [&length[..], &entry.path, entry.mode, entry.id] {
            hash.update(part);
        }
        hash.update([first.to_le_bytes(), second.to_le_bytes()].concat());
    }
    Some(base16ct::lower::encode_string(&hash.finalize()))
}

/// An entry without its stat data.
#[derive(Debug, PartialEq, Eq)]
struct IndexEntry<'a> {
    path: Vec<u8>,
    mode: &'a [u8],
    id: &'a [u8],
    /// Stage and assume-valid; then skip-worktree and intent-to-add.
    flags: (u16, u16),
}

/// All entries, in the file's order, which is by path and stage.
#[derive(Debug, PartialEq, Eq)]
struct IndexEntries<'a>(Vec<IndexEntry<'a>>);

impl<'a> IndexEntries<'a> {
    /// Reads an index. A length of ids is the right one if entries and extensions end where the checksum begins; the
    /// checksum itself may be zeros (`index.skipHash`).
    fn read(bytes: &'a [u8]) -> Option<IndexEntries<'a>> {
        ID_LENGTHS
            .into_iter()
            .find_map(|id_length| IndexEntries::read_with(bytes, id_length))
    }

    fn read_with(bytes: &'a [u8], id_length: usize) -> Option<IndexEntries<'a>> {
        let body = bytes.get(..bytes.len().checked_sub(id_length)?)?;
        let mut reader = IndexReader { body, at: 0 };
        if reader.take(4)? != b"DIRC" {
            return None;
        }
        let version = reader.number()?;
        let count = usize::try_from(reader.number()?).ok()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let mut entries: Vec<IndexEntry<'a>> = Vec::new();
        for _ in 0..count {
            let path_before = entries.last().map_or(&b""[..], |entry| &entry.path);
            let entry = reader.entry(version, id_length, path_before)?;
            entries.push(entry);
        }
        reader.skip_extensions()?;
        Some(IndexEntries(entries))
    }
}

/// Reads from the front of an index without its checksum.
struct IndexReader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> IndexReader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.body.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn flags(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Takes the bytes before a zero, and the zero.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = memchr::memchr(0, self.body.get(self.at..)?)?;
        let text = self.take(length)?;
        self.take(1)?;
        Some(text)
    }

    fn entry(
        &mut self,
        version: u32,
        id_length: usize,
        path_before: &[u8],
    ) -> Option<IndexEntry<'a>> {
        let start = self.at;
        self.take(STAT_BEFORE_MODE)?;
        let mode = self.take(4)?;
        self.take(STAT_AFTER_MODE)?;
        let id = self.take(id_length)?;
        let first = self.flags()?;
        let second = if first & EXTENDED != 0 && version > 2 {
            self.flags()?
        } else {
            0
        };
        let path = if version == 4 {
            let kept = path_before.len().checked_sub(self.offset()?)?;
            let mut path = path_before.get(..kept)?.to_vec();
            path.extend_from_slice(self.text()?);
            path
        } else {
            let path = self.text()?.to_vec();
            // Entries are padded to a multiple of eight bytes; one zero is always there.
            self.take((self.at - start).next_multiple_of(8) - (self.at - start))?;
            path
        };
        Some(IndexEntry {
            path,
            mode,
            id,
            // Version 3 or 4 may drop the second word where it is zero.
            flags: (first & !(EXTENDED | NAME_LENGTH), second),
        })
    }

    /// Reads a number as packs have offsets (`gitformat-pack(5)`).
    fn offset(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
        }
        Some(value)
    }

    /// Skips optional extensions to the end; a name that begins with a lower letter is mandatory.
    fn skip_extensions(&mut self) -> Option<()> {
        while self.at < self.body.len() {
            let name = self.take(4)?;
            if !name.first()?.is_ascii_uppercase() && name != b"sdir" {
                return None;
            }
            let length = usize::try_from(self.number()?).ok()?;
            self.take(length)?;
        }
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests;
