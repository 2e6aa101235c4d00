//! The versions that are not final yet, and their successors.
//!
//! Receives each record as it is written, in journal order ([`crate::journal::RecordListener`]), so it knows exactly
//! what a later reader of the journal will know about a file's versions. Keeps nothing about files without such
//! versions.
//!
//! Lock: one mutex, taken under the journal's; nothing is called under it.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::journal::{InodeNumbers, KeepMethod, Op, RecordListener, VersionRef};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::store::layout::TRASH;

/// A version that is not final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::world) struct DraftVersion {
    /// The number of its record.
    seq: u64,
    /// The method by which the content is kept, and the version's number.
    pub(in crate::world) kept: VersionRef,
    /// The size of the content.
    pub(in crate::world) size: u64,
    /// The offset from which nothing can be read from the successor: a later record says that the file ended there.
    pub(in crate::world) limit: u64,
    /// The later version up to which all have been evicted.
    pub(in crate::world) past: Option<u64>,
    /// The former inode, if another took the file's place.
    was: Option<InodeNumbers>,
}

/// A file with versions that are not final.
#[derive(Debug, Clone, Default)]
pub(in crate::world) struct DraftFile {
    /// The file's last known path.
    pub(in crate::world) path: WorldPath,
    /// The file's versions, in the order of their records.
    pub(in crate::world) versions: VecDeque<DraftVersion>,
    /// The number of records that have changed it.
    pub(in crate::world) changes: u64,
}

/// The versions of this session that are not final.
#[derive(Debug, Default)]
pub(in crate::world) struct DraftVersions {
    inner: Mutex<DraftState>,
}

#[derive(Debug, Default)]
struct DraftState {
    files: HashMap<InodeNumbers, DraftFile>,
    /// The files to inspect, in order. A file may be queued twice, or be gone.
    queue: VecDeque<InodeNumbers>,
    /// The records about versions since the last query, if they are remembered.
    history: Option<Vec<(u64, Op)>>,
}

impl DraftVersions {
    /// Notes that a file was closed for writing and may be at rest now. Returns whether it has versions to look at.
    pub(in crate::world) fn note_closed(&self, ids: InodeNumbers) -> bool {
        if let Some(file) = self.inner.lock().files.get_mut(&ids) {
            file.changes += 1;
        }
        self.queue(ids)
    }

    /// Queues a file if it has versions to look at, and returns whether it has.
    pub(in crate::world) fn queue(&self, ids: InodeNumbers) -> bool {
        let mut inner = self.inner.lock();
        let known = inner.files.contains_key(&ids);
        if known {
            inner.queue.push_back(ids);
        }
        known
    }

    /// Returns the next file to look at.
    pub(in crate::world) fn next(&self) -> Option<InodeNumbers> {
        self.inner.lock().queue.pop_front()
    }

    /// Starts remembering the records about versions, for [`DraftVersions::take_history`].
    pub(in crate::world) fn start_history(&self) {
        self.inner.lock().history = Some(Vec::new());
    }

    /// Takes the remembered records, in order.
    pub(in crate::world) fn take_history(&self) -> Vec<(u64, Op)> {
        let mut inner = self.inner.lock();
        inner
            .history
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns whether a version may be evicted. A file's last version that is not final must stay: the act of its
    /// record may be in progress.
    pub(in crate::world) fn may_evict(&self, n: u64) -> bool {
        let inner = self.inner.lock();
        let mut files = inner.files.values();
        !files.any(|file| file.versions.back().is_some_and(|v| v.kept.n == n))
    }

    /// Notes that a version is being evicted. The previous version is then compared with the one after it.
    pub(in crate::world) fn note_evicted(&self, n: u64) {
        let mut inner = self.inner.lock();
        for file in inner.files.values_mut() {
            let Some(at) = file.versions.iter().position(|v| v.kept.n == n) else {
                continue;
            };
            let limit = file.versions.remove(at).map_or(0, |gone| gone.limit);
            if let Some(before) = at.checked_sub(1).and_then(|at| file.versions.get_mut(at)) {
                before.past = Some(n);
                before.limit = limit;
            }
            file.changes += 1;
        }
    }

    pub(in crate::world) fn len(&self) -> usize {
        self.inner.lock().files.len()
    }

    /// Queues all files again.
    pub(in crate::world) fn requeue_all(&self) {
        let mut inner = self.inner.lock();
        inner.queue = inner.files.keys().copied().collect();
    }

    pub(in crate::world) fn file(&self, ids: InodeNumbers) -> Option<DraftFile> {
        self.inner.lock().files.get(&ids).cloned()
    }

    /// Removes a file's oldest version: it is now final. `changes` requires that the file has not been changed since
    /// that count; without it, the file may have changed. Returns whether the version was removed.
    pub(in crate::world) fn take(&self, ids: InodeNumbers, n: u64, changes: Option<u64>) -> bool {
        let mut inner = self.inner.lock();
        let Some(file) = inner.files.get_mut(&ids) else {
            return false;
        };
        let same = changes.is_none_or(|changes| file.changes == changes)
            && file.versions.front().is_some_and(|v| v.kept.n == n);
        if same {
            file.versions.pop_front();
            if file.versions.is_empty() {
                inner.files.remove(&ids);
            }
        }
        same
    }

    /// Claims a version for a second record, which is allowed while it is its file's last and not final.
    pub(in crate::world) fn claim(&self, ids: InodeNumbers, n: u64) -> bool {
        let mut inner = self.inner.lock();
        let file = inner.files.get_mut(&ids);
        file.is_some_and(|file| {
            file.changes += 1;
            file.versions.back().is_some_and(|last| last.kept.n == n)
        })
    }

    fn note_abort(&self, of: u64) {
        let mut inner = self.inner.lock();
        let is_it = |file: &DraftFile| file.versions.back().is_some_and(|v| v.seq == of);
        let found = inner.files.iter().find(|(_, file)| is_it(file));
        let Some(ids) = found.map(|(ids, _)| *ids) else {
            return;
        };
        if let Some(mut file) = inner.files.remove(&ids) {
            let was = file.versions.pop_back().and_then(|version| version.was);
            file.changes += 1;
            if !file.versions.is_empty() {
                inner.files.insert(was.unwrap_or(ids), file);
            }
        }
    }

    fn note_content(&self, seq: u64, change: &ContentChange<'_>) {
        let mut inner = self.inner.lock();
        let version = change.kept.filter(|kept| kept.how != KeepMethod::Length);
        let Some(file) = (match version {
            Some(_) => Some(inner.files.entry(change.ids).or_default()),
            None => inner.files.get_mut(&change.ids),
        }) else {
            return;
        };
        file.changes += 1;
        file.path.clone_from(change.path);
        match version {
            Some(kept) if file.versions.back().is_some_and(|v| v.kept.n == kept.n) => {}
            Some(kept) => file.versions.push_back(DraftVersion {
                seq,
                kept,
                size: change.size,
                limit: u64::MAX,
                past: None,
                was: change.new.map(|_| change.ids),
            }),
            None => {
                if let (Some(cut), Some(last)) = (change.cut, file.versions.back_mut()) {
                    last.limit = last.limit.min(cut);
                }
            }
        }
        let ids = change.new.unwrap_or(change.ids);
        if let Some(file) = change.new.and_then(|_| inner.files.remove(&change.ids)) {
            inner.files.insert(ids, file);
        }
        inner.queue.push_back(ids);
    }

    fn note_move(&self, ids: InodeNumbers, to: Option<WorldPath>) {
        if let (Some(file), Some(to)) = (self.inner.lock().files.get_mut(&ids), to) {
            file.path = to;
        }
    }
}

fn tells_of_versions(op: &Op) -> bool {
    match op {
        Op::Write { kept, .. }
        | Op::Allocate { kept, .. }
        | Op::Truncate { kept, .. }
        | Op::Content { kept, .. } => kept.is_some_and(|kept| kept.how != KeepMethod::Length),
        Op::Abort { .. } | Op::Evict { .. } => true,
        _ => false,
    }
}

fn in_trash(entry: &EscapedBytes) -> Option<WorldPath> {
    let trash = WorldPath::parse(TRASH).ok()?;
    Some(trash.join(Name::new(&entry.0).ok()?))
}

/// A record's data about a content.
struct ContentChange<'a> {
    path: &'a WorldPath,
    ids: InodeNumbers,
    size: u64,
    kept: Option<VersionRef>,
    new: Option<InodeNumbers>,
    /// The size that the former content is cut to, if the record keeps no version (`operator/past/tree/inverse.rs`).
    cut: Option<u64>,
}

impl RecordListener for DraftVersions {
    fn recorded(&self, seq: u64, op: &Op) {
        if let Some(history) = &mut self.inner.lock().history
            && tells_of_versions(op)
        {
            history.push((seq, op.clone()));
        }
        let (path, ids, size, kept, new, cuts) = match op {
            Op::Write {
                path,
                ids,
                size,
                kept,
                ..
            } => (path, ids, size, kept, None, false),
            Op::Truncate {
                path,
                ids,
                size,
                to,
                kept,
                new,
                ..
            }
            | Op::Content {
                path,
                ids,
                size,
                to,
                kept,
                new,
                ..
            } => (path, ids, size, kept, *new, to >= size),
            Op::Allocate {
                path,
                ids,
                size,
                mode,
                kept,
                ..
            } => (path, ids, size, kept, None, *mode <= 1),
            Op::Abort { of, .. } => return self.note_abort(*of),
            Op::Rename {
                to, ids, replaced, ..
            }
            | Op::Restore {
                to, ids, replaced, ..
            } => {
                if let Some(replaced) = replaced {
                    self.note_move(replaced.ids, in_trash(&replaced.trash));
                }
                return self.note_move(*ids, Some(to.clone()));
            }
            Op::Unlink { ids, trash, .. } => return self.note_move(*ids, in_trash(trash)),
            _ => return,
        };
        let length = kept.is_some_and(|kept| kept.how == KeepMethod::Length);
        self.note_content(
            seq,
            &ContentChange {
                path,
                ids: *ids,
                size: *size,
                kept: *kept,
                new,
                cut: (length || cuts || *size == 0).then_some(*size),
            },
        );
    }
}
