//! Comparing two texts line by line.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use similar::{Algorithm, DiffOp, TextDiff, group_diff_ops, udiff::UnifiedHunkHeader};

use super::lines;

/// How many unchanged lines are shown around a change. Changes with fewer than twice as many between them are one hunk.
const CONTEXT: usize = 3;

/// After so long the smallest difference is not searched for any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It is as it was.
    Same,
    /// It was there before.
    Removed,
    /// It is there after.
    Added,
}

/// Two texts, and how their lines differ.
#[derive(Debug)]
pub struct Comparison<'t> {
    before: Vec<&'t [u8]>,
    after: Vec<&'t [u8]>,
    ops: Vec<DiffOp>,
}

/// Changed lines that are close together, with some unchanged ones around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    ops: Vec<DiffOp>,
}

impl<'t> Comparison<'t> {
    /// Compares two texts.
    pub fn new(before: &'t [u8], after: &'t [u8]) -> Comparison<'t> {
        let (before, after) = (lines(before), lines(after));
        let ops = match (before.len(), after.len()) {
            (0, 0) => Vec::new(),
            // Most of what comes or goes whole needs no comparing.
            (0, new_len) => vec![DiffOp::Insert {
                old_index: 0,
                new_index: 0,
                new_len,
            }],
            (old_len, 0) => vec![DiffOp::Delete {
                old_index: 0,
                old_len,
                new_index: 0,
            }],
            _ => {
                let diff = TextDiff::configure()
                    .algorithm(Algorithm::Histogram)
                    .timeout(PATIENCE)
                    .diff_slices(&before, &after);
                diff.ops().to_vec()
            }
        };
        Comparison { before, after, ops }
    }

    /// Returns the numbers of added and of removed lines.
    pub fn counts(&self) -> (u64, u64) {
        let changed = self.ops.iter().filter(|op| is_change(op));
        changed.fold((0, 0), |(added, removed), op| {
            let (new, old) = (op.new_range().len(), op.old_range().len());
            (added + new as u64, removed + old as u64)
        })
    }

    /// Returns the hunks, in order.
    pub fn hunks(&self) -> Vec<Hunk> {
        let groups = group_diff_ops(self.ops.clone(), CONTEXT);
        groups.into_iter().map(|ops| Hunk { ops }).collect()
    }

    /// Returns the lines of a hunk, each with its end.
    pub fn lines<'h>(&'h self, hunk: &'h Hunk) -> impl Iterator<Item = (Sign, &'t [u8])> + 'h {
        hunk.ops.iter().flat_map(|op| {
            let (old, new) = (
                self.before.get(op.old_range()),
                self.after.get(op.new_range()),
            );
            let (old, new) = match is_change(op) {
                true => (old.map(|old| (Sign::Removed, old)), new),
                false => (old.map(|old| (Sign::Same, old)), None),
            };
            let sides = [old, new.map(|new| (Sign::Added, new))];
            let sides = sides.into_iter().flatten();
            sides.flat_map(|(sign, lines)| lines.iter().map(move |line| (sign, *line)))
        })
    }

    /// Returns the later text as it is without some of the hunks.
    pub fn without(&self, hunks: &[&Hunk]) -> Vec<u8> {
        let is_taken = |op: &DiffOp| hunks.iter().any(|hunk| hunk.has(op));
        let mut text = Vec::new();
        for op in &self.ops {
            let lines = match is_change(op) && is_taken(op) {
                true => self.before.get(op.old_range()),
                false => self.after.get(op.new_range()),
            };
            text.extend(lines.unwrap_or_default().concat());
        }
        text
    }
}

impl Hunk {
    /// Returns the range of lines before, from 0, with the unchanged ones around.
    pub fn before(&self) -> Range<usize> {
        span(self.ops.iter().map(DiffOp::old_range))
    }

    /// Returns the range of lines after, from 0, with the unchanged ones around.
    pub fn after(&self) -> Range<usize> {
        span(self.ops.iter().map(DiffOp::new_range))
    }

    fn has(&self, op: &DiffOp) -> bool {
        self.ops.contains(op)
    }
}

/// As a unified patch says it: `@@ -1,4 +1,5 @@`.
impl fmt::Display for Hunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UnifiedHunkHeader::new(&self.ops).fmt(f)
    }
}

fn is_change(op: &DiffOp) -> bool {
    !matches!(op, DiffOp::Equal { .. })
}

fn span(mut ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let first = ranges.next().unwrap_or_default();
    ranges.fold(first, |all, more| all.start..more.end)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn numbered(changed: &[(usize, &str)]) -> String {
        let line = |n: usize| {
            let changed = changed.iter().find(|(at, _)| *at == n);
            changed.map_or_else(|| format!("{n}\n"), |(_, line)| (*line).to_owned())
        };
        (1..=30).map(line).collect()
    }

    #[test]
    fn lines_are_counted() {
        let counts = |before: &[u8], after: &[u8]| Comparison::new(before, after).counts();
        assert_eq!(counts(b"a\nb\nc\n", b"a\nx\nc\nd"), (2, 1));
        assert_eq!(counts(b"", b"a\r\nb\rc\n"), (2, 0));
        assert_eq!(counts(b"a", b"a\n"), (1, 1));
        assert_eq!(counts(b"a\n", b"a\n"), (0, 0));
    }

    #[test]
    fn each_hunk_can_be_left_out_by_itself() {
        let before = numbered(&[]);
        let after = numbered(&[(2, ""), (14, "fourteen\n"), (15, "15\nmore\n"), (30, "end")]);
        let compared = Comparison::new(before.as_bytes(), after.as_bytes());
        let hunks = compared.hunks();
        let [first, second, third] = <&[Hunk; 3]>::try_from(hunks.as_slice()).unwrap();
        assert_eq!(second.to_string(), "@@ -11,8 +10,9 @@");
        assert_eq!((second.before(), second.after()), (10..18, 9..18));
        let without = |hunks: &[&Hunk]| String::from_utf8(compared.without(hunks)).unwrap();
        assert_eq!(without(&[]), after);
        assert_eq!(without(&[first, second, third]), before);
        assert_eq!(without(&[second]), numbered(&[(2, ""), (30, "end")]));
        assert_eq!(
            without(&[first, third]),
            numbered(&[(14, "fourteen\n"), (15, "15\nmore\n")])
        );
        let lines: Vec<_> = compared.lines(third).collect();
        assert_eq!(
            lines,
            [
                (Sign::Same, &b"27\n"[..]),
                (Sign::Same, b"28\n"),
                (Sign::Same, b"29\n"),
                (Sign::Removed, b"30\n"),
                (Sign::Added, b"end"),
            ]
        );
    }

    #[test]
    fn what_came_or_went_whole_is_one_hunk() {
        for (before, after, said) in [
            ("", "a\nb\n", "@@ -0,0 +1,2 @@"),
            ("a\n", "", "@@ -1 +0,0 @@"),
        ] {
            let compared = Comparison::new(before.as_bytes(), after.as_bytes());
            let hunks = compared.hunks();
            assert_eq!(hunks.len(), 1);
            assert_eq!(hunks.first().unwrap().to_string(), said);
            let whole: Vec<&Hunk> = hunks.iter().collect();
            assert_eq!(compared.without(&whole), before.as_bytes());
        }
    }
}
