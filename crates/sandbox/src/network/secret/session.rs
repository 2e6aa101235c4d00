//! A request that a secret is added to, from its head to the end of its answer.

use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::super::gate::{ConnectFailure, ConnectionGate};
use super::super::http::{self, BodyLength, RequestHead};
use super::super::log::{ConnectionRecord, SecretRequestRecord, new_record, refusal};
use super::super::program_connection::ProgramConnection;
use super::SecretRoute;
use super::exchange::{ExchangeEnd, ExchangeFailure, SecretExchange, reset};
use super::request_pattern::check_path;
use super::tls::{TlsClient, TlsConnection};
use trumanfs_policy::network::HostDenial;

/// The time that TLS may take to begin.
const TLS_LIMIT: Duration = Duration::from_secs(20);

/// The most bytes of a path that are recorded.
const MAX_RECORDED_BYTES: usize = 300;

/// Fields that have a server take a request for another one, or for one from elsewhere.
const MISLEADING: [&str; 9] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-host",
    "forwarded",
];

/// A request as it goes on.
struct AdmittedRequest {
    /// With the secret.
    head: Zeroizing<Vec<u8>>,
    framing: BodyLength,
    is_head_only: bool,
    /// The number of bytes that the program's own head has.
    len: usize,
    record: SecretRequestRecord,
}

/// A request that does not go on.
struct RefusedRequest {
    status: &'static str,
    denial: HostDenial,
    record: Option<SecretRequestRecord>,
}

/// Serves a connection to the port of a secret: one request.
pub(crate) fn serve_secret(
    gate: &ConnectionGate,
    client: ProgramConnection<'_>,
    route: &SecretRoute,
    tls: &TlsClient,
) {
    let began = Instant::now();
    let mut session = SecretSession {
        gate,
        client,
        route,
        line: new_record("secret", &route.host, route.port),
    };
    session.line.rule = format!("--secret {}", route.name);
    if session.serve(tls) {
        gate.log.add(&session.line.with_duration(began));
    }
}

struct SecretSession<'s> {
    gate: &'s ConnectionGate,
    client: ProgramConnection<'s>,
    route: &'s SecretRoute,
    line: ConnectionRecord,
}

impl SecretSession<'_> {
    /// Returns whether there was a request.
    fn serve(&mut self, tls: &TlsClient) -> bool {
        let route = self.route;
        let read = self.client.read_until(|bytes| match http::read(bytes) {
            Ok(None) => None,
            Ok(Some(head)) => Some(admit(route, &head)),
            Err(why) => Some(Err(malformed(why))),
        });
        let request = match read {
            // A connection that a client opens ahead, for one.
            None => return false,
            Some(Ok(request)) => request,
            Some(Err(refused)) => {
                self.line.request = refused.record;
                self.deny(refused.status, &refused.denial);
                return true;
            }
        };
        self.line.request = Some(request.record.clone());
        let Some(server) = self.connect(tls) else {
            return true;
        };
        self.client.take_bytes(request.len);
        let first = std::mem::take(&mut self.client.buffer);
        let stop = self.client.stop_signal();
        let exchange = SecretExchange::new(
            &self.client.stream,
            server,
            &route.value,
            request.framing,
            request.is_head_only,
        );
        let end = exchange.carry(&request.head, &first, stop);
        self.line.bytes_sent = end.counts.sent + request.len as u64;
        self.line.bytes_received = end.counts.received;
        if let Some(record) = &mut self.line.request {
            record.status = end.status;
        }
        self.finish(end);
        true
    }

    /// Connects to the host of the secret; else says why not.
    fn connect(&mut self, tls: &TlsClient) -> Option<TlsConnection> {
        let (host, stop) = (&self.route.host, self.client.stop_signal());
        let permit = self.gate.permit_secret(self.route);
        match permit.and_then(|permit| permit.connect()) {
            Ok((socket, address)) => {
                self.line.address = Some(address);
                let _ = socket.set_nodelay(true);
                match tls.connect(host, socket, stop, Instant::now() + TLS_LIMIT) {
                    Ok(server) => return Some(server),
                    Err(why) => self.fail(&format!("no TLS with {host}: {why}")),
                }
            }
            Err(ConnectFailure::Denied(denied)) => self.deny("403 Forbidden", &denied),
            Err(ConnectFailure::Failed { reason, .. }) => self.fail(&reason),
        }
        None
    }

    fn finish(&mut self, end: ExchangeEnd) {
        let _ = self.client.stream.set_nonblocking(false);
        let Some(failure) = end.failure else {
            if end.status == Some(401) {
                let (name, host) = (&self.route.name, &self.route.host);
                self.gate.log.note(format!(
                    "trumanfs: {host} answered 401: it does not take the secret {name}, or not for this request"
                ));
            }
            return self.client.finish();
        };
        let is_begun = end.counts.received > 0;
        match failure {
            ExchangeFailure::Program(why) => self.line.reason = Some(why.to_owned()),
            ExchangeFailure::Request(why) if !is_begun => {
                let refused = malformed(why);
                self.deny(refused.status, &refused.denial);
            }
            ExchangeFailure::Server(why) if !is_begun => {
                let host = &self.route.host;
                self.fail(&format!("{host}: {why}"));
            }
            ExchangeFailure::Request(why) => {
                self.line.reason = Some(why.to_owned());
                reset(&self.client.stream);
            }
            ExchangeFailure::Server(why) => {
                self.line.reason = Some(why);
                reset(&self.client.stream);
            }
        }
    }

    /// Says which rule refuses it.
    fn deny(&mut self, status: &str, denial: &HostDenial) {
        self.line = self.line.clone().with_denial(denial);
        let (host, port) = (&self.line.host, self.line.port);
        let text = refusal(host, port, &denial.rule, &denial.reason);
        self.client
            .send_last(&http::refusal_response(status, &text));
    }

    /// Says what went wrong.
    fn fail(&mut self, reason: &str) {
        let text = format!("trumanfs: {reason}");
        self.gate.log.note(text.clone());
        self.line.reason = Some(reason.to_owned());
        self.client
            .send_last(&http::refusal_response("502 Bad Gateway", &text));
    }
}

fn malformed(why: &str) -> Box<RefusedRequest> {
    Box::new(RefusedRequest {
        status: "400 Bad Request",
        denial: HostDenial::new("network: HTTP", why),
        record: None,
    })
}

/// Decides about a request, and writes it anew.
fn admit(
    route: &SecretRoute,
    head: &RequestHead<'_>,
) -> Result<AdmittedRequest, Box<RefusedRequest>> {
    let path = head.target.split('?').next().unwrap_or_default();
    let record = SecretRequestRecord {
        secret: route.name.clone(),
        method: cut(head.method),
        path: cut(path),
        status: None,
    };
    let refuse = |status, rule: &str, reason: String| {
        Box::new(RefusedRequest {
            status,
            denial: HostDenial::new(rule, reason),
            record: Some(record.clone()),
        })
    };
    if !path.starts_with('/') || head.method == "CONNECT" || head.target.contains('#') {
        let why = "here a request is for a path alone: the host is the secret's";
        return Err(refuse("400 Bad Request", "network: HTTP", why.to_owned()));
    }
    if !route.only.is_empty() {
        let limited = |why: String| {
            let asked = format!("{} {}", record.method, record.path);
            refuse("403 Forbidden", "--only", format!("{asked}: {why}"))
        };
        check_path(path).map_err(|why| limited(why.to_owned()))?;
        if !route
            .only
            .iter()
            .any(|only| only.matches(head.method, path))
        {
            let listed: Vec<_> = route.only.iter().map(ToString::to_string).collect();
            let name = &route.name;
            return Err(limited(format!(
                "with the secret {name} only {} may be asked for",
                listed.join(", ")
            )));
        }
    }
    let own = route.header.name.to_ascii_lowercase();
    let is_dropped = |name: &str| {
        // Some servers read an underscore as a hyphen.
        let name = name.replace('_', "-");
        name == own
            || name == "accept-encoding"
            || name == "trailer"
            || MISLEADING.contains(&&*name)
            || route
                .dropped
                .iter()
                .any(|dropped| name.eq_ignore_ascii_case(dropped))
    };
    let plain = head.for_server_without(head.target, &route.authority(), is_dropped);
    let (end, line) = (b"\r\n", route.line());
    let without_end = plain.strip_suffix(end).unwrap_or(&plain);
    let len = plain.len() + line.len();
    let mut whole = Zeroizing::new(Vec::with_capacity(len));
    for part in [without_end, &line, end] {
        whole.extend_from_slice(part);
    }
    Ok(AdmittedRequest {
        head: whole,
        framing: head.framing,
        is_head_only: head.method == "HEAD",
        len: head.len,
        record,
    })
}

/// Returns a text of the program as it is recorded.
fn cut(text: &str) -> String {
    let bytes = text.as_bytes();
    trumanfs_types::name::escape(bytes.get(..MAX_RECORDED_BYTES).unwrap_or(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{RequestPattern, SecretHeader, SecretValue};
    use super::*;
    use trumanfs_policy::network::Host;

    fn route(only: &[&str]) -> SecretRoute {
        let value = Zeroizing::new(b"the-secret-value".to_vec());
        SecretRoute {
            name: "x".to_owned(),
            host: Host::parse(b"api.example").unwrap(),
            port: 8443,
            header: SecretHeader::parse("X-Api-Key").unwrap(),
            value: SecretValue::new(value).unwrap(),
            only: only
                .iter()
                .map(|only| RequestPattern::parse(only).unwrap())
                .collect(),
            dropped: vec!["authorization".to_owned()],
            env: Vec::new(),
        }
    }

    /// Returns the head that goes on, or the status of the refusal.
    fn admitted(only: &[&str], head: &str) -> Result<String, &'static str> {
        let text = format!("{}\r\n\r\n", head.trim().replace('\n', "\r\n"));
        let head = http::read(text.as_bytes()).map_err(|_| "unread")?.unwrap();
        let admitted = admit(&route(only), &head).map_err(|refused| refused.status)?;
        Ok(String::from_utf8(admitted.head.to_vec()).unwrap())
    }

    #[test]
    fn request_goes_on_with_the_secret_and_nothing_that_stands_for_it() {
        let sent = admitted(
            &["POST /v1/messages"],
            "POST /v1/messages?beta=true HTTP/1.1\nHost: evil.example\nX-API-Key: own\nx_api_key: own\n\
             Authorization: Bearer own\nConnection: X-Api-Key, close\nUpgrade: websocket\nContent-Length: 2\n\
             X-HTTP-Method-Override: DELETE\nX_Original_URL: /\nAccept-Encoding: gzip\nTrailer: X-Api-Key\nAccept: */*",
        );
        let wanted = "POST /v1/messages?beta=true HTTP/1.1\r\nHost: api.example:8443\r\nContent-Length: 2\r\n\
             Accept: */*\r\nConnection: close\r\nX-Api-Key: the-secret-value\r\n\r\n";
        assert_eq!(sent.unwrap(), wanted);
    }

    #[test]
    fn request_that_leads_elsewhere_does_not_go_on() {
        let bad = Err("400 Bad Request");
        for line in [
            "CONNECT evil.example:443",
            "CONNECT /v1/messages",
            "GET http://evil.example/",
            "GET https://api.example/",
            "OPTIONS *",
            "GET evil.example/",
            "GET /x#y",
        ] {
            assert_eq!(
                admitted(&[], &format!("{line} HTTP/1.1\nHost: a")),
                bad,
                "{line}"
            );
        }
        assert_eq!(admitted(&[], "PRI * HTTP/2.0\nHost: a"), Err("unread"));
        for line in [
            "POST /v1/files",
            "GET /v1/messages",
            "POST /v1/messages/../files",
            "POST //v1/messages",
            "POST /v1/./messages",
            "POST /v1/messages%2f",
            "POST /v1/%6dessages",
            "POST /v1/messages;x",
            "POST /v1/messages/",
            "POST /V1/messages",
            "post /v1/messages",
        ] {
            let asked = format!("{line} HTTP/1.1\nHost: a");
            assert_eq!(
                admitted(&["POST /v1/messages"], &asked),
                Err("403 Forbidden"),
                "{line}"
            );
        }
        let asked = "GET /projects/a%2Fb?q=%00 HTTP/1.1\nHost: a";
        assert!(
            admitted(&[], asked)
                .unwrap()
                .starts_with("GET /projects/a%2Fb?q=%00 HTTP/1.1\r\n")
        );
    }
}
