//! The store's identity, and the detection of copies: in a copy of a store, the inode numbers in the journals belong to
//! other files.
//!
//! Owns the distinction between a store and its copies. Each session records the identity of its store ([`StoreId`]);
//! the first one in a copy also names the newest session that was copied with it, so the newest session's `begin` is
//! enough. Sessions of earlier releases do not record an identity; for them the trash and the versions are compared
//! with the records.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::Result;
use crate::journal::{
    InodeNumbers, JournalReader, KeepMethod, Op, Record, ReverseReader, StoreId, VersionRef,
};
use crate::name::{Name, WorldPath};
use crate::world::located::stat;
use crate::world::root::{Root, open_beneath, stat_at, stat_fd};
use crate::world::store::layout::{SESSIONS, TRASH, VERSIONS, version_name};
use crate::world::store::notices::StoreFinding;
use crate::world::store::sessions::{open_journal, open_newest_journal, sessions};
use trumanfs_types::meta::{Id, Meta};

/// The number of records to compare with the disk, in a session that does not name its store.
const MAX_COMPARED_RECORDS: usize = 4096;

/// The number of such sessions to inspect.
const MAX_COMPARED_SESSIONS: usize = 64;

/// Returns the identity of this store, for new sessions and for forks. `state` is the store's `.trumanfs`.
///
/// # Errors
/// Any error from `statx(2)`.
pub fn store_id(state: BorrowedFd<'_>) -> Result<StoreId> {
    let meta = stat_fd(state)?;
    let mut id = StoreId {
        inode: meta.id.1,
        born: (meta.born != 0).then(|| {
            let nanoseconds = u32::try_from(meta.born % 1_000_000_000);
            (
                (meta.born / 1_000_000_000).cast_signed(),
                nanoseconds.unwrap_or_default(),
            )
        }),
        generation: None,
    };
    if id.born.is_none() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = open_beneath(state, b".", flags, Mode::empty())?;
        id.generation = crate::sys::fd::generation(dir.as_fd()).ok();
    }
    Ok(id)
}

/// The part of a copied store that was recorded in its original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOrigin {
    /// The newest session recorded in the original. It and all earlier ones name inodes of the original.
    pub last: String,
    /// True if no session has begun in the copy yet.
    pub is_fresh: bool,
}

impl CopyOrigin {
    /// Returns the findings about records that no longer hold in a fresh copy. `shown` is the number of nodes that were
    /// hidden by inode.
    pub(in crate::world) fn findings(&self, shown: usize, is_fuse: bool) -> Vec<StoreFinding> {
        let mut what = Vec::new();
        if self.is_fresh {
            what.push("the store is a copy: this session and those before it can be taken back in the original only".to_owned());
        }
        if self.is_fresh && is_fuse {
            what.push(
                "or its file system, which is one in user space, gives files other numbers each time that it is mounted: \
                 mount it with `-o use_ino` if it has that, or put the store elsewhere"
                    .to_owned(),
            );
        }
        if self.is_fresh && shown > 0 {
            let things = match shown {
                1 => "a thing".to_owned(),
                n => format!("{n} things"),
            };
            what.push(format!(
                "{things} that moving had kept hidden in the original may show here: hide them by a pattern for their place"
            ));
        }
        let session = || self.last.clone();
        let copied_findings = what.into_iter().map(|what| StoreFinding {
            session: session(),
            what,
            crash: false,
        });
        copied_findings.collect()
    }
}

/// Returns the part of a copied store that was recorded in its original; `None` if all its sessions were recorded here.
/// `named` is the session that the lock names.
///
/// # Errors
/// Any error from the system calls.
pub fn find_copy_origin(
    root: &Root,
    state: BorrowedFd<'_>,
    named: Option<&str>,
) -> Result<Option<CopyOrigin>> {
    let here = store_id(state)?;
    let of_newest = match open_newest_journal(state, named, OFlags::RDONLY)? {
        Some((_, file)) => recorded_identity(file),
        None => None,
    };
    if let Some((Some(there), copied)) = of_newest
        && there == here
    {
        let is_fresh = false;
        return Ok(copied.map(|last| CopyOrigin { last, is_fresh }));
    }
    let (mut silent, mut is_fresh) = (0, true);
    for session in sessions(state)?.into_iter().rev() {
        let recorded = open_journal(state, &session)
            .ok()
            .and_then(recorded_identity);
        let found = match recorded {
            // The session had not begun, or its journal cannot be read, which is reported elsewhere.
            None => continue,
            Some((Some(there), copied)) if there == here => {
                is_fresh = false;
                copied
            }
            Some((Some(_), _)) => Some(session),
            Some((None, _)) if silent == MAX_COMPARED_SESSIONS => None,
            Some((None, _)) => {
                silent += 1;
                if matches_disk(root, state, &session, silent == 1)? {
                    is_fresh = false;
                    continue;
                }
                Some(session)
            }
        };
        return Ok(found.map(|last| CopyOrigin { last, is_fresh }));
    }
    Ok(None)
}

/// Reads the identity of the store in which a session was recorded, and the newest copied session that it names; `None`
/// if it has no `begin`.
fn recorded_identity(journal: File) -> Option<(Option<StoreId>, Option<String>)> {
    match JournalReader::new(BufReader::new(journal)).next_record() {
        Ok(Some(Record {
            op: Op::Begin { store, copied, .. },
            ..
        })) => Some((store, copied)),
        _ => None,
    }
}

/// The number of inodes that match their records, and of those that do not.
#[derive(Debug, Default)]
struct MatchCounts {
    same: u64,
    other: u64,
}

impl MatchCounts {
    fn note(&mut self, there: Option<Meta>, may_be: &[InodeNumbers]) {
        let Some(meta) = there else {
            return; // Put back, gathered or purged.
        };
        if may_be.iter().any(|ids| meta.id == Id(ids[0], ids[1])) {
            self.same += 1
        } else {
            self.other += 1
        }
    }
}

/// Compares a session's records with the disk. Only a copy gives other inodes to the trash and the versions, so the
/// majority decides. If nothing is there, the paths that the session left are compared, but only those that no later
/// session can have changed.
fn matches_disk(root: &Root, state: BorrowedFd<'_>, session: &str, newest: bool) -> Result<bool> {
    let trash = root.dir(&WorldPath::parse(TRASH)?).ok();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = format!("{SESSIONS}/{session}/{VERSIONS}");
    let versions = open_beneath(state, path.as_bytes(), flags, Mode::empty()).ok();
    let (mut kept, mut named) = (MatchCounts::default(), MatchCounts::default());
    let (mut changed, mut moved) = (HashSet::new(), Vec::new());
    let mut records = ReverseReader::new(open_journal(state, session)?)?.without_checks();
    for _ in 0..MAX_COMPARED_RECORDS {
        let Ok(Some(record)) = records.next_record() else {
            break;
        };
        let record = record.with_device(root.id().0);
        let op = &record.op;
        if let Some(trashed) = op.trashed()
            && let Some(trash) = &trash
        {
            let entry = Name::new(&trashed.entry.0)?;
            kept.note(trash.stat(entry).ok(), &[trashed.ids]);
        }
        if let Some((n, ids)) = moved_aside(op)
            && let Some(versions) = &versions
        {
            let name = version_name(n);
            kept.note(
                stat_at(versions.as_fd(), Name::new(name.as_bytes())?).ok(),
                &ids,
            );
        }
        if !newest {
            continue;
        }
        for (path, ids) in left_at(op) {
            let stands = !moved.iter().any(|above: &WorldPath| above.contains(&path));
            if changed.insert(path.clone()) && stands && !ids.is_empty() {
                named.note(stat(root, &path)?, &ids);
            }
        }
        for (path, inode) in directories(&record) {
            let stands = !moved.iter().any(|above: &WorldPath| above.contains(&path));
            if changed.insert(path.clone()) && stands {
                named.note(stat(root, &path)?, &[[root.id().0, inode]]);
            }
        }
        if let Op::Rename { path, to, .. } | Op::Exchange { path, to, .. } = op {
            moved.extend([path.clone(), to.clone()]);
        } else if let Op::Rmdir { path, .. } = op {
            moved.push(path.clone());
        }
    }
    let met = if kept.same + kept.other > 0 {
        kept
    } else {
        named
    };
    Ok(met.same >= met.other)
}

/// Returns the version that an inode was moved to, and its possible inodes: also the new one, in case the two had not
/// changed places yet.
fn moved_aside(op: &Op) -> Option<(u64, Vec<InodeNumbers>)> {
    match op {
        Op::Truncate { kept, ids, new, .. } | Op::Content { kept, ids, new, .. } => match kept {
            Some(VersionRef {
                how: KeepMethod::Moved,
                n,
            }) => Some((*n, new.iter().copied().chain([*ids]).collect())),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the directories that a record's operation changed, with their inode numbers. The root is left out: it has
/// the same number on every file system of a type.
fn directories(record: &Record) -> Vec<(WorldPath, u64)> {
    let left = left_at(&record.op);
    if left.len() != record.at.len().min(2) {
        return Vec::new(); // One of them is the trash.
    }
    let parents = left
        .into_iter()
        .rev()
        .map(|(path, _)| path.parent().unwrap_or_default());
    let at = record.at.iter().map(|at| at.2);
    parents
        .zip(at)
        .filter(|(path, _)| !path.is_root())
        .collect()
}

/// Returns the paths that an operation changed, the last one first, and the inodes that may be there where known. A
/// daemon that died may not have done the last of them.
fn left_at(op: &Op) -> Vec<(WorldPath, Vec<InodeNumbers>)> {
    match op {
        Op::Create { path, .. }
        | Op::Mkdir { path, .. }
        | Op::Mknod { path, .. }
        | Op::Symlink { path, .. }
        | Op::Unlink { path, .. }
        | Op::Rmdir { path, .. } => vec![(path.clone(), Vec::new())],
        Op::Link { path, ids, .. }
        | Op::Write { path, ids, .. }
        | Op::Allocate { path, ids, .. }
        | Op::Attr { path, ids, .. }
        | Op::Xattr { path, ids, .. } => vec![(path.clone(), vec![*ids])],
        Op::Truncate { path, ids, new, .. } | Op::Content { path, ids, new, .. } => {
            vec![(path.clone(), new.iter().copied().chain([*ids]).collect())]
        }
        Op::Rename {
            path,
            to,
            ids,
            replaced,
        } => {
            let replaced = replaced.iter().map(|replaced| replaced.ids);
            let may_be = replaced.chain([*ids]).collect();
            vec![(to.clone(), may_be), (path.clone(), Vec::new())]
        }
        Op::Restore { to, ids, .. } => vec![(to.clone(), vec![*ids])],
        Op::Exchange {
            path,
            to,
            ids,
            other,
        } => {
            let both = vec![*ids, *other];
            vec![(to.clone(), both.clone()), (path.clone(), both)]
        }
        _ => Vec::new(),
    }
}
