//! Former contents: the contents of files before changes destroyed them.
//!
//! Owns `sessions/{id}/versions/` and the decision how a content is kept, at bounded cost: move the whole inode, share
//! its blocks, copy a small file, save blocks just before they are overwritten, or note the length if only appending
//! follows. A version is made before its record is written and deleted if the record or the act fails, so a record
//! never names a missing version. If keeping fails, the act is not done.
//!
//! With kernel passthrough writes bypass the daemon, so the decision is made when a file is opened for writing.
//! [`OpenState`] reports the other opens, as far as the caller knows them.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::journal::{KeepMethod, RunId, VersionRef, VolatileLoss};
use crate::world::keep::blocks::{BlockVersion, same_content};
use crate::world::keep::draft_versions::DraftVersions;
use crate::world::keep::quota::VersionQuota;
use crate::world::open_state::{OpenState, StartedVersion};
use crate::world::options::{COPIED_UP_TO, KeepOptions};
use crate::world::root::open_beneath;
use crate::world::store::layout::version_name;
use trumanfs_types::meta::Id;

/// The versions of the present session.
#[derive(Debug)]
pub struct VersionStore {
    dir: OwnedFd,
    last: AtomicU64,
    options: KeepOptions,
    quota: Arc<VersionQuota>,
    /// True if a content must be on disk before it is destroyed.
    durable: bool,
    /// True if the store's file system is known not to share blocks.
    cannot_clone: AtomicBool,
    pending: Arc<DraftVersions>,
    append_bases: AppendBases,
}

/// The number of files whose first append is remembered; then all are forgotten, and copied once more.
const MAX_APPENDED: usize = 1 << 14;

/// The files that were copied before their first append, by run.
#[derive(Debug, Default)]
pub(in crate::world) struct AppendBases(Mutex<HashSet<(Option<RunId>, Id)>>);

impl AppendBases {
    /// Returns whether a file was copied before an append of a run, or of the session.
    pub(in crate::world) fn has(&self, run: Option<RunId>, id: Id) -> bool {
        self.0.lock().contains(&(run, id))
    }

    /// Notes that a file was copied.
    pub(in crate::world) fn add(&self, run: Option<RunId>, id: Id) {
        let mut copied = self.0.lock();
        if copied.len() >= MAX_APPENDED {
            copied.clear();
        }
        copied.insert((run, id));
    }
}

/// A version that is deleted unless its record stands.
#[derive(Debug)]
pub(in crate::world) struct VersionGuard<'a> {
    versions: &'a VersionStore,
    n: u64,
    taken: u64,
    stands: bool,
}

/// A kept content, for a record to name.
#[derive(Debug, Default)]
pub(in crate::world) struct KeptContent<'a> {
    pub(in crate::world) kept: Option<VersionRef>,
    making: Option<VersionGuard<'a>>,
    /// The report for the open file, once the record stands.
    began: Option<StartedVersion>,
    /// The loss, if nothing is kept because it is volatile.
    forgone: Option<VolatileLoss>,
}

impl<'a> KeptContent<'a> {
    /// Returns the content of a version that an earlier record names as well, or that has no file.
    pub(in crate::world) fn existing(kept: VersionRef) -> KeptContent<'a> {
        KeptContent {
            kept: Some(kept),
            ..KeptContent::default()
        }
    }

    /// Returns the content of a new version.
    pub(in crate::world) fn new(
        how: KeepMethod,
        making: VersionGuard<'a>,
        blocks: Option<Arc<BlockVersion>>,
    ) -> KeptContent<'a> {
        let kept = VersionRef { how, n: making.n };
        KeptContent {
            kept: Some(kept),
            making: Some(making),
            began: Some(StartedVersion {
                copy: blocks.is_none().then_some(kept),
                blocks,
            }),
            forgone: None,
        }
    }

    /// Returns a volatile content: its version has no file, and is to be recorded as evicted.
    pub(in crate::world) fn forgone(
        making: VersionGuard<'a>,
        loss: VolatileLoss,
    ) -> KeptContent<'a> {
        KeptContent {
            forgone: Some(loss),
            ..KeptContent::new(KeepMethod::Copied, making, None)
        }
    }

    /// Confirms the version: its record stands and its act was done. Returns the version's number and what is lost, if
    /// it is a volatile content.
    pub(in crate::world) fn confirm(
        mut self,
        open_state: &dyn OpenState,
    ) -> Option<(u64, VolatileLoss)> {
        if let Some(making) = &mut self.making {
            making.stands = true;
        }
        if let Some(begun) = self.began.take() {
            open_state.note_version_started(begun);
        }
        let n = self.kept.map_or(0, |kept| kept.n);
        self.forgone.take().map(|loss| (n, loss))
    }
}

impl Drop for VersionGuard<'_> {
    fn drop(&mut self) {
        if !self.stands {
            crate::world::keep::version_files::delete(&self.versions.dir, self.n);
            self.versions.quota.give_back(self.taken);
        }
        self.versions.quota.set_live(self.n, false);
    }
}

impl VersionStore {
    pub(in crate::world) fn new(
        dir: OwnedFd,
        options: KeepOptions,
        quota: Arc<VersionQuota>,
        durable: bool,
        pending: Arc<DraftVersions>,
    ) -> VersionStore {
        VersionStore {
            pending,
            dir,
            durable,
            last: AtomicU64::new(0),
            options,
            quota,
            cannot_clone: AtomicBool::new(false),
            append_bases: AppendBases::default(),
        }
    }

    /// Returns the quota of the versions.
    pub fn quota(&self) -> &Arc<VersionQuota> {
        &self.quota
    }

    pub(in crate::world) fn pending(&self) -> &DraftVersions {
        &self.pending
    }

    pub(in crate::world) fn append_bases(&self) -> &AppendBases {
        &self.append_bases
    }

    pub(in crate::world) fn options(&self) -> &KeepOptions {
        &self.options
    }

    pub(in crate::world) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Reserves a number and space for a version.
    pub(in crate::world) fn reserve_version(&self, bytes: u64) -> Result<VersionGuard<'_>> {
        self.quota.take(bytes)?;
        let n = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // No record names it yet, so it must not be evicted.
        self.quota.set_live(n, true);
        Ok(VersionGuard {
            versions: self,
            n,
            taken: bytes,
            stands: false,
        })
    }

    pub(in crate::world) fn create(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        open_beneath(
            self.dir.as_fd(),
            name.as_bytes(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )
    }

    /// Returns whether a content must be on disk before it is destroyed.
    pub(in crate::world) fn is_durable(&self) -> bool {
        self.durable
    }

    /// With `--durable`, waits until a version is on disk: it must be there before its act.
    pub(in crate::world) fn sync(&self, version: &OwnedFd) -> Result<()> {
        if self.durable {
            rustix::fs::fdatasync(version).map_err(Error::os("fdatasync"))
        } else {
            Ok(())
        }
    }

    /// Returns whether a version equals the file's present content. Only small ones are compared, and none that may be
    /// evicted at this moment.
    pub(in crate::world) fn is_copy(&self, n: u64, file: &OwnedFd, size: u64) -> bool {
        if size > COPIED_UP_TO || self.options.evict {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = version_name(n);
        open_beneath(self.dir.as_fd(), name.as_bytes(), flags, Mode::empty())
            .is_ok_and(|version| same_content(version.as_fd(), file.as_fd(), size))
    }

    /// Shares the blocks of a file with a version; `false` if the file system cannot.
    pub(in crate::world) fn clone_into(&self, version: &OwnedFd, source: &OwnedFd) -> Result<bool> {
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
    /// Takes space for the version, which is given back with it.
    pub(in crate::world) fn take(&mut self, bytes: u64) -> Result<()> {
        self.versions.quota.take(bytes)?;
        self.taken += bytes;
        Ok(())
    }

    pub(in crate::world) fn number(&self) -> u64 {
        self.n
    }

    pub(in crate::world) fn name(&self) -> String {
        version_name(self.n)
    }

    pub(in crate::world) fn confirm(&mut self) {
        self.stands = true;
    }
}
