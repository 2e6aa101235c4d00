//! Accepts changes: a record names them, and reviews list them no more. Nothing else changes.

use crate::error::{Error, Result};
use crate::journal::{Op, RunId};
use crate::name::WorldPath;
use crate::operator::point::Operation;
use crate::world::{Caller, World};

/// The greatest number of ranges that a record lists: more would make a line of megabytes.
const MAX_LISTED_RANGES: usize = 2000;

/// A request to accept changes.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AcceptRequest {
    /// The command in words.
    pub what: String,
    /// The run whose changes are accepted; absent for the changes of all.
    #[serde(default)]
    pub run: Option<RunId>,
    /// The records: session and range of numbers.
    pub of: Vec<(String, u64, u64)>,
    /// Single hunks: path and digest.
    #[serde(default)]
    pub hunks: Vec<(WorldPath, String)>,
}

/// The result of accepting changes.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct AcceptReport {
    /// The last `accept` record.
    pub record: Operation,
    /// The number of changed paths that left the list by it.
    #[serde(default)]
    pub paths: u64,
    /// The number of flagged paths that were left out.
    #[serde(skip)]
    pub flagged: u64,
}

impl AcceptRequest {
    /// Makes ranges of records, which must be in order.
    pub fn of_operations(
        what: String,
        run: Option<RunId>,
        operations: &[Operation],
    ) -> AcceptRequest {
        let mut of: Vec<(String, u64, u64)> = Vec::new();
        for operation in operations {
            match of.last_mut() {
                Some((session, _, to))
                    if *session == operation.session && *to + 1 >= operation.seq =>
                {
                    *to = operation.seq;
                }
                _ => of.push((operation.session.clone(), operation.seq, operation.seq)),
            }
        }
        AcceptRequest {
            what,
            run,
            of,
            hunks: Vec::new(),
        }
    }
}

/// Records that changes are accepted.
///
/// # Errors
/// [`Error::Missing`] where none are named; those of writing the journal: then part of it may be accepted.
pub fn accept(world: &World, request: &AcceptRequest, caller: Caller) -> Result<AcceptReport> {
    let mut last = None;
    let (mut ranges, mut hunks) = (
        request.of.chunks(MAX_LISTED_RANGES),
        request.hunks.chunks(MAX_LISTED_RANGES),
    );
    loop {
        let (of, hunks) = (ranges.next(), hunks.next());
        if of.is_none() && hunks.is_none() {
            break;
        }
        let accept = Op::Accept {
            what: request.what.clone(),
            run: request.run,
            of: of.unwrap_or_default().to_vec(),
            hunks: hunks.unwrap_or_default().to_vec(),
        };
        last = Some(Operation {
            session: world.session().to_owned(),
            seq: world.note_accept(accept, caller)?,
        });
    }
    let record = last.ok_or_else(|| Error::Missing {
        what: "nothing is there to be accepted".to_owned(),
        remedy: "`trumanfs review --json` lists what is.".to_owned(),
    })?;
    Ok(AcceptReport {
        record,
        paths: 0,
        flagged: 0,
    })
}
