//! Texts as lines: the difference of two, in hunks, and the merge of three.
//!
//! Owns the meaning of a line, and the lines that a difference is made of, so that a hunk has the same number wherever
//! it is shown or taken back. Pure.

mod compare;
mod merge;

pub(in crate::operator) use compare::COMPARE_LIMIT;
pub use compare::{Hunk, LineSign, TextComparison};
pub(in crate::operator) use merge::merge;

/// The size in bytes above which contents are not compared, shown or merged line by line.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Returns the lines of a text, each with its end. Only a newline ends a line: patch(1) knows no other.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}
