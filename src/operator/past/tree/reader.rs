//! Reading a content as a stream of bytes, and hashing it.

use std::io::Read;

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::operator::past::tree::content::Content;

/// Returns the SHA-256 of a content, in hexadecimal.
///
/// # Errors
/// As [`Content::read_at`].
pub(super) fn digest_of(content: &Content) -> Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut at = 0;
    while at < content.size() {
        let read = content.read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read).unwrap_or_default());
        at += read as u64;
    }
    let digest = hash.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads a content from start to end.
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
