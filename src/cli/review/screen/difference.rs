//! The difference of a path as lines that are safe to show.
//!
//! Owns that nothing in a name or a content acts on the terminal: all text passes through [`shown`], tabs become
//! spaces, and lines are cut.

use super::super::super::escaping::escape_for_terminal;
use super::super::super::inspect::author_words;
use super::super::super::inspect::path_of;
use super::super::super::output::{bytes, escape_keeping_backslash};
use super::super::super::shown_time::utc;
use super::worker_messages::{DifferenceHunk, DifferenceLine, LineKind, ShownDifference};
use crate::client::Review;
use crate::error::Result;
use crate::operator::diff::{DiffSide, PathDifference, TextPair};
use crate::operator::review::{HunkState, ReviewedPath};
use crate::operator::text::{Hunk, LineSign, MAX_TEXT_BYTES, TextComparison};

/// The number of lines of a difference that are shown at most.
const MAX_SHOWN_LINES: usize = 20_000;
/// The number of bytes of a line that are shown: many times what a screen is wide.
const MAX_LINE_BYTES: usize = 4_000;
/// The distance between tab stops, in columns.
const TAB_COLUMNS: usize = 8;

/// Which hunks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HunkFilter {
    /// Those that are to be reviewed.
    Open,
    /// Those that were accepted or taken back, too.
    All,
    /// Those of an earlier point: what became of them since is not asked.
    OfPast,
}

/// Reads the difference of a listed path, by its place in the order; `None` where nothing is listed there.
///
/// # Errors
/// As [`Review::change`] and [`Review::lines`].
pub(super) fn read(
    review: &Review<'_>,
    place: usize,
    which: HunkFilter,
) -> Result<Option<ShownDifference>> {
    let (Some(change), Some(diff)) = (review.change(place)?, review.diff()) else {
        return Ok(None);
    };
    let difference = &change.difference;
    let mut found = ShownDifference {
        path: difference.path.clone(),
        head: heading_lines(&change),
        lines: Vec::new(),
        hunks: Vec::new(),
    };
    if let Some(why) = reason_unshown(difference) {
        found.push_note(&why);
        return Ok(Some(found));
    }
    if which == HunkFilter::OfPast {
        match diff.texts(difference)? {
            TextPair::Binary => found.push_note("the content is binary"),
            TextPair::Text(before, after) => {
                let compared = TextComparison::new(before, after);
                let hunks = compared.hunks();
                let hunks = hunks.iter().zip(1..);
                let hunks = hunks.map(|(hunk, number)| (hunk, number, "", None));
                found.add(&compared, hunks.collect());
            }
        }
        return Ok(Some(found));
    }
    let Some(lines) = review.lines(place)? else {
        return Ok(None);
    };
    let hunks = lines.hunks().iter().zip(1..).filter_map(|(found, number)| {
        let state = match found.state {
            HunkState::Open => "",
            HunkState::Overtaken => ", changed by others since",
            HunkState::Accepted | HunkState::Gone if which == HunkFilter::Open => return None,
            HunkState::Accepted => ", accepted",
            HunkState::Gone => ", as it was before",
        };
        let digest = lines
            .no_hunks_reason()
            .is_none()
            .then(|| found.digest.clone());
        Some((&found.hunk, number, state, digest))
    });
    let hunks = hunks.collect::<Vec<_>>();
    match (hunks.is_empty(), lines.no_hunks_reason()) {
        (true, Some(why)) if difference.content => found.push_note(&format!("it {why}")),
        _ => found.add(lines.comparison(), hunks),
    }
    Ok(Some(found))
}

/// Says who changed a path, when, and what differs besides the content.
fn heading_lines(change: &ReviewedPath) -> Vec<String> {
    let difference = &change.difference;
    let when = change.time.as_deref().map(utc).unwrap_or_default();
    let accepted = if change.accepted { ", accepted" } else { "" };
    let mut head = vec![
        path_of(difference),
        format!("last changed {when}{accepted}"),
    ];
    for by in &change.by {
        let command = by.command.as_ref();
        let command = command.map(|command| format!(": {command}"));
        head.push(format!(
            "by {}{}",
            author_words(&by.who),
            command.unwrap_or_default()
        ));
    }
    head.extend(change.flag.map(|flag| flag.words().to_owned()));
    head.extend(difference.rights());
    if difference.xattrs {
        head.push("extended attributes differ".to_owned());
    }
    head.extend(difference.unknown.iter().cloned());
    head.iter()
        .map(|line| expand_tabs_safely(line.as_bytes()))
        .collect()
}

/// Says why there are no lines to be shown.
fn reason_unshown(difference: &PathDifference) -> Option<String> {
    let sides = [difference.before, difference.after];
    let mut sides = sides.iter().flatten();
    if sides.clone().any(DiffSide::is_dir) {
        return Some("a directory".to_owned());
    }
    if let Some(side) = sides
        .clone()
        .find(|side| !matches!(side.kind, "file" | "symlink"))
    {
        return Some(format!("a {}", side.kind));
    }
    if let Some(side) = sides.find(|side| side.size > MAX_TEXT_BYTES) {
        return Some(format!(
            "{}: contents of more than {} are not shown",
            bytes(side.size),
            bytes(MAX_TEXT_BYTES)
        ));
    }
    let is_on_both = difference.before.is_some() && difference.after.is_some();
    (is_on_both && !difference.content).then(|| "the content is the same".to_owned())
}

impl ShownDifference {
    fn push(&mut self, kind: LineKind, text: String) {
        self.lines.push(DifferenceLine { kind, text });
    }

    fn push_note(&mut self, what: &str) {
        self.push(LineKind::Said, what.to_owned());
    }

    /// Adds hunks, each with its number, what became of it, and its digest.
    fn add(
        &mut self,
        compared: &TextComparison,
        hunks: Vec<(&Hunk, usize, &'static str, Option<String>)>,
    ) {
        let total: usize = hunks
            .iter()
            .map(|(hunk, ..)| compared.lines(hunk).count())
            .sum();
        for (hunk, number, state, digest) in &hunks {
            self.hunks.push(DifferenceHunk {
                line: self.lines.len(),
                number: *number,
                digest: digest.clone(),
            });
            self.push(LineKind::Hunk, format!("{hunk} hunk {number}{state}"));
            for (sign, line) in compared.lines(hunk) {
                if self.lines.len() >= MAX_SHOWN_LINES {
                    self.push_note(&format!(
                        "the first {MAX_SHOWN_LINES} of {total} lines are shown"
                    ));
                    return;
                }
                let (kind, sign) = match sign {
                    LineSign::Same => (LineKind::Same, ' '),
                    LineSign::Removed => (LineKind::Removed, '-'),
                    LineSign::Added => (LineKind::Added, '+'),
                };
                let text = line.strip_suffix(b"\n");
                self.push(
                    kind,
                    format!("{sign}{}", expand_tabs_safely(text.unwrap_or(line))),
                );
                if text.is_none() {
                    self.push(LineKind::Same, "\\ No newline at end of file".to_owned());
                }
            }
        }
        if hunks.is_empty() {
            self.push_note(if compared.after().is_empty() {
                "the file is empty"
            } else {
                "no line is to be reviewed"
            });
        }
    }
}

/// Returns a line as text that does not act on a terminal, with spaces for tabs.
pub(super) fn expand_tabs_safely(line: &[u8]) -> String {
    let (line, is_cut) = match line.get(..MAX_LINE_BYTES) {
        Some(cut) if line.len() > MAX_LINE_BYTES => (whole_characters(cut), true),
        _ => (line, false),
    };
    let mut text = String::new();
    for (number, part) in line.split(|byte| *byte == b'\t').enumerate() {
        if number > 0 {
            let width = ratatui::text::Span::raw(text.as_str()).width();
            text.extend(std::iter::repeat_n(' ', TAB_COLUMNS - width % TAB_COLUMNS));
        }
        text.push_str(&escape_for_terminal(&escape_keeping_backslash(part), false));
    }
    if is_cut {
        text.push_str(" …");
    }
    text
}

/// Returns bytes without the part of a character at their end that is whole only in what follows.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().rposition(|byte| byte & 0xc0 != 0x80);
    let is_part = start.is_some_and(|start| {
        let last = bytes.get(start..).unwrap_or_default();
        matches!(std::str::from_utf8(last), Err(error) if error.error_len().is_none())
    });
    bytes
        .get(..start.filter(|_| is_part).unwrap_or(bytes.len()))
        .unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_line_acts_on_a_terminal() {
        for (line, text) in [
            (&b"a\tb\\n"[..], "a       b\\n"),
            (b"\tx", "        x"),
            (b"\x1b[2J\x9b\r", "\\x1b[2J\\x9b\\x0d"),
            ("日本\tx\u{202e}".as_bytes(), "日本    x\\xe2\\x80\\xae"),
        ] {
            assert_eq!(expand_tabs_safely(line), text);
        }
        let cut = format!("{} …", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(expand_tabs_safely(&[b'x'; 9000]), cut);
        let wide = "日".repeat(MAX_LINE_BYTES);
        assert_eq!(
            expand_tabs_safely(wide.as_bytes()),
            format!("{} …", "日".repeat(MAX_LINE_BYTES / 3))
        );
    }
}
