//! Standard input and output as the SDK's transport: a message a line.
//!
//! Owns the bounds of a message: its length, and how deep it is nested (the parser's 128); `admission` has those of all
//! requests together. They are there for a client's mistakes: it is whoever started the server. Whatever is wrong with a
//! line, it is answered with an error, which has the request's id where that can be read ([`IdScanner`]), and the next line
//! counts. The SDK's own transport answers no such line (docs/decisions/0067).
//! This server asks a client nothing, so answers mean nothing and are dropped; so are notifications before a client has
//! opened anything.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};

use super::admission::RequestAdmission;
use super::id_scanner::IdScanner;
use super::writer::{OutgoingMessage, UnreadOutput, write_all};
use crate::error::{Error, Result};

/// The largest length of a message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// The largest number of messages that wait on their way in, and on their way out.
const MAX_WAITING: usize = 64;
/// The interval at which the server checks whether a client that sends nothing more still listens.
const LISTEN_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that the client has to read the last messages.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);
/// The longest time that a client that sends nothing more may read nothing.
const UNREAD_LIMIT: Duration = Duration::from_secs(10);

/// Ends a server from outside. Clones end together.
#[derive(Debug, Clone, Default)]
pub struct ServerEnd(Arc<watch::Sender<bool>>);

impl ServerEnd {
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

/// A client at standard input and output.
pub(super) struct StdioTransport {
    incoming: Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: Sender<OutgoingMessage>,
    admission: RequestAdmission,
    end: ServerEnd,
}

impl StdioTransport {
    /// Begins to read and to write.
    ///
    /// # Errors
    /// That there are no more threads.
    pub(super) fn start(admission: RequestAdmission, end: ServerEnd) -> Result<StdioTransport> {
        let (to_server, incoming) = mpsc::channel(MAX_WAITING);
        let (outgoing, from_server) = mpsc::channel(MAX_WAITING);
        let reading = MessageReader {
            to_server,
            answers: outgoing.clone(),
            admission: admission.clone(),
            is_opened: false,
        };
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let failed = |error: io::Error| Error::io("clone", &error);
        spawn("mcp-read")
            .spawn(|| reading.read_all())
            .map_err(failed)?;
        let (over, unread) = (end.clone(), UnreadOutput::default());
        let written = unread.clone();
        spawn("mcp-write")
            .spawn(move || {
                // Nobody reads any more.
                if write_all(from_server, &written).is_err() {
                    over.end();
                }
            })
            .map_err(failed)?;
        tokio::spawn(end_where_nobody_is_there(unread, end.clone()));
        Ok(StdioTransport {
            incoming,
            outgoing,
            admission,
            end,
        })
    }
}

/// Ends the server once a client that says nothing more has read nothing for a while: it would be served for ever.
async fn end_where_nobody_is_there(unread: UnreadOutput, end: ServerEnd) {
    let is_silent = || {
        let stdin = io::stdin();
        let silent = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        ready(&stdin, PollFlags::RDHUP).intersects(silent)
    };
    loop {
        tokio::time::sleep(UNREAD_LIMIT / 10).await;
        if unread.lasts().is_some_and(|lasts| lasts >= UNREAD_LIMIT) && is_silent() {
            return end.end();
        }
    }
}

/// The reading end.
struct MessageReader {
    to_server: Sender<RxJsonRpcMessage<RoleServer>>,
    answers: Sender<OutgoingMessage>,
    admission: RequestAdmission,
    /// True if the client has made a request that can open the protocol.
    is_opened: bool,
}

impl MessageReader {
    fn read_all(mut self) {
        let mut input = BufReader::with_capacity(64 << 10, io::stdin());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = input
                .by_ref()
                .take(MAX_MESSAGE_BYTES + 1)
                .read_until(b'\n', &mut line);
            match read {
                Ok(0) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let is_whole = line.last() == Some(&b'\n');
            if !is_whole && line.len() as u64 > MAX_MESSAGE_BYTES {
                let mut scanner = IdScanner::new();
                scanner.read(&line);
                if skip_line(&mut input, &mut scanner).is_err() {
                    return;
                }
                let what = format!("the message is longer than {} MiB", MAX_MESSAGE_BYTES >> 20);
                self.refuse(ErrorData::invalid_request(what, None), scanner.finish());
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
                self.refuse(ErrorData::parse_error(what, None), scanned_id(line));
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
                if let Err(error) = self.admission.admit(&request.id, line.len()) {
                    self.refuse(error, Some(request.id.clone()));
                    return true;
                }
                self.is_opened = true;
            }
            JsonRpcMessage::Notification(_) if self.is_opened => {}
            _ => return true,
        }
        self.to_server.blocking_send(message).is_ok()
    }

    /// Answers what cannot be handed on.
    fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        let answer = TxJsonRpcMessage::<RoleServer>::error(error, id);
        if let Ok(answer) = serde_json::to_vec(&answer) {
            let _ = self.answers.blocking_send(OutgoingMessage::Message(answer));
        }
    }
}

fn id_of(message: &Value) -> Option<RequestId> {
    serde_json::from_value(message.get("id")?.clone()).ok()
}

/// Returns the id of a request that is not parsed.
fn scanned_id(line: &[u8]) -> Option<RequestId> {
    let mut scanner = IdScanner::new();
    scanner.read(line);
    scanner.finish()
}

/// Goes past the rest of a line, which the scanner sees.
fn skip_line(input: &mut impl BufRead, scanner: &mut IdScanner) -> io::Result<()> {
    loop {
        let rest = input.fill_buf()?;
        let (length, is_end) = match memchr::memchr(b'\n', rest) {
            Some(at) => (at + 1, true),
            None => (rest.len(), rest.is_empty()),
        };
        scanner.read(rest.get(..length).unwrap_or_default());
        input.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

/// Returns what there is to know of a stream now.
fn ready(stream: &impl AsFd, flags: PollFlags) -> PollFlags {
    let mut polled = [PollFd::new(stream, flags)];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _ = poll(&mut polled, Some(&now));
    let [polled] = polled;
    polled.revents()
}

/// Returns whether nobody reads standard output any more.
fn is_deaf() -> bool {
    !ready(&io::stdout(), PollFlags::empty()).is_empty()
}

impl Transport<RoleServer> for StdioTransport {
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
        let (outgoing, admission) = (self.outgoing.clone(), self.admission.clone());
        async move {
            let message = serde_json::to_vec(&message).map_err(io::Error::other);
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            let sent = match message {
                Ok(message) => {
                    let message = OutgoingMessage::Message(message);
                    outgoing.send(message).await.map_err(gone)
                }
                Err(error) => Err(error),
            };
            if let Some(id) = id {
                admission.close(&id);
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
                    forget_cancelled(&message, &self.admission);
                    return Some(message);
                }
                None if self.admission.is_idle() => return None,
                None if is_deaf() => self.end.end(),
                None => tokio::time::sleep(LISTEN_INTERVAL).await,
            }
        }
    }

    /// Waits until what was sent has been written, as long as somebody reads it.
    async fn close(&mut self) -> io::Result<()> {
        let (done, is_done) = oneshot::channel();
        let flush = async {
            if self
                .outgoing
                .send(OutgoingMessage::Flush(done))
                .await
                .is_ok()
            {
                let _ = is_done.await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_LIMIT, flush).await;
        Ok(())
    }
}

/// A request that the client takes back gets no answer. What works for it counts until it has ended.
fn forget_cancelled(message: &RxJsonRpcMessage<RoleServer>, admission: &RequestAdmission) {
    use rmcp::model::ClientNotification::CancelledNotification;
    let JsonRpcMessage::Notification(notification) = message else {
        return;
    };
    if let CancelledNotification(cancelled) = &notification.notification
        && let Some(id) = &cancelled.params.request_id
    {
        admission.close(id);
    }
}
