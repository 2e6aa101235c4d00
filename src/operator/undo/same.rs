//! How a thing looked, and whether a thing of the past is what stands there now, so that putting it back would do nothing.

use rustix::fs::FileType;

use crate::error::Result;
use crate::operator::past::{Attributes, NodeId, Tree};
use crate::world::Xattrs;

/// How a thing looked besides its content.
pub(super) struct Looks {
    pub(super) meta: Attributes,
    /// Absent for what has none of its own.
    pub(super) xattrs: Option<Xattrs>,
}

impl Looks {
    pub(super) fn of(tree: &Tree<'_>, node: NodeId) -> Result<Looks> {
        let meta = tree.meta(node)?;
        let has_xattrs = matches!(meta.kind, FileType::RegularFile | FileType::Directory);
        let xattrs = has_xattrs.then(|| tree.xattrs(node)).transpose()?;
        Ok(Looks { meta, xattrs })
    }
}

/// Returns whether a thing was what another is now: kind, content, attributes, and of a directory all in it. What cannot be
/// read any more is not the same.
pub(super) fn is_same(
    then: &Tree<'_>,
    node: NodeId,
    now: &Tree<'_>,
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
