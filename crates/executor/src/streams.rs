//! Where the output of a request goes: [`Streams`].
//!
//! Owns what is noted of it on the way: its limits, and whether it could be written.
//!
//! Lock: one mutex for each stream, held for one write. A thread that was left behind may hold it for ever, so whoever
//! ends a request only tries.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::limit::Limited;
use super::request::{Limits, Written};

/// Where the streams of a request go.
pub struct Streams {
    /// Standard input; without one it is empty.
    pub stdin: Option<OwnedFd>,
    /// Standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Standard error.
    pub stderr: Box<dyn Write + Send>,
}

/// A stream that is limited; all that write to it share the limits.
#[derive(Clone)]
pub struct Shared {
    limited: Arc<Mutex<Limited<Box<dyn Write + Send>>>>,
    /// What was the matter when it could not be written for the first time.
    failed: Arc<OnceLock<Errno>>,
}

impl Shared {
    /// Returns a stream with these limits. `noun` is what its lines are called where they are counted.
    pub fn new(to: Box<dyn Write + Send>, limits: &Limits, noun: &'static str) -> Shared {
        let limited = Limited::new(to, limits, noun);
        Shared {
            limited: Arc::new(Mutex::new(limited)),
            failed: Arc::default(),
        }
    }

    /// Writes a line, unless a thread that was left behind has the stream. Where nobody listens, nobody is told.
    pub fn say(&self, message: &[u8]) {
        if let Some(mut limited) = self.limited.try_lock() {
            let _ = limited.write_all(&[message, b"\n"].concat());
        }
    }

    /// Returns what was written, as far as can be known.
    pub fn written(&self) -> Written {
        let limited = self.limited.try_lock();
        limited.map_or_else(Written::default, |limited| limited.written().clone())
    }

    /// Says what was cut. Returns whether anything was.
    pub fn finish(&self) -> bool {
        let Some(mut limited) = self.limited.try_lock() else {
            return false;
        };
        self.note(limited.finish()).unwrap_or(false)
    }

    /// Returns what was the matter if it could not be written. That nobody reads it any more is not: whoever closes
    /// a pipe early wants no more.
    pub fn failed(&self) -> Option<Errno> {
        self.failed
            .get()
            .copied()
            .filter(|errno| *errno != Errno::PIPE)
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            let _ = self
                .failed
                .set(Errno::from_io_error(error).unwrap_or(Errno::IO));
        })
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.limited.lock().write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.limited.lock().flush();
        self.note(flushed)
    }
}

/// What was written, gathered in memory: no more than the limits let out.
#[derive(Clone, Default)]
pub struct Gathered(Arc<Mutex<Vec<u8>>>);

impl Gathered {
    /// Takes out what was gathered.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
