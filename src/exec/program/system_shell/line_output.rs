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
    told: Receiver<()>,
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

    /// Notes that the line has ended, and waits until all that it has written is passed on, so long at most. Returns
    /// whether it is.
    pub(super) fn finish(self, most: Duration) -> bool {
        drop(self.ending);
        let end = Instant::now() + most;
        (0..self.streams).all(|_| {
            let left = end.saturating_duration_since(Instant::now());
            self.told.recv_timeout(left).is_ok()
        })
    }
}

fn pass_on(pipe: &OwnedFd, ended: &OwnedFd, mut to: OutputWriter, tell: &Sender<()>) {
    drain(pipe, ended, &mut *to);
    let _ = tell.send(());
    let mut chunk = vec![0; CHUNK];
    loop {
        match rustix::io::read(pipe, &mut *chunk) {
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
