//! The streams of commands: [`Input`] and [`Output`], and the bounded pipe between two stages.
//!
//! A pipe holds at most [`HELD`] chunks, so memory does not grow with the data that flows. After the reader is
//! dropped, the writer's next write fails with `EPIPE`; once the line has to end, every wait fails with `TimedOut`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::{Error, Result};
use crate::exec::cancel::Cancel;

/// The maximum number of chunks in a pipe.
const HELD: usize = 8;
/// The size of output buffers and of reads, in bytes.
pub(super) const CHUNK: usize = 64 * 1024;

/// How long a wait lasts before it checks for cancellation.
const GLANCE: Duration = Duration::from_millis(100);

/// The limits of a line: the token of its request, a refusal in mid-line, and memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Deadline {
    /// The request's token.
    pub(super) cancel: Cancel,
    /// The status with which the line ends after something in it was refused.
    refused: Arc<AtomicU8>,
    /// The message of that refusal.
    reason: Arc<Mutex<Option<Vec<u8>>>>,
    /// The maximum number of bytes held in memory; 0 for no limit.
    memory: usize,
    /// The number of bytes held.
    held: Arc<AtomicUsize>,
    /// Whether the limit has been exceeded.
    exhausted: Arc<AtomicBool>,
}

impl Deadline {
    /// Returns the limits of a line that begins; `held` bytes are in use by variables.
    pub(super) fn new(cancel: Cancel, memory: u64, held: usize) -> Deadline {
        Deadline {
            cancel,
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            held: Arc::new(AtomicUsize::new(held)),
            ..Deadline::default()
        }
    }

    /// Fails with `TimedOut` once the line has to end.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.cancel.ended().is_some() || self.refused().is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Ends the line with a status. Returns the error that ends the command in progress.
    pub(super) fn refuse(&self, status: u8) -> io::Error {
        self.refused.store(status, Ordering::Relaxed);
        io::ErrorKind::TimedOut.into()
    }

    /// As [`Deadline::refuse`], and keeps the message.
    pub(super) fn refuse_for(&self, status: u8, message: Vec<u8>) -> io::Error {
        self.reason.lock().get_or_insert(message);
        self.refuse(status)
    }

    /// Returns the message of the refusal that ended the line.
    pub(super) fn reason(&self) -> Option<Vec<u8>> {
        self.reason.lock().clone()
    }

    /// Counts bytes held in memory until the line ends.
    ///
    /// # Errors
    /// `TimedOut` where that exceeds the limit, which ends the line.
    pub(super) fn hold(&self, bytes: usize) -> io::Result<()> {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.fits(0)
    }

    /// Checks whether there is room for bytes held temporarily.
    ///
    /// # Errors
    /// As [`Deadline::hold`].
    pub(super) fn fits(&self, bytes: usize) -> io::Result<()> {
        let all = self.held.load(Ordering::Relaxed).saturating_add(bytes);
        if self.memory == 0 || all <= self.memory {
            return Ok(());
        }
        self.exhausted.store(true, Ordering::Relaxed);
        Err(self.refuse(1))
    }

    /// Returns whether the memory limit has been exceeded.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Returns the status of a line ended by a refusal.
    pub(super) fn refused(&self) -> Option<u8> {
        match self.refused.load(Ordering::Relaxed) {
            0 => None,
            status => Some(status),
        }
    }
}

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<Vec<u8>>,
    written_off: bool,
    read_off: bool,
}

struct Shared {
    held: Mutex<PipeState>,
    changed: Condvar,
    deadline: Deadline,
}

impl Shared {
    /// Waits for the other end of the pipe.
    fn wait(&self, held: &mut parking_lot::MutexGuard<'_, PipeState>) -> io::Result<()> {
        self.deadline.check()?;
        let wait = self.deadline.cancel.left(GLANCE);
        self.changed.wait_for(held, wait);
        Ok(())
    }
}

/// The reading end of a pipe.
pub(super) struct PipeReader(Arc<Shared>);

/// The writing end of a pipe, which is closed with the last clone of its [`Output`].
struct PipeWriter(Arc<Shared>);

/// Makes a pipe.
pub(super) fn pipe(deadline: &Deadline) -> (Output, Input) {
    let shared = Arc::new(Shared {
        held: Mutex::default(),
        changed: Condvar::new(),
        deadline: deadline.clone(),
    });
    let output = Output(Arc::new(Sink::Pipe(PipeWriter(shared.clone()))));
    (output, Input::new(Source::Pipe(PipeReader(shared))))
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut held = self.0.held.lock();
        held.read_off = true;
        held.chunks.clear();
        self.0.changed.notify_all();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.held.lock().written_off = true;
        self.0.changed.notify_all();
    }
}

impl PipeReader {
    /// Returns the next chunk; an empty one at the end.
    fn next(&self) -> io::Result<Vec<u8>> {
        let mut held = self.0.held.lock();
        loop {
            if let Some(chunk) = held.chunks.pop_front() {
                self.0.changed.notify_all();
                return Ok(chunk);
            }
            if held.written_off {
                return Ok(Vec::new());
            }
            self.0.wait(&mut held)?;
        }
    }
}

impl PipeWriter {
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut held = self.0.held.lock();
        while held.chunks.len() >= HELD && !held.read_off {
            self.0.wait(&mut held)?;
        }
        if held.read_off {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        held.chunks.push_back(bytes.to_vec());
        self.0.changed.notify_all();
        Ok(())
    }
}

enum Source {
    Empty,
    Directory,
    Bytes(io::Cursor<Vec<u8>>),
    Pipe(PipeReader),
    File(File, Deadline),
}

/// A command's standard input.
pub(super) struct Input {
    source: Source,
    chunk: Vec<u8>,
    at: usize,
}

impl Input {
    fn new(source: Source) -> Input {
        Input {
            source,
            chunk: Vec::new(),
            at: 0,
        }
    }

    /// Makes an empty input: `/dev/null`.
    pub(super) fn empty() -> Input {
        Input::new(Source::Empty)
    }

    /// Makes the input of a directory: reading it fails.
    pub(super) fn directory() -> Input {
        Input::new(Source::Directory)
    }

    /// Makes an input of given bytes: a here-document.
    pub(super) fn bytes(bytes: Vec<u8>) -> Input {
        Input::new(Source::Bytes(io::Cursor::new(bytes)))
    }

    /// Makes the input of a file, or of the program's own standard input: waiting for data ends with the line.
    /// Commands can detect such an input, and then read no more of it than they need.
    pub(super) fn file(file: File, deadline: &Deadline) -> Input {
        Input::new(Source::File(file, deadline.clone()))
    }

    /// Returns whether there is nothing to read, and never will be.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.source, Source::Empty)
    }

    /// Returns the file that is read; `None` where it is not a file, or where some of its data is buffered here.
    pub(super) fn as_file(&self) -> Option<&File> {
        match &self.source {
            Source::File(file, _) if self.at >= self.chunk.len() => Some(file),
            _ => None,
        }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.chunk.len() {
            self.at = 0;
            match &mut self.source {
                Source::Empty => self.chunk.clear(),
                Source::Directory => return Err(rustix::io::Errno::ISDIR.into()),
                Source::Bytes(bytes) => self.chunk = std::mem::take(bytes).into_inner(),
                Source::Pipe(pipe) => self.chunk = pipe.next()?,
                Source::File(file, deadline) => {
                    wait_for(file, deadline)?;
                    refill(&mut self.chunk, file)?;
                }
            }
        }
        Ok(self.chunk.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.chunk.len());
    }
}

/// Waits until there is data to read, or the end. Files on disks are always ready.
fn wait_for(file: &File, deadline: &Deadline) -> io::Result<()> {
    loop {
        deadline.check()?;
        let glance = Timespec::try_from(deadline.cancel.left(GLANCE)).ok();
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match rustix::event::poll(&mut polled, glance.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // A read reports the error for anything that cannot be polled.
            _ => return Ok(()),
        }
    }
}

fn refill(chunk: &mut Vec<u8>, from: &mut File) -> io::Result<()> {
    chunk.resize(CHUNK, 0);
    let read = loop {
        match from.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    chunk.truncate(*read.as_ref().unwrap_or(&0));
    read.map(drop)
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let given = self.fill_buf()?;
        let amount = given.len().min(into.len());
        let (Some(into), Some(given)) = (into.get_mut(..amount), given.get(..amount)) else {
            return Ok(0);
        };
        into.copy_from_slice(given);
        self.consume(amount);
        Ok(amount)
    }
}

enum Sink {
    Null,
    Pipe(PipeWriter),
    File(File),
    Writer(Mutex<Box<dyn Write + Send>>),
}

/// A command's standard output or error. Clones write to the same place, like duplicated descriptors.
#[derive(Clone)]
pub(super) struct Output(Arc<Sink>);

impl Output {
    /// Discards everything: `/dev/null`.
    pub(super) fn null() -> Output {
        Output(Arc::new(Sink::Null))
    }

    /// Writes to a file.
    pub(super) fn file(file: File) -> Output {
        Output(Arc::new(Sink::File(file)))
    }

    /// Returns the file that is written to, if it is one.
    pub(super) fn as_file(&self) -> Option<&File> {
        match &*self.0 {
            Sink::File(file) => Some(file),
            _ => None,
        }
    }

    /// Writes to any other writer.
    pub(super) fn writer(writer: impl Write + Send + 'static) -> Output {
        Output(Arc::new(Sink::Writer(Mutex::new(Box::new(writer)))))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.0 {
            Sink::Null => Ok(bytes.len()),
            Sink::Pipe(pipe) => pipe.put(bytes).map(|()| bytes.len()),
            Sink::File(file) => (&mut &*file).write(bytes),
            Sink::Writer(writer) => writer.lock().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &*self.0 {
            Sink::Writer(writer) => writer.lock().flush(),
            _ => Ok(()),
        }
    }
}

/// Reads a file in chunks, so that neither lines nor a slow reader cost a system call each.
pub(super) fn buffered(file: File) -> BufReader<File> {
    BufReader::with_capacity(CHUNK, file)
}

/// Returns an empty file without a path of the host: a pipe without a writer.
///
/// # Errors
/// `EMFILE`.
pub(super) fn empty_file() -> Result<File> {
    let (read, _) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Error::os("pipe2"))?;
    Ok(File::from(read))
}
