//! The files of versions: opening and listing a session's directory of them, and deleting.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::root::{open_beneath, stat_at};
use crate::world::store::layout::{self, VERSIONS, VersionFile, map_name, new_name, version_name};

/// Opens the versions of a session; `None` if it has none.
///
/// # Errors
/// Any error from `openat2(2)`.
pub fn versions_of(state: impl AsFd, session: &str) -> Result<Option<OwnedFd>> {
    let path = layout::of_session(session, VERSIONS);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_beneath(state.as_fd(), path.as_bytes(), flags, Mode::empty()) {
        Err(Error::NotFound) => Ok(None),
        dir => dir.map(Some),
    }
}

/// Lists the versions in a directory, oldest first, as numbers and bytes on disk.
///
/// # Errors
/// Any error from `getdents64(2)`.
pub fn list(dir: &OwnedFd) -> Result<Vec<(u64, u64)>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in rustix::fs::Dir::read_from(dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let name = entry.file_name().to_bytes();
        if let Some(VersionFile::Version(n) | VersionFile::Map(n)) = layout::version_file(name)
            && let Ok(meta) = stat_at(dir.as_fd(), Name::new(name)?)
        {
            *found.entry(n).or_insert(0) += meta.blocks * 512;
        }
    }
    Ok(found.into_iter().collect())
}

/// Deletes lists whose versions are gone: a crash came between the two deletions, or before the version was made.
/// Returns the message for the operator. The caller has the store's lock.
///
/// # Errors
/// Any error from reading the directory.
pub(in crate::world) fn delete_orphan_lists(
    state: &impl AsFd,
    session: &str,
) -> Result<Option<String>> {
    let Some(dir) = versions_of(state, session)? else {
        return Ok(None);
    };
    let mut lists = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let name = entry.file_name().to_bytes();
        let is_alone = match layout::version_file(name) {
            Some(VersionFile::NewMap(_)) => true,
            Some(VersionFile::Map(n)) => !is_there(&dir, Name::new(version_name(n).as_bytes())?)?,
            Some(VersionFile::Version(_)) | None => false,
        };
        if is_alone {
            lists.push(entry.file_name().to_owned());
        }
    }
    for name in &lists {
        rustix::fs::unlinkat(&dir, name, AtFlags::empty()).map_err(Error::os("unlinkat"))?;
    }
    Ok((!lists.is_empty()).then(|| {
        let lists = lists.len();
        format!("{lists} list(s) of ranges had no version, and were deleted")
    }))
}

/// Deletes the versions that no record of their session names: each was made for a change that had not begun when the
/// daemon was killed. Returns the message for the operator. Nobody else has the store, and no record is missing.
///
/// # Errors
/// Any error from reading the directory.
pub(in crate::world) fn drop_unrecorded(
    state: &impl AsFd,
    session: &str,
    named: &HashSet<u64>,
) -> Result<Option<String>> {
    let Some(dir) = versions_of(state, session)? else {
        return Ok(None);
    };
    let mut dropped = 0_u64;
    for (n, _) in list(&dir)? {
        if !named.contains(&n) {
            delete(&dir, n);
            dropped += 1;
        }
    }
    Ok((dropped > 0).then(|| {
        format!(
            "{dropped} content(s) had been kept for changes that had not begun, and were deleted"
        )
    }))
}

fn is_there(dir: &OwnedFd, name: Name<'_>) -> Result<bool> {
    match stat_at(dir.as_fd(), name) {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes one version permanently. Its list goes last: without it, a version with holes would be taken for whole.
pub fn delete(dir: &OwnedFd, n: u64) {
    let map = map_name(n);
    for name in [version_name(n), map.clone(), new_name(&map)] {
        let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
    }
}
