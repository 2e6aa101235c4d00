//! Real programs in a line, and their streams.
//!
//! A program needs descriptors where commands have streams in this process. So any stream that is not a file becomes a
//! pipe with a thread at its other end. Standard input that has become a pipe stays one: the next command reads what a
//! program leaves in it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use super::call::{ShellState, from_io_error, reason, report_shell_error};
use super::deadline::{Deadline, LineStream};
use super::stream::{CHUNK, Input, Output, empty_file};
use super::thread_pool::{RunningJob, ThreadPool};
use trumanfs_executor::drain::drain;
use trumanfs_executor::line_programs::{EnvVariable, OutputRule, ProgramError, ProgramRequest};
use trumanfs_executor::request::Limits;
use trumanfs_executor::streams::{OutputBuffer, SharedOutput};

/// The status of a program that may not run with these words.
const BLOCKED_STATUS: u8 = 126;

impl ShellState {
    /// Returns whether a real program has this name, and no bundled command does.
    pub(super) fn is_program(&self, name: &[u8]) -> bool {
        let programs = self.programs.as_ref();
        self.registry.find(name).is_none()
            && programs.is_some_and(|programs| programs.has_program(name))
    }

    /// Returns whether the line has to end because its home is gone. Only lines that may run programs know this,
    /// because they hold the home.
    pub(super) fn is_lost(&self) -> bool {
        self.line_programs
            .as_ref()
            .is_some_and(|programs| programs.is_lost())
    }
}

/// Runs a program with the streams of a command. Returns its status.
///
/// # Errors
/// `TimedOut` only: the line has to end.
pub(super) fn run(
    (words, env): (&[Vec<u8>], &[EnvVariable]),
    input: &mut Input,
    (output, error_output): (&Output, &mut Output),
    state: &ShellState,
) -> io::Result<u8> {
    let Some(programs) = &state.line_programs else {
        return Ok(BLOCKED_STATUS);
    };
    let program = ProgramRequest {
        words,
        env,
        cwd: state.display_path(&state.cwd),
    };
    let ended = match programs.admit(program) {
        Ok(program) => {
            let rule = program.output();
            let ends = stdin_descriptor(input, state).and_then(|stdin| {
                Ok((
                    stdin,
                    ProgramOutputs::open(output, error_output, rule, state)?,
                ))
            });
            let (stdin, outputs) = match ends {
                Ok(ends) => ends,
                Err(error) => {
                    report_shell_error(
                        error_output,
                        &[reason(from_io_error(&error).errno()).as_bytes()],
                    );
                    return Ok(BLOCKED_STATUS);
                }
            };
            let [out, err] = outputs.ends;
            let go_on = || state.deadline.check().is_ok() && !state.is_lost();
            let ended = program.run([stdin, out, err], &go_on);
            for one in outputs.passed_on {
                one.finish(ended == Ok(0), &state.deadline);
            }
            ended
        }
        Err(refused) => Err(refused),
    };
    match ended {
        Ok(status) => Ok(status),
        Err(ProgramError::LineEnded) => Err(io::ErrorKind::TimedOut.into()),
        Err(ProgramError::Refused(why, status)) => {
            let name = words.first().map_or(&b""[..], Vec::as_slice);
            report_shell_error(error_output, &[name, b": ", &why]);
            Ok(status)
        }
    }
}

/// Returns a descriptor of an input. An input that is not a file becomes a pipe, and stays one.
fn stdin_descriptor(input: &mut Input, state: &ShellState) -> io::Result<OwnedFd> {
    if input.is_empty() {
        let file = empty_file().map_err(|error| io::Error::from(error.errno()))?;
        return Ok(file.into());
    }
    if let Some(file) = input.as_file() {
        return file.as_fd().try_clone_to_owned();
    }
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    let end = reading.try_clone()?;
    let mut from = std::mem::replace(input, Input::file(File::from(reading), &state.deadline));
    // Ends with its input, or when the pipe has no reader any more.
    let pump = move || {
        let mut to = File::from(writing);
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            if to.write_all(chunk.get(..read).unwrap_or_default()).is_err() {
                return;
            }
        }
    };
    state.threads.start(pump).map(drop)?;
    Ok(end)
}

/// The outputs of a program.
struct ProgramOutputs {
    /// The descriptors for standard output and standard error.
    ends: [OwnedFd; 2],
    passed_on: Vec<OutputForwarder>,
}

impl ProgramOutputs {
    /// Opens the outputs. The program itself writes to files. If both outputs lead to the same place, the program
    /// writes both into one pipe, which keeps the order of its writes.
    fn open(
        out: &Output,
        err: &Output,
        rule: OutputRule,
        state: &ShellState,
    ) -> io::Result<ProgramOutputs> {
        let mut passed_on = Vec::new();
        let mut end = |output: &Output| match output.as_file() {
            Some(file) => file.as_fd().try_clone_to_owned(),
            None => {
                let (end, one) = OutputForwarder::open(output, rule, &state.threads)?;
                passed_on.push(one);
                Ok(end)
            }
        };
        let stdout = end(out)?;
        let stderr = if err.is_same(out) {
            stdout.try_clone()?
        } else {
            end(err)?
        };
        let ends = [stdout, stderr];
        Ok(ProgramOutputs { ends, passed_on })
    }
}

/// A thread that passes on a program's output to something that is not a file.
struct OutputForwarder {
    /// Closed when the program has ended.
    ending: OwnedFd,
    working: RunningJob<()>,
    kept: Option<LineOutput>,
}

/// The part of a program's output that leaves the line.
struct LineOutput {
    to: Output,
    by: LineStream,
    limited: SharedOutput,
    /// The buffer that holds the output until the program has succeeded or failed; `None` if the rule does not ask for
    /// it.
    held: Option<OutputBuffer>,
}

impl OutputForwarder {
    /// Starts the thread. Returns the program's end of the pipe.
    fn open(
        to: &Output,
        rule: OutputRule,
        threads: &ThreadPool,
    ) -> io::Result<(OwnedFd, OutputForwarder)> {
        let (reading, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let kept = to
            .line_stream()
            .map(|by| LineOutput::new(to.clone(), by, rule));
        let mut into: Box<dyn Write + Send> = match &kept {
            Some(kept) => Box::new(kept.limited.clone()),
            None => Box::new(to.clone()),
        };
        let working = threads.start(move || drain(&reading, &ended, &mut *into))?;
        let one = OutputForwarder {
            ending,
            working,
            kept,
        };
        Ok((end, one))
    }

    /// Waits until the program's output is passed on, as far as the rule lets it.
    fn finish(self, succeeded: bool, deadline: &Deadline) {
        drop(self.ending);
        let _ = self.working.join();
        let Some(LineOutput {
            mut to,
            by,
            limited,
            held,
        }) = self.kept
        else {
            return;
        };
        let is_cut = limited.finish();
        if succeeded && held.is_some() {
            return;
        }
        if is_cut {
            deadline.note_truncated(by);
        }
        if let Some(held) = held {
            // A closed stream has no reader to report to.
            let _ = to.write_all(&held.take()).and_then(|()| to.flush());
        }
    }
}

impl LineOutput {
    fn new(to: Output, by: LineStream, rule: OutputRule) -> LineOutput {
        let held = rule.failures_only.then(OutputBuffer::default);
        let limits = Limits {
            // 0 would be no limit.
            bytes: rule.bytes.max(1),
            lines: 0,
            ..Limits::default()
        };
        let into: Box<dyn Write + Send> = match &held {
            Some(held) => Box::new(held.clone()),
            None => Box::new(to.clone()),
        };
        LineOutput {
            limited: SharedOutput::new(into, &limits, "lines"),
            to,
            by,
            held,
        }
    }
}
