//! Whole trees of the past, made in another directory.
//!
//! Owns the walk: one directory after the other, without recursion, so a tree may have any depth. Directories get their
//! attributes at the end ([`TreeBuilder::finish`]), the inner ones first: until then they are open to the user who
//! makes the fork, and making entries in them changes their times.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};

use super::copier::ForkCopier;
use crate::error::{Error, Result};
use crate::journal::InodeNumbers;
use crate::name::{Name, WorldPath};
use crate::operator::past::layer::LayerKind;
use crate::operator::past::{FullAttributes, NodeId, PastTree};
use crate::world::Id;
use crate::world::root::{Dir, Root, open_beneath};
use crate::world::store::forked::ForkMethod;
use crate::world::store::layout::{STATE, TRASH};
use crate::world::trash::erase::erase;

/// Builds trees in a directory.
#[derive(Debug)]
pub(super) struct TreeBuilder<'t> {
    pub(super) copier: ForkCopier<'t>,
    /// The attributes that directories get in the end, by path.
    dirs: BTreeMap<WorldPath, FullAttributes>,
    /// The state of the current round.
    pub(super) round: RoundState,
}

/// The part of a place that has to be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RebuildScope {
    /// The attributes of a directory.
    Attributes,
    /// The whole tree at the place.
    Tree,
}

/// The nodes and directories that a round has read.
#[derive(Debug, Default)]
pub(super) struct RoundState {
    /// The nodes that were made, by their inode at the point. The value is true if content and time are known from
    /// records, so that later writes do not change them.
    pub(super) made: HashMap<InodeNumbers, bool>,
    /// The directories that were listed.
    pub(super) listed: HashSet<WorldPath>,
    /// The paths that could not be made, because they were gone or their data was inconsistent; with the reason, if
    /// known.
    pub(super) failed: BTreeMap<WorldPath, Option<String>>,
}

impl<'t> TreeBuilder<'t> {
    /// Starts with nothing made. `hidden` are the origin's inodes that stay hidden wherever they go.
    pub(super) fn new(to: &'t Root, means: ForkMethod, hidden: HashSet<Id>) -> TreeBuilder<'t> {
        TreeBuilder {
            copier: ForkCopier::new(to, means, hidden),
            dirs: BTreeMap::new(),
            round: RoundState::default(),
        }
    }

    /// Makes the nodes at some paths again, as another tree of the same point has them.
    ///
    /// # Errors
    /// As [`TreeBuilder::make_node`].
    pub(super) fn rebuild(
        &mut self,
        tree: &PastTree<'_>,
        places: &BTreeMap<WorldPath, RebuildScope>,
    ) -> Result<RoundState> {
        // Another tree counts its nodes anew.
        self.copier.links.clear();
        self.round = RoundState::default();
        for (path, how) in places {
            let node = tree.resolve(path)?;
            match (how, node) {
                (RebuildScope::Attributes, Some(node)) => {
                    self.note_attributes((tree, node), path)?
                }
                (RebuildScope::Attributes, None) => {}
                (RebuildScope::Tree, node) => {
                    self.delete(path)?;
                    if let Some(node) = node {
                        self.make_node(tree, node, path)?;
                    }
                }
            }
        }
        Ok(std::mem::take(&mut self.round))
    }

    /// Makes a node and everything below it. Of the root, only the entries are made.
    ///
    /// # Errors
    /// As [`ForkCopier::copy_leaf`]. Nodes that have gone meanwhile are left out.
    pub(super) fn make_node(
        &mut self,
        tree: &PastTree<'_>,
        node: NodeId,
        at: &WorldPath,
    ) -> Result<()> {
        let mut waiting = Vec::new();
        match (tree.kind(node), at.parent(), at.name()) {
            (FileType::Directory, ..) => {
                self.make_directory((tree, node), at)?;
                waiting.push((node, at.clone()));
            }
            (_, Some(parent), Some(name)) => {
                let dir = self.copier.to.dir(&parent)?;
                return self.make_leaf((tree, node), None, (&dir, name));
            }
            _ => {}
        }
        while let Some((node, path)) = waiting.pop() {
            self.make_entries((tree, node), &path, &mut waiting)
                .map_err(|error| error.of_reading(|| path.to_string()))?;
        }
        Ok(())
    }

    /// Makes the entries of a directory. Directories among them are queued.
    fn make_entries(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        path: &WorldPath,
        waiting: &mut Vec<(NodeId, WorldPath)>,
    ) -> Result<()> {
        let source = open_source(tree, node)?;
        let dir = self.copier.to.dir(path)?;
        self.note_attributes((tree, node), path)?;
        self.round.listed.insert(path.clone());
        for (bytes, child) in tree.children(node)? {
            if path.is_root() && (*bytes == *TRASH || *bytes == *STATE) {
                continue;
            }
            let name = Name::new(&bytes)?;
            if tree.kind(child).is_dir() {
                let inner = path.join(name);
                self.make_directory((tree, child), &inner)?;
                waiting.push((child, inner));
                continue;
            }
            let source = source.as_ref().map(AsFd::as_fd);
            self.make_leaf((tree, child), source, (&dir, name))?;
        }
        Ok(())
    }

    /// Makes a directory, accessible to its maker alone until the end.
    fn make_directory(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        at: &WorldPath,
    ) -> Result<()> {
        let (Some(parent), Some(name)) = (at.parent(), at.name()) else {
            return Ok(());
        };
        let dir = self.copier.to.dir(&parent)?;
        self.copier.counts.directories += 1;
        rustix::fs::mkdirat(&dir, name.bytes(), Mode::RWXU)
            .map_err(Error::os_on("mkdirat", || at.to_string()))?;
        self.copier.note_hidden((tree, node), (&dir, name))
    }

    /// Deletes the node that was made at a path.
    ///
    /// # Errors
    /// As [`erase`].
    pub(super) fn delete(&mut self, at: &WorldPath) -> Result<()> {
        let (Some(parent), Some(name)) = (at.parent(), at.name()) else {
            return Ok(());
        };
        self.dirs.retain(|path, _| !at.contains(path));
        let counts = &mut self.copier.counts;
        let mut gone = |gone: &crate::world::trash::erase::ErasedName<'_>| match gone.meta.kind {
            FileType::Directory => counts.directories = counts.directories.saturating_sub(1),
            FileType::RegularFile => counts.files = counts.files.saturating_sub(1),
            _ => counts.others = counts.others.saturating_sub(1),
        };
        let dir = match self.copier.to.dir(&parent) {
            Err(Error::NotFound | Error::NotDirectory) => return Ok(()),
            dir => dir?,
        };
        match erase(self.copier.to, dir.as_fd(), name, &mut gone) {
            Err(Error::NotFound) => Ok(()),
            erased => erased,
        }
    }

    /// Makes a node that is not a directory. A node that cannot be made now may be made in the next round.
    fn make_leaf(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        source: Option<BorrowedFd<'_>>,
        (dir, name): (&Dir, Name<'_>),
    ) -> Result<()> {
        let is_kept = tree.difference(node).is_some_and(|then| {
            let content = then.content.as_ref();
            then.mtime.is_some() && content.is_some_and(|c| matches!(c.kind, LayerKind::Whole(..)))
        });
        self.note((tree, node), is_kept);
        let path = dir.path().join(name);
        let why = match self.copier.copy_leaf((tree, node), source, (dir, name)) {
            Err(Error::NotFound) => None,
            Err(Error::Missing { what, .. } | Error::Damaged(what)) => Some(what),
            made => return made.map_err(|error| error.of_reading(|| path.to_string())),
        };
        // It has not been counted yet.
        let counts = self.copier.counts;
        self.delete(&path)?;
        self.copier.counts = counts;
        self.round.failed.insert(path, why);
        Ok(())
    }

    fn note(&mut self, (tree, node): (&PastTree<'_>, NodeId), is_kept: bool) {
        let ids = tree.ids(node);
        self.round.made.extend(ids.map(|ids| (ids, is_kept)));
    }

    /// Notes the attributes that a directory gets in the end.
    fn note_attributes(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        at: &WorldPath,
    ) -> Result<()> {
        let is_kept = tree
            .difference(node)
            .is_some_and(|then| then.mtime.is_some());
        self.note((tree, node), is_kept);
        match tree.full_attributes(node) {
            Ok(looks) => drop(self.dirs.insert(at.clone(), looks)),
            Err(Error::NotFound | Error::Missing { .. }) => {
                self.round.failed.insert(at.clone(), None);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sets the attributes of all directories except the store's own, and returns those of the store's own.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn finish(&mut self) -> Result<Option<FullAttributes>> {
        let dirs = std::mem::take(&mut self.dirs);
        let mut of_root = None;
        for (path, looks) in dirs.into_iter().rev() {
            let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
                of_root = Some(looks);
                continue;
            };
            let dir = self.copier.to.dir(&parent)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = open_beneath(dir.as_fd(), name.bytes(), flags, Mode::empty())?;
            self.copier.set_attributes(&made, &looks, &path)?;
        }
        Ok(of_root)
    }
}

/// Opens a directory of a tree where it lies now, for its files to be opened there; `None` where it does not lie there.
fn open_source(tree: &PastTree<'_>, node: NodeId) -> Result<Option<OwnedFd>> {
    let there = match tree.disk().node(node) {
        Err(Error::NotFound) => return Ok(None),
        there => there?,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    tree.disk().store().root().reopen(&there, flags).map(Some)
}

/// Sets the attributes of the store's own directory. Returns the attributes that could not be kept, with reasons.
///
/// # Errors
/// Those of the system calls.
pub(super) fn set_root_attributes(to: &Root, looks: &FullAttributes) -> Result<Vec<String>> {
    let dir = to.dir(&WorldPath::root())?;
    let made = to.read_dir(&dir)?;
    let mut copier = ForkCopier::new(to, ForkMethod::Cloned, HashSet::new());
    copier.set_attributes(&made, looks, &WorldPath::root())?;
    Ok(copier.notes)
}

/// Deletes everything in a directory.
///
/// # Errors
/// As [`erase`].
pub fn delete_entries(root: &Root) -> Result<()> {
    let dir = root.dir(&WorldPath::root())?;
    let fd = root.read_dir(&dir)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        names.push(entry.file_name().to_bytes().to_vec());
    }
    // The state directory, which marks a fork, goes last.
    names.sort_by_key(|name| *name == *STATE);
    for name in names
        .iter()
        .filter(|name| **name != *b"." && **name != *b"..")
    {
        erase(root, dir.as_fd(), Name::new(name)?, &mut |_| {})?;
    }
    Ok(())
}
