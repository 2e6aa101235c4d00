//! Reads a content as a stream of bytes, and hashes it.

use std::io::Read;

use crate::operator::past::tree::content::PastContent;

/// Reads a content from start to end.
#[derive(Debug)]
pub struct ContentReader<'a> {
    content: &'a PastContent,
    offset: u64,
}

impl<'a> ContentReader<'a> {
    fn new(content: &'a PastContent) -> ContentReader<'a> {
        ContentReader { content, offset: 0 }
    }
}

impl PastContent {
    /// Returns a reader of the whole content.
    pub fn reader(&self) -> ContentReader<'_> {
        ContentReader::new(self)
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read_at(buffer, self.offset);
        let read = read.map_err(|error| std::io::Error::from(error.errno()))?;
        self.offset += read as u64;
        Ok(read)
    }
}
