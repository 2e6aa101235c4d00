//! A connection of a program, from what it asks for to its end.
//!
//! There are four ways of asking: a request to HTTP's proxy, CONNECT there, SOCKS, and a connection to an address that
//! means a host ([`ConnectionGate::host_at`]). All lead to the same decision ([`ConnectionGate::permit`]), and then to
//! the same look at what is said on the two ports where a connection can name another host than the decided one.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Instant;

use super::answers::AskingConnection;
use super::body_scanner::BodyScanner;
use super::client_hello::{self, ClientHello};
use super::gate::{ConnectFailure, ConnectionGate, HostPermit};
use super::http::{self, RequestHead};
use super::log::{ConnectionRecord, new_record, refusal};
use super::program_connection::ProgramConnection;
use super::relay::relay;
use super::secret::serve_secret;
use super::socks::{self, SocksMessage, SocksReply};
use super::ssh;
use super::stop_signal::StopSignal;
use trumanfs_policy::network::Host;
use trumanfs_policy::network::HostDenial;
use trumanfs_policy::network::{DNS, PROXY, SOCKS};

/// The form in which a program learns that it does not reach what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalFormat {
    Http,
    Socks,
    /// As the protocol would say it that usually goes to the port.
    OfPort(u16),
}

/// Serves one connection.
pub(super) fn serve(gate: &ConnectionGate, stream: TcpStream, stop: &StopSignal) {
    let Ok(SocketAddr::V4(meant)) = stream.local_addr() else {
        return;
    };
    let client = ProgramConnection::new(stream, stop);
    if meant.ip().is_loopback()
        && let Some((route, tls)) = gate.secret_at(meant.port())
    {
        return serve_secret(gate, client, route, tls);
    }
    match (meant.ip().is_loopback(), meant.port()) {
        (true, PROXY) => serve_proxy(gate, client),
        (true, SOCKS) => by_socks(gate, client),
        (true, port) if gate.host_ports.contains(&port) => host_port(gate, client, port),
        (_, DNS) => serve_names(gate, client),
        (_, port) => {
            let host = gate.host_at(*meant.ip());
            let mut way = ProxiedConnection::new(gate, client, "captured", host, port);
            if let Some((permit, server)) = way.reach(RefusalFormat::OfPort(port)) {
                way.relay_checked(&permit, server);
            }
        }
    }
}

/// Answers questions of the DNS that come by TCP, each with its length before it.
fn serve_names(gate: &ConnectionGate, mut client: ProgramConnection<'_>) {
    /// The most questions that a connection may have.
    const MAX_QUESTIONS: usize = 1000;
    for _ in 0..MAX_QUESTIONS {
        let question = client.read_until(|bytes| {
            let (len, rest) = bytes.split_at_checked(2)?;
            let len = len
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte));
            rest.get(..len).map(<[u8]>::to_vec)
        });
        let Some(question) = question else { return };
        client.take_bytes(2 + question.len());
        let Some(answer) = gate.answer(&question) else {
            return;
        };
        let len = u16::try_from(answer.len()).unwrap_or(0).to_be_bytes();
        client.send(&[&len, &answer[..]].concat());
    }
}

/// Connects to a service of the host's loopback.
fn host_port(gate: &ConnectionGate, client: ProgramConnection<'_>, port: u16) {
    let host = Host::Address(Ipv4Addr::LOCALHOST.into());
    let mut way = ProxiedConnection::new(gate, client, "host_ports", host, port);
    way.line.rule = format!("network.host_ports: {port}");
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        Ok(server) => way.relay(&server, Vec::new(), None),
        Err(error) => way.line.reason = Some(format!("no connection to it on the host: {error}")),
    }
}

/// Serves as HTTP's proxy.
fn serve_proxy(gate: &ConnectionGate, mut client: ProgramConnection<'_>) {
    let read = client.read_until(|bytes| match http::read(bytes) {
        Ok(None) => None,
        Ok(Some(head)) => Some(Ok((requested_target(&head), head.len))),
        Err(why) => Some(Err(why)),
    });
    let Some(read) = read else { return };
    let ((split_authority, usual, path), len) = match read {
        Ok((Some(asked), len)) => (asked, len),
        Ok((None, _)) => {
            let why = "a proxy is asked for `http://HOST/PATH`, or by CONNECT for HOST:PORT";
            return client.send_last(&http::refusal_response("400 Bad Request", why));
        }
        Err(why) => return client.send_last(&http::refusal_response("400 Bad Request", why)),
    };
    let by = if path.is_some() { "http" } else { "connect" };
    let parsed = http::split_authority(&split_authority, usual)
        .ok_or("it is no host and port")
        .and_then(|(host, port)| Ok((Host::parse(host.as_bytes())?, port)));
    let (host, port) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            let text = note_unclear(gate, by, split_authority.as_bytes(), why);
            return client.send_last(&http::refusal_response("403 Forbidden", &text));
        }
    };
    let mut way = ProxiedConnection::new(gate, client, by, host, port);
    let Some((permit, server)) = way.reach(RefusalFormat::Http) else {
        return;
    };
    match path {
        None => {
            way.client.take_bytes(len);
            way.client
                .send(b"HTTP/1.1 200 Connection established\r\n\r\n");
            way.relay_checked(&permit, server);
        }
        Some(path) => way.carry_request(&server, Some(&path)),
    }
}

/// Returns whom a request to a proxy asks for: the authority, the usual port, and the path unless it is a CONNECT.
fn requested_target(head: &RequestHead<'_>) -> Option<(String, u16, Option<String>)> {
    if head.method == "CONNECT" {
        return Some((head.target.to_owned(), 443, None));
    }
    let (authority, path) = http::split_url(head.target)?;
    Some((authority.to_owned(), 80, Some(path)))
}

/// Serves as SOCKS' server.
fn by_socks(gate: &ConnectionGate, mut client: ProgramConnection<'_>) {
    let known = |part: SocksMessage<_>| match part {
        SocksMessage::Partial => None,
        other => Some(other),
    };
    let Some(SocksMessage::Whole(is_offered, len)) =
        client.read_until(|bytes| known(socks::greeting(bytes)))
    else {
        return;
    };
    client.take_bytes(len);
    client.send(&socks::greeting_reply(is_offered));
    if !is_offered {
        return;
    }
    let asked = client.read_until(|bytes| match socks::request(bytes) {
        SocksMessage::Partial => None,
        other => Some(other),
    });
    let Some(SocksMessage::Whole(wanted, len)) = asked else {
        return;
    };
    client.take_bytes(len);
    let (host, port) = match wanted {
        Ok((Ok(host), port)) => (host, port),
        Ok((Err(spelled), _)) => {
            note_unclear(gate, "socks", &spelled, "it is no host");
            return client.send_last(&socks::reply(SocksReply::NotAllowed));
        }
        Err(reply) => return client.send_last(&socks::reply(reply)),
    };
    let mut way = ProxiedConnection::new(gate, client, "socks", host, port);
    if let Some((permit, server)) = way.reach(RefusalFormat::Socks) {
        way.client.send(&socks::reply(SocksReply::Done));
        way.relay_checked(&permit, server);
    }
}

/// Takes note of a host that cannot be understood. Returns what to say of it.
fn note_unclear(gate: &ConnectionGate, by: &'static str, spelled: &[u8], why: &str) -> String {
    let nobody = Host::Address(Ipv4Addr::UNSPECIFIED.into());
    let line = ConnectionRecord {
        host: trumanfs_types::name::escape(spelled.get(..255).unwrap_or(spelled)),
        ..new_record(by, &nobody, 0)
    };
    let line = line.with_denial(&HostDenial::new("network: hosts", why));
    gate.log.add(&line);
    refusal(&line.host, 0, &line.rule, why)
}

/// A connection that knows where it wants to go. Its line is written when it ends.
struct ProxiedConnection<'s> {
    gate: &'s ConnectionGate,
    client: ProgramConnection<'s>,
    host: Host,
    port: u16,
    line: ConnectionRecord,
    began: Instant,
}

impl Drop for ProxiedConnection<'_> {
    fn drop(&mut self) {
        self.gate
            .log
            .add(&self.line.clone().with_duration(self.began));
    }
}

impl<'s> ProxiedConnection<'s> {
    fn new(
        gate: &'s ConnectionGate,
        client: ProgramConnection<'s>,
        by: &'static str,
        host: Host,
        port: u16,
    ) -> ProxiedConnection<'s> {
        ProxiedConnection {
            line: new_record(by, &host, port),
            gate,
            client,
            host,
            port,
            began: Instant::now(),
        }
    }

    /// Connects to the host if that is allowed; else says why not.
    fn reach(&mut self, tone: RefusalFormat) -> Option<(HostPermit, TcpStream)> {
        let asking = AskingConnection {
            stream: &self.client.stream,
            stop: self.client.stop_signal(),
            by: self.line.by,
        };
        let permit = self.gate.permit(&self.host, self.port, &asking);
        match permit.and_then(|permit| permit.connect().map(|to| (permit, to))) {
            Ok((permit, (server, address))) => {
                self.line.rule.clone_from(&permit.rule);
                self.line.address = Some(address);
                let _ = server.set_nodelay(true);
                Some((permit, server))
            }
            Err(ConnectFailure::Denied(denied)) => match self.reach_within(tone) {
                Some(reached) => Some(reached),
                None => {
                    self.send_denial(tone, &denied);
                    None
                }
            },
            Err(ConnectFailure::Failed { rule, reason }) => {
                self.line.rule = rule;
                let text = format!("trumanfs: {reason}");
                self.line.reason = Some(reason);
                match tone {
                    RefusalFormat::Http | RefusalFormat::OfPort(80) => {
                        self.client
                            .send_last(&http::refusal_response("502 Bad Gateway", &text));
                    }
                    RefusalFormat::Socks => self
                        .client
                        .send_last(&socks::reply(SocksReply::Unreachable)),
                    RefusalFormat::OfPort(22) => self.client.send_last(&ssh::disconnect(&text)),
                    RefusalFormat::OfPort(_) => {}
                }
                None
            }
        }
    }

    /// Connects to what the program serves itself, where it has asked a proxy for its own loopback.
    fn reach_within(&mut self, tone: RefusalFormat) -> Option<(HostPermit, TcpStream)> {
        let at = match tone {
            RefusalFormat::Http | RefusalFormat::Socks => {
                self.gate.own_address(&self.host, self.port)?
            }
            RefusalFormat::OfPort(_) => return None,
        };
        let server = self.gate.connect_within(at).ok()?;
        let permit = HostPermit::of_sandbox(self.host.clone());
        self.line.rule.clone_from(&permit.rule);
        Some((permit, server))
    }

    /// Says which rule refuses it.
    fn send_denial(&mut self, tone: RefusalFormat, denied: &HostDenial) {
        /// A fatal alert: access_denied (RFC 8446, 6.2).
        const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
        self.line = self.line.clone().with_denial(denied);
        let text = refusal(&self.line.host, self.port, &denied.rule, &denied.reason);
        match tone {
            RefusalFormat::Http | RefusalFormat::OfPort(80) => {
                self.client
                    .send_last(&http::refusal_response("403 Forbidden", &text));
            }
            RefusalFormat::Socks => self.client.send_last(&socks::reply(SocksReply::NotAllowed)),
            RefusalFormat::OfPort(443) => self.client.send_last(&ALERT),
            RefusalFormat::OfPort(22) => self.client.send_last(&ssh::disconnect(&text)),
            RefusalFormat::OfPort(_) => {}
        }
    }

    /// Carries a connection on which the program can say what it likes, once it is clear that it names no other host.
    fn relay_checked(&mut self, permit: &HostPermit, server: TcpStream) {
        match self.port {
            443 => match self.check_hello(permit) {
                Ok(()) => {
                    let first = std::mem::take(&mut self.client.buffer);
                    self.relay(&server, first, None);
                }
                Err(denied) => self.send_denial(RefusalFormat::OfPort(443), &denied),
            },
            80 => self.carry_request(&server, None),
            _ => {
                let first = std::mem::take(&mut self.client.buffer);
                self.relay(&server, first, None);
            }
        }
    }

    /// Checks that TLS asks for the decided host.
    fn check_hello(&mut self, permit: &HostPermit) -> Result<(), HostDenial> {
        let deny = |reason: String| Err(HostDenial::new("network: TLS server name", reason));
        let read = self
            .client
            .read_until(|bytes| match client_hello::read(bytes) {
                ClientHello::Partial => None,
                read => Some(read),
            });
        let named = match read {
            Some(ClientHello::Complete(named)) => named,
            _ => {
                return deny(
                    "what is sent to port 443 is no TLS that can be understood".to_owned(),
                );
            }
        };
        match (&permit.host, named) {
            (Host::Address(_), None) => Ok(()),
            (host, Some(name)) if Host::parse(&name).as_ref() == Ok(host) => Ok(()),
            (host, Some(name)) => {
                let name = trumanfs_types::name::escape(name.get(..255).unwrap_or(&name));
                deny(format!("TLS asks for {name} on a connection to {host}"))
            }
            (host, None) => deny(format!("TLS does not name {host}, which was decided about")),
        }
    }

    /// Carries one HTTP request and its answer. What a client sends after that, nobody gets: it is not decided about.
    /// A request to the proxy is for this path; another one has to name the decided host itself.
    fn carry_request(&mut self, server: &TcpStream, of_proxy: Option<&str>) {
        let (host, port) = (self.host.clone(), self.port);
        // In the spelling that was decided about: a server may read another one differently.
        let named = match port {
            80 => host.to_string(),
            port => format!("{host}:{port}"),
        };
        let read = self.client.read_until(|bytes| match http::read(bytes) {
            Ok(None) => None,
            Err(why) => Some(Err(HostDenial::new("network: HTTP", why))),
            Ok(Some(head)) => Some(match of_proxy {
                None => named_itself(&head, &host, port)
                    .map(|()| (head.for_server(head.target, &named), head.framing, head.len)),
                Some(path) => Ok((head.for_server(path, &named), head.framing, head.len)),
            }),
        });
        match read {
            None => self.line.reason = Some("no whole request came".to_owned()),
            Some(Err(denied)) => self.send_denial(RefusalFormat::Http, &denied),
            Some(Ok((mut first, framing, len))) => {
                self.client.take_bytes(len);
                let rest = std::mem::take(&mut self.client.buffer);
                let mut body = BodyScanner::new(framing);
                let passed = body.count_body_bytes(&rest);
                first.extend(rest.get(..passed).unwrap_or_default());
                self.relay(server, first, Some(body));
            }
        }
    }

    fn relay(&mut self, server: &TcpStream, first: Vec<u8>, body: Option<BodyScanner>) {
        let counts = relay(
            &self.client.stream,
            server,
            first,
            body,
            self.client.stop_signal(),
        );
        self.line.bytes_sent = counts.sent;
        self.line.bytes_received = counts.received;
    }
}

/// Checks that a request to a server names the decided host.
///
/// # Errors
/// A request that names another host.
fn named_itself(head: &RequestHead<'_>, host: &Host, port: u16) -> Result<(), HostDenial> {
    let deny = |reason: String| Err(HostDenial::new("network: HTTP Host", reason));
    if !head.target.starts_with('/') && head.target != "*" {
        return deny("a server is asked for a path".to_owned());
    }
    let Some(named) = head.host() else {
        return deny(format!(
            "the request does not name {host} in one field `Host`"
        ));
    };
    let parsed =
        http::split_authority(named, port).map(|(name, at)| (Host::parse(name.as_bytes()), at));
    match parsed {
        Some((Ok(name), at)) if name == *host && at == port => Ok(()),
        _ => deny(format!(
            "the request names {} on a connection to {host}:{port}",
            trumanfs_types::name::escape(named.as_bytes())
        )),
    }
}
