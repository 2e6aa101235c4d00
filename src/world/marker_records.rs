//! Records that mark a point or a run and change no file: starts of undos, beginnings and ends of runs, checkpoints,
//! acceptances.

use super::{Caller, World};
use crate::error::{Error, Result};
use crate::journal::{LeftState, Op, PendingRecord, Run, RunId, TurnMark};
use crate::name::EscapedBytes;

impl World {
    /// Records the start of an undo; the changes that belong to it have the same run ([`Caller::origin`]). If the undo
    /// changes nothing, the record is taken back ([`PendingRecord::abort`]).
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`; the undo must then not act.
    pub fn begin_undo_record(
        &self,
        what: String,
        of: Vec<(String, u64, u64)>,
        redo: bool,
        caller: Caller,
    ) -> Result<PendingRecord<'_>> {
        self.begin_joint_undo_record(what, of, (redo, Vec::new()), caller)
    }

    /// As [`World::begin_undo_record`], of an undo that is made in other stores as well: their paths come after whether
    /// an undo is undone.
    ///
    /// # Errors
    /// As [`World::begin_undo_record`].
    pub fn begin_joint_undo_record(
        &self,
        what: String,
        of: Vec<(String, u64, u64)>,
        (redo, also): (bool, Vec<EscapedBytes>),
        caller: Caller,
    ) -> Result<PendingRecord<'_>> {
        let op = Op::Undo {
            what,
            of,
            redo,
            also,
        };
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

    /// Returns whether a run that goes on has recorded anything so far.
    pub fn run_has_recorded(&self, id: RunId) -> bool {
        self.gather_now();
        self.journal.run_has_recorded(id)
    }

    /// Records that a run has ended. Returns whether the run recorded anything.
    pub fn end_run(&self, id: RunId) -> bool {
        // Its last record is written before its end.
        self.gather_now();
        let recorded = self.journal.end_run(id);
        if recorded {
            self.note_run_left();
        }
        recorded
    }

    /// Records a named checkpoint and returns the number of its record.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`.
    pub fn note_checkpoint(&self, name: &str, caller: Caller) -> Result<u64> {
        let op = Op::Checkpoint {
            name: name.to_owned(),
            mark: None,
        };
        self.journal.note(op, Some(&self.author(caller)))
    }

    /// Records that a turn begins in the caller's run ([`Caller::for_run`]), and returns the number of the record.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`.
    pub fn note_turn(&self, mark: TurnMark, caller: Caller) -> Result<u64> {
        let op = Op::Checkpoint {
            name: String::new(),
            mark: Some(mark),
        };
        self.journal.note(op, Some(&self.author(caller)))
    }

    /// Records which files an unknown writer changed directly in the store.
    ///
    /// # Errors
    /// As [`Journal::note_unknown_writes`](crate::journal::Journal::note_unknown_writes).
    pub fn note_unknown_writes(&self, states: Vec<LeftState>) -> Result<()> {
        self.journal.note_unknown_writes(states)
    }

    /// Records that an operator accepts changes ([`Op::Accept`]), and returns the number of the record.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`.
    pub fn note_accept(&self, accept: Op, caller: Caller) -> Result<u64> {
        self.journal.note(accept, Some(&self.author(caller)))
    }
}
