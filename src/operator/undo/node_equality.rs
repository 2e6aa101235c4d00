//! A node's attributes at a point, and the test whether a node of the past equals the present one, so that restoring it
//! would change nothing.

use rustix::fs::FileType;

use crate::error::Result;
use crate::operator::past::{NodeAttributes, NodeId, PastTree};
use crate::world::Xattrs;

/// A node's attributes without its content.
pub(in crate::operator) struct FullAttributes {
    pub(in crate::operator) meta: NodeAttributes,
    /// `None` for a node that cannot have any.
    pub(in crate::operator) xattrs: Option<Xattrs>,
}

impl FullAttributes {
    pub(in crate::operator) fn of(tree: &PastTree<'_>, node: NodeId) -> Result<FullAttributes> {
        let meta = tree.meta(node)?;
        let has_xattrs = matches!(meta.kind, FileType::RegularFile | FileType::Directory);
        let xattrs = has_xattrs.then(|| tree.xattrs(node)).transpose()?;
        Ok(FullAttributes { meta, xattrs })
    }
}

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
