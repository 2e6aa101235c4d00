//! The link from each line to the line before it, and the text of hashes and times.
//!
//! Up to schema 4, a line had the SHA-256 of the line before it, which took half of the time of a record on a processor
//! without instructions for it. Since schema 5 it is a checksum, XXH3. A checksum shows damage and a careless change at
//! its line. Somebody who changes lines on purpose can compute it anew, as they could a SHA-256; the SHA-256 of all
//! lines in each seal (`seal.rs`) shows such a change, and no request waits for a seal.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::line_ends;

/// The first schema whose lines have a checksum of the line before.
pub(super) const SUMMED: u32 = 5;

/// A line's checksum or hash of the line before it (`prev`), in hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainLink {
    digits: [u8; 64],
    length: usize,
}

impl ChainLink {
    /// Returns the link of a journal's first line: zeros.
    pub(super) fn first(v: u32) -> ChainLink {
        ChainLink {
            digits: [b'0'; 64],
            length: if v >= SUMMED { 16 } else { 64 },
        }
    }

    /// Returns whether this is the link of a journal's first line.
    pub(super) fn is_first(&self) -> bool {
        self.bytes().iter().all(|digit| *digit == b'0')
    }

    /// Returns the link that the line after this one must have, by the schema of this one.
    pub fn of(line: &[u8]) -> ChainLink {
        match line_ends::schema(line) {
            v if v >= SUMMED => ChainLink::by_sum(line),
            _ => ChainLink::by_hash(&Sha256::digest(line)),
        }
    }

    /// Returns the links that the lines after several lines must have.
    pub(super) fn of_all(lines: &[&[u8]]) -> Vec<ChainLink> {
        lines.iter().map(|line| ChainLink::of(line)).collect()
    }

    /// Parses the digits of a `prev`; `None` if they are not a link.
    pub(super) fn parse(digits: &[u8]) -> Option<ChainLink> {
        let mut link = ChainLink::first(if digits.len() == 16 { SUMMED } else { 0 });
        if !digits.iter().all(u8::is_ascii_hexdigit) || digits.len() != link.length {
            return None;
        }
        link.digits.get_mut(..link.length)?.copy_from_slice(digits);
        Some(link)
    }

    fn by_sum(line: &[u8]) -> ChainLink {
        let mut link = ChainLink::first(SUMMED);
        let sum = xxhash_rust::xxh3::xxh3_64(line).to_be_bytes();
        write_digits(&mut link.digits, &sum);
        link
    }

    fn by_hash(hash: &[u8]) -> ChainLink {
        let digits = hex(hash);
        ChainLink { digits, length: 64 }
    }

    /// Returns the digits.
    pub(super) fn bytes(&self) -> &[u8] {
        self.digits.get(..self.length).unwrap_or_default()
    }
}

impl fmt::Display for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Debug for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the current time in the format of records.
pub(super) fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// Returns the hexadecimal digits of a hash.
pub(super) fn hex(digest: &[u8]) -> [u8; 64] {
    let mut text = [b'0'; 64];
    write_digits(&mut text, digest);
    text
}

fn write_digits(text: &mut [u8], bytes: &[u8]) {
    // Without a table, so that the compiler can vectorize it.
    let digit = |d: u8| d + if d < 10 { b'0' } else { b'a' - 10 };
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte & 15)]);
    }
}
