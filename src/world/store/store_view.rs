//! The read-only view of a store: paths resolved as the occupant sees them.
//!
//! Owns the lookup of paths for both kinds of users: a [`World`](crate::world::World), which changes the store, and a
//! reader ([`ReadOnlyStore`](crate::world::ReadOnlyStore)).

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::list::{DirEntry, list_raw};
use crate::world::located::LocatedNode;
use crate::world::root::{Dir, HiddenDir, Root, stat_at, stat_fd};
use crate::world::store::layout::{STATE, is_own_name};
use crate::world::view::{View, VisibleEntry};
use trumanfs_types::meta::{Id, Meta};

/// A store and the rules that decide what exists in it.
#[derive(Debug, Clone, Copy)]
pub struct StoreView<'a> {
    pub(in crate::world) root: &'a Root,
    pub(in crate::world) view: &'a View,
    /// The state directory; absent if the store has none yet.
    pub(in crate::world) state: Option<Id>,
}

impl<'s> StoreView<'s> {
    /// Returns the rules of visibility.
    pub fn view(&self) -> &'s View {
        self.view
    }

    /// Resolves a directory as the occupant sees it: each component must be visible.
    ///
    /// # Errors
    /// `ENOENT` if any component is absent or hidden; `ENOTDIR`.
    pub fn dir(&self, path: &WorldPath) -> Result<Dir> {
        if self.shows_all_of(path)
            && let Ok(dir) = self.root.dir(path)
        {
            return Ok(dir);
        }
        // Component by component, which also finds the right error: the obstacle may be hidden.
        let mut dir = self.root.dir(&WorldPath::root())?;
        for name in path.components() {
            let found = self.view.admit(&dir, name)?;
            if !found.meta.is_dir() {
                return Err(Error::NotDirectory);
            }
            dir = dir.child(name)?;
        }
        Ok(dir)
    }

    /// Returns whether a path may be resolved in one call. The state directory is recognised by its place, so it must
    /// be there.
    fn shows_all_of(&self, path: &WorldPath) -> bool {
        let state = || stat_at(self.root.as_fd(), Name::new(STATE)?);
        let in_place = || match self.state {
            // No component precedes the root.
            Some(id) => {
                let is_apart = path.is_root() || self.root.has_state_elsewhere();
                is_apart || state().is_ok_and(|meta| meta.id == id)
            }
            None => true,
        };
        let hidden = |hidden: &HiddenDir| {
            let node = self.root.node(&hidden.path);
            path.is_root() || node.is_ok_and(|node| node.meta().id == hidden.id)
        };
        self.view.hides_no_directory(path)
            && in_place()
            && self.view.hidden_dir().is_none_or(hidden)
    }

    /// Resolves the directory that holds a path, and the path's last name.
    ///
    /// # Errors
    /// As [`StoreView::dir`]; `EBUSY` for the root, which has no parent.
    pub fn parent<'a>(&self, path: &'a WorldPath) -> Result<(Dir, Name<'a>)> {
        let busy = Error::os("resolve")(rustix::io::Errno::BUSY);
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(busy);
        };
        Ok((self.dir(&parent)?, name))
    }

    /// Returns the attributes of a path, which may be the root.
    ///
    /// # Errors
    /// As [`StoreView::dir`] and [`View::admit`].
    pub fn stat(&self, path: &WorldPath) -> Result<Meta> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return stat_fd(self.root.as_fd());
        };
        if parent.is_root() {
            // The root is already open.
            let from = match is_own_name(name.bytes()) {
                true => self.root.state_place(),
                false => self.root.as_fd(),
            };
            let meta = stat_at(from, name)?;
            match self.view.exists_in_root(name, &meta) {
                Some(true) => return Ok(meta),
                Some(false) => return Err(Error::NotFound),
                None => {}
            }
        }
        let dir = self.dir(&parent)?;
        self.view.admit(&dir, name).map(|found| found.meta)
    }

    /// Looks up an entry.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn lookup<'a>(&self, dir: &'a Dir, name: Name<'a>) -> Result<VisibleEntry<'a>> {
        self.view.admit(dir, name)
    }

    /// Looks up an entry and opens it.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub fn locate(&self, dir: &Dir, name: Name<'_>) -> Result<LocatedNode> {
        LocatedNode::of(&self.view.admit(dir, name)?)
    }

    /// Looks up a path, which may be the root, and opens what is there.
    ///
    /// # Errors
    /// As [`StoreView::dir`] and [`View::admit`].
    pub fn find(&self, path: &WorldPath) -> Result<LocatedNode> {
        if path.is_root() {
            return Ok(LocatedNode {
                node: self.root.node(path)?,
                path: path.clone(),
                removed: false,
            });
        }
        let (dir, name) = self.parent(path)?;
        self.locate(&dir, name)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `EISDIR`; `EINVAL` if it is not a regular file; any error from `open(2)`, such as `EACCES`.
    pub fn read(&self, located: &LocatedNode) -> Result<OwnedFd> {
        if located.node.meta().is_dir() {
            Err(Error::IsDirectory)
        } else {
            self.root.reopen(&located.node, OFlags::RDONLY)
        }
    }

    /// Passes the visible entries from a position on to `visit`, until it returns false.
    ///
    /// # Errors
    /// `EACCES` if the directory may not be read; any error from `getdents64(2)`.
    pub fn list(
        &self,
        dir: &Dir,
        from: u64,
        mut visit: impl FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        list_raw(self.root, dir, from, |entry| {
            let exists = match Name::new(entry.name) {
                Ok(name) => self.view.is_listed(dir, name, entry.kind, entry.ino),
                Err(_) => true, // `.` and `..`
            };
            !exists || visit(entry)
        })
    }

    /// Returns the number of hard links that the occupant sees, given how many are in the trash.
    pub fn links_shown(&self, meta: &Meta, removed: bool, trashed: u32) -> u32 {
        if meta.is_dir() && removed {
            return 0;
        }
        if meta.is_dir() {
            // A directory's count is two plus its sub-directories; the root also has the trash and the state
            // directory.
            let has_own = self.state.is_some() && !self.root.has_state_elsewhere();
            return if meta.id == self.root.id() && has_own {
                meta.nlink.saturating_sub(2).max(2)
            } else {
                meta.nlink
            };
        }
        let shown = meta.nlink.saturating_sub(trashed);
        if !removed {
            shown.max(1)
        } else if trashed == 0 {
            meta.nlink.saturating_sub(1)
        } else {
            shown
        }
    }
}
