//! [`ProgramConnection`]: a connection that a program has made, and what it has sent so far.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::stop_signal::{StopSignal, WaitOutcome};

/// The time that a program may take to say what it wants.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// The time that a program may take to read a refusal.
const REFUSAL_READ_LIMIT: Duration = Duration::from_secs(2);

/// The number of bytes that are read at once.
const READ_BYTES: usize = 4096;

/// A connection of a program.
pub(super) struct ProgramConnection<'s> {
    pub(super) stream: TcpStream,
    /// The bytes that were read and not used.
    pub(super) buffer: Vec<u8>,
    stop: &'s StopSignal,
}

impl<'s> ProgramConnection<'s> {
    pub(super) fn new(stream: TcpStream, stop: &'s StopSignal) -> ProgramConnection<'s> {
        // Small messages go to and fro while it is found out what is wanted.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(REQUEST_LIMIT));
        ProgramConnection {
            stream,
            buffer: Vec::new(),
            stop,
        }
    }

    /// Returns when everything ends that waits for this client's network.
    pub(super) fn stop_signal(&self) -> &'s StopSignal {
        self.stop
    }

    /// Reads until what there is can be understood; nothing if it ends or takes too long before that.
    pub(super) fn read_until<T>(&mut self, understand: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let end = Instant::now() + REQUEST_LIMIT;
        loop {
            if let Some(understood) = understand(&self.buffer) {
                return Some(understood);
            }
            let mut chunk = [0; READ_BYTES];
            match self.read(&mut chunk, end) {
                0 => return None,
                len => self.buffer.extend(chunk.get(..len).unwrap_or_default()),
            }
        }
    }

    /// Takes so much of what was read.
    pub(super) fn take_bytes(&mut self, len: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(len.min(self.buffer.len()));
        std::mem::replace(&mut self.buffer, rest)
    }

    /// Reads some; nothing at its end, at this time, or when the network ends.
    fn read(&mut self, chunk: &mut [u8], end: Instant) -> usize {
        let fds: [(&dyn AsFd, PollFlags); 1] = [(&self.stream, PollFlags::IN)];
        match self.stop.wait(&fds, Some(end)) {
            WaitOutcome::Ready(_) => self.stream.read(chunk).unwrap_or(0),
            WaitOutcome::Late | WaitOutcome::Stopped => 0,
        }
    }

    /// Says something. Whether it could be said does not matter: the next step shows it.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Says the last thing, and lets it be read: closing with something unread would take it away (RFC 9112, 9.6).
    pub(super) fn send_last(&mut self, bytes: &[u8]) {
        self.send(bytes);
        self.finish();
    }

    /// Lets what was sent be read, as [`ProgramConnection::send_last`].
    pub(super) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let end = Instant::now() + REFUSAL_READ_LIMIT;
        let mut chunk = [0; READ_BYTES];
        while self.read(&mut chunk, end) > 0 && Instant::now() < end {}
    }
}
