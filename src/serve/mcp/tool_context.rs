//! [`ToolContext`]: what a call of a tool works with, and what becomes of requests to executors.

use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use super::answer::ToolAnswer;
use super::jobs::ToolJobs;
use super::kept_outputs::{KeptOutputs, KeptRun, MAX_STREAM};
use super::live_output::LiveOutput;
use super::resources::{self, OutputStream};
use super::server_home::ServerHome;
use super::sessions::McpSession;
use crate::exec::files::{FileCall, FileRequest, FileResult};
use crate::exec::pipeline::RequestStreams;
use crate::exec::{CancelToken, Limits, LineShell, Outcome, Request};
use crate::name::escape;

/// The longest time that an operation on files may take.
const OF_FILES: Duration = Duration::from_secs(45);
/// The longest time that a line or a program may take if the call sets no time.
pub(super) const USUAL: Duration = Duration::from_secs(600);
/// The longest time that a call may set.
pub(super) const MAX_TIME: Duration = Duration::from_secs(3600);
/// The interval at which a call that waits for a session in use looks at it again.
const SESSION_INTERVAL: Duration = Duration::from_millis(20);

/// The largest number of bytes that a line may hold in memory.
const MEMORY: u64 = 64 << 20;
/// The largest number of bytes that the variables of a session may hold after a line.
const VARIABLES: usize = 1 << 20;

/// The context that a call works with.
pub(super) struct ToolContext {
    pub(super) workplace: Arc<ServerHome>,
    pub(super) session: Arc<McpSession>,
    pub(super) jobs: Arc<ToolJobs>,
    /// The token that ends the call.
    pub(super) cancel: CancelToken,
    /// The output of the call, as the call writes it.
    pub(super) streams: [LiveOutput; 2],
    /// The streams that were too long for an answer.
    pub(super) outputs: Arc<KeptOutputs>,
    /// The largest number of bytes of each stream that leave.
    pub(super) bytes: u64,
}

impl ToolContext {
    /// Returns the limits of a request that takes so long at most.
    pub(super) fn limits(&self, time: Duration) -> Limits {
        Limits {
            time: Some(time),
            memory: MEMORY,
            // The streams see to it.
            lines: 0,
            bytes: 0,
            tail: false,
        }
    }

    fn streams(&self, stdin: Option<OwnedFd>) -> RequestStreams {
        let [stdout, stderr] = &self.streams;
        RequestStreams {
            stdin,
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
        }
    }

    /// Adds what was written to what came of a request, as far as an answer has it.
    fn with_output(&self, outcome: Outcome) -> Outcome {
        let [stdout, stderr] = self.streams.each_ref().map(LiveOutput::shown);
        Outcome {
            truncated_stdout: outcome.truncated_stdout || stdout.cut_at.is_some(),
            truncated_stderr: outcome.truncated_stderr || stderr.cut_at.is_some(),
            stdout: stdout.bytes,
            stderr: stderr.bytes,
            ..outcome
        }
    }

    /// Makes an answer of what came of a line or a program. Streams that it has not all of are kept, and named.
    pub(super) fn answer(&self, outcome: &Outcome) -> ToolAnswer {
        let mut answer = ToolAnswer::of_outcome(outcome);
        let cut = self.streams.each_ref().map(|stream| stream.shown().cut_at);
        if cut == [None, None] {
            return answer;
        }
        let kept = KeptRun {
            run: outcome.run.to_string(),
            session: self.session.id.clone(),
            streams: self.streams.each_ref().map(LiveOutput::keep),
        };
        let streams = OutputStream::ALL.into_iter().zip(cut).zip(kept.streams);
        for ((stream, cut_at), ended) in streams {
            let Some(offset) = cut_at else {
                continue;
            };
            answer.add_note(&rest_in_words(&kept, stream, offset, ended.total));
            answer.links.push(resources::link(&kept, stream));
        }
        self.outputs.note_run(kept);
        answer
    }

    /// Runs a line in the session's shell, once that is free. Nothing: the call was ended before.
    pub(super) fn line_in_session(&self, line: &str, time: Duration) -> Option<Outcome> {
        let mut shell = loop {
            match self.session.shell.try_lock_for(SESSION_INTERVAL) {
                Some(shell) => break shell,
                None if self.cancel.ended().is_some() => return None,
                None => {}
            }
        };
        let mut outcome = self.line(&mut shell, line, time);
        self.session.set_cwd(outcome.cwd.clone());
        let forgotten = shell.forget_large_variables(VARIABLES);
        if let Some(name) = forgotten.first() {
            let others = match forgotten.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            outcome.warnings.push(format!(
                "forgotten: the variable {}{others}; those of a session hold {} MiB at most",
                escape(name),
                VARIABLES >> 20
            ));
        }
        Some(outcome)
    }

    /// Runs a line in a shell of its own that begins where the session's is. Nobody waits for it.
    pub(super) fn line_aside(&self, words: &[&str], time: Duration) -> Outcome {
        let shell = self.workplace.bundled_shell(Limits::default());
        let mut shell = LineShell::Bundled(Box::new(shell));
        // A directory that is gone is said by the line.
        let _ = shell.set_cwd(&self.session.cwd());
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let line = crate::exec::quote::line(&words);
        self.line(&mut shell, &String::from_utf8_lossy(&line), time)
    }

    fn line(&self, shell: &mut LineShell, line: &str, time: Duration) -> Outcome {
        let request = Request {
            command: line.as_bytes().to_vec(),
            limits: self.limits(time),
            cancel: Some(self.cancel.clone()),
            run: None,
        };
        let outcome = shell.run(&request, self.streams(None));
        // What the line before had left running may have changed something after that line's end.
        if let Some(run) = shell.take_ended_run() {
            self.session.add(run);
        }
        self.note(&outcome);
        self.with_output(outcome)
    }

    /// Runs a real program.
    pub(super) fn program(
        &self,
        command: crate::exec::program::ProgramCommand,
        stdin: &str,
    ) -> ToolAnswer {
        let stdin = match input(stdin) {
            Ok(stdin) => stdin,
            Err(error) => return ToolAnswer::failed(format!("standard input: {error}")),
        };
        let command = crate::exec::program::ProgramCommand {
            cancel: Some(self.cancel.clone()),
            tail: true,
            limits: crate::exec::program::sandbox::ResourceLimits::usual(),
            ..command
        };
        let outcome = self.workplace.run_program(command, self.streams(stdin));
        let Some(outcome) = outcome else {
            return ToolAnswer::failed("no policy is in force: no real program runs");
        };
        self.note(&outcome);
        let mut outcome = self.with_output(outcome);
        let is_quiet = outcome
            .program
            .as_ref()
            .is_some_and(|program| program.suppress_success_output);
        if is_quiet && outcome.return_code == 0 {
            outcome.stdout.clear();
            outcome.stderr.clear();
            return ToolAnswer::of_outcome(&outcome);
        }
        self.answer(&outcome)
    }

    /// Does one operation on files.
    pub(super) fn file(&self, call: FileCall) -> (Outcome, Option<FileResult>) {
        let place = self.workplace.place();
        let cwd = self.session.cwd();
        let request = FileRequest::new(place, self.workplace.has_scratch(), &cwd, call);
        let limits = Limits {
            bytes: self.bytes,
            tail: true,
            ..self.limits(OF_FILES)
        };
        let (outcome, found) = request.run(limits, self.cancel.clone());
        self.note(&outcome);
        (outcome, found)
    }

    /// Notes a run that may have changed something. Those that did not are not looked for in the journal.
    fn note(&self, outcome: &Outcome) {
        if outcome.changed {
            self.session.add(outcome.run);
        }
    }
}

/// Says where the rest of a stream is.
fn rest_in_words(kept: &KeptRun, stream: OutputStream, offset: u64, total: u64) -> String {
    let which = match stream {
        OutputStream::Stdout => String::new(),
        OutputStream::Stderr => ", \"stream\": \"stderr\"".to_owned(),
    };
    let kept_part = match total > MAX_STREAM {
        true => format!("; its first {} MiB are kept", MAX_STREAM >> 20),
        false => String::new(),
    };
    format!(
        "[{} was cut: {total} bytes came{kept_part}. Read on with bash_output {{\"job\": \"{}\", \"offset\": {offset}{which}}}, or the resource {}]",
        stream.name(),
        kept.run,
        resources::output_uri(kept, stream),
    )
}

/// Makes a file in memory of a text, where there is any.
fn input(text: &str) -> std::io::Result<Option<OwnedFd>> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut file = std::fs::File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(Some(file.into()))
}
