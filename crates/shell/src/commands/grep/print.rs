//! [`LinePrinter`]: writes a line of a file: name, number, offset, the line or its matches.

use std::io::{self, BufWriter, Write};
use std::ops::Range;

use memchr::memchr_iter;

use super::matcher::LineMatcher;
use super::options::GrepOptions;
use crate::stream::Output;

/// The byte after the name and the number of a selected line.
pub(super) const SELECTED: u8 = b':';
/// The byte after the name and the number of a context line.
pub(super) const CONTEXT: u8 = b'-';

/// A writer for the lines of one file.
pub(super) struct LinePrinter<'p> {
    options: &'p GrepOptions<'p>,
    out: &'p mut BufWriter<Output>,
    name: Option<&'p [u8]>,
    /// The number of lines before `counted`.
    lines: u64,
    counted: usize,
    /// The offset in the file at which the text begins.
    base: u64,
}

impl<'p> LinePrinter<'p> {
    /// Makes a printer for a file, with its name where names are printed.
    pub(super) fn new(
        options: &'p GrepOptions<'p>,
        out: &'p mut BufWriter<Output>,
        name: Option<&'p [u8]>,
    ) -> LinePrinter<'p> {
        LinePrinter {
            options,
            out,
            name,
            lines: 0,
            counted: 0,
            base: 0,
        }
    }

    /// Writes a line or its matches.
    ///
    /// # Errors
    /// Write errors.
    pub(super) fn print_line(
        &mut self,
        text: &[u8],
        line: Range<usize>,
        mark: u8,
        matcher: &mut LineMatcher,
    ) -> io::Result<()> {
        if !self.options.only_matching {
            self.print_prefix(text, line.start, line.end, mark)?;
            self.out.write_all(text.get(line).unwrap_or_default())?;
        } else if (mark == SELECTED) != self.options.invert {
            self.print_matches(text, line, mark, matcher)?;
        }
        if self.options.flush {
            self.out.flush()?;
        }
        Ok(())
    }

    /// Writes the separator between two groups of lines.
    ///
    /// # Errors
    /// Write errors.
    pub(super) fn print_separator(&mut self, separator: &[u8]) -> io::Result<()> {
        self.out.write_all(separator)?;
        self.out.write_all(b"\n")
    }

    /// Adjusts the offsets for a text whose first `before` bytes are dropped.
    pub(super) fn forget(&mut self, text: &[u8], before: usize) {
        self.count_lines(text, before);
        self.counted -= before;
        self.base += before as u64;
    }

    /// Writes each non-empty match.
    fn print_matches(
        &mut self,
        text: &[u8],
        line: Range<usize>,
        mark: u8,
        matcher: &mut LineMatcher,
    ) -> io::Result<()> {
        let mut at = line.start;
        while at + 1 < line.end {
            let Some(part) = matcher.find_match(text, at..line.end - 1) else {
                break;
            };
            if part.is_empty() {
                at = part.start + 1;
                continue;
            }
            self.print_prefix(text, part.start, line.end, mark)?;
            at = part.end;
            self.out.write_all(text.get(part).unwrap_or_default())?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn print_prefix(
        &mut self,
        text: &[u8],
        start: usize,
        line_end: usize,
        mark: u8,
    ) -> io::Result<()> {
        if let Some(name) = self.name {
            self.out.write_all(name)?;
            let after = if self.options.null { 0 } else { mark };
            self.out.write_all(&[after])?;
        }
        if self.options.numbers {
            self.count_lines(text, line_end);
            print_number(self.out, self.lines, mark)?;
        }
        if self.options.offsets {
            print_number(self.out, self.base + start as u64, mark)?;
        }
        Ok(())
    }

    /// Counts the lines up to the end of a line, unless they are counted already.
    fn count_lines(&mut self, text: &[u8], end: usize) {
        if let Some(new) = text.get(self.counted..end) {
            if self.options.numbers {
                self.lines += memchr_iter(b'\n', new).count() as u64;
            }
            self.counted = end;
        }
    }
}

fn print_number(out: &mut BufWriter<Output>, number: u64, mark: u8) -> io::Result<()> {
    write!(out, "{number}{}", char::from(mark))
}
