//! The files of a session that have, or may have, names outside the store: suspected, changed or copied ones, and the
//! notices about them.
//!
//! Lock: one mutex, never held over a system call.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::name::WorldPath;
use trumanfs_types::meta::Id;

/// The maximum number of suspected files that a session remembers.
const MAX_SUSPECTS: usize = 1 << 16;

/// The files with names outside the store, as far as the session knows them.
#[derive(Debug, Default)]
pub(super) struct OutsideNames(Mutex<OutsideNamesState>);

/// A file that was changed in place and may have a name outside.
#[derive(Debug)]
pub(super) struct SuspectFile {
    pub(super) id: Id,
    pub(super) links: u32,
    pub(super) path: WorldPath,
}

#[derive(Debug, Default)]
struct OutsideNamesState {
    suspects: Vec<SuspectFile>,
    known: HashSet<Id>,
    /// The number of files changed in place, and the first of them.
    changed: (u64, Option<WorldPath>),
    /// The number of files copied, and the first of them.
    copied: (u64, Option<WorldPath>),
    /// A name that could not move to the copy.
    left: Option<WorldPath>,
}

impl OutsideNames {
    /// Adds a suspect, unless the file has been one.
    pub(super) fn add_suspect(&self, id: Id, links: u32, path: &WorldPath) {
        let mut seen = self.0.lock();
        if seen.known.len() < MAX_SUSPECTS && seen.known.insert(id) {
            let path = path.clone();
            seen.suspects.push(SuspectFile { id, links, path });
        }
    }

    /// Returns whether there are suspects.
    pub(super) fn has_suspects(&self) -> bool {
        !self.0.lock().suspects.is_empty()
    }

    /// Takes a suspect.
    pub(super) fn next_suspect(&self) -> Option<SuspectFile> {
        self.0.lock().suspects.pop()
    }

    /// Notes a name that could not move to a copy.
    pub(super) fn note_left_behind(&self, path: &WorldPath) {
        self.0.lock().left = Some(path.clone());
    }

    /// Counts a file that was changed in place. Returns the notice.
    pub(super) fn count_changed(&self, path: WorldPath) -> String {
        let mut seen = self.0.lock();
        seen.changed.0 += 1;
        let others = others_text(seen.changed.0);
        let first = seen.changed.1.get_or_insert(path);
        format!(
            "{first}{others} was opened to be changed, and has a name outside the store: what is changed here is changed \
             there. `trumanfs agent` and `run` copy such files first; `cp --no-preserve=links` makes them the store's own"
        )
    }

    /// Counts a file that was copied. Returns the notice.
    pub(super) fn count_copied(&self, path: WorldPath) -> String {
        let mut seen = self.0.lock();
        seen.copied.0 += 1;
        let others = others_text(seen.copied.0);
        let left = seen.left.as_ref().map_or_else(String::new, |path| {
            format!("; {path} could not be moved to the copy, and is still a link to the original")
        });
        let first = seen.copied.1.get_or_insert(path);
        format!(
            "{first}{others} had a name outside the store and became a copy before it was changed{left}; an undo makes it that \
             file again"
        )
    }
}

fn others_text(count: u64) -> String {
    match count {
        0 | 1 => String::new(),
        2 => " (and 1 other file)".to_owned(),
        more => format!(" (and {} other files)", more - 1),
    }
}
