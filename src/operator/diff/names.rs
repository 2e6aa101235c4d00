//! Comparing two trees name by name, and making changes of what was found.
//!
//! Owns the pairing: the same thing at another name, another thing at the same name, the rest. Starts from the names that
//! records touched; a directory that is in the home on one side only brings all that is in it.

use std::collections::{BTreeSet, HashMap, HashSet};

use rustix::fs::FileType;

use super::{Bytes, Change, Side, Status, attributes_differ, bytes};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::past::{ByNumber, Label, NodeId, Place, ROOT, Tree};
use crate::world::view::{STATE, TRASH};

/// What records have touched between two points: a bit of [`Touched`](crate::operator::past::Touched), and small.
#[derive(Default)]
pub(super) struct Asked {
    /// Names, each with its directory.
    pub(super) places: HashSet<Place, ByNumber>,
    /// Things whose content or attributes were.
    pub(super) nodes: HashSet<NodeId, ByNumber>,
}

/// The two trees, and what is found out about them on the way.
pub(super) struct Names<'t, 'a> {
    before: &'t Tree<'a>,
    after: &'t Tree<'a>,
    asked: &'t Asked,
    done: HashSet<Place, ByNumber>,
    /// What is not at a name any more, and what has come to a name.
    gone: Vec<(NodeId, WorldPath)>,
    come: Vec<(NodeId, Place)>,
    /// Where things are that were touched and were seen at the same name before and after.
    stayed: HashMap<NodeId, Place, ByNumber>,
    /// The paths of directories; `None` for what is not in the home.
    paths: HashMap<(bool, NodeId), Option<WorldPath>>,
    /// What stands in the root and is not of the home.
    not_shown: [Label; 2],
}

impl<'t, 'a> Names<'t, 'a> {
    pub(super) fn new(
        before: &'t Tree<'a>,
        after: &'t Tree<'a>,
        asked: &'t Asked,
    ) -> Names<'t, 'a> {
        Names {
            before,
            after,
            asked,
            done: HashSet::default(),
            gone: Vec::new(),
            come: Vec::new(),
            stayed: HashMap::default(),
            paths: HashMap::new(),
            not_shown: [TRASH, STATE].map(|name| before.ground().label(name)),
        }
    }

    pub(super) fn compare(&mut self) -> Result<()> {
        // What records touched is not copied: it may be much.
        let mut asked = self.asked.places.iter();
        let mut pending: Vec<Place> = Vec::new();
        loop {
            let place = match pending.pop() {
                Some(place) if self.asked.places.contains(&place) => continue,
                Some(place) if !self.done.insert(place) => continue,
                Some(place) => place,
                None => match asked.next() {
                    Some(place) => *place,
                    None => return Ok(()),
                },
            };
            let was = self.entry(false, place)?;
            let is = self.entry(true, place)?;
            // What is in a directory that came or went has come or gone with it.
            for (tree, other, entry, there) in
                [(self.before, true, was, is), (self.after, false, is, was)]
            {
                if let Some(node) = entry
                    && there != entry
                    && tree.kind(node) == FileType::Directory
                    && !self.is_shown(other, node)
                {
                    match tree.children(node) {
                        Ok(children) => {
                            let label = |name: Box<[u8]>| (node, tree.ground().label(&name));
                            pending.extend(children.into_keys().map(label));
                        }
                        Err(Error::NotFound | Error::Missing { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            if was == is {
                if let Some(node) = was.filter(|node| self.asked.nodes.contains(node)) {
                    self.stayed.insert(node, place);
                }
                continue;
            }
            if let Some(node) = was {
                let path = self.path_at(false, place);
                self.gone.extend(path.map(|path| (node, path)));
            }
            self.come.extend(is.map(|node| (node, place)));
        }
    }

    fn tree(&self, after: bool) -> &'t Tree<'a> {
        if after { self.after } else { self.before }
    }

    /// What a name means, where its directory is in the home.
    fn entry(&mut self, after: bool, (dir, label): Place) -> Result<Option<NodeId>> {
        let shows = self.is_shown(after, dir) && !(dir == ROOT && self.not_shown.contains(&label));
        match shows {
            true => self.tree(after).lookup_label(dir, label),
            false => Ok(None),
        }
    }

    /// Whether a directory is in the home and not in the trash.
    fn is_shown(&mut self, after: bool, dir: NodeId) -> bool {
        self.with_path(after, dir, |path| path.is_some())
    }

    /// The path of a name, where its directory is in the home.
    fn path_at(&mut self, after: bool, (dir, label): Place) -> Option<WorldPath> {
        let mut path = self.with_path(after, dir, |path| path.cloned())?;
        self.before.ground().push(&mut path, label)?;
        Some(path)
    }

    fn with_path<T>(
        &mut self,
        after: bool,
        dir: NodeId,
        use_it: impl FnOnce(Option<&WorldPath>) -> T,
    ) -> T {
        let tree = self.tree(after);
        let path = self.paths.entry((after, dir));
        use_it(path.or_insert_with(|| shown_path(tree, dir)).as_ref())
    }

    pub(super) fn changes(mut self, below: &WorldPath) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        let mut told = HashSet::<NodeId, ByNumber>::default();
        let mut gone = std::mem::take(&mut self.gone);
        gone.sort_by(|a, b| a.1.cmp(&b.1));
        let gone_nodes: HashSet<NodeId, ByNumber> = gone.iter().map(|(node, _)| *node).collect();
        let mut come: HashMap<NodeId, Vec<WorldPath>, ByNumber> = HashMap::default();
        let mut by_path: HashMap<WorldPath, NodeId> = HashMap::new();
        // What has come and can be nothing but new: most of it, often.
        let mut new = Vec::new();
        for (node, place) in std::mem::take(&mut self.come) {
            if gone.is_empty() {
                new.push((node, place));
                continue;
            }
            let Some(path) = self.path_at(true, place) else {
                continue;
            };
            let moved = gone_nodes.contains(&node);
            if moved {
                come.entry(node).or_default().push(path.clone());
            }
            if moved || gone.binary_search_by(|(_, gone)| gone.cmp(&path)).is_ok() {
                by_path.insert(path, node);
            } else {
                new.push((node, place));
            }
        }
        for paths in come.values_mut() {
            paths.sort_by(|a, b| b.cmp(a));
        }
        let mut lost = Vec::new();
        // First what is the same thing at another name,
        for (node, from) in gone {
            match come.get_mut(&node).and_then(Vec::pop) {
                Some(to) => {
                    by_path.remove(&to);
                    told.insert(node);
                    let touched = self.asked.nodes.contains(&node);
                    if below.contains(&from) || below.contains(&to) {
                        changes.extend(self.pair(Some((node, from)), Some((node, to)), touched)?);
                    }
                }
                None => lost.push((node, from)),
            }
        }
        // then what is another thing at the same name,
        for (node, path) in lost {
            told.insert(node);
            let other = by_path.get(&path).copied();
            let same_kind = |other: &NodeId| self.before.kind(node) == self.after.kind(*other);
            let other = other.filter(same_kind);
            if other.is_some() {
                by_path.remove(&path);
            }
            if below.contains(&path) {
                let is = other.map(|other| (other, path.clone()));
                changes.extend(self.pair(Some((node, path)), is, true)?);
            }
        }
        // then what is new,
        for (path, node) in by_path {
            told.insert(node);
            if below.contains(&path) {
                changes.extend(self.pair(None, Some((node, path)), true)?);
            }
        }
        for (node, place) in new {
            told.insert(node);
            let path = self.path_at(true, place);
            if let Some(path) = path.filter(|path| below.contains(path)) {
                changes.extend(self.pair(None, Some((node, path)), true)?);
            }
        }
        // and what is where it was, but not as it was.
        let untold = self.asked.nodes.iter().filter(|node| !told.contains(node));
        let nodes: BTreeSet<NodeId> = untold.copied().collect();
        for node in nodes {
            let from = shown_path(self.before, node);
            let paths = match from.zip(shown_path(self.after, node)) {
                Some(paths) => Some(paths),
                // It has several names, and the one asked for is in the trash.
                None => match self.stayed.get(&node).copied() {
                    Some(place) => self.path_at(false, place).zip(self.path_at(true, place)),
                    None => None,
                },
            };
            if let Some((from, to)) = paths
                && below.contains(&to)
            {
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

/// The path of a node, where it is in the home and not in the trash.
fn shown_path(tree: &Tree<'_>, node: NodeId) -> Option<WorldPath> {
    tree.path(node).filter(|path| {
        let first = path.components().next();
        first.is_none_or(|first| first.bytes() != TRASH && first.bytes() != STATE)
    })
}
