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
use super::stream::{CHUNK, Input, Output, empty_file};
use super::thread_pool::{ThreadPool, Working};
use crate::exec::drain::drain;
use crate::exec::line_programs::{NotRun, Program, Variable};

/// The status of a program that may not run as it was asked for.
const BLOCKED: u8 = 126;

impl ShellState {
    /// Returns whether a real program has this name, and no bundled command does.
    pub(super) fn is_program(&self, name: &[u8]) -> bool {
        let programs = self.programs.as_ref();
        self.registry.named(name).is_none() && programs.is_some_and(|programs| programs.knows(name))
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
    let failed = |error: io::Error, err: &mut Output| {
        tell(err, &[reason(of_io(&error).errno()).as_bytes()]);
        Ok(BLOCKED)
    };
    let ends = stdin(input, state).and_then(|stdin| {
        let out = Outgoing::open(output, &state.threads)?;
        Ok((stdin, out, Outgoing::open(error_output, &state.threads)?))
    });
    let (stdin, out, err) = match ends {
        Ok(ends) => ends,
        Err(error) => return failed(error, error_output),
    };
    let program = Program {
        words,
        env,
        cwd: state.shown(&state.cwd),
        streams: [stdin, out.end, err.end],
    };
    let ended = programs.run(program, &|| state.deadline.check().is_ok());
    for pump in [out.pump, err.pump].into_iter().flatten() {
        pump.finish();
    }
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

/// A descriptor for an output.
struct Outgoing {
    end: OwnedFd,
    pump: Option<Pump>,
}

/// The thread that passes on what a program writes.
struct Pump {
    /// Closed when the program has ended.
    ending: OwnedFd,
    working: Working<()>,
}

impl Pump {
    /// Waits until what the program has written is passed on.
    fn finish(self) {
        drop(self.ending);
        let _ = self.working.join();
    }
}

impl Outgoing {
    /// Opens one. Files are written by the program itself.
    fn open(output: &Output, threads: &ThreadPool) -> io::Result<Outgoing> {
        if let Some(file) = output.as_file() {
            let end = file.as_fd().try_clone_to_owned()?;
            return Ok(Outgoing { end, pump: None });
        }
        let (reading, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ended, ending) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut to = output.clone();
        let working = threads.start(move || drain(&reading, &ended, &mut to))?;
        let pump = Some(Pump { ending, working });
        Ok(Outgoing { end, pump })
    }
}
