//! Gathering: nodes that a process removed from a directory move under the directory's own entry in the trash.
//!
//! Owns the moves and their records. While a home is mounted, the removal of a directory is answered as soon as the
//! directory lies in the trash, and a thread gathers a moment later. It works in the order in which directories were
//! removed, because nodes removed from `a/b` have to lie under b's entry before that moves under a's. In a world that
//! is used in process there is no such thread, and the removal gathers.
//!
//! Nodes not gathered when the daemon dies stay in entries of their own, and no record says otherwise: the record of a
//! gathering is written just before its moves. Code that relies on places in the trash calls [`World::gather_now`]
//! first, and so does the end of a session. Nodes that the caller still uses are gathered at once, so that they are
//! never looked for in their former places.
//!
//! The queue, its order and its locks are in `gatherer.rs`. Requests of the home wait for gathering only to look into
//! the trash, or when the queue is too long.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};

use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::world::World;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::TRASH;
use crate::world::trash::gatherer::GatherJob;
use crate::world::trash::trash_entries::{EntryName, GatherCandidate, parse_entry};

/// The number of entries that one `gather` record names, which bounds a journal line.
const MAX_GATHERED_PER_RECORD: usize = 1000;

/// The time without a removal of a directory after which the thread gathers. `rm -r` removes many in one go: waking the
/// thread for each would cost more than gathering a small one, and its moves and those of the removals would wait for
/// each other, because the kernel lets only one at a time move something from one directory to another.
const QUIET_TIME: Duration = Duration::from_millis(20);

/// The maximum number of such waits before the thread gathers all the same.
const MAX_QUIET_WAITS: u32 = 50;

impl World {
    /// Leaves gathering to a thread, for the rest of the session. It calls `prepare` first. `with_world` has the thread
    /// act on this world, and returns false when there is none any more.
    pub fn gather_behind(
        &self,
        prepare: impl FnOnce() + Send + 'static,
        with_world: impl Fn(&mut dyn FnMut(&World)) -> bool + Send + 'static,
    ) {
        let run = move || {
            prepare();
            let mut goes_on = true;
            while goes_on {
                std::thread::park();
                for _ in 0..MAX_QUIET_WAITS {
                    std::thread::sleep(QUIET_TIME);
                    let mut is_due = true;
                    with_world(&mut |world| is_due = world.gatherer.is_due());
                    if is_due {
                        break;
                    }
                }
                goes_on = with_world(&mut |world| {
                    world.gatherer.allow_wake();
                    world.gather_now();
                });
            }
        };
        let thread = std::thread::Builder::new().name("gather".to_owned());
        match thread.spawn(run) {
            Ok(thread) => {
                self.gatherer.set_thread(thread.thread().clone());
            }
            Err(error) => log::warn!("no thread to gather what is removed: {error}"),
        }
    }

    /// Gathers the queued directories on the calling thread.
    pub fn gather_now(&self) {
        if self.gatherer.is_idle() {
            return;
        }
        let last = self.gatherer.last_queued();
        loop {
            let _working = self.gatherer.working.lock();
            let Some(next) = self.gatherer.next(last) else {
                return;
            };
            self.collect(&next);
            self.gatherer.finish_first();
        }
    }

    /// Gathers the queued directories if the queue is too long.
    pub fn gather_overdue(&self) {
        if self.gatherer.is_full() {
            self.gather_now();
        }
    }

    /// Gathers under a removed directory the nodes that the same process had removed from it, now or later. Returns
    /// those gathered at once: all without a thread, else only those in use.
    pub(in crate::world) fn gather(
        &self,
        mut gathering: GatherJob,
        in_use: &dyn Fn(&EntryName) -> bool,
    ) -> Vec<GatherCandidate> {
        let removals = self
            .trash
            .take_removals(gathering.author.actor.pid, gathering.id);
        let (held, rest): (Vec<_>, Vec<_>) = if self.gatherer.has_thread() {
            removals.into_iter().partition(|r| in_use(&r.entry))
        } else {
            (removals, Vec::new())
        };
        let mut gathered = Vec::new();
        if !held.is_empty() {
            if self.gatherer.has_queued(&held) {
                self.gather_now();
            }
            gathering.removals = held;
            gathered = self.collect(&gathering);
        }
        if !rest.is_empty() {
            gathering.removals = rest;
            self.gatherer.put(gathering);
        }
        gathered
    }

    /// Moves removals under their directory's entry, recorded. A removal that cannot be moved is safe as an entry of
    /// its own. Returns those that were moved.
    fn collect(&self, gathering: &GatherJob) -> Vec<GatherCandidate> {
        let mut gathered = Vec::new();
        if let Err(error) = self.collect_into(&mut gathered, gathering) {
            log::debug!("not gathered: {error}");
        }
        gathered
    }

    fn collect_into(
        &self,
        gathered: &mut Vec<GatherCandidate>,
        gathering: &GatherJob,
    ) -> Result<()> {
        let trash = self.trash.dir(&self.root)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let into = open_beneath(trash.as_fd(), gathering.entry.bytes(), flags, Mode::empty())?;
        let meta = stat_fd(into.as_fd())?;
        if meta.id != gathering.id {
            return Err(Error::NotFound);
        }
        for some in gathering.removals.chunks(MAX_GATHERED_PER_RECORD) {
            let entries = some.iter().map(|r| EscapedBytes(r.entry.bytes().to_vec()));
            let op = Op::Gather {
                path: gathering.path.clone(),
                trash: EscapedBytes(gathering.entry.bytes().to_vec()),
                entries: entries.collect(),
                names: some.iter().filter_map(cut_name).collect(),
            };
            self.journal.note(op, Some(&gathering.author))?;
            gathered.extend(
                some.iter()
                    .filter(|removal| {
                        let moved = removal.entry.name().and_then(|from| {
                            let name = Name::new(&removal.name)?;
                            self.move_lending_bits(trash.as_fd(), from, into.as_fd(), name)?;
                            let top = WorldPath::parse(TRASH)?;
                            let into = top.join(gathering.entry.name()?);
                            self.links.note_move(|| (top.join(from), into.join(name)));
                            Ok(())
                        });
                        moved
                            .inspect_err(|error| log::debug!("not gathered: {error}"))
                            .is_ok()
                    })
                    .cloned(),
            );
        }
        // No record has the directory's former mtime, so the directory itself must keep it.
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: meta.mtime.sec,
                tv_nsec: i64::from(meta.mtime.nsec),
            },
        };
        let _ = rustix::fs::utimensat(&into, c"", &times, AtFlags::EMPTY_PATH);
        Ok(())
    }
}

/// Returns a removed node's name, if its entry's name is not enough to know it.
fn cut_name(removal: &GatherCandidate) -> Option<(EscapedBytes, EscapedBytes)> {
    let whole = parse_entry(removal.entry.bytes()).is_some_and(|(_, name)| name == removal.name);
    let pair = || {
        (
            EscapedBytes(removal.entry.bytes().to_vec()),
            EscapedBytes(removal.name.clone()),
        )
    };
    (!whole).then(pair)
}
