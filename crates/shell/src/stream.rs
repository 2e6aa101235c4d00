//! The streams of commands: [`Input`] and [`Output`], and the bounded pipe between two stages.
//!
//! A pipe holds at most [`MAX_CHUNKS`] chunks, so memory does not grow with the data that flows. After the reader is
//! dropped, the writer's next write fails with `EPIPE`; once the line has to end, every wait fails with `TimedOut`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::deadline::{Deadline, LineStream};
use trumanfs_types::error::{Error, Result};

/// The maximum number of chunks in a pipe.
const MAX_CHUNKS: usize = 8;
/// The size of output buffers and of reads, in bytes.
pub(super) const CHUNK: usize = 64 * 1024;

/// The length of a wait between two checks for cancellation.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<Vec<u8>>,
    writer_closed: bool,
    reader_closed: bool,
}

struct SharedPipe {
    state: Mutex<PipeState>,
    changed: Condvar,
    deadline: Deadline,
}

impl SharedPipe {
    /// Waits for the other end of the pipe.
    fn wait(&self, state: &mut parking_lot::MutexGuard<'_, PipeState>) -> io::Result<()> {
        self.deadline.check()?;
        let wait = self.deadline.cancel.remaining(CHECK_INTERVAL);
        self.changed.wait_for(state, wait);
        Ok(())
    }
}

/// The reading end of a pipe.
pub(super) struct PipeReader(Arc<SharedPipe>);

/// The writing end of a pipe, which is closed with the last clone of its [`Output`].
struct PipeWriter(Arc<SharedPipe>);

/// Makes a pipe.
pub(super) fn pipe(deadline: &Deadline) -> (Output, Input) {
    let shared = Arc::new(SharedPipe {
        state: Mutex::default(),
        changed: Condvar::new(),
        deadline: deadline.clone(),
    });
    let output = Output(Arc::new(OutputSink::Pipe(PipeWriter(shared.clone()))));
    (output, Input::new(InputSource::Pipe(PipeReader(shared))))
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.reader_closed = true;
        state.chunks.clear();
        self.0.changed.notify_all();
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.state.lock().writer_closed = true;
        self.0.changed.notify_all();
    }
}

impl PipeReader {
    /// Returns the next chunk; an empty one at the end.
    fn next(&self) -> io::Result<Vec<u8>> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(chunk) = state.chunks.pop_front() {
                self.0.changed.notify_all();
                return Ok(chunk);
            }
            if state.writer_closed {
                return Ok(Vec::new());
            }
            self.0.wait(&mut state)?;
        }
    }
}

impl PipeWriter {
    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        while state.chunks.len() >= MAX_CHUNKS && !state.reader_closed {
            self.0.wait(&mut state)?;
        }
        if state.reader_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.chunks.push_back(bytes.to_vec());
        self.0.changed.notify_all();
        Ok(())
    }
}

enum InputSource {
    Empty,
    Directory,
    Bytes(io::Cursor<Vec<u8>>),
    Pipe(PipeReader),
    File(File, Deadline),
}

/// A command's standard input.
pub(super) struct Input {
    source: InputSource,
    chunk: Vec<u8>,
    at: usize,
}

impl Input {
    fn new(source: InputSource) -> Input {
        Input {
            source,
            chunk: Vec::new(),
            at: 0,
        }
    }

    /// Makes an empty input: `/dev/null`.
    pub(super) fn empty() -> Input {
        Input::new(InputSource::Empty)
    }

    /// Makes the input of a directory: reading it fails.
    pub(super) fn directory() -> Input {
        Input::new(InputSource::Directory)
    }

    /// Makes an input of given bytes: a here-document.
    pub(super) fn bytes(bytes: Vec<u8>) -> Input {
        Input::new(InputSource::Bytes(io::Cursor::new(bytes)))
    }

    /// Makes the input of a file, or of the program's own standard input: waiting for data ends with the line.
    /// Commands can detect such an input, and then read no more of it than they need.
    pub(super) fn file(file: File, deadline: &Deadline) -> Input {
        Input::new(InputSource::File(file, deadline.clone()))
    }

    /// Returns whether there is nothing to read, and never will be.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.source, InputSource::Empty)
    }

    /// Returns the file that is read; `None` where it is not a file, or where some of its data is buffered here.
    pub(super) fn as_file(&self) -> Option<&File> {
        match &self.source {
            InputSource::File(file, _) if self.at >= self.chunk.len() => Some(file),
            _ => None,
        }
    }

    /// Gives back the last bytes that were read, for the next reader, as far as the file can be positioned.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let buffered = self.chunk.len().saturating_sub(self.at) as u64;
        let Ok(back) = i64::try_from(bytes.saturating_add(buffered)) else {
            return;
        };
        if let InputSource::File(file, _) = &mut self.source
            && bytes > 0
            && file.seek(SeekFrom::Current(-back)).is_ok()
        {
            (self.chunk, self.at) = (Vec::new(), 0);
        }
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.chunk.len() {
            self.at = 0;
            match &mut self.source {
                InputSource::Empty => self.chunk.clear(),
                InputSource::Directory => return Err(rustix::io::Errno::ISDIR.into()),
                InputSource::Bytes(bytes) => self.chunk = std::mem::take(bytes).into_inner(),
                InputSource::Pipe(pipe) => self.chunk = pipe.next()?,
                InputSource::File(file, deadline) => {
                    wait_until_ready(file, deadline)?;
                    read_chunk(&mut self.chunk, file)?;
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
fn wait_until_ready(file: &File, deadline: &Deadline) -> io::Result<()> {
    loop {
        deadline.check()?;
        let glance = Timespec::try_from(deadline.cancel.remaining(CHECK_INTERVAL)).ok();
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match rustix::event::poll(&mut polled, glance.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // A read reports the error for anything that cannot be polled.
            _ => return Ok(()),
        }
    }
}

fn read_chunk(chunk: &mut Vec<u8>, from: &mut File) -> io::Result<()> {
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

enum OutputSink {
    Null,
    Pipe(PipeWriter),
    File(File),
    Writer(Mutex<Box<dyn Write + Send>>, Option<LineStream>),
}

/// A command's standard output or error. Clones write to the same target, like duplicated descriptors.
#[derive(Clone)]
pub(super) struct Output(Arc<OutputSink>);

impl Output {
    /// Discards everything: `/dev/null`.
    pub(super) fn null() -> Output {
        Output(Arc::new(OutputSink::Null))
    }

    /// Writes to a file.
    pub(super) fn file(file: File) -> Output {
        Output(Arc::new(OutputSink::File(file)))
    }

    /// Returns the file that is written to, if it is one.
    pub(super) fn as_file(&self) -> Option<&File> {
        match &*self.0 {
            OutputSink::File(file) => Some(file),
            _ => None,
        }
    }

    /// Writes to any other writer.
    pub(super) fn writer(writer: impl Write + Send + 'static) -> Output {
        Output(Arc::new(OutputSink::Writer(
            Mutex::new(Box::new(writer)),
            None,
        )))
    }

    /// Writes to a stream of the line itself, by which output leaves the line.
    pub(super) fn line_output(writer: impl Write + Send + 'static, by: LineStream) -> Output {
        Output(Arc::new(OutputSink::Writer(
            Mutex::new(Box::new(writer)),
            Some(by),
        )))
    }

    /// Returns the stream of the line that this output goes to; `None` for a pipe, a file or a variable.
    pub(super) fn line_stream(&self) -> Option<LineStream> {
        match &*self.0 {
            OutputSink::Writer(_, leaving) => *leaving,
            _ => None,
        }
    }

    /// Returns whether another output writes to the same target.
    pub(super) fn is_same(&self, other: &Output) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.0 {
            OutputSink::Null => Ok(bytes.len()),
            OutputSink::Pipe(pipe) => pipe.put(bytes).map(|()| bytes.len()),
            OutputSink::File(file) => (&mut &*file).write(bytes),
            OutputSink::Writer(writer, _) => writer.lock().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &*self.0 {
            OutputSink::Writer(writer, _) => writer.lock().flush(),
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
