//! A difference of contents as a unified patch, in git's format, so that `git apply` and `patch -p1` take it.

use super::super::output::{Printer, TextStyle};
use crate::error::Result;
use crate::name::{WorldPath, is_deceptive};
use crate::operator::diff::{Diff, DiffSide, PathDifference, TextPair};
use crate::operator::text::{Hunk, LineSign, TextComparison};

/// Writes the patch of a change.
///
/// # Errors
/// As [`Diff::contents`](crate::operator::diff::Diff::contents).
pub(super) fn print_patch(
    printer: &mut Printer,
    diff: &Diff<'_>,
    change: &PathDifference,
) -> Result<()> {
    let Some(names) = print_head(printer, change) else {
        return Ok(());
    };
    match diff.texts(change)? {
        TextPair::Binary => names.print_binary(printer),
        TextPair::Text(before, after) if before == after => {}
        TextPair::Text(before, after) => {
            names.print_names(printer);
            let compared = TextComparison::new(before, after);
            for shown in compared.hunks() {
                print_hunk(printer, &compared, &shown, "");
            }
        }
    }
    Ok(())
}

/// The names of both sides of a patch.
pub(in crate::cli) struct PatchNames(String, String);

impl PatchNames {
    /// Writes that the contents are no text.
    pub(in crate::cli) fn print_binary(&self, printer: &mut Printer) {
        let PatchNames(old, new) = self;
        print_heading(printer, &format!("Binary files {old} and {new} differ"));
    }

    /// Writes the names above the first hunk.
    pub(in crate::cli) fn print_names(&self, printer: &mut Printer) {
        print_heading(printer, &format!("--- {}", self.0));
        print_heading(printer, &format!("+++ {}", self.1));
    }
}

/// Writes what comes before the contents of a change; returns its names if there are contents that differ.
pub(in crate::cli) fn print_head(
    printer: &mut Printer,
    change: &PathDifference,
) -> Option<PatchNames> {
    let is_dir = |side: &Option<DiffSide>| side.as_ref().is_some_and(DiffSide::is_dir);
    if is_dir(&change.before) || is_dir(&change.after) {
        // git knows no directories, only what is in them.
        return None;
    }
    let old = name("a/", change.from.as_ref().unwrap_or(&change.path));
    let new = name("b/", &change.path);
    print_heading(printer, &format!("diff --git {old} {new}"));
    match (&change.before, &change.after) {
        (None, Some(after)) => {
            print_heading(printer, &format!("new file mode {:o}", git_mode(after)))
        }
        (Some(before), None) => print_heading(
            printer,
            &format!("deleted file mode {:o}", git_mode(before)),
        ),
        (Some(before), Some(after)) if git_mode(before) != git_mode(after) => {
            print_heading(printer, &format!("old mode {:o}", git_mode(before)));
            print_heading(printer, &format!("new mode {:o}", git_mode(after)));
        }
        _ => {}
    }
    if let Some(from) = &change.from {
        print_heading(printer, &format!("rename from {}", name("", from)));
        print_heading(printer, &format!("rename to {}", name("", &change.path)));
    }
    let there = |side: &Option<DiffSide>, name: String| match side {
        Some(_) => name,
        None => "/dev/null".to_owned(),
    };
    let is_same = !change.content && change.before.is_some() && change.after.is_some();
    let names = PatchNames(there(&change.before, old), there(&change.after, new));
    (!is_same).then_some(names)
}

/// Writes a hunk. `note`: what is said of it behind its place, where git shows a function; patch(1) skips that.
pub(in crate::cli) fn print_hunk(
    printer: &mut Printer,
    compared: &TextComparison,
    hunk: &Hunk,
    note: &str,
) {
    let header = printer.style(TextStyle::Changed, &hunk.to_string());
    printer.line(format_args!("{header}{note}"));
    for (sign, line) in compared.lines(hunk) {
        let (sign, style) = match sign {
            LineSign::Added => (b'+', Some(TextStyle::Added)),
            LineSign::Removed => (b'-', Some(TextStyle::Removed)),
            LineSign::Same => (b' ', None),
        };
        let text = line.strip_suffix(b"\n");
        printer.text_line(sign, text.unwrap_or(line), style);
        if text.is_none() {
            printer.line(format_args!("\\ No newline at end of file"));
        }
    }
}

fn print_heading(printer: &mut Printer, text: &str) {
    let text = printer.style(TextStyle::Heading, text);
    printer.line(format_args!("{text}"));
}

/// git knows two modes of files, and symlinks.
fn git_mode(side: &DiffSide) -> u32 {
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
