//! Crash recovery: determining which of the last records' acts were done.
//!
//! A record is written before its act, so when the daemon dies the last few (one per worker thread) may name acts that
//! never happened. The state of the disk decides, seen through what later records did to the same names. A replacement
//! interrupted between its two steps is finished.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::iter::repeat;
use std::os::fd::AsFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::journal::{
    InodeNumbers, Journal, JournalReader, JournalTail, Op, Record, ReplacedFile, SessionEnd,
};
use crate::name::{Name, WorldPath};
use crate::world::located::stat;
use crate::world::root::Root;
use crate::world::store::layout::SESSIONS;
use crate::world::store::notices::StoreFinding;
pub use crate::world::store::sessions::{open_journal, sessions};
use crate::world::store::sessions::{open_newest_journal, open_session_file};
use crate::world::store::settle_names::SurroundingRecords;
use crate::world::store::state::StateDir;
use crate::world::trash::trash_entries::rename_noreplace;
use trumanfs_types::meta::Id;

/// The number of final records that may be unsettled when the daemon dies: more than twice as many as it has worker
/// threads, because a run may have a record of its own before its first change.
const WINDOW: usize = 128;

/// The number of such records after the machine went down: records and acts of several seconds reach the disk in any
/// order.
const WINDOW_AFTER_REBOOT: usize = 4096;

/// Truncates a journal after its last whole line: the rest is a record that was being written when its writer died, so
/// its act had not begun. Returns the number of bytes cut off. The caller holds the store's lock.
///
/// # Errors
/// Any error from the system calls.
pub fn cut_torn_end(state: impl AsFd, session: &str, length: u64) -> Result<u64> {
    let file = open_session_file(state, session, OFlags::RDWR)?;
    let end = file.metadata().map(|m| m.len()).unwrap_or(length);
    rustix::fs::ftruncate(&file, length).map_err(Error::os("ftruncate"))?;
    Ok(end.saturating_sub(length))
}

/// Ends a session whose journal has a break, so that the store can be mounted; the break stays. The caller holds the
/// store's lock.
///
/// # Errors
/// [`Error::Damaged`] where there is no record at all; any error from the system calls.
pub fn end_damaged_session(root: &Root, state: impl AsFd, session: &str) -> Result<()> {
    let file = open_session_file(state, session, OFlags::RDWR | OFlags::APPEND)?;
    let tail = crate::journal::tail_of_damaged(&file)?;
    let journal = Journal::new(file.into(), tail.as_ref(), false, root.id().0);
    journal.note(Op::End { settled: true }, None)?;
    journal.seal().map(|_| ())
}

/// Appends a seal to a journal whose last seal was changed, so that it can be read to its end. The changed seal stays.
/// The caller holds the store's lock.
///
/// # Errors
/// [`Error::Damaged`] where there is no record at all; any error from the system calls.
pub fn seal_again(root: &Root, state: impl AsFd, session: &str) -> Result<()> {
    let file = open_session_file(state, session, OFlags::RDWR | OFlags::APPEND)?;
    let tail = crate::journal::tail_of_damaged(&file)?;
    let journal = Journal::new(file.into(), tail.as_ref(), false, root.id().0);
    journal.seal_anew().map(|_| ())
}

/// Returns whether the newest session, if any, ended cleanly. `named` is the session that the lock names.
///
/// # Errors
/// [`Error::Damaged`] if its journal cannot be read; any error from the system calls.
pub fn is_settled(state: impl AsFd, named: Option<&str>) -> Result<bool> {
    match open_newest_journal(state, named, OFlags::RDONLY)? {
        Some((session, file)) => end(&session, &file).map(|(_, _, clean)| clean),
        None => Ok(true),
    }
}

/// Returns a journal's last records, its length, and whether its session ended cleanly.
fn end(session: &str, file: &File) -> Result<(Option<JournalTail>, u64, bool)> {
    let length = file.metadata().map(|m| m.len()).unwrap_or(0);
    let tail = crate::journal::tail(file).map_err(|error| damaged_error(session, &error))?;
    let clean = match &tail {
        None => length == 0,
        Some(tail) => matches!(tail.record.op, Op::End { .. }) && tail.length == length,
    };
    Ok((tail, length, clean))
}

/// The newest session before the one that begins.
#[derive(Debug, Default)]
pub struct LastSession {
    /// The findings, if the session had not ended cleanly.
    pub settled: Vec<StoreFinding>,
    /// The session's end, for the next `begin`; absent if there was no session.
    pub after: Option<SessionEnd>,
}

/// Settles the newest session, if it did not end cleanly. The caller holds the store's lock. Directories that the
/// session's occupant has closed are entered with an operator's access.
///
/// # Errors
/// [`Error::Damaged`] if its journal cannot be read; any error from the system calls.
pub fn last_session(root: &Root, state: &StateDir) -> Result<LastSession> {
    let root = &root.duplicate()?.for_operator();
    let flags = OFlags::RDWR | OFlags::APPEND;
    let Some((session, file)) = open_newest_journal(state, state.previous_session(), flags)? else {
        return Ok(LastSession::default());
    };
    let (tail, length, clean) = end(&session, &file)?;
    if clean {
        let journal = Journal::new(file.into(), tail.as_ref(), false, root.id().0);
        return Ok(LastSession {
            after: Some(session_end(session, &journal)?),
            settled: Vec::new(),
        });
    }
    let mut settled: Vec<StoreFinding> = Vec::new();
    let found = |what: String| StoreFinding {
        session: session.clone(),
        what,
        crash: true,
    };
    let whole = tail.as_ref().map_or(0, |t| t.length);
    if whole < length {
        rustix::fs::ftruncate(&file, whole).map_err(Error::os("ftruncate"))?;
        settled.push(found(format!(
            "a record was half written ({} bytes); its act had not begun",
            length - whole
        )));
    }
    settled.extend(
        crate::world::keep::version_files::delete_orphan_lists(state, &session)?.map(found),
    );
    settled.extend(
        crate::world::store::outage::mark_power_cut(state, &session, tail.as_ref())?.map(found),
    );
    let last = if state.is_fresh_copy() {
        LastRecords::default() // Its inode numbers are those of another store.
    } else {
        last_records(&session, &file, root.id().0)?
    };
    if last.is_of_this_boot {
        let dropped =
            crate::world::keep::version_files::drop_unrecorded(state, &session, &last.versions)?;
        settled.extend(dropped.map(found));
    }
    let journal = Journal::new(file.into(), tail.as_ref(), false, root.id().0);
    settled.extend(
        settle_records(root, &last.window, &journal)?
            .into_iter()
            .map(found),
    );
    if let Err(error) = crate::world::store::settle_links::recount_links(root, state, &last.window)
    {
        log::warn!("the hard links in the trash could not be counted: {error}");
    }
    if settled.is_empty() && !state.is_fresh_copy() {
        settled.push(found(
            "the daemon had ended without unmounting; every recorded change had been done"
                .to_owned(),
        ));
    }
    journal.note(Op::End { settled: true }, None)?;
    if let Err(error) = journal.seal() {
        log::warn!("the journal of session {session} could not be sealed: {error}");
    }
    // Its reserve is for the session that begins now.
    journal.trim();
    Ok(LastSession {
        after: Some(session_end(session, &journal)?),
        settled,
    })
}

/// Compares each of the last records with the disk, and aborts those whose act was not done. Returns the messages for
/// the operator.
fn settle_records(root: &Root, window: &[Record], journal: &Journal) -> Result<Vec<String>> {
    let mut messages = Vec::new();
    let mut not_done: HashSet<u64> = window
        .iter()
        .filter_map(|record| match &record.op {
            Op::Abort { of, .. } => Some(*of),
            _ => None,
        })
        .collect();
    for (index, record) in window.iter().enumerate().rev() {
        if not_done.contains(&record.seq) {
            continue;
        }
        let stands = |record: &&Record| !not_done.contains(&record.seq);
        let (before, later) = window.split_at(index);
        let around = SurroundingRecords {
            before: before.iter().filter(stands).collect(),
            later: later.iter().skip(1).filter(stands).collect(),
        };
        let fate = match find_outcome(root, record, &around) {
            // An occupant with an ordinary user's rights can close the inspected directories. That must not keep the
            // store shut.
            Err(error) if matches!(error.errno(), Errno::ACCESS | Errno::PERM) => {
                log::warn!("record {} cannot be settled: {error}", record.seq);
                RecordOutcome::Done
            }
            fate => fate?,
        };
        match fate {
            RecordOutcome::Done => {}
            RecordOutcome::Finished(what) => messages.push(what),
            RecordOutcome::NotDone => {
                let of = record.seq;
                not_done.insert(of);
                let error = "the daemon ended before it was done".to_owned();
                journal.abort(of, error, record.origin)?;
                messages.push(format!(
                    "{} (record {of}) had not been done",
                    record.op.word()
                ));
            }
        }
    }
    Ok(messages)
}

fn session_end(session: String, journal: &Journal) -> Result<SessionEnd> {
    let (seq, hash) = journal.end()?;
    Ok(SessionEnd { session, seq, hash })
}

fn damaged_error(session: &str, error: &Error) -> Error {
    Error::Damaged(format!(
        "the journal of session {session} cannot be read: {error}\n  \
         The occupant's files and the trash are not affected. Move .trumanfs/{SESSIONS}/{session} away, keep it, and mount again."
    ))
}

/// The last records of a journal, and facts about all its records.
#[derive(Debug, Default)]
struct LastRecords {
    /// The last records, some of which may not have been done.
    window: Vec<Record>,
    /// The versions that any record names.
    versions: HashSet<u64>,
    /// True if the machine has been up since the session began: then no record is missing.
    is_of_this_boot: bool,
}

fn last_records(session: &str, file: &File, device: u64) -> Result<LastRecords> {
    use std::io::Seek;
    let mut file = file;
    file.rewind().map_err(|error| Error::io("lseek", &error))?;
    let this_boot = crate::world::store::holder::boot_id();
    let mut kept = WINDOW;
    let mut window = VecDeque::new();
    let mut last = LastRecords {
        is_of_this_boot: true,
        ..LastRecords::default()
    };
    for record in JournalReader::new(BufReader::new(file)) {
        let record = record
            .map_err(|error| damaged_error(session, &error))?
            .with_device(device);
        if let Op::Begin { boot, .. } = &record.op
            && *boot != this_boot
        {
            kept = WINDOW_AFTER_REBOOT;
            last.is_of_this_boot = false;
        }
        last.versions
            .extend(record.op.kept().map(|(kept, _)| kept.n));
        window.push_back(record);
        if window.len() > kept {
            window.pop_front();
        }
    }
    last.window = window.into();
    Ok(last)
}

enum RecordOutcome {
    Done,
    NotDone,
    /// The act was half done, and has been finished.
    Finished(String),
}

fn find_outcome(
    root: &Root,
    record: &Record,
    around: &SurroundingRecords<'_>,
) -> Result<RecordOutcome> {
    let done = |done: bool| {
        Ok(if done {
            RecordOutcome::Done
        } else {
            RecordOutcome::NotDone
        })
    };
    let mut places = Vec::new();
    let dirs = record.at.iter().map(|at| Some(at.2)).chain(repeat(None));
    for (path, dir) in record.op.paths().zip(dirs) {
        match around.find(root, path, dir)? {
            Some(place) => places.push(place),
            None => return Ok(RecordOutcome::Done),
        }
    }
    let mut places = places.iter();
    let Some(path) = places.next() else {
        return Ok(RecordOutcome::Done);
    };
    match &record.op {
        // A node that a later act has moved to such a name is not a copy.
        Op::Create { path: made, .. } | Op::Link { path: made, .. }
            if made == path && crate::world::copy_up::drop_passing(root, made)? =>
        {
            Ok(RecordOutcome::NotDone)
        }
        Op::Create { .. } | Op::Mkdir { .. } | Op::Mknod { .. } | Op::Symlink { .. } => {
            done(stat(root, path)?.is_some())
        }
        Op::Link { ids, .. } => done(is_inode_at(root, path, *ids)?),
        Op::Unlink { ids, .. } | Op::Rmdir { ids, .. } | Op::Exchange { ids, .. } => {
            done(!is_inode_at(root, path, *ids)?)
        }
        Op::Rename { ids, replaced, .. } | Op::Restore { ids, replaced, .. } => {
            if let (Some(replaced), Some(to)) = (replaced, places.next())
                && is_inode_at(root, path, replaced.ids)?
                && is_inode_at(root, to, *ids)?
            {
                return finish_replacement(root, path, to, replaced);
            }
            done(!is_inode_at(root, path, *ids)?)
        }
        Op::Truncate { new: Some(new), .. } | Op::Content { new: Some(new), .. } => {
            let moved = record.op.path().map(|path| around.moved_places(path));
            let mut moved = moved.iter().flatten();
            // A possible place that cannot be inspected is ignored.
            done(
                moved.any(|place| is_inode_at(root, place, *new).unwrap_or(false))
                    || is_inode_at(root, path, *new)?,
            )
        }
        // Repeating these changes is harmless, and whether they were done moves nothing. Reserved space and attributes
        // of the last moment may be old or new.
        Op::Write { .. }
        | Op::Truncate { .. }
        | Op::Allocate { .. }
        | Op::Content { .. }
        | Op::Attr { .. }
        | Op::Xattr { .. } => done(true),
        // Gathering is a convenience: each entry is either on its own or under its directory.
        Op::Gather { .. }
        | Op::Begin { .. }
        | Op::End { .. }
        | Op::Run { .. }
        | Op::Abort { .. }
        | Op::Checkpoint { .. }
        | Op::Undo { .. }
        | Op::Accept { .. }
        | Op::Purge { .. }
        | Op::Evict { .. } => done(true),
    }
}

/// Finishes a replacement with its second step: the replaced node still has the old name.
fn finish_replacement(
    root: &Root,
    path: &WorldPath,
    to: &WorldPath,
    replaced: &ReplacedFile,
) -> Result<RecordOutcome> {
    let trash = crate::world::trash::trash_entries::open(root)?;
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
        return Ok(RecordOutcome::Done);
    };
    let (dir, entry) = (root.dir(&parent)?, Name::new(&replaced.trash.0)?);
    dir.reach
        .with_access(dir.as_fd(), || rename_noreplace(&dir, name, &trash, entry))?;
    Ok(RecordOutcome::Finished(format!(
        "{to} had been replaced; what stood there is now in the trash"
    )))
}

fn is_inode_at(root: &Root, path: &WorldPath, ids: InodeNumbers) -> Result<bool> {
    Ok(stat(root, path)?.is_some_and(|meta| meta.id == Id(ids[0], ids[1])))
}
