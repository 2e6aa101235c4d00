//! The state of an open file: its descriptor, its opener, and what has been kept of its content.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::world::{Meta, Origin, StartedVersion};

/// An open file.
#[derive(Debug)]
pub struct Handle {
    pub(super) file: OwnedFd,
    pub(super) node: u64,
    /// The run of whoever opened it.
    pub origin: Origin,
    /// True if it was opened for writing.
    pub writes: bool,
    /// True if the content may change without an update of the kernel's attributes: by a shared map (which needs
    /// reading and writing), or by the page cache's write-back.
    pub maps: bool,
    /// The thread whose writes bypass the daemon.
    pub(super) hidden: Option<u32>,
    /// True if its open emptied the file.
    pub(super) empties: bool,
    /// True if everything that can be destroyed through it has been kept.
    pub(super) covered: AtomicBool,
    /// The file's size at the open, if it was opened only for appending.
    pub appends_from: u64,
    /// True if it was opened to be read through the page cache as a small file: a read is one request, which its caller
    /// waits for.
    pub cached: bool,
    /// True if its reads and writes come to the daemon past the page cache.
    pub uncached: bool,
    /// The state of the file after the latest write through it that was seen, or at the latest close(2).
    pub(super) seen: Mutex<Option<Meta>>,
}

impl Handle {
    /// Returns whether everything that can be destroyed through it has been kept.
    pub fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Relaxed)
    }

    /// Notes that everything that can be destroyed through it has been kept.
    pub fn cover(&self) {
        self.covered.store(true, Ordering::Relaxed);
    }

    /// Returns the node that it is open on.
    pub fn node(&self) -> u64 {
        self.node
    }
}

/// The properties of an open file to register.
#[derive(Debug)]
pub struct HandleSpec {
    /// The opening thread.
    pub by: u32,
    /// The run that it belongs to.
    pub origin: Origin,
    /// True if it was opened for writing.
    pub writes: bool,
    /// True if the content may change without an update of the kernel's attributes.
    pub maps: bool,
    /// True if the open empties the file.
    pub empties: bool,
    /// The requested access mode and `O_APPEND`.
    pub flags: OFlags,
    /// The version of the content that has been started.
    pub started: Option<StartedVersion>,
    /// The file's size, if it was opened only for appending and nothing else was kept.
    pub appends_from: Option<u64>,
    /// True if it goes through the page cache if it can.
    pub cached: bool,
    /// True if its reads and writes come to the daemon past the page cache, unless the kernel does them itself.
    pub uncached: bool,
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
