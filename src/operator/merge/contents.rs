//! Decides the content of a merged file, from its base and both sides.

use crate::error::{Error, Result};
use crate::operator::past::{NodeId, PastContent, PastTree};

use crate::operator::text::{MAX_TEXT_BYTES, merge};

/// A tree and a node of it.
pub(super) type TreeNode<'t, 'a> = (&'t PastTree<'a>, NodeId);

/// Opens a content.
///
/// # Errors
/// As [`PastTree::content`]; [`Error::System`] with its path where this user may not read it.
pub(super) fn open_content((tree, node): TreeNode<'_, '_>) -> Result<PastContent> {
    let path = || {
        tree.path(node)
            .map_or(String::new(), |path| path.to_string())
    };
    let what = || format!("{} (in the fork or its origin)", path());
    tree.content(node).map_err(|error| error.of_reading(what))
}

/// The content that a merged file gets.
#[derive(Debug)]
pub(super) enum ContentOutcome {
    /// The content of the origin.
    Ours,
    /// The content of the fork.
    Theirs,
    /// Both sides' changes, line by line.
    Text(Vec<u8>),
    /// Both sides changed the content; the reason why the changes cannot be merged.
    Conflict(&'static str),
}

/// Returns whether two files have the same bytes.
///
/// # Errors
/// As [`PastTree::content`].
pub(super) fn is_same(one: TreeNode<'_, '_>, other: TreeNode<'_, '_>) -> Result<bool> {
    if one.0.meta(one.1)?.size != other.0.meta(other.1)?.size {
        return Ok(false);
    }
    open_content(one)?.equals(&open_content(other)?)
}

/// Returns whether `half` is an unfinished copy of `whole`: a copy gets its size first, and its bytes later.
fn is_half_of(whole: TreeNode<'_, '_>, half: TreeNode<'_, '_>) -> Result<bool> {
    use std::io::Read;
    let (whole, half) = (open_content(whole)?, open_content(half)?);
    if whole.size() < half.size() {
        return Ok(false);
    }
    let (mut one, mut two) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut written, mut all) = (half.reader(), whole.reader());
    loop {
        let read = written.read(&mut one);
        let read = read.map_err(|error| Error::io("read", &error))?;
        if read == 0 {
            return Ok(true);
        }
        let (one, two) = (one.split_at(read).0, two.split_at_mut(read).0);
        all.read_exact(two)
            .map_err(|error| Error::io("read", &error))?;
        let is_it = |(half, whole): (&u8, &u8)| half == whole || *half == 0;
        if !one.iter().zip(&*two).all(is_it) {
            return Ok(false);
        }
    }
}

/// Decides about a content that has changed in the fork; without a base, the fork made it.
///
/// # Errors
/// As [`PastTree::content`], except for a base that was not kept.
pub(super) fn decide_content(
    base: Option<TreeNode<'_, '_>>,
    ours: TreeNode<'_, '_>,
    theirs: TreeNode<'_, '_>,
) -> Result<ContentOutcome> {
    if is_same(ours, theirs)? {
        return Ok(ContentOutcome::Ours);
    }
    let Some(base) = base else {
        // The file that a killed merge left, or one to which the fork has only added: no byte of it but zeros is lost.
        if is_half_of(theirs, ours)? {
            return Ok(ContentOutcome::Theirs);
        }
        return Ok(ContentOutcome::Conflict(
            "was made on both sides, with different contents",
        ));
    };
    let was = match open_content(base) {
        Err(Error::Missing { .. } | Error::Damaged(_)) => None,
        was => Some(was?).filter(|was| was.missing_part().is_none()),
    };
    let Some(was) = was else {
        return Ok(ContentOutcome::Conflict(
            "differs, and what it was when the fork was made has not been kept",
        ));
    };
    let (is, other) = (open_content(ours)?, open_content(theirs)?);
    if was.equals(&is)? {
        return Ok(ContentOutcome::Theirs);
    }
    if was.equals(&other)? {
        return Ok(ContentOutcome::Ours);
    }
    if [&was, &is, &other]
        .iter()
        .any(|content| content.size() > MAX_TEXT_BYTES)
    {
        return Ok(ContentOutcome::Conflict(
            "was changed on both sides, and is too long to be merged by lines",
        ));
    }
    let merged = merge(&bytes(&was)?, &bytes(&is)?, &bytes(&other)?);
    Ok(merged.map_or(
        ContentOutcome::Conflict("was changed on both sides, in the same lines or not as text"),
        ContentOutcome::Text,
    ))
}

fn bytes(content: &PastContent) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = content.reader().read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &error))?;
    Ok(bytes)
}
