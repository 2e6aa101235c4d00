//! The output of a line, passed on as it comes: until the line has ended and nothing of it is left in the pipes, and from
//! then on what it has left running in the background writes.
//!
//! Threads: one for each stream, which go on from line to line. One whose pipe somebody has open goes on until that is
//! closed, and the next line has another one.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::exec::drain::drain;

/// The size of one read, in bytes.
const CHUNK: usize = 64 << 10;

/// A writer that output goes to.
pub(super) type OutputWriter = Box<dyn Write + Send>;

/// The threads that pass on the output of one line after the other: of its standard output and of its standard error.
#[derive(Default)]
pub(super) struct OutputThreads([Option<Sender<StreamOfLine>>; 2]);

/// One stream of the output of a line.
struct StreamOfLine {
    /// Its place among the streams.
    number: usize,
    pipe: OwnedFd,
    to: OutputWriter,
    /// Closed at the other end when the line has ended.
    ended: Arc<OwnedFd>,
    /// Where is told, once, whether somebody had the pipe open when all was passed on.
    tell: Sender<(usize, bool)>,
}

impl OutputThreads {
    /// Begins to pass on what comes by these pipes.
    ///
    /// # Errors
    /// Too many descriptors are open, or there are too many threads.
    pub(super) fn start(
        &mut self,
        pipes: [(OwnedFd, OutputWriter); 2],
    ) -> rustix::io::Result<LineOutput> {
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let ended = Arc::new(ended);
        let (tell, told) = channel();
        for ((number, (pipe, to)), thread) in pipes.into_iter().enumerate().zip(&mut self.0) {
            let (ended, tell) = (ended.clone(), tell.clone());
            let stream = StreamOfLine {
                number,
                pipe,
                to,
                ended,
                tell,
            };
            let free = match thread.take() {
                Some(free) => free,
                None => start_thread()?,
            };
            // It waits for the next stream, so it takes this one.
            let _ = free.send(stream);
            *thread = Some(free);
        }
        Ok(LineOutput { ending, told })
    }

    /// Notes that a line has ended, and waits until all that it has written is passed on, so long at most.
    pub(super) fn finish(&mut self, output: LineOutput, most: Duration) -> OutputEnd {
        drop(output.ending);
        let end = Instant::now() + most;
        let (mut found, mut busy) = (OutputEnd::default(), [true; 2]);
        for _ in &self.0 {
            let left = end.saturating_duration_since(Instant::now());
            match output.told.recv_timeout(left) {
                Ok((number, is_open)) => {
                    found.goes_on |= is_open;
                    if let Some(busy) = busy.get_mut(number) {
                        *busy = is_open;
                    }
                }
                Err(_) => found.is_left_behind = true,
            }
        }
        for (thread, is_busy) in self.0.iter_mut().zip(busy) {
            thread.take_if(|_| is_busy);
        }
        found
    }
}

/// The output of a line that goes on.
pub(super) struct LineOutput {
    /// Closed when the line has ended.
    ending: OwnedFd,
    told: Receiver<(usize, bool)>,
}

/// The output of a line that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutputEnd {
    /// True if some of it could not be passed on in time.
    pub(super) is_left_behind: bool,
    /// True if something that the line has left running has it open.
    pub(super) goes_on: bool,
}

fn start_thread() -> rustix::io::Result<Sender<StreamOfLine>> {
    let (streams, next) = channel();
    // Not joined: whoever takes the output may never do so.
    let thread = std::thread::Builder::new().name("output".to_owned());
    let spawned = thread.spawn(move || next.into_iter().for_each(pass_on));
    spawned.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
    Ok(streams)
}

fn pass_on(stream: StreamOfLine) {
    let StreamOfLine {
        number,
        pipe,
        mut to,
        ended,
        tell,
    } = stream;
    drain(&pipe, &ended, &mut *to);
    let mut chunk = vec![0; CHUNK];
    let mut has_told = false;
    loop {
        let read = rustix::io::read(&pipe, &mut *chunk);
        if !std::mem::replace(&mut has_told, true) {
            let _ = tell.send((number, !matches!(read, Ok(0))));
        }
        match read {
            Ok(0) => return,
            Ok(read) => {
                let bytes = chunk.get(..read).unwrap_or_default();
                // Where nobody takes it any more, who writes gets SIGPIPE.
                if to.write_all(bytes).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = rustix::event::poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None);
            }
            Err(_) => return,
        }
    }
}
