//! Copies of the texts that a run or a session leaves, made soon after its end.
//!
//! Owns which files get one: texts that had a former content, so that what was changed in them can be taken back line by
//! line beside what their owner changes later. A copy is a version that no record names: a stamp does. It is made only
//! of a file that is as its stamp says, before and after.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::journal::{KeepMethod, LeftState};
use crate::name::WorldPath;
use crate::world::World;
use crate::world::keep::finalize::{FinalListener, FinalVersion};
use crate::world::root::stat_fd;
use trumanfs_types::meta::{Id, Meta};

/// The size in bytes of the largest text of which a copy is kept.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// The bytes that the copies of a session may have.
const MAX_SESSION_BYTES: u64 = 64 << 20;

/// The bytes of them that are left for the session's end.
const END_BYTES: u64 = 16 << 20;

/// The time after which no more copies are made: a seal or an unmount waits for them.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The copies of a session.
#[derive(Debug, Default)]
pub(super) struct LeftCopies {
    /// The bytes that they have.
    bytes: AtomicU64,
    /// True if a run has ended since they were made.
    is_due: AtomicBool,
}

impl World {
    /// Lets the texts that a run leaves be copied before the next seal.
    pub(in crate::world) fn note_run_left(&self) {
        self.left_copies.is_due.store(true, Ordering::Release);
        self.journal.wake();
    }

    /// Keeps copies of the texts that runs have left that ended since the last seal.
    pub fn keep_run_texts(&self) {
        if self.left_copies.is_due.swap(false, Ordering::AcqRel) {
            self.keep_left_texts(MAX_SESSION_BYTES - END_BYTES);
        }
    }

    /// Keeps copies of the texts that the session leaves.
    pub(in crate::world) fn keep_session_texts(&self) {
        self.keep_left_texts(MAX_SESSION_BYTES);
    }

    /// Keeps copies of the texts that are left, as long as the session's have no more bytes than `limit`.
    fn keep_left_texts(&self, limit: u64) {
        if !self.versions.options().versions {
            return;
        }
        let until = Instant::now() + TIME_LIMIT;
        for (path, left) in self.journal.left_texts() {
            let used = self.left_copies.bytes.load(Ordering::Relaxed);
            let largest = MAX_TEXT_BYTES.min(limit.saturating_sub(used));
            if left.size == 0 || left.size > largest || Instant::now() >= until {
                continue;
            }
            match self.keep_left(&path, &left) {
                Ok(Some(copied)) => {
                    self.left_copies
                        .bytes
                        .fetch_add(left.size, Ordering::Relaxed);
                    self.journal.note_copied(copied);
                }
                Ok(None) => {}
                Err(error) => log::debug!("{path}: what was left is not kept: {error}"),
            }
        }
    }

    fn keep_left(&self, path: &WorldPath, left: &LeftState) -> Result<Option<LeftState>> {
        let device = self.root.id().0;
        let id = match left.ids {
            [0, inode] => Id(device, inode),
            [device, inode] => Id(device, inode),
        };
        let node = self.root.node_expecting(path, id)?;
        let is_as_left = |meta: &Meta| {
            (meta.size, meta.mtime.sec, meta.mtime.nsec) == (left.size, left.mtime.0, left.mtime.1)
        };
        if !is_as_left(node.meta()) {
            return Ok(None);
        }
        let file = self.root.open_to_read(&node)?;
        let mut bytes = Vec::new();
        let read = std::fs::File::from(file.try_clone().map_err(|e| Error::io("dup", &e))?)
            .take(left.size + 1)
            .read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", &error))?;
        if bytes.contains(&0)
            || bytes.len() as u64 != left.size
            || !is_as_left(&stat_fd(file.as_fd())?)
        {
            return Ok(None);
        }
        let mut guard = self.versions.reserve_version(left.size)?;
        let version = self.versions.create(&guard.name(), OFlags::WRONLY)?;
        let version = std::fs::File::from(version);
        version
            .write_all_at(&bytes, 0)
            .map_err(|error| Error::io("pwrite", &error))?;
        guard.confirm();
        self.digests.became_final(&FinalVersion {
            dir: self.versions.dir(),
            n: guard.number(),
            how: KeepMethod::Copied,
            size: left.size,
        });
        Ok(Some(LeftState {
            sha256: Some(base16ct::lower::encode_string(&Sha256::digest(&bytes))),
            n: Some(guard.number()),
            ..left.clone()
        }))
    }
}
