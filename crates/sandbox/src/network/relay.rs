//! Carrying bytes both ways between two connections, on one thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::body_scanner::BodyScanner;
use super::stop_signal::{StopSignal, WaitOutcome};

/// The time that a connection may rest before it is closed.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(600);

/// The number of bytes that are read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// The number of bytes that went each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteCounts {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// A direction of a connection.
struct RelayDirection<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that have been written.
    written: usize,
    /// True if nothing more is read; `is_closed` is true once the reader has learned of that.
    is_over: bool,
    is_closed: bool,
    carried: u64,
}

impl<'a> RelayDirection<'a> {
    fn new(from: &'a TcpStream, to: &'a TcpStream) -> RelayDirection<'a> {
        RelayDirection {
            from,
            to,
            buffer: Vec::new(),
            written: 0,
            is_over: false,
            is_closed: false,
            carried: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.written >= self.buffer.len()
    }

    /// Reads some if there is nothing to write. `Ok(true)`: something was read.
    fn read(&mut self) -> io::Result<bool> {
        if self.is_over || !self.is_empty() {
            return Ok(false);
        }
        self.buffer.resize(BUFFER_BYTES, 0);
        let read = self.from.read(&mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        self.written = 0;
        match nonblocking(read)? {
            Some(0) => {
                self.is_over = true;
                Ok(false)
            }
            some => Ok(some.is_some()),
        }
    }

    /// Writes what there is, and with `reads` what has come, as far as it is taken at once: a program that has ended may
    /// have sent something before.
    fn drain(&mut self, reads: bool) {
        while self.write().is_ok() && self.is_empty() && reads && self.read().is_ok_and(|some| some)
        {
        }
    }

    /// Writes what there is, as far as it is taken.
    fn write(&mut self) -> io::Result<()> {
        while let Some(rest) = self
            .buffer
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            let Some(some) = nonblocking(self.to.write(rest))? else {
                return Ok(());
            };
            self.written += some;
            self.carried += some as u64;
        }
        Ok(())
    }
}

/// Maps `WouldBlock` to `None`.
pub(super) fn nonblocking(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(some) => Ok(Some(some)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

/// Carries bytes until both ends are done, one breaks, or the network ends. `first` goes to the server before all else.
/// With a body, only so much as is its part is carried to the server after that, and the server's end ends it.
pub(super) fn relay(
    client: &TcpStream,
    server: &TcpStream,
    first: Vec<u8>,
    mut body: Option<BodyScanner>,
    stop: &StopSignal,
) -> ByteCounts {
    let (mut up, mut down) = (
        RelayDirection::new(client, server),
        RelayDirection::new(server, client),
    );
    up.buffer = first;
    up.is_over = body.as_ref().is_some_and(BodyScanner::is_over);
    let nonblocking = client.set_nonblocking(true).is_ok() && server.set_nonblocking(true).is_ok();
    while nonblocking && step(&mut up, &mut down, body.as_mut()).is_ok() {
        let is_http = body.is_some();
        for way in [&mut up, &mut down] {
            // A server may take the end of what it reads for a client that is gone, so of one request it is not told.
            let is_told = std::ptr::eq(way.to, server) && is_http;
            if way.is_over && way.is_empty() && !way.is_closed {
                way.is_closed = true;
                if !is_told {
                    let _ = way.to.shutdown(Shutdown::Write);
                }
            }
        }
        if down.is_closed && (up.is_closed || is_http) {
            break;
        }
        let flags = |reads: &RelayDirection<'_>, writes: &RelayDirection<'_>| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !reads.is_over && reads.is_empty());
            flags.set(PollFlags::OUT, !writes.is_empty());
            flags
        };
        // An end that nothing is wanted from is waited for where nothing is under way: then its end is that of all.
        let is_idle = up.is_empty() && down.is_empty();
        let mut fds: Vec<(&dyn AsFd, PollFlags)> =
            vec![(client, flags(&up, &down)), (server, flags(&down, &up))];
        fds.retain(|(_, flags)| is_idle || !flags.is_empty());
        let waited = stop.wait(&fds, Some(Instant::now() + IDLE_LIMIT));
        let ready = match waited {
            WaitOutcome::Ready(ready) => ready,
            WaitOutcome::Late => break,
            WaitOutcome::Stopped => {
                down.drain(true);
                up.drain(!is_http);
                break;
            }
        };
        let mut ends = fds.iter().zip(ready);
        if ends.any(|((_, flags), ready)| flags.is_empty() && ready) {
            break;
        }
    }
    ByteCounts {
        sent: up.carried,
        received: down.carried,
    }
}

/// Moves what can be moved now.
fn step(
    up: &mut RelayDirection<'_>,
    down: &mut RelayDirection<'_>,
    body: Option<&mut BodyScanner>,
) -> io::Result<()> {
    if up.read()?
        && let Some(body) = body
    {
        let len = body.count_body_bytes(&up.buffer);
        up.buffer.truncate(len);
        up.is_over |= body.is_over();
    }
    up.write()?;
    down.read()?;
    down.write()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::super::http::BodyLength;
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// A client, a server, and what carries between them; and what ends it.
    fn carried(
        first: &[u8],
        body: Option<BodyScanner>,
    ) -> (
        TcpStream,
        TcpStream,
        std::thread::JoinHandle<ByteCounts>,
        std::os::fd::OwnedFd,
    ) {
        let ((client, near), (far, server)) = (pair(), pair());
        let (end, hold) = rustix::pipe::pipe().unwrap();
        let stop = StopSignal(Arc::new(end));
        let first = first.to_vec();
        let thread = std::thread::spawn(move || relay(&near, &far, first, body, &stop));
        (client, server, thread, hold)
    }

    /// A program that answers and ends has answered.
    #[test]
    fn what_was_sent_before_the_end_arrives() {
        // More than is read at once.
        let sent = vec![7; BUFFER_BYTES + BUFFER_BYTES / 2];
        for _ in 0..20 {
            let (mut client, mut server, thread, hold) = carried(b"", None);
            server.write_all(&sent).unwrap();
            drop((server, hold));
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), sent.len());
            thread.join().unwrap();
        }
    }

    #[test]
    fn all_of_it_goes_both_ways_and_each_end_is_passed_on() {
        let (mut client, mut server, thread, _hold) = carried(b"first ", None);
        let big = vec![7; 3 << 20];
        let sender = std::thread::spawn({
            let (mut client, big) = (client.try_clone().unwrap(), big.clone());
            move || {
                client.write_all(&big).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            }
        });
        let mut got = Vec::new();
        server.read_to_end(&mut got).unwrap();
        assert_eq!(got, [b"first ", &big[..]].concat());
        sender.join().unwrap();
        server.write_all(&big).unwrap();
        drop(server);
        got.clear();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, big);
        let len = big.len() as u64;
        assert_eq!(
            thread.join().unwrap(),
            ByteCounts {
                sent: len + 6,
                received: len
            }
        );
    }

    #[test]
    fn a_second_request_is_not_carried() {
        let (mut client, mut server, thread, _hold) =
            carried(b"HEAD", Some(BodyScanner::new(BodyLength::Length(4))));
        client.write_all(b"bodyGET / HTTP/1.1\r\n\r\n").unwrap();
        let mut got = [0; 8];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"HEADbody");
        server
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        assert!(
            server.read(&mut got).is_err(),
            "nothing else comes, and no end either"
        );
        server.write_all(b"answer").unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        assert_eq!(
            thread.join().unwrap(),
            ByteCounts {
                sent: 8,
                received: 6
            }
        );
    }

    #[test]
    fn the_end_of_the_network_ends_it() {
        let (mut client, _server, thread, hold) = carried(b"", None);
        drop(hold);
        thread.join().unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
