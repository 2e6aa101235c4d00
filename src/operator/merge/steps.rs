//! The steps and the conflicts of a merge, as data.

use std::collections::HashMap;

use super::earlier_contents::DoubtfulContent;
use crate::name::WorldPath;
use crate::operator::past::NodeId;
use crate::world::{Id, Meta, Time};

/// A path that changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MergeConflict {
    /// The path in the origin.
    pub path: WorldPath,
    /// The changes of both sides, in words.
    pub what: String,
    /// The path where the fork's side was put.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<WorldPath>,
}

/// A new content.
#[derive(Debug)]
pub(super) enum FillContent {
    /// The content of this node of the fork.
    Theirs(NodeId),
    /// A merged text.
    Text(Vec<u8>),
}

/// A step that changes a name.
#[derive(Debug)]
pub(super) enum NameStep {
    /// Makes a directory of the fork.
    Mkdir(NodeId),
    /// Moves the node at this path here.
    Move(WorldPath),
}

/// A step at a path, taken when all names are right.
#[derive(Debug)]
pub(super) enum FillStep {
    /// Makes a node of the fork that is not a directory.
    Make(NodeId),
    /// Moves the present node to the trash, then makes the fork's.
    Replace(NodeId),
    /// Gives a file another content.
    Content(FillContent),
    /// Sets the fork's permission bits.
    Mode(NodeId),
    /// Sets the fork's owner and group.
    Owner(NodeId),
    /// Sets the fork's extended attributes.
    Xattrs(NodeId),
}

/// The steps of a merge, in this order.
#[derive(Debug, Default)]
pub(super) struct MergePlan {
    /// The files and other non-directories that go to the trash.
    pub(super) removals: Vec<(WorldPath, FileFingerprint)>,
    /// The directories made and the nodes moved, outer directories first.
    pub(super) names: Vec<(WorldPath, NameStep)>,
    /// Directories that go to the trash, inner ones first.
    pub(super) dirs: Vec<WorldPath>,
    pub(super) fillings: Vec<(WorldPath, FillStep)>,
    /// The conflicts, each with the fork's side.
    pub(super) clashes: Vec<ResolvableConflict>,
    /// The files of the origin whose contents were read, as they were then, by the path at which they are filled: a
    /// removed file may have had the same path.
    pub(super) seen: HashMap<WorldPath, FileFingerprint>,
}

/// A file at the moment when its content was read: inode, size, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileFingerprint(Id, u64, Time);

impl FileFingerprint {
    pub(super) fn of(meta: &Meta) -> FileFingerprint {
        FileFingerprint(meta.id, meta.size, meta.mtime)
    }
}

/// A conflict, with everything needed to resolve it.
#[derive(Debug)]
pub(super) struct ResolvableConflict {
    pub(super) conflict: MergeConflict,
    /// The fork's node; `None` where the fork has removed it.
    pub(super) theirs: Option<NodeId>,
    /// True if both sides are files.
    pub(super) are_files: bool,
    /// The attributes of the fork, where the conflict is about them.
    pub(super) forced: Option<FillStep>,
    /// A content of the origin that may be an earlier one of the fork.
    pub(super) doubt: Option<DoubtfulContent>,
}

/// Returns the path of a node after moves.
pub(super) fn path_after_moves(names: &[(WorldPath, NameStep)], path: &WorldPath) -> WorldPath {
    let mut best: Option<(&WorldPath, &WorldPath)> = None;
    for (to, naming) in names {
        if let NameStep::Move(from) = naming
            && from.contains(path)
            && best.is_none_or(|(known, _)| known.contains(from))
        {
            best = Some((from, to));
        }
    }
    best.and_then(|(from, to)| path_below(path, from, to))
        .unwrap_or_else(|| path.clone())
}

/// Returns the path below another directory.
pub(super) fn path_below(path: &WorldPath, from: &WorldPath, to: &WorldPath) -> Option<WorldPath> {
    let rest = path.bytes().strip_prefix(from.bytes())?;
    WorldPath::parse(&[to.bytes(), rest].concat()).ok()
}
