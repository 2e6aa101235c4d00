//! Former contents: what a file held before something destroyed it.
//!
//! Owns `sessions/{id}/versions/` and the decision how a content is kept, at bounded cost: move the inode whole, share its
//! blocks, copy a small file, save what is overwritten as it is overwritten, or note the length where only appending
//! follows. A version is made before its record is written and is taken away again if the record or the act fails, so a
//! record never names a version that is not there. Where keeping fails, the act is not done.
//!
//! With kernel passthrough writes pass the daemon by, so the decision falls when a file is opened for writing. What the
//! way in knows of other opens comes through [`OpenState`].

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::blocks::{Blocks, copy_range, same_content};
use super::meta::Id;
use super::open_state::{OpenState, StartedVersion};
use super::pending::Pending;
use super::quota::Quota;
use super::root::{Node, Root, open_beneath, stat_fd};
use super::{Located, World};
use crate::error::{Error, Result};
use crate::journal::{How, Kept};

/// What is more than this takes long to copy, in bytes.
const LONG: u64 = 4 << 20;

/// The directory of versions in a session's own.
pub const VERSIONS: &str = "versions";

/// Files up to this size are copied when they are opened for writing, in bytes, unless another limit was chosen.
pub const COPIED_UP_TO: u64 = 1 << 20;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeepOptions {
    /// Whether contents are kept as well as removals.
    pub versions: bool,
    /// Files up to this size are copied when they are opened for writing, in bytes.
    pub copied_up_to: u64,
    /// The most that the versions of all sessions may take together, in bytes.
    pub max: Option<u64>,
    /// Whether the oldest make room at that limit; if not, the write fails.
    pub evict: bool,
}

impl Default for KeepOptions {
    fn default() -> KeepOptions {
        KeepOptions {
            versions: true,
            copied_up_to: COPIED_UP_TO,
            max: None,
            evict: false,
        }
    }
}

/// What is about to be destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destroys {
    /// Anything, at any time: the file is opened for writing.
    Anything,
    /// What lies between two offsets.
    Range(u64, u64),
    /// Nothing but the length.
    Nothing,
}

/// The versions of the session under way.
#[derive(Debug)]
pub struct Versions {
    dir: OwnedFd,
    last: AtomicU64,
    options: KeepOptions,
    room: Arc<Quota>,
    /// Whether a content is on the disk before it is destroyed.
    durable: bool,
    /// Whether the store's file system has turned out not to share blocks.
    cannot_clone: AtomicBool,
    pending: Arc<Pending>,
}

/// A version that is taken away again unless its record stands.
#[derive(Debug)]
pub(super) struct VersionGuard<'a> {
    versions: &'a Versions,
    n: u64,
    taken: u64,
    stands: bool,
}

/// A content that has been kept, for a record to name.
#[derive(Debug, Default)]
pub(super) struct KeptContent<'a> {
    pub(super) kept: Option<Kept>,
    making: Option<VersionGuard<'a>>,
    /// What the door has to hear, once the record stands.
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

    /// The record stands and its act was done.
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

/// Returns the number in the file name of a version; `None` for other files.
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

    /// Returns how much room the versions take.
    pub fn room(&self) -> &Quota {
        &self.room
    }

    pub(super) fn options(&self) -> &KeepOptions {
        &self.options
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Reserves a number and room for a version.
    pub(super) fn make(&self, bytes: u64) -> Result<VersionGuard<'_>> {
        self.room.take(bytes)?;
        let n = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // No record has it yet: it is none of the oldest that make room.
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

    /// Returns whether a content is on the disk before it is destroyed.
    pub(super) fn is_durable(&self) -> bool {
        self.durable
    }

    /// With `--durable`, waits until a version is on the disk, as records are before what they announce is done.
    pub(super) fn sync(&self, version: &OwnedFd) -> Result<()> {
        match self.durable {
            true => rustix::fs::fdatasync(version).map_err(Error::os("fdatasync")),
            false => Ok(()),
        }
    }

    /// Returns whether a version has what a file has now. Only small ones are looked at, and none that might be deleted
    /// at this moment.
    fn is_copy(&self, n: u64, file: &OwnedFd, size: u64) -> bool {
        if size > COPIED_UP_TO || self.options.evict {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = file_name(n);
        open_beneath(self.dir.as_fd(), name.as_bytes(), flags, Mode::empty())
            .is_ok_and(|version| same_content(version.as_fd(), file.as_fd(), size))
    }

    /// Shares the blocks of a file with a version; `false` where the file system cannot.
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
            // This file cannot be shared (another device of the same mount, a swap file).
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
    /// Keeps what is about to be destroyed.
    ///
    /// # Errors
    /// [`Error::TakesLong`] where there is no time for it; `ENOSPC` and what else the system calls say. Then nothing may be
    /// destroyed.
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
                // The record says of the file that it held so much: that is on the disk, too.
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
        // Without FUSE_ATOMIC_O_TRUNC an open that empties is an open for writing, then a cut: one copy does for both.
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
            // Others may be writing behind the end that the record tells.
            rustix::fs::ftruncate(&version, size).map_err(Error::os("ftruncate"))?;
            // Counted as a copy: it is one as soon as the file is overwritten.
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
            // What is not saved is read from the file.
            versions.sync(&source)?;
            let map = versions.create(&map_name(making.n), OFlags::WRONLY | OFlags::APPEND)?;
            // Its size is the file's, so that what was not saved is not taken for the end.
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
        // Only for a hole at the end. Else the size grows with the bytes, also on the disk, and a version whose bytes did not
        // get there before a power cut is told by it.
        if stat_fd(version.as_fd())?.size < size {
            rustix::fs::ftruncate(&version, size).map_err(Error::os("ftruncate"))?;
        }
        versions.sync(&version)?;
        Ok(KeptContent::of(How::Copied, making, None))
    }
}

impl World {
    /// Returns whether a version may be named by a second record: not once something has been punched out of it.
    fn may_stand_again(&self, located: &Located, n: u64) -> bool {
        let Id(device, inode) = located.node.meta().id;
        let own = device == self.root.id().0;
        let ids = [if own { 0 } else { device }, inode];
        self.versions.pending.claim(ids, n)
    }
}

/// Says whether there is time to copy so many bytes.
fn in_time(bytes: u64, open_state: &dyn OpenState) -> Result<()> {
    if bytes > LONG && !open_state.may_wait() {
        Err(Error::TakesLong)
    } else {
        Ok(())
    }
}

/// Opens a file for reading although its owner may have taken that right away: what it holds is about to be destroyed.
pub(super) fn readable(root: &Root, node: &Node) -> Result<OwnedFd> {
    // To be read by nobody is no use of it. Only its owner may ask for that.
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
