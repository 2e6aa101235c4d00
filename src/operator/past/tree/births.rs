//! Recognises nodes that a record of a creation cannot have made: their birth is later than the record allows.
//!
//! The record of a creation is written before the act, so it does not name the inode. The owner of a store, who works
//! beside the home, may have removed the new node and put another at its name. Owns the rule that recognises such a
//! node: the birth time of the inode, where its file system has one. Inodes are marked by the kernel's coarse clock, so
//! nodes made within some milliseconds after a session's end are not recognised.

use std::io::BufReader;
use std::os::fd::AsFd;

use chrono::DateTime;

use crate::error::{Error, Result};
use crate::journal::{JournalReader, Op, Record};
use crate::operator::past::disk::node_id::NodeId;
use crate::operator::past::tree::past_tree::PastTree;
use crate::world::root::stat_fd;
use crate::world::store::settle::open_journal;

/// The time after its record in which a node may be made, in nanoseconds: a disk may hang, a machine may sleep.
const MAX_BIRTH_DELAY_NANOS: u64 = 60_000_000_000;

impl PastTree<'_> {
    /// Notes the end of a session, and its beginning, on the way back.
    pub(super) fn note_session(&mut self, record: &Record) {
        match record.op {
            Op::End { .. } => self.session_end = nanoseconds(&record.time),
            Op::Begin { .. } => self.session_end = None,
            _ => {}
        }
    }

    /// Returns whether a node is not the one that a record made at its name: it was born after the session had ended,
    /// or long after the record.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub(super) fn is_born_later(
        &self,
        node: NodeId,
        record: &Record,
        session: &str,
    ) -> Result<bool> {
        // Records that were read without their times prove nothing, nor does an inode that took another's place.
        let Some(made) = nanoseconds(&record.time) else {
            return Ok(false);
        };
        if self.ids(node).is_none() || self.ids(node) != self.disk().ids(node) {
            return Ok(false);
        }
        let born = match self.disk().stat(node) {
            Err(Error::NotFound) => return Ok(false),
            meta => meta?.born,
        };
        // Where the clock was set back in the session, its end means nothing.
        let end = self.session_end.filter(|end| *end >= made);
        let latest = made.saturating_add(MAX_BIRTH_DELAY_NANOS);
        let latest = end.map_or(latest, |end| end.min(latest));
        Ok(born > latest && born > latest.saturating_add(self.clock_lead(session)))
    }

    /// Returns how far the clock that marks inodes is ahead of the one that the session's records have, in nanoseconds:
    /// a store may lie on another machine. The birth of the session's journal shows the lead.
    fn clock_lead(&self, session: &str) -> u64 {
        let lead = || {
            let file = open_journal(self.disk().store().state(), session).ok()?;
            let born = stat_fd(file.as_fd()).ok()?.born;
            let first = JournalReader::new(BufReader::new(file))
                .next_record()
                .ok()??;
            born.checked_sub(nanoseconds(&first.time)?)
        };
        lead().unwrap_or(0)
    }
}

/// Returns the time of a record in nanoseconds since 1970.
pub(in crate::operator::past) fn nanoseconds(time: &str) -> Option<u64> {
    let time = DateTime::parse_from_rfc3339(time).ok()?;
    u64::try_from(time.timestamp_nanos_opt()?).ok()
}
