//! Standard input and output as the SDK's transport: a message a line.
//!
//! Owns the bounds of what a client may send: the length of a message, how deep it is nested (the parser's 128), how many
//! requests are answered at once. Whatever is wrong with a line, it is answered with an error, and the next line counts.
//! Before a client has opened anything, notifications and answers mean nothing and are dropped.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};

use crate::error::{Error, Result};

/// How long a message may be, in bytes.
pub(super) const LONGEST: u64 = 16 << 20;
/// How many requests may be open at once.
pub(super) const AT_ONCE: usize = 128;
/// How many messages wait on their way in or out.
const WAITING: usize = 64;
/// How often it is looked whether a client that says nothing more still listens.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last messages may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The code of an error that is the server's own: too much at once (JSON-RPC 2.0, 5.1).
const BUSY: ErrorCode = ErrorCode(-32000);

/// Ends a server from outside. Clones end together.
#[derive(Debug, Clone, Default)]
pub struct End(Arc<watch::Sender<bool>>);

impl End {
    /// Ends the server: what runs is ended, too.
    pub fn end(&self) {
        self.0.send_replace(true);
    }

    /// Waits for it.
    pub(super) async fn comes(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|ended| *ended).await;
    }
}

/// What goes to standard output.
enum Outgoing {
    /// A message.
    Message(Vec<u8>),
    /// Nothing: somebody wants to know that everything before has been written.
    Flush(oneshot::Sender<()>),
}

/// The ids of the requests that are open.
type Open = Arc<Mutex<HashSet<RequestId>>>;

/// A client at standard input and output.
pub(super) struct Stdio {
    incoming: Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: Sender<Outgoing>,
    open: Open,
    end: End,
}

impl Stdio {
    /// Begins to read and to write.
    ///
    /// # Errors
    /// That there are no more threads.
    pub(super) fn start(end: End) -> Result<Stdio> {
        let (to_server, incoming) = mpsc::channel(WAITING);
        let (outgoing, from_server) = mpsc::channel(WAITING);
        let open = Open::default();
        let reading = Reading {
            to_server,
            answers: outgoing.clone(),
            open: open.clone(),
            is_opened: false,
        };
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let failed = |error: io::Error| Error::io("clone", &error);
        spawn("mcp-read")
            .spawn(|| reading.read_all())
            .map_err(failed)?;
        let over = end.clone();
        spawn("mcp-write")
            .spawn(|| write_all(from_server, over))
            .map_err(failed)?;
        Ok(Stdio {
            incoming,
            outgoing,
            open,
            end,
        })
    }
}

/// Writes messages until there are no more senders. Where nobody reads them any more, the server ends.
fn write_all(mut messages: Receiver<Outgoing>, end: End) {
    while let Some(outgoing) = messages.blocking_recv() {
        let mut message = match outgoing {
            Outgoing::Message(message) => message,
            Outgoing::Flush(done) => {
                // Who asked may not wait any more.
                let _ = done.send(());
                continue;
            }
        };
        message.push(b'\n');
        let mut out = io::stdout().lock();
        if out.write_all(&message).and_then(|()| out.flush()).is_err() {
            end.end();
            return;
        }
    }
}

/// The reading end.
struct Reading {
    to_server: Sender<RxJsonRpcMessage<RoleServer>>,
    answers: Sender<Outgoing>,
    open: Open,
    /// Whether the client has made a request that can open the protocol.
    is_opened: bool,
}

impl Reading {
    fn read_all(mut self) {
        let mut input = BufReader::with_capacity(64 << 10, io::stdin());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = input
                .by_ref()
                .take(LONGEST + 1)
                .read_until(b'\n', &mut line);
            match read {
                Ok(0) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let is_whole = line.last() == Some(&b'\n');
            if !is_whole && line.len() as u64 > LONGEST {
                if skip_line(&mut input).is_err() {
                    return;
                }
                let what = format!("the message is longer than {} MiB", LONGEST >> 20);
                self.refuse(ErrorData::new(ErrorCode::INVALID_REQUEST, what, None), None);
                continue;
            }
            if !self.take(line.trim_ascii()) {
                return;
            }
        }
    }

    /// Takes a line. Returns whether there is still somebody to hand messages to.
    fn take(&mut self, line: &[u8]) -> bool {
        if line.is_empty() {
            return true;
        }
        let message = match serde_json::from_slice::<Value>(line) {
            Ok(value) => value,
            Err(error) => {
                let what = format!("no JSON: {error}");
                self.refuse(ErrorData::parse_error(what, None), None);
                return true;
            }
        };
        let id = id_of(&message);
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        if is_request && id.is_none() {
            let what = "the id of a request is a text or a whole number";
            self.refuse(ErrorData::invalid_request(what, None), None);
            return true;
        }
        let message: RxJsonRpcMessage<RoleServer> = match serde_json::from_value(message) {
            Ok(message) => message,
            Err(_) => {
                let what = "no message of JSON-RPC 2.0: one object with jsonrpc, method, and id for a request";
                self.refuse(ErrorData::invalid_request(what, None), id);
                return true;
            }
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                if let Err(error) = self.admit(&request.id) {
                    self.refuse(error, Some(request.id.clone()));
                    return true;
                }
                self.is_opened = true;
            }
            _ if !self.is_opened => return true,
            _ => {}
        }
        self.to_server.blocking_send(message).is_ok()
    }

    /// Notes that a request is open.
    fn admit(&self, id: &RequestId) -> std::result::Result<(), ErrorData> {
        let mut open = self.open.lock();
        if open.contains(id) {
            let what = format!("a request with the id {id} is open already");
            return Err(ErrorData::invalid_request(what, None));
        }
        if open.len() >= AT_ONCE {
            let what = format!("{AT_ONCE} requests are open already: wait for an answer");
            return Err(ErrorData::new(BUSY, what, None));
        }
        open.insert(id.clone());
        Ok(())
    }

    /// Answers what cannot be handed on.
    fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(error, id);
        if let Ok(answer) = serde_json::to_vec(&answer) {
            let _ = self.answers.blocking_send(Outgoing::Message(answer));
        }
    }
}

fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

/// Goes past the rest of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let rest = input.fill_buf()?;
        let (length, is_end) = match memchr::memchr(b'\n', rest) {
            Some(at) => (at + 1, true),
            None => (rest.len(), rest.is_empty()),
        };
        input.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

/// Returns whether nobody reads standard output any more.
fn is_deaf() -> bool {
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (outgoing, open) = (self.outgoing.clone(), self.open.clone());
        async move {
            let message = serde_json::to_vec(&message).map_err(io::Error::other);
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            let sent = match message {
                Ok(message) => {
                    let message = Outgoing::Message(message);
                    outgoing.send(message).await.map_err(gone)
                }
                Err(error) => Err(error),
            };
            if let Some(id) = id {
                open.lock().remove(&id);
            }
            sent
        }
    }

    /// Returns the next message. When the client says nothing more, what is open is still answered, as long as somebody
    /// reads the answers.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let next = tokio::select! {
                () = self.end.comes() => return None,
                next = self.incoming.recv() => next,
            };
            match next {
                Some(message) => {
                    forget_cancelled(&message, &self.open);
                    return Some(message);
                }
                None if self.open.lock().is_empty() => return None,
                None if is_deaf() => self.end.end(),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Waits until what was sent has been written, as long as somebody reads it.
    async fn close(&mut self) -> io::Result<()> {
        let (done, is_done) = oneshot::channel();
        let flush = async {
            if self.outgoing.send(Outgoing::Flush(done)).await.is_ok() {
                let _ = is_done.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, flush).await;
        Ok(())
    }
}

/// A request that the client takes back gets no answer: it is not open any more.
fn forget_cancelled(message: &RxJsonRpcMessage<RoleServer>, open: &Open) {
    use rmcp::model::ClientNotification::CancelledNotification;
    let JsonRpcMessage::Notification(notification) = message else {
        return;
    };
    if let CancelledNotification(cancelled) = &notification.notification
        && let Some(id) = &cancelled.params.request_id
    {
        open.lock().remove(id);
    }
}
