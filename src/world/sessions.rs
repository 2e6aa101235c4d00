//! The sessions of a store: which there are, and the files of their journals.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags};

use super::own;
use super::root::{open_beneath, stat_fd};
use super::state::{SESSIONS, StateDir};
use crate::error::{Error, Result};
use crate::journal::FILE;
use crate::name::Name;

/// Returns the ids of all sessions, oldest first.
///
/// # Errors
/// What reading the directory says.
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
/// `ENOENT` where there is none; what `open(2)` says.
pub fn open_journal(state: impl AsFd, session: &str) -> Result<File> {
    open_session_file(state, session, OFlags::RDONLY)
}

pub(super) fn open_session_file(state: impl AsFd, session: &str, flags: OFlags) -> Result<File> {
    let path = format!("{SESSIONS}/{session}/{FILE}");
    own::open(state.as_fd(), path.as_bytes(), flags)
}

/// Returns a fresh session id: sortable, and different for each start.
pub fn new_session_id() -> String {
    let mut salt = [0; 2];
    let _ = rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty());
    let now = chrono::Utc::now().format(STARTS);
    format!("{now}-{:04x}", u16::from_ne_bytes(salt))
}

/// How a session id says when the session began.
const STARTS: &str = "%Y%m%dT%H%M%S%.6fZ";

/// Returns the id itself where it sorts after those of all sessions, else one that does: the clock may have been put
/// back, and whoever waited for the lock has an id from before. The caller holds the store's lock, which names `last`.
pub(super) fn following(state: impl AsFd, last: Option<&str>, id: String) -> Result<String> {
    let Some((_, salt)) = start(&id) else {
        return Ok(id); // of no session
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

/// Takes an id apart: when the session began, and the rest.
fn start(id: &str) -> Option<(chrono::NaiveDateTime, &str)> {
    let (began, salt) = id.split_once('-')?;
    let began = chrono::NaiveDateTime::parse_from_str(began, STARTS).ok()?;
    Some((began, salt))
}

/// Opens the journal of the newest session; `None` where there is none, or its beginner died before it.
///
/// A session begins under the lock, after the lock's file has been made to name it. So the one that is named there is the
/// newest if it is there at all, and not all need be listed, which takes longer with each. Unless somebody has put others
/// there since.
pub(super) fn newest(
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
        // Killed between making the directory and the journal: nothing was done.
        Err(Error::NotFound) => Ok(None),
        file => file.map(|file| Some((session, file))),
    }
}

/// Returns whether no session was made or taken away since what is in this one was made.
fn is_last_made(state: BorrowedFd<'_>, session: &str) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let changed = |path: &str| {
        let dir = open_beneath(state, path.as_bytes(), flags, Mode::empty())?;
        stat_fd(dir.as_fd()).map(|meta| meta.mtime)
    };
    match (changed(SESSIONS), changed(&format!("{SESSIONS}/{session}"))) {
        (Ok(all), Ok(this)) => all <= this,
        _ => false,
    }
}

/// A session that has not begun yet: where it cannot, its directory is taken away.
pub(super) struct Unbegun<'a>(Option<(&'a StateDir, &'a str)>);

impl<'a> Unbegun<'a> {
    pub(super) fn new(state: &'a StateDir, session: &'a str) -> Unbegun<'a> {
        Unbegun(Some((state, session)))
    }

    /// There it is.
    pub(super) fn has_begun(mut self) {
        self.0 = None;
    }
}

impl Drop for Unbegun<'_> {
    fn drop(&mut self) {
        if let Some((state, session)) = self.0 {
            state.forget_session(session);
        }
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
        let follows = |last, id: &str| following(&state, last, id.to_owned()).unwrap();
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
        // Where the lock names no session, or not the last that was made, those that there are tell.
        assert_eq!(follows(Some("gone"), early), "30000101T000000.000000Z-0001");
        assert_eq!(follows(Some("fsck"), early), "30000101T000000.000000Z-0001");
        let new = new_session_id();
        assert!(start(&new).is_some() && follows(Some(late), &new).starts_with("30000101T"));
    }
}
