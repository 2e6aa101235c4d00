//! Reading a journal that may be damaged: every line is given out, with what is wrong with it.
//!
//! Where [`Reader`](super::Reader) stops at the first break, this goes on: the lines behind a break vouch for each other
//! again.

use std::io::BufRead;

use super::lines::Lines;
use super::read::parse;
use super::{Record, START, hex};
use crate::error::Result;

/// One whole line.
#[derive(Debug)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// The record; what is wrong with it where it is none.
    pub record: std::result::Result<Record, String>,
    /// Whether it carries the hash of the line before it.
    pub follows: bool,
}

/// Goes through all lines of a journal.
#[derive(Debug)]
pub struct Survey<R> {
    lines: Lines<R>,
    number: u64,
    length: u64,
    prev: [u8; 64],
}

impl<R: BufRead> Survey<R> {
    /// Reads from the start of a journal.
    pub fn new(lines: R) -> Survey<R> {
        Survey {
            lines: Lines::new(lines),
            number: 0,
            length: 0,
            prev: START,
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
        let record = parse(line, self.number).map_err(|error| error.to_string());
        let follows = record
            .as_ref()
            .is_ok_and(|record| record.prev.as_bytes() == self.prev);
        self.prev = hex(&hash);
        Ok(Some(Line {
            number: self.number,
            record,
            follows,
        }))
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
