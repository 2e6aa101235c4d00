//! The log of a network: a line for each connection, reached or refused, and the refusals in words.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;

use super::answers::HostAnswers;
use trumanfs_policy::network::Host;
use trumanfs_policy::network::HostDenial;

/// The most connections of one program that have a line of their own: it must not be able to fill the audit log,
/// from which what came before would go.
const MAX_LINES: usize = 1000;

/// The same of requests with a secret, which an agent makes all day.
const MAX_REQUEST_LINES: usize = 5000;

/// The most different refusals that are kept.
const MAX_REFUSALS: usize = 100;

/// A connection, as the audit log has it.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionRecord {
    /// The host, as the program named it and as it was decided about.
    pub host: String,
    /// The port; 53 of a name that was refused an address.
    pub port: u16,
    /// The address that was connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The way by which the connection arrived: `http`, `connect`, `socks`, `captured`, `closed`, `dns`, `host_ports`,
    /// `publish`, `secret`.
    pub by: &'static str,
    /// `allow` or `deny`.
    pub verdict: &'static str,
    /// The rule that decided: a pattern of the policy, or what refuses.
    pub rule: String,
    /// Why it was refused, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of bytes that the program sent.
    pub bytes_sent: u64,
    /// The number of bytes that the program received.
    pub bytes_received: u64,
    /// The time that the connection lasted, in milliseconds.
    pub duration_ms: u64,
    /// The request, where a secret was to be added to one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub request: Option<SecretRequestRecord>,
}

/// A request to which a secret was to be added.
#[derive(Debug, Clone, Serialize)]
pub struct SecretRequestRecord {
    /// The name of the secret.
    pub secret: String,
    /// Its method.
    pub method: String,
    /// Its path, without the query, escaped and perhaps cut.
    pub path: String,
    /// The status of the server's answer, where one came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The outcome of all connections of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// The refusals with their reasons, each once.
    pub refusals: Vec<String>,
    /// The number of connections that got no line, because there were too many.
    pub without_line: u64,
}

impl ConnectionReport {
    /// Returns the refusals, and what there is to say beside them.
    #[must_use]
    pub fn in_words(self) -> Vec<String> {
        let mut words = self.refusals;
        if self.without_line > 0 {
            words.push(format!(
                "{} connections have no line in the audit log: there were too many",
                self.without_line
            ));
        }
        words
    }
}

/// Takes the line of a connection.
pub type ConnectionObserver = Box<dyn Fn(&ConnectionRecord) + Send + Sync>;

/// The log of one program's connections.
pub(super) struct ConnectionLog {
    observer: ConnectionObserver,
    /// Whoever watches learns of each connection, also where it gets no line.
    answers: Option<Arc<HostAnswers>>,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    lines: usize,
    request_lines: usize,
    known: HashSet<String>,
    report: ConnectionReport,
}

impl ConnectionLog {
    pub(super) fn new(
        observer: ConnectionObserver,
        answers: Option<Arc<HostAnswers>>,
    ) -> ConnectionLog {
        ConnectionLog {
            observer,
            answers,
            state: Mutex::new(LogState::default()),
        }
    }

    /// Takes note of a connection that has ended, or that there never was.
    pub(super) fn add(&self, connection: &ConnectionRecord) {
        if let Some(answers) = &self.answers {
            answers.note_connection(connection);
        }
        let mut state = self.state.lock();
        if connection.verdict == "deny" && state.report.refusals.len() < MAX_REFUSALS {
            let refusal = refusal(
                &connection.host,
                connection.port,
                &connection.rule,
                connection.reason.as_deref().unwrap_or_default(),
            );
            // A name is asked for again and again, and a closed port is tried so; once is enough, of their lines too.
            if !state.known.insert(refusal.clone()) {
                if matches!(connection.by, "dns" | "closed") {
                    return;
                }
            } else {
                state.report.refusals.push(refusal);
            }
        }
        let (lines, most) = match &connection.request {
            None => (&mut state.lines, MAX_LINES),
            Some(_) => (&mut state.request_lines, MAX_REQUEST_LINES),
        };
        if *lines >= most {
            state.report.without_line += 1;
            return;
        }
        *lines += 1;
        drop(state);
        (self.observer)(connection);
    }

    /// Takes note of something to report, once.
    pub(super) fn note(&self, words: String) {
        let mut state = self.state.lock();
        if state.report.refusals.len() < MAX_REFUSALS && state.known.insert(words.clone()) {
            state.report.refusals.push(words);
        }
    }

    /// Returns what there is to report so far.
    pub(super) fn report(&self) -> ConnectionReport {
        self.state.lock().report.clone()
    }
}

/// Words a refusal, for whoever reads what the program printed, too.
pub(super) fn refusal(host: &str, port: u16, rule: &str, reason: &str) -> String {
    format!("trumanfs: {host}:{port} is refused by {rule}: {reason}")
}

/// Returns the line of a connection that begins.
pub(super) fn new_record(by: &'static str, host: &Host, port: u16) -> ConnectionRecord {
    ConnectionRecord {
        host: host.to_string(),
        port,
        address: None,
        by,
        verdict: "allow",
        rule: String::new(),
        reason: None,
        bytes_sent: 0,
        bytes_received: 0,
        duration_ms: 0,
        request: None,
    }
}

impl ConnectionRecord {
    /// The same, refused.
    pub(super) fn with_denial(self, denied: &HostDenial) -> ConnectionRecord {
        ConnectionRecord {
            verdict: "deny",
            rule: denied.rule.clone(),
            reason: Some(denied.reason.clone()),
            ..self
        }
    }

    /// The same, after so long.
    pub(super) fn with_duration(self, began: Instant) -> ConnectionRecord {
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        ConnectionRecord {
            duration_ms,
            ..self
        }
    }
}
