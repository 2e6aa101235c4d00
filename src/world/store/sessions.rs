//! The sessions of a store: their ids, and the files of their journals.

use std::fs::File;
use std::io::BufReader;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::{JournalReader, MountSettings, Op};
use crate::name::Name;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::{self, JOURNAL, SESSIONS};
use crate::world::store::state_files;

/// Returns the ids of all sessions, oldest first.
///
/// # Errors
/// Any error from reading the directory.
pub fn sessions(state: impl AsFd) -> Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = match open_beneath(state.as_fd(), SESSIONS.as_bytes(), flags, Mode::empty()) {
        Err(Error::NotFound) => return Ok(Vec::new()),
        dir => dir?,
    };
    let mut ids = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        if let Ok(id) = entry.file_name().to_str()
            && !id.starts_with('.')
        {
            ids.push(id.to_owned());
        }
    }
    ids.sort();
    Ok(ids)
}

/// Opens the journal of a session for reading.
///
/// # Errors
/// `ENOENT` if there is none; any error from `open(2)`.
pub fn open_journal(state: impl AsFd, session: &str) -> Result<File> {
    open_session_file(state, session, OFlags::RDONLY)
}

pub(in crate::world) fn open_session_file(
    state: impl AsFd,
    session: &str,
    flags: OFlags,
) -> Result<File> {
    let path = layout::of_session(session, JOURNAL);
    state_files::open(state.as_fd(), path.as_bytes(), flags)
}

/// Returns a new session id: sortable, and different for each start.
pub fn new_session_id() -> String {
    let mut salt = [0; 2];
    let _ = rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty());
    let now = chrono::Utc::now().format(STARTS);
    format!("{now}-{:04x}", u16::from_ne_bytes(salt))
}

/// The format of the start time in a session id.
const STARTS: &str = "%Y%m%dT%H%M%S%.6fZ";

/// Returns the given id if it sorts after all sessions, else one that does: the clock may have been put back, and an
/// id may be older than the wait for the lock. The caller holds the store's lock, which names `last`.
pub(in crate::world) fn later_session_id(
    state: impl AsFd,
    last: Option<&str>,
    id: String,
) -> Result<String> {
    let Some((_, salt)) = start(&id) else {
        return Ok(id); // No session's id.
    };
    let listed;
    let state = state.as_fd();
    let is_newest = |last: &&str| start(last).is_some() && is_last_made(state, last);
    let newest = match last.filter(is_newest) {
        Some(last) => Some(last),
        None => {
            listed = sessions(state)?.pop();
            listed.as_deref()
        }
    };
    Ok(match newest {
        Some(newest) if *newest > *id => match start(newest) {
            Some((began, _)) => {
                let next = began.checked_add_signed(chrono::TimeDelta::microseconds(1));
                format!("{}-{salt}", next.unwrap_or(began).format(STARTS))
            }
            None => id,
        },
        _ => id,
    })
}

/// Splits an id into its start time and the rest.
fn start(id: &str) -> Option<(chrono::NaiveDateTime, &str)> {
    let (began, salt) = id.split_once('-')?;
    let began = chrono::NaiveDateTime::parse_from_str(began, STARTS).ok()?;
    Some((began, salt))
}

/// Opens the journal of the newest session; `None` if there is none, or the daemon died before creating it.
///
/// A session begins under the lock, after the lock file names it. So the named session, if it exists, is the newest,
/// and the directory need not be listed, which takes longer with every session. Listing is needed only if sessions were
/// added since.
pub(in crate::world) fn open_newest_journal(
    state: impl AsFd,
    named: Option<&str>,
    flags: OFlags,
) -> Result<Option<(String, File)>> {
    let state = state.as_fd();
    let open = |session: &str| open_session_file(state, session, flags);
    if let Some(named) = named.filter(|id| Name::new(id.as_bytes()).is_ok())
        && is_last_made(state, named)
    {
        match open(named) {
            Err(Error::NotFound) => {}
            file => return file.map(|file| Some((named.to_owned(), file))),
        }
    }
    let Some(session) = sessions(state)?.pop() else {
        return Ok(None);
    };
    match open(&session) {
        // The daemon was killed between creating the directory and the journal: nothing was done.
        Err(Error::NotFound) => Ok(None),
        file => file.map(|file| Some((session, file))),
    }
}

/// Returns the settings of a store's last mount; `None` if no session names them. Each mount records its settings in
/// its `begin`, and each session without a mount repeats those of the session before it, so the newest session has
/// them. `named` is the session that the lock names. A session whose `begin` cannot be read is skipped for the one
/// before it.
///
/// # Errors
/// Any error from reading the sessions.
pub(in crate::world) fn last_mount(
    state: BorrowedFd<'_>,
    named: Option<&str>,
) -> Result<Option<MountSettings>> {
    if let Some((_, file)) = open_newest_journal(state, named, OFlags::RDONLY)?
        && let Some(settings) = recorded_mount(file)
    {
        return Ok(settings);
    }
    let others = sessions(state)?.into_iter().rev();
    let mut others = others.filter_map(|session| open_journal(state, &session).ok());
    Ok(others.find_map(recorded_mount).flatten())
}

/// Reads the mount settings that a session records; the outer `None` if it has no `begin`.
fn recorded_mount(journal: File) -> Option<Option<MountSettings>> {
    match JournalReader::new(BufReader::new(journal)).next_record() {
        Ok(Some(record)) => match record.op {
            Op::Begin { mounted, .. } => Some(mounted.map(|with| *with)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether the list of sessions is unchanged since this session's files were created.
fn is_last_made(state: BorrowedFd<'_>, session: &str) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let changed = |path: &str| {
        let dir = open_beneath(state, path.as_bytes(), flags, Mode::empty())?;
        stat_fd(dir.as_fd()).map(|meta| meta.mtime)
    };
    match (changed(SESSIONS), changed(&layout::session(session))) {
        (Ok(all), Ok(this)) => all <= this,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_sorts_after_all_before_it_whatever_the_clock_says() {
        let dir = tempfile::tempdir().unwrap();
        let state = File::open(dir.path()).unwrap();
        let follows = |last, id: &str| later_session_id(&state, last, id.to_owned()).unwrap();
        let (early, late) = (
            "20260101T000000.000007Z-0001",
            "29991231T235959.999999Z-ffff",
        );
        assert_eq!(follows(None, early), early);
        let make = |id: &str| std::fs::create_dir_all(dir.path().join(SESSIONS).join(id)).unwrap();
        make(early);
        assert_eq!(follows(Some(early), late), late);
        assert_eq!(follows(Some(early), early), early, "whoever settles it");
        make(late);
        assert_eq!(follows(Some(late), early), "30000101T000000.000000Z-0001");
        assert_eq!(follows(Some(late), "fsck"), "fsck");
        // If the lock names no session, or not the newest, the existing sessions decide.
        assert_eq!(follows(Some("gone"), early), "30000101T000000.000000Z-0001");
        assert_eq!(follows(Some("fsck"), early), "30000101T000000.000000Z-0001");
        let new = new_session_id();
        assert!(start(&new).is_some() && follows(Some(late), &new).starts_with("30000101T"));
    }
}
