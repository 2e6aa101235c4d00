//! The queue of removed directories whose former contents are still to be gathered (`gather.rs`).
//!
//! Owns the order, the bound, and when the thread is woken. Knows no store.
//!
//! Locks: the queue's mutex, never held over a system call; and `working`, held by the thread that works the queue off,
//! one directory at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use parking_lot::Mutex;

use crate::journal::Author;
use crate::name::WorldPath;
use crate::world::trash::trash_entries::{EntryName, GatherCandidate};
use trumanfs_types::meta::Id;

/// The number of removals that may wait. Past it, the thread that removes a directory gathers: a queue that grows
/// faster than it is worked off would only take memory. Unit tests cannot wait for so many.
const MAX_QUEUED_REMOVALS: usize = if cfg!(test) { 500 } else { 50_000 };

/// A directory in the trash, and the removals to be gathered under its entry.
#[derive(Debug)]
pub(in crate::world) struct GatherJob {
    /// The author of the removal.
    pub author: Author,
    /// The directory's former path.
    pub path: WorldPath,
    /// The directory's trash entry.
    pub entry: EntryName,
    /// The directory's inode.
    pub id: Id,
    /// The removals by the same process from that directory.
    pub removals: Vec<GatherCandidate>,
}

/// The queue of directories to gather, and the thread that works it off.
#[derive(Debug, Default)]
pub(in crate::world) struct GatherQueue {
    queue: Mutex<GatherQueueState>,
    /// The number of directories that wait or are being worked on, to be read without a lock.
    pending: AtomicUsize,
    /// Held while a directory is worked on.
    pub(in crate::world) working: Mutex<()>,
    /// True if the thread runs; without it nothing is queued.
    attended: AtomicBool,
    woken: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct GatherQueueState {
    /// The queued directories, the oldest first, including the one being worked on.
    waiting: VecDeque<Arc<GatherJob>>,
    /// The removals in all of them.
    removals: usize,
    /// The number of directories done.
    done: u64,
    /// True if a directory has been added since the last call of `is_due`.
    grows: bool,
}

impl GatherQueue {
    /// Adds a directory and wakes the thread.
    pub(in crate::world) fn put(&self, gathering: GatherJob) {
        let mut queue = self.queue.lock();
        queue.removals += gathering.removals.len();
        queue.waiting.push_back(Arc::new(gathering));
        queue.grows = true;
        self.pending.fetch_add(1, Ordering::SeqCst);
        drop(queue);
        if !self.woken.swap(true, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Returns whether no directory was added since the last call, or the queue is long already.
    pub(in crate::world) fn is_due(&self) -> bool {
        let mut queue = self.queue.lock();
        let grew = std::mem::take(&mut queue.grows);
        !grew || queue.removals > MAX_QUEUED_REMOVALS / 2
    }

    /// Returns whether one of these removals is that of a queued directory.
    pub(in crate::world) fn has_queued(&self, removals: &[GatherCandidate]) -> bool {
        let queue = self.queue.lock();
        let entries = || queue.waiting.iter().map(|gathering| &gathering.entry);
        removals.iter().any(|r| entries().any(|e| *e == r.entry))
    }

    /// Returns the number of directories that will have been done when all queued ones are.
    pub(in crate::world) fn last_queued(&self) -> u64 {
        let queue = self.queue.lock();
        queue.done + queue.waiting.len() as u64
    }

    /// Returns the next directory, unless `last` are done.
    pub(in crate::world) fn next(&self, last: u64) -> Option<Arc<GatherJob>> {
        let queue = self.queue.lock();
        let next = || queue.waiting.front().cloned();
        (queue.done < last).then(next).flatten()
    }

    /// Removes the directory that [`GatherQueue::next`] returned.
    pub(in crate::world) fn finish_first(&self) {
        let mut queue = self.queue.lock();
        if let Some(done) = queue.waiting.pop_front() {
            queue.removals -= done.removals.len();
            queue.done += 1;
        }
        self.pending.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sets the thread that works off the queue from now on.
    pub(in crate::world) fn set_thread(&self, thread: Thread) {
        let _ = self.thread.set(thread);
        self.attended.store(true, Ordering::SeqCst);
    }

    /// Returns whether a thread works off the queue.
    pub(in crate::world) fn has_thread(&self) -> bool {
        self.attended.load(Ordering::SeqCst)
    }

    /// Lets the next addition wake the thread.
    pub(in crate::world) fn allow_wake(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Returns whether the queue is empty.
    pub(in crate::world) fn is_idle(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    /// Returns whether the queue is too long.
    pub(in crate::world) fn is_full(&self) -> bool {
        !self.is_idle() && self.queue.lock().removals > MAX_QUEUED_REMOVALS
    }

    /// Lets the thread that removes a directory gather from now on.
    pub(in crate::world) fn end(&self) {
        self.attended.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
