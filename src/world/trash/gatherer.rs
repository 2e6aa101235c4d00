//! The queue of removed directories whose former contents are still to be gathered (`gather.rs`).
//!
//! Owns the order, the bound, and when the thread is woken. Knows no store.
//!
//! Locks: the queue's mutex, never held over a system call; and `working`, which whoever works
//! the queue off holds, one directory at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use parking_lot::Mutex;

use crate::journal::Author;
use crate::name::WorldPath;
use crate::world::trash::trash_state::{EntryName, Removal};
use trumanfs_types::meta::Id;

/// The number of removals that may wait. Past it, whoever removes a directory gathers: a queue that grows faster than
/// it is worked off would only take memory. Unit tests cannot wait for so many.
const WAITING: usize = if cfg!(test) { 500 } else { 50_000 };

/// A directory in the trash, and what is to be gathered under its entry.
#[derive(Debug)]
pub(in crate::world) struct GatherJob {
    /// Who removed it.
    pub author: Author,
    /// Where it was.
    pub path: WorldPath,
    /// Its trash entry.
    pub entry: EntryName,
    /// Its inode.
    pub id: Id,
    /// What the same process had removed from it.
    pub removals: Vec<Removal>,
}

/// What waits to be gathered, and the thread that does it.
#[derive(Debug, Default)]
pub(in crate::world) struct GatherQueue {
    queue: Mutex<GatherQueueState>,
    /// The number of directories that wait or are being worked on, to be read without a lock.
    pending: AtomicUsize,
    /// Held while a directory is worked on.
    pub(in crate::world) working: Mutex<()>,
    /// Whether the thread runs; without it nothing waits.
    attended: AtomicBool,
    woken: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Debug, Default)]
struct GatherQueueState {
    /// The oldest first. The one that is being worked on is still in it.
    waiting: VecDeque<Arc<GatherJob>>,
    /// The removals in all of them.
    removals: usize,
    /// How many have been done.
    done: u64,
    /// Whether something has been added lately.
    grows: bool,
}

impl GatherQueue {
    /// Adds a directory, and sees to it that the thread comes to it.
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

    /// Returns whether nothing was added since this was called last, or too much waits already.
    pub(in crate::world) fn is_due(&self) -> bool {
        let mut queue = self.queue.lock();
        let grew = std::mem::take(&mut queue.grows);
        !grew || queue.removals > WAITING / 2
    }

    /// Returns whether one of these removals is that of a directory for which something waits.
    pub(in crate::world) fn awaits(&self, removals: &[Removal]) -> bool {
        let queue = self.queue.lock();
        let entries = || queue.waiting.iter().map(|gathering| &gathering.entry);
        removals.iter().any(|r| entries().any(|e| *e == r.entry))
    }

    /// Returns how many directories will have been done when all that wait now are.
    pub(in crate::world) fn last(&self) -> u64 {
        let queue = self.queue.lock();
        queue.done + queue.waiting.len() as u64
    }

    /// Returns the next directory, unless `last` are done.
    pub(in crate::world) fn next(&self, last: u64) -> Option<Arc<GatherJob>> {
        let queue = self.queue.lock();
        let next = || queue.waiting.front().cloned();
        (queue.done < last).then(next).flatten()
    }

    /// Takes away the directory that [`GatherQueue::next`] returned.
    pub(in crate::world) fn done(&self) {
        let mut queue = self.queue.lock();
        if let Some(done) = queue.waiting.pop_front() {
            queue.removals -= done.removals.len();
            queue.done += 1;
        }
        self.pending.fetch_sub(1, Ordering::SeqCst);
    }

    /// Has a thread work off what waits from now on.
    pub(in crate::world) fn attend(&self, thread: Thread) {
        let _ = self.thread.set(thread);
        self.attended.store(true, Ordering::SeqCst);
    }

    /// Returns whether the thread works off what waits.
    pub(in crate::world) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::SeqCst)
    }

    /// Has whatever is added from now on wake the thread.
    pub(in crate::world) fn sleeps(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Returns whether nothing waits.
    pub(in crate::world) fn is_idle(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    /// Returns whether more waits than may.
    pub(in crate::world) fn is_full(&self) -> bool {
        !self.is_idle() && self.queue.lock().removals > WAITING
    }

    /// Has whoever removes a directory gather from now on.
    pub(in crate::world) fn end(&self) {
        self.attended.store(false, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
