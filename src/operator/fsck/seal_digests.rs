//! The digests that the seals have for files in the trash and for versions.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::journal::{ContentDigest, DigestSubject, Op, Record};
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::operator::trash_size::entries;
use crate::world::keep::digest::SizedDigest;
use crate::world::store::layout::TRASH;
use crate::world::{Dir, Meta};

/// A file in the trash: the last record that names it, and its digest since.
#[derive(Debug, Default)]
pub(super) struct RemovedFile {
    pub(super) last: (Arc<str>, u64),
    /// The time of birth and the digest.
    pub(super) sum: Option<(u64, SizedDigest)>,
}

/// The digests found in seals.
#[derive(Debug, Default)]
pub(super) struct SealDigests {
    /// True if contents are to be verified.
    pub(super) wanted: bool,
    pub(super) device: u64,
    pub(super) session: Arc<str>,
    pub(super) removed: HashMap<u64, RemovedFile>,
    pub(super) versions: HashMap<(Arc<str>, u64), SizedDigest>,
    /// The inode of each entry; `None` for a directory.
    entries: HashMap<Vec<u8>, Option<u64>>,
}

impl SealDigests {
    /// Lists the trash; it is looked at again after the journals have been read.
    pub(super) fn new(store: &Store, wanted: bool) -> Result<SealDigests> {
        let mut sums = SealDigests {
            wanted,
            device: store.root().id().0,
            ..SealDigests::default()
        };
        if wanted {
            each_file(store, |_, _, meta| {
                sums.removed.insert(meta.id.1, RemovedFile::default());
                Ok(())
            })?;
        }
        Ok(sums)
    }

    /// Begins a session.
    pub(super) fn session(&mut self, id: &str) {
        self.session = id.into();
    }

    /// Drops the digests of inodes that a record names: their contents may have changed.
    pub(super) fn record(&mut self, record: &Record) {
        let device = self.device;
        if let Some(trashed) = record.op.trashed().filter(|_| self.wanted) {
            let file = (!matches!(record.op, Op::Rmdir { .. })).then_some(trashed.ids[1]);
            self.entries.insert(trashed.entry.0.clone(), file);
        }
        if let Op::Purge { entries, .. } = &record.op {
            entries.iter().for_each(|entry| self.purged(&entry.0));
        }
        for ids in record.op.ids().filter(|ids| ids[0] == device) {
            if let Some(removed) = self.removed.get_mut(&ids[1]) {
                *removed = RemovedFile {
                    last: (self.session.clone(), record.seq),
                    sum: None,
                };
            }
        }
    }

    /// Drops the digests that could be taken for those of a new file with the inode number of a purged one: where times
    /// of birth do not tell the two apart, the digest of the entry, and all digests if the entry was a directory.
    fn purged(&mut self, entry: &[u8]) {
        let file = self.entries.remove(entry).flatten();
        let of_unborn =
            |removed: &RemovedFile| removed.sum.as_ref().is_some_and(|(born, _)| *born == 0);
        let may_mean = self.removed.iter_mut().filter(|(number, removed)| {
            file.is_none_or(|file| file == **number) && of_unborn(removed)
        });
        may_mean.for_each(|(_, removed)| removed.sum = None);
    }

    /// Adds the digests in a seal.
    pub(super) fn digests(&mut self, digests: Vec<ContentDigest>) {
        for digest in digests.into_iter().filter(|_| self.wanted) {
            let session: Arc<str> = match digest.session {
                Some(session) => session.into(),
                None => self.session.clone(),
            };
            let sum = (digest.size, digest.sha256);
            match digest.of {
                // The version gave back what a later one has: what held before does no more.
                DigestSubject::Version { n } if sum.1.is_empty() => {
                    self.versions.remove(&(session, n));
                }
                DigestSubject::Version { n } => {
                    self.versions.insert((session, n), sum);
                }
                DigestSubject::Inode { seq, ids, born } => {
                    if let Some(removed) = self.removed.get_mut(&ids[1])
                        && removed.last <= (session, seq)
                        && ids[0] == 0
                    {
                        removed.sum = Some((born, sum));
                    }
                }
            }
        }
    }
}

/// Visits the regular files in the trash, at any depth. Returns the number of entries that the caller has no
/// permission for.
pub(super) fn each_file(
    store: &Store,
    mut see: impl FnMut(&Dir, Name<'_>, &Meta) -> Result<()>,
) -> Result<u64> {
    let mut closed = 0;
    let mut pending = vec![WorldPath::parse(TRASH)?];
    while let Some(path) = pending.pop() {
        let dir = match store.root.dir(&path) {
            Err(Error::NotFound | Error::NotDirectory) => continue,
            Err(error) if error.errno() == rustix::io::Errno::ACCESS => {
                closed += 1;
                continue;
            }
            dir => dir?,
        };
        let there = match entries(store, &dir) {
            Err(error) if error.errno() == rustix::io::Errno::ACCESS => {
                closed += 1;
                continue;
            }
            there => there?,
        };
        for (name, meta) in there {
            let name = Name::new(&name)?;
            if meta.is_dir() {
                pending.push(path.join(name));
            } else if meta.kind == FileType::RegularFile {
                match see(&dir, name, &meta) {
                    // It has gone meanwhile.
                    Err(Error::NotFound) => {}
                    Err(error) if error.errno() == rustix::io::Errno::ACCESS => closed += 1,
                    seen => seen?,
                }
            }
        }
    }
    Ok(closed)
}
