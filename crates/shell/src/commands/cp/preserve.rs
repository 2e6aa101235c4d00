//! The attributes that a copy gets from its source: mode, owner and times.

use rustix::io::Errno;

use crate::call::{CommandError, usage_error};
use crate::mode::umask;
use crate::options::ParsedArgs;
use crate::quote::quoted;
use trumanfs_executor::Home;
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::error::{Error, Result};
use trumanfs_types::meta::Meta;
use trumanfs_types::name::WorldPath;

/// The mode bits that a copied file gets from its source, before the umask.
const FILE_BITS: u32 = 0o777;
/// The mode bits that a copied directory gets from its source, before the umask.
const DIRECTORY_BITS: u32 = 0o1777;
/// The owner's bits: a directory needs them while it is filled, and a copy that gets another owner has no others
/// before the `chown`.
const OWNER_BITS: u32 = 0o700;
/// Set-user-id and set-group-id, which must not survive a failed change of owner.
const SET_IDS: u32 = 0o6000;

/// The attributes that are preserved (`--preserve`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PreservedAttrs {
    mode: bool,
    owner: bool,
    times: bool,
}

impl PreservedAttrs {
    /// Preserves all attributes that can be preserved.
    pub(super) fn all() -> PreservedAttrs {
        PreservedAttrs {
            mode: true,
            owner: true,
            times: true,
        }
    }

    /// Reads the options.
    ///
    /// # Errors
    /// [`CommandError::Usage`] for an attribute that cannot be preserved.
    pub(super) fn read(
        typed: &ParsedArgs<'_>,
    ) -> std::result::Result<PreservedAttrs, CommandError> {
        let mut keep = PreservedAttrs::default();
        for (letter, value) in &typed.options {
            let list = match (letter, value) {
                ('a', _) | ('p', None) => &b"mode,ownership,timestamps"[..],
                ('p', Some(list)) => list,
                _ => continue,
            };
            for attribute in list.split(|b| *b == b',') {
                match attribute {
                    b"mode" => keep.mode = true,
                    b"ownership" => keep.owner = true,
                    b"timestamps" => keep.times = true,
                    other => {
                        let text = [
                            b"invalid argument ",
                            &quoted(other)[..],
                            b" for '--preserve'",
                        ];
                        return Err(usage_error(text.concat()));
                    }
                }
            }
        }
        Ok(keep)
    }

    /// Returns the mode that a file is created with.
    pub(super) fn file_mode(self, meta: &Meta) -> u32 {
        meta.permissions() & if self.owner { OWNER_BITS } else { FILE_BITS }
    }

    /// Returns the mode that a directory is created with.
    pub(super) fn directory_mode(self, meta: &Meta) -> u32 {
        meta.permissions()
            & if self.owner {
                OWNER_BITS
            } else {
                DIRECTORY_BITS
            }
            | OWNER_BITS
    }

    /// Sets the preserved attributes on a copy. `made` is the mode that it was created with, if this call created it.
    ///
    /// # Errors
    /// As [`Home::set_attrs`].
    pub(super) fn apply(
        self,
        home: &dyn Home,
        path: &WorldPath,
        meta: &Meta,
        made: Option<u32>,
    ) -> Result<()> {
        let plain = meta.permissions()
            & if meta.is_dir() {
                DIRECTORY_BITS
            } else {
                FILE_BITS
            };
        let mode = match made {
            _ if self.mode => Some(meta.permissions()),
            Some(made) if made != plain => Some(plain & !umask()),
            _ => None,
        };
        let (atime, mtime) = if self.times {
            (SetTime::To(meta.atime), SetTime::To(meta.mtime))
        } else {
            (SetTime::Keep, SetTime::Keep)
        };
        let change = SetAttrs {
            mode,
            atime,
            mtime,
            ..SetAttrs::default()
        };
        if self.owner {
            let now = home.stat(path)?;
            if (now.uid, now.gid) != (meta.uid, meta.gid) {
                return change_owner(home, path, meta, change);
            }
        }
        if change == SetAttrs::default() {
            Ok(())
        } else {
            set_attrs(home, path, change)
        }
    }
}

/// Sets attributes and the owner. A caller who may not give the file away remains its owner: the copy loses
/// set-user-id and set-group-id, and gets the group where that is permitted.
fn change_owner(home: &dyn Home, path: &WorldPath, meta: &Meta, change: SetAttrs) -> Result<()> {
    let (uid, gid) = (Some(meta.uid), Some(meta.gid));
    let refused =
        |error: &Error| matches!(error.errno(), Errno::PERM | Errno::INVAL | Errno::ACCESS);
    match set_attrs(home, path, SetAttrs { uid, gid, ..change }) {
        Err(error) if refused(&error) => {
            let of_group = SetAttrs {
                gid,
                ..SetAttrs::default()
            };
            let _ = home.set_attrs(path, &of_group);
            let mode = change.mode.map(|mode| mode & !SET_IDS);
            home.set_attrs(path, &SetAttrs { mode, ..change })
        }
        set => set,
    }
}

/// Sets attributes. A home that gives no file set-user-id and set-group-id gets the others.
fn set_attrs(home: &dyn Home, path: &WorldPath, change: SetAttrs) -> Result<()> {
    let has_set_ids = change.mode.is_some_and(|mode| mode & SET_IDS != 0);
    match home.set_attrs(path, &change) {
        Err(error) if has_set_ids && error.errno() == Errno::PERM => {
            let mode = change.mode.map(|mode| mode & !SET_IDS);
            home.set_attrs(path, &SetAttrs { mode, ..change })
        }
        set => set,
    }
}
