//! Chains of versions: the versions of each file in order, which determines through which later ones a version is
//! read.
//!
//! Built from journals. A chain follows a file from inode to inode as others take its place, but never goes from file
//! to file, because an inode number is not reused as long as its file is in the home, the trash or the versions. Does
//! not look at the disk.

use std::collections::HashMap;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::error::Result;
use crate::journal::{InodeNumbers, JournalReader, KeepMethod, Op, VersionRef};
use crate::world::store::sessions::{open_journal, sessions};

/// A version in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::world) struct VersionLink {
    pub(in crate::world) session: Arc<str>,
    pub(in crate::world) n: u64,
    /// True if it is its session's first version of the file: the content from before the session.
    pub(in crate::world) first: bool,
}

/// The versions of all files, except evicted ones.
#[derive(Debug, Default)]
pub(in crate::world) struct VersionChains {
    files: Vec<Vec<VersionLink>>,
    by_inode: HashMap<InodeNumbers, usize>,
    by_version: HashMap<(Arc<str>, u64), usize>,
    /// The session read last; the next two fields serve to take back its aborted records.
    session: Option<Arc<str>>,
    begun: HashMap<(usize, Arc<str>), ()>,
    acts: HashMap<u64, ChainChange>,
}

#[derive(Debug)]
struct ChainChange {
    file: usize,
    n: u64,
    moved: Option<(InodeNumbers, InodeNumbers)>,
}

impl VersionChains {
    /// Reads the journals of all sessions, or those before a given one. Of a damaged journal, only the part before the
    /// damage.
    ///
    /// # Errors
    /// Any error from reading.
    pub(in crate::world) fn read(state: impl AsFd, before: Option<&str>) -> Result<VersionChains> {
        let mut chains = VersionChains::default();
        for session in sessions(state.as_fd())? {
            if before.is_some_and(|before| *session >= *before) {
                break;
            }
            let Ok(file) = open_journal(state.as_fd(), &session) else {
                continue; // A directory without a journal.
            };
            let session: Arc<str> = session.into();
            for record in JournalReader::new(BufReader::new(file)) {
                let Ok(record) = record else { break };
                chains.add(&session, record.seq, &record.op);
            }
        }
        Ok(chains)
    }

    /// Adds one record.
    pub(in crate::world) fn add(&mut self, session: &Arc<str>, seq: u64, op: &Op) {
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            self.acts.clear();
            self.begun.clear();
        }
        match op {
            Op::Write { ids, kept, .. } | Op::Allocate { ids, kept, .. } => {
                self.note_content(session, seq, *ids, None, *kept);
            }
            Op::Truncate { ids, kept, new, .. } | Op::Content { ids, kept, new, .. } => {
                self.note_content(session, seq, *ids, *new, *kept);
            }
            Op::Evict { versions, .. } => {
                for (session, n) in versions {
                    self.remove(&Arc::from(session.as_str()), *n);
                }
            }
            Op::Abort { of, .. } => {
                if let Some(act) = self.acts.remove(of) {
                    self.remove(session, act.n);
                    if let Some((was, new)) = act.moved {
                        self.by_inode.remove(&new);
                        self.by_inode.insert(was, act.file);
                    }
                }
            }
            _ => {}
        }
    }

    fn note_content(
        &mut self,
        session: &Arc<str>,
        seq: u64,
        ids: InodeNumbers,
        new: Option<InodeNumbers>,
        kept: Option<VersionRef>,
    ) {
        let Some(kept) = kept.filter(|kept| kept.how != KeepMethod::Length) else {
            return;
        };
        let file = *self.by_inode.entry(ids).or_insert_with(|| {
            self.files.push(Vec::new());
            self.files.len() - 1
        });
        let moved = new.map(|new| (ids, new));
        if let Some((was, new)) = moved {
            self.by_inode.remove(&was);
            self.by_inode.insert(new, file);
        }
        let key = (session.clone(), kept.n);
        if self.by_version.contains_key(&key) {
            return; // It serves two records.
        }
        let first = self.begun.insert((file, session.clone()), ()).is_none();
        self.by_version.insert(key, file);
        if let Some(links) = self.files.get_mut(file) {
            links.push(VersionLink {
                session: session.clone(),
                n: kept.n,
                first,
            });
        }
        let n = kept.n;
        self.acts.insert(seq, ChainChange { file, n, moved });
    }

    /// Removes a version.
    pub(in crate::world) fn remove(&mut self, session: &Arc<str>, n: u64) {
        let file = self.by_version.remove(&(session.clone(), n));
        if let Some(links) = file.and_then(|file| self.files.get_mut(file)) {
            links.retain(|link| link.n != n || link.session != *session);
        }
    }

    /// Returns the previous version of the same file.
    pub(in crate::world) fn older(&self, session: &Arc<str>, n: u64) -> Option<&VersionLink> {
        let links = self
            .files
            .get(*self.by_version.get(&(session.clone(), n))?)?;
        let at = links
            .iter()
            .position(|link| link.n == n && link.session == *session)?;
        links.get(at.checked_sub(1)?)
    }

    /// Returns all versions in order of eviction: first those from the middle of a session, oldest first, `this`
    /// session last; then the contents from before each older session. Contents from before this session are left out.
    pub(in crate::world) fn order(&self, this: &str) -> Vec<VersionLink> {
        let mut links: Vec<&VersionLink> = self.files.iter().flatten().collect();
        links.retain(|link| !(link.first && *link.session == *this));
        links.sort_unstable_by(|one, two| {
            (one.first, &one.session, one.n).cmp(&(two.first, &two.session, two.n))
        });
        links.into_iter().cloned().collect()
    }
}
