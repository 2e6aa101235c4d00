//! Reading numbers and ranges off the front of bytes, as protocols have them: the highest byte first.

/// Bytes that are being read. Whatever does not fit is nothing, and takes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Takes so many bytes.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a number of one byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Takes a number of so many bytes, eight at most.
    pub(super) fn number(&mut self, len: usize) -> Option<usize> {
        let bytes = self.take(len)?.iter();
        Some(bytes.fold(0, |number, byte| (number << 8) | usize::from(*byte)))
    }

    /// Takes a number of two bytes.
    pub(super) fn short(&mut self) -> Option<u16> {
        u16::try_from(self.number(2)?).ok()
    }

    /// Takes a length of so many bytes, and as many bytes as it says.
    pub(super) fn counted(&mut self, len: usize) -> Option<ByteReader<'a>> {
        let count = self.number(len)?;
        self.take(count).map(ByteReader)
    }

    /// Returns whether no byte is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
