//! Requests about names: looking up, making, removing, moving.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{INodeNo, RenameFlags};

use super::FileSystem;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::{Caller, Dir, Meta, Renaming};

impl FileSystem {
    /// Looks an entry up. Also returns, even for what is not there, how long the kernel may believe it.
    pub(super) fn look_up(&self, parent: u64, name: &OsStr) -> (Duration, Result<fuser::FileAttr>) {
        let mut ttl = Duration::ZERO;
        let found = Name::new(name.as_bytes()).and_then(|name| {
            let (dir, life) = self.listed_dir(parent)?;
            ttl = life;
            let found = self.world().lookup(&dir, name)?;
            if crate::world::view::in_trash(&found.path()) {
                ttl = Duration::ZERO;
            }
            let attr = self.entry(parent, name, &found.meta);
            if self.shared.handles.is_emptying(attr.ino.0) {
                ttl = Duration::ZERO;
            }
            Ok(attr)
        });
        (ttl, found)
    }

    /// Does something in a directory that the kernel is then told the outcome of.
    pub(super) fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        act: impl FnOnce(&Dir, Name<'_>) -> Result<Meta>,
    ) -> Result<(Duration, fuser::FileAttr)> {
        let name = Name::new(name.as_bytes())?;
        let (dir, ttl) = self.listed_dir(parent.0)?;
        let meta = act(&dir, name)?;
        let attr = self.entry(parent.0, name, &meta);
        match self.shared.handles.is_emptying(attr.ino.0) {
            true => Ok((Duration::ZERO, attr)),
            false => Ok((ttl, attr)),
        }
    }

    /// Removes anything but a directory.
    pub(super) fn remove_file(&self, parent: INodeNo, name: &OsStr, caller: Caller) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        let removed = self.world().unlink(&self.dir(parent.0)?, name, caller)?;
        self.inodes()
            .removed((parent.0, name), removed.id, removed.entry.bytes());
        Ok(())
    }

    /// Removes a directory.
    pub(super) fn remove_dir(&self, parent: INodeNo, name: &OsStr, caller: Caller) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        let dir = self.dir(parent.0)?;
        let _moving = self.inodes().moving();
        let outcome = self.world().rmdir(&dir, name, caller);
        if let Ok(removed) = &outcome {
            self.inodes()
                .removed((parent.0, name), removed.id, removed.entry.bytes());
            self.inodes().gathered(removed.id, &removed.gathered);
            self.inodes().retire(removed.id);
        }
        outcome.map(|_| ())
    }

    /// Moves an entry.
    pub(super) fn move_entry(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (newparent, newname): (INodeNo, &OsStr),
        flags: RenameFlags,
        caller: Caller,
    ) -> Result<()> {
        let how = match flags {
            f if f.is_empty() => Renaming::Replace,
            RenameFlags::RENAME_NOREPLACE => Renaming::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Renaming::Exchange,
            _ => return Err(Error::Invalid),
        };
        let (name, newname) = (Name::new(name.as_bytes())?, Name::new(newname.as_bytes())?);
        let (dir, newdir) = (self.dir(parent.0)?, self.dir(newparent.0)?);
        let _moving = self.inodes().moving();
        let outcome = self
            .world()
            .rename(&dir, name, &newdir, newname, how, caller);
        if let Ok(moved) = &outcome {
            let (from, to) = ((parent.0, name), (newparent.0, newname));
            if let Some(replaced) = &moved.replaced {
                self.inodes()
                    .removed(to, replaced.id, replaced.entry.bytes());
                if replaced.directory {
                    self.inodes().retire(replaced.id);
                }
            }
            self.inodes().moved(from, to, moved.id);
            if let Some(other) = moved.exchanged {
                self.inodes().moved(to, from, other);
            }
        }
        outcome.map(|_| ())
    }
}
