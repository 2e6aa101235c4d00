//! [`TurnSocket`]: the socket in a sandbox at which a program of a run says that a turn begins, and the program that says
//! it.
//!
//! What comes there is the occupant's word: it can add marks to its own run, so many and so long at most, and nothing else.
//!
//! Threads: one, for one connection after the other. It ends with the program.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use super::profile::AgentProfile;
use super::program_home::ProgramHome;
use super::sandbox::{LaunchError, PlacedKind, PlacedMount, SandboxSocket, Step};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::exec::home::Home;
use crate::world::TurnMark;

/// The path of the socket in a sandbox.
const SOCKET_PATH: &str = "/run/trumanfs/turns";

/// The directory with this program in a sandbox, which comes last in `PATH` there.
pub(super) const PROGRAM_DIR: &str = "/run/trumanfs/bin";

/// The most marks of a run.
const MAX_MARKS: usize = 10_000;

/// The longest request, in bytes: whole prompts are cut by who asks.
const MAX_REQUEST: u64 = 8 << 10;

/// The longest time that a connection takes.
const CONNECTION_LIMIT: Duration = Duration::from_secs(2);

/// The longest time that an answer is waited for: others may come first, and the history is looked through for the
/// conversation.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// A request that a turn begins.
#[derive(Debug, Serialize, Deserialize)]
pub struct TurnRequest {
    /// The prompt, or another text; its first line counts.
    pub text: String,
    /// The agent's id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TurnAnswer {
    /// The number of the turn.
    Turn(u32),
    /// Why there is no mark.
    Error(String),
}

impl TurnRequest {
    /// Says that a turn begins in the run in whose sandbox this process is. Returns its number.
    ///
    /// # Errors
    /// [`Error::Missing`] outside such a sandbox; [`Error::Refused`] where the mark is not made.
    pub fn send(&self) -> Result<u32> {
        let mut stream = UnixStream::connect(SOCKET_PATH).map_err(|error| Error::Missing {
            what: format!("this is not in the sandbox of an agent: {SOCKET_PATH}: {error}"),
            remedy: "`trumanfs checkpoint create TARGET NAME` names a point from outside."
                .to_owned(),
        })?;
        let refused = |why: String| Error::refused(format!("no turn was marked: {why}"), "");
        let answer = (|| {
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            writeln!(stream, "{}", serde_json::to_string(self)?)?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        })();
        match answer.map_err(|error: std::io::Error| refused(error.to_string()))? {
            TurnAnswer::Turn(turn) => Ok(turn),
            TurnAnswer::Error(why) => Err(refused(why)),
        }
    }
}

/// The socket, and this program for the sandbox.
#[derive(Debug)]
pub struct TurnSocket {
    socket: SandboxSocket,
    program: OwnedFd,
    /// The files of `/etc` by which the agent has its prompts marked.
    etc_files: Vec<(PathBuf, Vec<u8>)>,
}

impl TurnSocket {
    /// Makes the socket for an agent, where a sandbox can show it: in the scratch directory, which goes with the agent even
    /// if this process is killed.
    ///
    /// # Errors
    /// As [`SandboxSocket::new`].
    pub fn of(profile: &AgentProfile, programs: &ProgramHome) -> Result<Option<TurnSocket>> {
        if programs.is_in_place() {
            return Ok(None);
        }
        let scratch = programs.scratch_dir();
        let scratch = scratch.map_err(|error| Error::refused(error.to_string(), ""))?;
        let socket = SandboxSocket::within(scratch.dir, "turns");
        let socket = socket.and_then(SandboxSocket::open_to_all);
        let program = rustix::fs::openat(
            CWD,
            "/proc/self/exe",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        Ok(Some(TurnSocket {
            socket: socket.map_err(|error| Error::io("a socket for turns", &error))?,
            program: program.map_err(Error::os("open"))?,
            etc_files: profile.etc_files(),
        }))
    }

    /// Returns the files of `/etc`, for a sandbox.
    pub(super) fn etc_files(&self) -> &[(PathBuf, Vec<u8>)] {
        &self.etc_files
    }

    /// Returns the socket and the program, for a sandbox.
    ///
    /// # Errors
    /// Too many descriptors are open.
    pub(super) fn placed(&self) -> std::result::Result<[PlacedMount; 2], LaunchError> {
        let program = Path::new(PROGRAM_DIR).join("trumanfs");
        let place = |source: &OwnedFd, path: PathBuf| {
            rustix::io::fcntl_dupfd_cloexec(source, 0).map(|source| PlacedMount {
                source,
                path,
                kind: PlacedKind::ReadOnly,
            })
        };
        Ok([
            place(self.socket.fd(), PathBuf::from(SOCKET_PATH))?,
            place(&self.program, program)?,
        ])
    }

    /// Answers at the socket, once it is in the sandbox. `store`: where the home's records are.
    ///
    /// # Errors
    /// No thread can be started, or no pipe made; the program must not run then.
    pub(super) fn serve(
        &self,
        home: Arc<dyn Home>,
        store: &Client,
    ) -> std::result::Result<TurnServer, LaunchError> {
        let failed = |error: std::io::Error| LaunchError {
            errno: rustix::io::Errno::from_io_error(&error),
            ..LaunchError::refused(Step::Control, "answering for turns")
        };
        let listener = self.socket.take_listener().map_err(failed)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut marks = TurnMarks {
            home,
            store: store.path().to_owned(),
            last: HashMap::new(),
            count: 0,
        };
        let thread = std::thread::Builder::new().name("turns".to_owned());
        let thread = thread.spawn(move || marks.answer(&listener, &stopped));
        Ok(TurnServer {
            stop: Some(stop),
            thread: Some(thread.map_err(failed)?),
        })
    }
}

/// The thread that answers. Dropping it ends it.
#[derive(Debug)]
pub(super) struct TurnServer {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for TurnServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The marks of a run.
struct TurnMarks {
    home: Arc<dyn Home>,
    store: PathBuf,
    /// The number of the last turn of each conversation.
    last: HashMap<Option<String>, u32>,
    count: usize,
}

impl TurnMarks {
    fn answer(&mut self, listener: &UnixListener, stopped: &OwnedFd) {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            ];
            let _ = rustix::event::poll(&mut fds, None);
            if !fds[1].revents().is_empty() {
                return;
            }
            if let Ok((stream, _)) = listener.accept() {
                // Who does not take the answer has a mark all the same.
                let _ = self.answer_one(&stream);
            }
        }
    }

    fn answer_one(&mut self, mut stream: &UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(CONNECTION_LIMIT))?;
        stream.set_write_timeout(Some(CONNECTION_LIMIT))?;
        let mut line = Vec::new();
        BufReader::new(stream.take(MAX_REQUEST)).read_until(b'\n', &mut line)?;
        let answer = match serde_json::from_slice::<TurnRequest>(&line) {
            Ok(request) => match self.mark(&request) {
                Ok(turn) => TurnAnswer::Turn(turn),
                Err(error) => TurnAnswer::Error(error.to_string()),
            },
            Err(error) => TurnAnswer::Error(format!("the request is not understood: {error}")),
        };
        // In one piece, for who reads once.
        let answer = serde_json::to_string(&answer)? + "\n";
        stream.write_all(answer.as_bytes())
    }

    fn mark(&mut self, request: &TurnRequest) -> Result<u32> {
        if self.count >= MAX_MARKS {
            let what = format!("a run has at most {MAX_MARKS} marks");
            return Err(Error::refused(what, ""));
        }
        let mut mark = TurnMark::new(0, &request.text, request.conversation.as_deref());
        let last = match (self.last.get(&mark.conversation), &mark.conversation) {
            (Some(last), _) => *last,
            (None, None) => 0,
            // It goes on, maybe, from an earlier run.
            (None, Some(conversation)) => Client::open(&self.store)?.last_turn(conversation)?,
        };
        mark.turn = last.saturating_add(1);
        self.home.mark(&mark)?;
        self.count += 1;
        self.last.insert(mark.conversation.clone(), mark.turn);
        Ok(mark.turn)
    }
}
