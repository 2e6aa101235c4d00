//! Sealing a journal while it is written, and the thread that does so regularly.
//!
//! Owns the times of sealing: a second after the first record since the last seal, at the session's end, and before a
//! reader relies on the last lines. The lines are read back from the file, not hashed while a record waits: only those
//! written at that very moment are hashed under the journal's lock.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;
use std::time::Duration;

use super::hash::{ChainLink, now};
use super::left_state::LeftState;
use super::record::SEALED;
use super::reserve::LinePriority;
use super::seal::{ContentDigest, Seal, UnsealedLines, WORD};
use super::writer::Journal;
use crate::error::{Error, Result};

/// The delay between the first of several records and their being written out and sealed.
const SOON: Duration = Duration::from_secs(1);

/// The maximum number of digests in a seal, which bounds the length of its line.
const DIGESTS: usize = 100;

/// The maximum number of stamps in a seal.
const STAMPS: usize = 500;

/// The maximum number of bytes left to be hashed under the journal's lock.
const LEFT: u64 = 16 << 10;

/// The maximum number of attempts to get below [`LEFT`] while others write.
const ROUNDS: usize = 8;

impl Journal {
    /// Seals the lines since the last seal, with the digests and stamps added meanwhile. Returns whether there was anything
    /// to seal. A journal with a schema without seals is left alone.
    ///
    /// # Errors
    /// Those of `pread(2)` and `write(2)`; the journal is unchanged then, and can be sealed later.
    pub fn seal(&self) -> Result<bool> {
        if let Some(listener) = self.seal_listener.get() {
            listener.before_seal();
        }
        let mut sealed = false;
        while self.seal_some(false)? {
            sealed = true;
        }
        Ok(sealed)
    }

    /// Writes a seal even where nothing is new since the last one.
    ///
    /// # Errors
    /// As [`Journal::seal`].
    pub fn seal_anew(&self) -> Result<bool> {
        self.seal_some(true)
    }

    /// Writes one seal, unless there is nothing to seal.
    fn seal_some(&self, in_any_case: bool) -> Result<bool> {
        if self.v < SEALED {
            return Ok(false);
        }
        let mut sealing = self.sealing.lock();
        let sealing = &mut *sealing;
        let unsealed = match &mut sealing.unsealed {
            Some(unsealed) => unsealed,
            none => none.insert(self.unsealed()?),
        };
        let length = || self.state.lock().length;
        for _ in 0..ROUNDS {
            let end = length();
            if end.saturating_sub(unsealed.at) <= LEFT {
                break;
            }
            unsealed.hash_up_to(end)?;
        }
        let some = sealing.digests.len().min(DIGESTS);
        sealing.stamps.append(&mut self.left.lock().take());
        let left = sealing.stamps.len().min(STAMPS);
        let unknown = sealing.unknown.len().min(STAMPS);
        let mut state = self.state.lock();
        let has_more = some + left + unknown > 0;
        if !has_more && unsealed.from > state.seq && !in_any_case {
            return Ok(false);
        }
        unsealed.hash_up_to(state.length)?;
        let seal = Seal {
            v: self.v,
            seq: state.seq,
            time: now(),
            op: WORD.to_owned(),
            from: unsealed.from,
            lines: text(&unsealed.lines()),
            digests: sealing.digests.get(..some).unwrap_or_default().to_vec(),
            stamps: sealing.stamps.get(..left).unwrap_or_default().to_vec(),
            unknown: sealing.unknown.get(..unknown).unwrap_or_default().to_vec(),
            prev: state.prev.to_string(),
            check: String::new(),
        };
        let line = seal.line();
        let line = line.map_err(|_| Error::os("write")(rustix::io::Errno::IO))?;
        let link = ChainLink::of(&line);
        state.line.clear();
        state.line.extend_from_slice(&line);
        state.line.push(b'\n');
        // Not synced: if a power cut takes a seal away, the lines that it covers are still there.
        state.write(false, LinePriority::Mandatory)?;
        state.prev = link;
        unsealed.restart_after(state.seq, &state.line);
        sealing.digests.drain(..some);
        sealing.stamps.drain(..left);
        sealing.unknown.drain(..unknown);
        Ok(true)
    }

    /// Finds the lines that no seal covers.
    fn unsealed(&self) -> Result<UnsealedLines> {
        let (file, length) = {
            let state = self.state.lock();
            let file = state.file.try_clone();
            (file.map_err(|error| io(&error))?, state.length)
        };
        let mut unsealed = UnsealedLines::new(file.into());
        unsealed.find_last_seal(length)?;
        Ok(unsealed)
    }

    /// Adds digests to the next seal. Returns how many are waiting.
    pub fn add_digests(&self, digests: impl IntoIterator<Item = ContentDigest>) -> usize {
        let waiting = {
            let mut sealing = self.sealing.lock();
            sealing.digests.extend(digests);
            sealing.digests.len()
        };
        if waiting > 0 {
            self.wake();
        }
        waiting
    }

    /// Records which files an unknown writer changed, in a seal that is written at once. `seq` of each state becomes that
    /// of the last record.
    ///
    /// # Errors
    /// As [`Journal::seal`]; what is not recorded then is recorded with the next seal. [`Error::Refused`] for a journal of
    /// a schema without seals.
    pub fn note_unknown_writes(&self, states: Vec<LeftState>) -> Result<()> {
        if self.v < SEALED {
            return Err(Error::refused(
                "the store's journal is of an old release and has no seals",
                "Unmount the store: the next session begins a new one.",
            ));
        }
        let seq = self.state.lock().seq;
        let states = states.into_iter().map(|state| LeftState { seq, ..state });
        {
            let mut sealing = self.sealing.lock();
            sealing.unknown.extend(states);
            sealing.has_unknown = true;
        }
        self.seal().map(drop)
    }

    /// Returns whether [`Journal::note_unknown_writes`] was called: the session tells something then, also without a record.
    pub fn has_unknown_writes(&self) -> bool {
        self.sealing.lock().has_unknown
    }

    /// Starts a thread that seals regularly, as long as this journal lives, and has records written out a second
    /// after they are made. By itself the kernel would take half a minute, but writes moved and created files to the
    /// disk after a few seconds; a power cut would leave changes without their records. Nothing waits for the thread,
    /// and it commits nothing by itself.
    pub fn attend(self: &Arc<Journal>) {
        let weak = Arc::downgrade(self);
        let Ok(file) = self.state.lock().file.try_clone() else {
            return;
        };
        let attend = move || {
            // The first round handles lines written before the thread started.
            loop {
                std::thread::sleep(SOON);
                let Some(journal) = weak.upgrade() else {
                    return;
                };
                journal.behind.store(false, Ordering::Release);
                if !journal.durable {
                    let _ = crate::sys::fd::begin_writing_out(file.as_fd());
                }
                journal.wake_record_watcher();
                journal.seal_by_itself();
                drop(journal);
                std::thread::park();
            }
        };
        let thread = std::thread::Builder::new().name("journal".to_owned());
        match thread.spawn(attend) {
            Ok(thread) => drop(self.attendant.set(thread.thread().clone())),
            Err(error) => log::warn!("no thread to seal the journal and write it out: {error}"),
        }
    }

    /// Registers a thread to be unparked when there are records.
    pub fn set_record_watcher(&self, thread: Thread) {
        let _ = self.record_watcher.set(thread);
        self.wake_record_watcher();
    }

    /// Unparks the thread registered by [`Journal::set_record_watcher`].
    pub fn wake_record_watcher(&self) {
        if let Some(thread) = self.record_watcher.get() {
            thread.unpark();
        }
    }

    /// Writes a regular seal. On a full disk, the rest of the reserve is kept for removals.
    fn seal_by_itself(&self) {
        if self.state.lock().reserve.is_full() {
            return;
        }
        if let Err(error) = self.seal() {
            log::debug!("the journal could not be sealed: {error}");
        }
    }
}

fn text(hash: &[u8]) -> String {
    String::from_utf8_lossy(hash).into_owned()
}

fn io(error: &std::io::Error) -> Error {
    Error::os("dup")(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}
