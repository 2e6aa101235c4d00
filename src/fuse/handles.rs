//! Open files: their descriptors, and which of a node's opens share a backing file in the kernel.
//!
//! Kernel rule (fuse/iomode.c, 6.9 and later): while a node is open in passthrough, every further passthrough open must
//! name the same backing file, else EIO; and none is possible while it is open through the page cache. So each node's
//! first open decides for all that overlap with it.
//!
//! Locks: one mutex over all of it. The ioctl that registers a backing file is made under it, because two first opens of
//! one node must not register two; it does not block. And the turns, taken before it: who opens, cuts or empties a file
//! has its turn until the outcome is noted here, because another inode may take the file's place meanwhile. A turn is held
//! over the copying of a small file; others of the same file wait for that.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fuser::BackingId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;

use super::writers::Writers;
use crate::error::{Error, Result};
use crate::world::{Blocks, Kept, StartedVersion};

/// How many turns there are; files that share one wait for each other without need.
const TURNS: usize = 256;

/// An open file.
#[derive(Debug)]
pub struct Handle {
    file: OwnedFd,
    node: u64,
    /// Whether it was opened for writing.
    pub writes: bool,
    /// Whether its content may change without the kernel's attributes hearing of it: by a shared map (which needs
    /// reading and writing), or by the page cache's writing back.
    pub maps: bool,
    /// The thread whose writes pass the daemon by.
    hidden: Option<u32>,
    /// Whether its opening has emptied it.
    empties: bool,
    /// Whether what can be destroyed through it has been kept.
    covered: AtomicBool,
    /// The size that the file had when it was opened only to be appended to.
    pub appends_from: u64,
}

impl Handle {
    /// Returns whether what can be destroyed through it has been kept.
    pub fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Relaxed)
    }

    /// Notes that what can be destroyed through it has been kept.
    pub fn cover(&self) {
        self.covered.store(true, Ordering::Relaxed);
    }

    /// Returns which node it is open on.
    pub fn node(&self) -> u64 {
        self.node
    }
}

/// What is asked of an open file's registration.
#[derive(Debug)]
pub struct Asked {
    /// The thread that opens it.
    pub by: u32,
    /// Whether it was opened for writing.
    pub writes: bool,
    /// Whether its content may change without the kernel's attributes hearing of it.
    pub maps: bool,
    /// Whether its opening empties it.
    pub empties: bool,
    /// The access asked for and `O_APPEND`.
    pub flags: OFlags,
    /// The version of the content that has been begun.
    pub started: Option<StartedVersion>,
    /// The file's size, where it was opened only to be appended to and nothing but that was kept.
    pub appends_from: Option<u64>,
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// How a node's data is reached.
#[derive(Debug, Clone)]
pub enum Way {
    /// The kernel goes to the backing file by itself.
    Passthrough(Arc<BackingId>),
    /// Reading by mmap goes to the backing file, writing to the daemon.
    Direct(Arc<BackingId>),
    /// Through the page cache and the daemon.
    Served,
}

/// All open files.
#[derive(Debug)]
pub struct Handles {
    open: Mutex<Open>,
    turns: Vec<Mutex<()>>,
    /// How many opens there are that empty their file, so that mostly nobody has to ask which.
    emptying: AtomicUsize,
}

/// An open that empties its file, from before the emptying until the file is closed: [`Handles::is_emptying`].
#[derive(Debug)]
pub struct Emptying<'a>(&'a Handles, u64);

impl Emptying<'_> {
    /// Leaves it to the open file.
    pub fn goes_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        self.0.end_emptying(self.1);
    }
}

impl Default for Handles {
    fn default() -> Handles {
        Handles {
            open: Mutex::default(),
            emptying: AtomicUsize::new(0),
            turns: std::iter::repeat_with(Mutex::default).take(TURNS).collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_handle: HashMap<u64, Arc<Handle>>,
    by_node: HashMap<u64, Node>,
    emptying: HashMap<u64, u32>,
    /// Who writes past the daemon.
    writers: Writers,
}

#[derive(Debug)]
struct Node {
    count: u32,
    writers: u32,
    /// Writers whose writes pass the daemon by.
    hidden: u32,
    way: Way,
    /// The version that is saved as the file is overwritten, or was a copy.
    started: StartedVersion,
}

impl Handles {
    /// Takes the turn of a file.
    ///
    /// # Errors
    /// [`Error::TakesLong`] where another has it and there is no time to wait.
    pub fn inode_lock(&self, node: u64, may_wait: bool) -> Result<MutexGuard<'_, ()>> {
        let at = usize::try_from(node % TURNS as u64).unwrap_or(0);
        let turn = self.turns.get(at).ok_or(Error::Invalid)?;
        if may_wait {
            return Ok(turn.lock());
        }
        turn.try_lock().ok_or(Error::TakesLong)
    }

    /// Returns whether every write to a node would be seen, those of one more open too.
    pub fn sees_writes(&self, node: u64, access: OFlags, passthrough: bool) -> bool {
        let open = self.open.lock();
        match open.by_node.get(&node) {
            None => true,
            Some(node) => match node.way {
                Way::Served => true,
                _ => passthrough && node.hidden == 0 && access == OFlags::WRONLY,
            },
        }
    }

    /// Announces an open that empties a node.
    pub fn emptying(&self, node: u64) -> Emptying<'_> {
        self.emptying.fetch_add(1, Ordering::SeqCst);
        *self.open.lock().emptying.entry(node).or_insert(0) += 1;
        Emptying(self, node)
    }

    fn end_emptying(&self, node: u64) {
        let mut open = self.open.lock();
        if let Some(count) = open.emptying.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                open.emptying.remove(&node);
            }
        }
        self.emptying.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether the kernel may be about to set a node's size to zero. When an open that empties has returned, it
    /// lets go of the inode, takes it again and sets the size that it knows to zero once more by itself (fuse_do_setattr,
    /// ATTR_OPEN), whatever others have written by then. What it was told of the size in between it must not believe.
    pub fn is_emptying(&self, node: u64) -> bool {
        self.emptying.load(Ordering::SeqCst) > 0 && self.open.lock().emptying.contains_key(&node)
    }

    /// Returns the version that is saved as a node is overwritten.
    pub fn blocks(&self, node: u64) -> Option<Arc<Blocks>> {
        let open = self.open.lock();
        open.by_node
            .get(&node)
            .and_then(|node| node.started.blocks.clone())
    }

    /// Returns the copy that was made of a node last.
    pub fn copy(&self, node: u64) -> Option<Kept> {
        let open = self.open.lock();
        open.by_node.get(&node).and_then(|node| node.started.copy)
    }

    /// Notes which version has been begun.
    pub fn set_started(&self, node: u64, started: StartedVersion) {
        if let Some(node) = self.open.lock().by_node.get_mut(&node) {
            node.started = started;
        }
    }

    /// Notes an open file. `register` asks the kernel for a backing file; where it cannot, the data is served.
    pub fn add(
        &self,
        node: u64,
        file: OwnedFd,
        asked: Asked,
        register: impl FnOnce(BorrowedFd<'_>) -> Option<BackingId>,
    ) -> (u64, Way) {
        let mut open = self.open.lock();
        let by_blocks = matches!(&asked.started, Some(started) if started.blocks.is_some());
        let only_writes = asked.flags & OFlags::RWMODE == OFlags::WRONLY;
        let entry = open.by_node.entry(node).or_insert_with(|| {
            let backing = if by_blocks && !only_writes {
                None
            } else {
                register(file.as_fd())
            };
            Node {
                count: 0,
                writers: 0,
                hidden: 0,
                way: backing.map_or(Way::Served, |id| Way::Passthrough(Arc::new(id))),
                started: StartedVersion::default(),
            }
        });
        let way = match (&entry.way, by_blocks) {
            (Way::Passthrough(id), true) => Way::Direct(id.clone()),
            (way, _) => way.clone(),
        };
        let past = asked.writes && matches!(way, Way::Passthrough(_));
        let hidden = past.then_some(asked.by);
        entry.count += 1;
        entry.writers += u32::from(asked.writes);
        entry.hidden += u32::from(hidden.is_some());
        if let Some(started) = asked.started {
            entry.started = started;
        }
        if !matches!(way, Way::Passthrough(_)) {
            // The kernel says where to read and write, and its buffers are not aligned as O_DIRECT would want them.
            let flags = rustix::fs::fcntl_getfl(&file).unwrap_or(OFlags::empty());
            let unwanted = OFlags::APPEND | OFlags::DIRECT;
            if flags.intersects(unwanted) {
                let _ = rustix::fs::fcntl_setfl(&file, flags - unwanted);
            }
        }
        if let Some(by) = hidden {
            open.writers.begin(node, by);
        }
        open.next += 1;
        let number = open.next;
        open.by_handle.insert(
            number,
            Arc::new(Handle {
                file,
                node,
                writes: asked.writes,
                maps: asked.maps,
                hidden,
                empties: asked.empties,
                covered: AtomicBool::new(asked.appends_from.is_none()),
                appends_from: asked.appends_from.unwrap_or(0),
            }),
        );
        (number, way)
    }

    /// Returns an open file.
    pub fn get(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.lock().by_handle.get(&number).cloned()
    }

    /// Forgets an open file, and returns it; with the last one of a node goes its backing file. Also says whether it was the
    /// last that was open for writing.
    pub fn remove(&self, number: u64) -> Option<(Arc<Handle>, bool)> {
        let mut open = self.open.lock();
        let handle = open.by_handle.remove(&number)?;
        let node = open.by_node.get_mut(&handle.node)?;
        node.count -= 1;
        node.writers -= u32::from(handle.writes);
        node.hidden -= u32::from(handle.hidden.is_some());
        let ends_writing = handle.writes && node.writers == 0;
        let last = if node.count == 0 {
            open.by_node.remove(&handle.node)
        } else {
            None
        };
        if let Some(by) = handle.hidden {
            open.writers.end(handle.node, by);
        }
        drop(open);
        if handle.empties {
            self.end_emptying(handle.node);
        }
        drop(last);
        Some((handle, ends_writing))
    }

    /// Returns whether a node is open, and whether it is open for writing.
    pub fn is_open(&self, node: u64) -> (bool, bool) {
        let open = self.open.lock();
        let node = open.by_node.get(&node);
        node.map_or((false, false), |node| (true, node.writers > 0))
    }

    /// Returns whether a process writes to a node past the daemon, or did lately, and opened it by its first thread.
    pub fn wrote_lately(&self, node: u64, process: u32) -> bool {
        self.open.lock().writers.wrote_lately(node, process)
    }

    /// Returns any open file of a node. Slow; for a node whose place is lost.
    pub fn of_node(&self, node: u64) -> Option<Arc<Handle>> {
        let open = self.open.lock();
        let mut handles = open.by_handle.values();
        handles.find(|handle| handle.node == node).cloned()
    }

    /// Opens another file as a node's open files are open. Slow, as [`Handles::of_node`] is. Needs the node's turn.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn reopened(
        &self,
        node: u64,
        open: impl Fn(OFlags) -> Result<OwnedFd>,
    ) -> Result<Vec<(u64, OwnedFd)>> {
        let handles: Vec<_> = {
            let all = self.open.lock();
            if !all.by_node.contains_key(&node) {
                return Ok(Vec::new());
            }
            let of_node = all.by_handle.iter().filter(|(_, h)| h.node == node);
            of_node.map(|(number, h)| (*number, h.clone())).collect()
        };
        let each = handles.into_iter().map(|(number, handle)| {
            let flags = rustix::fs::fcntl_getfl(&handle.file).map_err(Error::os("fcntl"))?;
            Ok((number, open(flags & (OFlags::RWMODE | OFlags::NOATIME))?))
        });
        each.collect()
    }

    /// Gives a node's open files what [`Handles::reopened`] has opened. There is nothing left to keep of it.
    pub fn hand_over(&self, node: u64, files: Vec<(u64, OwnedFd)>) {
        let mut open = self.open.lock();
        for (number, file) in files {
            if let Some(handle) = open.by_handle.get_mut(&number) {
                *handle = Arc::new(Handle {
                    file,
                    node,
                    covered: AtomicBool::new(true),
                    ..**handle
                });
            }
        }
        if let Some(node) = open.by_node.get_mut(&node) {
            node.started = StartedVersion::default();
        }
    }

    /// Returns how many files are open.
    pub fn len(&self) -> usize {
        self.open.lock().by_handle.len()
    }

    /// Returns whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
