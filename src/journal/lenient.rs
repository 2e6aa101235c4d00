//! Reading a journal that may be damaged: every line is given out, with what is wrong with it.
//!
//! Where [`Reader`](super::Reader) stops at the first break, this goes on: the lines behind a break vouch for each other
//! again.

use std::io::BufRead;

use super::lines::Lines;
use super::read::parse;
use super::seal::{self, Covered, Seal};
use super::{Record, START, header, hex};
use crate::error::Result;

/// What a line is.
#[derive(Debug)]
pub enum What {
    /// A record.
    Record(Box<Record>),
    /// A seal.
    Seal {
        /// It.
        seal: Box<Seal>,
        /// Whether it is as it was written, by its own check.
        whole: bool,
        /// Whether the lines that it covers are as it says.
        covers: bool,
        /// The first of these lines.
        first: u64,
    },
    /// Neither.
    Neither {
        /// What is wrong with it.
        what: String,
        /// Whether readers take it for a seal all the same, and pass over it.
        passed: bool,
    },
}

/// One whole line.
#[derive(Debug)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// What it is.
    pub what: What,
    /// Its hash.
    pub hash: [u8; 64],
    /// Whether it carries the hash of the line before it.
    pub follows: bool,
}

/// Goes through all lines of a journal.
#[derive(Debug)]
pub struct LenientReader<R> {
    lines: Lines<R>,
    number: u64,
    length: u64,
    prev: [u8; 64],
    covered: Covered,
}

impl<R: BufRead> LenientReader<R> {
    /// Reads from the start of a journal.
    pub fn new(lines: R) -> LenientReader<R> {
        LenientReader {
            lines: Lines::new(lines),
            number: 0,
            length: 0,
            prev: START,
            covered: Covered::default(),
        }
    }

    /// Reads the next whole line; `None` at the end, for now.
    ///
    /// # Errors
    /// What `read(2)` says.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        let Some((line, hash)) = self.lines.next()? else {
            return Ok(None);
        };
        self.length += line.len() as u64 + 1;
        self.number += 1;
        let follows = header::prev(line).map(|prev| *prev == self.prev);
        let what = match header::check(line) {
            Some(_) => match Seal::parse(line) {
                Ok(seal) => {
                    let (covers, first) = self.covered.seal(&seal, self.number, line);
                    What::Seal {
                        whole: seal::is_whole(line),
                        seal: Box::new(seal),
                        covers,
                        first,
                    }
                }
                Err(error) => What::Neither {
                    what: error.to_string(),
                    passed: true,
                },
            },
            None => match parse(line, self.number) {
                Ok(record) => What::Record(Box::new(record)),
                Err(error) => What::Neither {
                    what: error.to_string(),
                    passed: false,
                },
            },
        };
        if !matches!(what, What::Seal { .. }) {
            self.covered.line(line);
        }
        let follows = match &what {
            What::Record(record) => follows.unwrap_or_else(|| record.prev.as_bytes() == self.prev),
            What::Seal { seal, .. } => seal.prev.as_bytes() == self.prev,
            What::Neither { .. } => false,
        };
        self.prev = hex(&hash);
        Ok(Some(Line {
            number: self.number,
            what,
            hash: self.prev,
            follows,
        }))
    }

    /// Returns how many whole lines have been read.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Returns the number of the first line since the last seal, which may not be there yet.
    pub fn unsealed(&self) -> u64 {
        self.covered.first()
    }

    /// Returns how many bytes follow the last whole line, as far as has been read.
    pub fn torn(&self) -> u64 {
        self.lines.torn()
    }

    /// Returns how long the whole lines are together, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}
