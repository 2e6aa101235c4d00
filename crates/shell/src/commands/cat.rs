//! `cat`: copies files to standard output, optionally numbering lines and making invisible bytes visible. Line
//! numbers continue from one file to the next.

use std::io::{self, BufRead, Write};

use super::reading::{OperandError, copy, next_chunk, or_standard_input, read};
use crate::call::{Call, CommandResult};
use crate::options::{OptSpec, OptionArg};
use crate::stream::Input;

const OPTIONS: OptSpec = OptSpec {
    short: "AbeEnstTuv",
    long: &[
        ("number", OptionArg::None, 'n'),
        ("number-nonblank", OptionArg::None, 'b'),
        ("show-all", OptionArg::None, 'A'),
        ("show-ends", OptionArg::None, 'E'),
        ("show-nonprinting", OptionArg::None, 'v'),
        ("show-tabs", OptionArg::None, 'T'),
        ("squeeze-blank", OptionArg::None, 's'),
    ],
    error_status: 1,
};

/// Copies files to standard output.
pub(super) fn cat(call: &mut Call<'_>) -> CommandResult {
    let typed = OPTIONS.read(call.args)?;
    let any = |letters: &str| letters.chars().any(|letter| typed.has(letter));
    let mut shown = CatFormatter {
        number: any("n"),
        number_filled: any("b"),
        squeeze: any("s"),
        ends: any("AEe"),
        tabs: any("ATt"),
        invisible: any("Aetv"),
        ..CatFormatter::default()
    };
    let plain = !any("AbeEnstTv");
    let mut status = 0;
    for operand in or_standard_input(typed.operands) {
        let mut endless = false;
        let good = read(
            call,
            operand,
            |_| Ok(()),
            |call, input| {
                endless = input.as_file().is_some_and(|file| call.is_output(file));
                match plain {
                    _ if endless => Ok(()),
                    true => copy(call, input),
                    false => shown.copy(call, input),
                }
            },
        )?;
        if endless {
            call.report(&[operand, b": input file is output file"].concat())?;
        }
        if endless || !good {
            status = 1;
        }
    }
    shown.finish(&mut call.out)?;
    Ok(status)
}

/// The display options, and the position within the current line.
#[derive(Debug, Default)]
struct CatFormatter {
    number: bool,
    number_filled: bool,
    squeeze: bool,
    ends: bool,
    tabs: bool,
    invisible: bool,
    /// The current line number.
    line: u64,
    /// True if a part of the line has been written.
    begun: bool,
    /// The number of consecutive empty lines just before this point.
    empty: u64,
    /// True while a carriage return is held back: it is shown as `^M` only before the end of a line.
    held_return: bool,
}

impl CatFormatter {
    fn copy(&mut self, call: &mut Call<'_>, input: &mut Input) -> Result<(), OperandError> {
        loop {
            let chunk = next_chunk(call, input)?;
            if chunk.is_empty() {
                return Ok(());
            }
            for part in chunk.split_inclusive(|byte| *byte == b'\n') {
                match part.strip_suffix(b"\n") {
                    Some(text) => self.end(text, &mut call.out)?,
                    None => self.text(part, &mut call.out)?,
                }
            }
            let length = chunk.len();
            input.consume(length);
        }
    }

    /// Writes the rest of a line and its end.
    fn end(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if text.is_empty() && !self.begun {
            self.empty += 1;
            if self.squeeze && self.empty > 1 {
                return Ok(());
            }
            if self.number && !self.number_filled {
                self.count(out)?;
            }
        } else {
            self.text(text, out)?;
        }
        if std::mem::take(&mut self.held_return) {
            out.write_all(b"^M")?;
        }
        self.begun = false;
        out.write_all(if self.ends { b"$\n" } else { b"\n" })
    }

    /// Writes a part of a line.
    fn text(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let Some(last) = text.last() else {
            return Ok(());
        };
        if !self.begun {
            self.begun = true;
            self.empty = 0;
            if self.number || self.number_filled {
                self.count(out)?;
            }
        }
        self.finish(out)?;
        let mut text = text;
        if *last == b'\r' && self.ends && !self.invisible {
            self.held_return = true;
            text = text.get(..text.len() - 1).unwrap_or_default();
        }
        if self.invisible {
            return self.visible(text, out);
        }
        if self.tabs {
            for (at, part) in text.split(|byte| *byte == b'\t').enumerate() {
                out.write_all(if at > 0 { b"^I" } else { b"" })?;
                out.write_all(part)?;
            }
            return Ok(());
        }
        out.write_all(text)
    }

    /// Writes the carriage return that is held back, if any.
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::take(&mut self.held_return) {
            out.write_all(b"\r")
        } else {
            Ok(())
        }
    }

    fn count(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line += 1;
        write!(out, "{:6}\t", self.line)
    }

    fn visible(&self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for byte in text {
            if *byte == b'\t' && !self.tabs {
                out.write_all(b"\t")?;
                continue;
            }
            if *byte >= 128 {
                out.write_all(b"M-")?;
            }
            match byte & 127 {
                low @ ..32 => out.write_all(&[b'^', low + 64])?,
                127 => out.write_all(b"^?")?,
                low => out.write_all(&[low])?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::OpenOptions;

    use super::super::tests::Bench;
    use super::*;
    use crate::stream::Output;

    fn shown(flags: &str, text: &str) -> String {
        let (out, err, status) = Bench::new().run(&format!("cat {flags}"), text);
        assert_eq!((err.as_str(), status), ("", 0));
        out
    }

    #[test]
    fn line_numbers_continue_over_files() {
        let mut bench = Bench::new();
        bench.put("a", "one\n\ntwo");
        bench.put("b", " go on\n\n\n\nend\n");
        let plain = bench.run("cat a - b", "|");
        assert_eq!(plain.0, "one\n\ntwo| go on\n\n\n\nend\n");
        let numbered = bench.run("cat -n a b", "");
        assert_eq!(
            numbered.0,
            "     1\tone\n     2\t\n     3\ttwo go on\n     4\t\n     5\t\n     6\t\n     7\tend\n"
        );
        let filled = bench.run("cat -nb a b", "");
        assert_eq!(
            filled.0,
            "     1\tone\n\n     2\ttwo go on\n\n\n\n     3\tend\n"
        );
        let squeezed = bench.run("cat -s --number a b", "");
        assert_eq!(
            squeezed.0,
            "     1\tone\n     2\t\n     3\ttwo go on\n     4\t\n     5\tend\n"
        );
    }

    #[test]
    fn invisible_bytes_are_shown() {
        assert_eq!(
            shown("-A", "a\tb\r\n\u{1}\u{7f}é\n"),
            "a^Ib^M$\n^A^?M-CM-)$\n"
        );
        assert_eq!(shown("-v", "\ta\r\n"), "\ta^M\n");
        assert_eq!(shown("-T", "\ta\r\n"), "^Ia\r\n");
        assert_eq!(shown("-E", "a\rb\r\n\r\n\n\r"), "a\rb^M$\n^M$\n$\n\r");
        assert_eq!(shown("-e", "\t\r\n"), "\t^M$\n");
        assert_eq!(shown("-t", "\t\r\n"), "^I^M\n");
        assert_eq!(shown("-bE", "\n\nx"), "$\n$\n     1\tx");
        assert_eq!(shown("-s", "\n\n\na\n\n\n"), "\na\n\n");
        assert_eq!(shown("-u", "\n\n"), "\n\n");
    }

    #[test]
    fn missing_operand_does_not_stop_the_others() {
        let mut bench = Bench::new();
        bench.put("a", "a\n");
        bench.put("d/b", "b\n");
        let (out, err, status) = bench.run("cat a missing d d/b", "");
        assert_eq!((out.as_str(), status), ("a\nb\n", 1));
        assert_eq!(
            err,
            "cat: missing: No such file or directory\ncat: d: Is a directory\n"
        );
        let wrong = bench.run("cat -Z", "");
        assert_eq!(
            (wrong.1.as_str(), wrong.2),
            ("cat: invalid option -- 'Z'\n", 1)
        );
    }

    #[test]
    fn file_is_not_appended_to_itself() {
        let mut bench = Bench::new();
        bench.put("a", "a\n");
        let path = bench.dir.path().join("a");
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        let args = [b"a".to_vec()];
        let status = crate::call::invoke(
            crate::commands::REGISTRY.find(b"cat").unwrap(),
            &args,
            &mut Input::empty(),
            (Output::file(file), Output::null()),
            &mut bench.state,
        );
        assert_eq!(status.unwrap(), 1);
        assert_eq!(std::fs::read(path).unwrap(), b"a\n");
    }
}
