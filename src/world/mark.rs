//! What no system call does to the world: an operator's marks in the journal, and moving a whole tree into the trash.

use super::remove::Removed;
use super::root::Dir;
use super::{Caller, World};
use crate::error::Result;
use crate::journal::{Op, Pending};
use crate::name::Name;

impl World {
    /// Records that an undo begins; the changes that belong to it name its number ([`Caller::undo`]). Where it turns out to
    /// change nothing, the record is taken back ([`Pending::abort`]).
    ///
    /// # Errors
    /// What the journal's `write(2)` says; then nothing may be done.
    pub fn note_undo(
        &self,
        what: String,
        of: Vec<(String, u64, u64)>,
        redo: bool,
        caller: Caller,
    ) -> Result<Pending<'_>> {
        let op = Op::Undo { what, of, redo };
        self.journal.begin(op, &[], Some(&self.actor(caller)))
    }

    /// Gives this point a name, and returns the number of the record.
    ///
    /// # Errors
    /// What the journal's `write(2)` says.
    pub fn note_checkpoint(&self, name: &str, caller: Caller) -> Result<u64> {
        let op = Op::Checkpoint {
            name: name.to_owned(),
        };
        self.journal.note(op, Some(&self.actor(caller)))
    }

    /// Moves anything into the trash, a directory with all that is in it as one entry. An operator does so, and
    /// the shell's `rm -r` where nothing is mounted; with a system call it must be empty.
    ///
    /// # Errors
    /// `ENOENT`; `EROFS`; what `renameat2(2)` and the journal's `write(2)` say, then nothing has changed.
    pub fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<Removed> {
        let mut names = Some(self.names.read());
        let found = self.view.admit_for(dir, name, caller)?;
        let directory = found.meta.is_dir();
        self.view.changeable_for(&found.path(), directory, caller)?;
        if directory {
            names = None;
            self.before_moving(&found, caller)?;
        }
        let op = |path, ids, trash| match directory {
            true => Op::Rmdir { path, ids, trash },
            false => Op::Unlink { path, ids, trash },
        };
        self.secure_found(&found, true)?;
        let entry = self.retire(&found, op, &self.actor(caller))?;
        drop(names);
        Ok(Removed {
            id: found.meta.id,
            entry,
            directory,
            gathered: Vec::new(),
        })
    }
}
