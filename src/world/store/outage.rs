//! Power cuts: the sessions during which the machine went down, and their former contents that may not have reached
//! the disk.
//!
//! Owns the mark `sessions/{id}/power-cut`, which holds the time of the last record. Without `--durable` no request
//! waits for the disk, so a recently kept content may be incomplete, or hold older data, without showing it. Such a
//! content is still returned, but reported as doubtful.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use chrono::{DateTime, SecondsFormat, TimeDelta};
use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::{JournalReader, JournalTail, Op};
use crate::world::root::open_beneath;
use crate::world::store::holder::{StoreHolder, boot_id};
use crate::world::store::layout::{POWER_CUT, of_session};
use crate::world::store::sessions::open_journal;
use crate::world::store::state::{StateDir, io};

/// The longest time until data reach the disk by themselves: the kernel starts after 30 s, and checks every 5 s.
const WRITEBACK_LIMIT: TimeDelta = TimeDelta::seconds(60);

/// Marks the session being settled if the machine went down during it and its requests had not waited for the disk.
/// Returns the message for the operator.
pub(in crate::world) fn mark_power_cut(
    state: &StateDir,
    session: &str,
    tail: Option<&JournalTail>,
) -> Result<Option<String>> {
    let Some(tail) =
        tail.filter(|_| machine_went_down(state.as_fd(), session, state.before.as_ref()))
    else {
        return Ok(None);
    };
    let time = &tail.record.time;
    let path = of_session(session, POWER_CUT);
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

/// Returns the time, as in records, from which a session's former contents are doubtful; `None` if none are. `last` is
/// the last holder of the lock: the session may not have been settled yet.
pub fn doubtful_since(
    state: BorrowedFd<'_>,
    session: &str,
    last: Option<&StoreHolder>,
) -> Option<String> {
    let path = of_session(session, POWER_CUT);
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
            let ended = matches!(tail.record.op, Op::End { .. });
            let open = !ended && machine_went_down(state, session, last);
            open.then_some(tail.record.time)?
        }
        Err(_) => return None,
    };
    let time = DateTime::parse_from_rfc3339(time.trim()).ok()?.to_utc() - WRITEBACK_LIMIT;
    Some(time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

/// Returns whether a session without an end began before the machine's last boot and did not wait for the disk.
fn machine_went_down(state: BorrowedFd<'_>, session: &str, holder: Option<&StoreHolder>) -> bool {
    if holder.is_some_and(|holder| holder.durable && holder.session == session) {
        return false;
    }
    let first = open_journal(state, session)
        .and_then(|file| JournalReader::new(std::io::BufReader::new(file)).next_record());
    matches!(
        first.ok().flatten().map(|record| record.op),
        Some(Op::Begin { boot, .. }) if boot != boot_id()
    )
}
