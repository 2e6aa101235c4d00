//! Lenient reading of a journal that may be damaged: returns every line, with what is wrong with it.
//!
//! [`JournalReader`](super::JournalReader) stops at the first break; this one goes on, since the lines after a break form a
//! chain again.

use std::io::BufRead;

use std::collections::VecDeque;

use sha2::{Digest as _, Sha256};

use super::hash::{ChainLink, hex};
use super::line_ends;
use super::lines::LineReader;
use super::read::parse;
use super::record::Record;
use super::seal::{self, Seal, SealVerifier};
use crate::error::Result;

/// The number of last lines that are remembered.
const LAST: usize = 8;

/// A line, parsed.
#[derive(Debug)]
pub enum ParsedLine {
    /// A record.
    Record(Box<Record>),
    /// A seal.
    Seal {
        /// The seal.
        seal: Box<Seal>,
        /// True if the seal is intact, by its own check.
        whole: bool,
        /// True if the lines that the seal covers match its digest.
        covers: bool,
        /// The number of the first of these lines.
        first: u64,
    },
    /// A line that is neither record nor seal.
    Neither {
        /// The error of parsing the line.
        what: String,
        /// True if readers still take the line for a seal and skip it.
        passed: bool,
    },
}

/// A complete line.
#[derive(Debug)]
pub struct JournalLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// The parsed line.
    pub what: ParsedLine,
    /// True if the line's `prev` matches the line before it.
    pub follows: bool,
}

/// Iterates over all lines of a journal.
#[derive(Debug)]
pub struct LenientReader<R> {
    lines: LineReader<R>,
    number: u64,
    length: u64,
    /// The link that the next line must have.
    prev: Option<ChainLink>,
    /// The last lines, oldest first.
    last: VecDeque<Vec<u8>>,
    covered: SealVerifier,
}

impl<R: BufRead> LenientReader<R> {
    /// Creates a reader at the start of a journal.
    pub fn new(lines: R) -> LenientReader<R> {
        LenientReader {
            lines: LineReader::new(lines),
            number: 0,
            length: 0,
            prev: None,
            last: VecDeque::new(),
            covered: SealVerifier::default(),
        }
    }

    /// Reads the next complete line; `None` at the end, for now.
    ///
    /// # Errors
    /// Those of `read(2)`.
    pub fn next_line(&mut self) -> Result<Option<JournalLine>> {
        let Some((line, link)) = self.lines.next()? else {
            return Ok(None);
        };
        self.length += line.len() as u64 + 1;
        self.number += 1;
        let before = self.prev.replace(link);
        let follows = |prev: &[u8]| match (ChainLink::parse(prev), before) {
            (Some(prev), Some(before)) => prev == before,
            (Some(prev), None) => prev.is_first(),
            (None, _) => false,
        };
        let by_end = line_ends::prev(line).map(follows);
        let what = match line_ends::check(line) {
            Some(_) => match Seal::parse(line) {
                Ok(seal) => {
                    let (covers, first) = self.covered.seal(&seal, self.number, line);
                    ParsedLine::Seal {
                        whole: seal::has_right_check(line),
                        seal: Box::new(seal),
                        covers,
                        first,
                    }
                }
                Err(error) => ParsedLine::Neither {
                    what: error.to_string(),
                    passed: true,
                },
            },
            None => match parse(line, self.number) {
                Ok(record) => ParsedLine::Record(Box::new(record)),
                Err(error) => ParsedLine::Neither {
                    what: error.to_string(),
                    passed: false,
                },
            },
        };
        if !matches!(what, ParsedLine::Seal { .. }) {
            self.covered.line(line);
        }
        let mut copy = match self.last.len() < LAST {
            true => Vec::new(),
            false => self.last.pop_front().unwrap_or_default(),
        };
        copy.clear();
        copy.extend_from_slice(line);
        self.last.push_back(copy);
        let follows = match &what {
            ParsedLine::Record(record) => by_end.unwrap_or_else(|| follows(record.prev.as_bytes())),
            ParsedLine::Seal { seal, .. } => follows(seal.prev.as_bytes()),
            ParsedLine::Neither { .. } => false,
        };
        Ok(Some(JournalLine {
            number: self.number,
            what,
            follows,
        }))
    }

    /// Returns the number of complete lines read so far.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Returns the SHA-256 (hex) of each of the last lines. The session after this one refers to its end by one of
    /// them: `fsck --repair` appends lines after the one that was last.
    pub fn last_hashes(&self) -> Vec<[u8; 64]> {
        let hash = |line: &Vec<u8>| hex(&Sha256::digest(line));
        self.last.iter().map(hash).collect()
    }

    /// Returns the number of the first line since the last seal, which may not exist yet.
    pub fn unsealed(&self) -> u64 {
        self.covered.first()
    }

    /// Returns the number of bytes after the last complete line, as far as has been read.
    pub fn torn(&self) -> u64 {
        self.lines.torn()
    }

    /// Returns the total size of the complete lines in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}
