//! Coherence: what somebody changes in the store behind the mount shows in the home within a second, although the kernel
//! believes what it was told for a day.
//!
//! Every directory that the kernel has been told of is marked in one fanotify group; what this very process does is
//! recognised by its process id and skipped. Events are gathered for a moment, so that a storm costs few wake-ups.
//!
//! Locks: one mutex over the map of directories, never held over a system call that can block, and never while the
//! kernel is notified: it may be waiting for a worker that waits for the lock.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::fuse::{Invalidate, ROOT, Shared, Watch};
use crate::name::Name;
use crate::sys::fanotify::{self, Event, Handle};
use crate::world::Dir;

/// How long events are gathered before they are acted upon.
const GATHER: Duration = Duration::from_millis(200);

/// How often the kernel is told of a change to a file that somebody has open.
const TRIES: u32 = 25;

/// The watched directories.
#[derive(Debug)]
pub struct Watcher {
    group: OwnedFd,
    dirs: Mutex<Dirs>,
}

#[derive(Debug, Default)]
struct Dirs {
    by_handle: HashMap<Handle, u64>,
    by_number: HashMap<u64, Handle>,
}

impl Watcher {
    /// Opens the group, and tries it on the root of the store. `None` where the kernel or the store's file system
    /// cannot do it; then the kernel's beliefs must be short-lived.
    pub fn open(root: &Dir) -> Option<Watcher> {
        let group = fanotify::init().ok()?;
        let watcher = Watcher {
            group,
            dirs: Mutex::default(),
        };
        watcher.watch(ROOT, root).then_some(watcher)
    }

    /// Returns how many directories are watched.
    pub fn watched(&self) -> usize {
        self.dirs.lock().by_number.len()
    }

    /// Waits for events and passes them on, until the mount ends with the process.
    pub fn run(self: &Arc<Watcher>, shared: &Shared, kernel: &dyn Invalidate) {
        let mut again: HashMap<(u64, Vec<u8>), u32> = HashMap::new();
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let mut waiting = [rustix::event::PollFd::new(
                &self.group,
                rustix::event::PollFlags::IN,
            )];
            // With something to be told once more, only as long as events are gathered otherwise.
            let soon = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(GATHER.subsec_nanos()),
            };
            let limit = (!again.is_empty()).then_some(&soon);
            match rustix::event::poll(&mut waiting, limit) {
                Ok(0) => {}
                Ok(_) => std::thread::sleep(GATHER),
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
                    again.insert((seen.dir, seen.name), TRIES);
                }
            }
            again.retain(|(dir, name), tries| {
                *tries -= 1;
                let seen = Seen {
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
        events: Vec<Event>,
        batch: &mut HashSet<Seen>,
        shared: &Shared,
        kernel: &dyn Invalidate,
    ) {
        let own = std::process::id().cast_signed();
        let dirs = self.dirs.lock();
        let mut lost = false;
        for event in events {
            if event.mask & fanotify::OVERFLOW != 0 {
                lost = true;
            } else if event.pid != own
                && let Some(dir) = dirs.by_handle.get(&event.dir)
            {
                batch.insert(Seen {
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
            log::warn!(
                "too many changes behind the mount at once; everything known is looked at anew"
            );
            for (dir, name, number) in shared.inodes.entries() {
                kernel.entry(dir, &name);
                kernel.inode(number, true);
            }
        }
    }
}

/// One change, as far as it matters.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Seen {
    /// The number of the directory.
    dir: u64,
    /// The entry; empty for the directory itself.
    name: Vec<u8>,
    /// Whether the entry came, went or moved.
    is_name: bool,
    /// Whose change it is, where it is one of content alone.
    written_by: Option<u32>,
}

/// Tells the kernel of one change. Returns whether it has to be told once more.
fn pass_on(shared: &Shared, kernel: &dyn Invalidate, seen: &Seen) -> bool {
    let (dir, name, is_name) = (seen.dir, &seen.name[..], seen.is_name);
    if is_name {
        kernel.entry(dir, name);
    }
    let Ok(place) = shared.inodes.place(dir) else {
        return false;
    };
    let Ok(found) = shared.world.root().dir_expecting(&place.path, place.id) else {
        return false;
    };
    if name.is_empty() {
        kernel.inode(dir, true);
        return false;
    }
    let Ok(meta) = Name::new(name).and_then(|name| found.stat(name)) else {
        return false;
    };
    if let Some(number) = shared.inodes.number_of(meta.id) {
        // With passthrough an occupant's own writes arrive here like anybody's. The kernel knows of those: it has the size
        // from the write, and has forgotten the times (fuse_write_update_attr). To make it forget once more what it has
        // asked for since would cost one request for every file that a checkout or a compiler wrote.
        let by_occupant = |process| shared.handles.wrote_lately(number, process);
        if seen.written_by.is_some_and(by_occupant) {
            return false;
        }
        // One that came by another thread or a child is not told apart; only the attributes are asked for again, and the
        // pages stay.
        let (open, written) = shared.handles.is_open(number);
        // A further name changes only the count of links.
        kernel.inode(number, !written && !is_name);
        // With the writeback cache the kernel takes its own word for a file's size, until it forgets the file; and it
        // does not forget one that is open.
        if shared.mechanisms.lock().writeback {
            kernel.entry(dir, name);
            return open;
        }
    }
    false
}

impl Watch for Watcher {
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
        // A directory that was removed and is seen again is known by another number, and still watched.
        if dirs.by_handle.get(&handle) != Some(&number) {
            return;
        }
        dirs.by_handle.remove(&handle);
        drop(dirs);
        // Where the directory cannot be found any more, its mark goes with it.
        if let Some(dir) = dir {
            let _ = fanotify::unwatch(self.group.as_fd(), dir.as_fd());
        }
    }
}
