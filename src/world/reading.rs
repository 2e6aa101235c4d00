//! [`Reading`]: a store that is only looked at. Nothing in it is written, no session begins.
//!
//! The store's lock is shared with others who read. So nobody changes the store meanwhile, unless it never was a store: then
//! there is no lock, and nothing that could tell of this reader either.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::lists;
use super::lock;
use super::meta::{Id, Meta};
use super::origin;
use super::root::{Root, stat_fd};
use super::settle::{self, Settled};
use super::sight::Sight;
use super::state::{Holder, State, holder, open_unlocked, read_holder};
use super::view::{View, ViewOptions};
use crate::error::Result;

/// A store and what exists in it.
#[derive(Debug)]
pub struct Reading {
    root: Root,
    view: View,
    state: Option<Id>,
    /// How many hard links of which file lie in the trash.
    links: HashMap<Id, u32>,
    lock: Option<File>,
}

impl Reading {
    /// Opens a store. What an earlier session left open is settled first, which is the only reason for this to write.
    ///
    /// # Errors
    /// As [`World::open`](super::World::open), but for what keeps a store from being changed.
    pub fn open(store: &Path, view: ViewOptions) -> Result<(Reading, Vec<Settled>)> {
        let root = Root::open(store)?;
        let Some(state) = open_unlocked(&root)? else {
            let reading = Reading {
                root,
                view: View::new(view, None, HashSet::new())?,
                state: None,
                links: HashMap::new(),
                lock: None,
            };
            return Ok((reading, Vec::new()));
        };
        let state = state.as_fd();
        let (lock, settled) = settled(&root, state)?;
        let named = holder(state)?.map(|holder| holder.session);
        let copied = origin::copied(&root, state, named.as_deref())?;
        let (links, pinned) = match copied.is_some_and(|copied| copied.is_fresh) {
            true => Default::default(),
            false => lists::read(state, root.id().0)?,
        };
        let id = stat_fd(state)?.id;
        let reading = Reading {
            root,
            view: View::new(view, Some(id), pinned)?,
            state: Some(id),
            links,
            lock,
        };
        Ok((reading, settled))
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns what can be looked at.
    pub fn sight(&self) -> Sight<'_> {
        Sight {
            root: &self.root,
            view: &self.view,
            state: self.state,
        }
    }

    /// Returns the number of hard links that the occupant is shown: those in the trash do not count.
    pub fn links_shown(&self, meta: &Meta) -> u32 {
        let trashed = self.links.get(&meta.id).copied().unwrap_or(0);
        self.sight().links_shown(meta, false, trashed)
    }

    /// Lets the lock go: it is to be had alone, for a change.
    pub fn let_go(&self) {
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
fn settled(root: &Root, state: BorrowedFd<'_>) -> Result<(Option<File>, Vec<Settled>)> {
    let Some(mut file) = lock::with_readers(state)? else {
        return Ok((None, Vec::new()));
    };
    let named = read_holder(&mut file).map(|holder| holder.session);
    if settle::is_settled(state, named.as_deref())? {
        return Ok((Some(file), Vec::new()));
    }
    lock::let_go(&file);
    // Whom the lock names stays the newest session.
    let session = named.unwrap_or_else(super::new_session_id);
    let alone = State::open(root, Holder::this_process(&session, None))?;
    let settled = settle::last_session(root, &alone)?.settled;
    drop(alone);
    Ok((lock::with_readers(state)?, settled))
}
