//! Lines that [`LineFields`](super::fields::LineFields) does not read: up to schema 5, JSON in any form was a record.
//!
//! Such lines are rare, as no release wrote any; this way is slow. Each is brought into the form of later schemas, for
//! readers of single fields.

use serde::de::{DeserializeOwned, Error as _};

use super::encoder;
use super::line_ends;
use super::record::{FIXED_FORM, Record};
use super::seal::Seal;

/// Parses a record.
///
/// # Errors
/// The syntax error of an invalid line.
pub(super) fn record(line: &[u8]) -> serde_json::Result<Record> {
    any_form(line)
}

/// Parses a seal.
///
/// # Errors
/// The syntax error of an invalid line.
pub(super) fn seal(line: &[u8]) -> serde_json::Result<Seal> {
    any_form(line)
}

/// Returns a record's line in the form of later schemas.
///
/// # Errors
/// The syntax error of an invalid line.
pub(super) fn in_fixed_form(line: &[u8]) -> serde_json::Result<Vec<u8>> {
    encoder::line(&record(line)?)
}

fn any_form<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<T> {
    let parsed = serde_json::from_slice(line)?;
    match line_ends::schema(line) {
        v if v >= FIXED_FORM => Err(serde_json::Error::custom(format!(
            "its fields are not as schema {v} has them"
        ))),
        _ => Ok(parsed),
    }
}
