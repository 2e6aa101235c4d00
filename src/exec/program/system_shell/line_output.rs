//! The output of a line, passed on as it comes: until the line has ended and nothing of it is left in the pipes, and from
//! then on what it has left running in the background writes.
//!
//! Threads: one for each stream of a line. One whose pipe somebody has open goes on until that is closed.

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

/// The output of a line that goes on.
pub(super) struct LineOutput {
    /// Closed when the line has ended.
    ending: OwnedFd,
    told: Receiver<bool>,
    streams: usize,
}

impl LineOutput {
    /// Begins to pass on what comes by these pipes.
    ///
    /// # Errors
    /// Too many descriptors are open, or there are too many threads.
    pub(super) fn start(pipes: Vec<(OwnedFd, OutputWriter)>) -> rustix::io::Result<LineOutput> {
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let ended = Arc::new(ended);
        let (tell, told) = channel();
        let streams = pipes.len();
        for (pipe, to) in pipes {
            let (ended, tell) = (ended.clone(), tell.clone());
            // Not joined: whoever takes the output may never do so.
            let thread = std::thread::Builder::new().name("output".to_owned());
            let spawned = thread.spawn(move || pass_on(&pipe, &ended, to, &tell));
            spawned.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        }
        Ok(LineOutput {
            ending,
            told,
            streams,
        })
    }

    /// Notes that the line has ended, and waits until all that it has written is passed on, so long at most.
    pub(super) fn finish(self, most: Duration) -> OutputEnd {
        drop(self.ending);
        let end = Instant::now() + most;
        let mut found = OutputEnd::default();
        for _ in 0..self.streams {
            let left = end.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left) {
                Ok(is_open) => found.goes_on |= is_open,
                Err(_) => found.is_left_behind = true,
            }
        }
        found
    }
}

/// The output of a line that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutputEnd {
    /// True if some of it could not be passed on in time.
    pub(super) is_left_behind: bool,
    /// True if something that the line has left running has it open.
    pub(super) goes_on: bool,
}

fn pass_on(pipe: &OwnedFd, ended: &OwnedFd, mut to: OutputWriter, tell: &Sender<bool>) {
    drain(pipe, ended, &mut *to);
    let mut chunk = vec![0; CHUNK];
    let mut has_told = false;
    loop {
        let read = rustix::io::read(pipe, &mut *chunk);
        if !std::mem::replace(&mut has_told, true) {
            let _ = tell.send(!matches!(read, Ok(0)));
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
                let _ = rustix::event::poll(&mut [PollFd::new(pipe, PollFlags::IN)], None);
            }
            Err(_) => return,
        }
    }
}
