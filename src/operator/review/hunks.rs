//! The hunks of a path of a review: the state of each, and the file without some of them. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::later_changes::{HunkState, LaterChanges};
use crate::error::{Error, Result};
use crate::journal::InodeNumbers;
use crate::name::WorldPath;
use crate::operator::past::{RecordId, UnknownWriterOf};
use crate::operator::point::Operation;
use crate::operator::text::{COMPARE_LIMIT, Hunk, LineSign, TextComparison, merge};
use crate::operator::undo::{ConflictCause, UndoConflict};

/// A hunk of a review.
#[derive(Debug, Clone)]
pub struct ReviewHunk {
    /// Its lines.
    pub hunk: Hunk,
    /// The state of the hunk in the review.
    pub state: HunkState,
    /// SHA-256 (hex) of its lines, and of the number of the file's hunks before it with the same lines: a hunk has the
    /// same digest wherever in the file it is, and no two hunks of a file have the same digest.
    pub digest: String,
}

/// The differing lines of a path of a review.
#[derive(Debug)]
pub struct PathHunks {
    pub(super) path: WorldPath,
    pub(super) comparison: TextComparison,
    pub(super) hunks: Vec<ReviewHunk>,
    /// The file as it is now, where that differs from what it was after the latest change of the scope.
    pub(super) now: Option<Vec<u8>>,
    /// The file's inode now.
    pub(super) ids: Option<InodeNumbers>,
    /// The reason why there are no hunks to take back, if there are none.
    pub(super) whole: Option<&'static str>,
    /// True if nothing but these lines differs.
    pub(super) is_all: bool,
    /// The record of the latest change that is to be reviewed.
    pub(super) last: Option<Operation>,
    /// The record that is in the way of taking some hunks back.
    pub(super) by: Option<RecordId>,
    /// The record after which somebody outside the home changed the file, between the changes that are to be reviewed.
    pub(super) outside: Option<RecordId>,
    /// The unknown writer who changed the file after what is to be reviewed.
    pub(super) unknown: Option<UnknownWriterOf>,
}

/// Finds out the state of each hunk; `None` where that takes too long.
pub(super) fn states(
    comparison: &TextComparison,
    now: Option<&[u8]>,
    is_mixed: bool,
    split: &SplitHunks<'_>,
) -> Option<Vec<ReviewHunk>> {
    let since = now.map(|now| LaterChanges::of(comparison, now));
    if since.as_ref().is_some_and(|since| since.is_rough()) {
        return None;
    }
    let start = Instant::now();
    let hunks = split.hunks(comparison).into_iter().map(|(hunk, digest)| {
        let state = match (is_mixed, &since) {
            (true, _) => HunkState::Overtaken,
            (false, None) => HunkState::Open,
            (false, Some(_)) if start.elapsed() >= COMPARE_LIMIT => return None,
            (false, Some(since)) => since.state(&hunk),
        };
        Some(ReviewHunk {
            state,
            digest,
            hunk,
        })
    });
    hunks.collect()
}

/// The hunks of a path that are in parts: those of which a part was accepted, and those that somebody splits.
#[derive(Debug, Default)]
pub(super) struct SplitHunks<'h> {
    /// The digests of what was accepted.
    pub(super) accepted: &'h [String],
    /// The digests of the hunks to be split.
    pub(super) asked: &'h [String],
}

impl SplitHunks<'_> {
    /// Returns the hunks, each with its digest.
    fn hunks(&self, comparison: &TextComparison) -> Vec<(Hunk, String)> {
        let mut digests = HunkDigests::default();
        // A part has the same digest whatever else is in parts.
        let mut part_digests = HunkDigests::default();
        let mut found = Vec::new();
        for hunk in comparison.hunks() {
            let digest = digests.next(comparison, &hunk, b"");
            let mut parts = Vec::new();
            for part in hunk.parts() {
                let digest = part_digests.next(comparison, &part, b"part");
                parts.push((part, digest));
            }
            let is_accepted = |(_, digest): &(Hunk, String)| self.accepted.contains(digest);
            let is_split = self.asked.contains(&digest) || parts.iter().any(is_accepted);
            if is_split && parts.len() > 1 && !self.accepted.contains(&digest) {
                found.extend(parts);
            } else {
                found.push((hunk, digest));
            }
        }
        found
    }
}

/// The digests of a file's hunks, as [`ReviewHunk::digest`] has them.
#[derive(Default)]
struct HunkDigests {
    alike: HashMap<[u8; 32], u64>,
}

impl HunkDigests {
    fn next(&mut self, comparison: &TextComparison, hunk: &Hunk, kind: &[u8]) -> String {
        let hash = digest(comparison, hunk).chain_update(kind);
        let before = self
            .alike
            .entry(hash.clone().finalize().into())
            .or_default();
        let digest = hash.chain_update(before.to_le_bytes());
        *before += 1;
        base16ct::lower::encode_string(&digest.finalize())
    }
}

/// Hashes the lines of a hunk. The unchanged lines around it tell apart hunks with the same change in several places.
fn digest(comparison: &TextComparison, hunk: &Hunk) -> Sha256 {
    let mut hash = Sha256::new();
    for (sign, line) in comparison.lines(hunk) {
        hash.update(match sign {
            LineSign::Same => b" ",
            LineSign::Removed => b"-",
            LineSign::Added => b"+",
        });
        hash.update((line.len() as u64).to_le_bytes());
        hash.update(line);
    }
    hash
}

impl PathHunks {
    /// Returns the comparison of the lines.
    pub fn comparison(&self) -> &TextComparison {
        &self.comparison
    }

    /// Returns the hunks, in order. The first has the number 1.
    pub fn hunks(&self) -> &[ReviewHunk] {
        &self.hunks
    }

    /// Returns the reason why no hunk of the path can be accepted or taken back by itself, if there is one.
    pub fn no_hunks_reason(&self) -> Option<&'static str> {
        self.whole
    }

    /// Returns whether nothing of the path is left to be reviewed.
    pub(super) fn is_decided(&self) -> bool {
        let is_decided =
            |hunk: &ReviewHunk| matches!(hunk.state, HunkState::Accepted | HunkState::Gone);
        self.whole.is_none() && self.hunks.iter().all(is_decided)
    }

    /// Returns whether nothing but these lines differs: no name, owner, permission or extended attribute.
    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Marks hunks that were accepted.
    pub(super) fn accept(&mut self, digests: &[String]) {
        let accepted: HashSet<&String> = digests.iter().collect();
        for hunk in &mut self.hunks {
            if accepted.contains(&hunk.digest) {
                hunk.state = HunkState::Accepted;
            }
        }
    }

    /// Returns whether accepting these hunks leaves nothing to be reviewed.
    pub(super) fn are_the_last(&self, chosen: &[&ReviewHunk]) -> bool {
        let is_left = |hunk: &ReviewHunk| {
            !matches!(hunk.state, HunkState::Accepted | HunkState::Gone)
                && !chosen.iter().any(|chosen| std::ptr::eq(*chosen, hunk))
        };
        !self.hunks.iter().any(is_left)
    }

    /// Returns hunks by their numbers, if they are to be reviewed.
    ///
    /// # Errors
    /// [`Error::Refused`] where the path has no hunks; [`Error::Missing`] where it has not these.
    pub fn choose(&self, numbers: &[usize]) -> Result<Vec<&ReviewHunk>> {
        let path = &self.path;
        if let Some(why) = self.whole {
            return Err(Error::refused(
                format!("{path} {why}, and has no hunks"),
                "Nothing was changed. Without --hunk, the path is meant.",
            ));
        }
        let chosen = numbers.iter().map(|number| {
            let hunk = number.checked_sub(1).and_then(|at| self.hunks.get(at));
            let why = match hunk.map(|hunk| (hunk, hunk.state)) {
                Some((hunk, HunkState::Open | HunkState::Overtaken)) => return Ok(hunk),
                Some((_, HunkState::Accepted)) => "was accepted".to_owned(),
                Some((_, HunkState::Gone)) => "is as it was before".to_owned(),
                None => format!("is not there: it has {}", self.hunks.len()),
            };
            Err(Error::Missing {
                what: format!("{path}: hunk {number} {why}"),
                remedy: "Nothing was changed. `trumanfs review --patch` shows the hunks with their numbers.".to_owned(),
            })
        });
        let mut chosen = chosen.collect::<Result<Vec<_>>>()?;
        chosen.sort_by_key(|hunk| hunk.hunk.after().start);
        chosen.dedup_by(|one, other| std::ptr::eq(*one, *other));
        Ok(chosen)
    }

    /// Returns the file as it is now, as it will be without these hunks, and its inode.
    ///
    /// # Errors
    /// The obstacle for each hunk, with the record that caused it.
    pub(super) fn text_without(
        &self,
        chosen: &[&ReviewHunk],
    ) -> std::result::Result<(&[u8], Vec<u8>), Vec<ConflictCause>> {
        let hunks: Vec<&Hunk> = chosen.iter().map(|hunk| &hunk.hunk).collect();
        let (after, theirs) = (self.comparison.after(), self.comparison.without(&hunks));
        let is_in_the_way = |hunk: &&&ReviewHunk| hunk.state == HunkState::Overtaken;
        let in_the_way = chosen.iter().filter(is_in_the_way);
        let conflicts: Vec<_> = in_the_way.map(|hunk| self.conflict_at(hunk)).collect();
        if self.now.is_some() && self.unknown.is_some() {
            return Err(chosen.iter().map(|hunk| self.conflict_at(hunk)).collect());
        }
        let Some(now) = &self.now else {
            return if conflicts.is_empty() {
                Ok((after, theirs))
            } else {
                Err(conflicts)
            };
        };
        match merge(after, now, &theirs).filter(|_| conflicts.is_empty()) {
            Some(merged) => Ok((now, merged)),
            None if conflicts.is_empty() => {
                Err(chosen.iter().map(|hunk| self.conflict_at(hunk)).collect())
            }
            None => Err(conflicts),
        }
    }

    fn conflict_at(&self, hunk: &ReviewHunk) -> ConflictCause {
        let last = self.last.clone().unwrap_or_else(|| Operation::start_of(""));
        let mut conflict = UndoConflict {
            session: last.session,
            seq: last.seq,
            word: "write".to_owned(),
            what: format!(
                "{}: the lines of {}, or lines beside them, were changed by others",
                self.path, hunk.hunk
            ),
            by: None,
            by_what: None,
            can_be_forced: false,
        };
        if let Some(after) = &self.outside {
            conflict.name_outsider(after);
        }
        if let Some(who) = self.unknown {
            conflict.name_unknown_writer(who, self.by.is_some());
        }
        (conflict, self.by.clone())
    }

    /// Returns the path.
    pub fn path(&self) -> &WorldPath {
        &self.path
    }

    /// Returns the file's inode now.
    pub(super) fn ids(&self) -> Option<InodeNumbers> {
        self.ids
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(before: &str, after: &str, now: Option<&str>) -> PathHunks {
        let comparison = TextComparison::new(before.into(), after.into());
        let now = now.filter(|now| *now != after);
        PathHunks {
            path: WorldPath::root(),
            hunks: states(
                &comparison,
                now.map(str::as_bytes),
                false,
                &SplitHunks::default(),
            )
            .unwrap(),
            comparison,
            now: now.map(Into::into),
            ids: None,
            whole: None,
            is_all: true,
            last: None,
            by: None,
            outside: None,
            unknown: None,
        }
    }

    fn numbered(changed: &[(usize, &str)]) -> String {
        let line = |n: usize| {
            let changed = changed.iter().find(|(at, _)| *at == n);
            changed.map_or_else(|| format!("{n}\n"), |(_, line)| (*line).to_owned())
        };
        (1..=40).map(line).collect()
    }

    fn states_of(lines: &PathHunks) -> Vec<HunkState> {
        lines.hunks.iter().map(|hunk| hunk.state).collect()
    }

    #[test]
    fn later_changes_block_only_the_hunks_that_they_touch() {
        use HunkState::{Gone, Open, Overtaken};
        let before = numbered(&[]);
        let after = numbered(&[(5, "five\n"), (20, "twenty\n"), (35, "")]);
        let now = numbered(&[(5, "fünf\n"), (11, "eleven\n"), (35, "")]);
        let lines = lines(&before, &after, Some(&now));
        assert_eq!(states_of(&lines), [Overtaken, Gone, Open]);
        let third = lines.choose(&[3]).unwrap();
        let (seen, taken) = lines.text_without(&third).unwrap();
        assert_eq!(seen, now.as_bytes());
        let wanted = numbered(&[(5, "fünf\n"), (11, "eleven\n")]);
        assert_eq!(String::from_utf8(taken).unwrap(), wanted);
        // One that is in the way stops all.
        let conflicts = lines
            .text_without(&lines.choose(&[1, 3]).unwrap())
            .unwrap_err();
        assert_eq!(conflicts.len(), 1);
        assert!(
            conflicts[0].0.what.contains("@@ -2,7 +2,7 @@"),
            "{conflicts:?}"
        );
        for (numbers, expected) in [
            (&[0][..], "is not there"),
            (&[4], "it has 3"),
            (&[2], "as it was"),
        ] {
            let error = lines
                .choose(numbers)
                .unwrap_err()
                .full_message()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Merging the whole file for each of many hunks that others have touched would take longer than it may.
    #[test]
    fn many_hunks_that_others_touched_do_not_take_long() {
        let all = |word: &str| -> String {
            let line = |n: usize| match n % 10 {
                0 => format!("{word} {n}\n"),
                _ => format!("{n}\n"),
            };
            (1..=5000).map(line).collect()
        };
        let found = states_of(&lines(&all("was"), &all("is"), Some(&all("will be"))));
        assert_eq!(found, [HunkState::Overtaken; 500]);
    }

    #[test]
    fn line_added_beside_a_hunk_blocks_it() {
        let (before, after) = (numbered(&[]), numbered(&[(20, "twenty\n")]));
        let now = numbered(&[(20, "twenty\n"), (21, "new\n21\n")]);
        assert_eq!(
            states_of(&lines(&before, &after, Some(&now))),
            [HunkState::Overtaken]
        );
        let now = numbered(&[(20, "twenty\n"), (22, "new\n22\n")]);
        assert_eq!(
            states_of(&lines(&before, &after, Some(&now))),
            [HunkState::Open]
        );
    }

    /// The first and the last hunk have the same lines, and the second changes the same beside others.
    #[test]
    fn accepted_digest_means_the_hunk_it_was_taken_of() {
        let before = "same\n".repeat(20) + &numbered(&[]) + &"same\n".repeat(20);
        let numbers = numbered(&[(20, "20\nmore\n")]);
        let same = "same\n".repeat(10) + "more\n" + &"same\n".repeat(10);
        let after = same.clone() + &numbers + &same;
        for (number, states) in [
            (0, "accepted open open"),
            (1, "open accepted open"),
            (2, "open open accepted"),
        ] {
            let mut lines = lines(&before, &after, None);
            let digest = lines.hunks[number].digest.clone();
            lines.accept(&[digest.clone(), digest]);
            let found = states_of(&lines);
            let found = found
                .iter()
                .map(|state| format!("{state:?}").to_lowercase());
            assert_eq!(found.collect::<Vec<_>>().join(" "), states);
            assert!(!lines.is_decided());
        }
    }

    proptest! {
        /// A merge of the lines around a hunk has the same result as a merge of the whole file, if no two lines are
        /// alike.
        #[test]
        fn the_lines_around_a_hunk_are_enough(
            ours in proptest::collection::vec((1_usize..60, 0_u8..4), 1..10),
            others in proptest::collection::vec((1_usize..60, 0_u8..4), 1..10),
        ) {
            let text = |edits: &[&[(usize, u8)]]| -> String {
                let edit = |n| edits.concat().into_iter().find(|(at, _)| *at == n);
                let line = |n| match edit(n).map(|(_, what)| what) {
                    None => format!("{n}\n"),
                    Some(0) => String::new(),
                    Some(1) => format!("{n}\nmore {n}\n"),
                    Some(what) => format!("{n} {what}\n"),
                };
                (1..60).map(line).collect()
            };
            let (before, after) = (text(&[]), text(&[&ours]));
            for now in [text(&[&others]), text(&[&others, &ours]), text(&[&ours, &others])] {
                let seen = lines(&before, &after, Some(&now));
                for hunk in &seen.hunks {
                    let without = seen.comparison.without(&[&hunk.hunk]);
                    let whole = match merge(after.as_bytes(), now.as_bytes(), &without) {
                        None => HunkState::Overtaken,
                        Some(merged) if merged == now.as_bytes() => HunkState::Gone,
                        Some(_) => HunkState::Open,
                    };
                    prop_assert_eq!(hunk.state, whole, "{} of\n{}\nin\n{}", hunk.hunk, after, now);
                }
            }
        }

        /// Taken back one after the other, in any order, all hunks together bring back what was there.
        #[test]
        fn all_hunks_together_are_the_whole_change(
            words in proptest::collection::vec("[a-d]{1,2}", 0..60),
            edits in proptest::collection::vec((0_usize..60, "[a-d]{0,2}", any::<bool>()), 0..8),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let before: String = words.iter().map(|word| format!("{word}\n")).collect();
            let mut edited = words.clone();
            for (at, word, replaces) in edits {
                let at = at.min(edited.len());
                if replaces && at < edited.len() {
                    edited[at] = word;
                } else {
                    edited.insert(at, word);
                }
            }
            let after: String = edited.iter().map(|word| format!("{word}\n")).collect();
            let whole = lines(&before, &after, None);
            let numbers: Vec<usize> = (1..=whole.hunks.len()).collect();
            let (_, all) = whole.text_without(&whole.choose(&numbers).unwrap()).unwrap();
            prop_assert_eq!(String::from_utf8(all).unwrap(), before.clone());
            let mut now = after.clone();
            for pick in order {
                let seen = lines(&before, &after, Some(&now));
                let open: Vec<usize> = states_of(&seen).iter().zip(1..).filter(|(state, _)| **state == HunkState::Open).map(|(_, n)| n).collect();
                if open.is_empty() {
                    break;
                }
                let number = open[pick.index(open.len())];
                let (_, taken) = seen.text_without(&seen.choose(&[number]).unwrap()).unwrap();
                now = String::from_utf8(taken).unwrap();
                // Never anything but lines of the two.
                let is_known = |line: &str| words.iter().chain(&edited).any(|word| word == line);
                prop_assert!(now.lines().all(is_known), "{}", now);
            }
            let end = states_of(&lines(&before, &after, Some(&now)));
            if end.iter().all(|state| *state == HunkState::Gone) {
                prop_assert_eq!(now, before);
            }
        }
    }
}
