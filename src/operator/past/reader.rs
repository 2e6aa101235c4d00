//! A content as a stream of bytes.

use std::io::Read;

use super::content::Content;

/// Reads a content from its start to its end.
#[derive(Debug)]
pub struct Reader<'a> {
    content: &'a Content,
    offset: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(content: &'a Content) -> Reader<'a> {
        Reader { content, offset: 0 }
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
