//! Output as it comes: what a call has written so far can be read while it goes on.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

/// A stream of a call. Clones are the same stream. What is written to it is bounded by the limits of the request.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveOutput(Arc<Mutex<Vec<u8>>>);

impl LiveOutput {
    /// Returns everything so far.
    pub(super) fn all(&self) -> Vec<u8> {
        self.0.lock().clone()
    }

    /// Returns how much has come so far, in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns what came after the first so many bytes.
    pub(super) fn after(&self, seen: usize) -> Vec<u8> {
        self.0.lock().get(seen..).unwrap_or_default().to_vec()
    }
}

impl Write for LiveOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
