//! The output of results: lines for people, in colour on a terminal only, or JSON.
//!
//! Owns standard output. A reader that has gone (`| head`, a pager that was left) ends the program quietly, as it does
//! every Unix tool.

use std::fmt::Arguments;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;

use super::escaping::{escape_for_terminal, print_error, print_error_json};
use super::exit::ExitReason;
use super::pager;
use crate::error::{Error, Result};
use crate::name::is_deceptive;

/// A colour of a terminal, by what it is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    /// Headings.
    Heading,
    /// Text of less interest.
    Faint,
    /// Something new.
    Added,
    /// Something removed.
    Removed,
    /// Any other text.
    Changed,
}

impl TextStyle {
    fn code(self) -> &'static str {
        match self {
            TextStyle::Heading => "1",
            TextStyle::Faint => "2",
            TextStyle::Added => "32",
            TextStyle::Removed => "31",
            TextStyle::Changed => "36",
        }
    }
}

/// Standard output, or standard error, for much text: written in large pieces.
pub(super) struct Printer {
    out: BufWriter<Box<dyn Write>>,
    terminal: bool,
    colour: bool,
}

impl Printer {
    /// Takes standard output.
    pub(super) fn new() -> Printer {
        let out = std::io::stdout();
        let is_terminal = pager::is_terminal();
        Printer::to_writer(Box::new(out.lock()), is_terminal)
    }

    /// Takes standard error.
    pub(super) fn to_stderr() -> Printer {
        let out = std::io::stderr();
        let is_terminal = out.is_terminal();
        Printer::to_writer(Box::new(out.lock()), is_terminal)
    }

    fn to_writer(out: Box<dyn Write>, is_terminal: bool) -> Printer {
        Printer {
            terminal: is_terminal,
            colour: is_terminal && !is_colour_unwanted(),
            out: BufWriter::with_capacity(1 << 16, out),
        }
    }

    /// Writes one line, as [`shown`] has it.
    pub(super) fn line(&mut self, line: Arguments<'_>) {
        let line = line.to_string();
        let line = if line.contains('\n') {
            // A journal that somebody else wrote must not add lines of its own.
            line.replace('\n', "\\n")
        } else {
            line
        };
        let written = writeln!(self.out, "{}", escape_for_terminal(&line, self.colour));
        ignore_closed_pipe(written);
    }

    /// Writes bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let written = self.out.write_all(bytes);
        ignore_closed_pipe(written);
    }

    /// Writes a line of a file, with a sign before it. A terminal must not obey what an occupant wrote into a file: it
    /// gets control characters written out; whatever else reads gets the bytes as they are.
    pub(super) fn text_line(&mut self, sign: u8, text: &[u8], style: Option<TextStyle>) {
        if !self.terminal {
            self.bytes(&[sign]);
            self.bytes(text);
            return self.bytes(b"\n");
        }
        let shown: Vec<String> = text
            .split(|b| *b == b'\t')
            .map(escape_keeping_backslash)
            .collect();
        let line = format!("{}{}", char::from(sign), shown.join("\t"));
        let line = style.map_or(line.clone(), |style| self.style(style, &line));
        self.line(format_args!("{line}"));
    }

    /// Writes one object of JSON.
    ///
    /// # Errors
    /// Where it cannot be written as JSON.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> Result<()> {
        let text = json(value)?;
        self.bytes(text.as_bytes());
        self.bytes(b"\n");
        Ok(())
    }

    /// Lets the reader see what has been written.
    pub(super) fn flush(&mut self) {
        let written = self.out.flush();
        ignore_closed_pipe(written);
    }

    /// Returns a text in a colour, where colours are wanted.
    pub(super) fn style(&self, style: TextStyle, text: &str) -> String {
        if self.colour {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Returns whether colours are wanted where something is written.
pub(super) fn has_colour(out: &impl IsTerminal) -> bool {
    out.is_terminal() && !is_colour_unwanted()
}

fn is_colour_unwanted() -> bool {
    // https://no-color.org: any value but the empty one.
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// As [`escape`](crate::name::escape), but a backslash stays one.
pub(super) fn escape_keeping_backslash(text: &[u8]) -> String {
    let parts = text.split(|b| *b == b'\\').map(crate::name::escape);
    parts.collect::<Vec<_>>().join("\\")
}

fn ignore_closed_pipe(written: std::io::Result<()>) {
    if let Err(error) = written {
        pager::finish();
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let error = Error::io("write", &error);
        print_error(format_args!("trumanfs: standard output: {error}"));
        std::process::exit(ExitReason::System as i32);
    }
}

/// Writes a number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = "bytes";
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    match (unit, count) {
        (_, 1) => "1 byte".to_owned(),
        ("bytes", _) => format!("{count} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// Writes a number of things: `1 file`, `2 files`, `3 directories`.
pub(super) fn count(number: u64, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {thing}s"),
    }
}

/// Writes an argument so that a shell takes it as one word again.
pub(super) fn quote(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:@%=,".contains(b);
    match std::str::from_utf8(word) {
        Ok(text) if !word.is_empty() && word.iter().all(plain) => text.to_owned(),
        Ok(text) if !text.chars().any(is_deceptive) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        // $'…' of bash, zsh and POSIX 2024.
        _ => {
            let escaped: String = word
                .iter()
                .map(|b| match b {
                    b'\\' | b'\'' => format!("\\{}", char::from(*b)),
                    b' '..=b'~' => char::from(*b).to_string(),
                    b => format!("\\x{b:02x}"),
                })
                .collect();
            format!("$'{escaped}'")
        }
    }
}

/// Prints a line, as [`shown`] has it; a reader that has gone (`| head`) ends the program quietly, as it does every
/// Unix tool.
pub(super) fn print_line(line: Arguments<'_>) {
    let written = writeln!(
        std::io::stdout(),
        "{}",
        escape_for_terminal(&line.to_string(), false)
    );
    ignore_closed_pipe(written);
}

/// Names the store that something is deleted in for good, on standard error, before it is.
pub(super) fn name_store(store: &Path) {
    let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let store = crate::name::escape(store.as_os_str().as_encoded_bytes());
    print_error(format_args!("store {store}"));
}

/// Says something beside the answer, on standard error: as an object where the answer is one.
pub(super) fn warn(as_json: bool, what: &str) {
    if as_json {
        print_error_json(&serde_json::json!({ "warning": { "what": what } }))
    } else {
        print_error(format_args!("trumanfs: {what}"))
    }
}

/// Writes anything as one line of JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::Damaged(format!("cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_colours_stay() {
        for style in [
            TextStyle::Heading,
            TextStyle::Faint,
            TextStyle::Added,
            TextStyle::Removed,
            TextStyle::Changed,
        ] {
            let text = format!("\x1b[{}ma\x1b[0m", style.code());
            assert_eq!(escape_for_terminal(&text, true), text);
        }
    }

    #[test]
    fn numbers_are_for_people() {
        for (number, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(
            (count(1, "entry"), count(2, "entry"), count(0, "file")),
            ("1 entry".into(), "2 entries".into(), "0 files".into())
        );
    }

    #[test]
    fn a_shell_takes_a_word_back() {
        for (word, quoted) in [
            (&b"/a/b.txt"[..], "/a/b.txt"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "'it'\\''s'"),
            (b"a\nb'", "$'a\\x0ab\\''"),
            (b"\xff\\", "$'\\xff\\\\'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
