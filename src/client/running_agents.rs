//! The agents of this user that run, each with a socket at which the user asks and answers about hosts while it does.
//!
//! Owns where the sockets lie, how a run is found by its id, what is said there, and who may say it: only the user who
//! started the agent, and no program in a sandbox. No sandbox shows the directory, and the peer of each connection is
//! looked at besides. A socket stays when its run has ended, at which nobody listens then: so a run that has ended is told
//! from one that never was.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::control::send;
use crate::error::{Error, FailureKind, Result};
use crate::world::RunId;
use crate::world::store::place;

/// The most sockets of runs that have ended.
const MAX_ENDED: usize = 64;

/// The longest message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 4 << 20;

/// The time that the other end may take to answer, or to say what it wants.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The most runs that a message names.
const MAX_NAMED: usize = 8;

/// A request of the user to the launcher of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum AgentRequest {
    /// An answer about a host.
    Answer(AnswerRequest),
    /// The asks that wait, and what was refused.
    Asks,
    /// The same, and all that comes until the agent ends.
    Follow,
}

/// An answer about a host, as the user gives it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnswerRequest {
    /// The host, as a list has it.
    pub host: String,
    /// True if it may be reached.
    pub allow: bool,
    /// The connections that the answer is for: `once`, `run` or `always`.
    pub scope: String,
    /// The reason, which the agent gets.
    pub reason: Option<String>,
}

/// A reply of the launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentReply {
    /// The answer counts.
    Done {
        /// The number of connections that waited for it.
        held: usize,
        /// Things that the user should know of it.
        notes: Vec<String>,
    },
    /// The state of the run, with the asks that wait and the hosts that were refused.
    Asks(serde_json::Value),
    /// Something that has happened.
    Event(serde_json::Value),
    /// The request was not carried out.
    Failed {
        /// The kind of the failure.
        kind: FailureKind,
        /// The failure, in words.
        what: String,
        /// The remedy.
        remedy: String,
    },
}

impl From<Error> for AgentReply {
    fn from(error: Error) -> AgentReply {
        let kind = error.kind();
        let (what, remedy) = error.into_words();
        AgentReply::Failed { kind, what, remedy }
    }
}

/// The directory of the sockets.
#[derive(Debug)]
pub struct RunningAgents {
    dir: OwnedFd,
    path: PathBuf,
}

/// The socket of an agent that runs, where its launcher listens.
#[derive(Debug)]
pub struct AgentListener(UnixListener);

/// A connection to the launcher of an agent.
#[derive(Debug)]
pub struct AgentConnection {
    /// The agent's run.
    pub run: RunId,
    stream: BufReader<UnixStream>,
}

impl RunningAgents {
    /// Opens that of this user.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no place for it.
    pub fn own() -> Result<RunningAgents> {
        let opened = place::running_agents();
        let (dir, path) = opened.map_err(|error| {
            let why = match error {
                Error::NotFound => {
                    "neither XDG_STATE_HOME nor HOME leads to a directory".to_owned()
                }
                Error::Invalid => {
                    "the directory of running agents is another user's, or open to others"
                        .to_owned()
                }
                error => error.full_message(),
            };
            Error::refused(
                format!("there is no place at which a running agent could be asked: {why}"),
                "Set XDG_STATE_HOME to a directory of your own that can be written.",
            )
        })?;
        Ok(RunningAgents { dir, path })
    }

    /// Returns where the directory lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to listen for a run.
    ///
    /// # Errors
    /// Errors of making the socket.
    pub fn listen(&self, run: RunId) -> Result<AgentListener> {
        self.remove_ended();
        let bound = UnixListener::bind(self.at(run)).map_err(|error| Error::io("bind", &error))?;
        let set = bound.set_nonblocking(true);
        set.map_err(|error| Error::io("fcntl", &error))?;
        Ok(AgentListener(bound))
    }

    /// Connects to the launcher of a run: its id, a beginning of it that no other agent's run has, or `last`: the one that
    /// began last of those that run.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is none, or it has ended; [`Error::Refused`] where it could be several.
    pub fn connect(&self, text: &str) -> Result<AgentConnection> {
        let mut runs = self.runs()?;
        if text != "last" {
            runs.retain(|run| !text.is_empty() && run.to_string().starts_with(text));
        }
        let mut running = Vec::new();
        for run in &runs {
            let Some(stream) = self.try_connect(*run) else {
                continue;
            };
            running.push(AgentConnection { run: *run, stream });
            if text == "last" {
                break;
            }
        }
        match (running.len(), running.pop(), runs.first()) {
            (1, Some(found), _) => Ok(found),
            (0, ..) if text == "last" => {
                Err(none_running("no agent of yours that has a network runs"))
            }
            (0, _, Some(ended)) => Err(Error::Missing {
                what: format!("run {ended} has ended: nothing of it waits for an answer"),
                remedy: "For the next one, start the agent with --net allow=HOST[:PORT]."
                    .to_owned(),
            }),
            (0, ..) => Err(none_running(&format!(
                "no agent of yours that has a network runs as {text:?}"
            ))),
            (count, last, _) => {
                let all = running.iter().chain(&last);
                let named: Vec<_> = all
                    .take(MAX_NAMED)
                    .map(|found| found.run.to_string())
                    .collect();
                Err(Error::refused(
                    format!(
                        "{text:?} could be any of {count} runs: {}",
                        named.join(", ")
                    ),
                    "Give more of its id.",
                ))
            }
        }
    }

    /// Connects to the launchers of all agents that run, those that began last first.
    ///
    /// # Errors
    /// Errors of reading the directory.
    pub fn connect_all(&self) -> Result<Vec<AgentConnection>> {
        let connect = |run| {
            let stream = self.try_connect(run)?;
            Some(AgentConnection { run, stream })
        };
        Ok(self.runs()?.into_iter().filter_map(connect).collect())
    }

    /// Returns the runs that have a socket, those that began last first.
    fn runs(&self) -> Result<Vec<RunId>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = rustix::fs::openat(&self.dir, ".", flags, Mode::empty());
        let listed =
            Dir::new(listed.map_err(Error::os("openat"))?).map_err(Error::os("getdents64"))?;
        let mut runs = Vec::new();
        for entry in listed.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let run = name.to_str().and_then(|name| name.parse::<RunId>().ok());
            let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
            if let (Some(run), Ok(stat)) = (run, stat) {
                runs.push(((stat.st_mtime, stat.st_mtime_nsec), run));
            }
        }
        runs.sort_unstable_by(|one, other| other.cmp(one));
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// Removes the oldest sockets at which nobody listens, if there are many.
    fn remove_ended(&self) {
        let runs = self.runs().unwrap_or_default();
        for run in runs.into_iter().skip(MAX_ENDED) {
            if self.try_connect(run).is_none() {
                let _ = rustix::fs::unlinkat(&self.dir, run.to_string(), AtFlags::empty());
            }
        }
    }

    fn try_connect(&self, run: RunId) -> Option<BufReader<UnixStream>> {
        UnixStream::connect(self.at(run)).ok().map(BufReader::new)
    }

    /// Returns the path of a socket, short enough for `sockaddr_un`.
    fn at(&self, run: RunId) -> PathBuf {
        format!("/proc/self/fd/{}/{run}", self.dir.as_raw_fd()).into()
    }
}

fn none_running(what: &str) -> Error {
    Error::Missing {
        what: what.to_owned(),
remedy: "`trumanfs agent asks` lists those that run, of this user alone. One that may reach no host has no network: start \
                 it with --net ask, or with --net allow=HOST[:PORT]."
            .to_owned(),
    }
}

impl AgentListener {
    /// Waits for a connection of the user. Nothing: `stop` was closed.
    pub fn accept(&self, stop: impl AsFd) -> Option<UnixStream> {
        loop {
            let mut fds = [
                PollFd::new(&self.0, PollFlags::IN),
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            ];
            let polled = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None));
            let [_, stopped] = &fds;
            if polled.is_err() || !stopped.revents().is_empty() {
                return None;
            }
            if let Ok((stream, _)) = self.0.accept()
                && stream.set_nonblocking(false).is_ok()
            {
                return Some(stream);
            }
        }
    }
}

/// Checks that the peer of a connection is the user who started the agent, outside of any sandbox. Returns the peer's name
/// for records.
///
/// # Errors
/// [`Error::Refused`] for everybody else.
pub fn expect_user(stream: &UnixStream) -> Result<String> {
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(Error::os("getsockopt"))?;
    let me = rustix::process::geteuid();
    if peer.uid != me {
        return Err(Error::refused(
            format!("user {} did not start this agent", peer.uid.as_raw()),
            format!("User {} may answer it.", me.as_raw()),
        ));
    }
    let pid = peer.pid.as_raw_nonzero();
    let of = |process: &str| {
        let space = rustix::fs::statat(CWD, format!("/proc/{process}/ns/pid"), AtFlags::empty());
        space.ok().map(|space| (space.st_dev, space.st_ino))
    };
    let (peers, own) = (of(&pid.to_string()), of("self"));
    if own.is_none() || peers != own {
        return Err(Error::refused(
            "a program in a sandbox may not answer for an agent",
            "Answer outside of it.",
        ));
    }
    Ok(format!("uid {} (pid {pid})", me.as_raw()))
}

/// Reads the one request of a connection.
///
/// # Errors
/// Nothing came in time, or nothing that means something.
pub fn read_request(stream: &UnixStream) -> Result<AgentRequest> {
    let set = |error: std::io::Error| Error::io("setsockopt", &error);
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(set)?;
    stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(set)?;
    let line = read_line(&mut BufReader::new(stream))?;
    serde_json::from_str(&line).map_err(|error| {
        Error::usage(
            format!("the request is not understood: {error}"),
            "Use the trumanfs of the same release as the agent's.",
        )
    })
}

/// Sends a reply.
///
/// # Errors
/// Errors of `write(2)`.
pub fn send_reply(stream: &UnixStream, reply: &AgentReply) -> Result<()> {
    send(stream, reply)
}

impl AgentConnection {
    /// Sends a request, and returns the first reply.
    ///
    /// # Errors
    /// What the launcher refuses; [`Error::System`] where it does not answer.
    pub fn ask(&mut self, request: &AgentRequest) -> Result<AgentReply> {
        let stream = self.stream.get_ref();
        let set = |error: std::io::Error| Error::io("setsockopt", &error);
        stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(set)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT)).map_err(set)?;
        // One that refuses it unheard has said why.
        let _ = send(stream, request);
        let reply = self.next_reply()?.ok_or_else(|| self.silent())?;
        self.stream.get_ref().set_read_timeout(None).map_err(set)?;
        Ok(reply)
    }

    /// Returns the next reply; nothing once the agent has ended.
    ///
    /// # Errors
    /// As [`AgentConnection::ask`].
    pub fn next_reply(&mut self) -> Result<Option<AgentReply>> {
        let line = match read_line(&mut self.stream) {
            // One that was killed has not said its last.
            Err(error) if error.errno() == Errno::CONNRESET => return Ok(None),
            line => line.map_err(|_| self.silent())?,
        };
        if line.is_empty() {
            return Ok(None);
        }
        match serde_json::from_str(&line) {
            Ok(AgentReply::Failed { kind, what, remedy }) => Err(kind.error(what, remedy)),
            Ok(reply) => Ok(Some(reply)),
            Err(error) => Err(Error::System {
                what: format!("the answer of run {} is not understood: {error}", self.run),
                remedy: "Use the trumanfs of the same release as the agent's.".to_owned(),
            }),
        }
    }

    fn silent(&self) -> Error {
        Error::System {
            what: format!("the launcher of run {} does not answer", self.run),
            remedy: "It has just ended, or is stopped: `fg` lets it go on.".to_owned(),
        }
    }
}

fn read_line(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    let read = from.take(MAX_MESSAGE_BYTES).read_line(&mut line);
    read.map_err(|error| Error::io("read", &error))?;
    Ok(line)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn agents() -> (tempfile::TempDir, RunningAgents) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, &path, flags, Mode::empty()).unwrap();
        (dir, RunningAgents { dir: opened, path })
    }

    fn run(text: &str) -> RunId {
        text.parse().unwrap()
    }

    #[test]
    fn runs_are_found_by_what_is_unique_of_their_ids() {
        let (_dir, agents) = agents();
        let [one, two, ended] = ["abcd00000000", "abce00000000", "abzz00000000"].map(run);
        drop(agents.listen(ended).unwrap());
        let _first = agents.listen(one).unwrap();
        let _second = agents.listen(two).unwrap();
        let find = |text: &str| agents.connect(text).map(|found| found.run);
        assert_eq!(find("abcd").unwrap(), one);
        assert_eq!(find("abce00000000").unwrap(), two);
        assert_eq!(find("last").unwrap(), two);
        let several = find("ab").unwrap_err();
        assert_eq!(several.kind(), FailureKind::Refused);
        let message = several.full_message();
        assert!(
            message.contains("any of 2 runs: ") && message.contains("abcd00000000"),
            "{message}"
        );
        for (text, part) in [
            ("abzz", "run abzz00000000 has ended"),
            ("b", "runs as \"b\""),
            ("", "runs as"),
        ] {
            let error = find(text).unwrap_err();
            assert_eq!(error.kind(), FailureKind::Missing);
            assert!(
                error.full_message().contains(part),
                "{}",
                error.full_message()
            );
        }
        assert_eq!(agents.connect_all().unwrap().len(), 2);
    }

    #[test]
    fn sockets_of_ended_runs_are_not_kept_for_ever() {
        let (_dir, agents) = agents();
        let first = agents.listen(run("aaaaaaaaaaaa")).unwrap();
        for _ in 0..2 * MAX_ENDED {
            drop(agents.listen(RunId::random()).unwrap());
        }
        assert!(agents.runs().unwrap().len() <= MAX_ENDED + 2);
        assert_eq!(agents.connect("aaaa").unwrap().run, run("aaaaaaaaaaaa"));
        drop(first);
    }
}
