//! What a copy has of the mode, the owner and the times of its source.

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::exec::Home;
use crate::exec::shell::call::{Stop, usage};
use crate::exec::shell::mode::umask;
use crate::exec::shell::options::ParsedArgs;
use crate::exec::shell::quote::quoted;
use crate::name::WorldPath;
use crate::world::{Meta, SetAttrs, SetTime};

/// What of a file's mode its copy has, before the umask.
const FILE: u32 = 0o777;
/// What of a directory's mode its copy has, before the umask.
const DIRECTORY: u32 = 0o1777;
/// What a directory needs while it is filled, and all that somebody else's has until it is theirs.
const OWNERS: u32 = 0o700;
/// Set-user-id and set-group-id, the rights that go with the owner.
const SET_IDS: u32 = 0o6000;

/// What is kept (`--preserve`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Keep {
    mode: bool,
    owner: bool,
    times: bool,
}

impl Keep {
    /// Reads what was asked for.
    ///
    /// # Errors
    /// [`Stop::Usage`] for what cannot be kept.
    pub(super) fn read(typed: &ParsedArgs<'_>) -> std::result::Result<Keep, Stop> {
        let mut keep = Keep::default();
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
                        return Err(usage(text.concat()));
                    }
                }
            }
        }
        Ok(keep)
    }

    /// Returns the mode that a file is made with.
    pub(super) fn file(self, meta: &Meta) -> u32 {
        meta.permissions() & if self.owner { OWNERS } else { FILE }
    }

    /// Returns the mode that a directory is made with.
    pub(super) fn directory(self, meta: &Meta) -> u32 {
        meta.permissions() & if self.owner { OWNERS } else { DIRECTORY } | OWNERS
    }

    /// Gives a copy what is kept of its source. `made` is the mode that it was made with, if it was.
    ///
    /// # Errors
    /// As [`Home::set`].
    pub(super) fn give(
        self,
        home: &dyn Home,
        path: &WorldPath,
        meta: &Meta,
        made: Option<u32>,
    ) -> Result<()> {
        let plain = meta.permissions() & if meta.is_dir() { DIRECTORY } else { FILE };
        let mode = match made {
            _ if self.mode => Some(meta.permissions()),
            Some(made) if made != plain => Some(plain & !umask()),
            _ => None,
        };
        let (atime, mtime) = match self.times {
            true => (SetTime::To(meta.atime), SetTime::To(meta.mtime)),
            false => (SetTime::Keep, SetTime::Keep),
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
                return give_away(home, path, meta, change);
            }
        }
        match change == SetAttrs::default() {
            true => Ok(()),
            false => home.set_attrs(path, &change),
        }
    }
}

/// Sets attributes and the owner too. Who may not give away what is theirs keeps it, without the rights that go with its
/// owner, and gives it to the group if they may.
fn give_away(home: &dyn Home, path: &WorldPath, meta: &Meta, change: SetAttrs) -> Result<()> {
    let (uid, gid) = (Some(meta.uid), Some(meta.gid));
    let refused =
        |error: &Error| matches!(error.errno(), Errno::PERM | Errno::INVAL | Errno::ACCESS);
    match home.set_attrs(path, &SetAttrs { uid, gid, ..change }) {
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
