//! Requests to an executor and their results: [`Request`], [`Limits`], [`Refusal`], [`Outcome`]. Data only.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::cancel::CancelToken;
use trumanfs_types::error::Error;
use trumanfs_types::name::escape;
use trumanfs_types::origin::RunId;

/// The limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum duration; `None` for no limit.
    pub time: Option<Duration>,
    /// The maximum number of bytes held in memory; 0 for no limit.
    pub memory: u64,
    /// The maximum number of lines on standard output, and on standard error; 0 for no limit.
    pub lines: u64,
    /// The maximum number of bytes on each of the two; 0 for no limit.
    pub bytes: u64,
    /// True if output that has to be cut keeps its end too.
    pub tail: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            time: None,
            memory: 256 << 20,
            lines: 200,
            bytes: 64 * 1024,
            tail: false,
        }
    }
}

/// A request to an executor.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The line of a shell, or the words of a program.
    pub command: Vec<u8>,
    /// The limits.
    pub limits: Limits,
    /// The token that ends the request before its time, if any.
    pub cancel: Option<CancelToken>,
    /// The id of its run, if known before the request begins.
    pub run: Option<RunId>,
}

/// The reason for which nothing of a request runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The message for standard error.
    pub message: Vec<u8>,
    /// The return code.
    pub return_code: u8,
}

/// The kind of end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The request ran, and its return code is 0.
    Success,
    /// The request ran, and its return code is not 0.
    Failed,
    /// The request exceeded a limit other than time, or could not be run.
    Error,
    /// The request's time was up.
    Timeout,
    /// A signal or the caller ended the request.
    Cancelled,
    /// The request was refused before or while it ran: something that it needs is not available here.
    Blocked,
}

/// The size and the start of the output to a stream, before any limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputSample {
    /// The number of bytes.
    pub bytes: u64,
    /// The first bytes, up to a KiB.
    pub start: Vec<u8>,
}

/// The maximum size of the kept start, in bytes.
pub const SAMPLE_SIZE: usize = 1024;

impl OutputSample {
    /// Counts output, and keeps its start.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = SAMPLE_SIZE
            .saturating_sub(self.start.len())
            .min(bytes.len());
        self.start
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// The result of a request, the same for every executor. The JSON form has the names of the fields; bytes of streams
/// that are not UTF-8 are replaced there (U+FFFD), and names are escaped as in the log.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The run of the request; the records of its changes carry it too.
    pub run: RunId,
    /// The kind of end.
    pub status: Status,
    /// The return code.
    pub return_code: u8,
    /// Standard output, cut at the limits; empty if it went elsewhere.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// Standard error, likewise.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// True if standard output was cut.
    pub truncated_stdout: bool,
    /// True if standard error was cut.
    pub truncated_stderr: bool,
    /// The duration.
    pub duration_ms: u64,
    /// True if the request changed something in the home, or opened a file for writing.
    pub changed: bool,
    /// The working directory afterwards, as `pwd` prints it.
    #[serde(serialize_with = "path")]
    pub cwd: Vec<u8>,
    /// The reason for a refusal or an early end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The error for which the store could not be changed, with a remedy: commands report only its errno.
    #[serde(skip)]
    pub unavailable: Option<Error>,
    /// The whole output to standard output and to standard error, cut or not, printed or not.
    #[serde(skip)]
    pub written: [OutputSample; 2],
    /// The warnings for the operator, which the caller need not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The words of a real program, as one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The working directory of a real program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// The report on real programs.
    #[serde(flatten)]
    pub program: Option<Box<ProgramReport>>,
}

/// The report on a request that ran real programs, or was refused one.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProgramReport {
    /// The policy's verdict: `allow` or `deny`.
    pub verdict: &'static str,
    /// The class of the rule that refused the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'static str>,
    /// The key of the policy that decided.
    pub rule: String,
    /// The programs that a line of the shell requested, each as one line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Those of the programs that reached their own time limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<String>,
    /// The words that were run, with the insertions and replacements of the policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// The backend of the sandbox: `namespaces` or `bwrap`; `None` without a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'static str>,
    /// The limits in force, each with its mechanism.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// The limit that ended the program, or that one of its processes reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The other paths of this machine that the program could read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<String>,
    /// The warnings about those paths; part of the outcome's warnings.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// The network destinations that were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_refusals: Vec<String>,
    /// The processes that still ran when the program had exited, and were ended with it: the line of each, as it calls
    /// itself, and the number of those beyond.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended_processes: Vec<String>,
    /// True if something that a line has left running can still write to the output of that line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// True if the output of a program that succeeds is dropped.
    pub suppress_success_output: bool,
}

fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn path<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&escape(bytes))
}
