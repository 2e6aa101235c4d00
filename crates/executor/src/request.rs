//! What an executor is asked for, and what comes of it: [`Request`], [`Limits`], [`Refusal`], [`Outcome`]. Data only.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::cancel::Cancel;
use trumanfs_types::error::Error;
use trumanfs_types::name::escape;
use trumanfs_types::origin::RunId;

/// What a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run; nothing is no limit.
    pub time: Option<Duration>,
    /// How many bytes it may hold in memory; 0 is no limit.
    pub memory: u64,
    /// How many lines leave on standard output at most, and on standard error; 0 is no limit.
    pub lines: u64,
    /// How many bytes leave on each of them at most; 0 is no limit.
    pub bytes: u64,
    /// Whether the end of what leaves is kept too where it has to be cut.
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

/// What somebody asks an executor for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The line of a shell, or the words of a program.
    pub command: Vec<u8>,
    /// What it may use.
    pub limits: Limits,
    /// What ends it before its time, where anything does.
    pub cancel: Option<Cancel>,
    /// The id of its run, where that is known before it begins.
    pub run: Option<RunId>,
}

/// Why nothing of a request runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What to say on standard error.
    pub message: Vec<u8>,
    /// What it ends with.
    pub return_code: u8,
}

/// How a request ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It ran, and its return code is 0.
    Success,
    /// It ran, and its return code is another one.
    Failed,
    /// It needed more than it may use, or could not be run.
    Error,
    /// Its time was up.
    Timeout,
    /// Somebody ended it.
    Cancelled,
    /// It was not run, or no further: what it asks for is not to be had.
    Blocked,
}

/// How much was written to a stream, whatever left of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// How many bytes.
    pub bytes: u64,
    /// The first of them, up to a KiB.
    pub start: Vec<u8>,
}

/// How much of what is written to a stream is kept, in bytes.
pub const START: usize = 1024;

impl Written {
    /// Takes note of what is written.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = START.saturating_sub(self.start.len()).min(bytes.len());
        self.start
            .extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// What came of a request: the same for every executor. As JSON it has the names of its fields; what streams hold that
/// is no UTF-8 is replaced there (U+FFFD), and names are escaped as in the log.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The run that it was; the records of what it changed carry it too.
    pub run: RunId,
    /// How it ended.
    pub status: Status,
    /// With what.
    pub return_code: u8,
    /// What was written to standard output, cut at the limits; empty where that went elsewhere.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// What was written to standard error, likewise.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// Whether standard output was cut.
    pub truncated_stdout: bool,
    /// Whether standard error was cut.
    pub truncated_stderr: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether it changed something in the home, or opened a file to.
    pub changed: bool,
    /// The working directory after it, as `pwd` prints it.
    #[serde(serialize_with = "path")]
    pub cwd: Vec<u8>,
    /// Why it was refused or ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Why the store could not be had for changing, with a remedy: commands say no more than an errno.
    #[serde(skip)]
    pub unavailable: Option<Error>,
    /// What was written to standard output and to standard error, cut or not, printed or not.
    #[serde(skip)]
    pub written: [Written; 2],
    /// What an operator should know, and who asked need not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The words of a real program, as one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The directory that a real program worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// What else there is to know of a real program.
    #[serde(flatten)]
    pub program: Option<Box<ProgramReport>>,
}

/// What else there is to know of a request to run a real program.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProgramReport {
    /// What the policy says: `allow` or `deny`.
    pub verdict: &'static str,
    /// What kind of rule refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'static str>,
    /// The key of the policy that decided.
    pub rule: String,
    /// The programs that a line of the shell asked for, each as one line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Those of them whose own time limit was up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<String>,
    /// The words that were run, with what the policy inserted or replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// What made its sandbox: `namespaces` or `bwrap`; nothing where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'static str>,
    /// Which limits were in force, and by what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// A limit that ended it, or that one of its processes met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What else of this machine it could read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<String>,
    /// What is to be known of that; part of the outcome's warnings.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// What it wanted to reach in the network, and was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_refusals: Vec<String>,
    /// Whether its output is left out where it succeeds.
    pub suppress_success_output: bool,
}

fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn path<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&escape(bytes))
}
