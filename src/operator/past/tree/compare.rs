//! Comparing two contents byte by byte.

use crate::error::Result;
use crate::operator::past::tree::content::PastContent;

impl PastContent {
    /// Returns whether another content has the same bytes and the same ranges missing.
    ///
    /// # Errors
    /// As [`PastContent::read_at`].
    pub fn equals(&self, other: &PastContent) -> Result<bool> {
        let ranges =
            |content: &PastContent| content.missing().map_or(&[][..], |m| &m.ranges).to_vec();
        Ok(ranges(self) == ranges(other) && self.has_bytes_of(other)?)
    }

    /// Returns whether another content has the same bytes, as far as they are known.
    ///
    /// # Errors
    /// As [`PastContent::read_at`].
    pub fn has_bytes_of(&self, other: &PastContent) -> Result<bool> {
        if self.size() != other.size() {
            return Ok(false);
        }
        let (mut one, mut two) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut offset = 0;
        while offset < self.size() {
            let read = self.read_at(&mut one, offset)?;
            let part = two.get_mut(..read).unwrap_or_default();
            let read = other.read_at(part, offset)?;
            if read == 0 || one.get(..read) != two.get(..read) {
                return Ok(false);
            }
            offset += read as u64;
        }
        Ok(true)
    }
}
