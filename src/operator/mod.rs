//! The operations of an operator on a store, mounted or not, for reading and for changing it. This library prints
//! nothing.
//!
//! Reading needs no lock: journals only grow, and entries of the trash are complete. Writing goes through a
//! [`World`]: the daemon's own while the store is mounted (through its control socket), otherwise one opened for the
//! purpose.
//!
//! [`World`]: crate::world::World

pub mod activity_fold;
mod age_bounds;
pub mod checkpoint;
pub mod closed_nodes;
pub mod diff;
pub mod ephemeral;
pub mod expire;
pub mod filter;
pub mod fork;
pub mod fsck;
pub mod kept_versions;
pub mod log;
mod made_again;
pub mod merge;
pub mod past;
pub mod point;
pub mod purge;
pub mod report;
pub mod review;
pub mod run;
pub mod run_kept;
pub mod session;
pub mod show;
pub mod store_usage;
pub mod text;
pub mod trash;
mod trash_size;
pub mod turn;
pub mod undo;
pub mod unknown_writer;
pub mod usage;
mod version_sums;
pub mod versions;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use version_sums::VersionSums;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::store::holder::StoreHolder;
use crate::world::store::lent_bits;
use crate::world::store::lock;
use crate::world::store::origin::{self, CopyOrigin};
use crate::world::store::state;
use crate::world::{Node, Root, World};

/// A store opened for reading.
#[derive(Debug)]
pub struct Store {
    root: Root,
    state: OwnedFd,
    copied: OnceLock<Option<CopyOrigin>>,
    is_git_dir: OnceLock<bool>,
    version_sums: VersionSums,
}

impl Store {
    /// Opens a store for reading.
    ///
    /// # Errors
    /// `ENOENT`; [`Error::Refused`] where the directory has never been a store; [`Error::System`] where this user may
    /// not read it.
    pub fn open(path: &Path) -> Result<Store> {
        Store::from_root(Root::open_store(path)?, path)
    }

    /// Opens a store whose directory is open, for reading. `at` is its path, for messages.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn from_root(root: Root, at: &Path) -> Result<Store> {
        let root = root.for_operator();
        state::refuse_strangers(&root, at)?;
        Store::in_root(root)?.ok_or_else(|| {
            Error::refused(
                format!("{} is not a store: it was never mounted", at.display()),
                "Give the directory that `trumanfs mount STORE HOME` was given, or the home itself.",
            )
        })
    }

    /// Returns whether the store is a git directory itself (`gitrepository-layout(5)`).
    pub fn is_git_dir(&self) -> bool {
        *self.is_git_dir.get_or_init(|| {
            let has = |name: &[u8]| {
                let top = self.root.dir(&WorldPath::root());
                top.is_ok_and(|top| Name::new(name).is_ok_and(|name| top.stat(name).is_ok()))
            };
            has(b"HEAD") && has(b"objects") && has(b"refs")
        })
    }

    /// Opens the same store anew, without its path.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn reopen(&self) -> Result<Store> {
        Store::in_root(self.root.duplicate()?)?.ok_or(Error::NotFound)
    }

    fn in_root(root: Root) -> Result<Option<Store>> {
        let Some(state) = state::open_unlocked(&root)? else {
            return Ok(None);
        };
        let store = Store {
            root,
            state,
            copied: OnceLock::new(),
            is_git_dir: OnceLock::new(),
            version_sums: VersionSums::default(),
        };
        let is_fresh = || {
            store
                .copy_origin()
                .is_ok_and(|copied| copied.is_some_and(|it| it.is_fresh))
        };
        lent_bits::take_back(&store.root, (store.state.as_fd(), None), is_fresh);
        Ok(Some(store))
    }

    /// Opens the store of a world for reading.
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    pub fn of(world: &World) -> Result<Store> {
        let state =
            rustix::io::fcntl_dupfd_cloexec(world.state(), 0).map_err(Error::os("fcntl"))?;
        Ok(Store {
            root: world.root().duplicate()?.for_operator(),
            state,
            copied: OnceLock::new(),
            is_git_dir: OnceLock::new(),
            version_sums: VersionSums::default(),
        })
    }

    /// Returns the process that serves, or last served, the store.
    ///
    /// # Errors
    /// Those of reading the lock.
    pub fn holder(&self) -> Result<Option<StoreHolder>> {
        crate::world::store::holder::holder(std::os::fd::AsFd::as_fd(&self.state))
    }

    /// Returns whether the store is being served.
    ///
    /// # Errors
    /// Those of `flock(2)`.
    pub fn is_served(&self) -> Result<bool> {
        lock::is_held(std::os::fd::AsFd::as_fd(&self.state))
    }

    /// Returns the daemon that serves the store at this moment. A command that holds the store does not count.
    ///
    /// # Errors
    /// Those of `flock(2)`.
    pub fn served_by(&self) -> Result<Option<StoreHolder>> {
        lock::serving_daemon(std::os::fd::AsFd::as_fd(&self.state))
    }

    /// Returns whether the store is a copy, in which the inodes recorded by earlier sessions are invalid.
    ///
    /// # Errors
    /// Those of reading the sessions.
    pub fn copy_origin(&self) -> Result<Option<&CopyOrigin>> {
        if self.copied.get().is_none() {
            let named = self.holder()?.map(|holder| holder.session);
            let state = std::os::fd::AsFd::as_fd(&self.state);
            let copied = origin::find_copy_origin(&self.root, state, named.as_deref())?;
            let _ = self.copied.set(copied);
        }
        Ok(self.copied.get().and_then(Option::as_ref))
    }

    /// Returns whether a session was recorded in the original of a copied store.
    ///
    /// # Errors
    /// As [`Store::copy_origin`].
    pub fn is_foreign(&self, session: &str) -> Result<bool> {
        let copied = self.copy_origin()?;
        Ok(copied.is_some_and(|copied| session <= copied.last.as_str()))
    }

    /// Refuses to rely on the records of a session that was recorded in the original of a copied store.
    ///
    /// # Errors
    /// [`Error::Refused`], naming the sessions and the remedy; those of reading the sessions.
    pub fn expect_trusted(&self, session: &str) -> Result<()> {
        match self.copy_origin()? {
            Some(copied) if self.is_foreign(session)? => Err(Error::refused(
                format!(
                    "this store is a copy: session {} and those before it were recorded in the original, and what they say of inodes does not hold here",
                    copied.last
                ),
                "Nothing was changed. Do it in the original. Here there are `trumanfs log`, `show`, `trash list` and `trash restore`; what was done in the copy itself can be taken back.",
            )),
            _ => Ok(()),
        }
    }

    /// Opens a file for reading, even if its mode forbids that to its owner.
    ///
    /// # Errors
    /// Any error from `open(2)`.
    pub fn open_file(&self, node: &Node) -> Result<OwnedFd> {
        self.root.open_to_read(node)
    }

    /// Returns whether a version has the bytes that were kept, as far as a digest says.
    ///
    /// # Errors
    /// As [`VersionSums::is_as_kept`].
    fn is_as_kept(&self, session: &str, n: u64) -> Result<bool> {
        self.version_sums.is_as_kept(&self.state, session, n)
    }

    /// Returns the resolver of paths.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the state directory's descriptor.
    pub fn state(&self) -> &OwnedFd {
        &self.state
    }
}
