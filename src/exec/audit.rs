//! The audit log: one line for each request of any executor, what was refused too, as JSON in the store's `.trumanfs`.
//!
//! Owns what a line says and when there is none. The request has been carried out when its line is written, so nothing
//! that happens here can make it fail: a line that cannot be written is a warning in the outcome. Who may not write to
//! the store's own directory is no operator and is not told of it, and nothing is told where a directory is no store.

use chrono::SecondsFormat;
use rustix::io::Errno;
use serde::Serialize;

use super::home_context::AuditLog;
use super::request::{Outcome, ProgramReport, SAMPLE_SIZE, Status};
use crate::error::Error;
use crate::name::escape;
use crate::world::store::append_log::AppendLog;
use crate::world::store::layout;
use crate::world::{OriginKind, Root, RunId};

/// The schema of a line.
const SCHEMA: u32 = 1;

/// The largest number of bytes of a command or a message that a line has; the rest is left out.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// The largest number of bytes of a short output that a line has.
const PREVIEW: usize = 500;

/// The log file that has the lines.
pub(super) const LOG: AppendLog = AppendLog {
    name: layout::AUDIT,
    former: layout::FORMER_AUDIT,
    longest: 8 << 20,
};

/// The audit log of a store.
#[derive(Debug)]
pub struct StoreAuditLog {
    store: Root,
    /// True if a daemon serves the store.
    is_served: bool,
}

/// A line of the audit log.
#[derive(Debug, Serialize)]
struct AuditLine<'a> {
    v: u32,
    /// The time at which the request ended, UTC.
    time: String,
    run: RunId,
    kind: OriginKind,
    command: String,
    /// The length of the whole command in bytes, if the line has only its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_bytes: Option<usize>,
    cwd: String,
    status: Status,
    return_code: u8,
    duration_ms: u64,
    changed: bool,
    truncated_stdout: bool,
    truncated_stderr: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
    pid: u32,
    uid: u32,
    /// The event, if an operator should look at it; `severity` says how urgent it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    /// The number of bytes that a program wrote to its standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
    /// The start of a short output of a program that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_preview: Option<String>,
    #[serde(flatten)]
    program: Option<&'a ProgramReport>,
}

/// A line about something that happened in a request.
#[derive(Debug, Serialize)]
struct EventLine<'a, T> {
    v: u32,
    time: String,
    run: RunId,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(flatten)]
    what: &'a T,
}

impl StoreAuditLog {
    /// Returns the log of the store behind a home.
    pub fn new(store: Root, is_served: bool) -> StoreAuditLog {
        StoreAuditLog { store, is_served }
    }

    fn append(&self, line: &impl Serialize) -> Option<String> {
        let written = serde_json::to_vec(line)
            .map_err(|error| Error::Damaged(error.to_string()))
            .and_then(|line| LOG.append(&self.store, &line, self.is_served));
        match written {
            Ok(_) => None,
            Err(error) if is_not_ours(&error) => None,
            Err(error) => Some(format!("the audit log was not written: {error}")),
        }
    }
}

impl AuditLog for StoreAuditLog {
    fn write(
        &self,
        kind: OriginKind,
        (command, cwd): (&[u8], &[u8]),
        outcome: &Outcome,
    ) -> Option<String> {
        let message = outcome.error_message.as_deref();
        let [stdout, stderr] = &outcome.written;
        // A shell refuses what it does not know; a policy what somebody did not mean to allow.
        let is_blocked = outcome
            .program
            .as_ref()
            .is_some_and(|program| program.verdict == "deny" || outcome.status == Status::Blocked);
        let line = AuditLine {
            v: SCHEMA,
            time: now(),
            run: outcome.run,
            kind,
            command: escape(start(command)),
            command_bytes: (command.len() > MAX_TEXT_BYTES).then_some(command.len()),
            cwd: escape(cwd),
            status: outcome.status,
            return_code: outcome.return_code,
            duration_ms: outcome.duration_ms,
            changed: outcome.changed,
            truncated_stdout: outcome.truncated_stdout,
            truncated_stderr: outcome.truncated_stderr,
            error_message: message.map(|text| {
                text.get(..text.floor_char_boundary(MAX_TEXT_BYTES))
                    .unwrap_or(text)
            }),
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            event: is_blocked.then_some("command_blocked"),
            severity: is_blocked.then_some("HIGH"),
            stdout_bytes: outcome.program.as_ref().map(|_| stdout.bytes),
            stderr_bytes: outcome.program.as_ref().map(|_| stderr.bytes),
            stdout_preview: preview(outcome),
            program: outcome.program.as_deref(),
        };
        self.append(&line)
    }

    fn write_event(
        &self,
        run: RunId,
        kind: &'static str,
        event: Option<&'static str>,
        what: &serde_json::Value,
    ) -> Option<String> {
        self.append(&EventLine {
            v: SCHEMA,
            time: now(),
            run,
            kind,
            event,
            severity: event.map(|_| "HIGH"),
            what,
        })
    }
}

fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Returns whether it is not for this process to write in the store: another user's, or one on a disk that is only
/// read.
fn is_not_ours(error: &Error) -> bool {
    matches!(error.errno(), Errno::ACCESS | Errno::PERM | Errno::ROFS)
}

/// Returns the first 500 bytes of a short output (less than 1024 bytes) of a program that succeeded.
fn preview(outcome: &Outcome) -> Option<String> {
    let [stdout, _] = &outcome.written;
    let is_short = stdout.bytes < SAMPLE_SIZE as u64 && stdout.bytes > 0;
    if outcome.program.is_none() || outcome.status != Status::Success || !is_short {
        return None;
    }
    let text = String::from_utf8_lossy(&stdout.start);
    let end = text.floor_char_boundary(PREVIEW);
    Some(text.get(..end).unwrap_or_default().to_owned())
}

/// Returns as much of a command as a line has.
fn start(command: &[u8]) -> &[u8] {
    command.get(..MAX_TEXT_BYTES).unwrap_or(command)
}
