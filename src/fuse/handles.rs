//! Open files: their descriptors, and which of a node's opens share a backing file in the kernel.
//!
//! Kernel rule (fuse/iomode.c, 6.9 and later): while a node is open in passthrough, every further passthrough open must
//! name the same backing file, else EIO; and none is possible while it is open through the page cache. So each node's
//! first open decides for all that overlap with it.
//!
//! Lock: one mutex. The ioctl that registers a backing file is made under it, because two first opens of one node must
//! not register two; it does not block.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fuser::BackingId;
use parking_lot::Mutex;

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
    /// Through the page cache and the daemon.
    Served,
}

/// All open files.
#[derive(Debug, Default)]
pub struct Handles {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_handle: HashMap<u64, Arc<Handle>>,
    by_node: HashMap<u64, Node>,
}

#[derive(Debug)]
struct Node {
    count: u32,
    writers: u32,
    way: Way,
}

impl Handles {
    /// Notes an open file. `register` asks the kernel for a backing file; where it cannot, the data is served.
    pub fn add(
        &self,
        node: u64,
        file: OwnedFd,
        (writes, maps): (bool, bool),
        register: impl FnOnce(BorrowedFd<'_>) -> Option<BackingId>,
    ) -> (u64, Way) {
        let mut open = self.open.lock();
        let entry = open.by_node.entry(node).or_insert_with(|| Node {
            count: 0,
            writers: 0,
            way: register(file.as_fd()).map_or(Way::Served, |id| Way::Passthrough(Arc::new(id))),
        });
        entry.count += 1;
        entry.writers += u32::from(writes);
        let way = entry.way.clone();
        open.next += 1;
        let number = open.next;
        open.by_handle.insert(
            number,
            Arc::new(Handle {
                file,
                node,
                writes,
                maps,
            }),
        );
        (number, way)
    }

    /// Returns an open file.
    pub fn get(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.lock().by_handle.get(&number).cloned()
    }

    /// Forgets an open file; with the last one of a node goes its backing file. Returns whether its attributes may have
    /// changed without the kernel hearing of it.
    pub fn remove(&self, number: u64) -> bool {
        let mut open = self.open.lock();
        let Some(handle) = open.by_handle.remove(&number) else {
            return false;
        };
        let Some(node) = open.by_node.get_mut(&handle.node) else {
            return false;
        };
        node.count -= 1;
        node.writers -= u32::from(handle.writes);
        let last = if node.count == 0 {
            open.by_node.remove(&handle.node)
        } else {
            None
        };
        drop(open);
        let maps = handle.maps;
        drop((last, handle));
        maps
    }

    /// Returns whether a node is open, and whether it is open for writing.
    pub fn is_open(&self, node: u64) -> (bool, bool) {
        let open = self.open.lock();
        open.by_node
            .get(&node)
            .map_or((false, false), |node| (true, node.writers > 0))
    }

    /// Returns any open file of a node. Slow; for a node whose place is lost.
    pub fn of_node(&self, node: u64) -> Option<Arc<Handle>> {
        let open = self.open.lock();
        let mut handles = open.by_handle.values();
        handles.find(|handle| handle.node == node).cloned()
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
