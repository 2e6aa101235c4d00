//! What becomes of one file's content, of its base and of both sides.

use crate::error::{Error, Result};
use crate::operator::past::{Content, NodeId, Tree};

use crate::operator::text::{LONGEST, merge};

/// A tree and a node of it.
pub(super) type At<'t, 'a> = (&'t Tree<'a>, NodeId);

/// Opens a content.
///
/// # Errors
/// As [`Tree::content`]; [`Error::System`] with its path where this user may not read it.
pub(super) fn content((tree, node): At<'_, '_>) -> Result<Content> {
    let path = || {
        tree.path(node)
            .map_or(String::new(), |path| path.to_string())
    };
    let what = || format!("{} (in the fork or its origin)", path());
    tree.content(node).map_err(|error| error.of_reading(what))
}

/// What becomes of a content.
#[derive(Debug)]
pub(super) enum Becomes {
    /// It stays as it is in the origin.
    Ours,
    /// It is as in the fork.
    Theirs,
    /// Both sides' changes, line by line.
    Text(Vec<u8>),
    /// Both sides changed it, and why that cannot be merged.
    Conflict(&'static str),
}

/// Returns whether two files have the same bytes.
///
/// # Errors
/// As [`Tree::content`].
pub(super) fn is_same(one: At<'_, '_>, other: At<'_, '_>) -> Result<bool> {
    if one.0.meta(one.1)?.size != other.0.meta(other.1)?.size {
        return Ok(false);
    }
    content(one)?.equals(&content(other)?)
}

/// Returns whether a file begins with all bytes of another one.
fn begins_with(whole: At<'_, '_>, beginning: At<'_, '_>) -> Result<bool> {
    use std::io::Read;
    let (whole, beginning) = (content(whole)?, content(beginning)?);
    if whole.size() < beginning.size() {
        return Ok(false);
    }
    let (mut one, mut two) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut reader = beginning.reader();
    let mut at = 0;
    loop {
        let read = reader.read(&mut one);
        let read = read.map_err(|error| Error::io("read", &error))?;
        let mut seen = 0;
        while let Some(part) = two.get_mut(seen..read).filter(|part| !part.is_empty()) {
            match whole.read_at(part, at + seen as u64)? {
                0 => return Ok(false),
                more => seen += more,
            }
        }
        if one.get(..read) != two.get(..read) {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
        at += read as u64;
    }
}

/// Decides about a content that has changed in the fork; without a base, it was made there.
///
/// # Errors
/// As [`Tree::content`], but for a base that has not been kept.
pub(super) fn decide(
    base: Option<At<'_, '_>>,
    ours: At<'_, '_>,
    theirs: At<'_, '_>,
) -> Result<Becomes> {
    if is_same(ours, theirs)? {
        return Ok(Becomes::Ours);
    }
    let Some(base) = base else {
        // What a killed merge has made of a file, or what the fork has only added to: nothing of it gets lost.
        if begins_with(theirs, ours)? {
            return Ok(Becomes::Theirs);
        }
        return Ok(Becomes::Conflict(
            "was made on both sides, with different contents",
        ));
    };
    let was = match content(base) {
        Err(Error::Missing { .. } | Error::Damaged(_)) => None,
        was => Some(was?).filter(|was| was.missing().is_none()),
    };
    let Some(was) = was else {
        return Ok(Becomes::Conflict(
            "differs, and what it was when the fork was made has not been kept",
        ));
    };
    let (is, other) = (content(ours)?, content(theirs)?);
    if was.equals(&is)? {
        return Ok(Becomes::Theirs);
    }
    if was.equals(&other)? {
        return Ok(Becomes::Ours);
    }
    if [&was, &is, &other]
        .iter()
        .any(|content| content.size() > LONGEST)
    {
        return Ok(Becomes::Conflict(
            "was changed on both sides, and is too long to be merged by lines",
        ));
    }
    let merged = merge(&bytes(&was)?, &bytes(&is)?, &bytes(&other)?);
    Ok(merged.map_or(
        Becomes::Conflict("was changed on both sides, in the same lines or not as text"),
        Becomes::Text,
    ))
}

fn bytes(content: &Content) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = content.reader().read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &error))?;
    Ok(bytes)
}
