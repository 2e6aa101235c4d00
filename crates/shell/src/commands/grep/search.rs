//! [`FileSearch`]: searches files one after the other, selects lines, and prints them with their context.
//!
//! The rules for selected lines, groups and binary files are GNU's (`src/grep.c`).

use std::io::{self, BufWriter, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::buffer::{FileBuffer, line_end, lines_back};
use super::matcher::LineMatcher;
use super::options::{BinaryMode, GrepOptions, OutputMode};
use super::print::{CONTEXT, LinePrinter, SELECTED};
use crate::deadline::Deadline;
use crate::stream::Output;

/// The result of searching a file.
#[derive(Debug, Default)]
pub(super) struct FileMatches {
    /// The number of selected lines, as far as they were counted.
    pub(super) count: u64,
    /// True if lines were selected but not printed because the file is binary.
    pub(super) binary: bool,
    /// The read error that ended the search.
    pub(super) error: Option<io::Error>,
    /// The number of bytes read after the last wanted line; 0 if that line did not come.
    pub(super) unread: u64,
}

/// The state that lasts from file to file.
pub(super) struct FileSearch {
    matcher: LineMatcher,
    buffer: FileBuffer,
    /// True once any line has been printed: the next group needs a separator.
    has_output: bool,
}

impl FileSearch {
    /// Makes a search.
    pub(super) fn new(matcher: LineMatcher) -> FileSearch {
        FileSearch {
            matcher,
            buffer: FileBuffer::new(),
            has_output: false,
        }
    }

    /// Searches a file.
    ///
    /// # Errors
    /// Write errors; `TimedOut`.
    pub(super) fn search_file(
        &mut self,
        from: &mut dyn Read,
        name: Option<&[u8]>,
        options: &GrepOptions<'_>,
        out: &mut BufWriter<Output>,
        deadline: &Deadline,
    ) -> io::Result<FileMatches> {
        let buffer = &mut self.buffer;
        buffer.clear();
        let printer = LinePrinter::new(options, out, name);
        let mut scan = FileScan::new(
            &mut self.matcher,
            &mut self.has_output,
            (options, deadline),
            printer,
        );
        // The number of lines that were selected before the first NUL.
        let mut text_count = None;
        let (mut searched, mut read) = (0, 0);
        let mut error = None;
        loop {
            deadline.check()?;
            let new = match buffer.read(from, deadline) {
                Ok(new) => new,
                Err(failed) => {
                    deadline.check()?;
                    error = Some(failed);
                    break;
                }
            };
            read += new.len() as u64;
            let at_end = new.is_empty();
            let fresh = buffer.text().get(new.clone()).unwrap_or_default();
            let may_be_binary = text_count.is_none() && options.binary != BinaryMode::Text;
            if may_be_binary && memchr(0, fresh).is_some() {
                if options.binary == BinaryMode::Skipped {
                    return Ok(FileMatches::default());
                }
                text_count = Some(scan.count);
                if options.output_mode != OutputMode::Count {
                    (scan.first_only, scan.quiet) = (true, true);
                }
            }
            if text_count.is_some() {
                buffer.split_at_nul(new.clone());
            }
            if at_end {
                buffer.end_line();
            }
            let text = buffer.text();
            let fresh = text.get(new.start..).unwrap_or_default();
            let Some(last) = memrchr(b'\n', fresh).map(|newline| new.start + newline + 1) else {
                if at_end {
                    break;
                }
                continue;
            };
            let limit = if at_end { text.len() } else { last };
            scan.search_lines(text, searched..limit)?;
            if scan.pending_context > 0 {
                scan.print_trailing_context(text, limit)?;
            }
            let since = scan.count - text_count.unwrap_or(0);
            let full = scan.count >= options.max_count && scan.pending_context == 0;
            if at_end || full || (scan.first_only && since > 0) {
                break;
            }
            let needed = scan.forget(text, limit);
            buffer.forget(needed);
            searched = limit - needed;
        }
        let binary = text_count.is_some_and(|before| scan.count > before);
        Ok(FileMatches {
            count: scan.count,
            binary: binary && options.output_mode == OutputMode::Lines,
            unread: scan.unread(read),
            error,
        })
    }
}

/// The state of the search through one file. Offsets are into the text in memory.
struct FileScan<'s> {
    options: &'s GrepOptions<'s>,
    matcher: &'s mut LineMatcher,
    deadline: &'s Deadline,
    printer: LinePrinter<'s>,
    has_output: &'s mut bool,
    /// True if no lines are printed.
    quiet: bool,
    /// True if one line is enough.
    first_only: bool,
    count: u64,
    /// The number of trailing context lines still to be printed.
    pending_context: u64,
    /// The end of the last printed line, if it is still in the text.
    printed: Option<usize>,
    /// The number of bytes before the text.
    before_text: u64,
    /// The offset in the file of the end of the last wanted line.
    wanted_end: Option<u64>,
}

impl<'s> FileScan<'s> {
    fn new(
        matcher: &'s mut LineMatcher,
        has_output: &'s mut bool,
        (options, deadline): (&'s GrepOptions<'s>, &'s Deadline),
        printer: LinePrinter<'s>,
    ) -> FileScan<'s> {
        FileScan {
            options,
            matcher,
            deadline,
            printer,
            has_output,
            quiet: options.output_mode != OutputMode::Lines,
            first_only: !matches!(options.output_mode, OutputMode::Lines | OutputMode::Count),
            count: 0,
            pending_context: 0,
            printed: None,
            before_text: 0,
            wanted_end: None,
        }
    }

    /// Returns the number of bytes read after the last wanted line; 0 where lines are not counted, since the search
    /// then ends at no certain place.
    fn unread(&self, read: u64) -> u64 {
        let is_counted = matches!(
            self.options.output_mode,
            OutputMode::Lines | OutputMode::Count
        );
        let wanted_end = self.wanted_end.filter(|_| is_counted);
        wanted_end.map_or(0, |at| read.saturating_sub(at))
    }

    /// Selects among whole lines.
    fn search_lines(&mut self, text: &[u8], range: Range<usize>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end && self.count < self.options.max_count {
            let found = self.matcher.find_line(text, at..range.end, self.deadline)?;
            let selected = match (self.options.invert, &found) {
                (false, None) => break,
                (false, Some(found)) => found.clone(),
                (true, Some(found)) => at..found.start,
                (true, None) => at..range.end,
            };
            at = found.map_or(range.end, |found| found.end);
            if !selected.is_empty() {
                self.select_lines(text, selected)?;
                if self.first_only {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Selects consecutive lines, up to the maximum.
    fn select_lines(&mut self, text: &[u8], lines: Range<usize>) -> io::Result<()> {
        let left = self.options.max_count - self.count;
        let end = if self.options.invert {
            nth_line_end(text, &lines, left)
        } else {
            lines.end
        };
        if self.quiet {
            let selected = text.get(lines).unwrap_or_default();
            let count = if self.options.invert {
                memchr_iter(b'\n', selected).count() as u64
            } else {
                1
            };
            self.count += count.min(left);
            self.pending_context = 0;
        } else {
            if self.pending_context > 0 {
                self.print_trailing_context(text, lines.start)?;
            }
            let floor = self.printed.unwrap_or(0);
            let start = lines_back(text, lines.start, self.options.before, floor);
            if let Some(separator) = self.options.separator
                && *self.has_output
                && self.printed != Some(start)
            {
                self.printer.print_separator(separator)?;
            }
            self.print_lines(text, start..lines.start, u64::MAX, CONTEXT)?;
            self.count += self.print_lines(text, lines, left, SELECTED)?;
            self.pending_context = self.options.after;
        }
        *self.has_output = true;
        if self.count >= self.options.max_count {
            self.wanted_end = Some(self.before_text + end as u64);
        }
        Ok(())
    }

    /// Prints trailing context up to an offset.
    fn print_trailing_context(&mut self, text: &[u8], until: usize) -> io::Result<()> {
        let start = self.printed.unwrap_or(0);
        self.pending_context -=
            self.print_lines(text, start..until, self.pending_context, CONTEXT)?;
        Ok(())
    }

    /// Prints at most so many lines. Returns their number.
    fn print_lines(
        &mut self,
        text: &[u8],
        lines: Range<usize>,
        most: u64,
        mark: u8,
    ) -> io::Result<u64> {
        let (mut at, mut count) = (lines.start, 0);
        while at < lines.end && count < most {
            let end = line_end(text, at);
            self.printer.print_line(text, at..end, mark, self.matcher)?;
            (at, count) = (end, count + 1);
            self.printed = Some(end);
        }
        Ok(count)
    }

    /// Returns the offset from which the text is still needed, as leading context of what follows `limit`; from now
    /// on, all offsets count from there.
    fn forget(&mut self, text: &[u8], limit: usize) -> usize {
        let floor = self.printed.unwrap_or(0);
        let needed = lines_back(text, limit, self.options.before, floor);
        self.printer.forget(text, needed);
        self.before_text += needed as u64;
        self.printed = self.printed.filter(|end| *end == needed).map(|_| 0);
        needed
    }
}

/// Returns the end of the nth of some lines, or of all where there are fewer.
fn nth_line_end(text: &[u8], lines: &Range<usize>, nth: u64) -> usize {
    let before = usize::try_from(nth).unwrap_or(usize::MAX).saturating_sub(1);
    let found = memchr_iter(b'\n', text.get(lines.clone()).unwrap_or_default()).nth(before);
    found.map_or(lines.end, |at| lines.start + at + 1)
}
