//! The files that git tracks in a store and a home at a path does not have: git there takes them for deleted.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::world::git_index::tracked_files;
use crate::world::root::open_beneath;
use crate::world::{Root, SymlinkPolicy, View, ViewOptions};

/// The largest index that is looked into: nobody waits for a larger one, of some 150,000 files.
const MAX_INDEX_BYTES: u64 = 16 << 20;

/// The numbers of tracked files that a home hides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HiddenFromGit {
    /// The symlinks.
    pub links: usize,
    /// The files that patterns hide.
    pub by_pattern: usize,
}

/// Counts the tracked files that a home of a store would hide; none where the store is no repository of its own, or its
/// index cannot be read.
#[must_use]
pub fn hidden_from_git(store: &Path, hide: &[String], symlinks_inside: bool) -> HiddenFromGit {
    count_hidden(store, hide, symlinks_inside).unwrap_or_default()
}

/// Counts the tracked files that a home of the repository around a directory would hide.
#[must_use]
pub fn hidden_around(here: &Path) -> Option<(PathBuf, HiddenFromGit)> {
    let mut above = here.ancestors();
    let top = above.find(|dir| dir.join(".git/index").is_file())?;
    Some((top.to_owned(), hidden_from_git(top, &[], false)))
}

fn count_hidden(store: &Path, hide: &[String], symlinks_inside: bool) -> Result<HiddenFromGit> {
    let root = Root::open(store)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let index = open_beneath(root.as_fd(), b".git/index", flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&index).map_err(Error::os("fstat"))?;
    if u64::try_from(stat.st_size).is_ok_and(|size| size > MAX_INDEX_BYTES) {
        return Ok(HiddenFromGit::default());
    }
    let mut bytes = Vec::new();
    let index = std::io::Read::take(std::fs::File::from(index), MAX_INDEX_BYTES);
    std::io::Read::read_to_end(&mut { index }, &mut bytes)
        .map_err(|error| Error::io("read", &error))?;
    let options = ViewOptions {
        hide: hide.to_vec(),
        symlinks: match symlinks_inside {
            true => SymlinkPolicy::Inside,
            false => SymlinkPolicy::Hidden,
        },
        ..ViewOptions::default()
    };
    let view = View::new(options, None, HashSet::new())?;
    let mut hidden = HiddenFromGit::default();
    for (path, is_link) in tracked_files(&bytes).unwrap_or_default() {
        let path = WorldPath::parse(&path)?;
        if view.hides(&path, false) {
            hidden.by_pattern += 1;
        } else if is_link && !(symlinks_inside && has_target_inside(&root, &view, &path)) {
            hidden.links += 1;
        }
    }
    Ok(hidden)
}

/// Returns whether a link exists in the home. One that the disk has no more is not hidden.
fn has_target_inside(root: &Root, view: &View, path: &WorldPath) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
        return true;
    };
    let target = root
        .dir(&parent)
        .ok()
        .and_then(|dir| rustix::fs::readlinkat(&dir, name.bytes(), Vec::new()).ok());
    target.is_none_or(|target| view.admits_target(&parent, target.as_bytes()))
}
