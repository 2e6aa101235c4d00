//! Comparing two trees name by name, and making changes of what was found.
//!
//! Owns the pairing: the same thing at another name, another thing at the same name, the rest. Starts from the names that
//! records touched; a directory that is in the home on one side only brings all that is in it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use rustix::fs::FileType;

use super::{Bytes, Change, Side, Status, attributes_differ, bytes};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::past::{NodeId, ROOT, Slot, Touched, Tree};
use crate::world::view::{STATE, TRASH};

/// The two trees, and what is found out about them on the way.
pub(super) struct Names<'t, 'a> {
    before: &'t Tree<'a>,
    after: &'t Tree<'a>,
    done: HashSet<Slot>,
    /// What is not at a name any more, and what has come to a name.
    gone: Vec<(NodeId, WorldPath)>,
    come: Vec<(NodeId, WorldPath)>,
    /// Where things are that were seen at the same name before and after.
    stayed: HashMap<NodeId, (WorldPath, WorldPath)>,
    paths: HashMap<(bool, NodeId), Option<WorldPath>>,
}

impl<'t, 'a> Names<'t, 'a> {
    pub(super) fn new(before: &'t Tree<'a>, after: &'t Tree<'a>) -> Names<'t, 'a> {
        Names {
            before,
            after,
            done: HashSet::new(),
            gone: Vec::new(),
            come: Vec::new(),
            stayed: HashMap::new(),
            paths: HashMap::new(),
        }
    }

    pub(super) fn compare(&mut self, touched: &Touched) -> Result<()> {
        // What records touched is not copied: it may be much.
        let mut asked = touched.names.iter();
        let mut pending: Vec<Slot> = Vec::new();
        while let Some(slot) = pending
            .pop()
            .map(Cow::Owned)
            .or_else(|| asked.next().map(Cow::Borrowed))
        {
            let is_new = match &slot {
                Cow::Borrowed(_) => true,
                Cow::Owned(slot) => !touched.names.contains(slot) && self.done.insert(slot.clone()),
            };
            if !is_new {
                continue;
            }
            let (dir, name) = &*slot;
            let (was, is) = (self.path_of(false, *dir), self.path_of(true, *dir));
            let was = self.entry(self.before, was, *dir, name)?;
            let is = self.entry(self.after, is, *dir, name)?;
            // What is in a directory that came or went has come or gone with it.
            for (tree, other, entry, there) in [
                (self.before, true, &was, &is),
                (self.after, false, &is, &was),
            ] {
                if let Some((node, _)) = entry
                    && there.as_ref().map(|(node, _)| node) != Some(node)
                    && tree.kind(*node) == FileType::Directory
                    && self.path_of(other, *node).is_none()
                {
                    match tree.children(*node) {
                        Ok(children) => {
                            pending.extend(children.into_keys().map(|name| (*node, name)))
                        }
                        Err(Error::NotFound | Error::Missing { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            match (was, is) {
                (Some((one, from)), Some((other, to))) if one == other => {
                    self.stayed.insert(one, (from, to));
                }
                (was, is) => {
                    self.gone.extend(was);
                    self.come.extend(is);
                }
            }
        }
        Ok(())
    }

    /// What a name means, and its path, where its directory is in the home.
    fn entry(
        &self,
        tree: &Tree<'a>,
        dir: Option<WorldPath>,
        at: NodeId,
        name: &[u8],
    ) -> Result<Option<(NodeId, WorldPath)>> {
        let Some(dir) = dir else {
            return Ok(None);
        };
        if at == ROOT && (name == TRASH || name == STATE) {
            return Ok(None);
        }
        let path = dir.join(Name::new(name)?);
        Ok(tree.lookup(at, name)?.map(|node| (node, path)))
    }

    /// The path of a node, where it is in the home and not in the trash.
    fn path_of(&mut self, after: bool, node: NodeId) -> Option<WorldPath> {
        if let Some(known) = self.paths.get(&(after, node)) {
            return known.clone();
        }
        let tree = if after { self.after } else { self.before };
        let path = tree.path(node).filter(|path| {
            path.components()
                .next()
                .is_none_or(|first| first.bytes() != TRASH && first.bytes() != STATE)
        });
        self.paths.insert((after, node), path.clone());
        path
    }

    pub(super) fn changes(mut self, touched: &Touched, below: &WorldPath) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let mut told = HashSet::new();
        let mut come: HashMap<NodeId, Vec<WorldPath>> = HashMap::new();
        let mut by_path: HashMap<WorldPath, NodeId> = HashMap::new();
        self.come.sort_by(|a, b| b.1.cmp(&a.1));
        self.gone.sort_by(|a, b| a.1.cmp(&b.1));
        for (node, path) in std::mem::take(&mut self.come) {
            come.entry(node).or_default().push(path.clone());
            by_path.insert(path, node);
        }
        let mut lost = Vec::new();
        // First what is the same thing at another name,
        for (node, from) in std::mem::take(&mut self.gone) {
            match come.get_mut(&node).and_then(Vec::pop) {
                Some(to) => {
                    by_path.remove(&to);
                    told.insert(node);
                    let touched = touched.nodes.contains(&node);
                    let change = self.pair(Some((node, from)), Some((node, to)), touched)?;
                    changes.extend(change);
                }
                None => lost.push((node, from)),
            }
        }
        // then what is another thing at the same name,
        for (node, path) in lost {
            let other = by_path.get(&path).copied();
            let same_kind = |other: &NodeId| self.before.kind(node) == self.after.kind(*other);
            let other = other.filter(same_kind);
            if other.is_some() {
                by_path.remove(&path);
            }
            let is = other.map(|other| (other, path.clone()));
            changes.extend(self.pair(Some((node, path)), is, true)?);
            told.insert(node);
        }
        // then what is new,
        for (path, node) in by_path {
            told.insert(node);
            changes.extend(self.pair(None, Some((node, path)), true)?);
        }
        // and what is where it was, but not as it was.
        let nodes: BTreeSet<NodeId> = touched
            .nodes
            .iter()
            .copied()
            .filter(|node| !told.contains(node))
            .collect();
        for node in nodes {
            let paths = match (self.path_of(false, node), self.path_of(true, node)) {
                (Some(from), Some(to)) => Some((from, to)),
                // It has several names, and the one asked for is in the trash.
                _ => self.stayed.get(&node).cloned(),
            };
            if let Some((from, to)) = paths {
                // At another path because a directory above it is renamed: that is told of the directory.
                let change = self.pair(Some((node, from)), Some((node, to)), true)?;
                changes.extend(
                    change
                        .filter(|change| {
                            change.content
                                || change.xattrs
                                || change.unknown.is_some()
                                || attributes_differ(change)
                        })
                        .map(|change| Change {
                            status: Status::Modified,
                            from: None,
                            ..change
                        }),
                );
            }
        }
        changes.retain(|change| {
            below.contains(&change.path)
                || change
                    .from
                    .as_ref()
                    .is_some_and(|from| below.contains(from))
        });
        changes.sort_by(|a, b| {
            a.path
                .cmp(&b.path)
                .then_with(|| a.is_addition().cmp(&b.is_addition()))
        });
        Ok(changes)
    }

    /// Makes a change of what was and what is; none where they do not differ.
    fn pair(
        &self,
        was: Option<(NodeId, WorldPath)>,
        is: Option<(NodeId, WorldPath)>,
        look_inside: bool,
    ) -> Result<Option<Change>> {
        let mut unknown = None;
        let mut side = |tree: &Tree<'a>, node: NodeId| match tree.meta(node) {
            Ok(meta) => Ok(Some(Side::new(node, &meta))),
            Err(Error::Missing { what, .. }) => {
                unknown = Some(what);
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let before = was
            .as_ref()
            .map(|(node, _)| side(self.before, *node))
            .transpose()?
            .flatten();
        let after = is
            .as_ref()
            .map(|(node, _)| side(self.after, *node))
            .transpose()?
            .flatten();
        let (status, path, from) = match (was, is) {
            (Some((_, from)), Some((_, to))) if from == to => (Status::Modified, to, None),
            (Some((_, from)), Some((_, to))) => (Status::Renamed, to, Some(from)),
            (None, Some((_, path))) => (Status::Added, path, None),
            (Some((_, path)), None) => (Status::Removed, path, None),
            (None, None) => return Ok(None),
        };
        let mut change = Change {
            status,
            path,
            from,
            before,
            after,
            content: false,
            xattrs: false,
            unknown,
        };
        if look_inside && let (Some(before), Some(after)) = (before, after) {
            match self.inside(before, after) {
                Ok((content, xattrs)) => (change.content, change.xattrs) = (content, xattrs),
                Err(Error::Missing { what, .. } | Error::Damaged(what)) => {
                    change.content = true;
                    change.unknown = Some(what);
                }
                Err(error) => return Err(error),
            }
        }
        let same = change.status == Status::Modified
            && !change.content
            && !change.xattrs
            && change.unknown.is_none()
            && !attributes_differ(&change);
        Ok((!same).then_some(change))
    }

    /// Whether contents and extended attributes differ.
    fn inside(&self, before: Side, after: Side) -> Result<(bool, bool)> {
        let contents = (
            bytes(self.before, Some(before))?,
            bytes(self.after, Some(after))?,
        );
        let content = match &contents {
            (Some(Bytes::File(one)), Some(Bytes::File(other))) => !one.equals(other)?,
            (Some(Bytes::Target(one)), Some(Bytes::Target(other))) => one != other,
            _ => false,
        };
        let xattrs = self.before.xattrs(before.node)? != self.after.xattrs(after.node)?;
        Ok((content, xattrs))
    }
}
