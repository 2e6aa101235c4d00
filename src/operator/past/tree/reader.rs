//! Reading a content as a stream of bytes, and hashing it.

use std::io::Read;

use crate::operator::past::tree::content::Content;

/// Reads a content from start to end.
#[derive(Debug)]
pub struct Reader<'a> {
    content: &'a Content,
    offset: u64,
}

impl<'a> Reader<'a> {
    fn new(content: &'a Content) -> Reader<'a> {
        Reader { content, offset: 0 }
    }
}

impl Content {
    /// Returns a reader of the whole content.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self)
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read_at(buffer, self.offset);
        let read = read.map_err(|error| std::io::Error::from(error.errno()))?;
        self.offset += read as u64;
        Ok(read)
    }
}
