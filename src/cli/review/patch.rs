//! The lines of a change under review: as a patch whose hunks have numbers, and as objects.

use std::ops::Range;

use super::super::inspect::patch;
use super::super::output::Printer;
use crate::client::Review;
use crate::error::Result;
use crate::name::escape;
use crate::operator::review::{HunkState, PathHunks, ReviewedPath};
use crate::operator::text::LineSign;

/// A change with its hunks, for JSON.
#[derive(serde::Serialize)]
pub(super) struct ChangeWithHunks<'c> {
    #[serde(flatten)]
    change: &'c ReviewedPath,
    /// The hunks that can be accepted or rejected by themselves.
    hunks: Vec<HunkObject>,
    /// Why there are none, or why they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<String>,
}

#[derive(serde::Serialize)]
struct HunkObject {
    number: usize,
    state: HunkState,
    /// The first line and the number of lines, before and after.
    before: (usize, usize),
    after: (usize, usize),
    /// The lines, each after its sign, escaped.
    lines: Vec<String>,
}

impl<'c> ChangeWithHunks<'c> {
    pub(super) fn of(
        review: &Review<'_>,
        number: usize,
        change: &'c ReviewedPath,
    ) -> ChangeWithHunks<'c> {
        let (lines, error) = match review.lines(number) {
            Ok(lines) => (lines, None),
            Err(error) => (None, Some(error.full_message().to_string())),
        };
        let whole = lines
            .as_ref()
            .and_then(PathHunks::no_hunks_reason)
            .map(str::to_owned);
        let hunks = match &lines {
            Some(lines) if lines.no_hunks_reason().is_none() => hunk_objects(lines),
            _ => Vec::new(),
        };
        ChangeWithHunks {
            change,
            hunks,
            whole: error.or(whole),
        }
    }
}

fn hunk_objects(lines: &PathHunks) -> Vec<HunkObject> {
    let hunks = lines.hunks().iter().zip(1..);
    let hunks = hunks.map(|(found, number)| {
        let place = |range: Range<usize>| (range.start + 1, range.len());
        let text = |(sign, line): (LineSign, &[u8])| {
            let sign = match sign {
                LineSign::Same => ' ',
                LineSign::Removed => '-',
                LineSign::Added => '+',
            };
            format!("{sign}{}", escape(line.strip_suffix(b"\n").unwrap_or(line)))
        };
        HunkObject {
            number,
            state: found.state,
            before: place(found.hunk.before()),
            after: place(found.hunk.after()),
            lines: lines.comparison().lines(&found.hunk).map(text).collect(),
        }
    });
    hunks.collect()
}

/// Prints a change as a patch, with the numbers of its hunks. Without `all`, what was accepted or is as it was is left
/// out.
pub(super) fn print_patch(
    printer: &mut Printer,
    (review, number, all): (&Review<'_>, usize, bool),
    change: &ReviewedPath,
) -> Result<()> {
    let Some(names) = patch::print_head(printer, &change.difference) else {
        return Ok(());
    };
    let Some(lines) = review.lines(number)? else {
        return Ok(());
    };
    if lines.hunks().is_empty() {
        names.print_binary(printer);
        return Ok(());
    }
    names.print_names(printer);
    for (found, number) in lines.hunks().iter().zip(1..) {
        let state = match found.state {
            HunkState::Open => "",
            HunkState::Overtaken => ", changed by others since",
            HunkState::Accepted | HunkState::Gone if !all => continue,
            HunkState::Accepted => ", accepted",
            HunkState::Gone => ", as it was before",
        };
        let note = match lines.no_hunks_reason() {
            Some(_) => String::new(),
            None => format!(" hunk {number}{state}"),
        };
        patch::print_hunk(printer, lines.comparison(), &found.hunk, &note);
    }
    Ok(())
}
