//! Redirects at run time: expanding their words and opening their files.

use std::io;

use super::call::{DEV_NULL, ShellState, reason};
use super::expand::{self, ExpandedWord, ExpansionError, SubstitutionFn};
use super::stream::{Input, Output};
use super::syntax::{RedirectTarget, Word};
use trumanfs_executor::home::WriteMode;
use trumanfs_types::error::Error;

/// The mode of files created by a redirect, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// The opened target of a redirect.
pub(super) enum OpenedTarget {
    In(Input),
    Out(Output),
}

/// Opens the target of a redirect, or returns the message of the failure.
///
/// # Errors
/// `TimedOut` only: the line has to end.
pub(super) fn open(
    to: &RedirectTarget,
    err: &Output,
    state: &mut ShellState,
    substitute: &mut SubstitutionFn<'_>,
) -> io::Result<Result<OpenedTarget, Vec<u8>>> {
    let word = match to {
        RedirectTarget::Here(text) => {
            let text = expand::expand_text(text, state, substitute)?;
            return Ok(Ok(OpenedTarget::In(Input::bytes(text))));
        }
        RedirectTarget::Read(word) | RedirectTarget::Write(word) | RedirectTarget::Append(word) => {
            word
        }
        RedirectTarget::Same(_) => return Ok(Ok(OpenedTarget::Out(err.clone()))),
    };
    let path = match expand_target(word, state, substitute) {
        Ok(field) => field,
        Err(ExpansionError::Stopped(error)) => return Err(error),
        Err(ExpansionError::Message(message)) => return Ok(Err(message)),
    };
    let shown = path.tilde.as_ref().unwrap_or(&path.text);
    Ok(open_path(to, &path.text, state)
        .map_err(|error| [shown, &b": "[..], reason(error.errno()).as_bytes()].concat()))
}

fn open_path(to: &RedirectTarget, path: &[u8], state: &ShellState) -> Result<OpenedTarget, Error> {
    let how = match to {
        RedirectTarget::Write(_) => WriteMode::Truncate,
        RedirectTarget::Append(_) => WriteMode::Append,
        _ if path == DEV_NULL => return Ok(OpenedTarget::In(Input::empty())),
        _ => {
            let path = state.path(path)?;
            // Opening a directory for reading succeeds; the command's first read fails.
            if state.home.stat(&path)?.is_dir() {
                return Ok(OpenedTarget::In(Input::directory()));
            }
            return state
                .home
                .open(&path)
                .map(|file| OpenedTarget::In(Input::file(file, &state.deadline)));
        }
    };
    if path == DEV_NULL {
        return Ok(OpenedTarget::Out(Output::null()));
    }
    let path = state.new_file_path(path)?;
    state
        .home
        .open_write(&path, how, NEW_FILE_MODE)
        .map(|file| OpenedTarget::Out(Output::file(file)))
}

/// Expands the word of a redirect, which must yield a single word.
fn expand_target(
    word: &Word,
    state: &mut ShellState,
    run: &mut SubstitutionFn<'_>,
) -> Result<ExpandedWord, ExpansionError> {
    let mut fields = expand::expand_words(std::slice::from_ref(word), state, run)?;
    match (fields.pop(), fields.is_empty()) {
        (Some(field), true) => Ok(field),
        _ => {
            let typed = word.plain().unwrap_or_else(|| b"redirect".to_vec());
            Err(ExpansionError::Message(
                [&typed, &b": ambiguous redirect"[..]].concat(),
            ))
        }
    }
}
