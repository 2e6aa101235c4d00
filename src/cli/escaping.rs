//! Escaping of printed text: names and lines that others have chosen must not act on a terminal.
//!
//! Owns the rule for everything that is printed for people, and standard error. JSON and contents are exact and do not
//! pass here.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::Write;

use crate::name::{escape_char, is_deceptive};

/// The codes of all styles, and the one that ends them.
const STYLE_CODES: [&str; 6] = ["0", "1", "2", "31", "32", "36"];

/// Returns a text that is safe to print. Characters that steer a terminal, change the direction of writing or are
/// invisible become their bytes, `\xNN`; an occupant or a foreign journal may have put them there. Line ends and tabs
/// stay, and with `colour` so do the codes of our own styles.
pub(super) fn escape_for_terminal(text: &str, colour: bool) -> Cow<'_, str> {
    let is_plain = |c: char| !is_deceptive(c) || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let ours = rest.strip_prefix("\x1b[").filter(|_| colour);
        let code = ours.and_then(|rest| rest.split_once('m'));
        match code {
            Some((code, after)) if STYLE_CODES.contains(&code) => {
                safe.push_str(&format!("\x1b[{code}m"));
                rest = after;
                continue;
            }
            _ if is_plain(c) => safe.push(c),
            _ => escape_char(c, &mut safe),
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(safe)
}

/// Prints a line on standard error, escaped by [`shown`]. A failure to write is ignored.
pub(super) fn print_error(line: Arguments<'_>) {
    let _ = writeln!(
        std::io::stderr(),
        "{}",
        escape_for_terminal(&line.to_string(), false)
    );
}

/// Prints an object on standard error. A failure to write is ignored.
pub(super) fn print_error_json(object: &serde_json::Value) {
    let _ = writeln!(std::io::stderr(), "{object}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_text_and_our_colours() {
        for (text, safe) in [
            ("a\n\tb ä 日本", "a\n\tb ä 日本"),
            ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
            ("\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"),
            ("\u{9b}31m\x7f\r", "\\xc2\\x9b31m\\x7f\\x0d"),
            (
                "a\u{202e}txt.exe\u{2066}",
                "a\\xe2\\x80\\xaetxt.exe\\xe2\\x81\\xa6",
            ),
            ("\u{200b}\u{feff}", "\\xe2\\x80\\x8b\\xef\\xbb\\xbf"),
        ] {
            assert_eq!(escape_for_terminal(text, true), safe);
        }
        assert_eq!(escape_for_terminal("\x1b[31mred", false), "\\x1b[31mred");
    }
}
