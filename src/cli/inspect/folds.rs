//! The lines that stand for differences in `.git` and of files that git ignores.

use super::super::output::{Printer, count, warn};
use crate::operator::diff::{DiffFolds, FoldCount};

/// Prints a line for each group of differences that are not listed. `indent`: what stands before each.
pub(super) fn print_folds(printer: &mut Printer, folds: &DiffFolds, indent: &str, hint: &str) {
    for line in fold_lines(folds) {
        printer.line(format_args!("{indent}{line}{hint}"));
    }
}

/// Says beside a patch what is not in it.
pub(super) fn warn_of_folds(folds: &DiffFolds) {
    for line in fold_lines(folds) {
        warn(false, &format!("not in the patch, but with --all: {line}"));
    }
}

fn fold_lines(folds: &DiffFolds) -> Vec<String> {
    let git = folds.git_directories().map(|(directory, count)| {
        let directory = directory.to_string();
        // The one of the store goes by its usual name.
        let name = match directory.as_str() {
            "/.git" => ".git",
            other => other,
        };
        let (number, thing) = number_of(count);
        let differ = if number == 1 { "differs" } else { "differ" };
        format!("{name}: {} {differ}", grouped(number, thing))
    });
    let mut lines: Vec<String> = git.collect();
    if !folds.ignored().is_empty() {
        let (number, thing) = number_of(folds.ignored());
        lines.push(format!("ignored by git: {}", grouped(number, thing)));
    }
    lines
}

/// Directories count only where they alone differ.
fn number_of(count: FoldCount) -> (u64, &'static str) {
    match count.files {
        0 => (count.directories, "directory"),
        files => (files, "file"),
    }
}

/// Writes a number of things, with a comma before each three digits.
fn grouped(number: u64, thing: &str) -> String {
    let text = count(number, thing);
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    text.replacen(&digits, &shown, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_groups_of_three() {
        for (number, text) in [
            (1, "1 file"),
            (999, "999 files"),
            (2031, "2,031 files"),
            (1_234_567, "1,234,567 files"),
        ] {
            assert_eq!(grouped(number, "file"), text);
        }
        assert_eq!(grouped(2, "directory"), "2 directories");
    }
}
