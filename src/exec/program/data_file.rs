//! The data files of `agents/`: facts that are part of the program.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Reads a file, given its path below `agents/` and its text.
///
/// # Errors
/// [`Error::Damaged`] for one that is not understood; tests read them all.
pub(super) fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T> {
    let wrong = |error: serde_json::Error| Error::Damaged(format!("agents/{path}: {error}"));
    serde_json::from_str(text).map_err(wrong)
}

/// Reads the one of these files, each with its name, that has a name; `None` if none has. `dir` is where they lie below
/// `agents/`, with a slash at its end.
///
/// # Errors
/// As [`parse`].
pub(super) fn named<T: DeserializeOwned>(
    dir: &str,
    files: &[(&str, &str)],
    name: &str,
) -> Result<Option<T>> {
    let file = files.iter().find(|(known, _)| *known == name);
    file.map(|(name, text)| parse(&format!("{dir}{name}.json"), text))
        .transpose()
}
