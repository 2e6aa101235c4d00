//! [`ReadOnlyStore`]: a store open for reading, without a session and without writes.
//!
//! Readers share the store's lock, so no other process changes the store meanwhile. A directory that never was a store
//! has no lock, and a reader writes nothing there.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::options::WorldOptions;
use crate::world::root::{Root, stat_fd};
use crate::world::store::holder::{StoreHolder, holder, read_holder};
use crate::world::store::inode_lists;
use crate::world::store::lent_bits;
use crate::world::store::lock::{self, LockWait};
use crate::world::store::notices::StoreFinding;
use crate::world::store::origin;
use crate::world::store::sessions::{last_mount, new_session_id};
use crate::world::store::settle;
use crate::world::store::state::{StateDir, open_unlocked, refuse_strangers};
use crate::world::store::store_view::StoreView;
use crate::world::view::{View, ViewOptions};
use trumanfs_types::meta::{Id, Meta};

/// A store open for reading, and the rules of what exists in it.
#[derive(Debug)]
pub struct ReadOnlyStore {
    root: Root,
    view: View,
    state: Option<Id>,
    /// The number of hard links in the trash, by file.
    links: HashMap<Id, u32>,
    lock: Option<File>,
    /// The text of the lock when the store was opened: the last session begun, and the number of sessions so far.
    seen: Option<(String, u64)>,
    /// The exclusive lock, held for a line that may change something.
    claim: Mutex<Option<StoreClaim>>,
    /// The options of a session that begins in this store.
    options: WorldOptions,
}

/// An open store, and its lock if it is held exclusively.
pub type LockedStore = (Root, Option<File>);

/// An exclusive lock, held for changes to come.
#[derive(Debug)]
pub enum StoreClaim {
    /// The store's lock.
    Store(File),
    /// A lock on the directory itself, which never was a store.
    Directory(File),
}

impl ReadOnlyStore {
    /// Opens a store with the settings of its last mount; `narrow` may hide and protect more, or less. The acts that an
    /// earlier session left open are settled first, which is the only reason to write.
    ///
    /// # Errors
    /// As [`World::open`](crate::world::World::open), except for obstacles to changing the store only.
    pub fn open(
        store: &Path,
        narrow: impl FnOnce(ViewOptions) -> ViewOptions,
        patience: Duration,
    ) -> Result<(ReadOnlyStore, Vec<StoreFinding>)> {
        let root = Root::open_store(store)?.made_usable()?;
        refuse_strangers(&root, store)?;
        let with = |last| {
            let options = WorldOptions::as_last_mounted(String::new(), last);
            WorldOptions {
                view: narrow(options.view),
                ..options
            }
        };
        let Some(state) = open_unlocked(&root)? else {
            let options = with(None);
            let view = View::new(options.view.clone(), None, HashSet::new())?.of_root(&root);
            let reading = ReadOnlyStore {
                root,
                view,
                state: None,
                links: HashMap::new(),
                lock: None,
                seen: None,
                claim: Mutex::default(),
                options,
            };
            return Ok((reading, Vec::new()));
        };
        let state = state.as_fd();
        let (lock, mut settled) = settle_and_share(&root, state, patience)?;
        let seen = holder(state)?.map(|holder| (holder.session, holder.epoch));
        let named = seen.as_ref().map(|(session, _)| session.clone());
        let options = with(last_mount(state, named.as_deref())?);
        let copied = origin::find_copy_origin(&root, state, named.as_deref())?;
        let is_fresh_copy = copied.is_some_and(|copied| copied.is_fresh);
        let left = (state, named.as_deref());
        settled.extend(lent_bits::take_back(&root, left, || is_fresh_copy));
        let (links, pinned) = if is_fresh_copy {
            Default::default()
        } else {
            inode_lists::read(state, root.id().0)?
        };
        let id = stat_fd(state)?.id;
        let view = View::new(options.view.clone(), Some(id), pinned)?.of_root(&root);
        let reading = ReadOnlyStore {
            root,
            view,
            state: Some(id),
            links,
            lock,
            seen,
            claim: Mutex::default(),
            options,
        };
        Ok((reading, settled))
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the options for a session that begins here, each time with another id.
    pub fn options(&self) -> WorldOptions {
        WorldOptions {
            session: new_session_id(),
            ..self.options.clone()
        }
    }

    /// Returns the read-only view of the store.
    pub fn store_view(&self) -> StoreView<'_> {
        StoreView {
            root: &self.root,
            view: &self.view,
            state: self.state,
        }
    }

    /// Returns the number of hard links that the occupant sees. Links in the trash do not count.
    pub fn links_shown(&self, meta: &Meta) -> u32 {
        let trashed = self.links.get(&meta.id).copied().unwrap_or(0);
        self.store_view().links_shown(meta, false, trashed)
    }

    /// Takes the exclusive lock before a line that may change the store, so that no change in the line has to wait.
    /// Writes nothing. Returns whether the store is unchanged since it was opened.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the holder; any error from the system calls.
    pub fn claim(&self, patience: LockWait<'_>) -> Result<bool> {
        let mut claim = self.claim.lock();
        if claim.is_some() {
            return Ok(true);
        }
        if self.state.is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(&self.root, ".", flags, Mode::empty());
            let dir = lock::lock_directory(dir.map_err(Error::os("openat"))?, patience)?;
            if open_unlocked(&self.root)?.is_none() {
                *claim = Some(StoreClaim::Directory(dir));
                return Ok(true);
            }
        }
        let Some(state) = open_unlocked(&self.root)? else {
            return Ok(false);
        };
        self.release_lock();
        let mut file = match lock::for_changes(state.as_fd(), patience) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(false),
            Err(error) => {
                self.share_again();
                // The store cannot be changed at all; the commands that try report that.
                return match error.errno() {
                    Errno::ROFS | Errno::ACCESS => Ok(true),
                    _ => Err(error),
                };
            }
        };
        let now = read_holder(&mut file).map(|holder| (holder.session, holder.epoch));
        *claim = Some(StoreClaim::Store(file));
        Ok(now == self.seen)
    }

    /// Returns the exclusive lock for the session that begins. Without one, the shared lock is released so that the
    /// session can take it.
    pub fn take_claim(&self) -> Option<StoreClaim> {
        let claim = self.claim.lock().take();
        if claim.is_none() {
            self.release_lock();
        }
        claim
    }

    /// Shares the lock again after a line that changed nothing.
    pub fn drop_claim(&self) {
        if self.claim.lock().take().is_some() {
            self.share_again();
        }
    }

    fn release_lock(&self) {
        if let Some(file) = &self.lock {
            lock::release(file);
        }
    }

    /// Takes the shared lock again after the exclusive one was not available. If another process has it by now, reading
    /// goes on without a lock.
    pub fn share_again(&self) {
        if let Some(file) = &self.lock {
            let _ = lock::share(file);
        }
    }
}

/// Settles the newest session and takes the shared lock.
fn settle_and_share(
    root: &Root,
    state: BorrowedFd<'_>,
    patience: Duration,
) -> Result<(Option<File>, Vec<StoreFinding>)> {
    let Some(mut file) = lock::take_shared(state, patience)? else {
        return Ok((None, Vec::new()));
    };
    let named = read_holder(&mut file).map(|holder| holder.session);
    if settle::is_settled(state, named.as_deref())? {
        return Ok((Some(file), Vec::new()));
    }
    lock::release(&file);
    // The session that the lock names stays the newest.
    let session = named.unwrap_or_else(new_session_id);
    let located = lock::for_changes(state, patience.into())?;
    let alone = StateDir::open(root, StoreHolder::this_process(&session, None), located)?;
    let settled = settle::last_session(root, &alone)?.settled;
    drop(alone);
    Ok((lock::take_shared(state, patience)?, settled))
}
