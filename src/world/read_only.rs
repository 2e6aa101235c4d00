//! [`ReadOnlyStore`]: a store that is only looked at. Nothing in it is written, no session begins.
//!
//! The store's lock is shared with others who read. So nobody changes the store meanwhile, unless it never was a store: then
//! there is no lock, and nothing that could tell of this reader either.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::inode_lists;
use super::lock;
use super::meta::{Id, Meta};
use super::origin;
use super::root::{Root, stat_fd};
use super::settle;
use super::settled::Settled;
use super::state::{Holder, StateDir, holder, open_unlocked, read_holder};
use super::store_view::StoreView;
use super::view::{View, ViewOptions};
use crate::error::{Error, Result};

/// A store and what exists in it.
#[derive(Debug)]
pub struct ReadOnlyStore {
    root: Root,
    view: View,
    state: Option<Id>,
    /// How many hard links of which file lie in the trash.
    links: HashMap<Id, u32>,
    lock: Option<File>,
    /// What the lock said when this was opened: the session that was begun last, and how often there was one.
    seen: Option<(String, u64)>,
    /// What is held alone for a line that may change something.
    claim: Mutex<Option<Claim>>,
}

/// An open store, and its lock where that is held alone.
pub type Locked = (Root, Option<File>);

/// What is held alone for changes to come.
#[derive(Debug)]
pub enum Claim {
    /// The store's lock.
    Store(File),
    /// The directory itself, which never was a store.
    Directory(File),
}

impl ReadOnlyStore {
    /// Opens a store. What an earlier session left open is settled first, which is the only reason for this to write.
    ///
    /// # Errors
    /// As [`World::open`](super::World::open), but for what keeps a store from being changed.
    pub fn open(
        store: &Path,
        view: ViewOptions,
        patience: Duration,
    ) -> Result<(ReadOnlyStore, Vec<Settled>)> {
        let root = Root::open(store)?;
        let Some(state) = open_unlocked(&root)? else {
            let reading = ReadOnlyStore {
                root,
                view: View::new(view, None, HashSet::new())?,
                state: None,
                links: HashMap::new(),
                lock: None,
                seen: None,
                claim: Mutex::default(),
            };
            return Ok((reading, Vec::new()));
        };
        let state = state.as_fd();
        let (lock, settled) = settled(&root, state, patience)?;
        let seen = holder(state)?.map(|holder| (holder.session, holder.epoch));
        let named = seen.as_ref().map(|(session, _)| session.clone());
        let copied = origin::copied(&root, state, named.as_deref())?;
        let (links, pinned) = match copied.is_some_and(|copied| copied.is_fresh) {
            true => Default::default(),
            false => inode_lists::read(state, root.id().0)?,
        };
        let id = stat_fd(state)?.id;
        let reading = ReadOnlyStore {
            root,
            view: View::new(view, Some(id), pinned)?,
            state: Some(id),
            links,
            lock,
            seen,
            claim: Mutex::default(),
        };
        Ok((reading, settled))
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns what can be looked at.
    pub fn store_view(&self) -> StoreView<'_> {
        StoreView {
            root: &self.root,
            view: &self.view,
            state: self.state,
        }
    }

    /// Returns the number of hard links that the occupant is shown: those in the trash do not count.
    pub fn links_shown(&self, meta: &Meta) -> u32 {
        let trashed = self.links.get(&meta.id).copied().unwrap_or(0);
        self.store_view().links_shown(meta, false, trashed)
    }

    /// Takes the store alone, before a line that may change it: nothing that the line does later has to wait. Nothing is written.
    /// Returns whether the store is as it was when this was opened.
    ///
    /// # Errors
    /// [`Error::Refused`] naming who has it; what the system calls say.
    pub fn claim(&self, patience: Duration) -> Result<bool> {
        let mut claim = self.claim.lock();
        if claim.is_some() {
            return Ok(true);
        }
        if self.state.is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(&self.root, ".", flags, Mode::empty());
            let dir = lock::before_state(dir.map_err(Error::os("openat"))?, patience)?;
            if open_unlocked(&self.root)?.is_none() {
                *claim = Some(Claim::Directory(dir));
                return Ok(true);
            }
        }
        let Some(state) = open_unlocked(&self.root)? else {
            return Ok(false);
        };
        self.let_go();
        let mut file = match lock::for_changes(state.as_fd(), patience) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(false),
            Err(error) => {
                self.take_again();
                // Nothing can be changed here, which is for the commands to say that try.
                return match error.errno() {
                    Errno::ROFS | Errno::ACCESS => Ok(true),
                    _ => Err(error),
                };
            }
        };
        let now = read_holder(&mut file).map(|holder| (holder.session, holder.epoch));
        *claim = Some(Claim::Store(file));
        Ok(now == self.seen)
    }

    /// Returns what is held alone, for the session that begins; else the lock is let go, to be had alone.
    pub fn claimed(&self) -> Option<Claim> {
        let claim = self.claim.lock().take();
        if claim.is_none() {
            self.let_go();
        }
        claim
    }

    /// Shares the store again, after a line that has changed nothing.
    pub fn unclaim(&self) {
        if self.claim.lock().take().is_some() {
            self.take_again();
        }
    }

    fn let_go(&self) {
        if let Some(file) = &self.lock {
            lock::let_go(file);
        }
    }

    /// Takes the lock again, where it was not to be had alone. If somebody else has it now, this goes on without.
    pub fn take_again(&self) {
        if let Some(file) = &self.lock {
            let _ = lock::share(file);
        }
    }
}

/// Takes the lock with other readers, when the newest session has been settled.
fn settled(
    root: &Root,
    state: BorrowedFd<'_>,
    patience: Duration,
) -> Result<(Option<File>, Vec<Settled>)> {
    let Some(mut file) = lock::with_readers(state, patience)? else {
        return Ok((None, Vec::new()));
    };
    let named = read_holder(&mut file).map(|holder| holder.session);
    if settle::is_settled(state, named.as_deref())? {
        return Ok((Some(file), Vec::new()));
    }
    lock::let_go(&file);
    // Whom the lock names stays the newest session.
    let session = named.unwrap_or_else(super::new_session_id);
    let located = lock::for_changes(state, patience)?;
    let alone = StateDir::open(root, Holder::this_process(&session, None), located)?;
    let settled = settle::last_session(root, &alone)?.settled;
    drop(alone);
    Ok((lock::with_readers(state, patience)?, settled))
}
