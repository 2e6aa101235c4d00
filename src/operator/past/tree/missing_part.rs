//! The lost part of a former content: its bytes, the reason, and the words for messages.

use std::fmt;

/// The part of a content that is lost or in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPart {
    /// The lost ranges, as starts and ends.
    pub(super) ranges: Vec<(u64, u64)>,
    /// The size that the content had.
    pub(super) of: u64,
    /// True if the rest is in doubt: the content was kept shortly before a power cut.
    pub(super) doubtful: bool,
    /// True if a version does not have the digest that it had when it was kept.
    pub(super) altered: bool,
    /// True if the lost ranges were changed outside the home.
    pub(super) outside: bool,
}

/// The reason for a certain loss.
pub(super) const WHY: &str =
    "the power went before it was on the disk, or somebody cut what held it";

/// The reason for a loss by somebody else's change.
pub(super) const OUTSIDE: &str =
    "the file was changed outside the home, and what it held before was not kept";

/// The reason for a doubt without a visible loss.
const DOUBT: &str = "was kept within a minute before the power went, without --durable: nothing says that all of it was on the disk";

/// The words for a digest that does not match.
const ALTERED: &str = "is not what was kept: somebody has written to a version, or the disk is failing (`trumanfs fsck` names it)";

/// The number of ranges that a message lists.
const MAX_LISTED_RANGES: usize = 4;

impl MissingPart {
    /// Returns the size that the content had.
    pub fn full_size(&self) -> u64 {
        self.of
    }

    /// Returns whether anything is certainly missing or wrong.
    pub fn is_certain(&self) -> bool {
        !self.ranges.is_empty() || self.altered
    }

    /// Returns whether what is missing was changed outside the home.
    pub fn is_outside(&self) -> bool {
        self.outside
    }

    /// Returns whether all bytes are there, and some of them are not those that were kept.
    pub fn is_altered(&self) -> bool {
        self.ranges.is_empty() && self.altered
    }
}

impl fmt::Display for MissingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_altered() {
            return write!(f, "it {ALTERED}");
        }
        if self.ranges.is_empty() {
            return write!(f, "it {DOUBT}");
        }
        let bytes: u64 = self.ranges.iter().map(|(start, end)| end - start).sum();
        write!(
            f,
            "{bytes} of its {} bytes are not there any more (",
            self.of
        )?;
        for (at, (start, end)) in self.ranges.iter().take(MAX_LISTED_RANGES).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} from offset {start}", end - start)?;
        }
        if let Some(more) = self
            .ranges
            .len()
            .checked_sub(MAX_LISTED_RANGES)
            .filter(|more| *more > 0)
        {
            write!(f, ", and {more} more ranges")?;
        }
        write!(f, "): {}", if self.outside { OUTSIDE } else { WHY })?;
        if self.doubtful {
            write!(f, "; and the rest {DOUBT}")?;
        }
        match self.ranges.first() {
            Some((_, end)) if *end < self.of => {
                write!(f, "; a hole stands for what is missing before the end")
            }
            _ => Ok(()),
        }
    }
}
