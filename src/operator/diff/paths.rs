//! The places on both sides as small numbers: a difference stores no text, and gets its path when it is printed.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::name::{Name, WorldPath};
use crate::operator::past::{
    DiskTree, NameId, NameInterner, NameSlot, NodeId, NumberHash, PastTree, ROOT,
};
use crate::world::store::layout::{STATE, TRASH};

/// A place: the number of a directory's path and a name in it; no name for the home itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompactPath {
    dir: u32,
    name: Option<NameId>,
}

/// A node at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedNode {
    pub(super) node: NodeId,
    pub(super) spot: CompactPath,
}

/// The paths of the directories looked up so far.
#[derive(Debug)]
pub(super) struct PathTable {
    dirs: Vec<WorldPath>,
    before: KnownDirs,
    after: KnownDirs,
    /// Names in the root that are not part of the home.
    not_shown: [NameId; 2],
}

/// The directories of one tree; `None` for those in the trash or not in the home.
#[derive(Debug, Default)]
struct KnownDirs {
    dirs: HashMap<NodeId, Option<u32>, NumberHash>,
    last: Option<(NodeId, Option<u32>)>,
}

impl PathTable {
    pub(super) fn new(disk: &DiskTree<'_>) -> PathTable {
        PathTable {
            dirs: Vec::new(),
            before: KnownDirs::default(),
            after: KnownDirs::default(),
            not_shown: [TRASH, STATE].map(|name| disk.name_id(name)),
        }
    }

    /// Returns the number of a directory's path, if it is in the home.
    pub(super) fn dir(&mut self, is_after: bool, tree: &PastTree<'_>, node: NodeId) -> Option<u32> {
        let known = if is_after {
            &mut self.after
        } else {
            &mut self.before
        };
        if let Some((_, number)) = known.last.filter(|(last, _)| *last == node) {
            return number;
        }
        let dirs = &mut self.dirs;
        let number = *known.dirs.entry(node).or_insert_with(|| {
            let path = tree.path(node).filter(is_shown)?;
            dirs.push(path);
            u32::try_from(dirs.len() - 1).ok()
        });
        known.last = Some((node, number));
        number
    }

    /// Returns the place of a name, if its directory is in the home.
    pub(super) fn spot(
        &mut self,
        is_after: bool,
        tree: &PastTree<'_>,
        (dir, name): NameSlot,
    ) -> Option<CompactPath> {
        let shows = dir != ROOT || !self.not_shown.contains(&name);
        let dir = self.dir(is_after, tree, dir)?;
        let name = Some(name);
        shows.then_some(CompactPath { dir, name })
    }

    /// Returns the place of a node, if it is in the home and not in the trash.
    pub(super) fn spot_of(
        &mut self,
        is_after: bool,
        tree: &PastTree<'_>,
        node: NodeId,
    ) -> Option<CompactPath> {
        match node {
            ROOT => Some(CompactPath {
                dir: self.dir(is_after, tree, node)?,
                name: None,
            }),
            node => self.spot(is_after, tree, tree.place_of(node)?),
        }
    }

    /// Builds the path of a place.
    pub(super) fn path(&self, texts: &NameInterner, spot: CompactPath) -> WorldPath {
        let dir = usize::try_from(spot.dir);
        let dir = dir.ok().and_then(|dir| self.dirs.get(dir));
        match (dir, spot.name.map(|name| Name::new(texts.text(name)))) {
            (Some(dir), Some(Ok(name))) => dir.join(name),
            (dir, _) => dir.cloned().unwrap_or_default(),
        }
    }

    /// Compares places as their paths would compare, without building those.
    pub(super) fn order(
        &self,
        texts: &NameInterner,
        one: CompactPath,
        other: CompactPath,
    ) -> Ordering {
        let (one_name, other_name) = (text(texts, one), text(texts, other));
        if one.dir == other.dir {
            return one_name.cmp(other_name);
        }
        let (one_dir, other_dir) = (self.dir_bytes(one), self.dir_bytes(other));
        // Most differ before the shorter directory ends.
        let both = one_dir.len().min(other_dir.len());
        one_dir
            .get(..both)
            .cmp(&other_dir.get(..both))
            .then_with(|| {
                let rest = parts(one_dir, one_name).skip(both);
                rest.cmp(parts(other_dir, other_name).skip(both))
            })
    }

    fn dir_bytes(&self, spot: CompactPath) -> &[u8] {
        let dir = usize::try_from(spot.dir);
        let dir = dir.ok().and_then(|dir| self.dirs.get(dir));
        dir.map(WorldPath::bytes).unwrap_or_default()
    }
}

fn parts<'p>(dir: &'p [u8], name: &'p [u8]) -> impl Iterator<Item = &'p u8> {
    let has_slash = !dir.is_empty() && !name.is_empty();
    let slash = if has_slash { &b"/"[..] } else { b"" };
    [dir, slash, name].into_iter().flatten()
}

fn text(texts: &NameInterner, spot: CompactPath) -> &[u8] {
    spot.name.map_or(&b""[..], |name| texts.text(name))
}

fn is_shown(path: &WorldPath) -> bool {
    let first = path.components().next();
    first.is_none_or(|first| first.bytes() != TRASH && first.bytes() != STATE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn compact_paths_sort_as_their_paths() {
        let names = ["a", "a.b", "a\x01", "b", "é", "~"];
        let mut interner = NameInterner::default();
        let name_ids: Vec<NameId> = names
            .iter()
            .map(|n| interner.name_id(n.as_bytes()))
            .collect();
        let dirs = ["", "a", "a/b", "a.b", "a\x01", "a\x01/a", "a"];
        let paths = PathTable {
            dirs: dirs
                .map(|dir| WorldPath::parse(dir.as_bytes()).unwrap())
                .into(),
            before: KnownDirs::default(),
            after: KnownDirs::default(),
            not_shown: [interner.name_id(TRASH), interner.name_id(STATE)],
        };
        let spots = (0..dirs.len()).flat_map(|dir| {
            let name_ids = name_ids.iter().copied().map(Some).chain([None]);
            let dir = u32::try_from(dir).unwrap();
            name_ids.map(move |name| CompactPath { dir, name })
        });
        let spots: Vec<CompactPath> = spots.collect();
        for one in &spots {
            for other in &spots {
                let (a, b) = (paths.path(&interner, *one), paths.path(&interner, *other));
                assert_eq!(paths.order(&interner, *one, *other), a.cmp(&b), "{a} {b}");
            }
        }
    }
}
