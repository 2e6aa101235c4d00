//! Prefetching a journal on a second thread: while one record is taken back, earlier ones are read, checked and
//! parsed. With two processors, the total time is that of the slower side.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::journal::{LeftState, Record, ReverseReader};

/// The number of records in a batch.
const BATCH_RECORDS: usize = 256;

/// The number of batches that may wait, so that memory does not grow with the journal.
const MAX_WAITING_BATCHES: usize = 2;

/// The records of one journal, from the last to the first.
#[derive(Debug)]
pub(super) struct JournalPrefetch {
    batches: Option<Receiver<RecordBatch>>,
    batch: std::vec::IntoIter<PrefetchedRecord>,
    /// The stamps passed since they were taken last.
    stamps: Vec<LeftState>,
    /// The result at the end, once it has been received.
    end: Option<Result<()>>,
    reader: Option<JoinHandle<()>>,
}

/// A record, and the stamps passed on the way to it.
type PrefetchedRecord = (Vec<LeftState>, Record);

/// A batch of parsed records; the last one has the result of reading.
#[derive(Debug)]
struct RecordBatch {
    records: Vec<PrefetchedRecord>,
    end: Option<Result<()>>,
}

impl JournalPrefetch {
    /// Starts reading. `None` where no thread can be started.
    pub(super) fn new(records: ReverseReader) -> Option<JournalPrefetch> {
        let (sender, batches) = sync_channel(MAX_WAITING_BATCHES);
        let reader = std::thread::Builder::new().name("journal".to_owned());
        let reader = reader.spawn(move || read(records, &sender)).ok()?;
        Some(JournalPrefetch {
            batches: Some(batches),
            batch: Vec::new().into_iter(),
            stamps: Vec::new(),
            end: None,
            reader: Some(reader),
        })
    }

    /// As [`ReverseReader::next_record`].
    pub(super) fn next_record(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some((mut stamps, record)) = self.batch.next() {
                stamps.append(&mut self.stamps);
                self.stamps = stamps;
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

    /// As [`ReverseReader::take_stamps`].
    pub(super) fn take_stamps(&mut self) -> Vec<LeftState> {
        std::mem::take(&mut self.stamps)
    }
}

impl Drop for JournalPrefetch {
    fn drop(&mut self) {
        // Without a receiver, the reader ends with its next batch.
        self.batches = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read(mut records: ReverseReader, batches: &SyncSender<RecordBatch>) {
    loop {
        let mut batch = RecordBatch {
            records: Vec::with_capacity(BATCH_RECORDS),
            end: None,
        };
        while batch.records.len() < BATCH_RECORDS && batch.end.is_none() {
            match records.next_record() {
                Ok(Some(record)) => batch.records.push((records.take_stamps(), record)),
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::io::Write;

    fn backward(text: &str) -> ReverseReader {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        ReverseReader::new(file).unwrap()
    }

    fn journal(records: usize) -> String {
        let (mut text, mut prev) = (String::new(), "0".repeat(64));
        for seq in 1..=records {
            let line = format!(
                r#"{{"v":1,"seq":{seq},"time":"2026-01-16T10:15:30.123460Z","op":"mkdir","path":"/{seq}","mode":7,"prev":"{prev}"}}"#,
            );
            let digest = Sha256::digest(&line);
            prev = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// Collects all records and the final result.
    fn all(mut next: impl FnMut() -> Result<Option<Record>>) -> (Vec<Record>, Result<()>) {
        let mut records = Vec::new();
        loop {
            match next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => return (records, Ok(())),
                Err(error) => return (records, Err(error)),
            }
        }
    }

    #[test]
    fn prefetched_records_equal_records_read_directly() {
        for records in [
            0,
            1,
            BATCH_RECORDS - 1,
            BATCH_RECORDS,
            BATCH_RECORDS + 1,
            5 * BATCH_RECORDS + 7,
        ] {
            let whole = journal(records);
            let damaged = whole.replace("\"path\":\"/1\"", "\"path\":\"/x\"");
            for text in [&whole, &damaged] {
                let (mut ahead, mut here) = (
                    JournalPrefetch::new(backward(text)).unwrap(),
                    backward(text),
                );
                let ahead_all = all(|| ahead.next_record());
                assert_eq!(ahead_all, all(|| here.next_record()));
                // No later line vouches for the last one.
                assert_eq!(ahead_all.1.is_err(), text != &whole && records > 1);
                assert_eq!(ahead.next_record().is_err(), ahead_all.1.is_err());
            }
        }
    }

    /// Each record brings the same stamps as it does without a second thread, over the ends of batches too.
    #[test]
    fn stamps_come_with_the_record_before_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("j");
        let open = || {
            std::fs::File::options()
                .read(true)
                .append(true)
                .create(true)
                .open(&at)
                .unwrap()
        };
        let journal = crate::journal::Journal::new(open().into(), None, false, 9);
        for seq in 1..=BATCH_RECORDS as u64 + 9 {
            let name = format!("{seq}");
            journal
                .note(crate::journal::Op::Checkpoint { name, mark: None }, None)
                .unwrap();
            if seq % 3 == 0 {
                journal.add_stamps([LeftState {
                    session: None,
                    seq,
                    ids: [0, seq],
                    born: 1,
                    size: 2,
                    mtime: (3, 4),
                    mode: None,
                    ctime: (5, 6),
                    made: false,
                    mapped: false,
                    sha256: None,
                    n: None,
                    entries: None,
                    by: None,
                }]);
                journal.seal().unwrap();
            }
        }
        let reader = || ReverseReader::new(open()).unwrap().with_stamps();
        let (mut ahead, mut here) = (JournalPrefetch::new(reader()).unwrap(), reader());
        let mut found = 0;
        while let Some(record) = here.next_record().unwrap() {
            assert_eq!(ahead.next_record().unwrap(), Some(record.clone()));
            let stamps = ahead.take_stamps();
            assert_eq!(stamps, here.take_stamps());
            assert!(stamps.iter().all(|stamp| stamp.seq == record.seq));
            found += stamps.len();
        }
        assert_eq!(found, (BATCH_RECORDS + 9) / 3);
    }

    #[test]
    fn dropped_prefetch_ends_its_thread() {
        let mut ahead = JournalPrefetch::new(backward(&journal(20 * BATCH_RECORDS))).unwrap();
        assert!(ahead.next_record().unwrap().is_some());
        drop(ahead); // Returns only when the reader has ended.
    }

    #[test]
    fn acts_equal_records_without_actor_and_time() {
        let text = journal(3);
        let mut acts = backward(&text).operations_only();
        let mut records = backward(&text);
        while let Some(record) = records.next_record().unwrap() {
            let bare = Record {
                time: String::new(),
                actor: None,
                prev: String::new(),
                ..record
            };
            assert_eq!(acts.next_record().unwrap(), Some(bare));
        }
        assert_eq!(acts.next_record().unwrap(), None);
    }
}
