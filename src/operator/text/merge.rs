//! Merges three texts line by line.
//!
//! Owns the meaning of a conflict between lines: both sides changed the same or adjacent lines of the base in different
//! ways. Pure.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::lines;

/// A range of the base's lines, and the lines that one side has instead.
struct LineChange<'t, 'l> {
    start: usize,
    end: usize,
    lines: &'t [&'l [u8]],
}

/// Merges two texts that both come from a third; `None` where they changed the same lines in different ways, or are not
/// text.
pub(in crate::operator) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    if [base, ours, theirs].iter().any(|text| text.contains(&0)) {
        return None;
    }
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let (one, two) = (changes(&base, &ours), changes(&base, &theirs));
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    let (mut merged, mut at): (Vec<&[u8]>, usize) = (Vec::new(), 0);
    loop {
        let change = match (one.peek(), two.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) if a.end < b.start => one.next(),
            (Some(a), Some(b)) if b.end < a.start => two.next(),
            (Some(a), Some(b)) => {
                let is_same = (a.start, a.end, a.lines) == (b.start, b.end, b.lines);
                if !is_same {
                    return None;
                }
                one.next();
                two.next()
            }
            (Some(_), None) => one.next(),
            (None, Some(_)) => two.next(),
        }?;
        merged.extend(base.get(at..change.start)?);
        merged.extend(change.lines);
        at = change.end;
    }
    merged.extend(base.get(at..)?);
    Some(merged.concat())
}

fn changes<'t, 'l>(base: &[&'l [u8]], side: &'t [&'l [u8]]) -> Vec<LineChange<'t, 'l>> {
    let mut changes: Vec<LineChange<'t, 'l>> = Vec::new();
    for op in capture_diff_slices(Algorithm::Histogram, base, side) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (old, new) = (op.old_range(), op.new_range());
        changes.push(LineChange {
            start: old.start,
            end: old.end,
            lines: side.get(new).unwrap_or_default(),
        });
    }
    changes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BASE: &str = "1\n2\n3\n4\n5\n6\n7\n";

    fn merged(ours: &str, theirs: &str) -> Option<String> {
        let merged = merge(BASE.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        merged.map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn changes_of_different_lines_are_merged() {
        let cases = [
            (
                "1\nB\n3\n4\n5\n6\n7\n",
                "1\n2\n3\n4\n5\nF\n7\n",
                "1\nB\n3\n4\n5\nF\n7\n",
            ),
            // At the start and at the end; removed and inserted.
            (
                "0\n1\n2\n3\n4\n5\n6\n7\n",
                "1\n2\n3\n4\n5\n6\n7\n8\n",
                "0\n1\n2\n3\n4\n5\n6\n7\n8\n",
            ),
            (
                "2\n3\n4\n5\n6\n7\n",
                "1\n2\n3\n4\n5\n5b\n6\n7\n",
                "2\n3\n4\n5\n5b\n6\n7\n",
            ),
            // The same change on both sides, and one beside it.
            (
                "1\n2\nC\n4\n5\n6\n7\n",
                "1\n2\nC\n4\n5\n6\nG\n",
                "1\n2\nC\n4\n5\n6\nG\n",
            ),
            // A last line without an end.
            (
                "A\n2\n3\n4\n5\n6\n7\n",
                "1\n2\n3\n4\n5\n6\n7",
                "A\n2\n3\n4\n5\n6\n7",
            ),
        ];
        for (ours, theirs, wanted) in cases {
            assert_eq!(merged(ours, theirs).as_deref(), Some(wanted));
            assert_eq!(merged(theirs, ours).as_deref(), Some(wanted));
        }
        assert_eq!(merged(BASE, BASE).as_deref(), Some(BASE));
    }

    #[test]
    fn changes_of_the_same_or_adjacent_lines_are_conflicts() {
        let cases = [
            ("1\nB\n3\n4\n5\n6\n7\n", "1\nb\n3\n4\n5\n6\n7\n"),
            ("1\nB\n3\n4\n5\n6\n7\n", "1\n2\nC\n4\n5\n6\n7\n"),
            ("1\n3\n4\n5\n6\n7\n", "1\nb\n3\n4\n5\n6\n7\n"),
            ("1\n2\nx\n3\n4\n5\n6\n7\n", "1\n2\ny\n3\n4\n5\n6\n7\n"),
            ("", "1\n2\n3\n4\n5\n6\n8\n"),
        ];
        for (ours, theirs) in cases {
            assert_eq!(merged(ours, theirs), None, "{ours:?} {theirs:?}");
            assert_eq!(merged(theirs, ours), None, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn binary_contents_are_not_merged() {
        assert_eq!(
            merged("A\0\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\nG\n"),
            None
        );
    }
}
