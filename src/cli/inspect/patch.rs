//! A difference of contents as a unified patch, in git's format, so that `git apply` and `patch -p1` take it.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use super::super::output::{Printer, Style};
use crate::error::Result;
use crate::name::{WorldPath, is_deceptive};
use crate::operator::diff::{Bytes, Diff, Difference, Side};

/// What is larger is not shown as text.
const LARGE: u64 = 16 << 20;
/// As git does it: a NUL in the first bytes means that it is no text.
const LOOKED_AT: usize = 8000;
/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;
/// After so long the smallest difference is not searched for any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// The contents of a change.
pub(super) enum Texts {
    /// Both sides are text; nothing is an empty one.
    Text(Vec<u8>, Vec<u8>),
    /// One side is not.
    Binary,
}

/// Reads the contents of a change, if they are text.
///
/// # Errors
/// As [`Diff::contents`].
pub(super) fn texts(diff: &Diff<'_>, change: &Difference) -> Result<Texts> {
    let (before, after) = diff.contents(change)?;
    let size = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::size);
    if size(&before).max(size(&after)) > LARGE {
        return Ok(Texts::Binary);
    }
    let read = |bytes: Option<Bytes>| bytes.map_or_else(|| Ok(Vec::new()), |bytes| bytes.read());
    let (before, after) = (read(before)?, read(after)?);
    let is_text = |bytes: &[u8]| !bytes.iter().take(LOOKED_AT).any(|b| *b == 0);
    Ok(match is_text(&before) && is_text(&after) {
        true => Texts::Text(before, after),
        false => Texts::Binary,
    })
}

/// Counts the lines that were added and removed.
pub(super) fn count(before: &[u8], after: &[u8]) -> (u64, u64) {
    let (old, new) = (lines(before), lines(after));
    // Most of what comes or goes whole needs no comparing.
    if old.is_empty() || new.is_empty() {
        return (new.len() as u64, old.len() as u64);
    }
    let diff = compare(&old, &new);
    let mut counts = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => counts.0 += 1,
            ChangeTag::Delete => counts.1 += 1,
            ChangeTag::Equal => {}
        }
    }
    counts
}

/// Writes the patch of a change.
///
/// # Errors
/// As [`Diff::contents`].
pub(super) fn patch(printer: &mut Printer, diff: &Diff<'_>, change: &Difference) -> Result<()> {
    let is_dir = |side: &Option<Side>| side.as_ref().is_some_and(Side::is_dir);
    if is_dir(&change.before) || is_dir(&change.after) {
        // git knows no directories, only what is in them.
        return Ok(());
    }
    let old = name("a/", change.from.as_ref().unwrap_or(&change.path));
    let new = name("b/", &change.path);
    heading(printer, &format!("diff --git {old} {new}"));
    match (&change.before, &change.after) {
        (None, Some(after)) => heading(printer, &format!("new file mode {:o}", mode(after))),
        (Some(before), None) => heading(printer, &format!("deleted file mode {:o}", mode(before))),
        (Some(before), Some(after)) if mode(before) != mode(after) => {
            heading(printer, &format!("old mode {:o}", mode(before)));
            heading(printer, &format!("new mode {:o}", mode(after)));
        }
        _ => {}
    }
    if let Some(from) = &change.from {
        heading(printer, &format!("rename from {}", name("", from)));
        heading(printer, &format!("rename to {}", name("", &change.path)));
    }
    let there = |side: &Option<Side>, name: String| match side {
        Some(_) => name,
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (there(&change.before, old), there(&change.after, new));
    if !change.content && change.before.is_some() && change.after.is_some() {
        return Ok(());
    }
    match texts(diff, change)? {
        Texts::Binary => heading(printer, &format!("Binary files {old} and {new} differ")),
        Texts::Text(before, after) if before == after => {}
        Texts::Text(before, after) => {
            heading(printer, &format!("--- {old}"));
            heading(printer, &format!("+++ {new}"));
            hunks(printer, &before, &after);
        }
    }
    Ok(())
}

fn hunks(printer: &mut Printer, before: &[u8], after: &[u8]) {
    let (old, new) = (lines(before), lines(after));
    let diff = compare(&old, &new);
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        let header = hunk.header().to_string();
        let header = printer.style(Style::Changed, &header);
        printer.line(format_args!("{header}"));
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Insert => (b'+', Some(Style::Added)),
                ChangeTag::Delete => (b'-', Some(Style::Removed)),
                ChangeTag::Equal => (b' ', None),
            };
            let line = change.value();
            let text = line.strip_suffix(b"\n");
            printer.text_line(sign, text.unwrap_or(line), style);
            if text.is_none() {
                printer.line(format_args!("\\ No newline at end of file"));
            }
        }
    }
}

fn compare<'l>(old: &[&'l [u8]], new: &[&'l [u8]]) -> TextDiff<'l, 'l, [u8]> {
    TextDiff::configure()
        .algorithm(Algorithm::Histogram)
        .timeout(PATIENCE)
        .newline_terminated(true)
        .diff_slices(old, new)
}

/// Only a newline ends a line: patch(1) knows no other.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

fn heading(printer: &mut Printer, text: &str) {
    let text = printer.style(Style::Heading, text);
    printer.line(format_args!("{text}"));
}

/// git knows two modes of files, and symlinks.
fn mode(side: &Side) -> u32 {
    match side.kind {
        "symlink" => 0o120_000,
        _ if side.mode & 0o111 != 0 => 0o100_755,
        _ => 0o100_644,
    }
}

/// Writes a path as git does: in quotes, with octal numbers, where there is anything odd in it.
fn name(side: &str, path: &WorldPath) -> String {
    let bytes = path.bytes();
    match std::str::from_utf8(bytes) {
        Ok(text)
            if !text
                .chars()
                .any(|c| is_deceptive(c) || c == '"' || c == '\\') =>
        {
            format!("{side}{text}")
        }
        _ => {
            let quoted: String = bytes
                .iter()
                .map(|b| match b {
                    b'"' | b'\\' => format!("\\{}", char::from(*b)),
                    b' '..=b'~' => char::from(*b).to_string(),
                    b => format!("\\{b:03o}"),
                })
                .collect();
            format!("\"{side}{quoted}\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted() {
        assert_eq!(count(b"a\nb\nc\n", b"a\nx\nc\nd"), (2, 1));
        assert_eq!(count(b"", b"a\r\nb\rc\n"), (2, 0));
        assert_eq!(count(b"a", b"a\n"), (1, 1));
    }
}
