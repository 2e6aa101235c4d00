//! The test whether a node of the past equals the present one, so that restoring it
//! would change nothing.

use rustix::fs::FileType;

use crate::error::Result;
use crate::operator::past::{NodeId, PastTree};

/// Returns whether a node of the past equals a present one: kind, content, attributes, and for a directory all its
/// entries. An unreadable node is different.
pub(super) fn is_same(
    then: &PastTree<'_>,
    node: NodeId,
    now: &PastTree<'_>,
    other: NodeId,
) -> Result<bool> {
    let (Ok(was), Ok(is)) = (then.meta(node), now.meta(other)) else {
        return Ok(false);
    };
    if (was.kind, was.mode, was.uid, was.gid, was.mtime)
        != (is.kind, is.mode, is.uid, is.gid, is.mtime)
    {
        return Ok(false);
    }
    match was.kind {
        FileType::Symlink => return Ok(then.target(node)? == now.target(other)?),
        FileType::RegularFile => {
            let (Ok(was), Ok(is)) = (then.content(node), now.content(other)) else {
                return Ok(false);
            };
            if !was.equals(&is)? || !was.has_holes_of(&is)? {
                return Ok(false);
            }
        }
        FileType::Directory => {
            let (were, are) = (then.children(node)?, now.children(other)?);
            if were.len() != are.len() {
                return Ok(false);
            }
            for (name, child) in were {
                let is = match are.get(&name) {
                    Some(there) => is_same(then, child, now, *there)?,
                    None => false,
                };
                if !is {
                    return Ok(false);
                }
            }
        }
        _ => return Ok(true),
    }
    Ok(then.xattrs(node)? == now.xattrs(other)?)
}
