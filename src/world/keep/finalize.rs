//! Makes versions final, and gives back the parts of a version that the next one has in common.
//!
//! A version becomes *final* when the last open for writing of its file has ended. It is whole then, and stays so until
//! the file's next version is final, too: then it gives back what it shares with its *successor*, the later versions of
//! the file. It never relies on the file itself, which its owner may change at any time; only what was not saved of a
//! version kept by blocks is read there. [`Finalizer`] is the one place where this happens, on a thread of its own. It
//! reports each [`FinalVersion`], again when it is shorter, so that is where to hook in work on versions that no longer
//! change, such as digests.
//!
//! **Who else may change a final version**: only eviction and purging, which fold a deleted version into the next older one
//! of the same file and then put a new list of ranges beside that (`evict.rs`). The list (`{n}.map`) always says what
//! the version has, and is in place before anything is punched out, so a daemon that dies at any point leaves a
//! readable version. Versions that are not final when the session ends stay whole, which costs only space.
//!
//! Why it is safe: a final version does not change, so what was read of it is there. An act that fails takes its version
//! along; that is not final yet, since its file's inode lock is held, and no other one relies on it. A reader of a
//! version locks it (`flock`, shared) before it looks for a list, and a version that is being read is punched later.
//!
//! Locks: none is held over a system call. The file's inode lock is only tried, never waited for.

mod common_ranges;

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

use crate::error::{Error, Result};
use crate::journal::{InodeNumbers, KeepMethod};
use crate::world::keep::compare::{CompareTarget, ComparedRanges};
use crate::world::keep::draft_versions::{DraftVersion, DraftVersions};
use crate::world::keep::extents::BLOCK;
use crate::world::keep::open_writers::OpenWriters;
use crate::world::keep::quota::VersionQuota;
use crate::world::keep::ranges::{self, RangeList, complement};
use crate::world::keep::successor::open;
use crate::world::root::stat_fd;
use trumanfs_types::meta::Id;

/// The delay between a file's close and its comparison: files are often reopened at once.
const CLOSE_DELAY: Duration = Duration::from_millis(200);

/// The delay, at a session's end, before a file is inspected again that somebody else was looking at.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The smallest gain, in bytes, for which a version is punched: a list takes a block too.
const MIN_GAIN: u64 = 2 * BLOCK;

/// A version that has become final.
#[derive(Debug)]
pub struct FinalVersion<'a> {
    /// The directory of the session's versions.
    pub dir: &'a OwnedFd,
    /// The version's number in the session.
    pub n: u64,
    /// The method by which the content was kept.
    pub how: KeepMethod,
    /// The size of the whole content.
    pub size: u64,
}

/// A listener for versions that have become final, called on the finalizer's thread.
pub trait FinalListener: Send + Sync + std::fmt::Debug {
    /// Reports a version that has become final, with its redundant ranges already punched out.
    fn became_final(&self, version: &FinalVersion<'_>);
    /// Reports that a final version is about to be shortened: what was known of its file does not hold any more.
    fn will_shorten(&self, n: u64);
}

/// The outcome of inspecting a file.
enum FinalizeOutcome {
    /// Everything possible was done. An event that allows more queues the file again.
    Done,
    /// Another thread had the file's inode lock.
    Busy,
}

/// The finalizer of one session's versions.
#[derive(Debug)]
pub struct Finalizer {
    pending: Arc<DraftVersions>,
    session: String,
    dir: OwnedFd,
    device: u64,
    quota: Arc<VersionQuota>,
    durable: bool,
    cannot_punch: AtomicBool,
    writers: OnceLock<Box<dyn OpenWriters>>,
    finals: OnceLock<Box<dyn FinalListener>>,
    /// Versions that have a list and are still whole, because they were being read.
    read: Mutex<HashSet<u64>>,
    /// Held during work.
    working: Mutex<()>,
    woken: AtomicBool,
    ended: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Finalizer {
    pub(in crate::world) fn new(
        (session, dir): (String, OwnedFd),
        device: u64,
        quota: Arc<VersionQuota>,
        durable: bool,
        pending: Arc<DraftVersions>,
    ) -> Arc<Finalizer> {
        Arc::new(Finalizer {
            pending,
            session,
            dir,
            device,
            quota,
            durable,
            cannot_punch: AtomicBool::new(false),
            writers: OnceLock::new(),
            finals: OnceLock::new(),
            read: Mutex::default(),
            working: Mutex::default(),
            woken: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Starts the thread, with the table of open files.
    pub fn start(self: &Arc<Finalizer>, writers: Box<dyn OpenWriters>) {
        let _ = self.writers.set(writers);
        let weak = Arc::downgrade(self);
        let run = move || {
            let _ = rustix::process::setpriority_process(None, 10);
            loop {
                std::thread::park();
                std::thread::sleep(CLOSE_DELAY);
                let Some(finalizer) = weak.upgrade() else {
                    return;
                };
                if finalizer.ended.load(Ordering::Acquire) {
                    return;
                }
                finalizer.woken.store(false, Ordering::Release);
                finalizer.work(None);
            }
        };
        let thread = std::thread::Builder::new().name("final".to_owned());
        match thread.spawn(run) {
            Ok(thread) => drop(self.thread.set(thread.thread().clone())),
            // Without it, versions stay whole.
            Err(error) => log::warn!("no thread to make versions final: {error}"),
        }
    }

    /// Adds a listener for versions that become final.
    pub fn set_listener(&self, finals: Box<dyn FinalListener>) {
        let _ = self.finals.set(finals);
    }

    /// Reports that the last open for writing of a file has ended.
    pub fn note_closed(&self, id: Id) {
        if self.pending.queue(self.ids(id)) {
            self.wake();
        }
    }

    /// Returns the number of files with versions that are not final, or that are just being made so.
    pub fn waiting_count(&self) -> usize {
        let waiting = self.pending.len() + self.read.lock().len();
        // A version is no longer pending when it begins to give back what it shares.
        waiting.max(usize::from(self.working.is_locked()))
    }

    /// Finalizes what it can, on the calling thread.
    pub(in crate::world) fn finalize_now(&self) {
        self.work(None);
    }

    /// Keeps versions from becoming final until the guard is dropped.
    pub(in crate::world) fn pause(&self) -> MutexGuard<'_, ()> {
        self.working.lock()
    }

    pub(in crate::world) fn pending(&self) -> &DraftVersions {
        &self.pending
    }

    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Finalizes what it can at the end of a session, for a limited time. `writers` is used if the thread was never
    /// started.
    pub(in crate::world) fn finish(&self, writers: &dyn OpenWriters, time: Duration) {
        let until = Instant::now() + time;
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        let writers = self.writers.get().map_or(writers, |writers| &**writers);
        let _working = self.working.lock();
        // Includes the work that the thread had taken up when it stopped.
        self.pending.requeue_all();
        self.work_with(writers, Some(until));
    }

    fn work(&self, until: Option<Instant>) {
        let _working = self.working.lock();
        if let Some(writers) = self.writers.get() {
            self.work_with(&**writers, until);
        }
    }

    fn work_with(&self, writers: &dyn OpenWriters, until: Option<Instant>) {
        let over = || match until {
            Some(until) => Instant::now() >= until,
            None => self.ended.load(Ordering::Acquire),
        };
        let read: Vec<u64> = self.read.lock().drain().collect();
        for n in read {
            self.punch_as_listed(n);
        }
        loop {
            let mut busy = Vec::new();
            while let Some(ids) = self.pending.next() {
                if over() {
                    return;
                }
                match self.finalize_file(ids, writers, &over) {
                    Ok(FinalizeOutcome::Done) => {}
                    Ok(FinalizeOutcome::Busy) => busy.push(ids),
                    Err(Error::TakesLong) => return, // The end of the session takes it up again, or leaves it whole.
                    Err(error) => log::warn!("a version stays whole: {error}"),
                }
            }
            let requeued = busy.into_iter().filter(|ids| self.pending.queue(*ids));
            if requeued.count() == 0 {
                break;
            }
            if until.is_none() {
                return self.wake();
            }
            // Nothing takes it up after a session's end.
            std::thread::sleep(BUSY_PAUSE);
        }
        if !self.read.lock().is_empty() {
            self.wake();
        }
    }

    fn ids(&self, id: Id) -> InodeNumbers {
        [if id.0 == self.device { 0 } else { id.0 }, id.1]
    }

    fn id(&self, [device, inode]: InodeNumbers) -> Id {
        Id(if device == 0 { self.device } else { device }, inode)
    }

    /// Processes one file.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if the time is over; any error from the system calls.
    fn finalize_file(
        &self,
        ids: InodeNumbers,
        writers: &dyn OpenWriters,
        over: &dyn Fn() -> bool,
    ) -> Result<FinalizeOutcome> {
        let Some(file) = self.pending.file(ids) else {
            return Ok(FinalizeOutcome::Done);
        };
        let versions: Vec<DraftVersion> = file.versions.into_iter().collect();
        let Some(last) = versions.last().filter(|last| !self.grows(last)) else {
            return Ok(FinalizeOutcome::Done);
        };
        // Until the act is done by which a new inode takes the file's place, the version is that one, and the lock is that
        // of the former inode.
        if let Some(was) = last.was
            && !writers.if_unwritten(self.id(was), &mut || {})
        {
            return Ok(FinalizeOutcome::Busy);
        }
        let mut is_final = false;
        if !writers.if_unwritten(self.id(ids), &mut || {
            is_final = self.pending.is_last(ids, last.kept.n)
        }) {
            return Ok(FinalizeOutcome::Busy);
        }
        if !is_final {
            // Its close, or the next version, queues the file again.
            return Ok(FinalizeOutcome::Done);
        }
        for (i, version) in versions.iter().enumerate() {
            if over() {
                return Err(Error::TakesLong);
            }
            let later = versions.get(i + 1..).unwrap_or_default();
            if later.is_empty() {
                if self.pending.rest(ids, version.kept.n) {
                    self.finalize_version(version, None)?;
                }
                break;
            }
            let found = self.compare_with_later(version, later, over)?;
            if !self.pending.take(ids, version.kept.n) {
                break;
            }
            self.finalize_version(version, found)?;
        }
        Ok(FinalizeOutcome::Done)
    }

    /// Compares a version with the later ones; `None` if it is to stay whole.
    fn compare_with_later(
        &self,
        version: &DraftVersion,
        later: &[DraftVersion],
        over: &dyn Fn() -> bool,
    ) -> Result<Option<(OwnedFd, ComparedRanges)>> {
        let Some(saved) = self.worth_comparing(version)? else {
            return Ok(None);
        };
        let Some(after) = self.successor(later)? else {
            return Ok(None);
        };
        let against = CompareTarget {
            after: &after,
            limit: version.limit,
            over,
        };
        let found = self.compare_with_successor(version, &saved, against)?;
        if found.is_some() && self.durable {
            after.sync_to_disk()?;
        }
        Ok(found)
    }

    /// Gives back what was found in common of a version and its successor, and reports it as final.
    fn finalize_version(
        &self,
        version: &DraftVersion,
        found: Option<(OwnedFd, ComparedRanges)>,
    ) -> Result<()> {
        let n = version.kept.n;
        if let Some((file, found)) = found {
            let freed: u64 = found.same.iter().map(|(start, end)| end - start).sum();
            if freed > MIN_GAIN {
                let list = RangeList {
                    ranges: found.differs,
                    content: (version.kept.how != KeepMethod::Blocks)
                        .then_some((version.size, found.digest)),
                    past: version.past.map(|n| (self.session.clone(), n)),
                };
                if let Some(finals) = self.finals.get().filter(|_| version.rested) {
                    finals.will_shorten(n);
                }
                let before = ranges::space(self.dir.as_fd(), n)?;
                let took = list.put(self.dir.as_fd(), n, self.durable)?;
                self.quota.give_back(before);
                self.quota.add_used(took);
                self.punch(n, &file, &found.same);
            }
        }
        if let Some(finals) = self.finals.get() {
            finals.became_final(&FinalVersion {
                dir: &self.dir,
                n,
                how: version.kept.how,
                size: version.size,
            });
        }
        Ok(())
    }

    /// Punches out of a version the ranges that its list, already in place, does not name; postponed while the version
    /// is being read.
    fn punch(&self, n: u64, file: &OwnedFd, same: &[(u64, u64)]) {
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
            self.read.lock().insert(n);
            return;
        }
        let space = |file: &OwnedFd| {
            let meta = stat_fd(file.as_fd());
            meta.map_or((0, 0), |meta| (meta.blocks * 512, meta.size))
        };
        let (before, size) = space(file);
        for (start, end) in same {
            // The last block of a file is freed whole. No other block: if a block of the file system is smaller than
            // ours, the rest may be all that is left of the former content.
            let end = if *end == size {
                end.next_multiple_of(BLOCK)
            } else {
                *end
            };
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if let Err(errno) = rustix::fs::fallocate(file, flags, *start, end - start) {
                log::warn!("version {n} keeps what it would not have to: fallocate: {errno}");
                self.cannot_punch.store(true, Ordering::Relaxed);
                break;
            }
        }
        self.quota.give_back(before.saturating_sub(space(file).0));
        let _ = rustix::fs::flock(file, FlockOperation::Unlock);
    }

    fn punch_as_listed(&self, n: u64) {
        let list = ranges::read(self.dir.as_fd(), n).ok().flatten();
        let file = open(&self.dir, n, OFlags::RDWR).ok().flatten();
        if let (Some(list), Some(file)) = (list, file)
            && let Ok(meta) = stat_fd(file.as_fd())
        {
            self.punch(n, &file, &complement(meta.size, &list.ranges));
        }
    }
}
