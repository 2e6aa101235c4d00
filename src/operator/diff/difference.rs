//! The difference at a path as it is reported: the change, its two sides, and their contents.

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::past::{NodeAttributes, NodeId, PastContent, PastTree};
use crate::operator::text::MAX_TEXT_BYTES;

/// The change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeStatus {
    /// Created.
    Added,
    /// Removed.
    Removed,
    /// Content, mode or owner differ.
    Modified,
    /// The same node is at another path; other changes of it are listed too.
    Renamed,
}

impl ChangeStatus {
    /// Returns the change as a word.
    pub fn word(self) -> &'static str {
        match self {
            ChangeStatus::Added => "added",
            ChangeStatus::Removed => "removed",
            ChangeStatus::Modified => "modified",
            ChangeStatus::Renamed => "renamed",
        }
    }

    /// Returns the letter that git has for the change.
    pub fn letter(self) -> char {
        match self {
            ChangeStatus::Added => 'A',
            ChangeStatus::Removed => 'D',
            ChangeStatus::Modified => 'M',
            ChangeStatus::Renamed => 'R',
        }
    }
}

/// A side of a change: the file before it, or the file after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct DiffSide {
    /// The file type.
    pub kind: &'static str,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    #[serde(skip)]
    pub(in crate::operator) node: NodeId,
}

impl DiffSide {
    /// Returns in words how the permission bits and the owner differ on another side.
    fn rights_until(&self, after: &DiffSide) -> Vec<String> {
        let mut words = Vec::new();
        if self.mode != after.mode {
            words.push(format!("mode {:o} → {:o}", self.mode, after.mode));
        }
        if (self.uid, self.gid) != (after.uid, after.gid) {
            words.push(format!(
                "owner {}:{} → {}:{}",
                self.uid, self.gid, after.uid, after.gid
            ));
        }
        words
    }
}

/// A difference at one path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PathDifference {
    /// The change.
    pub status: ChangeStatus,
    /// The path after; for a removed file, before.
    pub path: WorldPath,
    /// The path before, for a renamed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<WorldPath>,
    /// The side before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<DiffSide>,
    /// The side after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<DiffSide>,
    /// True if the contents differ.
    pub content: bool,
    /// True if extended attributes differ.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub xattrs: bool,
    /// The reason why the comparison is incomplete, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Set-user-id and set-group-id: they lend the rights of a file's owner or group to the user who runs it.
const SET_IDS: u32 = 0o6000;

impl PathDifference {
    /// Returns in words how the permission bits and the owner differ; of a new file, a mode that lends rights.
    pub fn rights(&self) -> Vec<String> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.rights_until(after),
            (None, Some(after)) if !after.is_dir() && after.mode & SET_IDS != 0 => {
                vec![format!("mode {:o}", after.mode)]
            }
            _ => Vec::new(),
        }
    }
}

/// The bytes of a file or a symlink.
#[derive(Debug)]
pub enum NodeBytes {
    /// The content of a file.
    File(PastContent),
    /// The target of a symlink.
    Target(Vec<u8>),
}

impl NodeBytes {
    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        match self {
            NodeBytes::File(content) => content.size(),
            NodeBytes::Target(target) => target.len() as u64,
        }
    }

    /// Reads a file of a tree; empty if it is missing, larger than `most`, or cannot be read.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(in crate::operator) fn read_small(
        tree: &PastTree<'_>,
        path: &WorldPath,
        most: u64,
    ) -> Result<Vec<u8>> {
        let Some(node) = tree.resolve(path)? else {
            return Ok(Vec::new());
        };
        if !tree.kind(node).is_file() {
            return Ok(Vec::new());
        }
        match tree.content(node) {
            Ok(content) if content.size() <= most => NodeBytes::File(content).read(),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns whether the content looks binary, as in git: a zero byte is among the first ones.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn is_binary(&self) -> Result<bool> {
        let NodeBytes::File(content) = self else {
            return Ok(false);
        };
        let mut bytes = [0; LOOKED_AT];
        let read = content.read_at(&mut bytes, 0)?;
        Ok(bytes.iter().take(read).any(|byte| *byte == 0))
    }

    /// Reads all bytes.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn read(&self) -> Result<Vec<u8>> {
        match self {
            NodeBytes::Target(target) => Ok(target.clone()),
            NodeBytes::File(content) => {
                let mut bytes = vec![0; usize::try_from(content.size()).unwrap_or(0)];
                let mut at = 0;
                while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
                    match content.read_at(rest, at as u64)? {
                        0 => break,
                        read => at += read,
                    }
                }
                bytes.truncate(at);
                Ok(bytes)
            }
        }
    }
}

/// The number of first bytes in which a NUL means that a content is not text, as in git.
const LOOKED_AT: usize = 8000;

/// The contents of a change.
#[derive(Debug)]
pub enum TextPair {
    /// Both sides are text; a side without a file is an empty text.
    Text(Vec<u8>, Vec<u8>),
    /// At least one side is not text, or is larger than [`MAX_TEXT_BYTES`].
    Binary,
}

impl TextPair {
    pub(in crate::operator) fn read(
        before: Option<NodeBytes>,
        after: Option<NodeBytes>,
    ) -> Result<TextPair> {
        let size = |bytes: &Option<NodeBytes>| bytes.as_ref().map_or(0, NodeBytes::size);
        if size(&before).max(size(&after)) > MAX_TEXT_BYTES {
            return Ok(TextPair::Binary);
        }
        let read =
            |bytes: Option<NodeBytes>| bytes.map_or_else(|| Ok(Vec::new()), |bytes| bytes.read());
        let (before, after) = (read(before)?, read(after)?);
        let is_text = |bytes: &[u8]| !bytes.iter().take(LOOKED_AT).any(|b| *b == 0);
        Ok(if is_text(&before) && is_text(&after) {
            TextPair::Text(before, after)
        } else {
            TextPair::Binary
        })
    }
}

pub(super) fn bytes(tree: &PastTree<'_>, side: Option<DiffSide>) -> Result<Option<NodeBytes>> {
    Ok(match side {
        // Many new files are empty, and opening one costs more than everything else about it.
        Some(side) if side.kind == "file" && side.size == 0 => {
            Some(NodeBytes::File(PastContent::empty()))
        }
        Some(side) if side.kind == "file" => {
            let content = tree.content(side.node)?;
            // A content with missing parts cannot be compared.
            if let Some(missing) = content
                .missing_part()
                .filter(|missing| missing.is_certain())
            {
                return Err(Error::Damaged(missing.to_string()));
            }
            Some(NodeBytes::File(content))
        }
        Some(side) if side.kind == "symlink" => Some(NodeBytes::Target(tree.target(side.node)?)),
        _ => None,
    })
}

/// Returns why the content of a file that is on one side only is unknown, if that is because it was changed outside the
/// home. Others are read only when they are shown: there can be many of them.
pub(super) fn unknown_content(tree: &PastTree<'_>, side: DiffSide) -> Option<String> {
    let is_changed = side.kind == "file" && tree.is_changed_outside(side.node);
    match is_changed.then(|| tree.content(side.node))? {
        Err(Error::Missing { what, .. } | Error::Damaged(what)) => {
            Some(name_writer(tree, side, what))
        }
        Ok(content) => Some(name_writer(tree, side, content.missing_part()?.to_string())),
        Err(_) => None,
    }
}

/// Adds to the reason why a content is unknown that an unknown writer changed the file since.
fn name_writer(tree: &PastTree<'_>, side: DiffSide, why: String) -> String {
    match tree.unknown_writer(side.node) {
        Some(who) => format!("{why} (by {who})"),
        None => why,
    }
}

/// The differences inside a file: in its content and its extended attributes.
#[derive(Debug, Default)]
pub(super) struct InnerDifference {
    pub(super) content: bool,
    pub(super) xattrs: bool,
    /// The reason why the comparison is incomplete, if it is.
    pub(super) unknown: Option<String>,
}

/// Describes a content that this user may not read.
pub(super) fn unreadable() -> String {
    let me = rustix::process::geteuid().as_raw();
    format!(
        "user {me} may not read it: its owner can make it readable (chmod u+rX), and root can read everything"
    )
}

impl InnerDifference {
    /// Compares two nodes. A missing content counts as a difference.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn compare(
        before: (&PastTree<'_>, DiffSide),
        after: (&PastTree<'_>, DiffSide),
    ) -> Result<InnerDifference> {
        match InnerDifference::compare_all(before, after) {
            Err(Error::Missing { what, .. } | Error::Damaged(what)) => Ok(InnerDifference {
                content: true,
                xattrs: false,
                unknown: Some(name_writer(before.0, before.1, what)),
            }),
            Err(error) if error.is_denial() => Ok(InnerDifference {
                content: true,
                xattrs: false,
                unknown: Some(unreadable()),
            }),
            compared => compared,
        }
    }

    fn compare_all(
        (before, was): (&PastTree<'_>, DiffSide),
        (after, is): (&PastTree<'_>, DiffSide),
    ) -> Result<InnerDifference> {
        let contents = (bytes(before, Some(was))?, bytes(after, Some(is))?);
        let content = match &contents {
            (Some(NodeBytes::File(one)), Some(NodeBytes::File(other))) => !one.equals(other)?,
            (Some(NodeBytes::Target(one)), Some(NodeBytes::Target(other))) => one != other,
            _ => false,
        };
        Ok(InnerDifference {
            content,
            xattrs: !(was.node == is.node && before.has_xattrs_of(after, was.node))
                && before.xattrs(was.node)? != after.xattrs(is.node)?,
            unknown: None,
        })
    }
}

impl DiffSide {
    /// Returns whether this side has a content: bytes, or the target of a symlink.
    pub(super) fn is_content(&self) -> bool {
        matches!(self.kind, "file" | "symlink")
    }

    /// Returns whether this side is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == "directory"
    }

    pub(in crate::operator) fn attributes(&self) -> (&'static str, u32, u32, u32) {
        (self.kind, self.mode, self.uid, self.gid)
    }

    pub(super) fn new(node: NodeId, meta: &NodeAttributes) -> DiffSide {
        let kind = match meta.kind {
            FileType::RegularFile => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            _ => "special file",
        };
        DiffSide {
            kind,
            mode: meta.mode,
            uid: meta.uid,
            gid: meta.gid,
            size: meta.size,
            node,
        }
    }
}
