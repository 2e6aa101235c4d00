//! Files that the home holds open for writing, and whether somebody else has written to them meanwhile.
//!
//! Of what is written past the daemon nobody tells who wrote it. But whoever saves a file in place opens and closes it,
//! and fanotify(7) tells of the close. So a file that is still open at a seal is marked, where the home has it open for
//! writing once: until that open ends, each close by another process is one outside the home. A file that both wrote is
//! stamped as it was when it was marked, since nobody knows what is the home's of what came later.
//!
//! Locks: one mutex over the marked files, taken below the inode locks and above that of the handles. No system call
//! under it blocks.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::SharedState;
use crate::sys::fanotify::{self, NodeHandle};
use crate::world::Meta;
use crate::world::root::stat_fd;

/// The number of files that may be marked at once.
const MAX_HELD: usize = 1024;

/// The size of the buffer for events, in bytes.
const EVENT_BYTES: usize = 64 << 10;

/// The files that are marked.
#[derive(Debug, Default)]
pub struct HeldFiles {
    /// True if there is one; usually there is none, which saves a look at each close.
    any: AtomicBool,
    marked: Mutex<MarkedFiles>,
}

#[derive(Debug, Default)]
struct MarkedFiles {
    /// The group of the marks, once there is one.
    group: Option<OwnedFd>,
    by_node: HashMap<u64, HeldFile>,
    numbers: HashMap<NodeHandle, u64>,
}

#[derive(Debug)]
struct HeldFile {
    handle: NodeHandle,
    /// The state when it was marked.
    left: Meta,
    /// The number of its opens for writing when it was marked ([`HandleTable::sole_writer`](super::handles::HandleTable::sole_writer)).
    opens: u64,
    /// True if another process has closed it since, after writing.
    closed: bool,
    /// True if that was somebody outside the home.
    mixed: bool,
}

impl MarkedFiles {
    fn mark(&mut self, number: u64, file: BorrowedFd<'_>, opens: u64) {
        let before = self.by_node.get(&number);
        if before.is_some_and(|held| held.opens == opens)
            || before.is_none() && self.by_node.len() >= MAX_HELD
        {
            return;
        }
        if self.group.is_none() {
            self.group = fanotify::init_for_files().ok();
        }
        let before = self.remove(number);
        // Before it is marked: what somebody writes from then on is told of, and must not be in the state.
        let left = stat_fd(file);
        let group = self.group.as_ref();
        let marked = group.and_then(|group| fanotify::watch_file(group.as_fd(), file).ok());
        let (Some(handle), Ok(left)) = (marked, left) else {
            return;
        };
        let before = before.filter(|held| held.mixed);
        self.numbers.insert(handle.clone(), number);
        let held = HeldFile {
            handle,
            opens,
            closed: false,
            mixed: before.is_some(),
            left: before.map_or(left, |held| held.left),
        };
        self.by_node.insert(number, held);
    }

    fn unmark(&mut self, number: u64, file: BorrowedFd<'_>) -> Option<HeldFile> {
        let held = self.remove(number)?;
        if let Some(group) = &self.group {
            let _ = fanotify::unwatch_file(group.as_fd(), file);
        }
        Some(held)
    }

    fn remove(&mut self, number: u64) -> Option<HeldFile> {
        let held = self.by_node.remove(&number)?;
        self.numbers.remove(&held.handle);
        Some(held)
    }

    /// Notes the closes that the kernel has told of. Those of this process are of what the home opened, or a verb.
    fn read_events(&mut self) {
        let Some(group) = &self.group else {
            return;
        };
        let own = std::process::id().cast_signed();
        let mut buffer = vec![0; EVENT_BYTES];
        while let Ok(events) = fanotify::read(group, &mut buffer) {
            if events.is_empty() {
                return;
            }
            for event in events {
                let number = self.numbers.get(&event.node);
                if event.pid != own
                    && let Some(held) = number.and_then(|number| self.by_node.get_mut(number))
                {
                    held.closed = true;
                }
            }
        }
    }
}

impl SharedState {
    /// Marks the files that the home has open for writing once.
    pub(super) fn mark_held_files(&self) {
        let held = self.handles.sole_writers();
        if held.is_empty() {
            return;
        }
        // Before the first mark: whoever closes a file from then on waits for the lock.
        self.held.any.store(true, Ordering::Release);
        let mut marked = self.held.marked.lock();
        marked.read_events();
        for (number, opens, handle) in held {
            marked.mark(number, handle.as_fd(), opens);
            // It may have been closed just now.
            if !self.handles.is_open(number).1 {
                marked.unmark(number, handle.as_fd());
            }
        }
        self.held.note_any(&marked);
    }

    /// Returns the state of a file before somebody outside wrote to it while the home has it open for writing. `None` if
    /// nobody has, as far as that can be told. Not to be asked after the kernel has closed the file: the close of its
    /// backing file would seem to be one.
    pub(super) fn left_before_mixed(&self, number: u64) -> Option<Meta> {
        if !self.held.any.load(Ordering::Acquire) {
            return None;
        }
        let mut marked = self.held.marked.lock();
        if !marked.by_node.contains_key(&number) {
            return None;
        }
        marked.read_events();
        let opens = self.handles.sole_writer(number);
        let held = marked.by_node.get_mut(&number)?;
        // Else it may have been a close of the home's.
        held.mixed |= held.closed && opens == Some(held.opens);
        held.mixed.then_some(held.left)
    }

    /// Takes the mark from a file that the home has no more open for writing. Returns its state as
    /// [`SharedState::left_before_mixed`] did.
    pub(super) fn unmark_held_file(&self, number: u64, file: BorrowedFd<'_>) -> Option<Meta> {
        if !self.held.any.load(Ordering::Acquire) {
            return None;
        }
        let mut marked = self.held.marked.lock();
        let held = marked.unmark(number, file)?;
        self.held.note_any(&marked);
        held.mixed.then_some(held.left)
    }
}

impl HeldFiles {
    fn note_any(&self, marked: &MarkedFiles) {
        self.any
            .store(!marked.by_node.is_empty(), Ordering::Release);
    }
}
