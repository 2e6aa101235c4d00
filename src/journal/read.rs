//! Reading a journal: line by line with little memory, checking the chain, and finding a torn end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use super::hash::{ChainLink, hex};
use super::header::RecordHeader;
use super::line_ends;
use super::lines::{LONGEST, LineReader, too_long};
use super::record::{Record, SCHEMA};
use super::seal;
use crate::error::{Error, Result};

/// Reads records in order. A last line without its newline is torn and is not returned: the writer died while writing
/// it, so its act never began.
#[derive(Debug)]
pub struct JournalReader<R> {
    lines: LineReader<R>,
    line: Vec<u8>,
    /// True if `line` has been returned.
    given: bool,
    /// The line after `line`, and the link that the line after that must have.
    ahead: Vec<u8>,
    link: Option<ChainLink>,
    /// True if `ahead` holds a complete line.
    whole: bool,
    number: u64,
    /// The link that the line ahead must have; `None` before the first.
    prev: Option<ChainLink>,
}

/// The end of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalTail {
    /// The last complete record.
    pub record: Record,
    /// The link that a line after it must have.
    pub link: ChainLink,
    /// The SHA-256 (hex) of the last complete line, which may be a seal.
    pub hash: [u8; 64],
    /// The length of the journal up to the end of this line, in bytes. The rest is torn.
    pub length: u64,
}

impl<R: BufRead> JournalReader<R> {
    /// Creates a reader at the start of a journal.
    pub fn new(lines: R) -> JournalReader<R> {
        JournalReader {
            lines: LineReader::new(lines),
            line: Vec::new(),
            given: false,
            ahead: Vec::new(),
            link: None,
            whole: false,
            number: 0,
            prev: None,
        }
    }

    /// Reads the next record; `None` at the end, for now (a later call may find more).
    ///
    /// # Errors
    /// [`Error::Damaged`], naming the line, where the chain breaks or a line is not a record; those of `read(2)`.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.next_where(|_| true)
    }

    /// Reads the next record that `wanted` accepts. The chain is checked for the others too, but they are not parsed,
    /// which would take most of the time.
    ///
    /// # Errors
    /// As [`JournalReader::next_record`].
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

    /// Advances to the next record. Returns whether there is one, for now. A line is returned only if the next line, if
    /// any, confirms it. Seals are skipped; a seal at the very end is verified by its own check.
    ///
    /// # Errors
    /// As [`JournalReader::next_record`].
    pub fn advance(&mut self) -> Result<bool> {
        self.given = false;
        while self.step()? {
            if line_ends::check(&self.line).is_none() {
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
        self.prev = self.link;
        if self.read_ahead()? {
            self.check_follows(self.number + 1)?;
        } else if line_ends::check(&self.line).is_some() {
            check_seal(&self.line, &format!("line {}", self.number))?;
        } else {
            // No later line confirms the last one, so the last one must at least parse.
            parse(&self.line, self.number)?;
        }
        Ok(true)
    }

    /// Reads the line after the current one, unless it has been read; returns `false` at the end, for now.
    fn read_ahead(&mut self) -> Result<bool> {
        if self.whole {
            return Ok(true);
        }
        if let Some((line, link)) = self.lines.next()? {
            self.ahead.clear();
            self.ahead.extend_from_slice(line);
            self.link = Some(link);
            self.whole = true;
        }
        Ok(self.whole)
    }

    /// Checks that the `prev` of the line ahead matches the line before it.
    fn check_follows(&self, number: u64) -> Result<()> {
        let prev = match line_ends::prev(&self.ahead) {
            Some(prev) => Cow::Borrowed(prev),
            // Not in this program's usual form: parsing it finds the error, or the field elsewhere.
            None => Cow::Owned(parse(&self.ahead, number)?.prev.into_bytes()),
        };
        let follows = |prev: ChainLink| match &self.prev {
            Some(before) => prev == *before,
            None => prev.is_first(),
        };
        if ChainLink::parse(&prev).is_some_and(follows) {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "journal line {number}: does not follow the line before it; the line before was changed or lines are missing"
        )))
    }

    /// Returns the current line, without its newline.
    pub fn line(&self) -> &[u8] {
        if self.given { &self.line } else { &[] }
    }

    /// Returns the current line's header without parsing the line.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is not a record.
    pub fn header(&self) -> Result<RecordHeader<'_>> {
        let header =
            RecordHeader::of(self.line()).map_err(|error| not_a_record(self.number, &error))?;
        check_schema(header.v, self.number)?;
        Ok(header)
    }

    /// Parses the current line.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is not a record.
    pub fn record(&self) -> Result<Record> {
        parse(self.line(), self.number)
    }
}

impl<R: BufRead> Iterator for JournalReader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

pub(super) fn parse(line: &[u8], number: u64) -> Result<Record> {
    // First, as a newer schema may have operations unknown to this one.
    check_schema(line_ends::schema(line), number)?;
    Record::parse(line).map_err(|error| not_a_record(number, &error))
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

/// Verifies a seal in the last line, which no later line confirms.
pub(super) fn check_seal(line: &[u8], place: &str) -> Result<()> {
    match seal::is_whole(line) {
        true => Ok(()),
        false => Err(Error::Damaged(format!(
            "journal, {place}: the seal was changed after it was written"
        ))),
    }
}

/// Finds the last complete record without reading the whole journal; `None` for an empty one. Seals are skipped, and
/// not verified.
///
/// # Errors
/// [`Error::Damaged`] where the last complete line is neither; those of `read(2)`.
pub fn tail(file: &File) -> Result<Option<JournalTail>> {
    last_record(file, false)
}

/// Finds the last complete record as [`tail`] does, in a damaged journal: lines that are not records are skipped, too.
///
/// # Errors
/// [`Error::Damaged`] where there is no record at all; those of `read(2)`.
pub fn tail_of_damaged(file: &File) -> Result<Option<JournalTail>> {
    last_record(file, true)
}

fn last_record(mut file: &File, damaged: bool) -> Result<Option<JournalTail>> {
    let end = file
        .seek(SeekFrom::End(0))
        .map_err(|e| Error::io("lseek", &e))?;
    let mut window = 64 * 1024;
    loop {
        let from = end.saturating_sub(window);
        file.seek(SeekFrom::Start(from))
            .map_err(|e| Error::io("lseek", &e))?;
        let mut bytes = Vec::new();
        BufReader::new(file)
            .take(end - from)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io("read", &e))?;
        match last_in(&bytes, from, damaged)? {
            Some(tail) => return Ok(Some(tail)),
            None if from == 0 && !bytes.contains(&b'\n') => return Ok(None),
            None if from == 0 => {
                return Err(Error::Damaged("journal: it has no record".to_owned()));
            }
            // This has room for a torn line and a complete one.
            None if window > 4 * LONGEST => return Err(too_long()),
            None => window *= 4,
        }
    }
}

/// Finds the last record in a part of the journal; only a line that begins in the part counts.
fn last_in(bytes: &[u8], from: u64, damaged: bool) -> Result<Option<JournalTail>> {
    let Some(last) = memchr::memrchr(b'\n', bytes) else {
        return Ok(None);
    };
    let mut newest = None;
    let mut end = last;
    loop {
        let before = bytes.get(..end).unwrap_or_default();
        let start = match memchr::memrchr(b'\n', before) {
            Some(newline) => newline + 1,
            None if from == 0 => 0,
            None => return Ok(None),
        };
        let line = before.get(start..).unwrap_or_default();
        let (link, hash) =
            *newest.get_or_insert_with(|| (ChainLink::of(line), hex(&Sha256::digest(line))));
        let parsed = match line_ends::check(line) {
            Some(_) => None,
            None => Some(parse(line, 0)).filter(|parsed| parsed.is_ok() || !damaged),
        };
        if let Some(record) = parsed {
            return Ok(Some(JournalTail {
                record: record?,
                link,
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

/// Finds the number of the last record not later than a time, by bisection; `None` where all are later. The chain is
/// not checked here, but by the reader of the records.
///
/// # Errors
/// [`Error::Damaged`] where a line on the way is not a record; those of `read(2)`.
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

/// Finds the first line that begins at or after an offset and before `end`, and its offset.
fn line_at(mut file: &File, offset: u64, end: u64) -> Result<(u64, Option<Vec<u8>>)> {
    // Starts at the byte before: a newline there means that a line begins at the offset itself.
    let from = offset.saturating_sub(1);
    file.seek(SeekFrom::Start(from))
        .map_err(|e| Error::io("lseek", &e))?;
    let mut reader = BufReader::new(file.take(end.saturating_sub(from).min(2 * LONGEST)));
    let mut start = from;
    if offset > 0 {
        let skipped = reader
            .skip_until(b'\n')
            .map_err(|e| Error::io("read", &e))?;
        start += skipped as u64;
    }
    let mut line = Vec::new();
    reader
        .read_until(b'\n', &mut line)
        .map_err(|e| Error::io("read", &e))?;
    match line.pop() {
        Some(b'\n') => Ok((start, Some(line))),
        _ => Ok((start, None)),
    }
}
