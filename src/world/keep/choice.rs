//! The choice of the method by which a content is kept before it is destroyed.
//!
//! Move the inode whole (`replace.rs`), share its blocks, copy a small file, save blocks just before they are
//! overwritten, or note the length where only appending follows. Where keeping fails, the act is not done.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::journal::{KeepMethod, RunId, VersionRef, VolatileLoss};
use crate::world::keep::blocks::{BlockVersion, SMALL_COPY_BYTES, copy_range};
use crate::world::keep::versions::{KeptContent, VersionGuard, VersionStore};
use crate::world::located::LocatedNode;
use crate::world::open_state::OpenState;
use crate::world::root::stat_fd;
use crate::world::store::layout::map_name;
use crate::world::volatile::Volatility;
use crate::world::{Caller, World};
use trumanfs_types::meta::Id;

/// The size in bytes above which a copy takes long.
const LONG_COPY_BYTES: u64 = 4 << 20;

/// The extent of what is about to be destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::world) enum DestroyScope {
    /// Anything, at any time: the file is opened for writing.
    Anything,
    /// The bytes between two offsets.
    Range(u64, u64),
    /// Nothing: the file only grows.
    Nothing,
}

impl World {
    /// Keeps a content that is about to be destroyed.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if there is no time to keep it; `ENOSPC` and any other error from the system calls. Nothing
    /// may then be destroyed.
    pub(in crate::world) fn keep(
        &self,
        located: &LocatedNode,
        destroys: DestroyScope,
        open_state: &dyn OpenState,
    ) -> Result<KeptContent<'_>> {
        let versions = &self.versions;
        let size = located.node.meta().size;
        if !versions.options().versions || size == 0 || open_state.is_covered() {
            if let (DestroyScope::Range(from, to), Some(blocks)) =
                (destroys, open_state.block_version())
            {
                expect_time_to_copy(to.min(size).saturating_sub(from), open_state)?;
                blocks.save(from, to)?;
            }
            return Ok(KeptContent::default());
        }
        if destroys == DestroyScope::Nothing {
            // One that its owner changed is no more volatile, whatever the home adds to it.
            self.is_volatile(located);
            // The record states the former size, so the content up to there must be on disk, too.
            self.sync_before_loss(&located.node)?;
            let how = KeepMethod::Length;
            return Ok(KeptContent::existing(VersionRef { how, n: 0 }));
        }
        if self.forgoes(located) {
            return self.forgo(located);
        }
        let source = self.root.open_to_read(&located.node)?;
        // Without FUSE_ATOMIC_O_TRUNC an open that empties is an open for writing, then a truncation: one copy serves
        // both.
        if let (DestroyScope::Range(..), Some(kept)) = (destroys, open_state.latest_copy())
            && versions.is_copy(kept.n, &source, size)
            && self.may_name_again(located, kept.n)
        {
            return Ok(KeptContent::existing(kept));
        }
        let content = KeepSource {
            source,
            size,
            allocated: located.node.meta().blocks * 512,
        };
        let mut guard = versions.reserve_version(0)?;
        let version = versions.create(&guard.name(), OFlags::RDWR)?;
        let copies = versions.options().copied_up_to.min(SMALL_COPY_BYTES);
        if size > copies && versions.clone_into(&version, &content.source)? {
            content.finish_clone(versions, &mut guard, &version)?;
            return Ok(KeptContent::new(KeepMethod::Cloned, guard, None));
        }
        let by_blocks = match destroys {
            DestroyScope::Anything => open_state.sees_writes(),
            _ => true,
        };
        if size > versions.options().copied_up_to && by_blocks {
            let blocks = content.by_blocks(versions, &guard, version, destroys, open_state)?;
            return Ok(KeptContent::new(KeepMethod::Blocks, guard, Some(blocks)));
        }
        expect_time_to_copy(content.allocated, open_state)?;
        content.copy(versions, &mut guard, &version)?;
        Ok(KeptContent::new(KeepMethod::Copied, guard, None))
    }

    /// Keeps a content before an append: all of it before the first one of a run, or of the session for who is in none,
    /// if it is small; else its length. The length alone would leave the content to the file, which its owner may
    /// change.
    ///
    /// # Errors
    /// As [`World::keep`]. A full disk or quota refuses no append.
    pub(in crate::world) fn keep_before_append(
        &self,
        located: &LocatedNode,
        open_state: &dyn OpenState,
        run: Option<RunId>,
    ) -> Result<KeptContent<'_>> {
        let (id, size) = (located.node.meta().id, located.node.meta().size);
        let is_small = size <= self.versions.options().copied_up_to;
        let is_volatile = self.is_volatile(located);
        if is_small && !is_volatile && !self.versions.append_bases().has(run, id) {
            match self.keep(located, DestroyScope::Range(0, size), open_state) {
                Ok(keeping) => {
                    self.versions.append_bases().add(run, id);
                    return Ok(keeping);
                }
                // Appending needs no right to read.
                Err(error) if error.is_denial() => {}
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::DQUOT) => {}
                Err(error) => return Err(error),
            }
        }
        self.keep(located, DestroyScope::Nothing, open_state)
    }

    /// Confirms what was kept of a content: the record of its change stands, and the act was done.
    pub(in crate::world) fn confirm_kept(
        &self,
        keeping: KeptContent<'_>,
        open_state: &dyn OpenState,
        caller: Caller,
    ) {
        if let Some((n, loss)) = keeping.confirm(open_state) {
            self.note_forgone_version(n, loss, caller);
        }
    }

    /// Has a file kept from now on that an undo changes: a redo takes that back.
    pub(in crate::world) fn keep_for_undo(&self, located: &LocatedNode, caller: Caller) {
        if caller.origin.is_undo() {
            self.volatile.forget(located.node.meta().id);
        }
    }

    /// Returns whether a file is volatile, and as the home left it.
    fn is_volatile(&self, located: &LocatedNode) -> bool {
        let known = || self.volatility_at(&located.path, located.node.meta());
        !located.removed && known() == Volatility::Volatile
    }

    /// Returns whether a content is not kept, as volatile. A file of which one is kept is volatile no more.
    pub(in crate::world) fn forgoes(&self, located: &LocatedNode) -> bool {
        let meta = located.node.meta();
        if located.removed || meta.kind != FileType::RegularFile {
            return false;
        }
        // Another name may have been given to it outside the home.
        let forgoes = self.is_volatile(located) && meta.nlink == 1;
        if !forgoes {
            self.volatile.forget(meta.id);
        }
        forgoes
    }

    /// Keeps nothing of a volatile content: its version has a number and no file.
    fn forgo(&self, located: &LocatedNode) -> Result<KeptContent<'_>> {
        let loss = VolatileLoss {
            dir: self.volatile.top(&located.path, false),
            files: 1,
            bytes: located.node.meta().size,
        };
        let guard = self.versions.reserve_version(0)?;
        Ok(KeptContent::forgone(guard, loss))
    }

    /// Returns whether a second record may name a version: not after anything has been punched out of it.
    fn may_name_again(&self, located: &LocatedNode, n: u64) -> bool {
        let Id(device, inode) = located.node.meta().id;
        let own = device == self.root.id().0;
        let ids = [if own { 0 } else { device }, inode];
        self.versions.pending().claim(ids, n)
    }
}

/// A content that is about to be kept.
struct KeepSource {
    source: OwnedFd,
    size: u64,
    /// The content's space on disk, in bytes.
    allocated: u64,
}

impl KeepSource {
    /// Finishes a version that shares the blocks of the file.
    fn finish_clone(
        &self,
        versions: &VersionStore,
        guard: &mut VersionGuard<'_>,
        version: &OwnedFd,
    ) -> Result<()> {
        // The file may already have grown beyond the recorded size.
        rustix::fs::ftruncate(version, self.size).map_err(Error::os("ftruncate"))?;
        // Counted in full: it becomes a full copy as the file is overwritten.
        guard.take(self.allocated)?;
        versions.sync(version)
    }

    /// Begins a version that is saved as the file is overwritten.
    fn by_blocks(
        self,
        versions: &VersionStore,
        guard: &VersionGuard<'_>,
        version: OwnedFd,
        destroys: DestroyScope,
        open_state: &dyn OpenState,
    ) -> Result<Arc<BlockVersion>> {
        let range = match destroys {
            DestroyScope::Range(from, to) => Some((from, to.min(self.size))),
            DestroyScope::Anything | DestroyScope::Nothing => None,
        };
        if let Some((from, to)) = range {
            expect_time_to_copy(to.saturating_sub(from), open_state)?;
        }
        // Unsaved ranges are read from the file.
        versions.sync(&self.source)?;
        let map = versions.create(&map_name(guard.number()), OFlags::WRONLY | OFlags::APPEND)?;
        // The full size, so that unsaved ranges are not taken for the end.
        rustix::fs::ftruncate(&version, self.size).map_err(Error::os("ftruncate"))?;
        let files = (version, map, versions.is_durable());
        let quota = versions.quota().clone();
        let blocks = Arc::new(BlockVersion::new(
            self.source,
            files,
            guard.number(),
            self.size,
            quota,
        ));
        if let Some((from, to)) = range {
            blocks.save(from, to)?;
        }
        Ok(blocks)
    }

    fn copy(
        &self,
        versions: &VersionStore,
        guard: &mut VersionGuard<'_>,
        version: &OwnedFd,
    ) -> Result<()> {
        guard.take(self.allocated)?;
        copy_range(self.source.as_fd(), version.as_fd(), 0, self.size)?;
        // Only for a hole at the end. Otherwise the size grows with the bytes, on disk as well, so that a version cut
        // short by a power cut shows it.
        if stat_fd(version.as_fd())?.size < self.size {
            rustix::fs::ftruncate(version, self.size).map_err(Error::os("ftruncate"))?;
        }
        versions.sync(version)
    }
}

/// Checks that there is time to copy a number of bytes.
fn expect_time_to_copy(bytes: u64, open_state: &dyn OpenState) -> Result<()> {
    if bytes > LONG_COPY_BYTES && !open_state.may_wait() {
        Err(Error::TakesLong)
    } else {
        Ok(())
    }
}
