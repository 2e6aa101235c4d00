//! The versions that are not final yet, and each file's last one, which its next one may shorten.
//!
//! Receives each record as it is written, in journal order ([`crate::journal::RecordListener`]), so it knows exactly
//! what a later reader of the journal will know about a file's versions. Keeps nothing about files without such
//! versions.
//!
//! Lock: one mutex, taken under the journal's; nothing is called under it.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::journal::{InodeNumbers, KeepMethod, Op, RecordListener, VersionRef};

/// The number of final versions that a next one may still shorten; of more files, the last ones stay whole.
const MAX_LAST_VERSIONS: usize = 1 << 14;

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
    /// True if it was final once, as the file's last version.
    pub(in crate::world) rested: bool,
    /// The former inode, if another took the file's place.
    pub(in crate::world) was: Option<InodeNumbers>,
}

/// A file with versions that are not final.
#[derive(Debug, Clone, Default)]
pub(in crate::world) struct DraftFile {
    /// The file's versions, in the order of their records.
    pub(in crate::world) versions: VecDeque<DraftVersion>,
}

/// The versions of this session that are not final.
#[derive(Debug, Default)]
pub(in crate::world) struct DraftVersions {
    inner: Mutex<DraftState>,
}

#[derive(Debug, Default)]
struct DraftState {
    files: HashMap<InodeNumbers, DraftFile>,
    /// The files whose only version here is final, and whole until there is a next one.
    last: HashMap<InodeNumbers, DraftFile>,
    /// The same files, the oldest first. A file may be there twice, or be gone.
    oldest: VecDeque<InodeNumbers>,
    /// The files to inspect, in order. A file may be queued twice, or be gone.
    queue: VecDeque<InodeNumbers>,
    /// The records about versions since the last query, if they are remembered.
    history: Option<Vec<(u64, Op)>>,
}

impl DraftVersions {
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
        let inner = &mut *inner;
        for file in inner.files.values_mut().chain(inner.last.values_mut()) {
            let Some(at) = file.versions.iter().position(|v| v.kept.n == n) else {
                continue;
            };
            let limit = file.versions.remove(at).map_or(0, |gone| gone.limit);
            if let Some(before) = at.checked_sub(1).and_then(|at| file.versions.get_mut(at)) {
                before.past = Some(n);
                before.limit = limit;
            }
        }
        inner.last.retain(|_, file| !file.versions.is_empty());
        inner.files.retain(|_, file| !file.versions.is_empty());
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

    /// Removes a file's oldest version: it is now final, and as short as it will be. Returns whether it was removed.
    pub(in crate::world) fn take(&self, ids: InodeNumbers, n: u64) -> bool {
        let mut inner = self.inner.lock();
        let Some(file) = inner.files.get_mut(&ids) else {
            return false;
        };
        let is_oldest = file.versions.front().is_some_and(|v| v.kept.n == n);
        if is_oldest {
            file.versions.pop_front();
            if file.versions.is_empty() {
                inner.files.remove(&ids);
            }
        }
        is_oldest
    }

    /// Notes that a file's only version is final, and whole until there is a next one. Returns whether it is the only
    /// one.
    pub(in crate::world) fn rest(&self, ids: InodeNumbers, n: u64) -> bool {
        let mut inner = self.inner.lock();
        let file = inner.files.get(&ids);
        let is_only = file.is_some_and(|file| {
            file.versions.len() == 1 && file.versions.iter().all(|v| v.kept.n == n)
        });
        if is_only && let Some(mut file) = inner.files.remove(&ids) {
            file.versions
                .iter_mut()
                .for_each(|version| version.rested = true);
            inner.last.insert(ids, file);
            inner.oldest.push_back(ids);
            while inner.oldest.len() > MAX_LAST_VERSIONS
                && let Some(oldest) = inner.oldest.pop_front()
            {
                inner.last.remove(&oldest);
            }
        }
        is_only
    }

    /// Returns whether a version is its file's last one.
    pub(in crate::world) fn is_last(&self, ids: InodeNumbers, n: u64) -> bool {
        let inner = self.inner.lock();
        let file = inner.files.get(&ids);
        file.is_some_and(|file| file.versions.back().is_some_and(|last| last.kept.n == n))
    }

    /// Claims a version for a second record, which is allowed while it is its file's last and not final.
    pub(in crate::world) fn claim(&self, ids: InodeNumbers, n: u64) -> bool {
        self.is_last(ids, n)
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
            if !file.versions.is_empty() {
                inner.files.insert(was.unwrap_or(ids), file);
            }
        }
    }

    fn note_content(&self, seq: u64, change: &ContentChange) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let version = change.kept.filter(|kept| kept.how != KeepMethod::Length);
        if version.is_some()
            && let Some(file) = inner.last.remove(&change.ids)
        {
            inner.files.insert(change.ids, file);
        }
        let known = match version {
            Some(_) => Some(inner.files.entry(change.ids).or_default()),
            None => match inner.files.get_mut(&change.ids) {
                None => inner.last.get_mut(&change.ids),
                file => file,
            },
        };
        let Some(file) = known else {
            return;
        };
        match version {
            Some(kept) if file.versions.back().is_some_and(|v| v.kept.n == kept.n) => {}
            Some(kept) => file.versions.push_back(DraftVersion {
                seq,
                kept,
                size: change.size,
                limit: u64::MAX,
                past: None,
                rested: false,
                was: change.new.map(|_| change.ids),
            }),
            None => {
                if let (Some(cut), Some(last)) = (change.cut, file.versions.back_mut()) {
                    last.limit = last.limit.min(cut);
                }
            }
        }
        let ids = change.new.unwrap_or(change.ids);
        if change.new.is_some() {
            for files in [&mut inner.files, &mut inner.last] {
                if let Some(file) = files.remove(&change.ids) {
                    files.insert(ids, file);
                }
            }
        }
        inner.queue.push_back(ids);
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

/// A record's data about a content.
struct ContentChange {
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
        let (ids, size, kept, new, cuts) = match op {
            Op::Write {
                ids, size, kept, ..
            } => (ids, size, kept, None, false),
            Op::Truncate {
                ids,
                size,
                to,
                kept,
                new,
                ..
            }
            | Op::Content {
                ids,
                size,
                to,
                kept,
                new,
                ..
            } => (ids, size, kept, *new, to >= size),
            Op::Allocate {
                ids,
                size,
                mode,
                kept,
                ..
            } => (ids, size, kept, None, *mode <= 1),
            Op::Abort { of, .. } => return self.note_abort(*of),
            _ => return,
        };
        let length = kept.is_some_and(|kept| kept.how == KeepMethod::Length);
        self.note_content(
            seq,
            &ContentChange {
                ids: *ids,
                size: *size,
                kept: *kept,
                new,
                cut: (length || cuts || *size == 0).then_some(*size),
            },
        );
    }
}
