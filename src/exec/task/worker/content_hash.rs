//! The hash of a file's content.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::worker_failure::{WorkerFailure, os};

/// The number of bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Returns the SHA-256 of a content, in hex.
pub(super) fn hash(file: BorrowedFd<'_>, shown: &str) -> Result<String, WorkerFailure> {
    let mut sha = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let read = match rustix::io::pread(file, &mut chunk, at) {
            Err(Errno::INTR) => continue,
            read => read.map_err(os(shown, "pread"))?,
        };
        if read == 0 {
            break;
        }
        sha.update(chunk.get(..read).unwrap_or_default());
        at += read as u64;
    }
    Ok(base16ct::lower::encode_string(&sha.finalize()))
}
