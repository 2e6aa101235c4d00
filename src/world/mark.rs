//! Operations without a system call: an operator's records, the beginning and end of runs, and moving a whole tree into
//! the trash.

use super::remove::RemovedNode;
use super::root::Dir;
use super::{Caller, World};
use crate::error::{Error, Result};
use crate::journal::{Op, PendingRecord, Run, RunId};
use crate::name::Name;

impl World {
    /// Records the start of an undo; the changes that belong to it have the same run ([`Caller::origin`]). If the undo
    /// changes nothing, the record is taken back ([`PendingRecord::abort`]).
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`; the undo must then not act.
    pub fn note_undo(
        &self,
        what: String,
        of: Vec<(String, u64, u64)>,
        redo: bool,
        caller: Caller,
    ) -> Result<PendingRecord<'_>> {
        let op = Op::Undo { what, of, redo };
        self.journal.begin(op, &[], Some(&self.author(caller)))
    }

    /// Announces the start of a run; callers that work for it have its origin ([`Caller::for_run`]). Its record is
    /// written before the first record that it causes.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the session already has a run with this id.
    pub fn begin_run(&self, run: &Run) -> Result<()> {
        self.journal.begin_run(run).map_err(|_| Error::Conflict {
            what: format!("there has been a run {} in this session", run.id),
            remedy: "Each request has an id of its own.".to_owned(),
        })
    }

    /// Records that a run has ended. Returns whether the run recorded anything.
    pub fn end_run(&self, id: RunId) -> bool {
        // Its last record is written before its end.
        self.gather_now();
        self.journal.end_run(id)
    }

    /// Records a named checkpoint and returns the number of its record.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`.
    pub fn note_checkpoint(&self, name: &str, caller: Caller) -> Result<u64> {
        let op = Op::Checkpoint {
            name: name.to_owned(),
        };
        self.journal.note(op, Some(&self.author(caller)))
    }

    /// Records that an operator accepts changes ([`Op::Accept`]), and returns the number of the record.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`.
    pub fn note_accept(&self, accept: Op, caller: Caller) -> Result<u64> {
        self.journal.note(accept, Some(&self.author(caller)))
    }

    /// Moves a file, or a directory with everything in it, into the trash as one entry. For operators, and for the
    /// shell's `rm -r` on an unmounted store; rmdir(2) takes only an empty directory.
    ///
    /// # Errors
    /// `ENOENT`; `EROFS`; any error from `renameat2(2)` or the journal's `write(2)`. On failure nothing has changed.
    pub fn discard(&self, dir: &Dir, name: Name<'_>, caller: Caller) -> Result<RemovedNode> {
        let mut names = Some(self.names.read());
        let found = self.view.admit_for(dir, name, caller)?;
        let directory = found.meta.is_dir();
        self.view.changeable_for(&found.path(), directory, caller)?;
        if directory {
            names = None;
            self.before_moving(&found, caller)?;
        }
        let op = |path, ids, trash| {
            if directory {
                Op::Rmdir { path, ids, trash }
            } else {
                Op::Unlink { path, ids, trash }
            }
        };
        self.secure_found(&found, true)?;
        let names = names.unwrap_or_else(|| self.names.read());
        let entry = self.move_to_trash(&found, op, &self.author(caller))?;
        drop(names);
        Ok(RemovedNode {
            id: found.meta.id,
            entry,
            directory,
            gathered: Vec::new(),
        })
    }
}
