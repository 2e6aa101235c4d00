//! Compares the times of inodes with those of records: a node whose birth is later than a record of a creation allows is
//! not the one that it made, nor is one the file of a record whose number it got later; and a file that was made or
//! changed after a record tells nothing of the content then.
//!
//! The record of a creation is written before the act, so it does not name the inode. The owner of a store, who works
//! beside the home, may have removed the new node and put another at its name. Owns the rules that recognise such a
//! node and such a file. Inodes are marked by the kernel's coarse clock, so nodes made within some milliseconds after a
//! session's end are not recognised as other ones, nor is a content that was changed as shortly after a record.

use std::io::BufReader;
use std::os::fd::AsFd;
use std::sync::Arc;

use chrono::DateTime;

use crate::error::{Error, Result};
use crate::journal::{JournalReader, Op, Record};
use crate::operator::past::disk::node_id::NodeId;
use crate::operator::past::tree::effect::SessionRecord;
use crate::operator::past::tree::past_tree::PastTree;
use crate::world::root::stat_fd;
use crate::world::store::settle::open_journal;
use trumanfs_types::meta::Time;

/// The time after its record in which a node may be made, in nanoseconds: a disk may hang, a machine may sleep.
const MAX_BIRTH_DELAY_NANOS: u64 = 60_000_000_000;

impl PastTree<'_> {
    /// Notes a record on the way back, with its time: the end of a session, and its beginning.
    pub(super) fn note_session(&mut self, record: &Record, session: &Arc<str>) {
        self.current = nanoseconds(&record.time).map(|time| (session.clone(), time));
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
        if !self.ids(node).is_some_and(|ids| self.is_on_disk(node, ids)) {
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

    /// Returns whether a node only has the inode number of a file that the current record names: it was born after that,
    /// and got the number anew.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub(super) fn has_number_anew(&self, node: NodeId) -> Result<bool> {
        let Some((session, then)) = &self.current else {
            return Ok(false);
        };
        if !self.is_inode_of(node) {
            return Ok(false);
        }
        let born = match self.disk().stat(node) {
            Err(Error::NotFound) => return Ok(false),
            meta => meta?.born,
        };
        Ok(born > *then && born > then.saturating_add(self.clock_lead(session)))
    }

    /// Returns whether what is known of a file at the point reached is later than a record, so that it tells nothing of the
    /// content then: the file was made or changed after it. `is_named` says whether any record names the file that is there.
    ///
    /// The first record of the file since then has the time of modification that it found. Programs set that back, as
    /// `cp -p` does, but not the time of birth, nor the time of change, which the home's own acts on a file move as well.
    /// In a copy of a store, both are of the copying.
    ///
    /// # Errors
    /// Those of `statx(2)`, and of reading the sessions.
    pub(in crate::operator::past) fn is_changed_since(
        &self,
        node: NodeId,
        (session, record): SessionRecord<'_>,
        is_named: bool,
    ) -> Result<bool> {
        let Some(then) = nanoseconds(&record.time).map(i128::from) else {
            return Ok(false);
        };
        let found = self.difference(node).and_then(|then| then.mtime);
        let found = found.map(|(sec, nsec)| Time { sec, nsec });
        let there = match self.disk().stat(node) {
            Err(Error::NotFound) => return Ok(found.is_some_and(|found| since_1970(found) > then)),
            there => there?,
        };
        let is_here = !self.disk().store().is_foreign(session)?;
        // A time of modification may have been set to one to come.
        let written = found.unwrap_or(there.mtime).min(there.ctime);
        let last = if is_here && !is_named {
            since_1970(there.ctime)
        } else if is_here && self.is_inode_of(node) {
            since_1970(written).max(i128::from(there.born))
        } else {
            since_1970(written)
        };
        Ok(last > then)
    }

    /// Returns whether a record on the way here names a node.
    pub fn is_recorded(&self, node: NodeId) -> bool {
        self.difference(node).is_some() || self.has_changed_name(node)
    }

    /// Returns whether a node was the inode that it is on the disk.
    fn is_inode_of(&self, node: NodeId) -> bool {
        let ids = self.ids(node);
        ids.is_some_and(|ids| self.is_on_disk(node, ids)) && !self.is_changed_outside(node)
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

/// Returns a time in nanoseconds since 1970.
fn since_1970(time: Time) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}
