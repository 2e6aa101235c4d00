//! The streams of a request: [`RequestStreams`].
//!
//! Owns the limits on output, and the first write error of each stream.
//!
//! Lock: one mutex for each stream, held for one write. A thread that was left behind may hold it for ever, so the end
//! of a request only tries to lock it.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::limit::LimitedWriter;
use super::request::{Limits, OutputSample};

/// The standard streams of a request.
pub struct RequestStreams {
    /// Standard input; `None` for an empty one.
    pub stdin: Option<OwnedFd>,
    /// Standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Standard error.
    pub stderr: Box<dyn Write + Send>,
}

/// A limited output stream; all clones share the limits.
#[derive(Clone)]
pub struct SharedOutput {
    limited: Arc<Mutex<LimitedWriter<Box<dyn Write + Send>>>>,
    /// The first write error.
    first_error: Arc<OnceLock<Errno>>,
}

impl SharedOutput {
    /// Makes a stream with these limits. `noun` is the name of its lines in the note about the omitted part.
    pub fn new(to: Box<dyn Write + Send>, limits: &Limits, noun: &'static str) -> SharedOutput {
        let limited = LimitedWriter::new(to, limits, noun);
        SharedOutput {
            limited: Arc::new(Mutex::new(limited)),
            first_error: Arc::default(),
        }
    }

    /// Writes a line, unless a thread that was left behind holds the stream. Write errors are ignored.
    pub fn write_line(&self, message: &[u8]) {
        if let Some(mut limited) = self.limited.try_lock() {
            let _ = limited.write_all(&[message, b"\n"].concat());
        }
    }

    /// Returns the size and start of the output; empty if a thread that was left behind holds the stream.
    pub fn written(&self) -> OutputSample {
        let limited = self.limited.try_lock();
        limited.map_or_else(OutputSample::default, |limited| limited.written().clone())
    }

    /// Writes the note about the omitted part. Returns whether anything was omitted.
    pub fn finish(&self) -> bool {
        let Some(mut limited) = self.limited.try_lock() else {
            return false;
        };
        self.note_error(limited.finish()).unwrap_or(false)
    }

    /// Returns the first write error, if any. `EPIPE` does not count: a reader that closes a pipe early wants no more.
    pub fn write_error(&self) -> Option<Errno> {
        self.first_error
            .get()
            .copied()
            .filter(|errno| *errno != Errno::PIPE)
    }

    fn note_error<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            let _ = self
                .first_error
                .set(Errno::from_io_error(error).unwrap_or(Errno::IO));
        })
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.limited.lock().write(bytes);
        self.note_error(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.limited.lock().flush();
        self.note_error(flushed)
    }
}

/// An output stream held in memory, within the limits.
#[derive(Clone, Default)]
pub struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputBuffer {
    /// Takes the bytes out.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
