//! Sessions, operations, points, and the names that points are given.

use super::target::Client;
use crate::control::{ControlAnswer, ControlRequest};
use crate::error::{Error, Result};
use crate::operator::checkpoint::{self, Checkpoint};
use crate::operator::point::{self, Operation, Point};
use crate::operator::run::{self, RecentRun, RunSummary};
use crate::operator::turn::{self, RunTurn, TurnSummary};
use crate::world::{Caller, RunId};

impl Client {
    /// Finds a session, as [`point::session`].
    ///
    /// # Errors
    /// As [`point::session`].
    pub fn session(&self, text: &str) -> Result<String> {
        point::session(&self.store, text)
    }

    /// Finds a run, as [`run::find`].
    ///
    /// # Errors
    /// As [`run::find`].
    pub fn run(&self, text: &str) -> Result<RunSummary> {
        run::find(&self.store, text)
    }

    /// Finds a turn, as [`turn::find`], of the newest conversation or of a run as it was typed.
    ///
    /// # Errors
    /// As [`turn::find`] and [`run::find`].
    pub fn turn(&self, run: Option<&str>, text: &str) -> Result<RunTurn> {
        let run = run.map(|run| self.run(run)).transpose()?;
        turn::find(&self.store, run.map(|run| run.id), text)
    }

    /// Counts the changes of a run by turns, as [`turn::summaries`].
    ///
    /// # Errors
    /// As [`turn::summaries`].
    pub fn turns_of(&self, run: RunId) -> Result<Vec<TurnSummary>> {
        turn::summaries(&self.store, run)
    }

    /// Returns the number of the last turn of a conversation, as [`turn::last_number`].
    ///
    /// # Errors
    /// As [`turn::last_number`].
    pub fn last_turn(&self, conversation: &str) -> Result<u32> {
        turn::last_number(&self.store, conversation)
    }

    /// Returns the newest runs, as [`run::recent`].
    ///
    /// # Errors
    /// As [`run::recent`].
    pub fn recent_runs(&self, most: usize) -> Result<Vec<RecentRun>> {
        run::recent(&self.store, most)
    }

    /// Returns the ids of all sessions, the newest first.
    ///
    /// # Errors
    /// As [`point::session_ids`].
    pub fn session_ids(&self) -> Result<Vec<String>> {
        point::session_ids(&self.store)
    }

    /// Finds a record, as [`point::operation`].
    ///
    /// # Errors
    /// As [`point::operation`].
    pub fn operation(&self, text: &str) -> Result<Operation> {
        point::operation(&self.store, text)
    }

    /// Finds a point, as [`point::point`].
    ///
    /// # Errors
    /// As [`point::point`].
    pub fn point(&self, text: &str) -> Result<Point> {
        point::point(&self.store, text)
    }

    /// Finds two points, as [`point::range`].
    ///
    /// # Errors
    /// As [`point::range`].
    pub fn range(&self, text: &str) -> Result<(Point, Point)> {
        point::range(&self.store, text)
    }

    /// Gives the present point a name.
    ///
    /// # Errors
    /// As [`checkpoint::create`]; as [`Client::open`] where the store cannot be had.
    pub fn checkpoint(&self, name: &str) -> Result<Checkpoint> {
        let request = ControlRequest::Checkpoint {
            name: name.to_owned(),
        };
        let seq = self.make_change(
            &request,
            |answer| match answer {
                ControlAnswer::Checkpoint(seq) => Some(seq),
                _ => None,
            },
            |store, backend| checkpoint::create(store, backend.world(), name, Caller::myself()),
        )?;
        let mut known = self.checkpoints()?.into_iter();
        known
            .find(|known| known.name == name && known.seq == seq)
            .ok_or(Error::NotFound)
    }

    /// Lists all checkpoints, the newest first.
    ///
    /// # Errors
    /// As [`checkpoint::list`].
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        checkpoint::list(&self.store)
    }
}
