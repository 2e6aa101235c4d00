//! Blocks that two files have in common on disk (FICLONE): the same bytes, without reading them.

use std::os::fd::BorrowedFd;

use crate::sys::extents::{ExtentSync, FileExtent, extents};
use crate::world::keep::extents::BLOCK;
use crate::world::root::stat_fd;

/// Returns the parts of two files that lie at the same place on disk, up to an offset, after both have been written
/// out: whole blocks of [`BLOCK`] bytes, and the partial block at the end of the first file if the other is as long.
/// Empty if the file system does not report extents.
///
/// The result holds as long as neither file can be written to: an overwritten block gets another place as it is written
/// out.
pub(in crate::world) fn same_blocks(
    (one, size): (BorrowedFd<'_>, u64),
    other: BorrowedFd<'_>,
    end: u64,
) -> Vec<(u64, u64)> {
    // An extent may go on behind the end of a file that has been cut.
    let end = stat_fd(other).map_or(0, |meta| meta.size.min(end));
    let look = |file| extents(file, (0, end), ExtentSync::WrittenOut);
    let (Ok(one), Ok(other)) = (look(one), look(other)) else {
        return Vec::new();
    };
    let whole_blocks = |(from, to): (u64, u64)| {
        let to = if to == size { to } else { to / BLOCK * BLOCK };
        (from.next_multiple_of(BLOCK), to)
    };
    let same = common_extents(&one, &other, end)
        .into_iter()
        .map(whole_blocks);
    same.filter(|(from, to)| from < to).collect()
}

fn common_extents(one: &[FileExtent], other: &[FileExtent], end: u64) -> Vec<(u64, u64)> {
    let mut same: Vec<(u64, u64)> = Vec::new();
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let (from, to) = (a.logical.max(b.logical), a.end().min(b.end()).min(end));
        let meet = a.is_shared_in_place()
            && b.is_shared_in_place()
            && a.physical.wrapping_sub(a.logical) == b.physical.wrapping_sub(b.logical);
        if from < to && meet {
            match same.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => same.push((from, to)),
            }
        }
        if a.end() <= b.end() {
            left.next()
        } else {
            right.next()
        };
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_shared_and_lies_at_the_same_place_is_the_same() {
        let shared = |logical, physical, length| FileExtent::new(logical, physical, length, true);
        let one = [shared(0, 1000, 40), shared(50, 2000, 50)];
        // A part in the middle has been overwritten, and what follows lies elsewhere.
        let other = [
            shared(0, 1000, 8),
            shared(8, 5000, 8),
            shared(16, 1016, 30),
            shared(60, 2010, 10),
            shared(70, 2021, 30),
        ];
        let same = [(0, 8), (16, 40), (60, 70)];
        assert_eq!(common_extents(&one, &other, 100), same);
        assert_eq!(common_extents(&other, &one, 100), same);
        assert_eq!(common_extents(&one, &other, 20), [(0, 8), (16, 20)]);
        assert_eq!(common_extents(&one, &one, 95), [(0, 40), (50, 95)]);
        assert_eq!(common_extents(&one, &[], 100), []);
        let own = [FileExtent::new(0, 1000, 40, false)];
        assert_eq!(common_extents(&one, &own, 100), []);
    }
}
