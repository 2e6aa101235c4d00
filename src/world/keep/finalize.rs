//! Makes versions final: gives back the parts of a version that its successor has in common, once neither can change.
//!
//! A version's *successor* is the content that came after it: the file's later versions, and the file. A version
//! becomes *final* when the last open for writing of its file has ended and no shared map is left of one (with
//! passthrough, a map outlives them, and its end is not reported: such a file is inspected again and again), or when
//! the file's next version has been made: then its successor is known. [`Finalizer`] is the one place where this
//! happens, on a thread of its own. It finally reports a [`FinalVersion`], so that is where to hook in work on versions
//! that no longer change, such as digests.
//!
//! **Who may change a final version**: only eviction and purging, which fold a deleted version into the next older one
//! of the same file and then put a new list of ranges beside that (`evict.rs`). The list (`{n}.map`) always says what
//! the version has, and is in place before anything is punched out, so a daemon that dies at any point leaves a
//! readable version. Versions that are not final when the session ends stay whole, which costs only space.
//!
//! Why it is safe: a record is written before any change that it announces, and [`DraftVersions`] receives it at that
//! moment. So if no record about the file came during the comparison, and the file was not open for writing when it
//! began (which is checked under the file's inode lock), all bytes were those of the successor; and every later write
//! first keeps those bytes. A reader of a version locks it (`flock`, shared) before it looks for a list, and a version
//! that is being read is punched later.
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
use crate::world::keep::open_writers::{OpenWriters, WriteStatus};
use crate::world::keep::quota::VersionQuota;
use crate::world::keep::ranges::{self, RangeList, complement};
use crate::world::keep::successor::{VersionSuccessor, open};
use crate::world::root::stat_fd;
use trumanfs_types::meta::Id;

/// The delay between a file's close and its comparison: files are often reopened at once.
const CLOSE_DELAY: Duration = Duration::from_millis(200);

/// The delay before a file that may be written to through a map is inspected again.
const MAPPED_DELAY: Duration = Duration::from_secs(5);

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
}

/// The outcome of inspecting a file.
enum FinalizeOutcome {
    /// Everything possible was done. An event that allows more queues the file again.
    Done,
    /// Another thread had the file's inode lock.
    Busy,
    /// The file may be written to through a map.
    Mapped,
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
    /// True if a file in the queue may be written to through a map.
    mapped: AtomicBool,
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
            mapped: AtomicBool::new(false),
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
            let mut mapped = false;
            loop {
                if mapped {
                    std::thread::park_timeout(MAPPED_DELAY)
                } else {
                    std::thread::park()
                }
                std::thread::sleep(CLOSE_DELAY);
                let Some(finalizer) = weak.upgrade() else {
                    return;
                };
                if finalizer.ended.load(Ordering::Acquire) {
                    return;
                }
                finalizer.woken.store(false, Ordering::Release);
                finalizer.work(None);
                mapped = finalizer.mapped.load(Ordering::Acquire);
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
        if self.pending.note_closed(self.ids(id)) {
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
        let (mut busy, mut mapped) = (Vec::new(), Vec::new());
        while let Some(ids) = self.pending.next() {
            if over() {
                return;
            }
            match self.finalize_file(ids, writers, &over) {
                Ok(FinalizeOutcome::Done) => {}
                Ok(FinalizeOutcome::Busy) => busy.push(ids),
                Ok(FinalizeOutcome::Mapped) => mapped.push(ids),
                Err(Error::TakesLong) => return, // The end of the session takes it up again, or leaves it whole.
                Err(error) => log::warn!("a version stays whole: {error}"),
            }
        }
        let later = mapped.into_iter().filter(|ids| self.pending.queue(*ids));
        self.mapped.store(later.count() > 0, Ordering::Release);
        let requeued = busy.into_iter().filter(|ids| self.pending.queue(*ids));
        if requeued.count() > 0 || !self.read.lock().is_empty() {
            self.wake();
        }
    }

    fn ids(&self, id: Id) -> InodeNumbers {
        [if id.0 == self.device { 0 } else { id.0 }, id.1]
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
        let Some(known) = self.pending.file(ids) else {
            return Ok(FinalizeOutcome::Done);
        };
        let id = Id(if ids[0] == 0 { self.device } else { ids[0] }, ids[1]);
        let mut seen = None;
        let rest = writers.write_status(id, &known.path, &mut |_| seen = self.pending.file(ids));
        let Some(file) = seen else {
            return Ok(match rest {
                WriteStatus::Busy => FinalizeOutcome::Busy,
                _ => FinalizeOutcome::Done,
            });
        };
        let (now, unless_done) = match rest {
            WriteStatus::AtRest(now) => (now, FinalizeOutcome::Done),
            WriteStatus::Mapped => (None, FinalizeOutcome::Mapped),
            WriteStatus::Written | WriteStatus::Busy => (None, FinalizeOutcome::Done),
        };
        let versions: Vec<DraftVersion> = file.versions.into_iter().collect();
        // The successor of the version at hand, as far as an earlier one had to be compared with it, too.
        let mut after = VersionSuccessor::new(&self.dir);
        for (i, version) in versions.iter().enumerate() {
            let later = versions.get(i + 1..).unwrap_or_default();
            if over() {
                return Err(Error::TakesLong);
            }
            let saved = self.worth_comparing(version)?;
            if saved.is_none() && !later.is_empty() && !self.grows(version) {
                // The version keeps all its ranges, whatever its successor has.
                if !self.pending.take(ids, version.kept.n, None) {
                    return Ok(FinalizeOutcome::Done);
                }
                self.finalize_version(version, None)?;
                after.next();
                continue;
            }
            if after.is_empty() {
                match self.successor(later, now.as_ref())? {
                    Some(successor) => after = successor,
                    // The successor is still being written, or is gone. The same holds for all later versions.
                    None => return Ok(unless_done),
                }
            }
            // A version never changes; the file may have changed while it was read.
            let with_file = after.has_file();
            let changes = with_file.then_some(file.changes);
            let take = |at_rest: bool| {
                (at_rest || !with_file) && self.pending.take(ids, version.kept.n, changes)
            };
            let against = CompareTarget {
                after: &after,
                limit: version.limit,
                over,
            };
            let found = saved.map(|saved| self.compare_with_successor(version, &saved, against));
            let found = found.transpose()?.flatten();
            let mut taken = !with_file && take(true);
            if with_file {
                let mut look = |at_rest| taken = take(at_rest);
                if let WriteStatus::Busy = writers.write_status(id, &known.path, &mut look) {
                    return Ok(FinalizeOutcome::Busy);
                }
            }
            // Not taken: the file changed meanwhile, and the change has queued it again, or will.
            if !taken {
                return Ok(FinalizeOutcome::Done);
            }
            if found.is_some() && self.durable {
                after.sync_to_disk()?;
            }
            self.finalize_version(version, found)?;
            after.next();
        }
        Ok(FinalizeOutcome::Done)
    }

    /// Gives back what a version has in common with its successor, and reports it as final.
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
