//! Compares two texts line by line.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, TextDiff, group_diff_ops, udiff::UnifiedHunkHeader};

use super::lines;

/// The number of unchanged lines that are shown around a change. Changes with fewer than twice as many between them are
/// one hunk.
const CONTEXT_LINES: usize = 3;

/// The time after which the search for the smallest difference is given up. Tests have more: what they find must not
/// depend on what else the machine does.
pub(in crate::operator) const COMPARE_LIMIT: Duration =
    Duration::from_secs(if cfg!(test) { 120 } else { 2 });

/// The sign of a line in a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineSign {
    /// The line is the same on both sides.
    Same,
    /// The line is in the text before.
    Removed,
    /// The line is in the text after.
    Added,
}

/// A text, and the ends of its lines.
#[derive(Debug, Default)]
struct LineIndex {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl LineIndex {
    fn new(bytes: Vec<u8>) -> LineIndex {
        let mut ends = Vec::new();
        for line in lines(&bytes) {
            ends.push(ends.last().copied().unwrap_or(0) + line.len());
        }
        LineIndex { bytes, ends }
    }

    /// Returns where a line begins: behind the one before it.
    fn start(&self, line: usize) -> usize {
        let before = line.checked_sub(1).and_then(|line| self.ends.get(line));
        before.copied().unwrap_or(0)
    }

    /// Returns the bytes of some lines.
    fn bytes(&self, lines: &Range<usize>) -> &[u8] {
        let range = self.start(lines.start)..self.start(lines.end);
        self.bytes.get(range).unwrap_or_default()
    }
}

/// The differences between the lines of two texts.
#[derive(Debug, Default)]
pub struct TextComparison {
    before: LineIndex,
    after: LineIndex,
    ops: Vec<DiffOp>,
    is_rough: bool,
}

/// Changed lines that are close together, with some unchanged ones around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    ops: Vec<DiffOp>,
}

impl TextComparison {
    /// Compares two texts.
    pub fn new(before: Vec<u8>, after: Vec<u8>) -> TextComparison {
        TextComparison::with_time_limit(before, after, COMPARE_LIMIT)
    }

    fn with_time_limit(before: Vec<u8>, after: Vec<u8>, patience: Duration) -> TextComparison {
        let sides = [&before, &after].map(|text| lines(text));
        // Only the search may take much longer than a person waits.
        let start = Instant::now();
        let ops = compare(&sides[0], &sides[1], patience);
        TextComparison {
            is_rough: start.elapsed() >= patience,
            before: LineIndex::new(before),
            after: LineIndex::new(after),
            ops,
        }
    }

    /// Returns whether the search for the smallest difference was given up. The comparison is correct all the same, but
    /// the next comparison of the same texts may find another one.
    pub fn is_rough(&self) -> bool {
        self.is_rough
    }

    /// Returns the later text.
    pub fn after(&self) -> &[u8] {
        &self.after.bytes
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
        let groups = group_diff_ops(self.ops.clone(), CONTEXT_LINES);
        groups.into_iter().map(|ops| Hunk { ops }).collect()
    }

    /// Returns the lines of a hunk, each with its end.
    pub fn lines<'h>(&'h self, hunk: &'h Hunk) -> impl Iterator<Item = (LineSign, &'h [u8])> + 'h {
        hunk.ops.iter().flat_map(|op| {
            let (old, new) = (
                self.before.bytes(&op.old_range()),
                self.after.bytes(&op.new_range()),
            );
            let (old, new) = if is_change(op) {
                ((LineSign::Removed, old), new)
            } else {
                ((LineSign::Same, old), &[][..])
            };
            [old, (LineSign::Added, new)]
                .into_iter()
                .flat_map(|(sign, text)| lines(text).into_iter().map(move |line| (sign, line)))
        })
    }

    /// Returns the later text as it is without some of the hunks.
    pub fn without(&self, hunks: &[&Hunk]) -> Vec<u8> {
        let is_taken = |op: &DiffOp| hunks.iter().any(|hunk| hunk.has(op));
        let mut text = Vec::new();
        for op in &self.ops {
            text.extend(if is_change(op) && is_taken(op) {
                self.before.bytes(&op.old_range())
            } else {
                self.after.bytes(&op.new_range())
            });
        }
        text
    }

    /// Returns some lines of the later text as they are without a hunk, which lies among them.
    pub fn without_among(&self, hunk: &Hunk, lines: &Range<usize>) -> Vec<u8> {
        let of_hunk = hunk.after();
        let mut text = self.after.bytes(&(lines.start..of_hunk.start)).to_vec();
        for op in &hunk.ops {
            text.extend_from_slice(self.before.bytes(&op.old_range()));
        }
        text.extend_from_slice(self.after.bytes(&(of_hunk.end..lines.end)));
        text
    }

    /// Returns the changes as ranges of lines of the earlier and of the later text, in order.
    pub fn changed_lines(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let changes = self.ops.iter().filter(|op| is_change(op));
        changes.map(|op| (op.old_range(), op.new_range())).collect()
    }

    /// Returns some lines of the later text.
    pub fn after_lines(&self, lines: &Range<usize>) -> &[u8] {
        self.after.bytes(lines)
    }

    /// Returns the changes as ranges of the earlier text's bytes, in order, with the bytes that replace them.
    pub fn splices(&self) -> impl Iterator<Item = (Range<usize>, &[u8])> {
        let changes = self.ops.iter().filter(|op| is_change(op));
        changes.map(|op| {
            let lines = op.old_range();
            let range = self.before.start(lines.start)..self.before.start(lines.end);
            (range, self.after.bytes(&op.new_range()))
        })
    }
}

fn compare(before: &[&[u8]], after: &[&[u8]], patience: Duration) -> Vec<DiffOp> {
    match (before.len(), after.len()) {
        (0, 0) => Vec::new(),
        // Most texts that are added or removed as a whole need no comparing.
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
                .timeout(patience)
                .diff_slices(before, after);
            diff.ops().to_vec()
        }
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

    /// Splits the hunk between changes that have unchanged lines between them. One change alone is one part.
    pub fn parts(&self) -> Vec<Hunk> {
        let (mut parts, mut part) = (Vec::new(), Vec::new());
        let last = self.ops.len().saturating_sub(1);
        for (at, op) in self.ops.iter().enumerate() {
            let DiffOp::Equal {
                old_index,
                new_index,
                len,
            } = *op
            else {
                part.push(*op);
                continue;
            };
            if at == 0 || at == last {
                part.push(*op);
                continue;
            }
            // Each of the two has its share of the lines between them.
            let share = len / 2;
            if share > 0 {
                part.push(DiffOp::Equal {
                    old_index,
                    new_index,
                    len: share,
                });
            }
            parts.push(Hunk {
                ops: std::mem::take(&mut part),
            });
            part.push(DiffOp::Equal {
                old_index: old_index + share,
                new_index: new_index + share,
                len: len - share,
            });
        }
        parts.push(Hunk { ops: part });
        parts
    }

    /// Returns the ranges of the later text's lines that the hunk changed, in order.
    pub fn changed_lines(&self) -> impl Iterator<Item = Range<usize>> {
        let changes = self.ops.iter().filter(|op| is_change(op));
        changes.map(DiffOp::new_range)
    }

    fn has(&self, op: &DiffOp) -> bool {
        self.ops.contains(op)
    }
}

/// Writes the head of the hunk as in a unified patch: `@@ -1,4 +1,5 @@`.
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
        let counts = |before: &[u8], after: &[u8]| {
            TextComparison::new(before.to_vec(), after.to_vec()).counts()
        };
        assert_eq!(counts(b"a\nb\nc\n", b"a\nx\nc\nd"), (2, 1));
        assert_eq!(counts(b"", b"a\r\nb\rc\n"), (2, 0));
        assert_eq!(counts(b"a", b"a\n"), (1, 1));
        assert_eq!(counts(b"a\n", b"a\n"), (0, 0));
    }

    #[test]
    fn a_hunk_is_split_between_its_changes() {
        let after = numbered(&[(8, "eight\n"), (10, "ten\n"), (12, ""), (13, "13\n14a\n")]);
        let compared = TextComparison::new(numbered(&[]).into(), after.clone().into());
        let hunks = compared.hunks();
        assert_eq!(hunks.len(), 1);
        let parts: Vec<Hunk> = hunks.iter().flat_map(Hunk::parts).collect();
        assert_eq!(parts.len(), 4);
        let headings: Vec<String> = parts.iter().map(ToString::to_string).collect();
        assert!(headings[1].starts_with("@@ -9,2 +9,2 @@"), "{headings:?}");
        let without = |parts: &[&Hunk]| String::from_utf8(compared.without(parts)).unwrap();
        let third = numbered(&[(8, "eight\n"), (10, "ten\n"), (13, "13\n14a\n")]);
        assert_eq!(without(&[&parts[2]]), third);
        let all: Vec<&Hunk> = parts.iter().collect();
        assert_eq!(without(&all), numbered(&[]));
        assert_eq!(parts[0].parts(), [parts[0].clone()]);
    }

    #[test]
    fn each_hunk_can_be_left_out_by_itself() {
        let before = numbered(&[]);
        let after = numbered(&[(2, ""), (14, "fourteen\n"), (15, "15\nmore\n"), (30, "end")]);
        let compared = TextComparison::new(before.clone().into(), after.clone().into());
        let hunks = compared.hunks();
        let [first, second, third] = <&[Hunk; 3]>::try_from(hunks.as_slice()).unwrap();
        assert_eq!(second.to_string(), "@@ -11,8 +10,9 @@");
        assert_eq!((second.before(), second.after()), (10..18, 9..18));
        let without = |hunks: &[&Hunk]| String::from_utf8(compared.without(hunks)).unwrap();
        let splices: Vec<_> = compared.splices().collect();
        assert_eq!(splices.first().unwrap(), &(2..4, &b""[..]));
        assert_eq!(splices.len(), 4);
        let changed = compared.changed_lines().into_iter();
        let changed: Vec<_> = changed.map(|(before, _)| before).collect();
        assert_eq!(changed, [1..2, 13..14, 15..15, 29..30]);
        let among = compared.without_among(second, &(8..20));
        let lines = before.split_inclusive('\n').skip(9).take(11);
        assert_eq!(among, lines.collect::<String>().into_bytes());
        assert_eq!(second.changed_lines().collect::<Vec<_>>(), [12..13, 14..15]);
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
                (LineSign::Same, &b"27\n"[..]),
                (LineSign::Same, b"28\n"),
                (LineSign::Same, b"29\n"),
                (LineSign::Removed, b"30\n"),
                (LineSign::Added, b"end"),
            ]
        );
    }

    #[test]
    fn a_difference_is_rough_where_the_search_was_given_up() {
        let compared = |patience| {
            let (before, after) = (numbered(&[]), numbered(&[(2, ""), (14, "fourteen\n")]));
            TextComparison::with_time_limit(before.into(), after.into(), patience).is_rough()
        };
        assert!(compared(Duration::ZERO));
        assert!(!compared(Duration::from_secs(600)));
    }

    #[test]
    fn text_added_or_removed_whole_is_a_single_hunk() {
        for (before, after, expected) in [
            ("", "a\nb\n", "@@ -0,0 +1,2 @@"),
            ("a\n", "", "@@ -1 +0,0 @@"),
        ] {
            let compared = TextComparison::new(before.into(), after.into());
            let hunks = compared.hunks();
            assert_eq!(hunks.len(), 1);
            assert_eq!(hunks.first().unwrap().to_string(), expected);
            let whole: Vec<&Hunk> = hunks.iter().collect();
            assert_eq!(compared.without(&whole), before.as_bytes());
        }
    }
}
