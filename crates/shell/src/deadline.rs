//! [`Deadline`]: the limits of a line, shared by all its commands, and the facts noted when a limit is met.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;

use trumanfs_executor::cancel::CancelToken;

/// A stream by which output leaves a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStream {
    Stdout,
    Stderr,
}

/// The limits of a line: the token of its request, a refusal in mid-line, and memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Deadline {
    /// The request's token.
    pub(super) cancel: CancelToken,
    /// The status with which the line ends after something in it was refused.
    refusal_status: Arc<AtomicU8>,
    /// The message of that refusal.
    refusal_message: Arc<Mutex<Option<Vec<u8>>>>,
    /// The maximum number of bytes held in memory; 0 for no limit.
    max_memory: usize,
    /// The number of bytes held in memory.
    held_memory: Arc<AtomicUsize>,
    /// True if the limit has been exceeded.
    exhausted: Arc<AtomicBool>,
    /// True, for each stream, if something was left out before it left the line.
    truncated: Arc<[AtomicBool; 2]>,
}

impl Deadline {
    /// Returns the limits of a line that begins; `held_memory` bytes are in use by variables.
    pub(super) fn new(cancel: CancelToken, memory: u64, held_memory: usize) -> Deadline {
        Deadline {
            cancel,
            max_memory: usize::try_from(memory).unwrap_or(usize::MAX),
            held_memory: Arc::new(AtomicUsize::new(held_memory)),
            ..Deadline::default()
        }
    }

    /// Fails with `TimedOut` once the line has to end.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.cancel.ended().is_some() || self.refusal_status().is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Ends the line with a status. Returns the error that ends the command in progress.
    pub(super) fn refuse(&self, status: u8) -> io::Error {
        self.refusal_status.store(status, Ordering::Relaxed);
        io::ErrorKind::TimedOut.into()
    }

    /// Ends the line as [`Deadline::refuse`] does, and keeps the message.
    pub(super) fn refuse_with_message(&self, status: u8, message: Vec<u8>) -> io::Error {
        self.refusal_message.lock().get_or_insert(message);
        self.refuse(status)
    }

    /// Returns the message of the refusal that ended the line.
    pub(super) fn refusal_message(&self) -> Option<Vec<u8>> {
        self.refusal_message.lock().clone()
    }

    /// Counts bytes held in memory until the line ends.
    ///
    /// # Errors
    /// `TimedOut` where that exceeds the limit, which ends the line.
    pub(super) fn hold_memory(&self, bytes: usize) -> io::Result<()> {
        self.held_memory.fetch_add(bytes, Ordering::Relaxed);
        self.check_memory(0)
    }

    /// Checks whether there is room for bytes held temporarily.
    ///
    /// # Errors
    /// As [`Deadline::hold_memory`].
    pub(super) fn check_memory(&self, bytes: usize) -> io::Result<()> {
        let all = self
            .held_memory
            .load(Ordering::Relaxed)
            .saturating_add(bytes);
        if self.max_memory == 0 || all <= self.max_memory {
            return Ok(());
        }
        self.exhausted.store(true, Ordering::Relaxed);
        Err(self.refuse(1))
    }

    /// Returns whether the memory limit has been exceeded.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Notes that something was left out of a stream.
    pub(super) fn note_truncated(&self, stream: LineStream) {
        let [stdout, stderr] = &*self.truncated;
        let of = match stream {
            LineStream::Stdout => stdout,
            LineStream::Stderr => stderr,
        };
        of.store(true, Ordering::Relaxed);
    }

    /// Returns, for standard output and for standard error, whether something was left out.
    pub(super) fn truncated(&self) -> [bool; 2] {
        self.truncated
            .each_ref()
            .map(|of| of.load(Ordering::Relaxed))
    }

    /// Returns the status of a line ended by a refusal.
    pub(super) fn refusal_status(&self) -> Option<u8> {
        match self.refusal_status.load(Ordering::Relaxed) {
            0 => None,
            status => Some(status),
        }
    }
}
