//! The connection to the daemon that serves a store.
//!
//! The one place that says what it means that the daemon does not answer, or goes away before it has.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, recvmsg,
};

use crate::control::{ControlAnswer, ControlRequest, send, socket_path};
use crate::error::{Error, Result};

/// The time that the daemon may take to say how it is: it answers at once, or it hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The time that the daemon may take to seal the journal: before that, it gathers what was removed.
const SEAL_LIMIT: Duration = Duration::from_secs(60);

/// The time that the other end may take to note that nothing more will be asked.
const FINISH_LIMIT: Duration = Duration::from_secs(30);

const SAME_RELEASE: &str = "Use the trumanfs of the same release as the daemon's";

/// A connection to the daemon that serves a store.
#[derive(Debug)]
pub(super) struct DaemonConnection {
    stream: BufReader<UnixStream>,
    is_lost: bool,
}

impl DaemonConnection {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::Refused`] where no daemon answers, with what to do about it.
    pub(super) fn open(state: impl AsFd) -> Result<DaemonConnection> {
        DaemonConnection::connected(state, None)
    }

    /// Connects, for requests that are answered at once: an answer is waited for so long and no longer.
    ///
    /// # Errors
    /// As [`DaemonConnection::open`].
    pub(super) fn open_within(state: impl AsFd, limit: Duration) -> Result<DaemonConnection> {
        DaemonConnection::connected(state, Some(limit))
    }

    /// A limit holds for connecting, too: a daemon that was stopped takes no connections, and at some 4,000 the kernel
    /// keeps no more for it.
    fn connected(state: impl AsFd, limit: Option<Duration>) -> Result<DaemonConnection> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(Error::os("socket"))?;
        for way in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, way, limit).map_err(Error::os("setsockopt"))?;
        }
        let place = SocketAddrUnix::new(socket_path(&state)).map_err(Error::os("connect"))?;
        match rustix::net::connect(&socket, &place) {
            Err(Errno::AGAIN) => Err(silent_error()),
            connected => connected.map_err(|errno| unreachable_error(Error::os("connect")(errno))),
        }?;
        Ok(DaemonConnection {
            stream: BufReader::new(UnixStream::from(socket)),
            is_lost: false,
        })
    }

    /// Returns the user whom the daemon runs as.
    pub(super) fn daemon_user(&self) -> Result<u32> {
        let peer = socket_peercred(self.stream.get_ref()).map_err(Error::os("getsockopt"))?;
        Ok(peer.uid.as_raw())
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

    /// Has the daemon hand over a mount of a home that is at no path.
    ///
    /// # Errors
    /// As [`DaemonConnection::ask`].
    pub(super) fn take_tree(mut self) -> Result<OwnedFd> {
        let request = ControlRequest::Tree;
        send(self.stream.get_ref(), &request).map_err(unreachable_error)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut first = [0; 1];
        let mut data = [std::io::IoSliceMut::new(&mut first)];
        // The descriptor comes with the first byte.
        let received = rustix::io::retry_on_intr(|| {
            let flags = RecvFlags::CMSG_CLOEXEC;
            recvmsg(self.stream.get_ref(), &mut data, &mut control, flags)
        });
        received.map_err(|errno| match errno {
            Errno::AGAIN => silent_error(),
            _ => lost_error(&request),
        })?;
        let tree = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let mut line = String::from_utf8_lossy(&first).into_owned();
        let _ = self.stream.read_line(&mut line);
        match (tree, serde_json::from_str(&line)) {
            (Some(tree), _) => Ok(tree),
            (None, Ok(ControlAnswer::Failed { kind, what, remedy })) => {
                Err(kind.error(what, remedy))
            }
            _ => Err(lost_error(&request)),
        }
    }

    /// Asks. The answer is never [`ControlAnswer::Failed`].
    ///
    /// # Errors
    /// The daemon's own failure; [`Error::Refused`] where it is gone; [`Error::Partly`] where it goes
    /// away while it may be changing something.
    pub(super) fn ask(&mut self, request: &ControlRequest) -> Result<ControlAnswer> {
        let mut line = String::new();
        // A request that did not arrive whole is not acted upon. Who may not ask at all is told so without being heard.
        if let Err(error) = send(self.stream.get_ref(), request) {
            self.is_lost = true;
            let answer = self.stream.read_line(&mut line).ok();
            let answer = answer.and_then(|_| serde_json::from_str(&line).ok());
            return Err(match answer {
                Some(ControlAnswer::Failed { kind, what, remedy }) => kind.error(what, remedy),
                _ => unreachable_error(error),
            });
        }
        let read = self.stream.read_line(&mut line);
        if let Err(error) = &read
            && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            && !request.changes()
        {
            self.is_lost = true;
            return Err(silent_error());
        }
        if read.is_err() || !line.ends_with('\n') {
            self.is_lost = true;
            return Err(lost_error(request));
        }
        match serde_json::from_str(&line) {
            Ok(ControlAnswer::Failed { kind, what, remedy }) => Err(kind.error(what, remedy)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(misunderstood_error(request, &error.to_string())),
        }
    }
}

/// Asks the daemon that serves a store one thing. A change may take as long as it does; another answer is waited for so
/// long and no longer.
///
/// # Errors
/// As [`DaemonConnection::open`] and [`DaemonConnection::ask`].
pub(super) fn ask(state: impl AsFd, request: &ControlRequest) -> Result<ControlAnswer> {
    let limit = match request {
        ControlRequest::Seal => Some(SEAL_LIMIT),
        request => (!request.changes()).then_some(ANSWER_LIMIT),
    };
    DaemonConnection::connected(state, limit)?.ask(request)
}

fn unreachable_error(error: Error) -> Error {
    Error::refused(
        format!("the daemon that serves this store cannot be asked: {error}"),
        "Only root and the user who mounted the store may ask, and only on the machine that serves it.",
    )
}

const SILENT_DAEMON: &str = "the daemon that serves this store does not answer";

fn silent_error() -> Error {
    Error::refused(
        SILENT_DAEMON,
        "Its disk may hang, or somebody has stopped it; what was recorded is safe. `trumanfs umount` takes the home away.",
    )
}

/// Returns whether an error says that the daemon has let a limit pass.
pub(super) fn is_silence(error: &Error) -> bool {
    matches!(error, Error::Refused { what, .. } if what.starts_with(SILENT_DAEMON))
}

/// Names the process, where an error is silence of it.
pub(super) fn silence_of(pid: u32, mut error: Error) -> Error {
    if let Error::Refused { what, .. } = &mut error
        && what == SILENT_DAEMON
    {
        what.push_str(&format!(" (process {pid})"));
    }
    error
}

/// Says that an answer is none to the request.
pub(super) fn misunderstood_error(request: &ControlRequest, why: &str) -> Error {
    let what = format!("the daemon's answer cannot be understood: {why}");
    if request.changes() {
        Error::Partly {
            what: format!("{what}; the change may have been made"),
            remedy: format!("{SAME_RELEASE}; its `log` shows what was done."),
        }
    } else {
        Error::refused(what, format!("{SAME_RELEASE}."))
    }
}

/// Says what it means that the daemon, or its end of this connection, is gone before it has answered.
fn lost_error(request: &ControlRequest) -> Error {
    if request.changes() {
        Error::Partly {
            what: "the daemon went away in the middle of it: part of it may have been done"
                .to_owned(),
            remedy: "What was done is recorded, and nothing is lost.".to_owned(),
        }
    } else {
        Error::refused(
            "the daemon went away before it answered",
            "Where it has died, `trumanfs umount` cleans up; nothing is lost.",
        )
    }
}
