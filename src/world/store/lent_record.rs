//! The record of permission bits that a process lends on nodes that are closed to its own user.
//!
//! Owns one file for each lending process in the state directory, locked as long as the process lives. A line has a
//! node, its mode, and its mode with the bits. The line is on the disk before the node has the bits for the first time,
//! and is marked when they are gone. A killed process leaves the file, and the next process that opens the store takes
//! the bits back (`lent_bits.rs`).

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::RunId;
use crate::world::beneath::{BENEATH, open_beneath};
use crate::world::store::layout::{LENT, STATE};
use trumanfs_types::meta::Id;

/// The bits of a mode that are lent.
const LENDABLE_BITS: u32 = 0o700;

/// The bits that this process has lent in one store.
#[derive(Debug)]
pub(in crate::world) struct LentRecord {
    /// The store's directory.
    top: OwnedFd,
    /// The directory that has the state directory.
    state_in: OwnedFd,
    /// The store's device.
    device: u64,
    file: Mutex<Option<RecordFile>>,
}

#[derive(Debug)]
struct RecordFile {
    state: OwnedFd,
    name: String,
    file: File,
    end: u64,
    /// The lines of the file, by node and mode with the bits.
    lines: HashMap<(Id, u32), LentLine>,
}

#[derive(Debug, Clone, Copy)]
struct LentLine {
    at: u64,
    mode: u32,
    lent: bool,
}

impl LentRecord {
    pub(in crate::world) fn new(top: OwnedFd, state_in: OwnedFd, device: u64) -> LentRecord {
        LentRecord {
            top,
            state_in,
            device,
            file: Mutex::default(),
        }
    }

    /// Returns the store's directory.
    pub(in crate::world) fn top(&self) -> BorrowedFd<'_> {
        self.top.as_fd()
    }

    /// Creates the file, for threads that may not create it.
    ///
    /// # Errors
    /// Any error from the system calls; `ENOENT` if the directory is no store.
    pub(in crate::world) fn prepare(&self) -> Result<()> {
        let mut file = self.file.lock();
        if file.is_none() {
            *file = Some(RecordFile::make(&self.state_in)?);
        }
        Ok(())
    }

    /// Records a mode before a node is given another one. With `syncs`, a new line is on the disk when this returns;
    /// otherwise after [`LentRecord::sync`].
    ///
    /// # Errors
    /// As [`LentRecord::prepare`]; any error from `write(2)`.
    pub(in crate::world) fn note(
        &self,
        id: Id,
        (mode, wide): (u32, u32),
        syncs: bool,
    ) -> Result<()> {
        let mut file = self.file.lock();
        let record = match &mut *file {
            Some(record) => record,
            none => none.insert(RecordFile::make(&self.state_in)?),
        };
        let known = record.lines.get(&(id, wide)).copied();
        if let Some(known) = known.filter(|known| known.mode == mode) {
            if !known.lent {
                record.mark((id, wide), known, true)?;
            }
            return Ok(());
        }
        let text = format!("+{mode:04o} {wide:04o} {}", id_line(id, self.device));
        let at = record.end;
        write_at(&record.file, text.as_bytes(), at)?;
        record.end += text.len() as u64;
        let lent = true;
        record.lines.insert((id, wide), LentLine { at, mode, lent });
        drop(file);
        if syncs { self.sync() } else { Ok(()) }
    }

    /// Waits until the recorded lines are on the disk.
    ///
    /// # Errors
    /// Any error from `fsync(2)`.
    pub(in crate::world) fn sync(&self) -> Result<()> {
        let file = self.file.lock();
        let synced = file
            .as_ref()
            .map_or(Ok(()), |record| record.file.sync_all());
        synced.map_err(|error| Error::io("fsync", &error))
    }

    /// Marks that a node has no lent bits any more.
    pub(in crate::world) fn note_taken_back(&self, id: Id) {
        let mut file = self.file.lock();
        let Some(record) = &mut *file else {
            return;
        };
        let lines = record
            .lines
            .iter()
            .filter(|((of, _), line)| *of == id && line.lent);
        for (key, line) in lines.map(|(key, line)| (*key, *line)).collect::<Vec<_>>() {
            if let Err(error) = record.mark(key, line, false) {
                log::warn!("lent permission bits could not be marked as taken back: {error}");
            }
        }
    }

    /// Removes the file, if nothing is lent.
    pub(in crate::world) fn close(&self) {
        let mut file = self.file.lock();
        if let Some(record) = file.take_if(|record| !record.lines.values().any(|line| line.lent)) {
            let _ = rustix::fs::unlinkat(&record.state, record.name, AtFlags::empty());
        }
    }
}

impl Drop for LentRecord {
    fn drop(&mut self) {
        self.close();
    }
}

impl RecordFile {
    fn make(state_in: &OwnedFd) -> Result<RecordFile> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = rustix::fs::openat2(state_in, STATE, flags, Mode::empty(), BENEATH);
        let state = state.map_err(Error::os("openat2"))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        loop {
            let name = format!("{LENT}{}", RunId::random());
            let file = match open_beneath(state.as_fd(), name.as_bytes(), flags, mode) {
                Err(Error::Exists) => continue,
                made => File::from(made?),
            };
            rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(Error::os("flock"))?;
            // Between the two calls the file looked like one left by a killed process, and may have been removed.
            if file.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                return Ok(RecordFile {
                    state,
                    name,
                    file,
                    end: 0,
                    lines: HashMap::new(),
                });
            }
        }
    }

    fn mark(&mut self, key: (Id, u32), line: LentLine, lent: bool) -> Result<()> {
        write_at(&self.file, if lent { b"+" } else { b"-" }, line.at)?;
        self.lines.insert(key, LentLine { lent, ..line });
        Ok(())
    }
}

fn write_at(file: &File, bytes: &[u8], at: u64) -> Result<()> {
    let written = file.write_all_at(bytes, at);
    written.map_err(|error| Error::io("write", &error))
}

/// Parses the line of an inode.
pub(super) fn parse_id(text: &str, device: u64) -> Option<Id> {
    let (dev, ino) = text.split_once(' ')?;
    let dev = match dev.parse().ok()? {
        0 => device,
        other => other,
    };
    Some(Id(dev, ino.parse().ok()?))
}

/// Returns the line for an inode.
pub(super) fn id_line(id: Id, device: u64) -> String {
    let dev = if id.0 == device { 0 } else { id.0 };
    format!("{dev} {}\n", id.1)
}

/// Parses the modes that nodes had, and those that they have with lent bits.
pub(in crate::world) fn parse(text: &str, device: u64) -> HashMap<Id, Vec<(u32, u32)>> {
    let mut lent: HashMap<Id, Vec<(u32, u32)>> = HashMap::new();
    for line in text.lines() {
        let parsed = line.strip_prefix('+').and_then(|line| {
            let (mode, rest) = line.split_once(' ')?;
            let (wide, id) = rest.split_once(' ')?;
            let octal = |text| u32::from_str_radix(text, 8).ok();
            Some((octal(mode)?, octal(wide)?, parse_id(id, device)?))
        });
        if let Some((mode, wide, id)) = parsed
            && mode < wide
            && wide & !mode & !LENDABLE_BITS == 0
            && mode & !wide == 0
        {
            lent.entry(id).or_default().push((mode, wide));
        }
    }
    lent
}
