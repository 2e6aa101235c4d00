//! `-exec`: runs a bundled command for each entry, or for many at once. No other program can be run.

use std::io;

use super::messages::{invalid_argument, missing_argument};
use crate::admit::{look_up_unknown, runs_for_find};
use crate::call::{Call, CommandError, ShellState, usage_error};

/// The maximum size of the paths for one command, in bytes: GNU's default.
const MAX_PATH_BYTES: usize = 128 * 1024;

/// A command as it was typed, with `{}` where paths go.
#[derive(Debug, Clone)]
pub(super) struct CommandTemplate(Vec<Vec<u8>>);

/// A command of `-exec`, by the way it is run.
pub(super) enum ExecAction {
    /// `;`: once for each entry.
    Each(CommandTemplate),
    /// `{} +`: for many entries at once. The final `{}` is left out.
    Many(CommandTemplate),
}

impl ExecAction {
    /// Reads a command up to its terminator.
    ///
    /// # Errors
    /// A malformed command, in GNU's words.
    pub(super) fn read(
        rest: &mut &[Vec<u8>],
        state: &ShellState,
    ) -> Result<ExecAction, CommandError> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        while let Some((word, after)) = rest.split_first() {
            *rest = after;
            match (&word[..], words.last().map(Vec::as_slice)) {
                (b";", None) => return Err(invalid_argument(b";", b"-exec")),
                (b";", _) => return template(words, state).map(ExecAction::Each),
                (b"+", Some(b"{}")) => {
                    words.pop();
                    if words.iter().any(|word| has_placeholder(word)) {
                        let message = "Only one instance of {} is supported with -exec ... +";
                        return Err(usage_error(message));
                    }
                    if words.is_empty() {
                        return Err(invalid_argument(b"{}", b"-exec"));
                    }
                    return template(words, state).map(ExecAction::Many);
                }
                (b"+", Some(last)) if has_placeholder(last) => {
                    let message =
                        b"In '-exec ... {} +' the '{}' must appear by itself, but you specified '";
                    return Err(usage_error([&message[..], last, b"'"].concat()));
                }
                _ => words.push(word.clone()),
            }
        }
        Err(missing_argument(b"-exec"))
    }
}

/// Makes a template, provided that the command is a bundled one.
fn template(words: Vec<Vec<u8>>, state: &ShellState) -> Result<CommandTemplate, CommandError> {
    let first = words.first();
    match first.filter(|name| !runs_for_find(name, state)) {
        Some(name) => Err(CommandError::Rejected(
            look_up_unknown(name, state).into_rejection(),
        )),
        None => Ok(CommandTemplate(words)),
    }
}

fn has_placeholder(word: &[u8]) -> bool {
    word.windows(2).any(|pair| pair == b"{}")
}

impl CommandTemplate {
    /// Runs the command for one path. Returns whether it succeeded.
    ///
    /// # Errors
    /// As [`Call::nested`].
    pub(super) fn run_for_path(&self, call: &mut Call<'_>, path: &[u8]) -> io::Result<bool> {
        let words: Vec<Vec<u8>> = self
            .0
            .iter()
            .map(|word| fill_placeholders(word, path))
            .collect();
        Ok(run(call, &words)? == Some(0))
    }

    /// Runs the command with paths at its end. Returns whether it succeeded.
    fn run_for_paths(&self, call: &mut Call<'_>, paths: Vec<Vec<u8>>) -> io::Result<bool> {
        let mut words = self.0.clone();
        words.extend(paths);
        Ok(run(call, &words)? == Some(0))
    }
}

/// Replaces each `{}` in a word by a path.
fn fill_placeholders(word: &[u8], path: &[u8]) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        filled.extend_from_slice(rest.get(..at).unwrap_or_default());
        filled.extend_from_slice(path);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    filled.extend_from_slice(rest);
    filled
}

/// Runs a command. Returns its status; `None` where there is no such command.
fn run(call: &mut Call<'_>, words: &[Vec<u8>]) -> io::Result<Option<u8>> {
    match words.split_first() {
        Some((name, args)) => match call.state.registry.find(name) {
            Some(command) => call.run_nested(command, args).map(Some),
            None => Ok(None),
        },
        None => Ok(None),
    }
}

/// The paths that wait for their command.
#[derive(Debug, Default)]
pub(super) struct PendingPaths {
    paths: Vec<Vec<u8>>,
    bytes: usize,
}

impl PendingPaths {
    /// Adds a path, and runs the command once there are enough. Returns whether the command succeeded, if it ran.
    ///
    /// # Errors
    /// As [`Call::nested`].
    pub(super) fn add(
        &mut self,
        template: &CommandTemplate,
        call: &mut Call<'_>,
        path: &[u8],
    ) -> io::Result<bool> {
        let size = path.len() + 1;
        let well = self.bytes + size <= MAX_PATH_BYTES || self.run(template, call)?;
        self.bytes += size;
        self.paths.push(path.to_vec());
        Ok(well)
    }

    /// Runs the command with the paths that wait. Returns whether it succeeded.
    ///
    /// # Errors
    /// As [`Call::nested`].
    pub(super) fn run(
        &mut self,
        template: &CommandTemplate,
        call: &mut Call<'_>,
    ) -> io::Result<bool> {
        if self.paths.is_empty() {
            return Ok(true);
        }
        self.bytes = 0;
        template.run_for_paths(call, std::mem::take(&mut self.paths))
    }
}
