//! Checkpoints: points that an operator has named.

use super::Store;
use super::past::ReverseRecords;
use super::point;
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::is_deceptive;
use crate::world::{Caller, World};

/// A named point.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Checkpoint {
    /// The name of the checkpoint.
    pub name: String,
    /// The session that it is in.
    pub session: String,
    /// The number of its record.
    pub seq: u64,
    /// The time of its creation, RFC 3339.
    pub time: String,
}

/// Lists all checkpoints, the newest first.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn list(store: &Store) -> Result<Vec<Checkpoint>> {
    let mut found = Vec::new();
    let mut records = ReverseRecords::open(store)?;
    while let Some((session, record)) = records.next_where(|header| header.op == "checkpoint")? {
        if let Op::Checkpoint { name, mark: None } = record.op {
            found.push(Checkpoint {
                name,
                session: session.to_string(),
                seq: record.seq,
                time: record.time,
            });
        }
    }
    Ok(found)
}

/// Names the current point. Returns the number of the record.
///
/// # Errors
/// [`Error::Usage`] for a name that could mean something else; [`Error::Conflict`] for one that is in use.
pub fn create(store: &Store, world: &World, name: &str, caller: Caller) -> Result<u64> {
    if point::is_taken(name) || name.chars().any(is_deceptive) || name.len() > 200 {
        return Err(Error::usage(
            format!("{name:?} cannot be the name of a checkpoint"),
            "It could be read as a time, a session, an operation or a range, or has characters that cannot be seen. Begin with a letter.",
        ));
    }
    if let Some(known) = list(store)?.into_iter().find(|known| known.name == name) {
        return Err(Error::Conflict {
            what: format!(
                "there is a checkpoint {name:?} already, of {}",
                known.time.get(..19).unwrap_or_default().replace('T', " ")
            ),
            remedy:
                "Nothing was changed. Choose another name; `trumanfs checkpoint list` shows them."
                    .to_owned(),
        });
    }
    world.note_checkpoint(name, caller)
}
