//! Power cuts: with which sessions the machine went down, and which of their former contents may not have been on the disk.
//!
//! Owns the mark `sessions/{id}/power-cut`, which says when the last record was made. Without `--durable` nobody waits for the
//! disk, so what was kept shortly before may be there in part, or read as what the disk held before: nothing in it tells.
//! It is given back, and doubted.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use chrono::{DateTime, SecondsFormat, TimeDelta};
use rustix::fs::{Mode, OFlags};

use super::root::open_beneath;
use super::sessions::open_journal;
use super::state::{Holder, SESSIONS, StateDir, boot_id, io};
use crate::error::{Error, Result};
use crate::journal::{Op, Reader, Tail};

/// The file name of the mark in its session's directory.
const MARK: &str = "power-cut";

/// How long it takes at the most until data are on the disk by themselves: the kernel begins after 30 s, and looks every 5 s.
const WRITTEN_OUT: TimeDelta = TimeDelta::seconds(60);

/// Marks the session that is being settled where the machine went down with it and nobody had waited for the disk. Returns
/// what is to be told of it.
pub(super) fn mark(state: &StateDir, session: &str, tail: Option<&Tail>) -> Result<Option<String>> {
    let Some(tail) = tail.filter(|_| went_down(state.as_fd(), session, state.before.as_ref()))
    else {
        return Ok(None);
    };
    let time = &tail.record.time;
    let path = format!("{SESSIONS}/{session}/{MARK}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(open_beneath(state.as_fd(), path.as_bytes(), flags, mode)?);
    file.write_all(time.as_bytes())
        .and_then(|()| file.sync_data())
        .map_err(|error| io(&error))?;
    Ok(Some(format!(
        "the machine went down with it: former contents that were kept within a minute before {time} may not be whole"
    )))
}

/// Returns the time from which former contents of a session are doubted, as records say it; `None` where none is. `last` is
/// who held the lock last: the session may not have been settled yet.
pub fn doubtful_since(
    state: BorrowedFd<'_>,
    session: &str,
    last: Option<&Holder>,
) -> Option<String> {
    let path = format!("{SESSIONS}/{session}/{MARK}");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let time = match open_beneath(state, path.as_bytes(), flags, Mode::empty()) {
        Ok(file) => {
            let mut text = String::new();
            File::from(file).take(64).read_to_string(&mut text).ok()?;
            text
        }
        Err(Error::NotFound) if last.is_none_or(|last| last.session == session) => {
            let file = open_journal(state, session).ok()?;
            let tail = crate::journal::tail(&file).ok()??;
            let open = tail.record.op != Op::End && went_down(state, session, last);
            open.then_some(tail.record.time)?
        }
        Err(_) => return None,
    };
    let time = DateTime::parse_from_rfc3339(time.trim()).ok()?.to_utc() - WRITTEN_OUT;
    Some(time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

/// Returns whether a session began before the machine's present start, and nobody waited for the disk in it. It has not ended.
fn went_down(state: BorrowedFd<'_>, session: &str, holder: Option<&Holder>) -> bool {
    if holder.is_some_and(|holder| holder.durable && holder.session == session) {
        return false;
    }
    let first = open_journal(state, session)
        .and_then(|file| Reader::new(std::io::BufReader::new(file)).next_record());
    matches!(
        first.ok().flatten().map(|record| record.op),
        Some(Op::Begin { boot, .. }) if boot != boot_id()
    )
}
