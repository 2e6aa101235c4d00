//! Writing a journal: each record before its act, and an abort after an act that failed.
//!
//! Owns the order of lines, the rule that the record of a run stands before the first record that the run causes, and
//! the aborts that could not be written yet.
//!
//! Locks: one mutex over the chain of lines and the file, held during the one `write(2)`, since the order of lines is
//! the order of checksums; only the [`RecordListener`] is called under it. Another mutex, over the queue of what the
//! next seal covers (`sealing.rs`), is taken before it, and never while answering a request. That over stamps
//! (`left_files.rs`) is taken under both, for a few instructions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use parking_lot::Mutex;

use super::actor::Author;
use super::encoder::{LineEncoder, RecordParts};
use super::hash::ChainLink;
use super::left_files::LeftFiles;
use super::op::Op;
use super::read::{JournalTail, tail_of_damaged};
use super::record::{Actor, SCHEMA};
use super::reserve::{LinePriority, SpaceReserve};
use super::seal::SealQueue;
use super::stamp::DirTime;
use crate::error::{Error, Result};
use crate::name::EscapedBytes;
use trumanfs_types::origin::{Origin, Run, RunId};

/// The journal of one session, open for appending. The store's lock guarantees a single writer.
#[derive(Debug)]
pub struct Journal {
    pub(super) state: Mutex<WriterState>,
    pub(super) durable: bool,
    pub(super) device: u64,
    /// The schema of its lines: a journal begun by an older release continues in its own.
    pub(super) v: u32,
    pub(super) sealing: Mutex<SealQueue>,
    /// The files made or changed, with the stamps for the next seal.
    pub(super) left: Mutex<LeftFiles>,
    /// True if there are records that the attending thread has not seen yet; `attendant` is that thread.
    pub(super) behind: AtomicBool,
    pub(super) attendant: OnceLock<Thread>,
    /// The thread that is unparked when there are records.
    pub(super) record_watcher: OnceLock<Thread>,
    pub(super) listener: OnceLock<Arc<dyn RecordListener>>,
    pub(super) seal_listener: OnceLock<Box<dyn SealListener>>,
}

/// A listener to records as they are written.
pub trait RecordListener: Send + Sync + std::fmt::Debug {
    /// Called when a record has been written, before its act. Runs under the journal's lock, so in the order of the
    /// records: it must be quick and must not write a record.
    fn recorded(&self, seq: u64, op: &Op);
}

/// A listener to seals that are about to be written.
pub trait SealListener: Send + Sync + std::fmt::Debug {
    /// Called before the lines and stamps for a seal are gathered, under no lock: the stamps that are due can be taken.
    fn before_seal(&self);
}

/// The records of a run so far.
#[derive(Debug)]
pub(super) enum RunProgress {
    /// None: its own is written before the first one.
    Begun(Box<Op>),
    /// Its own, and marks of turns.
    Marked,
    /// Changes, too.
    Changed,
}

#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) file: OwnedFd,
    pub(super) seq: u64,
    /// The link that the next line must have.
    pub(super) prev: ChainLink,
    pub(super) length: u64,
    pub(super) reserve: SpaceReserve,
    /// Aborts that could not be written: nothing else is written before them.
    pub(super) queued_aborts: Vec<(u64, String, Origin)>,
    /// The runs of this session.
    pub(super) runs: HashMap<RunId, RunProgress>,
    pub(super) line: Vec<u8>,
    pub(super) text: LineEncoder,
    /// True if another process has the store's lock by now: nothing more is written.
    pub(super) stopped: bool,
}

/// A record that has been written and whose act has no known outcome yet.
#[must_use = "say whether the act was done"]
#[derive(Debug)]
pub struct PendingRecord<'a> {
    journal: &'a Journal,
    seq: u64,
    /// The origin of the record, which an abort has, too.
    origin: Origin,
}

impl Journal {
    /// Creates a writer to a file that is open for appending, and continues at the end that `tail` gives. `device` is
    /// the store's device, which records write as 0.
    pub fn new(file: OwnedFd, tail: Option<&JournalTail>, durable: bool, device: u64) -> Journal {
        let v = tail.map_or(SCHEMA, |t| t.record.v);
        Journal {
            state: Mutex::new(WriterState {
                file,
                seq: tail.map_or(0, |t| t.record.seq),
                prev: tail.map_or(ChainLink::first(v), |t| t.link),
                length: tail.map_or(0, |t| t.length),
                reserve: SpaceReserve::default(),
                queued_aborts: Vec::new(),
                runs: HashMap::new(),
                line: Vec::with_capacity(1024),
                text: LineEncoder::default(),
                stopped: false,
            }),
            durable,
            device,
            v,
            sealing: Mutex::default(),
            left: Mutex::default(),
            behind: AtomicBool::new(false),
            attendant: OnceLock::new(),
            record_watcher: OnceLock::new(),
            listener: OnceLock::new(),
            seal_listener: OnceLock::new(),
        }
    }

    /// Sets the listener, of which there can be one.
    pub fn listen(&self, listener: Arc<dyn RecordListener>) {
        let _ = self.listener.set(listener);
    }

    /// Sets the listener to seals, of which there can be one.
    pub fn listen_to_seals(&self, listener: Box<dyn SealListener>) {
        let _ = self.seal_listener.set(listener);
    }

    /// Stops all writing: another process has the store's lock by now.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
    }

    /// Records an act that is about to happen. `at` has the directories that it changes, with their times before.
    ///
    /// # Errors
    /// Those of `write(2)`, `ENOSPC` above all; then nothing was recorded, and the act must not happen.
    pub fn begin(
        &self,
        op: Op,
        at: &[DirTime],
        author: Option<&Author>,
    ) -> Result<PendingRecord<'_>> {
        let seq = self.append(op, at, author)?;
        Ok(PendingRecord {
            journal: self,
            seq,
            origin: author.map(|author| author.origin).unwrap_or_default(),
        })
    }

    /// Writes a record that has no act of its own. Returns its number.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn note(&self, op: Op, author: Option<&Author>) -> Result<u64> {
        self.append(op, &[], author)
    }

    /// Records that the act of an earlier record did not happen, long after it.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn abort(&self, of: u64, error: String, origin: Origin) -> Result<()> {
        self.queue_abort(of, error, origin)
    }

    /// Registers a run. Its record is written before the first record that it causes, so a run that changes nothing
    /// leaves none.
    ///
    /// # Errors
    /// `EEXIST` where the session already has a run with this id.
    pub fn begin_run(&self, run: &Run) -> Result<()> {
        let mut state = self.state.lock();
        match state.runs.entry(run.id) {
            Entry::Occupied(_) => Err(Error::Exists),
            Entry::Vacant(place) => {
                let (command, length) = Run::cut(&run.command.0);
                place.insert(RunProgress::Begun(Box::new(Op::Run {
                    command: EscapedBytes(command.to_vec()),
                    length,
                    cwd: run.cwd.clone(),
                    also: run.also.clone(),
                })));
                Ok(())
            }
        }
    }

    /// Returns whether a run that is registered has recorded a change so far.
    pub fn run_has_recorded(&self, id: RunId) -> bool {
        matches!(self.state.lock().runs.get(&id), Some(RunProgress::Changed))
    }

    /// Unregisters a run. Returns whether it has recorded a change. The id of one that has any record stays taken.
    pub fn end_run(&self, id: RunId) -> bool {
        let mut state = self.state.lock();
        match state.runs.get(&id) {
            Some(RunProgress::Changed) => true,
            Some(RunProgress::Begun(_)) => {
                state.runs.remove(&id);
                false
            }
            Some(RunProgress::Marked) | None => false,
        }
    }

    /// Returns the number of the last record.
    pub fn last(&self) -> u64 {
        self.state.lock().seq
    }

    /// Returns the journal's end: the number of the last record, and the SHA-256 (hex) of the last line; 0 and zeros
    /// where there is none.
    ///
    /// # Errors
    /// As [`super::read::tail_of_damaged`], where the file can be read; those of `fcntl(2)`.
    pub fn end(&self) -> Result<(u64, String)> {
        let state = self.state.lock();
        let file = state.file.try_clone();
        let file = file.map_err(|error| Error::io("dup", &error))?.into();
        let hash = tail_of_damaged(&file)?.map_or([b'0'; 64], |end| end.hash);
        Ok((state.seq, String::from_utf8_lossy(&hash).into_owned()))
    }

    /// Waits until all records so far are on the disk: before what they name is deleted for good.
    ///
    /// # Errors
    /// Any error from `dup(2)` or `fdatasync(2)`.
    pub fn sync(&self) -> Result<()> {
        if self.durable {
            return Ok(());
        }
        let file = {
            let state = self.state.lock();
            state.file.try_clone()
        };
        let file = file.map_err(|error| Error::io("dup", &error))?;
        rustix::fs::fdatasync(file).map_err(Error::os("fdatasync"))
    }

    /// Releases the space reserved ahead, at the end of a session.
    pub fn trim(&self) {
        let state = self.state.lock();
        // Setting the current size frees what lies beyond it (ftruncate(2)); if that fails, only space is lost.
        let _ = rustix::fs::ftruncate(&state.file, state.length);
    }

    /// Wakes the sealing thread.
    pub fn wake(&self) {
        if !self.behind.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.attendant.get()
        {
            thread.unpark();
        }
    }

    fn append(&self, op: Op, at: &[DirTime], author: Option<&Author>) -> Result<u64> {
        let mut state = self.state.lock();
        self.write_queued_aborts(&mut state)?;
        self.write_with_run(&mut state, op, at, author)
    }

    /// Writes an abort; where that fails, the abort stays queued.
    fn queue_abort(&self, of: u64, error: String, origin: Origin) -> Result<()> {
        let mut state = self.state.lock();
        state.queued_aborts.push((of, error, origin));
        self.write_queued_aborts(&mut state)
    }

    /// Writes the queued aborts. So a record whose act did not happen has its abort soon after it, or is one
    /// of the last, which the next mount verifies.
    fn write_queued_aborts(&self, state: &mut WriterState) -> Result<()> {
        while let Some((of, error, origin)) = state.queued_aborts.first().cloned() {
            self.write_line(state, Op::Abort { of, error }, &[], None, origin)?;
            state.queued_aborts.remove(0);
        }
        Ok(())
    }

    /// Writes a record, and before the first one of a run the record of that run.
    fn write_with_run(
        &self,
        state: &mut WriterState,
        op: Op,
        at: &[DirTime],
        author: Option<&Author>,
    ) -> Result<u64> {
        let (actor, origin) = match author {
            Some(author) => (Some(&author.actor), author.origin),
            None => (None, Origin::default()),
        };
        let is_mark = matches!(op, Op::Checkpoint { .. });
        if let Some(run) = origin.run
            && let Some(progress) = state.runs.get(&run)
            && !matches!(progress, RunProgress::Changed)
        {
            if let RunProgress::Begun(first) = progress {
                let first = first.clone();
                self.write_line(state, *first, &[], actor, origin)?;
            }
            let progress = match is_mark {
                true => RunProgress::Marked,
                false => RunProgress::Changed,
            };
            state.runs.insert(run, progress);
        }
        self.write_line(state, op, at, actor, origin)
    }

    /// Writes one line.
    fn write_line(
        &self,
        state: &mut WriterState,
        mut op: Op,
        at: &[DirTime],
        actor: Option<&Arc<Actor>>,
        origin: Origin,
    ) -> Result<u64> {
        op.clear_device(self.device);
        let priority = line_priority(&op, origin);
        let WriterState {
            line, text, prev, ..
        } = state;
        let record = RecordParts {
            v: self.v,
            seq: state.seq + 1,
            op: &op,
            at,
            actor,
            origin,
            prev: prev.bytes(),
        };
        text.write(line, chrono::Utc::now(), &record)
            .map_err(|_| Error::os("write")(rustix::io::Errno::IO))?;
        let link = ChainLink::of(&state.line);
        state.line.push(b'\n');
        state.write(self.durable, priority)?;
        self.wake();
        state.seq += 1;
        state.prev = link;
        self.left.lock().note_record(state.seq, &op);
        if let Some(listener) = self.listener.get() {
            listener.recorded(state.seq, &op);
        }
        Ok(state.seq)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(attendant) = self.attendant.get() {
            attendant.unpark();
        }
    }
}

impl WriterState {
    pub(super) fn write(&mut self, durable: bool, priority: LinePriority) -> Result<()> {
        if self.stopped {
            return Err(Error::os("write")(rustix::io::Errno::IO));
        }
        let end = self.length + self.line.len() as u64;
        self.reserve
            .ensure_room(&self.file, self.length, end, priority)?;
        let mut rest = self.line.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    // The part of the line that was written is cut off, since the act will not happen. That frees the
                    // reserve, too.
                    if rest.len() < self.line.len() {
                        let _ = rustix::fs::ftruncate(&self.file, self.length);
                        self.reserve.forget_reserved();
                    }
                    return Err(Error::os("write")(errno));
                }
            }
        }
        if durable {
            rustix::fs::fdatasync(self.file.as_fd()).map_err(Error::os("fdatasync"))?;
        }
        self.length = end;
        Ok(())
    }
}

impl PendingRecord<'_> {
    /// Returns the number of the record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Confirms that the act happened.
    pub fn done(self) {}

    /// Records that the act did not happen.
    pub fn abort(self, error: &Error) {
        // If even this cannot be written, nothing else is before it, and the next mount finds out by looking at the
        // disk.
        if let Err(error) = self
            .journal
            .queue_abort(self.seq, error.to_string(), self.origin)
        {
            log::warn!(
                "journal: record {} was not done, and that could not be noted: {error}",
                self.seq
            );
        }
    }

    /// Records the outcome of the act and returns it.
    ///
    /// # Errors
    /// The act's own error.
    pub fn with_outcome<T>(self, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Ok(_) => self.done(),
            Err(error) => self.abort(error),
        }
        outcome
    }
}

/// Returns the priority of a record in the reserve.
fn line_priority(op: &Op, origin: Origin) -> LinePriority {
    match op {
        Op::Abort { .. } | Op::End { .. } => LinePriority::Mandatory,
        // What an occupant can write may not use up the reserve.
        Op::Checkpoint { mark: Some(_), .. } => LinePriority::Occupant,
        Op::Begin { .. }
        | Op::Checkpoint { .. }
        | Op::Undo { .. }
        | Op::Accept { .. }
        | Op::Restore { .. }
        | Op::Purge { .. }
        | Op::Evict { .. } => LinePriority::Operator,
        _ if origin.is_undo() => LinePriority::Operator,
        _ => LinePriority::Occupant,
    }
}
