//! A difference of contents as a unified patch, in git's format, so that `git apply` and `patch -p1` take it.

use super::super::output::{Printer, Style};
use crate::error::Result;
use crate::name::{WorldPath, is_deceptive};
use crate::operator::diff::{Diff, Difference, Side, Texts};
use crate::operator::text::{Comparison, Sign};

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
    match diff.texts(change)? {
        Texts::Binary => heading(printer, &format!("Binary files {old} and {new} differ")),
        Texts::Text(before, after) if before == after => {}
        Texts::Text(before, after) => {
            heading(printer, &format!("--- {old}"));
            heading(printer, &format!("+++ {new}"));
            hunks(printer, &Comparison::new(before, after));
        }
    }
    Ok(())
}

fn hunks(printer: &mut Printer, compared: &Comparison) {
    for hunk in compared.hunks() {
        let header = printer.style(Style::Changed, &hunk.to_string());
        printer.line(format_args!("{header}"));
        for (sign, line) in compared.lines(&hunk) {
            let (sign, style) = match sign {
                Sign::Added => (b'+', Some(Style::Added)),
                Sign::Removed => (b'-', Some(Style::Removed)),
                Sign::Same => (b' ', None),
            };
            let text = line.strip_suffix(b"\n");
            printer.text_line(sign, text.unwrap_or(line), style);
            if text.is_none() {
                printer.line(format_args!("\\ No newline at end of file"));
            }
        }
    }
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
