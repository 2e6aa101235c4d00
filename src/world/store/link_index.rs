//! The names that files with several hard links have in the store, the trash included.
//!
//! Filled by one search of the whole store, the first time that it matters, and kept up to date with the world's moves
//! and links. A name is checked before it counts. A name that is missing here, because it was created behind the mount,
//! makes a file look as if it had a name outside; never the other way round.
//!
//! Lock: one mutex over the names, never held over a system call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::{Mutex, MutexGuard};

use crate::name::WorldPath;
use trumanfs_types::meta::Id;

/// An index of the names of files with several hard links.
#[derive(Debug, Default)]
pub(in crate::world) struct LinkIndex {
    state: Mutex<IndexState>,
    /// Held while the store is searched.
    search: Mutex<()>,
}

#[derive(Debug, Default)]
enum IndexState {
    /// The store has not been searched.
    #[default]
    Empty,
    /// The store is being searched; the changes since the search began.
    Searching(Vec<NameChange>),
    /// The names are known.
    Known(LinkNames),
}

/// A change of names.
#[derive(Debug)]
enum NameChange {
    Added(Id, WorldPath),
    Moved(WorldPath, WorldPath),
    Swapped(WorldPath, WorldPath),
}

/// The names, by file and by path.
#[derive(Debug, Default)]
struct LinkNames {
    by_path: BTreeMap<Vec<u8>, Id>,
    by_id: HashMap<Id, BTreeSet<Vec<u8>>>,
}

impl LinkNames {
    fn add(&mut self, id: Id, path: Vec<u8>) {
        self.remove(&path);
        self.by_id.entry(id).or_default().insert(path.clone());
        self.by_path.insert(path, id);
    }

    fn remove(&mut self, path: &[u8]) -> Option<Id> {
        let id = self.by_path.remove(path)?;
        if let Some(names) = self.by_id.get_mut(&id) {
            names.remove(path);
            if names.is_empty() {
                self.by_id.remove(&id);
            }
        }
        Some(id)
    }

    /// Removes the names at and below a path, and returns them.
    fn take(&mut self, top: &[u8]) -> Vec<(Vec<u8>, Id)> {
        let below = [top, b"/"].concat();
        let range = self.by_path.range(below.clone()..);
        let mut paths: Vec<_> = range
            .take_while(|(path, _)| path.starts_with(&below))
            .map(|(path, _)| path.clone())
            .collect();
        paths.push(top.to_vec());
        let taken = paths.into_iter().filter_map(|path| {
            let id = self.remove(&path)?;
            Some((path, id))
        });
        taken.collect()
    }

    fn put(&mut self, taken: Vec<(Vec<u8>, Id)>, from: &[u8], to: &[u8]) {
        for (path, id) in taken {
            let rest = path.get(from.len()..).unwrap_or_default();
            self.add(id, [to, rest].concat());
        }
    }

    fn apply(&mut self, change: NameChange) {
        match change {
            NameChange::Added(id, path) => self.add(id, path.bytes().to_vec()),
            NameChange::Moved(from, to) => {
                let taken = self.take(from.bytes());
                self.put(taken, from.bytes(), to.bytes());
            }
            NameChange::Swapped(one, other) => {
                let first = self.take(one.bytes());
                let second = self.take(other.bytes());
                self.put(first, one.bytes(), other.bytes());
                self.put(second, other.bytes(), one.bytes());
            }
        }
    }
}

impl LinkIndex {
    fn change(&self, change: impl FnOnce() -> NameChange) {
        match &mut *self.state.lock() {
            IndexState::Empty => {}
            IndexState::Searching(changes) => changes.push(change()),
            IndexState::Known(names) => names.apply(change()),
        }
    }

    /// Notes names of a file.
    pub(in crate::world) fn note_names(&self, id: Id, names: [WorldPath; 2]) {
        for path in names {
            self.change(|| NameChange::Added(id, path));
        }
    }

    /// Notes a move of a file or directory, from one path to another.
    pub(in crate::world) fn note_move(&self, paths: impl FnOnce() -> (WorldPath, WorldPath)) {
        self.change(|| {
            let (from, to) = paths();
            NameChange::Moved(from, to)
        });
    }

    /// Notes that two files or directories have changed places.
    pub(in crate::world) fn note_exchange(&self, paths: impl FnOnce() -> (WorldPath, WorldPath)) {
        self.change(|| {
            let (one, other) = paths();
            NameChange::Swapped(one, other)
        });
    }

    /// Returns the names of a file; `None` if the store has not been searched.
    pub(in crate::world) fn names(&self, id: Id) -> Option<Vec<WorldPath>> {
        match &*self.state.lock() {
            IndexState::Known(names) => {
                let paths = names.by_id.get(&id).into_iter().flatten();
                Some(
                    paths
                        .filter_map(|path| WorldPath::parse(path).ok())
                        .collect(),
                )
            }
            IndexState::Empty | IndexState::Searching(_) => None,
        }
    }

    /// Begins a search of the store; `None` if the names are known by now.
    pub(in crate::world) fn begin(&self) -> Option<MutexGuard<'_, ()>> {
        let search = self.search.lock();
        let mut state = self.state.lock();
        if matches!(*state, IndexState::Known(_)) {
            return None;
        }
        *state = IndexState::Searching(Vec::new());
        Some(search)
    }

    /// Ends a search with the names that it has found; `None` if it has failed.
    pub(in crate::world) fn end(&self, found: Option<Vec<(Id, WorldPath)>>) {
        let mut state = self.state.lock();
        let before = std::mem::take(&mut *state);
        if let (IndexState::Searching(changes), Some(found)) = (before, found) {
            let mut names = LinkNames::default();
            for (id, path) in found {
                names.add(id, path.bytes().to_vec());
            }
            for change in changes {
                names.apply(change);
            }
            *state = IndexState::Known(names);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn path(text: &str) -> WorldPath {
        WorldPath::parse(text.as_bytes()).unwrap()
    }

    fn names(index: &LinkIndex, id: u64) -> Vec<String> {
        let names = index.names(Id(1, id)).unwrap();
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_follow_what_moves() {
        let index = LinkIndex::default();
        index.note_move(|| (path("x"), path("y")));
        assert!(index.names(Id(1, 7)).is_none(), "nothing is known yet");
        let search = index.begin().unwrap();
        // While the search is under way.
        index.note_move(|| (path("d"), path("e")));
        let found = vec![
            (Id(1, 7), path("d/a")),
            (Id(1, 7), path("d.b")),
            (Id(1, 8), path("d/s/c")),
        ];
        index.end(Some(found));
        drop(search);
        assert!(index.begin().is_none());
        assert_eq!(names(&index, 7), ["/d.b", "/e/a"]);
        index.note_exchange(|| (path("e"), path("d.b")));
        assert_eq!(names(&index, 7), ["/d.b/a", "/e"]);
        assert_eq!(names(&index, 8), ["/d.b/s/c"]);
        index.note_names(Id(1, 8), [path("d.b/s/c"), path("e")]);
        assert_eq!(names(&index, 7), ["/d.b/a"]);
        assert_eq!(names(&index, 8), ["/d.b/s/c", "/e"]);
    }

    #[test]
    fn failed_search_is_repeated() {
        let index = LinkIndex::default();
        drop(index.begin().unwrap());
        index.end(None);
        assert!(index.names(Id(1, 7)).is_none());
        assert!(index.begin().is_some());
    }
}
