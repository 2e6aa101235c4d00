//! Reads the journals: the records of all sessions of a store, oldest first, including new ones as they are written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;

use super::Store;
use crate::error::{Error, Result};
use crate::journal::{JournalReader, Record, RecordHeader};
use crate::world::store::settle::{open_journal, sessions};

/// The size of the read buffer.
const BUFFER_BYTES: usize = 1 << 17;

/// Iterates over the records of a store's sessions. Memory does not grow with their number.
#[derive(Debug)]
pub struct ForwardRecords<'a> {
    store: &'a Store,
    waiting: VecDeque<String>,
    current: Option<(String, JournalReader<BufReader<File>>)>,
    /// The session that was opened last.
    last: String,
    /// The last session to read.
    until: Option<String>,
}

impl<'a> ForwardRecords<'a> {
    /// Starts with the first record of the oldest session.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub fn open(store: &'a Store) -> Result<ForwardRecords<'a>> {
        ForwardRecords::between(store, None, None)
    }

    /// Starts with the first record of one session and ends with the last record of another.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub fn between(
        store: &'a Store,
        from: Option<&str>,
        until: Option<&str>,
    ) -> Result<ForwardRecords<'a>> {
        let mut log = ForwardRecords {
            store,
            waiting: VecDeque::new(),
            current: None,
            last: String::new(),
            until: until.map(str::to_owned),
        };
        let from = from.unwrap_or_default();
        log.find_sessions(|id| id >= from)?;
        Ok(log)
    }

    /// Advances to the next record. Returns whether there is one; a later call may find more.
    ///
    /// # Errors
    /// [`Error::Damaged`] where a journal was tampered with; reading can continue with the next session.
    pub fn advance(&mut self) -> Result<bool> {
        // A session may have grown and ended between its last read and the listing of the next session.
        let mut looked_again = false;
        loop {
            if let Some((session, reader)) = &mut self.current {
                match reader.advance() {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(error) => {
                        let error = in_session(session, error);
                        self.current = None;
                        return Err(error);
                    }
                }
            }
            if self.waiting.is_empty() {
                let last = self.last.clone();
                self.find_sessions(|id| id > last.as_str())?;
                if !self.waiting.is_empty() && !looked_again {
                    looked_again = true;
                    continue;
                }
            }
            let Some(next) = self.waiting.pop_front() else {
                return Ok(false);
            };
            self.last.clone_from(&next);
            match open_journal(&self.store.state, &next) {
                Ok(file) => {
                    self.current = Some((
                        next,
                        JournalReader::new(BufReader::with_capacity(BUFFER_BYTES, file)),
                    ));
                }
                // The daemon was killed before the session began.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the session of the current record.
    pub fn session(&self) -> &str {
        self.current.as_ref().map_or("", |(session, _)| session)
    }

    /// Returns the current record's header without parsing the record.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is not a record; `ENOENT` where the log is at its end.
    pub fn header(&self) -> Result<RecordHeader<'_>> {
        let (session, reader) = self.current.as_ref().ok_or(Error::NotFound)?;
        reader.header().map_err(|error| in_session(session, error))
    }

    /// Parses the current record.
    ///
    /// # Errors
    /// As [`ForwardRecords::header`].
    pub fn record(&self) -> Result<Record> {
        let (session, reader) = self.current.as_ref().ok_or(Error::NotFound)?;
        reader.record().map_err(|error| in_session(session, error))
    }

    /// Continues with the next session, where the rest of this one is unreadable.
    pub fn skip_session(&mut self) {
        self.current = None;
    }

    /// Returns the next record and its session; `None` at the end; a later call may find more.
    ///
    /// # Errors
    /// As [`ForwardRecords::advance`].
    pub fn next_record(&mut self) -> Result<Option<(String, Record)>> {
        self.next_where(|_, _| true)
    }

    /// Returns the next record whose header is wanted; others are not parsed.
    ///
    /// # Errors
    /// As [`ForwardRecords::advance`].
    pub fn next_where(
        &mut self,
        mut wanted: impl FnMut(&str, &RecordHeader<'_>) -> bool,
    ) -> Result<Option<(String, Record)>> {
        while self.advance()? {
            let look = self.header().map(|header| wanted(self.session(), &header));
            let record = match look {
                Ok(false) => continue,
                Ok(true) => self.record(),
                Err(error) => Err(error),
            };
            if record.is_err() {
                self.skip_session();
            }
            let session = self.last.clone();
            return record.map(|record| Some((session, record)));
        }
        Ok(None)
    }

    fn find_sessions(&mut self, which: impl Fn(&str) -> bool) -> Result<()> {
        let until = self.until.clone();
        let wanted = |id: &String| which(id) && until.as_ref().is_none_or(|until| id <= until);
        self.waiting = sessions(&self.store.state)?
            .into_iter()
            .filter(wanted)
            .collect();
        Ok(())
    }
}

impl Iterator for ForwardRecords<'_> {
    type Item = Result<(String, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

fn in_session(session: &str, error: Error) -> Error {
    match error {
        Error::Damaged(what) => Error::Damaged(format!("session {session}: {what}")),
        error => error,
    }
}
