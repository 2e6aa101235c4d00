//! Redirects at run time: expanding their words and opening their files.

use std::io;

use super::call::{NULL, ShellState, reason};
use super::expand::{self, Failure, Field, Substitute};
use super::stream::{Input, Output};
use super::syntax::{Target, Word};
use trumanfs_executor::home::Writing;
use trumanfs_types::error::Error;

/// The mode of files created by a redirect, before the umask.
const MADE: u32 = 0o666;

/// The opened target of a redirect.
pub(super) enum End {
    In(Input),
    Out(Output),
}

/// Opens the target of a redirect, or returns why it cannot.
///
/// # Errors
/// `TimedOut` only: the line has to end.
pub(super) fn open(
    to: &Target,
    err: &Output,
    state: &mut ShellState,
    substitute: &mut Substitute<'_>,
) -> io::Result<Result<End, Vec<u8>>> {
    let word = match to {
        Target::Here(text) => {
            let text = expand::text(text, state, substitute)?;
            return Ok(Ok(End::In(Input::bytes(text))));
        }
        Target::Read(word) | Target::Write(word) | Target::Append(word) => word,
        Target::Same(_) => return Ok(Ok(End::Out(err.clone()))),
    };
    let path = match one(word, state, substitute) {
        Ok(field) => field,
        Err(Failure::Ended(error)) => return Err(error),
        Err(Failure::Told(message)) => return Ok(Err(message)),
    };
    let shown = path.tilde.as_ref().unwrap_or(&path.text);
    Ok(end(to, &path.text, state)
        .map_err(|error| [shown, &b": "[..], reason(error.errno()).as_bytes()].concat()))
}

fn end(to: &Target, path: &[u8], state: &ShellState) -> Result<End, Error> {
    let how = match to {
        Target::Write(_) => Writing::Truncate,
        Target::Append(_) => Writing::Append,
        _ if path == NULL => return Ok(End::In(Input::empty())),
        _ => {
            let path = state.path(path)?;
            // Opening a directory for reading succeeds; the command's first read fails.
            if state.home.stat(&path)?.is_dir() {
                return Ok(End::In(Input::directory()));
            }
            return state
                .home
                .open(&path)
                .map(|file| End::In(Input::file(file, &state.deadline)));
        }
    };
    if path == NULL {
        return Ok(End::Out(Output::null()));
    }
    let path = state.path_to_make(path)?;
    state
        .home
        .open_write(&path, how, MADE)
        .map(|file| End::Out(Output::file(file)))
}

/// Expands the word of a redirect, which must yield a single word.
fn one(word: &Word, state: &mut ShellState, run: &mut Substitute<'_>) -> Result<Field, Failure> {
    let mut fields = expand::fields(std::slice::from_ref(word), state, run)?;
    match (fields.pop(), fields.is_empty()) {
        (Some(field), true) => Ok(field),
        _ => {
            let typed = word.plain().unwrap_or_else(|| b"redirect".to_vec());
            Err(Failure::Told(
                [&typed, &b": ambiguous redirect"[..]].concat(),
            ))
        }
    }
}
