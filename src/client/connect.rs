//! The connection to the daemon that serves a store.
//!
//! The one place that says what it means that the daemon does not answer, or goes away before it has.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::control::{Answer, Request, send, socket_path};
use crate::error::{Error, Result};

/// How long the other end may take to note that nothing more will be asked.
const FINISH_LIMIT: Duration = Duration::from_secs(5);

const SAME_RELEASE: &str = "Use the trumanfs of the same release as the daemon's";

/// A connection to the daemon that serves a store.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    is_lost: bool,
    /// Whether an answer was waited for in vain.
    is_silent: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::Refused`] where no daemon answers, with what to do about it.
    pub(super) fn open(state: impl AsFd) -> Result<Connection> {
        let stream = UnixStream::connect(socket_path(&state))
            .map_err(|error| unreachable(Error::io("connect", &error)))?;
        Ok(Connection {
            stream: BufReader::new(stream),
            is_lost: false,
            is_silent: false,
        })
    }

    /// Connects, for requests that are answered at once: an answer is waited for so long and no longer.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub(super) fn open_within(state: impl AsFd, limit: Duration) -> Result<Connection> {
        let connection = Connection::open(state)?;
        let stream = connection.stream.get_ref();
        stream
            .set_read_timeout(Some(limit))
            .and_then(|()| stream.set_write_timeout(Some(limit)))
            .map_err(|error| Error::io("setsockopt", &error))?;
        Ok(connection)
    }

    /// Returns whether the other end was gone when it was last asked.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Says that nothing more will be asked, and waits until the other end has taken note of it.
    pub(super) fn finish(&mut self) {
        let stream = self.stream.get_ref();
        let _ = stream.set_read_timeout(Some(FINISH_LIMIT));
        if stream.shutdown(std::net::Shutdown::Write).is_ok() {
            let _ = self.stream.read_line(&mut String::new());
        }
    }

    /// Returns whether the other end let the limit of [`Connection::open_within`] pass.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns whether the other end is gone by now.
    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.stream.get_ref(), PollFlags::RDHUP)];
        let now = Timespec::default();
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|_| {
            let [fd] = fds;
            fd.revents().intersects(gone)
        })
    }

    /// Asks. The answer is never [`Answer::Failed`].
    ///
    /// # Errors
    /// What the daemon says that it could not do; [`Error::Refused`] where it is gone; [`Error::Partly`] where it goes away while it may
    /// be changing something.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer> {
        // A request that did not arrive whole is not acted upon.
        if let Err(error) = send(self.stream.get_ref(), request) {
            self.is_lost = true;
            return Err(unreachable(error));
        }
        let mut line = String::new();
        let heard = self.stream.read_line(&mut line);
        if let Err(error) = &heard
            && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            && !request.changes()
        {
            (self.is_lost, self.is_silent) = (true, true);
            return Err(silent());
        }
        if heard.is_err() || !line.ends_with('\n') {
            self.is_lost = true;
            return Err(lost(request));
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Failed { kind, what, remedy }) => Err(kind.error(what, remedy)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(misunderstood(request, &error.to_string())),
        }
    }
}

/// Asks the daemon that serves a store one thing.
///
/// # Errors
/// As [`Connection::open`] and [`Connection::ask`].
pub(super) fn ask(state: impl AsFd, request: &Request) -> Result<Answer> {
    Connection::open(state)?.ask(request)
}

fn unreachable(error: Error) -> Error {
    Error::refused(
        format!("the daemon that serves this store does not answer: {error}"),
        "Only root and the user who mounted the store may ask, and only on the machine that serves it.",
    )
}

fn silent() -> Error {
    Error::refused(
        "the daemon that serves this store does not answer",
        "Its disk may hang, or somebody has stopped it; what was recorded is safe.",
    )
}

/// Says that an answer is none to the request.
pub(super) fn misunderstood(request: &Request, why: &str) -> Error {
    let what = format!("the daemon's answer cannot be understood: {why}");
    match request.changes() {
        true => Error::Partly {
            what: format!("{what}; the change may have been made"),
            remedy: format!("{SAME_RELEASE}; its `log` shows what was done."),
        },
        false => Error::refused(what, format!("{SAME_RELEASE}.")),
    }
}

/// Says what it means that the daemon, or its end of this connection, is gone before it has answered.
fn lost(request: &Request) -> Error {
    match request.changes() {
        true => Error::Partly {
            what: "the daemon went away in the middle of it: part of it may have been done"
                .to_owned(),
            remedy: "What was done is recorded, and nothing is lost.".to_owned(),
        },
        false => Error::refused(
            "the daemon went away before it answered",
            "Where it has died, `trumanfs umount` cleans up; nothing is lost.",
        ),
    }
}
