//! The sessions of a store: which there are, and the files of their journals.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};

use super::root::open_beneath;
use super::state::SESSIONS;
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
    open_beneath(
        state.as_fd(),
        path.as_bytes(),
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map(File::from)
}

/// Opens the journal of the newest session; `None` where there is none, or its beginner died before it.
///
/// A session begins under the lock, after the lock's file has been made to name it. So the one that is named there is the
/// newest if it is there at all, and not all need be listed, which takes longer with each.
pub(super) fn newest(
    state: impl AsFd,
    named: Option<&str>,
    flags: OFlags,
) -> Result<Option<(String, File)>> {
    let state = state.as_fd();
    let open = |session: &str| open_session_file(state, session, flags);
    if let Some(named) = named.filter(|id| Name::new(id.as_bytes()).is_ok()) {
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
