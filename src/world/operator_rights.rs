//! An operator's rights beyond the occupant's. Patterns and the rule for symbolic links bind only the occupant.
//!
//! An undo moves nodes back to their former places, and an occupant must not be able to block it, for example by moving
//! a link to a place where it is hidden; nor may a later mount that hides or protects a path. The limits that stay: the
//! store's own directory and other file systems do not exist, and nothing is changed within the trash. The view decides
//! as usual whether the occupant sees a restored file.

use super::root::Dir;
use super::view::{View, VisibleEntry, in_trash};
use super::{Caller, LocatedNode, World};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::store::layout::STATE;
use trumanfs_types::meta::Meta;

/// Returns whether the caller is an operator.
fn is_operator(caller: Caller) -> bool {
    caller.origin.is_undo()
}

impl View {
    /// Looks up an entry with the caller's rights.
    ///
    /// # Errors
    /// As [`View::admit`].
    pub(super) fn admit_for<'a>(
        &self,
        dir: &'a Dir,
        name: Name<'a>,
        caller: Caller,
    ) -> Result<VisibleEntry<'a>> {
        if !is_operator(caller) {
            return self.admit(dir, name);
        }
        let meta = dir.stat(name)?;
        if meta.mount_root || self.is_state(dir, name, &meta) {
            Err(Error::NotFound)
        } else {
            Ok(VisibleEntry { dir, name, meta })
        }
    }

    /// Checks that the caller may change a path.
    ///
    /// # Errors
    /// As [`View::expect_changeable`].
    pub(super) fn expect_changeable_for(
        &self,
        path: &WorldPath,
        is_dir: bool,
        caller: Caller,
    ) -> Result<()> {
        if !is_operator(caller) {
            self.expect_changeable(path, is_dir)
        } else if in_trash(path) {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Returns the path of a name at which something may be created.
    ///
    /// # Errors
    /// As [`View::admit_vacant`].
    pub(super) fn admit_vacant_for(
        &self,
        dir: &Dir,
        name: Name<'_>,
        is_dir: bool,
        caller: Caller,
    ) -> Result<WorldPath> {
        if !is_operator(caller) {
            return self
                .admit_vacant(dir, name, is_dir)
                .map(|vacant| vacant.path());
        }
        if dir.path().is_root() && name.bytes() == STATE {
            return Err(Error::NotFound);
        }
        let path = dir.path().join(name);
        self.expect_changeable_for(&path, is_dir, caller)?;
        Ok(path)
    }

    fn is_state(&self, dir: &Dir, name: Name<'_>, meta: &Meta) -> bool {
        self.state_id() == Some(meta.id) || (dir.path().is_root() && name.bytes() == STATE)
    }
}

impl World {
    /// Looks up an entry with the caller's rights and opens it.
    ///
    /// # Errors
    /// As [`World::locate`].
    pub fn locate_for(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<LocatedNode> {
        LocatedNode::of(&self.view.admit_for(dir, name, caller)?)
    }

    /// Returns whether the caller may move a symlink to a directory: for the occupant it must be visible there.
    pub(super) fn may_lead_from(
        &self,
        found: &VisibleEntry<'_>,
        dir: &Dir,
        caller: Caller,
    ) -> Result<bool> {
        if found.meta.kind != rustix::fs::FileType::Symlink || is_operator(caller) {
            return Ok(true);
        }
        let target = rustix::fs::readlinkat(found.dir, found.name.bytes(), Vec::new());
        let target = target.map_err(Error::os("readlinkat"))?;
        Ok(self.view.admits_target(dir.path(), target.as_bytes()))
    }

    /// Refuses to move a directory that contains protected paths, unless an operator acts.
    pub(super) fn expect_nothing_protected(&self, dir: &WorldPath, caller: Caller) -> Result<()> {
        let depends = !is_operator(caller) && self.view.depends_on_place();
        if depends && self.holds_protected(dir)? {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }
}
