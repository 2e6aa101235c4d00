//! Real programs in a line, and the streams that they are given.
//!
//! A program needs descriptors where commands have streams in this process. So what is no file becomes a pipe with a
//! thread at its other end. Standard input that has become a pipe stays one: what a program leaves in it, the next
//! command reads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use super::call::{ShellState, of_io, reason, tell};
use super::deadline::{Deadline, Leaving};
use super::stream::{CHUNK, Input, Output, empty_file};
use super::thread_pool::{ThreadPool, Working};
use trumanfs_executor::drain::drain;
use trumanfs_executor::line_programs::{NotRun, OutputRule, Program, Variable};
use trumanfs_executor::request::Limits;
use trumanfs_executor::streams::{Gathered, Shared};

/// The status of a program that may not run as it was asked for.
const BLOCKED: u8 = 126;

impl ShellState {
    /// Returns whether a real program has this name, and no bundled command does.
    pub(super) fn is_program(&self, name: &[u8]) -> bool {
        let programs = self.programs.as_ref();
        self.registry.named(name).is_none() && programs.is_some_and(|programs| programs.knows(name))
    }

    /// Returns whether the line has to end because its home is gone. Known only of lines that may run programs: they hold
    /// the home.
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
    (words, env): (&[Vec<u8>], &[Variable]),
    input: &mut Input,
    (output, error_output): (&Output, &mut Output),
    state: &ShellState,
) -> io::Result<u8> {
    let Some(programs) = &state.line_programs else {
        return Ok(BLOCKED);
    };
    let program = Program {
        words,
        env,
        cwd: state.shown(&state.cwd),
    };
    let ended = match programs.admit(program) {
        Ok(program) => {
            let rule = program.output();
            let ends = stdin(input, state)
                .and_then(|stdin| Ok((stdin, Outputs::open(output, error_output, rule, state)?)));
            let (stdin, outputs) = match ends {
                Ok(ends) => ends,
                Err(error) => {
                    tell(error_output, &[reason(of_io(&error).errno()).as_bytes()]);
                    return Ok(BLOCKED);
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
        Err(NotRun::Over) => Err(io::ErrorKind::TimedOut.into()),
        Err(NotRun::Refused(why, status)) => {
            let name = words.first().map_or(&b""[..], Vec::as_slice);
            tell(error_output, &[name, b": ", &why]);
            Ok(status)
        }
    }
}

/// Returns a descriptor of an input. What is no file becomes a pipe, and stays one.
fn stdin(input: &mut Input, state: &ShellState) -> io::Result<OwnedFd> {
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
    // Ends with its input, or when nobody reads the pipe any more.
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
struct Outputs {
    /// Standard output and standard error, as the program gets them.
    ends: [OwnedFd; 2],
    passed_on: Vec<PassedOn>,
}

impl Outputs {
    /// Opens them. Files are written by the program itself. Where both lead to the same place, the program writes both into
    /// one pipe, which keeps the order of what it writes.
    fn open(
        out: &Output,
        err: &Output,
        rule: OutputRule,
        state: &ShellState,
    ) -> io::Result<Outputs> {
        let mut passed_on = Vec::new();
        let mut end = |output: &Output| match output.as_file() {
            Some(file) => file.as_fd().try_clone_to_owned(),
            None => {
                let (end, one) = PassedOn::open(output, rule, &state.threads)?;
                passed_on.push(one);
                Ok(end)
            }
        };
        let stdout = end(out)?;
        let stderr = match err.is_same(out) {
            true => stdout.try_clone()?,
            false => end(err)?,
        };
        let ends = [stdout, stderr];
        Ok(Outputs { ends, passed_on })
    }
}

/// What a program writes to something that is no file, and the thread that passes it on.
struct PassedOn {
    /// Closed when the program has ended.
    ending: OwnedFd,
    working: Working<()>,
    kept: Option<Kept>,
}

/// That part of a program's output that leaves the line.
struct Kept {
    to: Output,
    by: Leaving,
    limited: Shared,
    /// Where it is until it is known whether the program succeeds.
    held: Option<Gathered>,
}

impl PassedOn {
    /// Begins to pass on; returns the program's end.
    fn open(
        to: &Output,
        rule: OutputRule,
        threads: &ThreadPool,
    ) -> io::Result<(OwnedFd, PassedOn)> {
        let (reading, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let kept = to.leaves().map(|by| Kept::new(to.clone(), by, rule));
        let mut into: Box<dyn Write + Send> = match &kept {
            Some(kept) => Box::new(kept.limited.clone()),
            None => Box::new(to.clone()),
        };
        let working = threads.start(move || drain(&reading, &ended, &mut *into))?;
        let one = PassedOn {
            ending,
            working,
            kept,
        };
        Ok((end, one))
    }

    /// Waits until what the program has written is passed on, as far as it leaves.
    fn finish(self, succeeded: bool, deadline: &Deadline) {
        drop(self.ending);
        let _ = self.working.join();
        let Some(Kept {
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
            // Where nobody listens, nobody is told.
            let _ = to.write_all(&held.take()).and_then(|()| to.flush());
        }
    }
}

impl Kept {
    fn new(to: Output, by: Leaving, rule: OutputRule) -> Kept {
        let held = rule.only_of_failures.then(Gathered::default);
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
        Kept {
            limited: Shared::new(into, &limits, "lines"),
            to,
            by,
            held,
        }
    }
}
