//! Reading a journal ahead, on a second thread: while one record is taken back, those before it are read, checked and
//! parsed. Most machines have two processors; together it takes as long as the slower of the two.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::journal::{Backward, Record};

/// So many records are handed over at once.
const BATCH: usize = 256;

/// So many batches wait: memory does not grow with the journal.
const WAITING: usize = 2;

/// The records of one journal, the last one first.
#[derive(Debug)]
pub(super) struct Ahead {
    batches: Option<Receiver<Batch>>,
    batch: std::vec::IntoIter<Record>,
    /// How it ended, where that was handed over.
    end: Option<Result<()>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Batch {
    records: Vec<Record>,
    end: Option<Result<()>>,
}

impl Ahead {
    /// Starts to read. `None` where there can be no further thread.
    pub(super) fn new(records: Backward) -> Option<Ahead> {
        let (sender, batches) = sync_channel(WAITING);
        let reader = std::thread::Builder::new().name("journal".to_owned());
        let reader = reader.spawn(move || read(records, &sender)).ok()?;
        Some(Ahead {
            batches: Some(batches),
            batch: Vec::new().into_iter(),
            end: None,
            reader: Some(reader),
        })
    }

    /// As [`Backward::next_record`].
    pub(super) fn next_record(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.batch.next() {
                return Ok(Some(record));
            }
            if let Some(end) = &self.end {
                return end.clone().map(|()| None);
            }
            let batch = self.batches.as_ref().and_then(|all| all.recv().ok());
            let Some(batch) = batch else {
                return Err(Error::Damaged(
                    "the journal was not read to its start".to_owned(),
                ));
            };
            self.batch = batch.records.into_iter();
            self.end = batch.end;
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Nobody listens: the reader ends with its next batch.
        self.batches = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read(mut records: Backward, batches: &SyncSender<Batch>) {
    loop {
        let mut batch = Batch {
            records: Vec::with_capacity(BATCH),
            end: None,
        };
        while batch.records.len() < BATCH && batch.end.is_none() {
            match records.next_record() {
                Ok(Some(record)) => batch.records.push(record),
                Ok(None) => batch.end = Some(Ok(())),
                Err(error) => batch.end = Some(Err(error)),
            }
        }
        let is_last = batch.end.is_some();
        if batches.send(batch).is_err() || is_last {
            return;
        }
    }
}
