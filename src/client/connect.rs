//! The connection to the daemon that serves a store.
//!
//! The one place that says what it means that the daemon does not answer, or goes away before it has.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use crate::control::{Answer, Request, send, socket_path};
use crate::error::{Error, Result};

const SAME_RELEASE: &str = "Use the trumanfs of the same release as the daemon's";

/// Asks the daemon that serves a store. What it answers is never [`Answer::Failed`].
///
/// # Errors
/// What the daemon says that it could not do; [`Error::Refused`] where none answers, with what to do about it; [`Error::Partly`] where
/// it goes away while it may be changing something.
pub(super) fn ask(state: impl AsFd, request: &Request) -> Result<Answer> {
    let unreachable = |error: Error| {
        Error::refused(
            format!("the daemon that serves this store does not answer: {error}"),
            "Only root and the user who mounted the store may ask, and only on the machine that serves it.",
        )
    };
    let connection = UnixStream::connect(socket_path(&state))
        .map_err(|error| unreachable(Error::io("connect", &error)))?;
    // A request that did not arrive whole is not acted upon.
    send(&connection, request).map_err(unreachable)?;
    let mut line = String::new();
    let heard = BufReader::new(&connection).read_line(&mut line);
    if heard.is_err() || !line.ends_with('\n') {
        return Err(lost(request));
    }
    match serde_json::from_str(&line) {
        Ok(Answer::Failed { kind, what, remedy }) => Err(kind.error(what, remedy)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(misunderstood(request, &error.to_string())),
    }
}

/// Says that an answer is none to the request.
pub(super) fn misunderstood(request: &Request, why: &str) -> Error {
    let what = format!("the daemon's answer cannot be understood: {why}");
    match request.changes() {
        true => Error::Partly {
            what: format!("{what}; the change may have been made"),
            remedy: format!("{SAME_RELEASE}; its `log` shows what was done."),
        },
        false => Error::refused(what, format!("{SAME_RELEASE}.")),
    }
}

/// Says what it means that the daemon, or its end of this connection, is gone before it has answered.
fn lost(request: &Request) -> Error {
    match request.changes() {
        true => Error::Partly {
            what: "the daemon went away in the middle of it: part of it may have been done"
                .to_owned(),
            remedy: "What was done is recorded, and nothing is lost.".to_owned(),
        },
        false => Error::refused(
            "the daemon went away before it answered",
            "Where it has died, `trumanfs umount` cleans up; nothing is lost.",
        ),
    }
}
