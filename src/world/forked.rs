//! What a fork remembers of its origin: the file `fork` in its state directory.
//!
//! Owns the format of that file. It is written once, when the fork is made, and never changed.

use std::io::Write;
use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;

use super::layout::FORK;
use super::own;
use crate::error::{Error, Result};
use crate::journal::StoreId;

/// The schema of the file.
const SCHEMA: u32 = 1;

/// The longest such file, in bytes: a path may have 4096, each escaped as four characters.
const LONGEST: u64 = 64 << 10;

/// How a fork got the contents of its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Means {
    /// Files share their blocks with those of the origin (`FICLONE`).
    Cloned,
    /// Files are copies.
    Copied,
}

/// The origin of a fork, and the point at which the fork was made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ForkedFrom {
    v: u32,
    /// The path of the origin then, escaped.
    pub origin: String,
    /// Which store the origin is, wherever it has been moved to since.
    pub store: StoreId,
    /// The origin's newest record that the fork includes, as `SESSION:NUMBER`; absent where the origin had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// When the fork was made, RFC 3339 in UTC.
    pub time: String,
    /// How the contents came along.
    pub means: Means,
}

impl ForkedFrom {
    /// Makes the note of a fork that is made now.
    pub fn now(origin: String, store: StoreId, point: Option<String>, means: Means) -> ForkedFrom {
        let now = chrono::Utc::now();
        ForkedFrom {
            v: SCHEMA,
            origin,
            store,
            point,
            time: now.to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
            means,
        }
    }

    /// Writes the note into a state directory that has none.
    ///
    /// # Errors
    /// `EEXIST`; any error from `openat2(2)` or `write(2)`.
    pub fn write(&self, state: BorrowedFd<'_>) -> Result<()> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        let mut file = own::make(state, FORK.as_bytes(), OFlags::WRONLY, 0o600)?;
        file.write_all(&text)
            .map_err(|error| Error::io("write", &error))
    }
}

/// Reads what a store remembers of its origin; `None` where it is no fork. `state` is its `.trumanfs`.
///
/// # Errors
/// [`Error::Damaged`] where the file cannot be understood; [`Error::Refused`] where it is no plain file.
pub fn forked_from(state: BorrowedFd<'_>) -> Result<Option<ForkedFrom>> {
    let file = match own::open(state, FORK.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => return Ok(None),
        file => file?,
    };
    let text = own::read(&file, FORK, LONGEST)?;
    let said = |why: &str| Error::Damaged(format!(".trumanfs/{FORK}: {why}"));
    let note: ForkedFrom = serde_json::from_str(&text).map_err(|error| said(&error.to_string()))?;
    match note.v {
        SCHEMA => Ok(Some(note)),
        v => Err(said(&format!("schema {v} is of a newer release"))),
    }
}
