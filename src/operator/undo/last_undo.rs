//! Finds the undo that `redo` takes back if the operator names none.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{Op, RunId, UndoId};
use crate::operator::Store;
use crate::operator::past::ReverseRecords;
use crate::operator::point::Operation;

/// The newest undo or restore, which `redo` takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUndo {
    /// Its record.
    pub operation: Operation,
    /// The run that it belongs to.
    pub run: Option<RunId>,
    /// The command in words.
    pub what: String,
}

/// Finds the undo that `redo` takes back: the newest undo or restore that changed something and has not been redone
/// since. `skipped` are undos with nothing left to take back.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Damaged`] where a journal cannot be read.
pub fn last_undo(store: &Store, skipped: &[Operation]) -> Result<LastUndo> {
    let mut taken_back: Vec<(String, u64, u64)> = Vec::new();
    let mut acted: HashSet<(Arc<str>, UndoId)> = HashSet::new();
    let mut records = ReverseRecords::open_unchecked(store)?;
    while let Some((session, record)) = records.next_record()? {
        let seq = record.seq;
        let Some(undo) = record.undo_id().map(|undo| (session.clone(), undo)) else {
            continue;
        };
        let Op::Undo { what, of, redo, .. } = record.op else {
            acted.insert(undo);
            continue;
        };
        let dead = taken_back
            .iter()
            .any(|(s, from, to)| **s == *session && (*from..=*to).contains(&seq));
        // An undo without changes leaves nothing to take back, and a redo without changes took nothing back.
        if dead || !acted.contains(&undo) {
            continue;
        }
        if !redo {
            let session = session.to_string();
            let operation = Operation { session, seq };
            if skipped.contains(&operation) {
                continue;
            }
            return Ok(LastUndo {
                operation,
                run: record.origin.run,
                what,
            });
        }
        taken_back.extend(of);
    }
    Err(Error::Missing {
        what: "there is no undo and no restore that could be taken back".to_owned(),
        remedy: "`trumanfs log` shows what was undone and restored.".to_owned(),
    })
}
