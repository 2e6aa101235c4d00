//! Reading journals: all sessions of a store, oldest first, and what comes as it comes.

use std::fs::File;
use std::io::BufReader;

use super::Store;
use crate::error::Result;
use crate::journal::{Reader, Record};
use crate::world::settle::{open_journal, sessions};

/// Goes through the records of a store's sessions. Memory does not grow with their number.
#[derive(Debug)]
pub struct Log<'a> {
    store: &'a Store,
    waiting: std::collections::VecDeque<String>,
    current: Option<(String, Reader<BufReader<File>>)>,
}

impl<'a> Log<'a> {
    /// Starts with the first record of the oldest session.
    ///
    /// # Errors
    /// What listing the sessions says.
    pub fn open(store: &'a Store) -> Result<Log<'a>> {
        let waiting = sessions(&store.state)?.into();
        Ok(Log {
            store,
            waiting,
            current: None,
        })
    }

    /// Returns the next record and its session; `None` at the end, for now: a later call may find more.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal was changed; the log can go on with the next
    /// session.
    pub fn next_record(&mut self) -> Result<Option<(String, Record)>> {
        loop {
            if let Some((session, reader)) = &mut self.current {
                match reader.next_record() {
                    Ok(Some(record)) => return Ok(Some((session.clone(), record))),
                    Ok(None) if self.waiting.is_empty() => self.look_for_more()?,
                    Ok(None) => {}
                    Err(error) => {
                        self.current = None;
                        return Err(error);
                    }
                }
                if self.waiting.is_empty() {
                    return Ok(None);
                }
            }
            let Some(next) = self.waiting.pop_front() else {
                return Ok(None);
            };
            match open_journal(&self.store.state, &next) {
                Ok(file) => self.current = Some((next, Reader::new(BufReader::new(file)))),
                Err(crate::error::Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds sessions that began after the one being read.
    fn look_for_more(&mut self) -> Result<()> {
        let Some((current, _)) = &self.current else {
            return Ok(());
        };
        self.waiting = sessions(&self.store.state)?
            .into_iter()
            .filter(|id| id > current)
            .collect();
        Ok(())
    }
}

impl Iterator for Log<'_> {
    type Item = Result<(String, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}
