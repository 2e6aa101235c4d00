//! The former contents on disk: their files, and the record that each belongs to.
//!
//! Deals with names and sizes, not with contents. Memory grows with the number of versions on disk, not of records.

use std::collections::HashMap;

use super::Store;
use super::age_bounds::AgeBounds;
use super::log::ForwardRecords;
use crate::error::{Error, Result};
use crate::journal::{Actor, InodeNumbers, KeepMethod, Op};
use crate::name::{Name, WorldPath};
use crate::world::keep::version_files::versions_of;
use crate::world::root::stat_at;
use crate::world::store::layout::{self, VersionFile};
use crate::world::store::settle::sessions;

/// The files of one version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VersionFiles {
    /// The size of the version, if its file exists.
    pub size: Option<u64>,
    /// The space that its files take, in bytes.
    pub disk: u64,
    /// True if the version has a list of ranges.
    pub map: bool,
}

/// The content of a session's directory of versions.
#[derive(Debug, Default)]
pub struct VersionDir {
    /// The versions by number.
    pub versions: HashMap<u64, VersionFiles>,
    /// Files without a version's name.
    pub strange: Vec<Vec<u8>>,
}

/// A version and its record.
#[derive(Debug, Clone, serde::Serialize)]
pub struct KeptVersion {
    /// The session.
    pub session: String,
    /// Its number.
    pub n: u64,
    /// The record, by its number in the session.
    pub seq: u64,
    /// The path of the file.
    pub path: WorldPath,
    /// The file's inode.
    pub ids: InodeNumbers,
    /// The file's inode from then on.
    #[serde(skip)]
    pub after: InodeNumbers,
    /// The time when it was kept, RFC 3339.
    pub time: String,
    /// The time before which it was not kept, whatever the clock said.
    #[serde(skip)]
    pub not_before: String,
    /// The way in which the content was kept.
    pub how: KeepMethod,
    /// The size of the content in bytes.
    pub size: u64,
    /// The space that it takes on disk, in bytes.
    pub disk: u64,
    /// True if parts of the content are read from later contents.
    #[serde(skip)]
    pub map: bool,
    /// The process that changed the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

/// Lists a session's versions on disk.
///
/// # Errors
/// Those of reading the directory.
pub fn on_disk(store: &Store, session: &str) -> Result<VersionDir> {
    let mut found = VersionDir::default();
    let Some(dir) = versions_of(&store.state, session)? else {
        return Ok(found);
    };
    for entry in rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        let bytes = entry.file_name().to_bytes();
        let Ok(name) = Name::new(bytes) else {
            continue; // `.` and `..`
        };
        let Ok(meta) = stat_at(std::os::fd::AsFd::as_fd(&dir), name) else {
            continue; // evicted meanwhile
        };
        let (n, is_map) = match layout::version_file(bytes) {
            Some(VersionFile::Version(n)) => (n, false),
            Some(VersionFile::Map(n)) => (n, true),
            // It was being written when the daemon died.
            Some(VersionFile::NewMap(_)) => continue,
            None => {
                found.strange.push(bytes.to_vec());
                continue;
            }
        };
        let files = found.versions.entry(n).or_default();
        files.disk += meta.blocks * 512;
        if is_map {
            files.map = true
        } else {
            files.size = Some(meta.size)
        }
    }
    Ok(found)
}

/// Returns the inode that replaced a file's inode.
fn new_inode(op: &Op) -> Option<InodeNumbers> {
    match op {
        Op::Truncate { new, .. } | Op::Content { new, .. } => *new,
        _ => None,
    }
}

/// Lists all sessions' versions that are on disk and have a record, oldest first.
///
/// # Errors
/// Read errors; a damaged journal causes a warning, and its versions after the break are left out.
pub fn list(store: &Store) -> Result<Vec<KeptVersion>> {
    let mut waiting: HashMap<String, HashMap<u64, VersionFiles>> = HashMap::new();
    for session in sessions(&store.state)? {
        let files = on_disk(store, &session)?.versions;
        if !files.is_empty() {
            waiting.insert(session, files);
        }
    }
    let mut listed = Vec::new();
    if waiting.is_empty() {
        return Ok(listed);
    }
    let mut log = ForwardRecords::open(store)?;
    let mut ages = AgeBounds::new();
    loop {
        let (session, record) = match log.next_record() {
            Ok(Some((session, record))) => (session, record.with_device(store.root().id().0)),
            Ok(None) => return Ok(listed),
            Err(error) => {
                log::warn!("{error}");
                continue;
            }
        };
        let not_before = ages.not_before(&record).to_owned();
        let (Some(path), Some(ids), Some((kept, size))) = (
            record.op.path(),
            record.op.ids().next().copied(),
            record.op.kept(),
        ) else {
            continue;
        };
        let files = waiting.get_mut(&session).and_then(|f| f.remove(&kept.n));
        if let Some(files) = files {
            listed.push(KeptVersion {
                n: kept.n,
                seq: record.seq,
                path: path.clone(),
                ids,
                after: new_inode(&record.op).unwrap_or(ids),
                time: record.time,
                not_before,
                how: kept.how,
                size,
                disk: files.disk,
                map: files.map,
                actor: record.actor,
                session,
            });
        }
    }
}
