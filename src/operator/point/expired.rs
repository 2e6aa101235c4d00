//! The place before which a store's history has expired, for those who look for something before it.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::OFlags;

use super::{Operation, Point};
use crate::error::{Error, Result};
use crate::operator::Store;
use crate::world::store::layout::EXPIRED;
use crate::world::store::state_files;

/// The largest note that is read, in bytes.
const MAX_NOTE_BYTES: usize = 4096;

/// Returns the first record that stayed when the history before it expired; `None` if nothing has expired, or the note of
/// it cannot be read.
pub(super) fn expired_before(store: &Store) -> Option<Operation> {
    let file = state_files::open(store.state().as_fd(), EXPIRED.as_bytes(), OFlags::RDONLY).ok()?;
    let mut text = String::new();
    file.take(MAX_NOTE_BYTES as u64)
        .read_to_string(&mut text)
        .ok()?;
    Operation::try_from(text.trim_end().to_owned()).ok()
}

/// Checks that a point has not expired.
///
/// # Errors
/// [`Error::Missing`] where it has.
pub(super) fn expect_point(store: &Store, point: &Point) -> Result<()> {
    match (expired_before(store), point) {
        (Some(before), Point::After(at))
            if (&at.session, at.seq + 1) < (&before.session, before.seq) =>
        {
            Err(expired(&before, &at.to_string()))
        }
        _ => Ok(()),
    }
}

/// Says of a name that nothing has that it may have expired.
pub(super) fn of_unknown(store: &Store, error: Error, text: &str) -> Error {
    let is_session = text.len() >= 8 && text.bytes().take(8).all(|byte| byte.is_ascii_digit());
    match expired_before(store) {
        Some(before) if is_session && *text < *before.session => expired(&before, text),
        _ => error,
    }
}

fn expired(before: &Operation, what: &str) -> Error {
    Error::Missing {
        what: format!("{what} has expired: the history begins with operation {before}"),
        remedy: "`trumanfs expire` deleted what came before. A backup of the store may have it."
            .to_owned(),
    }
}
