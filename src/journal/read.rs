//! Reading a journal back: line by line with little memory, checking the chain, and finding a torn end.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use super::{Record, SCHEMA, START, hex};
use crate::error::{Error, Result};

/// Reads records in order. A line without its newline at the very end is a torn one and is not given out: it was being
/// written when the writer died, so its act never began.
#[derive(Debug)]
pub struct Reader<R> {
    lines: R,
    line: Vec<u8>,
    number: u64,
    prev: [u8; 64],
}

/// The last whole record of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The record.
    pub record: Record,
    /// The hash of its line.
    pub hash: [u8; 64],
    /// How long the journal is up to and with this record, in bytes. What follows is torn.
    pub length: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the start of a journal.
    pub fn new(lines: R) -> Reader<R> {
        Reader {
            lines,
            line: Vec::new(),
            number: 0,
            prev: START,
        }
    }

    /// Reads the next record; `None` at the end, for now (a later call may find more).
    ///
    /// # Errors
    /// [`Error::Damaged`] naming the line where the chain breaks or a line is no record; what `read(2)` says.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        let read = self.lines.read_until(b'\n', &mut self.line);
        read.map_err(|e| io_error("read", &e))?;
        if self.line.last() != Some(&b'\n') {
            // Torn, or still being written: what has been read stays in `line` and is completed by a later call.
            return Ok(None);
        }
        self.line.pop();
        self.number += 1;
        let record = parse(&self.line, self.number)?;
        if record.prev.as_bytes() != self.prev {
            return Err(Error::Damaged(format!(
                "journal line {}: does not follow the line before it; the line before was changed or lines are missing",
                self.number
            )));
        }
        self.prev = hex(&Sha256::digest(&self.line));
        self.line.clear();
        Ok(Some(record))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

pub(super) fn parse(line: &[u8], number: u64) -> Result<Record> {
    let record: Record = serde_json::from_slice(line)
        .map_err(|error| Error::Damaged(format!("journal line {number}: not a record: {error}")))?;
    if record.v > SCHEMA {
        return Err(Error::Damaged(format!(
            "journal line {number}: written by a newer release (schema {}, this one reads up to {SCHEMA})",
            record.v
        )));
    }
    Ok(record)
}

/// Finds the last whole record without reading the whole journal; `None` for an empty one.
///
/// # Errors
/// [`Error::Damaged`] where the last whole line is no record; what `read(2)` says.
pub fn tail(mut file: &File) -> Result<Option<Tail>> {
    let end = file
        .seek(SeekFrom::End(0))
        .map_err(|e| io_error("lseek", &e))?;
    let mut window = 64 * 1024;
    loop {
        let from = end.saturating_sub(window);
        file.seek(SeekFrom::Start(from))
            .map_err(|e| io_error("lseek", &e))?;
        let mut bytes = Vec::new();
        BufReader::new(file)
            .take(end - from)
            .read_to_end(&mut bytes)
            .map_err(|e| io_error("read", &e))?;
        let newline = bytes.iter().rposition(|b| *b == b'\n');
        let whole = newline.and_then(|at| bytes.get(..at));
        let start = whole
            .and_then(|w| w.iter().rposition(|b| *b == b'\n'))
            .map(|at| at + 1);
        match (whole, start.or(if from == 0 { Some(0) } else { None })) {
            (Some(whole), Some(start)) => {
                let line = whole.get(start..).unwrap_or_default();
                return Ok(Some(Tail {
                    record: parse(line, 0)?,
                    hash: hex(&Sha256::digest(line)),
                    length: from + whole.len() as u64 + 1,
                }));
            }
            _ if from == 0 => return Ok(None),
            _ => window *= 4,
        }
    }
}

pub(super) fn io_error(call: &'static str, error: &std::io::Error) -> Error {
    let errno = rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO);
    Error::Os { call, errno }
}
