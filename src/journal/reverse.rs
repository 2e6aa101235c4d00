//! Reading a journal backwards: newest record first, in blocks, with little memory.
//!
//! The chain is checked on the way: each line has the link to the line read next. A line that was changed or is not a
//! record is an error that names its place. Bytes after the last newline were being written when the writer died, or
//! are being written now: they are not a record yet.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::hash::ChainLink;
use super::header::RecordHeader;
use super::left_state::LeftState;
use super::line_ends;
use super::lines::{BATCH, LONGEST, too_long};
use super::read::{check_schema, check_seal};
use super::record::Record;
use super::seal::Seal;
use crate::error::{Error, Result};

/// The number of bytes read at once.
const BLOCK: u64 = 256 * 1024;

/// Seals with stamps, or with states that an unknown writer left: only these are parsed for them.
static STAMPS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(",\"stamps\":"));
static UNKNOWN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(",\"unknown\":"));

/// A reader of records from the last to the first. Lines appended meanwhile are not seen.
#[derive(Debug)]
pub struct ReverseReader {
    file: File,
    /// The offset of `buffer` in the file.
    start: u64,
    /// The bytes read but not returned yet; ends with a newline.
    buffer: Vec<u8>,
    /// The links that the lines after the next lines must have, the next one last: several are computed at once.
    hashed: Vec<ChainLink>,
    /// The link to the next line in the line read last.
    expected: Option<ChainLink>,
    checks: bool,
    parse: fn(&[u8]) -> serde_json::Result<Record>,
    /// The stamps of the seals passed since they were taken last, if they are wanted.
    stamps: Option<Vec<LeftState>>,
}

impl ReverseReader {
    /// Creates a reader at the end of a journal.
    ///
    /// # Errors
    /// Those of `read(2)`.
    pub fn new(file: File) -> Result<ReverseReader> {
        let start = file.metadata().map_err(|e| Error::io("stat", &e))?.len();
        let mut backward = ReverseReader {
            file,
            start,
            buffer: Vec::new(),
            hashed: Vec::new(),
            expected: None,
            checks: true,
            parse: Record::parse,
            stamps: None,
        };
        while backward.start > 0 && !backward.buffer.contains(&b'\n') {
            backward.read_more()?;
        }
        let end = backward.buffer.iter().rposition(|b| *b == b'\n');
        backward.buffer.truncate(end.map_or(0, |end| end + 1));
        Ok(backward)
    }

    /// Stops checking the chain, which up to schema 4 takes half of the time: for a journal that is also read with the
    /// check.
    pub fn without_checks(mut self) -> ReverseReader {
        self.checks = false;
        self
    }

    /// Stops keeping actor, time and hashes ([`Record::parse_operation`]). The chain is still checked.
    pub fn operations_only(mut self) -> ReverseReader {
        self.parse = Record::parse_operation;
        self
    }

    /// Collects the stamps of the seals on the way, for [`ReverseReader::take_stamps`].
    pub fn with_stamps(mut self) -> ReverseReader {
        self.stamps = Some(Vec::new());
        self
    }

    /// Returns the stamps of the seals passed since the last call, the newest seal's last: those that stand after the
    /// record returned last and before the one returned before it. Empty without [`ReverseReader::with_stamps`].
    pub fn take_stamps(&mut self) -> Vec<LeftState> {
        self.stamps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the previous record; `None` at the journal's start.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the place of the line that is not a record; those of `read(2)`.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.next_where(|_| true)
    }

    /// Returns the previous record that `wanted` accepts, as [`ReverseReader::next_record`]; others are not parsed.
    ///
    /// # Errors
    /// As [`ReverseReader::next_record`].
    pub fn next_where(
        &mut self,
        mut wanted: impl FnMut(&RecordHeader<'_>) -> bool,
    ) -> Result<Option<Record>> {
        while let Some(from) = self.find_line()? {
            let at = self.start + from as u64;
            if self.checks && self.hashed.is_empty() {
                self.hash_ahead(from);
            }
            let end = self.buffer.len().saturating_sub(1);
            let line = self.buffer.get(from..end).unwrap_or_default();
            let damaged = |error: &serde_json::Error| {
                Error::Damaged(format!("journal, at byte {at}: not a record: {error}"))
            };
            if line_ends::check(line).is_some() {
                self.pass_seal(from, at)?;
                continue;
            }
            let header = RecordHeader::of(line).map_err(|error| damaged(&error))?;
            check_schema(header.v, header.seq)?;
            if self.checks {
                let prev = self.check(line, at, self.hashed.last())?;
                self.expected = Some(prev);
            }
            let record = match wanted(&header) {
                true => Some((self.parse)(line).map_err(|error| damaged(&error))?),
                false => None,
            };
            self.buffer.truncate(from);
            self.hashed.pop();
            if record.is_some() {
                return Ok(record);
            }
        }
        Ok(None)
    }

    /// Skips a seal, but for its stamps where they are wanted.
    fn pass_seal(&mut self, from: usize, at: u64) -> Result<()> {
        let end = self.buffer.len().saturating_sub(1);
        let line = self.buffer.get(from..end).unwrap_or_default();
        if let Some(stamps) = &mut self.stamps
            && (STAMPS.find(line).is_some() || UNKNOWN.find(line).is_some())
        {
            let seal = Seal::parse(line).map_err(|error| {
                Error::Damaged(format!("journal, at byte {at}: not a seal: {error}"))
            })?;
            stamps.splice(0..0, seal.stamps.into_iter().chain(seal.unknown));
        }
        if self.checks {
            if self.expected.is_none() {
                check_seal(line, &format!("at byte {at}"))?;
            }
            self.expected = Some(self.check(line, at, self.hashed.last())?);
        }
        self.buffer.truncate(from);
        self.hashed.pop();
        Ok(())
    }

    /// Compares a line with the link in the line after it. Returns the line's own link to the line before.
    fn check(&self, line: &[u8], at: u64, link: Option<&ChainLink>) -> Result<ChainLink> {
        let damaged = |error: &serde_json::Error| {
            Error::Damaged(format!("journal, at byte {at}: not a record: {error}"))
        };
        if self
            .expected
            .is_some_and(|expected| Some(&expected) != link)
        {
            return Err(Error::Damaged(format!(
                "journal, at byte {at}: the line was changed, or lines after it are missing: the next one does not follow it"
            )));
        }
        let prev = match line_ends::prev(line) {
            Some(prev) => Cow::Borrowed(prev),
            None => {
                let record: Record = Record::parse(line).map_err(|error| damaged(&error))?;
                Cow::Owned(record.prev.into_bytes())
            }
        };
        let prev = ChainLink::parse(&prev).ok_or_else(|| {
            Error::Damaged(format!("journal, at byte {at}: `prev` is not a hash"))
        })?;
        if at == 0 && !prev.is_first() {
            return Err(Error::Damaged(
                "journal: lines are missing at its start".to_owned(),
            ));
        }
        Ok(prev)
    }

    /// Hashes the last line in the buffer, and as many lines before it as are worth hashing at once.
    fn hash_ahead(&mut self, mut from: usize) {
        let mut end = self.buffer.len();
        let mut lines = Vec::with_capacity(BATCH);
        loop {
            lines.push(self.buffer.get(from..end - 1).unwrap_or_default());
            let before = from.checked_sub(1).and_then(|end| self.buffer.get(..end));
            let Some(before) = before.filter(|_| lines.len() < BATCH) else {
                break;
            };
            end = from;
            from = match memchr::memrchr(b'\n', before) {
                Some(newline) => newline + 1,
                None if self.start == 0 => 0,
                None => break,
            };
        }
        self.hashed = ChainLink::of_all(&lines);
        self.hashed.reverse();
    }

    /// Returns where the last line starts in the buffer.
    fn find_line(&mut self) -> Result<Option<usize>> {
        loop {
            if self.buffer.is_empty() && self.start == 0 {
                return Ok(None);
            }
            let line = self
                .buffer
                .len()
                .checked_sub(1)
                .and_then(|end| self.buffer.get(..end));
            match line.map(|line| memchr::memrchr(b'\n', line)) {
                Some(Some(newline)) => return Ok(Some(newline + 1)),
                Some(None) if self.start == 0 => return Ok(Some(0)),
                _ => self.read_more()?,
            }
        }
    }

    /// Prepends the previous block to the buffer, larger each time, so that a long line costs no more than its
    /// length.
    fn read_more(&mut self) -> Result<()> {
        if self.buffer.len() as u64 > LONGEST {
            return Err(too_long());
        }
        let size = BLOCK.max(self.buffer.len() as u64).min(self.start);
        let from = self.start - size;
        let mut block = vec![0; usize::try_from(size).unwrap_or(0)];
        self.file
            .read_exact_at(&mut block, from)
            .map_err(|e| Error::io("read", &e))?;
        block.append(&mut self.buffer);
        self.buffer = block;
        self.start = from;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::io::Write;

    /// Makes lines of a journal, each with the hash of the one before.
    fn journal(names: &[&str]) -> String {
        let mut text = String::new();
        let mut prev = *b"0000000000000000000000000000000000000000000000000000000000000000";
        for (i, name) in names.iter().enumerate() {
            let line = format!(
                r#"{{"v":1,"seq":{},"time":"2026-01-16T10:15:30.123460Z","op":"checkpoint","name":"{name}","prev":"{}"}}"#,
                i + 1,
                std::str::from_utf8(&prev).unwrap(),
            );
            prev = super::super::hash::hex(&Sha256::digest(&line));
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn backward(text: &str) -> ReverseReader {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        ReverseReader::new(file).unwrap()
    }

    fn read(text: &str) -> Vec<u64> {
        let mut backward = backward(text);
        let mut seqs = Vec::new();
        while let Some(record) = backward.next_record().unwrap() {
            seqs.push(record.seq);
        }
        seqs
    }

    #[test]
    fn records_come_newest_first_over_blocks_and_long_lines() {
        let long = "n".repeat(700_000);
        let names: Vec<&str> = (1..=4000)
            .map(|seq| if seq % 1500 == 0 { long.as_str() } else { "a" })
            .collect();
        let mut text = journal(&names);
        assert_eq!(read(&text), (1..=4000).rev().collect::<Vec<_>>());
        text.push_str("{\"torn");
        assert_eq!(read(&text).len(), 4000);
        assert!(read("").is_empty() && read("{\"torn").is_empty());
    }

    #[test]
    fn what_was_changed_is_named() {
        let whole = journal(&["a", "b", "c"]);
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        let damages = [
            // The line before the last: the last line has its hash.
            (whole.replace("\"b\"", "\"x\""), 1, "at byte"),
            (
                whole.replace("{\"v\":1,\"seq\":2", "rubbish"),
                1,
                "not a record",
            ),
            (
                lines.iter().skip(1).copied().collect(),
                1,
                "missing at its start",
            ),
            (
                lines.iter().step_by(2).copied().collect(),
                1,
                "does not follow",
            ),
        ];
        for (text, good, complaint) in damages {
            let mut backward = backward(&text);
            for _ in 0..good {
                backward.next_record().unwrap().unwrap();
            }
            let error = backward.next_record().unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
