//! [`SshAgentProxy`]: the socket that programs of a sandbox find in `SSH_AUTH_SOCK`, and the threads behind it.
//!
//! Threads: one that accepts, one for each connection, of which there are only so many. They end with the proxy. Only a
//! session that is bound is connected to the user's agent.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::confirm::Confirmation;
use super::known_hosts::KnownHosts;
use super::log::{SignatureLog, SignatureObserver, SignatureRecord};
use super::session::{AgentDecision, AgentSession};
use crate::network::stop_signal::{StopSignal, WaitOutcome};
use crate::sandbox_socket::SandboxSocket;
use trumanfs_policy::network::HostRules;

/// The path of the socket in a sandbox.
pub const SOCKET_PATH: &str = "/run/trumanfs/ssh-agent";

/// The most bytes of a message, as in OpenSSH.
const MAX_MESSAGE_BYTES: usize = 256 << 10;

/// The most connections at once; others wait to be accepted.
const MAX_CONNECTIONS: usize = 16;

/// The time between two looks at whether there may be more connections again.
const RECHECK_PAUSE: Duration = Duration::from_millis(20);

/// The time that the end of connections is waited for when the program has ended.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Messages of an agent.
const FAILURE: u8 = 5;
const SUCCESS: u8 = 6;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_RESPONSE: u8 = 14;

/// The user's agent, and what may be signed by it.
#[derive(Debug)]
pub struct SshAgentRules {
    /// The socket of the user's agent.
    pub socket: PathBuf,
    /// The hosts that may be reached.
    pub hosts: HostRules,
    /// The hosts whose keys are known.
    pub known: KnownHosts,
    /// The program that asks for each signature, where the user wants to be asked.
    pub confirmation: Option<Confirmation>,
    /// The name of the program, for the question.
    pub program: String,
}

/// Answers at a socket by these rules. On the host nothing leads to it from now on: it is to be shown in a sandbox before.
///
/// # Errors
/// No thread can be started, or no pipe made.
pub fn serve(
    socket: &SandboxSocket,
    rules: Arc<SshAgentRules>,
    observer: SignatureObserver,
) -> std::io::Result<SshAgentProxy> {
    let listener = socket.take_listener()?;
    let log = Arc::new(SignatureLog::new(observer));
    let (stop, stopping) = pipe_with(PipeFlags::CLOEXEC)?;
    let (alive, ended) = mpsc::channel();
    let server = SshAgentServer {
        rules,
        log: log.clone(),
        listener,
        stop: StopSignal(Arc::new(stop)),
        count: Arc::new(AtomicUsize::new(0)),
        alive,
    };
    let thread = std::thread::Builder::new()
        .name("ssh-agent".to_owned())
        .spawn(move || server.accept())?;
    Ok(SshAgentProxy {
        log,
        stopping: Some(stopping),
        thread: Some(thread),
        ended,
    })
}

/// The threads that answer for a user's agent. Dropping it ends all connections.
#[derive(Debug)]
pub struct SshAgentProxy {
    log: Arc<SignatureLog>,
    stopping: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Ends when every connection has.
    ended: Receiver<()>,
}

impl SshAgentProxy {
    /// Ends all connections, and returns the refusals in words, each once.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        self.stop();
        self.log.refusals()
    }

    fn stop(&mut self) {
        drop(self.stopping.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = self.ended.recv_timeout(END_LIMIT);
        }
    }
}

impl Drop for SshAgentProxy {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The state that all connections have in common.
struct SshAgentServer {
    rules: Arc<SshAgentRules>,
    log: Arc<SignatureLog>,
    listener: UnixListener,
    stop: StopSignal,
    count: Arc<AtomicUsize>,
    alive: Sender<()>,
}

impl SshAgentServer {
    fn accept(self) {
        loop {
            let is_full = self.count.load(Ordering::Acquire) >= MAX_CONNECTIONS;
            let until = is_full.then(|| Instant::now() + RECHECK_PAUSE);
            let listener: (&dyn AsFd, PollFlags) = (&self.listener, PollFlags::IN);
            let waited = match is_full {
                true => self.stop.wait(&[], until),
                false => self.stop.wait(&[listener], until),
            };
            match waited {
                WaitOutcome::Stopped => return,
                WaitOutcome::Late => {}
                WaitOutcome::Ready(_) => match self.listener.accept() {
                    Ok((stream, _)) => self.spawn(stream),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => std::thread::sleep(RECHECK_PAUSE),
                },
            }
        }
    }

    fn spawn(&self, client: UnixStream) {
        if client.set_nonblocking(true).is_err() {
            return;
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        let connection = AgentConnection {
            rules: self.rules.clone(),
            log: self.log.clone(),
            stop: self.stop.clone(),
            _count: ConnectionCount(self.count.clone()),
            _alive: self.alive.clone(),
        };
        let _ = std::thread::Builder::new()
            .name("ssh-agent".to_owned())
            .spawn(move || connection.serve(client));
    }
}

/// A count of one open connection, taken back when it is dropped.
struct ConnectionCount(Arc<AtomicUsize>);

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection of a program.
struct AgentConnection {
    rules: Arc<SshAgentRules>,
    log: Arc<SignatureLog>,
    stop: StopSignal,
    _count: ConnectionCount,
    _alive: Sender<()>,
}

impl AgentConnection {
    fn serve(&self, mut client: UnixStream) {
        let mut session = AgentSession::new(&self.rules.hosts, &self.rules.known);
        let mut users: Option<UnixStream> = None;
        while let Some(message) = self.receive(&mut client) {
            let answer = match session.decide(&message) {
                AgentDecision::Refuse(refusal) => {
                    self.log.add(&SignatureRecord::refused(refusal));
                    None
                }
                AgentDecision::Bind => self.bind(&mut users, &message),
                AgentDecision::List => self.exchange(&mut users, &message, IDENTITIES_ANSWER),
                AgentDecision::Sign(request) => {
                    let mut record = SignatureRecord::allowed(&request);
                    let ask = |confirmation: &Confirmation| {
                        confirmation.ask(&request, &self.rules.program, &self.stop)
                    };
                    if self.rules.confirmation.as_ref().is_none_or(ask) {
                        let signed = self.exchange(&mut users, &message, SIGN_RESPONSE);
                        if signed.is_none() {
                            record.reason = Some("the user's agent did not sign".to_owned());
                        }
                        self.log.add(&record);
                        signed
                    } else {
                        self.log.add(&record.denied("the user has not allowed it"));
                        None
                    }
                }
            };
            let answer = answer.unwrap_or_else(|| vec![FAILURE]);
            if self.send(&mut client, &answer).is_none() {
                return;
            }
        }
    }

    /// Connects to the user's agent, and tells it of the session. One that knows no sessions says no, and has no keys
    /// that are for some destinations only.
    fn bind(&self, users: &mut Option<UnixStream>, message: &[u8]) -> Option<Vec<u8>> {
        if users.is_none() {
            let stream = UnixStream::connect(&self.rules.socket).ok()?;
            stream.set_nonblocking(true).ok()?;
            *users = Some(stream);
        }
        let stream = users.as_mut()?;
        self.send(stream, message)?;
        self.receive(stream)?;
        Some(vec![SUCCESS])
    }

    /// Has the user's agent answer. An answer of another kind than `wanted` is none.
    fn exchange(
        &self,
        users: &mut Option<UnixStream>,
        message: &[u8],
        wanted: u8,
    ) -> Option<Vec<u8>> {
        let stream = users.as_mut()?;
        self.send(stream, message)?;
        let answer = self.receive(stream)?;
        (answer.first() == Some(&wanted)).then_some(answer)
    }

    /// Receives a message, without its length; nothing where the other end is gone, says what is no message, or the proxy
    /// ends.
    fn receive(&self, stream: &mut UnixStream) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        self.fill(stream, &mut len)?;
        let len = usize::try_from(u32::from_be_bytes(len)).ok()?;
        if len == 0 || len > MAX_MESSAGE_BYTES {
            return None;
        }
        let mut message = vec![0; len];
        self.fill(stream, &mut message)?;
        Some(message)
    }

    fn fill(&self, stream: &mut UnixStream, mut rest: &mut [u8]) -> Option<()> {
        while !rest.is_empty() {
            match stream.read(rest) {
                Ok(0) => return None,
                Ok(len) => rest = rest.get_mut(len..)?,
                Err(error) => self.wait(stream, PollFlags::IN, &error)?,
            }
        }
        Some(())
    }

    fn send(&self, stream: &mut UnixStream, message: &[u8]) -> Option<()> {
        let len = u32::try_from(message.len()).ok()?;
        let bytes = [&len.to_be_bytes(), message].concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(len) => rest = rest.get(len..)?,
                Err(error) => self.wait(stream, PollFlags::OUT, &error)?,
            }
        }
        Some(())
    }

    /// Waits where a call would have; nothing for other errors, and once the proxy ends.
    fn wait(&self, stream: &UnixStream, flags: PollFlags, error: &std::io::Error) -> Option<()> {
        match error.kind() {
            std::io::ErrorKind::Interrupted => Some(()),
            std::io::ErrorKind::WouldBlock => {
                let waited = self.stop.wait(&[(stream, flags)], None);
                matches!(waited, WaitOutcome::Ready(_)).then_some(())
            }
            _ => None,
        }
    }
}
