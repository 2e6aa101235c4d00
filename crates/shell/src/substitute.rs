//! The output of `$(…)`, and `$(< file)`, which runs no command.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use super::call::{ShellState, from_io_error, reason, report_shell_error};
use super::deadline::Deadline;
use super::stream::{Input, Output};
use super::syntax::{AndOr, CommandList, Redirect, RedirectTarget, StageBody};

/// Returns the redirect of `$(< file)`, which stands for the file's content.
pub(super) fn file_read_only(list: &CommandList) -> Option<&RedirectTarget> {
    let [AndOr { first, rest }] = &list[..] else {
        return None;
    };
    let (true, false, [stage]) = (rest.is_empty(), first.negated, &first.stages[..]) else {
        return None;
    };
    match (&stage.body, &stage.redirects[..]) {
        (StageBody::Simple { assignments, words }, [Redirect { stream: 0, target }])
            if assignments.is_empty()
                && words.is_empty()
                && matches!(target, RedirectTarget::Read(_)) =>
        {
            Some(target)
        }
        _ => None,
    }
}

/// Copies the rest of an input. Returns the status.
///
/// # Errors
/// `TimedOut`; write errors.
pub(super) fn copy_rest(
    from: &mut Input,
    to: &mut Output,
    err: &mut Output,
    state: &ShellState,
) -> io::Result<u8> {
    loop {
        state.deadline.check()?;
        let length = match from.fill_buf() {
            Ok([]) => return Ok(0),
            Ok(chunk) => {
                to.write_all(chunk)?;
                chunk.len()
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(error) => {
                report_shell_error(err, &[reason(from_io_error(&error).errno()).as_bytes()]);
                return Ok(1);
            }
        };
        from.consume(length);
    }
}

/// A writer that collects its output in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct CollectedOutput(Arc<Mutex<Vec<u8>>>, Deadline);

impl CollectedOutput {
    /// Makes a writer whose bytes count towards the line's memory limit.
    pub(super) fn counted(deadline: &Deadline) -> CollectedOutput {
        CollectedOutput(Arc::default(), deadline.clone())
    }

    /// Takes the collected output.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for CollectedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.hold_memory(bytes.len())?;
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
