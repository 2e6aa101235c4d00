//! The client side of the control socket: an operator's command sends a request to the daemon that serves a store.
//!
//! The one place that explains a daemon that does not answer, or goes away before it has.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::connection::{io, send};
use super::control::{Answer, Request, socket_path};
use crate::error::{Error, Result};

/// Sends a request to the daemon that serves a store. `go_on` tells the operator how to go on if the daemon goes away
/// in the middle of a change.
///
/// # Errors
/// [`Error::Refused`] with a remedy if no daemon answers; [`Error::Partly`] if it goes away during a change. The
/// daemon's own errors are in the answer.
pub fn ask(state: impl AsFd, request: &Request, go_on: &str) -> Result<Answer> {
    let unreachable = |error: Error| {
        Error::refused(
            format!("the daemon that serves this store does not answer: {error}"),
            "Only root and whoever mounted the store may ask, and only on the machine that serves it.",
        )
    };
    let connection = UnixStream::connect(socket_path(&state))
        .map_err(|error| unreachable(io("connect", &error)))?;
    // The daemon ignores a request that arrives incomplete.
    send(&connection, request).map_err(unreachable)?;
    let mut line = String::new();
    let heard = BufReader::new(&connection).read_line(&mut line);
    if heard.is_err() || !line.ends_with('\n') {
        return Err(lost(request, go_on));
    }
    serde_json::from_str(&line).map_err(|error| {
        let what = format!("the daemon's answer cannot be understood: {error}");
        match request.changes() {
            true => Error::Partly {
                what: format!("{what}; what was asked for may have been done"),
                remedy: "Use the trumanfs of the same release as the daemon's; its `log` says what was done.".to_owned(),
            },
            false => Error::refused(what, "Use the trumanfs of the same release as the daemon's."),
        }
    })
}

/// Returns the error for a daemon that goes away, or closes the connection, before it has answered.
fn lost(request: &Request, go_on: &str) -> Error {
    match request.changes() {
        true => Error::Partly {
            what: "the daemon went away in the middle of it: part of it may have been done"
                .to_owned(),
            remedy: format!("What was done is recorded, and nothing is lost. {go_on}"),
        },
        false => Error::refused(
            "the daemon went away before it answered",
            "Where it has died, `trumanfs umount` cleans up; nothing is lost.",
        ),
    }
}
