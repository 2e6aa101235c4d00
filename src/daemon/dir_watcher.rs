//! Coherence: a change in the store behind the mount shows in the home within a second, although the kernel may cache
//! entries for a day.
//!
//! Every directory of which the kernel knows entries is marked in one fanotify group; events caused by this process are
//! recognised by its pid and skipped. Events are gathered for a moment, so that a storm costs few wake-ups.
//!
//! Locks: one mutex over the map of directories, never held over a system call that can block, and never while the
//! kernel is notified: the notification may wait for a worker that waits for the lock.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fuse::{CacheInvalidator, ROOT, SharedState, StoreWatcher};
use crate::name::Name;
use crate::sys::fanotify::{self, FsEvent, NodeHandle};
use crate::world::Dir;

/// The time for which events are gathered before they are handled.
const GATHER_TIME: Duration = Duration::from_millis(200);

/// The number of notifications about a changed file that somebody has open.
const MAX_NOTIFICATIONS: u32 = 25;

/// The watcher of directories.
#[derive(Debug)]
pub struct DirWatcher {
    group: OwnedFd,
    dirs: Mutex<WatchedDirs>,
}

#[derive(Debug, Default)]
struct WatchedDirs {
    by_handle: HashMap<NodeHandle, u64>,
    by_number: HashMap<u64, NodeHandle>,
}

impl DirWatcher {
    /// Opens the group and tests it on the root of the store. `None` if the kernel or the store's file system does not
    /// support it; the kernel's caches must then be short-lived.
    pub fn open(root: &Dir) -> Option<DirWatcher> {
        let group = fanotify::init().ok()?;
        let watcher = DirWatcher {
            group,
            dirs: Mutex::default(),
        };
        watcher.watch(ROOT, root).then_some(watcher)
    }

    /// Returns the number of watched directories.
    pub fn watched_count(&self) -> usize {
        self.dirs.lock().by_number.len()
    }

    /// Waits for events and passes them on, until the mount ends with the process.
    pub fn run(self: &Arc<DirWatcher>, shared: &SharedState, kernel: &dyn CacheInvalidator) {
        let mut retries: HashMap<(u64, Vec<u8>), u32> = HashMap::new();
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let mut waiting = [rustix::event::PollFd::new(
                &self.group,
                rustix::event::PollFlags::IN,
            )];
            // With notifications to repeat, this waits only as long as events are gathered.
            let soon = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(GATHER_TIME.subsec_nanos()),
            };
            let limit = (!retries.is_empty()).then_some(&soon);
            match rustix::event::poll(&mut waiting, limit) {
                Ok(0) => {}
                Ok(_) => std::thread::sleep(GATHER_TIME),
                Err(_) => continue,
            }
            let mut batch = HashSet::new();
            loop {
                match fanotify::read(&self.group, &mut buffer) {
                    Ok(events) if events.is_empty() => break,
                    Ok(events) => self.sort(events, &mut batch, shared, kernel),
                    Err(errno) => {
                        log::warn!("changes behind the mount cannot be read: {errno}");
                        break;
                    }
                }
            }
            for seen in batch {
                if pass_on(shared, kernel, &seen) {
                    retries.insert((seen.dir, seen.name), MAX_NOTIFICATIONS);
                }
            }
            retries.retain(|(dir, name), tries| {
                *tries -= 1;
                let seen = StoreChange {
                    dir: *dir,
                    name: name.clone(),
                    is_name: false,
                    written_by: None,
                };
                pass_on(shared, kernel, &seen) && *tries > 0
            });
        }
    }

    fn sort(
        &self,
        events: Vec<FsEvent>,
        batch: &mut HashSet<StoreChange>,
        shared: &SharedState,
        kernel: &dyn CacheInvalidator,
    ) {
        let own = std::process::id().cast_signed();
        let dirs = self.dirs.lock();
        let mut lost = false;
        for event in events {
            if event.mask & fanotify::OVERFLOW != 0 {
                lost = true;
            } else if event.pid != own
                && let Some(dir) = dirs.by_handle.get(&event.node)
            {
                if event.mask & !fanotify::CONTENT != 0 {
                    shared.inodes.dir_changed();
                }
                batch.insert(StoreChange {
                    dir: *dir,
                    name: event.name,
                    is_name: event.mask & fanotify::NAMES != 0,
                    written_by: (event.mask & !fanotify::CONTENT == 0)
                        .then_some(event.pid.cast_unsigned()),
                });
            }
        }
        drop(dirs);
        if lost {
            shared.inodes.dir_changed();
            log::warn!(
                "too many changes behind the mount at once; everything known is looked at anew"
            );
            for (dir, name, number) in shared.inodes.entries() {
                invalidate_name(shared, kernel, (dir, &name));
                kernel.invalidate_inode(number, true);
            }
        }
    }
}

/// A change to the store, with what matters of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StoreChange {
    /// The directory's number.
    dir: u64,
    /// The entry; empty for the directory itself.
    name: Vec<u8>,
    /// True if the entry was created, removed or moved.
    is_name: bool,
    /// The process that made it, if it is a change of content alone.
    written_by: Option<u32>,
}

/// Notifies the kernel of one change. Returns whether to notify it again later.
fn pass_on(shared: &SharedState, kernel: &dyn CacheInvalidator, seen: &StoreChange) -> bool {
    let (dir, name, is_name) = (seen.dir, &seen.name[..], seen.is_name);
    if is_name {
        invalidate_name(shared, kernel, (dir, name));
    }
    let Ok(place) = shared.inodes.location(dir) else {
        return false;
    };
    let Ok(found) = shared.world.root().dir_expecting(&place.path, place.id) else {
        return false;
    };
    if name.is_empty() {
        kernel.invalidate_inode(dir, true);
        return false;
    }
    let Ok(meta) = Name::new(name).and_then(|name| found.stat(name)) else {
        return false;
    };
    if let Some(number) = shared.inodes.number_of(meta.id) {
        // With passthrough an occupant's own writes arrive here too. The kernel knows of those: it has the size from
        // the write, and has dropped the times (fuse_write_update_attr). Making it drop later replies as well would
        // cost one request for every file that a checkout or a compiler wrote.
        let by_occupant = |process| shared.handles.wrote_lately(number, process);
        if seen.written_by.is_some_and(by_occupant) {
            return false;
        }
        // Changes by another thread or a child are not recognised as such; then only the attributes are invalidated,
        // and the cached pages stay.
        let (open, written) = shared.handles.is_open(number);
        // A further name changes only the link count.
        kernel.invalidate_inode(number, !written && !is_name);
        // With the writeback cache the kernel trusts its own size of a file until it forgets the file, and it does not
        // forget an open one.
        if !meta.is_dir() && shared.mechanisms.lock().writeback {
            kernel.invalidate_entry(dir, name);
            return open;
        }
    }
    false
}

/// Makes the kernel look a name up again. Where it leads to a directory, the kernel keeps the name until then: for whoever
/// works in a directory without a name, getcwd(2) fails with `ENOENT`.
fn invalidate_name(shared: &SharedState, kernel: &dyn CacheInvalidator, (dir, name): (u64, &[u8])) {
    let found = || {
        let place = shared.inodes.location(dir).ok()?;
        let found = shared
            .world
            .root()
            .dir_expecting(&place.path, place.id)
            .ok()?;
        found.stat(Name::new(name).ok()?).ok()
    };
    match found().is_some_and(|meta| meta.is_dir()) {
        true => kernel.expire_entry(dir, name),
        false => kernel.invalidate_entry(dir, name),
    }
}

impl StoreWatcher for DirWatcher {
    fn watch(&self, number: u64, dir: &Dir) -> bool {
        let Ok(handle) = fanotify::watch(self.group.as_fd(), dir.as_fd()) else {
            return false;
        };
        let mut dirs = self.dirs.lock();
        dirs.by_handle.insert(handle.clone(), number);
        dirs.by_number.insert(number, handle);
        true
    }

    fn forget(&self, number: u64, dir: Option<&Dir>) {
        let mut dirs = self.dirs.lock();
        let Some(handle) = dirs.by_number.remove(&number) else {
            return;
        };
        // A directory that was removed and seen again has another number, and is still watched.
        if dirs.by_handle.get(&handle) != Some(&number) {
            return;
        }
        dirs.by_handle.remove(&handle);
        drop(dirs);
        // A directory that can no longer be found takes its mark with it.
        if let Some(dir) = dir {
            let _ = fanotify::unwatch(self.group.as_fd(), dir.as_fd());
        }
    }
}
