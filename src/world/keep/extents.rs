//! The saved ranges of a file, and the extent of the next save.
//!
//! A save costs a copy and a line in the list, so the neighbours of a range that is about to be overwritten are saved
//! with it if they are likely to be overwritten next. The first writes to a region of [`REGION`] bytes save their
//! blocks alone, for they may be the only ones; once [`IN_USE`] bytes of it are saved, the next one saves the region;
//! and for a writer that goes on where the last save ended, each save is twice as long as the one before, up to
//! [`RUN`].

use std::collections::BTreeMap;

/// The blocks of a version, in bytes: whole ones are saved.
pub(in crate::world) const BLOCK: u64 = 4096;

/// The bytes saved at once where several writes have shown that a part of the file is in use.
const REGION: u64 = 64 << 10;

/// The bytes of a region that must be saved for the rest of it to be saved with the next write.
const IN_USE_BYTES: u64 = 2 * BLOCK;

/// The maximum number of bytes saved ahead of a program that goes through the file from start to end.
const MAX_BYTES_AHEAD: u64 = 1 << 20;

/// The ranges that have been saved.
#[derive(Debug, Default)]
pub(in crate::world) struct SavedExtents {
    /// Starts and ends, without overlap, and none that touch.
    saved: BTreeMap<u64, u64>,
    /// The end of the last save.
    end: u64,
    /// The number of bytes of the last save.
    length: u64,
}

impl SavedExtents {
    /// Returns the parts of a range that have not been saved.
    pub(in crate::world) fn unsaved_ranges(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = self
            .saved
            .range(..=from)
            .next_back()
            .map_or(from, |(_, end)| from.max(*end));
        for (start, end) in self.saved.range(from..to) {
            if at < *start {
                gaps.push((at, *start));
            }
            at = at.max(*end);
        }
        if at < to {
            gaps.push((at, to));
        }
        gaps
    }

    /// Returns the range to save if a range is about to be overwritten in a file of the given size. With `always`,
    /// whole regions.
    pub(in crate::world) fn range_to_save(
        &self,
        from: u64,
        to: u64,
        size: u64,
        always: bool,
    ) -> (u64, u64) {
        let (start, end) = (from / REGION * REGION, to.div_ceil(REGION) * REGION);
        let (start, end) = if self.length > 0 && from == self.end {
            (from, to.max(from + MAX_BYTES_AHEAD.min(2 * self.length)))
        } else if always || self.saved_bytes_in(start, end) >= IN_USE_BYTES {
            (start, end)
        } else {
            (from, to)
        };
        (start, end.min(size))
    }

    /// Returns the number of saved bytes in a range.
    fn saved_bytes_in(&self, from: u64, to: u64) -> u64 {
        (to - from) - length(&self.unsaved_ranges(from, to))
    }

    /// Notes that these ranges have been saved.
    pub(in crate::world) fn add(&mut self, ranges: &[(u64, u64)]) {
        for (from, to) in ranges {
            self.insert(*from, *to);
        }
        if let Some((_, to)) = ranges.last() {
            self.end = *to;
            self.length = length(ranges);
        }
    }

    /// Marks a range as saved, merging it with its neighbours.
    fn insert(&mut self, mut from: u64, mut to: u64) {
        if let Some((start, end)) = self.saved.range(..=from).next_back()
            && *end >= from
        {
            (from, to) = (*start, to.max(*end));
        }
        while let Some((start, end)) = self.saved.range(from..=to).next().map(|(s, e)| (*s, *e)) {
            to = to.max(end);
            self.saved.remove(&start);
        }
        self.saved.insert(from, to);
    }
}

/// Returns the number of bytes in some ranges.
pub(in crate::world) fn length(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_not_been_saved_is() {
        let mut saved = SavedExtents::default();
        saved.add(&[(8, 12), (20, 24), (12, 16), (0, 4)]);
        assert_eq!(saved.saved, BTreeMap::from([(0, 4), (8, 16), (20, 24)]));
        assert_eq!(saved.unsaved_ranges(0, 30), [(4, 8), (16, 20), (24, 30)]);
        assert_eq!(saved.unsaved_ranges(9, 15), []);
        assert_eq!(saved.unsaved_ranges(10, 21), [(16, 20)]);
        saved.add(&[(2, 22)]);
        assert_eq!(saved.saved, BTreeMap::from([(0, 24)]));
        saved.add(&[(30, 31)]);
        assert_eq!(saved.unsaved_ranges(24, 30), [(24, 30)]);
    }

    #[test]
    fn a_region_that_is_in_use_is_saved_whole() {
        const SIZE: u64 = 10 * REGION + 100;
        let mut saved = SavedExtents::default();
        let at = 3 * REGION;
        assert_eq!(
            saved.range_to_save(at, at + BLOCK, SIZE, false),
            (at, at + BLOCK)
        );
        assert_eq!(
            saved
                .range_to_save(at + BLOCK, at + 2 * BLOCK, SIZE, true)
                .0,
            at
        );
        let write = at + 7 * BLOCK;
        for alone in [at, at + 12 * BLOCK] {
            saved.add(&[(alone, alone + BLOCK)]);
            let now = saved.range_to_save(write, write + BLOCK, SIZE, false);
            let is_in_use = alone > at;
            assert_eq!(now == (at, at + REGION), is_in_use);
            assert_eq!(now == (write, write + BLOCK), !is_in_use);
        }
        // Neighbours have nothing to do with it.
        for region in [at - REGION, at + REGION] {
            let write = region + 7 * BLOCK;
            assert_eq!(
                saved.range_to_save(write, write + BLOCK, SIZE, false),
                (write, write + BLOCK)
            );
        }
        // Nothing behind the end.
        saved.add(&[(10 * REGION, 10 * REGION + 50)]);
        let rest = saved.range_to_save(10 * REGION + 50, SIZE, SIZE, false);
        assert_eq!(rest.1, SIZE);
    }

    #[test]
    fn a_file_that_is_written_from_start_to_end_is_saved_in_few_steps() {
        const SIZE: u64 = 16 << 20;
        let mut saved = SavedExtents::default();
        let mut steps = 0;
        for from in (0..SIZE).step_by(4096) {
            if !saved.unsaved_ranges(from, from + BLOCK).is_empty() {
                let (start, end) = saved.range_to_save(from, from + BLOCK, SIZE, false);
                assert!(start <= from && from + BLOCK <= end && end - start <= MAX_BYTES_AHEAD);
                saved.add(&saved.unsaved_ranges(start, end));
                steps += 1;
            }
        }
        assert_eq!(saved.saved, BTreeMap::from([(0, SIZE)]));
        assert!(steps < 26, "{steps}");
    }
}
