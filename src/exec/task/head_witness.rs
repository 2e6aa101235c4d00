//! The second place in which an executor notes how far its log has come: a log that is behind it was rolled back.
//!
//! Owns a file of one line in the vault's directory, one for each state directory, outside the state directory: a copy of that one alone, put back, is an
//! older log, and its tasks could be done again. The line is written after the result is on disk, in place and without waiting:
//! after a power cut it may be behind the log, never before it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::strict;
use crate::error::{Error, Result};
use crate::world::Root;
use crate::world::root::open_beneath;

/// The name of the file in the vault's directory, before a part of the state directory's digest: executors may share a
/// vault.
const FILE: &str = ".log-head-";

/// The length of its line.
const LENGTH: usize = 20 + 1 + 64 + 1;

/// The end of a log: how many results it has, and the SHA-256 of the newest one's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogHead {
    pub(super) results: u64,
    pub(super) sha256: String,
}

impl LogHead {
    fn parse(line: &[u8]) -> Option<LogHead> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (results, sha256) = line.split_once(' ')?;
        strict::check_sha256("head", sha256).ok()?;
        Some(LogHead {
            results: results.parse().ok()?,
            sha256: sha256.to_owned(),
        })
    }
}

/// The file, open.
pub(super) struct HeadWitness {
    file: File,
    path: PathBuf,
}

impl HeadWitness {
    /// Opens the file of a state directory in the vault's, and makes it where it is absent.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub(super) fn open(vault_dir: &Path, state_dir: &Path) -> Result<HeadWitness> {
        let mode = Mode::RUSR | Mode::WUSR;
        HeadWitness::with((vault_dir, state_dir), OFlags::RDWR | OFlags::CREATE, mode)
    }

    /// Returns what was noted of a state directory, and changes nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn look(vault_dir: &Path, state_dir: &Path) -> Result<Option<LogHead>> {
        match HeadWitness::with((vault_dir, state_dir), OFlags::RDONLY, Mode::empty()) {
            Ok(witness) => witness.read(),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn with(
        (vault_dir, state_dir): (&Path, &Path),
        flags: OFlags,
        mode: Mode,
    ) -> Result<HeadWitness> {
        let digest = strict::sha256(state_dir.as_os_str().as_bytes());
        let name = format!("{FILE}{}", digest.get(..16).unwrap_or_default());
        let dir = Root::open(vault_dir)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open_beneath(dir.as_fd(), name.as_bytes(), flags, mode)?;
        Ok(HeadWitness {
            file: File::from(file),
            path: vault_dir.join(name),
        })
    }

    /// Returns what was noted; nothing where nothing was yet.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self) -> Result<Option<LogHead>> {
        let mut line = [0; LENGTH];
        let mut length = 0;
        while let Some(rest @ [_, ..]) = line.get_mut(length..) {
            match self.file.read_at(rest, length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) => return Err(Error::io("read", &error)),
            }
        }
        // Nothing was noted yet, or a power cut took the first line.
        if line.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        LogHead::parse(&line)
            .map(Some)
            .ok_or_else(|| self.refused("it is not the line of an executor"))
    }

    /// Notes the end of the log. What cannot be noted is not: the result is on disk, and is answered.
    pub(super) fn note(&self, head: &LogHead) {
        let line = format!("{:020} {}\n", head.results, head.sha256);
        let _ = self.file.write_all_at(line.as_bytes(), 0);
    }

    /// Returns the error for a log that is not the one that was noted.
    pub(super) fn refused(&self, why: &str) -> Error {
        Error::refused(
            format!("{}: {why}", self.path.display()),
            format!(
                "An older log lets tasks be done again that were done. Put the newest log back; or, where this one is to count from now on, \
                 remove {}.",
                self.path.display()
            ),
        )
    }
}
