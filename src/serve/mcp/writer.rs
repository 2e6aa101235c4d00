//! The writing end of standard output, on a thread of its own: messages in their order, and since when none is read.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

/// A message for standard output, or a request to flush it.
pub(super) enum OutgoingMessage {
    /// A message.
    Message(Vec<u8>),
    /// Nothing: somebody wants to know that everything before has been written.
    Flush(oneshot::Sender<()>),
}

/// The time since which the client has read nothing of what is being written. Clones share the time.
#[derive(Debug, Clone, Default)]
pub(super) struct UnreadOutput(Arc<Mutex<Option<Instant>>>);

impl UnreadOutput {
    /// Returns for how long nothing has been read, while something is being written.
    pub(super) fn lasts(&self) -> Option<Duration> {
        self.0.lock().map(|since| since.elapsed())
    }
}

/// Writes messages until there are no more senders.
///
/// # Errors
/// That nobody reads them any more.
pub(super) fn write_all(
    mut messages: Receiver<OutgoingMessage>,
    unread: &UnreadOutput,
) -> io::Result<()> {
    while let Some(outgoing) = messages.blocking_recv() {
        match outgoing {
            OutgoingMessage::Message(mut message) => {
                message.push(b'\n');
                write(&message, unread)?;
            }
            // Who asked may not wait any more.
            OutgoingMessage::Flush(done) => drop(done.send(())),
        }
    }
    Ok(())
}

fn write(message: &[u8], unread: &UnreadOutput) -> io::Result<()> {
    // Nobody else writes to it: no buffer is needed, and no lock that a client could keep.
    let out = io::stdout();
    let mut rest = message;
    while !rest.is_empty() {
        *unread.0.lock() = Some(Instant::now());
        match rustix::io::write(&out, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Somebody else who has the same pipe asked not to wait.
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::new(&out, PollFlags::OUT)];
                let _ = poll(&mut polled, None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    *unread.0.lock() = None;
    Ok(())
}
