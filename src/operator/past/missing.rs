//! What of a content is not there any more, and how that is told.

use std::fmt;

/// What of a content is not there any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Starts and ends.
    pub(super) ranges: Vec<(u64, u64)>,
    /// The size that the content had.
    pub(super) of: u64,
}

/// Why something is missing in what is there.
pub(super) const WHY: &str =
    "the power went before it was on the disk, or somebody cut what held it";

/// How many ranges are told one by one.
const TOLD: usize = 4;

impl Missing {
    /// Returns the size that the content had.
    pub fn of(&self) -> u64 {
        self.of
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.ranges.iter().map(|(start, end)| end - start).sum();
        write!(
            f,
            "{bytes} of its {} bytes are not there any more (",
            self.of
        )?;
        for (at, (start, end)) in self.ranges.iter().take(TOLD).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} from offset {start}", end - start)?;
        }
        if let Some(more) = self.ranges.len().checked_sub(TOLD).filter(|more| *more > 0) {
            write!(f, ", and {more} more ranges")?;
        }
        write!(f, "): {WHY}")?;
        match self.ranges.first() {
            Some((_, end)) if *end < self.of => {
                write!(f, "; a hole stands for what is missing before the end")
            }
            _ => Ok(()),
        }
    }
}
