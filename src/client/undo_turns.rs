//! Taking turns back: [`Client::undo_request_for_turns`].

use super::target::Client;
use super::undo::{UndoOptions, UndoQuery};
use crate::error::{Error, Result};
use crate::operator::point::Point;
use crate::operator::turn::{self, RunTurn, SharedFile};
use crate::operator::undo::{OnConflict, TurnScope, UndoRequest, UndoScope};

impl Client {
    /// Finds out what is to be taken back of turns: one, or one and the later ones of its conversation.
    ///
    /// # Errors
    /// As [`turn::find`]; [`Error::Conflict`] where a file was open for writing when such a turn began or ended, unless what
    /// is in the way goes.
    pub(super) fn undo_request_for_turns(
        &self,
        what: &UndoQuery,
        how: UndoOptions,
    ) -> Result<UndoRequest> {
        let run = what.run.as_ref().map(|run| self.run(run)).transpose()?;
        let run = run.map(|run| run.id);
        let turns = match (&what.turn, &what.to_turn) {
            (Some(turn), _) => vec![turn::find(&self.store, run, turn)?],
            (None, to) => turn::find_since(&self.store, run, to.as_deref().unwrap_or("last"))?,
        };
        if how.on_conflict == OnConflict::Stop {
            expect_whole(&turns)?;
        }
        let (Some(newest), Some(asked)) = (turns.first(), turns.last()) else {
            return Err(Error::NotFound);
        };
        let number = asked.mark.turn.to_string();
        // `last` may mean another turn when the record is read.
        let named = UndoQuery {
            run: Some(newest.run.to_string()),
            turn: what.turn.as_ref().map(|_| number.clone()),
            to_turn: what.to_turn.as_ref().map(|_| number),
            ..what.clone()
        };
        Ok(UndoRequest {
            scope: UndoScope::Matching {
                from: Point::After(asked.begin.clone()),
                session: None,
                run: None,
                turns: Some(TurnScope {
                    number: asked.mark.turn,
                    and_later: what.to_turn.is_some(),
                    ranges: turns.iter().map(RunTurn::range).collect(),
                }),
                pid: what.pid,
                program: what.program.clone(),
                paths: what.paths.clone(),
            },
            on_conflict: how.on_conflict,
            dry_run: how.dry_run,
            what: format!("undo{}", named.record_words()),
            joint: None,
        })
    }
}

/// Expects that no file was open for writing across the bounds of turns that are to be taken back.
///
/// # Errors
/// [`Error::Conflict`] naming such files.
pub(super) fn expect_whole(turns: &[RunTurn]) -> Result<()> {
    /// The most that are named.
    const MAX_NAMED: usize = 5;
    let shared = turn::shared_files(turns);
    if shared.is_empty() {
        return Ok(());
    }
    let in_words = |file: &SharedFile| {
        let path = match &file.path {
            Some(path) => path.to_string(),
            None => "further files".to_owned(),
        };
        let turn = file.turn;
        match file.is_earlier {
            true => format!(
                "{path} was open for writing when turn {turn} began: its change belongs to an earlier turn"
            ),
            false => format!(
                "{path} was open for writing when turn {turn} ended: what later turns wrote to it would go, too"
            ),
        }
    };
    let mut named: Vec<String> = shared.iter().take(MAX_NAMED).map(in_words).collect();
    if shared.len() > MAX_NAMED {
        named.push(format!("and {} more", shared.len() - MAX_NAMED));
    }
    Err(Error::Conflict {
        what: named.join("; "),
        remedy: "Nothing was changed. Take the turns back together (--to-turn), or the run (--run), or say --force."
            .to_owned(),
    })
}
