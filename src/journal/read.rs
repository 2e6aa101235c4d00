//! Reading a journal back: line by line with little memory, checking the chain, and finding a torn end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use super::header::{self, RecordHeader};
use super::lines::{LONGEST, Lines, too_long};
use super::{Record, SCHEMA, START, hex, seal};
use crate::error::{Error, Result};

/// Reads records in order. A line without its newline at the very end is a torn one and is not given out: it was being
/// written when the writer died, so its act never began.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    /// Whether `line` has been given out.
    given: bool,
    /// The line after it, and its hash.
    ahead: Vec<u8>,
    hash: [u8; 32],
    /// Whether there is one.
    whole: bool,
    number: u64,
    prev: [u8; 64],
}

/// How a journal ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The last whole record.
    pub record: Record,
    /// The hash of the last whole line, which may be a seal.
    pub hash: [u8; 64],
    /// How long the journal is up to and with this line, in bytes. What follows is torn.
    pub length: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the start of a journal.
    pub fn new(lines: R) -> Reader<R> {
        Reader {
            lines: Lines::new(lines),
            line: Vec::new(),
            given: false,
            ahead: Vec::new(),
            hash: [0; 32],
            whole: false,
            number: 0,
            prev: START,
        }
    }

    /// Reads the next record; `None` at the end, for now (a later call may find more).
    ///
    /// # Errors
    /// [`Error::Damaged`] naming the line where the chain breaks or a line is no record; what `read(2)` says.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.next_where(|_| true)
    }

    /// Reads the next record that is wanted. The chain is checked for the others too, but they are not parsed, which
    /// takes most of the time.
    ///
    /// # Errors
    /// As [`Reader::next_record`].
    pub fn next_where(
        &mut self,
        mut wanted: impl FnMut(&RecordHeader<'_>) -> bool,
    ) -> Result<Option<Record>> {
        while self.advance()? {
            if wanted(&self.header()?) {
                return self.record().map(Some);
            }
        }
        Ok(None)
    }

    /// Goes to the next record. Returns whether there is one, for now. A line is only given out when the one after it, if
    /// there is one, says that it is as it was written. Seals are passed over; the last line of all is held against its
    /// own check if it is one.
    ///
    /// # Errors
    /// As [`Reader::next_record`].
    pub fn advance(&mut self) -> Result<bool> {
        self.given = false;
        while self.step()? {
            if header::check(&self.line).is_none() {
                self.given = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&mut self) -> Result<bool> {
        if !self.read_ahead()? {
            return Ok(false);
        }
        self.number += 1;
        self.check_follows(self.number)?;
        std::mem::swap(&mut self.line, &mut self.ahead);
        self.whole = false;
        self.prev = hex(&self.hash);
        if self.read_ahead()? {
            self.check_follows(self.number + 1)?;
        } else if header::check(&self.line).is_some() {
            check_seal(&self.line, &format!("line {}", self.number))?;
        } else {
            // The last has nobody to vouch for it: is it a record at all?
            parse(&self.line, self.number)?;
        }
        Ok(true)
    }

    /// Reads the line after the present one, unless that is done; `false` at the end, for now.
    fn read_ahead(&mut self) -> Result<bool> {
        if self.whole {
            return Ok(true);
        }
        if let Some((line, hash)) = self.lines.next()? {
            self.ahead.clear();
            self.ahead.extend_from_slice(line);
            self.hash = hash;
            self.whole = true;
        }
        Ok(self.whole)
    }

    /// Checks that the line ahead holds the hash of the line before it.
    fn check_follows(&self, number: u64) -> Result<()> {
        let prev = match header::prev(&self.ahead) {
            Some(prev) => Cow::Borrowed(prev),
            // Not as this program writes it: it says what is wrong, or has the field elsewhere.
            None => Cow::Owned(parse(&self.ahead, number)?.prev.into_bytes()),
        };
        if *prev == self.prev {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "journal line {number}: does not follow the line before it; the line before was changed or lines are missing"
        )))
    }

    /// Returns the line that [`Reader::advance`] went to, without its newline.
    pub fn line(&self) -> &[u8] {
        if self.given { &self.line } else { &[] }
    }

    /// Looks at that line without parsing it.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is no record.
    pub fn header(&self) -> Result<RecordHeader<'_>> {
        let header =
            RecordHeader::of(self.line()).map_err(|error| not_a_record(self.number, &error))?;
        check_schema(header.v, self.number)?;
        Ok(header)
    }

    /// Parses that line.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is no record.
    pub fn record(&self) -> Result<Record> {
        parse(self.line(), self.number)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

pub(super) fn parse(line: &[u8], number: u64) -> Result<Record> {
    let record = Record::parse(line).map_err(|error| not_a_record(number, &error))?;
    check_schema(record.v, number)?;
    Ok(record)
}

fn not_a_record(number: u64, error: &serde_json::Error) -> Error {
    Error::Damaged(format!("journal line {number}: not a record: {error}"))
}

pub(super) fn check_schema(v: u32, number: u64) -> Result<()> {
    if v > SCHEMA {
        return Err(Error::Damaged(format!(
            "journal line {number}: written by a newer release (schema {v}, this one reads up to {SCHEMA})"
        )));
    }
    Ok(())
}

/// Checks a seal that is a journal's last line, for which no other vouches.
pub(super) fn check_seal(line: &[u8], place: &str) -> Result<()> {
    match seal::is_whole(line) {
        true => Ok(()),
        false => Err(Error::Damaged(format!(
            "journal, {place}: the seal was changed after it was written"
        ))),
    }
}

/// Finds the last whole record without reading the whole journal; `None` for an empty one. Seals are passed over, and not
/// checked.
///
/// # Errors
/// [`Error::Damaged`] where the last whole line is neither; what `read(2)` says.
pub fn tail(file: &File) -> Result<Option<Tail>> {
    last_record(file, false)
}

/// As [`tail`], for a journal that is damaged: lines that are no records are passed over, too.
///
/// # Errors
/// [`Error::Damaged`] where there is no record at all; what `read(2)` says.
pub fn end_of(file: &File) -> Result<Option<Tail>> {
    last_record(file, true)
}

fn last_record(mut file: &File, damaged: bool) -> Result<Option<Tail>> {
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
        match last_in(&bytes, from, damaged)? {
            Some(tail) => return Ok(Some(tail)),
            None if from == 0 && !bytes.contains(&b'\n') => return Ok(None),
            None if from == 0 => {
                return Err(Error::Damaged("journal: it has no record".to_owned()));
            }
            // A torn line and a whole one fit into it.
            None if window > 4 * LONGEST => return Err(too_long()),
            None => window *= 4,
        }
    }
}

/// The last record of what begins there in the journal, where it begins in it, too.
fn last_in(bytes: &[u8], from: u64, damaged: bool) -> Result<Option<Tail>> {
    let Some(last) = memchr::memrchr(b'\n', bytes) else {
        return Ok(None);
    };
    let mut hash = None;
    let mut end = last;
    loop {
        let before = bytes.get(..end).unwrap_or_default();
        let start = match memchr::memrchr(b'\n', before) {
            Some(newline) => newline + 1,
            None if from == 0 => 0,
            None => return Ok(None),
        };
        let line = before.get(start..).unwrap_or_default();
        let hash = *hash.get_or_insert_with(|| hex(&Sha256::digest(line)));
        let parsed = match header::check(line) {
            Some(_) => None,
            None => Some(parse(line, 0)).filter(|parsed| parsed.is_ok() || !damaged),
        };
        if let Some(record) = parsed {
            return Ok(Some(Tail {
                record: record?,
                hash,
                length: from + last as u64 + 1,
            }));
        }
        let Some(next) = start.checked_sub(1) else {
            return Ok(None);
        };
        end = next;
    }
}

/// Finds the number of the last record that is not younger than a time, by bisection; `None` where all are younger. The
/// chain is not checked on the way: whoever reads the records does.
///
/// # Errors
/// [`Error::Damaged`] where a line that was looked at is no record; what `read(2)` says.
pub fn seq_at(file: &File, time: chrono::DateTime<chrono::Utc>) -> Result<Option<u64>> {
    let Some(last) = tail(file)? else {
        return Ok(None);
    };
    let older = |time_of: &str| {
        chrono::DateTime::parse_from_rfc3339(time_of)
            .map(|t| t <= time)
            .map_err(|_| Error::Damaged(format!("journal: {time_of:?} is not a time")))
    };
    if older(&last.record.time)? {
        return Ok(Some(last.record.seq));
    }
    // Every line that begins before `low` is older; the first that begins at or after `high` is not.
    let (mut low, mut high) = (0, last.length);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let (start, line) = line_at(file, middle, last.length)?;
        let Some(line) = line else {
            high = middle;
            continue;
        };
        let header = RecordHeader::of(&line).map_err(|error| not_a_record(0, &error))?;
        if older(&header.time)? {
            found = Some(header.seq);
            low = start + line.len() as u64 + 1;
        } else {
            high = middle;
        }
    }
    Ok(found)
}

/// The first line that begins at an offset or after it, and where it begins; none up to `end`.
fn line_at(mut file: &File, offset: u64, end: u64) -> Result<(u64, Option<Vec<u8>>)> {
    // From the byte before: an offset at which a line begins is told by the newline there.
    let from = offset.saturating_sub(1);
    file.seek(SeekFrom::Start(from))
        .map_err(|e| io_error("lseek", &e))?;
    let mut reader = BufReader::new(file.take(end.saturating_sub(from).min(2 * LONGEST)));
    let mut start = from;
    if offset > 0 {
        let skipped = reader.skip_until(b'\n').map_err(|e| io_error("read", &e))?;
        start += skipped as u64;
    }
    let mut line = Vec::new();
    reader
        .read_until(b'\n', &mut line)
        .map_err(|e| io_error("read", &e))?;
    match line.pop() {
        Some(b'\n') => Ok((start, Some(line))),
        _ => Ok((start, None)),
    }
}

pub(super) fn io_error(call: &'static str, error: &std::io::Error) -> Error {
    let errno = rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO);
    Error::Os { call, errno }
}
