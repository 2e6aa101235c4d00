//! The two small inode lists in the state directory, `links` and `pinned`.
//!
//! Owns their format: lines that are only ever appended. Each names device and inode (0 for the store's device, as in
//! the journal) and holds only while that inode is the one it was written for; so entries of deleted inodes are taken
//! back (`purge.rs`), and `fsck` rewrites the lists.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, OFlags};

use crate::error::{Error, Result};
use crate::world::store::layout::{LINKS, PINNED, new_name, original_name};
use crate::world::store::lent_record::{id_line, parse_id};
use crate::world::store::state_files;
use trumanfs_types::meta::Id;

/// The longest list, in bytes: twenty million lines.
pub(in crate::world) const MAX_LIST_BYTES: u64 = 256 << 20;

/// Parses the number of hard links in the trash, by file.
pub(in crate::world) fn parse_links(text: &str, device: u64) -> HashMap<Id, u32> {
    let mut by_id = HashMap::new();
    for line in text.lines() {
        let Some(id) = line.get(1..).and_then(|text| parse_id(text, device)) else {
            continue;
        };
        let count: &mut u32 = by_id.entry(id).or_default();
        *count = if line.starts_with('+') {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }
    by_id.retain(|_, count| *count > 0);
    by_id
}

/// Parses the set of hidden inodes.
pub(in crate::world) fn parse_pinned(text: &str, device: u64) -> HashSet<Id> {
    let mut pinned = HashSet::new();
    for line in text.lines() {
        match line.strip_prefix('-') {
            Some(gone) => parse_id(gone, device).is_some_and(|id| pinned.remove(&id)),
            None => parse_id(line, device).is_some_and(|id| pinned.insert(id)),
        };
    }
    pinned
}

/// Reads both lists without the store's lock; empty if there are none.
///
/// # Errors
/// Any error from `open(2)` or `read(2)`.
pub fn read(state: BorrowedFd<'_>, device: u64) -> Result<(HashMap<Id, u32>, HashSet<Id>)> {
    let (links, pinned) = (read_list(state, LINKS)?, read_list(state, PINNED)?);
    Ok((parse_links(&links, device), parse_pinned(&pinned, device)))
}

/// Writes the inodes that a new store hides wherever they go.
///
/// # Errors
/// `EEXIST` where there is such a list already; any error from `openat2(2)` or `write(2)`.
pub fn write_pinned(state: BorrowedFd<'_>, hidden: &[Id], device: u64) -> Result<()> {
    let lines: String = hidden.iter().map(|id| id_line(*id, device)).collect();
    let mut file = state_files::make(state, PINNED.as_bytes(), OFlags::WRONLY, 0o600)?;
    file.write_all(lines.as_bytes())
        .map_err(|error| Error::io("write", &error))
}

fn read_list(state: BorrowedFd<'_>, name: &str) -> Result<String> {
    match state_files::open(state, name.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => Ok(String::new()),
        file => state_files::read(&file?, name, MAX_LIST_BYTES),
    }
}

/// Rewrites both lists. The caller holds the store's lock, and no process has them open.
///
/// # Errors
/// Any error from the system calls; each list is then either the old or the new one.
pub fn rewrite(
    state: BorrowedFd<'_>,
    device: u64,
    links: &HashMap<Id, u32>,
    pinned: &HashSet<Id>,
) -> Result<()> {
    let mut text = String::new();
    for (id, count) in links {
        for _ in 0..*count {
            text.push_str(&format!("+{}", id_line(*id, device)));
        }
    }
    replace(state, LINKS, &text)?;
    let lines = pinned.iter().map(|id| id_line(*id, device));
    replace(state, PINNED, &lines.collect::<String>())
}

/// Renames both lists away because their inodes are those of another store. Returns how many nodes were kept hidden.
/// The caller holds the store's lock, and no process has the lists open.
///
/// # Errors
/// Any error from the system calls.
pub(in crate::world) fn set_aside(state: BorrowedFd<'_>) -> Result<usize> {
    let hidden = parse_pinned(&read_list(state, PINNED)?, 0).len();
    for name in [LINKS, PINNED] {
        if !read_list(state, name)?.is_empty() {
            let aside = original_name(name);
            rustix::fs::renameat(state, name, state, aside.as_str())
                .map_err(Error::os("renameat"))?;
        }
    }
    Ok(hidden)
}

fn replace(state: BorrowedFd<'_>, name: &str, text: &str) -> Result<()> {
    let new = new_name(name);
    // An existing file was left by a crash here, or came with the store and may have second names.
    let _ = rustix::fs::unlinkat(state, new.as_str(), AtFlags::empty());
    let mut file = state_files::make(state, new.as_bytes(), OFlags::WRONLY, 0o600)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|e| io("write", &e))?;
    rustix::fs::renameat(state, new.as_str(), state, name).map_err(Error::os("renameat"))
}

fn io(call: &'static str, error: &std::io::Error) -> Error {
    Error::os(call)(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_counts_no_more() {
        let links = parse_links("+0 2\n+0 2\n-0 2\n+1 3\n-1 3\n-1 4\nrubbish\n", 7);
        assert_eq!(links, HashMap::from([(Id(7, 2), 1)]));
        let pinned = parse_pinned("1 2\n1 3\n-1 2\n0 4\n-1 9\n", 7);
        assert_eq!(pinned, HashSet::from([Id(1, 3), Id(7, 4)]));
        assert_eq!(id_line(Id(7, 4), 7) + &id_line(Id(1, 3), 7), "0 4\n1 3\n");
    }
}
