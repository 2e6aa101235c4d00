//! [`AnswerServer`]: the socket at which the user asks and answers about a running agent's hosts.
//!
//! Threads: one that accepts, one for each connection, of which there are only so many.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::Value;

use super::agent_watch::WatchState;
use crate::client::{
    AgentListener, AgentReply, AgentRequest, expect_user, read_request, send_reply,
};
use crate::error::{Error, Result};

/// The most connections at once.
const MAX_CONNECTIONS: usize = 32;

/// The time between two looks at whether a watcher is still there.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time that the end of connections is waited for.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The threads that answer. Dropping it ends them.
#[derive(Debug)]
pub(super) struct AnswerServer {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Ends when every connection has.
    ended: Receiver<()>,
}

impl AnswerServer {
    /// Begins to answer.
    ///
    /// # Errors
    /// No thread can be started, or no pipe made.
    pub(super) fn start(listener: AgentListener, state: Arc<WatchState>) -> Result<AnswerServer> {
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe2"))?;
        let (alive, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("answers".to_owned());
        let thread = thread.spawn(move || accept(&listener, &stopped, &state, &alive));
        Ok(AnswerServer {
            stop: Some(stop),
            thread: Some(thread.map_err(|error| Error::io("clone", &error))?),
            ended,
        })
    }
}

impl Drop for AnswerServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            let _ = self.ended.recv_timeout(END_LIMIT);
        }
    }
}

fn accept(
    listener: &AgentListener,
    stopped: &OwnedFd,
    state: &Arc<WatchState>,
    alive: &Sender<()>,
) {
    let count = Arc::new(());
    while let Some(stream) = listener.accept(stopped) {
        if Arc::strong_count(&count) > MAX_CONNECTIONS {
            let full = Error::refused("too many commands ask this agent already", "End some.");
            let _ = send_reply(&stream, &full.into());
            continue;
        }
        let (state, guard) = (state.clone(), (count.clone(), alive.clone()));
        // A thread that cannot be started drops the connection.
        let _ = std::thread::Builder::new()
            .name("answer".to_owned())
            .spawn(move || {
                if let Err(error) = serve(&stream, &state) {
                    let _ = send_reply(&stream, &error.into());
                }
                drop(guard);
            });
    }
}

/// Carries out the request of one connection.
fn serve(stream: &UnixStream, state: &WatchState) -> Result<()> {
    // Read by then, as a connection that is closed with something unread takes the reply along.
    let request = read_request(stream);
    let by = expect_user(stream)?;
    match request? {
        AgentRequest::Answer(request) => {
            let (held, notes) = state.answer(&request, by)?;
            send_reply(stream, &AgentReply::Done { held, notes })
        }
        AgentRequest::Asks => send_reply(stream, &AgentReply::Asks(state.summary())),
        AgentRequest::Follow => follow(stream, state),
    }
}

/// Sends what happens, until the agent ends or the watcher goes away.
fn follow(stream: &UnixStream, state: &WatchState) -> Result<()> {
    let events = state.answers.watch();
    let mut summary = state.summary();
    // They come as events.
    if let Some(fields) = summary.as_object_mut() {
        fields.remove("asks");
    }
    send_reply(stream, &AgentReply::Asks(summary))?;
    loop {
        match events.recv_timeout(RECHECK_INTERVAL) {
            Ok(event) => {
                let mut event = serde_json::to_value(&event).unwrap_or_default();
                if let Some(fields) = event.as_object_mut() {
                    fields.insert("run".to_owned(), Value::String(state.run.to_string()));
                }
                send_reply(stream, &AgentReply::Event(event))?;
            }
            Err(RecvTimeoutError::Timeout) if has_left(stream) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn has_left(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::RDHUP)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
