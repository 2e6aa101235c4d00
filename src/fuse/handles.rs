//! Open files: their descriptors, and the backing file that the opens of a node share in the kernel.
//!
//! Kernel rule (fuse/iomode.c, 6.9 and later): while a node is open in passthrough, every further passthrough open
//! must name the same backing file, else EIO; and none is possible while it is open through the page cache. So the
//! first open of a node decides for all that overlap with it.
//!
//! Locks: one mutex over the table. The ioctl that registers a backing file runs under it, because two first opens of
//! one node must not register two; the ioctl does not block. The inode locks are taken before it: a request that
//! opens, truncates or empties a file holds its inode lock until the outcome is recorded here, because another inode
//! may take the file's place meanwhile. An inode lock is held while a small file is copied; other requests for the
//! same file wait.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use foldhash::HashMap;
use fuser::BackingId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;

use super::handle::{Handle, HandleSpec};
use super::recent_writers::RecentWriters;
use crate::error::{Error, Result};
use crate::world::{BlockVersion, RunId, StartedVersion, VersionRef};

/// The number of inode locks; files that share one wait for each other needlessly.
const INODE_LOCKS: usize = 256;

/// The path of a node's data.
#[derive(Debug, Clone)]
pub enum DataPath {
    /// The kernel accesses the backing file itself.
    Passthrough(Arc<BackingId>),
    /// Maps go to the backing file, reads and writes to the daemon.
    Direct(Arc<BackingId>),
    /// Data goes through the page cache and the daemon.
    Served,
}

impl DataPath {
    /// Returns whether what is written through an open with these flags, or through a map of it, bypasses the daemon.
    pub fn hides_writes(&self, flags: OFlags) -> bool {
        let access = flags & OFlags::RWMODE;
        match self {
            DataPath::Passthrough(_) => access != OFlags::RDONLY,
            DataPath::Direct(_) => access != OFlags::RDONLY && access != OFlags::WRONLY,
            DataPath::Served => false,
        }
    }
}

/// All open files.
#[derive(Debug)]
pub struct HandleTable {
    open: Mutex<OpenFiles>,
    turns: Vec<Mutex<()>>,
    /// The number of opens that empty their file; usually zero, which saves a look-up.
    emptying: AtomicUsize,
}

/// An open that empties its file, from before the emptying until the close: see [`HandleTable::is_emptying`].
#[derive(Debug)]
pub struct EmptyingGuard<'a>(&'a HandleTable, u64);

impl EmptyingGuard<'_> {
    /// Keeps the state until the file is closed.
    pub fn confirm(self) {
        std::mem::forget(self);
    }
}

impl Drop for EmptyingGuard<'_> {
    fn drop(&mut self) {
        self.0.end_emptying(self.1);
    }
}

impl Default for HandleTable {
    fn default() -> HandleTable {
        HandleTable {
            open: Mutex::default(),
            emptying: AtomicUsize::new(0),
            turns: std::iter::repeat_with(Mutex::default)
                .take(INODE_LOCKS)
                .collect(),
        }
    }
}

#[derive(Debug, Default)]
struct OpenFiles {
    next: u64,
    by_handle: HashMap<u64, Arc<Handle>>,
    by_node: HashMap<u64, OpenNode>,
    emptying: HashMap<u64, u32>,
    /// The threads that write past the daemon.
    writers: RecentWriters,
}

#[derive(Debug)]
struct OpenNode {
    count: u32,
    writers: u32,
    /// A number that is another one after each open for writing, and for another file.
    opens: u64,
    /// The number of opens whose writes bypass the daemon.
    hidden: u32,
    way: DataPath,
    /// The version saved as the file is overwritten, or the latest copy.
    started: StartedVersion,
}

impl HandleTable {
    /// Takes the inode lock of a node.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if another request holds it and there is no time to wait.
    pub fn inode_lock(&self, node: u64, may_wait: bool) -> Result<MutexGuard<'_, ()>> {
        let at = usize::try_from(node % INODE_LOCKS as u64).unwrap_or(0);
        let turn = self.turns.get(at).ok_or(Error::Invalid)?;
        if may_wait {
            return Ok(turn.lock());
        }
        turn.try_lock().ok_or(Error::TakesLong)
    }

    /// Returns whether every write to a node would be seen, including those of one more open.
    pub fn sees_writes(&self, node: u64, access: OFlags, passthrough: bool) -> bool {
        let open = self.open.lock();
        match open.by_node.get(&node) {
            None => true,
            Some(node) => match node.way {
                DataPath::Served => true,
                _ => passthrough && node.hidden == 0 && access == OFlags::WRONLY,
            },
        }
    }

    /// Returns the nodes that a run has open for writing.
    pub fn written_by(&self, run: RunId) -> BTreeSet<u64> {
        let open = self.open.lock();
        let handles = open.by_handle.values();
        let written = handles.filter(|handle| handle.writes && handle.origin.run == Some(run));
        written.map(|handle| handle.node).collect()
    }

    /// Announces an open that empties a node.
    pub fn begin_emptying(&self, node: u64) -> EmptyingGuard<'_> {
        self.emptying.fetch_add(1, Ordering::SeqCst);
        *self.open.lock().emptying.entry(node).or_insert(0) += 1;
        EmptyingGuard(self, node)
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

    /// Returns whether the kernel may be about to set a node's size to zero. After an open that empties, the kernel
    /// releases the inode, takes it again and once more sets its known size to zero (fuse_do_setattr, ATTR_OPEN), even
    /// if others have written by then. It must not cache a size that it is given in between.
    pub fn is_emptying(&self, node: u64) -> bool {
        self.emptying.load(Ordering::SeqCst) > 0 && self.open.lock().emptying.contains_key(&node)
    }

    /// Returns the version that is saved as a node is overwritten.
    pub fn block_version(&self, node: u64) -> Option<Arc<BlockVersion>> {
        let open = self.open.lock();
        open.by_node
            .get(&node)
            .and_then(|node| node.started.blocks.clone())
    }

    /// Returns the latest copy of a node.
    pub fn latest_copy(&self, node: u64) -> Option<VersionRef> {
        let open = self.open.lock();
        open.by_node.get(&node).and_then(|node| node.started.copy)
    }

    /// Records the version that has been started.
    pub fn set_started(&self, node: u64, started: StartedVersion) {
        if let Some(node) = self.open.lock().by_node.get_mut(&node) {
            node.started = started;
        }
    }

    /// Registers an open file. `register` asks the kernel for a backing file; if that fails, the data goes through the
    /// daemon.
    pub fn add(
        &self,
        node: u64,
        file: OwnedFd,
        asked: HandleSpec,
        register: impl FnOnce(BorrowedFd<'_>) -> Option<BackingId>,
    ) -> (u64, DataPath) {
        let mut open = self.open.lock();
        let by_blocks = matches!(&asked.started, Some(started) if started.blocks.is_some());
        let only_writes = asked.flags & OFlags::RWMODE == OFlags::WRONLY;
        // A program may clear these flags (fcntl(2)), but the kernel's own open of the backing file keeps them.
        let clearable = OFlags::APPEND | OFlags::DIRECT;
        let is_seen = by_blocks || asked.flags.intersects(clearable);
        // Greater than any that the node had before it was closed.
        let first = open.next;
        let entry = open.by_node.entry(node).or_insert_with(|| {
            let backing = if asked.cached || by_blocks && !only_writes {
                None
            } else {
                register(file.as_fd())
            };
            OpenNode {
                count: 0,
                writers: 0,
                opens: first,
                hidden: 0,
                way: backing.map_or(DataPath::Served, |id| DataPath::Passthrough(Arc::new(id))),
                started: StartedVersion::default(),
            }
        });
        let way = match (&entry.way, is_seen) {
            (DataPath::Passthrough(id), true) => DataPath::Direct(id.clone()),
            (way, _) => way.clone(),
        };
        let hidden = way.hides_writes(asked.flags).then_some(asked.by);
        entry.count += 1;
        entry.writers += u32::from(asked.writes);
        entry.opens += u64::from(asked.writes);
        entry.hidden += u32::from(hidden.is_some());
        if let Some(started) = asked.started {
            entry.started = started;
        }
        // The kernel names the offset of each read and write, and its buffers lack the alignment that O_DIRECT
        // requires.
        if asked.flags.intersects(clearable) {
            let flags = rustix::fs::fcntl_getfl(&file).unwrap_or(OFlags::empty());
            if flags.intersects(clearable) {
                let _ = rustix::fs::fcntl_setfl(&file, flags - clearable);
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
                origin: asked.origin,
                writes: asked.writes,
                maps: asked.maps,
                hidden,
                empties: asked.empties,
                covered: AtomicBool::new(asked.appends_from.is_none()),
                appends_from: asked.appends_from.unwrap_or(0),
                cached: asked.cached,
                uncached: asked.uncached || matches!(way, DataPath::Direct(_)),
                seen: Mutex::default(),
            }),
        );
        (number, way)
    }

    /// Returns an open file.
    pub fn get(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.lock().by_handle.get(&number).cloned()
    }

    /// Returns the numbers of all open files.
    pub fn numbers(&self) -> Vec<u64> {
        self.open.lock().by_handle.keys().copied().collect()
    }

    /// Removes and returns an open file; the last one of a node takes the backing file with it. Also returns whether
    /// it was the last one open for writing.
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

    /// Returns how many opens for writing a node has.
    pub fn writer_count(&self, node: u64) -> u32 {
        let open = self.open.lock();
        open.by_node.get(&node).map_or(0, |node| node.writers)
    }

    /// Returns a number that says which opens for writing a node has had, if only one of them goes on.
    pub fn sole_writer(&self, node: u64) -> Option<u64> {
        let open = self.open.lock();
        let node = open.by_node.get(&node)?;
        (node.writers == 1).then_some(node.opens)
    }

    /// Returns all open files that nothing else has open for writing, with their nodes and as [`HandleTable::sole_writer`].
    pub fn sole_writers(&self) -> Vec<(u64, u64, Arc<Handle>)> {
        let open = self.open.lock();
        let writing = open.by_handle.values().filter(|handle| handle.writes);
        let sole = writing.filter_map(|handle| {
            let node = open.by_node.get(&handle.node)?;
            (node.writers == 1).then(|| (handle.node, node.opens, handle.clone()))
        });
        sole.collect()
    }

    /// Returns whether a process writes to a node past the daemon, or did recently, if its first thread opened the
    /// node.
    pub fn wrote_lately(&self, node: u64, process: u32) -> bool {
        self.open.lock().writers.wrote_lately(node, process)
    }

    /// Returns any open file of a node. Slow; for a node whose location is lost.
    pub fn of_node(&self, node: u64) -> Option<Arc<Handle>> {
        let open = self.open.lock();
        let mut handles = open.by_handle.values();
        handles.find(|handle| handle.node == node).cloned()
    }

    /// Opens another file with the flags of a node's open files. Slow, like [`HandleTable::of_node`]. Needs the inode
    /// lock.
    ///
    /// # Errors
    /// Any error from `open`.
    pub fn reopen_handles(
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

    /// Replaces a node's open files by those of [`HandleTable::reopen_handles`]. Nothing is left to keep of the new
    /// file.
    pub fn hand_over(&self, node: u64, files: Vec<(u64, OwnedFd)>) {
        let mut open = self.open.lock();
        for (number, file) in files {
            if let Some(handle) = open.by_handle.get_mut(&number) {
                *handle = Arc::new(Handle {
                    file,
                    node,
                    covered: AtomicBool::new(true),
                    seen: Mutex::default(),
                    ..**handle
                });
            }
        }
        if let Some(node) = open.by_node.get_mut(&node) {
            node.started = StartedVersion::default();
            node.opens += 1;
        }
    }

    /// Returns the number of open files.
    pub fn len(&self) -> usize {
        self.open.lock().by_handle.len()
    }

    /// Returns whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
