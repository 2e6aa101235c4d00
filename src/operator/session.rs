//! Sessions as an operator sees them: time, home, programs, number of changes.
//!
//! A single pass over a session's journal, without parsing its records; memory grows with the number of different
//! programs only.

pub use crate::world::store::holder::is_for_requests;

use std::collections::BTreeMap;
use std::io::BufReader;

use super::Store;
use crate::error::{Error, Result};
use crate::journal::{JournalReader, Op};
use crate::name::{Name, WorldPath};
use crate::world::Dir;
use crate::world::store::layout::{SESSIONS, STATE, VERSIONS};
use crate::world::store::settle::{open_journal, sessions};

/// The way in which a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionEnding {
    /// The session was unmounted.
    Clean,
    /// The session is still running.
    Running,
    /// Its daemon ended without unmounting, and the store has not been mounted since.
    Abrupt,
    /// The session has no journal: its daemon was killed before the session began, or the journal was removed.
    Absent,
}

/// A checkpoint, an undo, or an acceptance.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SessionMark {
    /// The number of its record.
    pub seq: u64,
    /// Its time.
    pub time: String,
    /// `checkpoint`, `undo` or `accept`.
    pub op: String,
    /// The checkpoint's name, or the command.
    pub what: String,
}

/// The text in place of a session's home, for a session whose mount had no place that anyone could know.
pub const FOR_REQUESTS: &str = "mounted for as long as programs ran";

/// The summary of a session.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Session {
    /// Its id.
    #[serde(rename = "session")]
    pub id: String,
    /// The time of its start, RFC 3339; absent where its journal does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// The time of its latest record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// The way in which it ended.
    pub end: SessionEnding,
    /// Its home, escaped; absent for a session of an unmounted store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The release of trumanfs that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The number of changes (without records of aborted operations and of no change).
    pub changes: u64,
    /// The number of records.
    pub records: u64,
    /// The number of runs of executors that changed something in it; undos are among the marks.
    pub runs: u64,
    /// The number of changes of each kind.
    pub ops: BTreeMap<String, u64>,
    /// The programs with the number of their changes, busiest first.
    pub programs: Vec<(String, u64)>,
    /// The number of former contents that were kept.
    pub kept: u64,
    /// The space that the versions take on disk, in bytes.
    pub versions_bytes: u64,
    /// The size of the journal in bytes.
    pub journal_bytes: u64,
    /// Checkpoints, undos and acceptances, in order.
    pub marks: Vec<SessionMark>,
    /// The damage of its journal; everything else then describes the part before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Returns all sessions, oldest first.
///
/// # Errors
/// Read errors. Damage is not an error here; it is noted in the session.
pub fn list(store: &Store) -> Result<Vec<Session>> {
    let ids = sessions(store.state())?;
    ids.into_iter().map(|id| show(store, id)).collect()
}

/// Returns one session by its id.
///
/// # Errors
/// As [`list`].
pub fn show(store: &Store, id: String) -> Result<Session> {
    let mut session = Session {
        versions_bytes: versions_bytes(store, &id)?,
        id,
        began: None,
        last: None,
        end: SessionEnding::Absent,
        home: None,
        host: None,
        version: None,
        changes: 0,
        records: 0,
        runs: 0,
        ops: BTreeMap::new(),
        programs: Vec::new(),
        kept: 0,
        journal_bytes: 0,
        marks: Vec::new(),
        damage: None,
    };
    let file = match open_journal(store.state(), &session.id) {
        Err(Error::NotFound) => return Ok(session),
        file => file?,
    };
    session.journal_bytes = file.metadata().map_or(0, |meta| meta.len());
    let mut reader = JournalReader::new(BufReader::with_capacity(1 << 17, file));
    let mut programs = BTreeMap::new();
    let mut ended = false;
    loop {
        match read_record(&mut reader, &mut session, &mut programs, &mut ended) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Error::Damaged(what)) => {
                session.damage = Some(what);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    session.programs = programs.into_iter().collect();
    session
        .programs
        .sort_by_key(|(_, changes)| std::cmp::Reverse(*changes));
    let served = || -> Result<bool> {
        let holder = store.holder()?;
        Ok(store.is_served()? && holder.is_some_and(|holder| holder.session == session.id))
    };
    session.end = if ended {
        SessionEnding::Clean
    } else if served()? {
        SessionEnding::Running
    } else {
        SessionEnding::Abrupt
    };
    Ok(session)
}

/// Finds the newest session in which the store was mounted: changes of an unmounted store are an operator's.
///
/// # Errors
/// [`Error::Damaged`] where a session's beginning cannot be read; those of reading.
pub fn last_mounted(store: &Store) -> Result<Option<String>> {
    for session in sessions(store.state())?.into_iter().rev() {
        let Ok(file) = open_journal(store.state(), &session) else {
            continue;
        };
        let begin = JournalReader::new(BufReader::new(file)).next_record()?;
        if let Some(Op::Begin { home: Some(_), .. }) = begin.map(|record| record.op) {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

fn read_record(
    reader: &mut JournalReader<BufReader<std::fs::File>>,
    session: &mut Session,
    programs: &mut BTreeMap<String, u64>,
    ended: &mut bool,
) -> Result<bool> {
    if !reader.advance()? {
        return Ok(false);
    }
    let header = reader.header()?;
    session.records += 1;
    match &mut session.last {
        Some(last) => header.time.as_ref().clone_into(last),
        last => *last = Some(header.time.to_string()),
    }
    *ended = header.op == "end";
    match &*header.op {
        "begin" => {
            session.began = Some(header.time.to_string());
            if let Op::Begin {
                home,
                host,
                version,
                ..
            } = reader.record()?.op
            {
                session.home = home.map(|home| crate::name::escape(&home.0));
                session.host = Some(host);
                session.version = Some(version);
            }
            return Ok(true);
        }
        "end" | "gather" => return Ok(true),
        "run" => {
            session.runs += 1;
            return Ok(true);
        }
        "abort" => {
            session.changes = session.changes.saturating_sub(1);
            return Ok(true);
        }
        "checkpoint" | "undo" | "accept" => {
            session.marks.push(SessionMark {
                seq: header.seq,
                time: header.time.to_string(),
                op: header.op.to_string(),
                what: header.words().into_owned(),
            });
            return Ok(true);
        }
        _ => {}
    }
    session.changes += 1;
    session.kept += u64::from(header.has_kept());
    match session.ops.get_mut(&*header.op) {
        Some(count) => *count += 1,
        None => drop(session.ops.insert(header.op.to_string(), 1)),
    }
    let program = header.comm();
    match programs.get_mut(&*program) {
        Some(count) => *count += 1,
        None if program.is_empty() => {}
        None => drop(programs.insert(program.into_owned(), 1)),
    }
    Ok(true)
}

/// Returns the directory of a session's versions; `None` if it has none.
pub(super) fn open_versions(store: &Store, id: &str) -> Result<Option<Dir>> {
    let mut path = WorldPath::parse(STATE)?;
    for part in [SESSIONS, id, VERSIONS] {
        path.push(Name::new(part.as_bytes())?);
    }
    match store.root.dir(&path) {
        Err(Error::NotFound) => Ok(None),
        dir => dir.map(Some),
    }
}

/// Returns the space that a session's versions take on disk.
fn versions_bytes(store: &Store, id: &str) -> Result<u64> {
    let Some(dir) = open_versions(store, id)? else {
        return Ok(0);
    };
    let fd = store.root.read_dir(&dir)?;
    let mut bytes = 0;
    for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        if let Ok(name) = Name::new(entry.file_name().to_bytes())
            && let Ok(meta) = dir.stat(name)
        {
            bytes += meta.blocks * 512;
        }
    }
    Ok(bytes)
}
