//! The steps of a merge, and what stands in its way, as data.

use std::collections::HashMap;

use super::history::DoubtfulContent;
use crate::name::WorldPath;
use crate::operator::past::NodeId;
use crate::world::{Id, Meta, Time};

/// Something that changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MergeConflict {
    /// Where, in the origin.
    pub path: WorldPath,
    /// What happened on both sides.
    pub what: String,
    /// Where the fork's side was put.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<WorldPath>,
}

/// A new content.
#[derive(Debug)]
pub(super) enum FillContent {
    /// That of the fork.
    Theirs(NodeId),
    /// A merged text.
    Text(Vec<u8>),
}

/// What is done to a name.
#[derive(Debug)]
pub(super) enum NameStep {
    /// A directory of the fork is made.
    Mkdir(NodeId),
    /// What is at this path moves here.
    Move(WorldPath),
}

/// What is done at a path when all names are right.
#[derive(Debug)]
pub(super) enum FillStep {
    /// Something of the fork that is no directory is made.
    Make(NodeId),
    /// What is there goes to the trash first.
    Replace(NodeId),
    /// A file gets another content.
    Content(FillContent),
    /// The fork's permission bits.
    Mode(NodeId),
    /// The fork's owner and group.
    Owner(NodeId),
    /// The fork's extended attributes.
    Xattrs(NodeId),
}

/// What a merge will do, in this order.
#[derive(Debug, Default)]
pub(super) struct MergePlan {
    /// What goes to the trash and is no directory.
    pub(super) removals: Vec<(WorldPath, FileFingerprint)>,
    /// What is made and moved, outer directories first.
    pub(super) names: Vec<(WorldPath, NameStep)>,
    /// Directories that go to the trash, inner ones first.
    pub(super) dirs: Vec<WorldPath>,
    pub(super) fillings: Vec<(WorldPath, FillStep)>,
    /// What stands in the way, and the fork's side of it.
    pub(super) clashes: Vec<ResolvableConflict>,
    /// The files of the origin whose contents were looked at, as they were then, by where they are filled: what is removed
    /// may have had the same path.
    pub(super) seen: HashMap<WorldPath, FileFingerprint>,
}

/// A file at the moment that its content was looked at: inode, size, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileFingerprint(Id, u64, Time);

impl FileFingerprint {
    pub(super) fn of(meta: &Meta) -> FileFingerprint {
        FileFingerprint(meta.id, meta.size, meta.mtime)
    }
}

/// A conflict, and what it takes to resolve it.
#[derive(Debug)]
pub(super) struct ResolvableConflict {
    pub(super) conflict: MergeConflict,
    /// What the fork has; `None` where it has removed it.
    pub(super) theirs: Option<NodeId>,
    /// Whether both sides are files.
    pub(super) are_files: bool,
    /// The attributes of the fork, where the conflict is about them.
    pub(super) forced: Option<FillStep>,
    /// A content of the origin that may be an earlier one of the fork.
    pub(super) doubt: Option<DoubtfulContent>,
}

/// Returns where something is after moves.
pub(super) fn moved(names: &[(WorldPath, NameStep)], path: &WorldPath) -> WorldPath {
    let mut best: Option<(&WorldPath, &WorldPath)> = None;
    for (to, naming) in names {
        if let NameStep::Move(from) = naming
            && from.contains(path)
            && best.is_none_or(|(known, _)| known.contains(from))
        {
            best = Some((from, to));
        }
    }
    best.and_then(|(from, to)| below(path, from, to))
        .unwrap_or_else(|| path.clone())
}

/// Returns the path below another directory.
pub(super) fn below(path: &WorldPath, from: &WorldPath, to: &WorldPath) -> Option<WorldPath> {
    let rest = path.bytes().strip_prefix(from.bytes())?;
    WorldPath::parse(&[to.bytes(), rest].concat()).ok()
}
