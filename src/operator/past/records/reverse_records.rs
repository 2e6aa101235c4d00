//! All records of a store, the newest first, without those whose act did not happen.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{Backward, Op, Record, RecordHeader};
use crate::operator::Store;
use crate::operator::past::records::prefetch::Prefetch;
use crate::world::settle::{open_journal, sessions};

/// A journal that is longer is read ahead.
const LONG: u64 = 1 << 20;

/// Goes through the records of all sessions from the newest to the oldest. Memory does not grow with their number.
#[derive(Debug)]
pub struct ReverseRecords<'a> {
    store: &'a Store,
    waiting: Vec<String>,
    current: Option<Session>,
    trusting: bool,
    acts: bool,
}

#[derive(Debug)]
struct Session {
    id: Arc<str>,
    records: Source,
    /// Records that did not happen: their `abort` comes first on this way.
    aborted: HashSet<u64>,
}

/// Where the records of a session come from.
#[derive(Debug)]
enum Source {
    Here(Box<Backward>),
    /// From a second thread, which parses all of them.
    Prefetch(Prefetch),
}

impl<'a> ReverseRecords<'a> {
    /// Starts at the newest record there is at this moment.
    ///
    /// # Errors
    /// What listing the sessions says.
    pub fn open(store: &'a Store) -> Result<ReverseRecords<'a>> {
        Ok(ReverseRecords {
            store,
            waiting: sessions(store.state())?,
            current: None,
            trusting: false,
            acts: false,
        })
    }

    /// As [`ReverseRecords::open`], without checking the chain: where the same records are read once more with it.
    ///
    /// # Errors
    /// As [`ReverseRecords::open`].
    pub fn trusting(store: &'a Store) -> Result<ReverseRecords<'a>> {
        ReverseRecords::open(store).map(|newest| ReverseRecords {
            trusting: true,
            ..newest
        })
    }

    /// Gives out records without who did it, when, and the hashes: they are empty.
    pub fn acts(self) -> ReverseRecords<'a> {
        ReverseRecords { acts: true, ..self }
    }

    /// Returns the next older record that happened, and its session; `None` when there are no more.
    ///
    /// # Errors
    /// [`Error::Damaged`] naming session and place of a line that is no record.
    pub fn next_record(&mut self) -> Result<Option<(Arc<str>, Record)>> {
        self.next_from(true, |_, records| match records {
            Source::Here(records) => records.next_record(),
            Source::Prefetch(records) => records.next_record(),
        })
    }

    /// As [`ReverseRecords::next_record`], for the next record that is wanted; the others are not parsed.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub fn next_where(
        &mut self,
        mut wanted: impl FnMut(&RecordHeader<'_>) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        self.next_of(|_, header| wanted(header))
    }

    /// As [`ReverseRecords::next_where`], for whoever wants to know the session.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator::past) fn next_of(
        &mut self,
        mut wanted: impl FnMut(&str, &RecordHeader<'_>) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        self.next_from(false, |session, records| match records {
            Source::Here(records) => {
                records.next_where(|header| header.op == "abort" || wanted(session, header))
            }
            // Somebody wanted all of this session before.
            Source::Prefetch(records) => records.next_record(),
        })
    }

    fn next_from(
        &mut self,
        all: bool,
        mut next: impl FnMut(&str, &mut Source) -> Result<Option<Record>>,
    ) -> Result<Option<(Arc<str>, Record)>> {
        loop {
            let Some(session) = &mut self.current else {
                let Some(id) = self.waiting.pop() else {
                    return Ok(None);
                };
                match self.source(&id, all) {
                    Ok(records) => {
                        self.current = Some(Session {
                            records,
                            id: id.into(),
                            aborted: HashSet::new(),
                        });
                    }
                    // Killed between making the directory and the journal: nothing happened in it.
                    Err(Error::NotFound) => {}
                    Err(error) => return Err(error),
                }
                continue;
            };
            let record = next(&session.id, &mut session.records).map_err(|error| match error {
                Error::Damaged(what) => Error::Damaged(format!("session {}: {what}", session.id)),
                error => error,
            })?;
            match record {
                None => self.current = None,
                Some(Record {
                    op: Op::Abort { of, .. },
                    ..
                }) => {
                    session.aborted.insert(of);
                }
                Some(record) if session.aborted.remove(&record.seq) => {}
                Some(record) => {
                    let record = record.on(self.store.root().id().0);
                    return Ok(Some((session.id.clone(), record)));
                }
            }
        }
    }

    fn source(&self, id: &str, all: bool) -> Result<Source> {
        let here = || {
            let file = open_journal(self.store.state(), id)?;
            let is_long = file.metadata().is_ok_and(|meta| meta.len() > LONG);
            let mut records = Backward::new(file)?;
            if self.trusting {
                records = records.trusting();
            }
            if self.acts {
                records = records.acts();
            }
            Ok((records, is_long))
        };
        let (records, is_long) = here()?;
        if !(all && is_long) {
            return Ok(Source::Here(Box::new(records)));
        }
        match Prefetch::new(records) {
            Some(ahead) => Ok(Source::Prefetch(ahead)),
            None => Ok(Source::Here(Box::new(here()?.0))),
        }
    }
}

impl Iterator for ReverseRecords<'_> {
    type Item = Result<(Arc<str>, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}
