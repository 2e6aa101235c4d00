//! A request and its answer, carried both ways at once as they come: nothing is held but what one read brings.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::super::body_scanner::BodyScanner;
use super::super::http::BodyLength;
use super::super::relay::{BUFFER_BYTES, ByteCounts, IDLE_LIMIT, nonblocking};
use super::super::stop_signal::{StopSignal, WaitOutcome};
use super::SecretValue;
use super::answer::AnswerReader;
use super::echo_scanner::EchoScanner;
use super::tls::{TlsConnection, TlsRead};

/// The end of an exchange.
pub(super) struct ExchangeEnd {
    /// The bytes of bodies and heads, as the program sees them.
    pub(super) counts: ByteCounts,
    /// The status of the answer, if one came.
    pub(super) status: Option<u16>,
    /// The reason why there is no whole answer.
    pub(super) failure: Option<ExchangeFailure>,
}

/// The reason why an exchange has ended early.
pub(super) enum ExchangeFailure {
    /// The request is at fault.
    Request(&'static str),
    /// The server or the way to it.
    Server(String),
    /// The program is gone, or its network.
    Program(&'static str),
}

/// A request that is being carried.
pub(super) struct SecretExchange<'a> {
    client: &'a TcpStream,
    server: TlsConnection,
    /// The bytes of the body that the server has not got yet.
    up: Vec<u8>,
    body: BodyScanner,
    /// The bytes of the answer that the program has not got yet.
    down: Vec<u8>,
    answer: AnswerReader,
    echoes: EchoScanner<'a>,
    counts: ByteCounts,
}

impl<'a> SecretExchange<'a> {
    /// Begins one, of whose body some may have come.
    pub(super) fn new(
        client: &'a TcpStream,
        server: TlsConnection,
        value: &'a SecretValue,
        framing: BodyLength,
        is_head_only: bool,
    ) -> SecretExchange<'a> {
        SecretExchange {
            client,
            server,
            up: Vec::new(),
            body: BodyScanner::without_trailers(framing),
            down: Vec::new(),
            answer: AnswerReader::new(is_head_only),
            echoes: EchoScanner::new(value),
            counts: ByteCounts::default(),
        }
    }

    /// Carries it to its end. `head` goes first; `body` has come with it.
    pub(super) fn carry(mut self, head: &[u8], body: &[u8], stop: &StopSignal) -> ExchangeEnd {
        let begun = self.begin(head, body);
        let failure = begun.and_then(|()| self.go_on(stop)).err();
        self.server.close();
        ExchangeEnd {
            counts: self.counts,
            status: self.answer.status,
            failure,
        }
    }

    fn begin(&mut self, head: &[u8], body: &[u8]) -> Result<(), ExchangeFailure> {
        // There is room: nothing else was written.
        match self.server.write(head) {
            Ok(len) if len == head.len() => {}
            Ok(_) => return Err(server_failure(&"the request is too long")),
            Err(error) => return Err(server_failure(&error)),
        }
        self.take_body(body.to_vec())?;
        self.client
            .set_nonblocking(true)
            .map_err(|_| ExchangeFailure::Program("its connection is broken"))
    }

    /// Takes what came from the program: what is behind the body is nobody's.
    fn take_body(&mut self, mut bytes: Vec<u8>) -> Result<(), ExchangeFailure> {
        let len = self.body.count_body_bytes(&bytes);
        if self.body.is_broken() {
            return Err(ExchangeFailure::Request(
                "the body of the request is not clear",
            ));
        }
        bytes.truncate(len);
        self.up = bytes;
        Ok(())
    }

    fn go_on(&mut self, stop: &StopSignal) -> Result<(), ExchangeFailure> {
        loop {
            self.send_up()?;
            self.pass_down()?;
            if self.answer.is_complete() && self.down.is_empty() {
                return Ok(());
            }
            let of_client = self.client_flags();
            let of_server = self.server.flags(self.down.is_empty());
            let mut fds: Vec<(&dyn AsFd, PollFlags)> = vec![(self.client, of_client)];
            // A server that has ended is ready all the time, also where nothing is wanted from it.
            if !of_server.is_empty() {
                fds.push((&self.server.socket, of_server));
            }
            match stop.wait(&fds, Some(Instant::now() + IDLE_LIMIT)) {
                WaitOutcome::Ready(ready) => {
                    if of_client == PollFlags::RDHUP && ready.first() == Some(&true) {
                        return Err(ExchangeFailure::Program("it has left"));
                    }
                    if of_client.contains(PollFlags::IN) && ready.first() == Some(&true) {
                        self.take_up()?;
                    }
                }
                WaitOutcome::Late => {
                    let minutes = IDLE_LIMIT.as_secs() / 60;
                    let why = format!("nothing came for {minutes} minutes");
                    return Err(ExchangeFailure::Server(why));
                }
                WaitOutcome::Stopped => return Err(ExchangeFailure::Program("it has ended")),
            }
        }
    }

    fn client_flags(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.up.is_empty() && !self.body.is_over());
        flags.set(PollFlags::OUT, !self.down.is_empty());
        if flags.is_empty() {
            // A program that ends its side has left: its model need not go on.
            flags = PollFlags::RDHUP;
        }
        flags
    }

    /// Reads some of the body from the program.
    fn take_up(&mut self) -> Result<(), ExchangeFailure> {
        let mut bytes = vec![0; BUFFER_BYTES];
        let gone = |_| ExchangeFailure::Program("its connection is broken");
        match nonblocking(self.client.read(&mut bytes)).map_err(gone)? {
            None => Ok(()),
            Some(0) => Err(ExchangeFailure::Program(
                "it has ended its request in the middle",
            )),
            Some(len) => {
                bytes.truncate(len);
                self.take_body(bytes)
            }
        }
    }

    /// Sends what there is of the body to the server, as far as that takes it.
    fn send_up(&mut self) -> Result<(), ExchangeFailure> {
        loop {
            if !self.up.is_empty() {
                let len = self
                    .server
                    .write(&self.up)
                    .map_err(|error| server_failure(&error))?;
                self.counts.sent += len as u64;
                self.up.drain(..len);
            }
            // A server that answers early reads no more; its answer is what counts then.
            if let Err(error) = self.server.flush() {
                self.take_down()?;
                return if self.answer.status.is_some() {
                    self.up.clear();
                    Ok(())
                } else {
                    Err(server_failure(&error))
                };
            }
            if self.up.is_empty() || self.server.flags(false).contains(PollFlags::OUT) {
                return Ok(());
            }
        }
    }

    /// Passes on what came of the answer, until nothing more has come or the program takes no more: what TLS has read
    /// ahead wakes nobody.
    fn pass_down(&mut self) -> Result<(), ExchangeFailure> {
        loop {
            self.take_down()?;
            let has_come = !self.down.is_empty();
            self.send_down()?;
            if !has_come || !self.down.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes what came of the answer, once the program has what came before.
    fn take_down(&mut self) -> Result<(), ExchangeFailure> {
        /// As much as TLS puts into one message.
        const MESSAGE_BYTES: usize = 16 << 10;
        let mut bytes = [0; MESSAGE_BYTES];
        while self.down.is_empty() && !self.answer.is_complete() {
            let read = self
                .server
                .read(&mut bytes)
                .map_err(|error| server_failure(&error))?;
            let mut passed = Vec::new();
            match read {
                TlsRead::Nothing => return Ok(()),
                TlsRead::Bytes(len) => {
                    let came = bytes.get(..len).unwrap_or_default();
                    let pushed = self.answer.push(came, &mut passed);
                    pushed.map_err(|why| server_failure(&why))?;
                }
                TlsRead::End if self.answer.ends_here() => self.answer.end(),
                TlsRead::End | TlsRead::Cut => {
                    return Err(server_failure(&"it ended before its answer did"));
                }
            }
            let echoed = "its answer has the secret in it, so it was cut";
            let clean = self.echoes.pass(&passed, &mut self.down);
            clean.map_err(|_| server_failure(&echoed))?;
            if self.answer.is_complete() {
                self.echoes.finish(&mut self.down);
            }
        }
        Ok(())
    }

    /// Gives the program what there is, as far as it takes it.
    fn send_down(&mut self) -> Result<(), ExchangeFailure> {
        let gone = |_| ExchangeFailure::Program("it has left");
        while !self.down.is_empty() {
            match nonblocking(self.client.write(&self.down)).map_err(gone)? {
                None => return Ok(()),
                Some(len) => {
                    self.counts.received += len as u64;
                    self.down.drain(..len);
                }
            }
        }
        Ok(())
    }
}

fn server_failure(why: &dyn std::fmt::Display) -> ExchangeFailure {
    ExchangeFailure::Server(why.to_string())
}

/// Has the end of a connection be an error for whoever reads it: what came is not all.
pub(super) fn reset(client: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO));
}
