//! Finds out whether a time means a single state of a store: after the clock was set back, several states have the same
//! time.

use std::io::BufReader;

use chrono::{DateTime, Utc};

use crate::error::Result;
use crate::journal::{JournalReader, tail};
use crate::operator::Store;
use crate::world::store::settle::open_journal;

/// Returns whether other states of the store had the same time, because the clock was set back: an operation up to this
/// one was recorded at a later time, or one after it at an earlier time.
///
/// # Errors
/// Those of reading the journals.
pub(super) fn is_ambiguous(
    store: &Store,
    ids: &[String],
    (session, seq): (&str, u64),
    time: DateTime<Utc>,
) -> Result<bool> {
    let is_later = |text: &str| DateTime::parse_from_rfc3339(text).is_ok_and(|at| at > time);
    for id in ids.iter().filter(|id| id.as_str() <= session) {
        // A session whose daemon was killed before it began has no journal.
        let Ok(file) = open_journal(store.state(), id) else {
            continue;
        };
        if id.as_str() < session {
            if tail(&file)?.is_some_and(|tail| is_later(&tail.record.time)) {
                return Ok(true);
            }
            continue;
        }
        let mut reader = JournalReader::new(BufReader::with_capacity(1 << 17, file));
        let misplaced = reader.next_where(|header| (header.seq <= seq) == is_later(&header.time));
        // A damaged journal is reported when its records are read.
        if let Ok(Some(_)) = misplaced {
            return Ok(true);
        }
    }
    Ok(false)
}
