//! Former contents: what a file held before a change destroyed it.
//!
//! Owns `sessions/{id}/versions/` and the decision how a content is kept, at bounded cost: move the whole inode, share
//! its blocks, copy a small file, save blocks just before they are overwritten, or note the length if only appending
//! follows. A version is made before its record is written and deleted if the record or the act fails, so a record
//! never names a missing version. If keeping fails, the act is not done.
//!
//! With kernel passthrough writes bypass the daemon, so the decision is made when a file is opened for writing.
//! [`OpenState`] tells what the caller knows of other opens.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::blocks::{Blocks, copy_range, same_content};
use super::meta::Id;
use super::open_state::{OpenState, StartedVersion};
use super::options::{COPIED_UP_TO, KeepOptions};
use super::pending::Pending;
use super::quota::Quota;
use super::root::{Node, Root, open_beneath, stat_fd};
use super::{Located, World};
use crate::error::{Error, Result};
use crate::journal::{How, Kept};

/// The size in bytes above which a copy takes long.
const LONG: u64 = 4 << 20;

/// The directory of versions in a session's directory.
pub const VERSIONS: &str = "versions";

/// The extent of what is about to be destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destroys {
    /// Anything, at any time: the file is opened for writing.
    Anything,
    /// The bytes between two offsets.
    Range(u64, u64),
    /// Nothing: the file only grows.
    Nothing,
}

/// The versions of the present session.
#[derive(Debug)]
pub struct Versions {
    dir: OwnedFd,
    last: AtomicU64,
    options: KeepOptions,
    room: Arc<Quota>,
    /// Whether a content must be on disk before it is destroyed.
    durable: bool,
    /// Whether the store's file system is known not to share blocks.
    cannot_clone: AtomicBool,
    pending: Arc<Pending>,
}

/// A version that is deleted unless its record stands.
#[derive(Debug)]
pub(super) struct VersionGuard<'a> {
    versions: &'a Versions,
    n: u64,
    taken: u64,
    stands: bool,
}

/// A kept content, for a record to name.
#[derive(Debug, Default)]
pub(super) struct KeptContent<'a> {
    pub(super) kept: Option<Kept>,
    making: Option<VersionGuard<'a>>,
    /// The report for the open file, once the record stands.
    began: Option<StartedVersion>,
}

impl<'a> KeptContent<'a> {
    fn of(how: How, making: VersionGuard<'a>, blocks: Option<Arc<Blocks>>) -> KeptContent<'a> {
        let kept = Kept { how, n: making.n };
        KeptContent {
            kept: Some(kept),
            making: Some(making),
            began: Some(StartedVersion {
                copy: blocks.is_none().then_some(kept),
                blocks,
            }),
        }
    }

    /// Confirms the version: its record stands and its act was done.
    pub(super) fn stands(mut self, open_state: &dyn OpenState) {
        if let Some(making) = &mut self.making {
            making.stands = true;
        }
        if let Some(begun) = self.began.take() {
            open_state.kept(begun);
        }
    }
}

impl Drop for VersionGuard<'_> {
    fn drop(&mut self) {
        if !self.stands {
            super::quota::delete(&self.versions.dir, self.n);
            self.versions.room.give_back(self.taken);
        }
        self.versions.room.set_live(self.n, false);
    }
}

/// Returns the file name of a version.
pub fn file_name(n: u64) -> String {
    format!("{n:08}")
}

/// Parses the number in a version's file name; `None` for other files.
pub fn number_of(name: &[u8]) -> Option<u64> {
    let digits = name.len() >= 8 && name.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(name).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Returns the file name of a version's list of ranges.
pub fn map_name(n: u64) -> String {
    format!("{n:08}.map")
}

impl Versions {
    pub(super) fn new(
        dir: OwnedFd,
        options: KeepOptions,
        room: Arc<Quota>,
        durable: bool,
        pending: Arc<Pending>,
    ) -> Versions {
        Versions {
            pending,
            dir,
            durable,
            last: AtomicU64::new(0),
            options,
            room,
            cannot_clone: AtomicBool::new(false),
        }
    }

    /// Returns the quota of the versions.
    pub fn room(&self) -> &Quota {
        &self.room
    }

    pub(super) fn options(&self) -> &KeepOptions {
        &self.options
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Reserves a number and space for a version.
    pub(super) fn make(&self, bytes: u64) -> Result<VersionGuard<'_>> {
        self.room.take(bytes)?;
        let n = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // No record names it yet, so it must not be evicted.
        self.room.set_live(n, true);
        Ok(VersionGuard {
            versions: self,
            n,
            taken: bytes,
            stands: false,
        })
    }

    fn create(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        open_beneath(
            self.dir.as_fd(),
            name.as_bytes(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )
    }

    /// Returns whether a content must be on disk before it is destroyed.
    pub(super) fn is_durable(&self) -> bool {
        self.durable
    }

    /// With `--durable`, waits until a version is on disk: it must be there before its act.
    pub(super) fn sync(&self, version: &OwnedFd) -> Result<()> {
        match self.durable {
            true => rustix::fs::fdatasync(version).map_err(Error::os("fdatasync")),
            false => Ok(()),
        }
    }

    /// Returns whether a version equals the file's present content. Only small ones are compared, and none that may be
    /// evicted at this moment.
    fn is_copy(&self, n: u64, file: &OwnedFd, size: u64) -> bool {
        if size > COPIED_UP_TO || self.options.evict {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = file_name(n);
        open_beneath(self.dir.as_fd(), name.as_bytes(), flags, Mode::empty())
            .is_ok_and(|version| same_content(version.as_fd(), file.as_fd(), size))
    }

    /// Shares the blocks of a file with a version; `false` if the file system cannot.
    fn clone_into(&self, version: &OwnedFd, source: &OwnedFd) -> Result<bool> {
        if self.cannot_clone.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match rustix::fs::ioctl_ficlone(version, source) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
                self.cannot_clone.store(true, Ordering::Relaxed);
                Ok(false)
            }
            // This file's blocks cannot be shared (another device of the same mount, a swap file).
            Err(Errno::XDEV | Errno::INVAL | Errno::TXTBSY) => Ok(false),
            Err(errno) => Err(Error::os("ioctl(FICLONE)")(errno)),
        }
    }
}

impl VersionGuard<'_> {
    pub(super) fn n(&self) -> u64 {
        self.n
    }

    pub(super) fn name(&self) -> String {
        file_name(self.n)
    }

    pub(super) fn stands(&mut self) {
        self.stands = true;
    }
}

impl World {
    /// Keeps a content that is about to be destroyed.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if there is no time for it; `ENOSPC` and any other error from the system calls. Nothing
    /// may then be destroyed.
    pub(super) fn keep(
        &self,
        located: &Located,
        destroys: Destroys,
        open_state: &dyn OpenState,
    ) -> Result<KeptContent<'_>> {
        let versions = &self.versions;
        let (size, allocated) = (located.node.meta().size, located.node.meta().blocks * 512);
        if !versions.options.versions || size == 0 || open_state.is_covered() {
            if let (Destroys::Range(from, to), Some(blocks)) = (destroys, open_state.blocks()) {
                in_time(to.min(size).saturating_sub(from), open_state)?;
                blocks.save(from, to)?;
            }
            return Ok(KeptContent::default());
        }
        let range = match destroys {
            Destroys::Nothing => {
                // The record states the former size, so the content up to there must be on disk, too.
                self.secure(&located.node)?;
                return Ok(KeptContent {
                    kept: Some(Kept {
                        how: How::Length,
                        n: 0,
                    }),
                    ..KeptContent::default()
                });
            }
            Destroys::Anything => (0, size),
            Destroys::Range(from, to) => (from, to.min(size)),
        };
        let source = readable(&self.root, &located.node)?;
        // Without FUSE_ATOMIC_O_TRUNC an open that empties is an open for writing, then a truncation: one copy serves
        // both.
        if let (Destroys::Range(..), Some(kept)) = (destroys, open_state.copy())
            && versions.is_copy(kept.n, &source, size)
            && self.may_stand_again(located, kept.n)
        {
            return Ok(KeptContent {
                kept: Some(kept),
                ..KeptContent::default()
            });
        }
        let mut making = versions.make(0)?;
        let version = versions.create(&making.name(), OFlags::RDWR)?;
        if versions.clone_into(&version, &source)? {
            // The file may already have grown beyond the recorded size.
            rustix::fs::ftruncate(&version, size).map_err(Error::os("ftruncate"))?;
            // Counted in full: it becomes a full copy as the file is overwritten.
            versions.room.take(allocated)?;
            making.taken = allocated;
            versions.sync(&version)?;
            return Ok(KeptContent::of(How::Cloned, making, None));
        }
        let by_blocks = match destroys {
            Destroys::Anything => open_state.sees_writes(),
            _ => true,
        };
        if size > versions.options.copied_up_to && by_blocks {
            if destroys != Destroys::Anything {
                in_time(range.1.saturating_sub(range.0), open_state)?;
            }
            // Unsaved ranges are read from the file.
            versions.sync(&source)?;
            let map = versions.create(&map_name(making.n), OFlags::WRONLY | OFlags::APPEND)?;
            // The full size, so that unsaved ranges are not taken for the end.
            rustix::fs::ftruncate(&version, size).map_err(Error::os("ftruncate"))?;
            let room = versions.room.clone();
            let files = (version, map, versions.durable);
            let blocks = Arc::new(Blocks::new(source, files, making.n, size, room));
            if destroys != Destroys::Anything {
                blocks.save(range.0, range.1)?;
            }
            return Ok(KeptContent::of(How::Blocks, making, Some(blocks)));
        }
        in_time(allocated, open_state)?;
        versions.room.take(allocated)?;
        making.taken = allocated;
        copy_range(source.as_fd(), version.as_fd(), 0, size)?;
        // Only for a hole at the end. Otherwise the size grows with the bytes, on disk as well, so that a version cut
        // short by a power cut shows it.
        if stat_fd(version.as_fd())?.size < size {
            rustix::fs::ftruncate(&version, size).map_err(Error::os("ftruncate"))?;
        }
        versions.sync(&version)?;
        Ok(KeptContent::of(How::Copied, making, None))
    }
}

impl World {
    /// Returns whether a second record may name a version: not after anything has been punched out of it.
    fn may_stand_again(&self, located: &Located, n: u64) -> bool {
        let Id(device, inode) = located.node.meta().id;
        let own = device == self.root.id().0;
        let ids = [if own { 0 } else { device }, inode];
        self.versions.pending.claim(ids, n)
    }
}

/// Checks that there is time to copy so many bytes.
fn in_time(bytes: u64, open_state: &dyn OpenState) -> Result<()> {
    if bytes > LONG && !open_state.may_wait() {
        Err(Error::TakesLong)
    } else {
        Ok(())
    }
}

/// Opens a file for reading even if its mode forbids it: its content is about to be destroyed.
pub(super) fn readable(root: &Root, node: &Node) -> Result<OwnedFd> {
    // Mode 000 must not block keeping the content. Only the owner may use O_NOATIME.
    match root.reopen(node, OFlags::RDONLY | OFlags::NOATIME) {
        Err(error) if error.errno() == Errno::PERM => root.reopen(node, OFlags::RDONLY),
        Err(error) if error.errno() == Errno::ACCESS => {
            let mode = node.meta().permissions();
            root.chmod(node, mode | 0o400)?;
            let opened = root.reopen(node, OFlags::RDONLY);
            root.chmod(node, mode)?;
            opened
        }
        opened => opened,
    }
}
