//! What records say of a file's content, one on top of the other, and the versions that they name.
//!
//! Owns how the files in `versions/` are found and their lists of ranges read. A version that is missing is an error that
//! names it.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::copy::io_error;
use crate::error::{Error, Result};
use crate::operator::Store;
use crate::world::root::open_beneath;
use crate::world::state::SESSIONS;

/// What one record says of the content before it.
#[derive(Debug)]
pub struct Layer {
    /// How the content before comes from the one after.
    pub kind: Kind,
    /// Its size; that of what is below where absent.
    pub size: Option<u64>,
    /// Whether the record itself says the size.
    pub cuts: bool,
    /// The record: its session and its number.
    pub record: (Arc<str>, u64),
    /// The content after; what is on the disk now where absent.
    pub below: Option<Arc<Layer>>,
}

/// How a content comes from the one after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// It is a version: session and number.
    Whole(Arc<str>, u64),
    /// A version holds those ranges of it that its list names.
    Ranges(Arc<str>, u64),
    /// It differs in its length only, if the size says so.
    Same,
}

impl Layer {
    /// Puts a record's word on top of what came after it.
    pub fn over(
        kind: Kind,
        size: Option<u64>,
        record: (Arc<str>, u64),
        below: Option<Arc<Layer>>,
    ) -> Arc<Layer> {
        let below = match (&kind, below) {
            (Kind::Whole(..), _) => None,
            // A file that is appended to a million times needs one layer: the shortest.
            (Kind::Same, Some(below))
                if below.kind == Kind::Same
                    && (below.size.is_none() || size.is_some() && size <= below.size) =>
            {
                below.below.clone()
            }
            (_, below) => below,
        };
        let cuts = size.is_some();
        let size = size.or(below.as_ref().and_then(|below| below.size()));
        Arc::new(Layer {
            kind,
            size,
            cuts,
            record,
            below,
        })
    }

    /// Returns the size of the content; `None` where it is that of what is on the disk.
    pub fn size(&self) -> Option<u64> {
        self.size
    }
}

impl Drop for Layer {
    /// Without recursion: a file can have more layers than the stack has room for.
    fn drop(&mut self) {
        let mut below = self.below.take();
        while let Some(layer) = below {
            match Arc::try_unwrap(layer) {
                Ok(mut layer) => below = layer.below.take(),
                Err(_) => break,
            }
        }
    }
}

/// Opens a version.
///
/// # Errors
/// [`Error::Missing`] naming it where it is not there.
pub(super) fn version(
    store: &Store,
    session: &str,
    n: u64,
    of: &dyn Fn() -> String,
) -> Result<File> {
    open_version(store, session, &format!("{n:08}")).map_err(|error| missing(error, n, of))
}

fn open_version(store: &Store, session: &str, name: &str) -> Result<File> {
    let path = format!("{SESSIONS}/{session}/versions/{name}");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = open_beneath(store.state().as_fd(), path.as_bytes(), flags, Mode::empty());
    opened.map(File::from)
}

fn missing(error: Error, n: u64, of: &dyn Fn() -> String) -> Error {
    match error {
        Error::NotFound => Error::Missing {
            what: format!("the content before {} (version {n}) is not in the store any more", of()),
            remedy: "It was evicted (`trumanfs log` says so) or deleted behind the mount; `trumanfs fsck` names all \
                     that is missing."
                .to_owned(),
        },
        error => error,
    }
}

/// Reads the list of ranges that a version has: starts and ends, in order, without overlap.
///
/// # Errors
/// As [`version`]; [`Error::Damaged`] for a list that cannot be read.
pub(super) fn ranges(
    store: &Store,
    session: &str,
    n: u64,
    of: &dyn Fn() -> String,
) -> Result<Vec<(u64, u64)>> {
    let mut text = String::new();
    let mut file = open_version(store, session, &format!("{n:08}.map"))
        .map_err(|error| missing(error, n, of))?;
    file.read_to_string(&mut text)
        .map_err(|e| io_error("read", &e))?;
    // What follows the last newline was being written when the machine went down; its blocks were not overwritten yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut ranges = Vec::new();
    for line in whole.lines() {
        let parsed = line
            .split_once(' ')
            .and_then(|(start, length)| Some((start.parse().ok()?, length.parse::<u64>().ok()?)));
        let range = parsed
            .and_then(|(start, length): (u64, u64)| Some((start, start.checked_add(length)?)));
        let range = range.ok_or_else(|| {
            Error::Damaged(format!(
                "the list of what version {n} before {} holds cannot be read: {line:?}",
                of()
            ))
        })?;
        if range.0 < range.1 {
            ranges.push(range);
        }
    }
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    Ok(merged)
}
