//! A line that is run alone: `bash -c LINE`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

use super::line_output::{OutputEnd, OutputThreads};
use super::running_shell::REST_LIMIT;
use super::shell_start::ShellStart;
use crate::exec::CancelToken;
use crate::exec::home::Home;
use crate::exec::pipeline::RequestStreams;
use crate::exec::program::program_home::ProgramHome;
use crate::exec::program::sandbox::{LaunchError, ProgramEnd};
use crate::exec::program::served_sandbox::open_nothing;
use crate::exec::request::ProgramReport;
use crate::world::RunId;

/// Runs a line in a shell of its own. Returns its end, where it came to that, and that of its output.
///
/// # Errors
/// No sandbox can be made.
pub(super) fn run_single_line(
    programs: &ProgramHome,
    start: &ShellStart,
    (home, run): (&Arc<dyn Home>, RunId),
    (line, cwd): (&[u8], &[u8]),
    streams: RequestStreams,
    cancel: &CancelToken,
    report: &mut ProgramReport,
) -> Result<(Option<ProgramEnd>, OutputEnd), LaunchError> {
    let sandbox = start.make_sandbox(programs, &**home, Vec::new(), move || run)?;
    sandbox.describe(report);
    let pipe = || -> Result<(OwnedFd, OwnedFd), LaunchError> { Ok(pipe_with(PipeFlags::CLOEXEC)?) };
    let ((out, of_out), (err, of_err)) = (pipe()?, pipe()?);
    let stdin = match streams.stdin {
        Some(stdin) => stdin,
        None => open_nothing()?,
    };
    let words = start.line_words(line);
    let number = start.start_in(&sandbox, &words, cwd, [stdin, of_out, of_err])?;
    let mut threads = OutputThreads::default();
    let output = threads.start([(out, streams.stdout), (err, streams.stderr)])?;
    let go_on = || cancel.ended().is_none() && !programs.is_lost();
    let end = sandbox.service().wait(number, &go_on);
    sandbox.end(report);
    home.programs_have_ended();
    Ok((end, threads.finish(output, REST_LIMIT)))
}
