//! The encoding of SSH's messages (RFC 4251, section 5): a reader that never goes past the end.

/// The bytes of a message that are not read yet. Every read is `None` where the rest is too short.
#[derive(Debug, Clone, Copy)]
pub(super) struct WireReader<'a>(pub(super) &'a [u8]);

impl<'a> WireReader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Reads a boolean; a sender may only write 0 and 1.
    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn int(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.int()?).ok()?;
        self.take(len)
    }

    /// Reads a number that is not negative; returns its bytes without zeros at the front.
    pub(super) fn number(&mut self) -> Option<&'a [u8]> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            return None;
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes.get(zeros..)
    }

    /// Ends the reading: `None` where bytes are left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
