//! The space that the trash and the former contents take, by session and by program.

use std::collections::BTreeMap;

use super::Store;
use super::kept_versions::{self, KeptVersion};
use super::trash::{self, TrashEntry};
use crate::error::Result;
use crate::journal::Actor;

/// The number of largest entries that are listed.
const MAX_LISTED_ENTRIES: usize = 10;

/// A number of entries and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct SpaceAmount {
    /// Their number.
    pub count: u64,
    /// The total size of their files, in bytes.
    pub bytes: u64,
    /// The space that they take on disk, in bytes.
    pub disk: u64,
}

impl SpaceAmount {
    fn add(&mut self, bytes: u64, disk: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.disk += disk;
    }
}

/// The share of one session or one program.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct SpaceShare {
    /// Entries of the trash.
    pub trash: SpaceAmount,
    /// Former contents.
    pub versions: SpaceAmount,
}

/// The space used.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct SpaceUsage {
    /// Entries of the trash.
    pub trash: SpaceAmount,
    /// Former contents.
    pub versions: SpaceAmount,
    /// Shares by session, oldest first; the empty key stands for an unknown session.
    pub sessions: BTreeMap<String, SpaceShare>,
    /// Shares by program; the empty key stands for an unknown program.
    pub programs: BTreeMap<String, SpaceShare>,
    /// The largest entries of the trash.
    pub biggest: Vec<TrashEntry>,
    /// The largest former contents.
    pub biggest_versions: Vec<KeptVersion>,
}

/// Measures the space used.
///
/// # Errors
/// Those of reading the trash and the journals.
pub fn usage(store: &Store) -> Result<SpaceUsage> {
    let mut usage = SpaceUsage::default();
    let mut listed = trash::list(store)?;
    for entry in &listed {
        usage.trash.add(entry.size, entry.disk);
        let session = entry.session.clone().unwrap_or_default();
        let (session, program) = usage.shares(session, entry.actor.as_ref());
        session.trash.add(entry.size, entry.disk);
        program.trash.add(entry.size, entry.disk);
    }
    listed.sort_by_key(|entry| std::cmp::Reverse(entry.disk));
    listed.truncate(MAX_LISTED_ENTRIES);
    usage.biggest = listed;
    let mut contents = kept_versions::list(store)?;
    for version in &contents {
        usage.versions.add(version.size, version.disk);
        let (session, program) = usage.shares(version.session.clone(), version.actor.as_ref());
        session.versions.add(version.size, version.disk);
        program.versions.add(version.size, version.disk);
    }
    contents.sort_by_key(|version| std::cmp::Reverse(version.disk));
    contents.truncate(MAX_LISTED_ENTRIES);
    usage.biggest_versions = contents;
    Ok(usage)
}

impl SpaceUsage {
    fn shares(
        &mut self,
        session: String,
        actor: Option<&Actor>,
    ) -> (&mut SpaceShare, &mut SpaceShare) {
        (
            self.sessions.entry(session).or_default(),
            self.programs.entry(program(actor)).or_default(),
        )
    }
}

/// Returns a process's display name, as in `log`: its own name, or its program's file name where the process ended
/// before its name was read.
pub fn program(actor: Option<&Actor>) -> String {
    let Some(actor) = actor else {
        return String::new();
    };
    if !actor.comm.is_empty() {
        return actor.comm.clone();
    }
    let exe = actor.exe.rsplit('/').next().unwrap_or_default();
    exe.strip_suffix(" (deleted)").unwrap_or(exe).to_owned()
}
