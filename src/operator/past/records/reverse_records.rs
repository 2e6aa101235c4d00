//! All records of a store, newest first, without aborted ones.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::journal::{LeftState, Op, Record, RecordHeader, ReverseReader};
use crate::operator::Store;
use crate::operator::past::records::prefetch::JournalPrefetch;
use crate::world::store::settle::{open_journal, sessions};

/// Journals larger than this are prefetched.
const MIN_PREFETCHED_BYTES: u64 = 1 << 20;

/// Iterates over the records of all sessions from the newest to the oldest. Memory does not grow with their number.
#[derive(Debug)]
pub struct ReverseRecords<'a> {
    store: &'a Store,
    waiting: Vec<String>,
    current: Option<SessionRecords>,
    trusting: bool,
    operations_only: bool,
    /// The stamps passed since they were taken last, if they are wanted.
    stamps: Option<Vec<(Arc<str>, LeftState)>>,
}

/// The session being read, backwards.
#[derive(Debug)]
struct SessionRecords {
    id: Arc<str>,
    records: RecordSource,
    /// The numbers of aborted records: going backwards, the `abort` comes first.
    aborted: HashSet<u64>,
}

/// The source of a session's records.
#[derive(Debug)]
enum RecordSource {
    Here(Box<ReverseReader>),
    /// A second thread, which parses all of them.
    Prefetch(JournalPrefetch),
}

impl RecordSource {
    fn take_stamps(&mut self) -> Vec<LeftState> {
        match self {
            RecordSource::Here(records) => records.take_stamps(),
            RecordSource::Prefetch(records) => records.take_stamps(),
        }
    }
}

impl<'a> ReverseRecords<'a> {
    /// Starts at the newest record.
    ///
    /// # Errors
    /// Those of listing the sessions.
    pub fn open(store: &'a Store) -> Result<ReverseRecords<'a>> {
        Ok(ReverseRecords {
            store,
            waiting: sessions(store.state())?,
            current: None,
            trusting: false,
            operations_only: false,
            stamps: None,
        })
    }

    /// As [`ReverseRecords::open`], without checking the chain, for records that are also read with the check.
    ///
    /// # Errors
    /// As [`ReverseRecords::open`].
    pub fn open_unchecked(store: &'a Store) -> Result<ReverseRecords<'a>> {
        ReverseRecords::open(store).map(|newest| ReverseRecords {
            trusting: true,
            ..newest
        })
    }

    /// Returns records with empty actor, time and hashes.
    pub fn without_actors(self) -> ReverseRecords<'a> {
        ReverseRecords {
            operations_only: true,
            ..self
        }
    }

    /// Collects the stamps on the way, for [`ReverseRecords::take_stamps`].
    pub fn with_stamps(self) -> ReverseRecords<'a> {
        ReverseRecords {
            stamps: Some(Vec::new()),
            ..self
        }
    }

    /// Returns the stamps passed since the last call, each with the session that its numbers belong to, in the order
    /// in which they were written: those that stand after the record returned last and before the one returned before
    /// it. Empty without [`ReverseRecords::with_stamps`].
    pub fn take_stamps(&mut self) -> Vec<(Arc<str>, LeftState)> {
        self.stamps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the next older record that was not aborted, with its session; `None` after the last.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming session and position, for an invalid line.
    pub fn next_record(&mut self) -> Result<Option<(Arc<str>, Record)>> {
        self.next_from(true, |_, records| match records {
            RecordSource::Here(records) => records.next_record(),
            RecordSource::Prefetch(records) => records.next_record(),
        })
    }

    /// As [`ReverseRecords::next_record`], for the next record that is wanted; others are not parsed.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub fn next_where(
        &mut self,
        mut wanted: impl FnMut(&RecordHeader<'_>) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        self.next_where_in(|_, header| wanted(header))
    }

    /// As [`ReverseRecords::next_where`], passing the session too.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`].
    pub(in crate::operator) fn next_where_in(
        &mut self,
        mut wanted: impl FnMut(&str, &RecordHeader<'_>) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        self.next_from(false, |session, records| match records {
            RecordSource::Here(records) => {
                records.next_where(|header| header.op == "abort" || wanted(session, header))
            }
            // An earlier call wanted all records of this session.
            RecordSource::Prefetch(records) => records.next_record(),
        })
    }

    fn next_from(
        &mut self,
        all: bool,
        mut next: impl FnMut(&str, &mut RecordSource) -> Result<Option<Record>>,
    ) -> Result<Option<(Arc<str>, Record)>> {
        loop {
            let Some(session) = &mut self.current else {
                let Some(id) = self.waiting.pop() else {
                    return Ok(None);
                };
                match self.source(&id, all) {
                    Ok(records) => {
                        self.current = Some(SessionRecords {
                            records,
                            id: id.into(),
                            aborted: HashSet::new(),
                        });
                    }
                    // The daemon was killed between making the session's directory and its journal: the session has
                    // no records.
                    Err(Error::NotFound) => {}
                    Err(error) => return Err(error),
                }
                continue;
            };
            let record = next(&session.id, &mut session.records).map_err(|error| match error {
                Error::Damaged(what) => Error::Damaged(format!("session {}: {what}", session.id)),
                error => error,
            })?;
            if let Some(stamps) = &mut self.stamps {
                let device = self.store.root().id().0;
                let passed = session.records.take_stamps().into_iter();
                let passed = passed.map(|stamp| match &stamp.session {
                    Some(other) => (other.as_str().into(), stamp.with_device(device)),
                    None => (session.id.clone(), stamp.with_device(device)),
                });
                stamps.splice(0..0, passed);
            }
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
                    let record = record.with_device(self.store.root().id().0);
                    return Ok(Some((session.id.clone(), record)));
                }
            }
        }
    }

    fn source(&self, id: &str, all: bool) -> Result<RecordSource> {
        let here = || {
            let file = open_journal(self.store.state(), id)?;
            let is_long = file
                .metadata()
                .is_ok_and(|meta| meta.len() > MIN_PREFETCHED_BYTES);
            let mut records = ReverseReader::new(file)?;
            if self.trusting {
                records = records.without_checks();
            }
            if self.operations_only {
                records = records.operations_only();
            }
            if self.stamps.is_some() {
                records = records.with_stamps();
            }
            Ok((records, is_long))
        };
        let (records, is_long) = here()?;
        if !(all && is_long) {
            return Ok(RecordSource::Here(Box::new(records)));
        }
        match JournalPrefetch::new(records) {
            Some(ahead) => Ok(RecordSource::Prefetch(ahead)),
            None => Ok(RecordSource::Here(Box::new(here()?.0))),
        }
    }
}

impl Iterator for ReverseRecords<'_> {
    type Item = Result<(Arc<str>, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}
