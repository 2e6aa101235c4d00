//! What the trash and the former contents take, by session and by program.

use std::collections::BTreeMap;

use super::Store;
use super::kept::{self, KeptVersion};
use super::trash::{self, Listed};
use crate::error::Result;
use crate::journal::Actor;

/// How many of the biggest are named.
const BIGGEST: usize = 10;

/// Entries and what they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// The sizes of their files, in bytes.
    pub bytes: u64,
    /// What they take on disk, in bytes.
    pub disk: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64, disk: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.disk += disk;
    }
}

/// What one session, or one program, has left behind.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Share {
    /// Entries of the trash.
    pub trash: Amount,
    /// Former contents.
    pub versions: Amount,
}

/// What there is.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Usage {
    /// Entries of the trash.
    pub trash: Amount,
    /// Former contents.
    pub versions: Amount,
    /// By session, oldest first; empty for what no journal knows.
    pub sessions: BTreeMap<String, Share>,
    /// By program; empty for what no journal knows.
    pub programs: BTreeMap<String, Share>,
    /// The biggest entries of the trash.
    pub biggest: Vec<Listed>,
    /// The biggest former contents.
    pub biggest_versions: Vec<KeptVersion>,
}

/// Finds out what is taken by what.
///
/// # Errors
/// What reading the trash and the journals says.
pub fn usage(store: &Store) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut listed = trash::list(store)?;
    for entry in &listed {
        usage.trash.add(entry.size, entry.disk);
        let session = entry.session.clone().unwrap_or_default();
        let (session, program) = usage.shares(session, entry.actor.as_ref());
        session.trash.add(entry.size, entry.disk);
        program.trash.add(entry.size, entry.disk);
    }
    listed.sort_by_key(|entry| std::cmp::Reverse(entry.disk));
    listed.truncate(BIGGEST);
    usage.biggest = listed;
    let mut contents = kept::list(store)?;
    for version in &contents {
        usage.versions.add(version.size, version.disk);
        let (session, program) = usage.shares(version.session.clone(), version.actor.as_ref());
        session.versions.add(version.size, version.disk);
        program.versions.add(version.size, version.disk);
    }
    contents.sort_by_key(|version| std::cmp::Reverse(version.disk));
    contents.truncate(BIGGEST);
    usage.biggest_versions = contents;
    Ok(usage)
}

impl Usage {
    fn shares(&mut self, session: String, actor: Option<&Actor>) -> (&mut Share, &mut Share) {
        (
            self.sessions.entry(session).or_default(),
            self.programs.entry(program(actor)).or_default(),
        )
    }
}

/// Returns what a process is called for people, as `log` has it: its own name, or the file name of its program where it ended before it was
/// asked for.
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
