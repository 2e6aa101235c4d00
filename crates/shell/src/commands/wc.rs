//! `wc`: counts lines, words, bytes and the longest line, in columns as wide as GNU's.

use std::io::{self, BufRead, Write};

use rustix::fs::FileType;

use super::reading::{OperandError, STDIN_OPERAND, next_chunk, or_standard_input, read};
use crate::call::{Call, CommandError, CommandResult, DEV_NULL, usage_error};
use crate::options::{OptSpec, OptionArg, ParsedArgs};
use crate::stream::Input;

const OPTIONS: OptSpec = OptSpec {
    short: "clLmw",
    long: &[
        ("bytes", OptionArg::None, 'c'),
        ("chars", OptionArg::None, 'm'),
        ("lines", OptionArg::None, 'l'),
        ("max-line-length", OptionArg::None, 'L'),
        ("total", OptionArg::Required, 't'),
        ("words", OptionArg::None, 'w'),
    ],
    error_status: 1,
};

/// The column width where an operand is not a regular file, so that its size is unknown.
const UNKNOWN_WIDTH: usize = 7;

/// Counts the content of files.
pub(super) fn wc(call: &mut Call<'_>) -> CommandResult {
    let typed = OPTIONS.read(call.args)?;
    let total = TotalMode::of(&typed)?;
    let columns = CountColumns::of(&typed);
    // Without operands, no name is printed.
    let unnamed = typed.operands.is_empty();
    let operands = or_standard_input(typed.operands);
    let width = match total {
        TotalMode::Only => 1,
        _ => columns.width(call, &operands),
    };
    let mut sum = TextCounts::default();
    let mut status = 0;
    for operand in &operands {
        let mut opened = false;
        let mut counts = TextCounts::default();
        let good = read(
            call,
            operand,
            |_| {
                opened = true;
                Ok(())
            },
            |call, input| counts.read(call, input, &columns, *operand == STDIN_OPERAND),
        )?;
        if opened && total != TotalMode::Only {
            let name = Some(*operand).filter(|_| !unnamed);
            columns.print(&counts, width, name, &mut call.out)?;
        }
        if !good {
            status = 1;
        }
        sum.add(&counts);
    }
    match total {
        TotalMode::Only => columns.print(&sum, width, None, &mut call.out)?,
        TotalMode::Always => columns.print(&sum, width, Some(b"total"), &mut call.out)?,
        TotalMode::Auto if operands.len() > 1 => {
            columns.print(&sum, width, Some(b"total"), &mut call.out)?;
        }
        TotalMode::Auto | TotalMode::Never => {}
    }
    Ok(status)
}

/// The mode of the line with the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TotalMode {
    Auto,
    Always,
    Only,
    Never,
}

impl TotalMode {
    fn of(typed: &ParsedArgs<'_>) -> Result<TotalMode, CommandError> {
        let mut total = TotalMode::Auto;
        for (_, when) in typed.options.iter().filter(|(letter, _)| *letter == 't') {
            total = match when.unwrap_or_default() {
                b"auto" => TotalMode::Auto,
                b"always" => TotalMode::Always,
                b"only" => TotalMode::Only,
                b"never" => TotalMode::Never,
                other => {
                    let message = [b"invalid argument '", other, b"' for '--total'"];
                    return Err(usage_error(message.concat()));
                }
            };
        }
        Ok(total)
    }
}

/// The selection of counts to print.
#[derive(Debug)]
struct CountColumns {
    lines: bool,
    words: bool,
    chars: bool,
    bytes: bool,
    longest: bool,
}

impl CountColumns {
    fn of(typed: &ParsedArgs<'_>) -> CountColumns {
        let asked = "clLmw".chars().any(|letter| typed.has(letter));
        CountColumns {
            lines: !asked || typed.has('l'),
            words: !asked || typed.has('w'),
            chars: typed.has('m'),
            bytes: !asked || typed.has('c'),
            longest: typed.has('L'),
        }
    }

    /// Returns the counts that are printed, in order. A character is a byte in the C locale.
    fn of_counts(&self, counts: &TextCounts) -> impl Iterator<Item = u64> {
        [
            (self.lines, counts.lines),
            (self.words, counts.words),
            (self.chars, counts.bytes),
            (self.bytes, counts.bytes),
            (self.longest, counts.longest),
        ]
        .into_iter()
        .filter_map(|(shown, count)| shown.then_some(count))
    }

    /// Returns the column width: that of the sum of all sizes, which is known before anything is read.
    fn width(&self, call: &Call<'_>, operands: &[&[u8]]) -> usize {
        if operands.len() == 1 && self.of_counts(&TextCounts::default()).count() == 1 {
            return 1;
        }
        let (mut sizes, mut least) = (0u64, 1);
        for operand in operands {
            let size = if *operand == STDIN_OPERAND {
                let meta = call.stdin.as_file().and_then(|file| file.metadata().ok());
                meta.filter(|meta| meta.is_file()).map(|meta| meta.len())
            } else if *operand == DEV_NULL {
                None
            } else {
                let meta = call.path(operand).and_then(|path| call.home().stat(&path));
                let Ok(meta) = meta else {
                    continue;
                };
                (meta.kind == FileType::RegularFile).then_some(meta.size)
            };
            match size {
                Some(size) => sizes = sizes.saturating_add(size),
                None => least = UNKNOWN_WIDTH,
            }
        }
        sizes.to_string().len().max(least)
    }

    fn print(
        &self,
        counts: &TextCounts,
        width: usize,
        name: Option<&[u8]>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (at, count) in self.of_counts(counts).enumerate() {
            let gap = if at > 0 { " " } else { "" };
            write!(out, "{gap}{count:width$}")?;
        }
        if let Some(name) = name {
            out.write_all(b" ")?;
            out.write_all(name)?;
        }
        out.write_all(b"\n")
    }
}

#[derive(Debug, Default)]
struct TextCounts {
    lines: u64,
    words: u64,
    bytes: u64,
    longest: u64,
}

impl TextCounts {
    fn add(&mut self, other: &TextCounts) {
        self.lines += other.lines;
        self.words += other.words;
        self.bytes += other.bytes;
        self.longest = self.longest.max(other.longest);
    }

    fn read(
        &mut self,
        call: &Call<'_>,
        input: &mut Input,
        columns: &CountColumns,
        standard: bool,
    ) -> Result<(), OperandError> {
        if !(standard || columns.lines || columns.words || columns.longest) {
            let size = input.as_file().and_then(|file| file.metadata().ok());
            self.bytes = size.map_or(0, |meta| meta.len());
            return Ok(());
        }
        let mut line = LinePosition::default();
        loop {
            let chunk = next_chunk(call, input)?;
            if chunk.is_empty() {
                break;
            }
            self.bytes += chunk.len() as u64;
            if columns.lines {
                self.lines += memchr::memchr_iter(b'\n', chunk).count() as u64;
            }
            if columns.words {
                self.words += line.words(chunk);
            }
            if columns.longest {
                line.measure(chunk);
            }
            let length = chunk.len();
            input.consume(length);
        }
        self.longest = line.longest.max(line.column);
        Ok(())
    }
}

/// The position within a line.
#[derive(Debug, Default)]
struct LinePosition {
    in_word: bool,
    column: u64,
    longest: u64,
}

impl LinePosition {
    /// Counts the words that begin in a chunk. A byte that is neither a space nor printable neither begins nor ends a
    /// word.
    fn words(&mut self, chunk: &[u8]) -> u64 {
        let mut begun = 0;
        for byte in chunk {
            let printable = byte.is_ascii_graphic();
            begun += u64::from(printable & !self.in_word);
            self.in_word = (self.in_word | printable) & !matches!(byte, b' ' | b'\t'..=b'\r');
        }
        begun
    }

    /// Tracks the width that a terminal would need. Unprintable bytes have none.
    fn measure(&mut self, chunk: &[u8]) {
        for byte in chunk {
            match byte {
                b'\n' | b'\r' | 12 => {
                    self.longest = self.longest.max(self.column);
                    self.column = 0;
                }
                b'\t' => self.column += 8 - self.column % 8,
                b' '..=b'~' => self.column += 1,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;

    const ODD: &str = "a\tb\r\n\u{1}\u{7f}\n\n\nend\n";

    #[test]
    fn columns_of_streams_and_files() {
        let mut bench = Bench::new();
        bench.put("odd", ODD);
        bench.put("long", "x".repeat(1200));
        bench.put("d/x", "");
        for (line, expected) in [
            ("wc", "      5       3      14\n"),
            ("wc -", "      5       3      14 -\n"),
            ("wc -l", "5\n"),
            ("wc -l -", "5 -\n"),
            ("wc odd", " 5  3 14 odd\n"),
            ("wc -L odd", "9 odd\n"),
            ("wc -m odd", "14 odd\n"),
            ("wc -c long", "1200 long\n"),
            ("wc -w odd", "3 odd\n"),
            ("wc -mcLwl odd", " 5  3 14 14  9 odd\n"),
            (
                "wc odd long",
                "   5    3   14 odd\n   0    1 1200 long\n   5    4 1214 total\n",
            ),
            ("wc -c odd long", "  14 odd\n1200 long\n1214 total\n"),
            ("wc -l odd -", "      5 odd\n      5 -\n     10 total\n"),
            ("wc --lines --total=never odd odd", " 5 odd\n 5 odd\n"),
            ("wc -l --total=only odd odd", "10\n"),
            ("wc -l --total=always odd", "5 odd\n5 total\n"),
        ] {
            assert_eq!(
                bench.run(line, ODD),
                (expected.into(), String::new(), 0),
                "{line}"
            );
        }
    }

    #[test]
    fn wc_reports_unreadable_operands() {
        let mut bench = Bench::new();
        bench.put("d/x", "1\n");
        for (line, out, err) in [
            ("wc d", "      0       0       0 d\n", "d: Is a directory"),
            (
                "wc no d/x",
                "1 1 2 d/x\n1 1 2 total\n",
                "no: No such file or directory",
            ),
            ("wc no", "", "no: No such file or directory"),
            ("wc -Z", "", "invalid option -- 'Z'"),
            ("wc --total=x", "", "invalid argument 'x' for '--total'"),
        ] {
            assert_eq!(
                bench.run(line, ""),
                (out.into(), format!("wc: {err}\n"), 1),
                "{line}"
            );
        }
    }

    #[test]
    fn words_span_chunks() {
        let text = "ab ".repeat(100_000);
        assert_eq!(Bench::new().run("wc -w", &text).0, "100000\n");
        assert_eq!(Bench::new().run("wc -L", &text).0, "300000\n");
    }
}
