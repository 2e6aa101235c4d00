//! Replacement of a file's inode: keeping a whole content without copying a byte, and restoring one for an operator.
//!
//! A new inode like the old one (`likeness.rs`) is made among the versions; then the two change places in one step
//! (`RENAME_EXCHANGE`), so the name is never vacant and the old content is whole at every moment. Only for a file with
//! one link, and only if it is not open or all its opens can be given the new inode: an open of the old inode would go
//! on writing into the version.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::journal::{KeepMethod, Op, VersionRef};
use crate::name::{Name, WorldPath, quoted};
use crate::sys::file_lease;
use crate::world::attr::{SET_IDS, set_times, without_setid};
use crate::world::keep::choice::DestroyScope;
use crate::world::keep::likeness::make_alike;
use crate::world::keep::overwrite::{carry_over, overwrite};
use crate::world::keep::versions::VersionGuard;
use crate::world::open_state::OpenState;
use crate::world::options::COPIED_UP_TO;
use crate::world::root::{open_beneath, stat_at, stat_fd};
use crate::world::{Caller, LocatedNode, World};
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::meta::Meta;

/// The permission bits that the store's own user needs on a version.
const OWN_MODE: u32 = 0o600;

/// A new inode that is ready to take a file's place.
#[derive(Debug)]
pub(in crate::world) struct FreshInode<'a> {
    /// The inode, open with the requested flags.
    pub(in crate::world) file: OwnedFd,
    /// The inode's attributes.
    pub(in crate::world) meta: Meta,
    making: VersionGuard<'a>,
}

impl FreshInode<'_> {
    /// Returns the reference to the old inode, for a record.
    pub(in crate::world) fn kept(&self) -> VersionRef {
        VersionRef {
            how: KeepMethod::Moved,
            n: self.making.number(),
        }
    }
}

/// A new content for a file.
pub trait NewContent {
    /// Returns the content's size in bytes.
    fn size(&self) -> u64;
    /// Writes the content to an empty file, skipping its holes.
    ///
    /// # Errors
    /// Any error from reading or writing.
    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()>;
    /// Returns the size in bytes of the content that this one was derived from; `None` for the size of the content that
    /// it replaces. Bytes behind that size at the replacement were appended since by another process, and stay.
    fn made_of(&self) -> Option<u64> {
        None
    }
    /// Checks that a file still has the content that this one was derived from. Called just before the replacement; by
    /// then, a file that is not open cannot be changed through the home.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the content is another; nothing is changed then.
    fn check(&self, _old: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }
}

impl World {
    /// Creates an inode for a file's place, with the given permission bits; `None` if the old one, open as `old`,
    /// cannot move away and its content has to be kept in another way.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT` and `EIO`; the file must then stay as it is.
    pub(in crate::world) fn create_replacement(
        &self,
        located: &LocatedNode,
        old: BorrowedFd<'_>,
        flags: OFlags,
        mode: u32,
        open_state: &dyn OpenState,
    ) -> Result<Option<FreshInode<'_>>> {
        let (meta, options) = (located.node.meta(), self.versions.options());
        // A small open file has already been copied.
        let small = meta.size <= options.copied_up_to.min(COPIED_UP_TO);
        let possible = options.versions
            && meta.nlink == 1
            && !located.removed
            && (!open_state.is_open() || !small && open_state.hands_over())
            && meta.size > 0;
        if !possible || self.forgoes(located) {
            return Ok(None);
        }
        self.sync_before_loss(&located.node)?;
        let making = self.versions.reserve_version(meta.blocks * 512)?;
        match self.create_alike(&making, (located, old), flags, mode) {
            Ok(Some(file)) => Ok(Some(FreshInode {
                meta: stat_fd(file.as_fd())?,
                file,
                making,
            })),
            Ok(None) => Ok(None),
            Err(error) => match error.errno() {
                Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS => Err(error),
                _ => Ok(None),
            },
        }
    }

    /// Creates an empty file with the given permission bits that is like another in everything else; `None` if
    /// something cannot be copied.
    pub(in crate::world) fn create_alike(
        &self,
        making: &VersionGuard<'_>,
        (located, old): (&LocatedNode, BorrowedFd<'_>),
        flags: OFlags,
        permissions: u32,
    ) -> Result<Option<OwnedFd>> {
        let meta = located.node.meta();
        let create = (flags - OFlags::TRUNC)
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(permissions);
        let file = open_beneath(
            self.versions.dir().as_fd(),
            making.name().as_bytes(),
            create,
            mode,
        )?;
        let made = stat_fd(file.as_fd())?;
        if (made.uid, made.gid) != (meta.uid, meta.gid) {
            let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
            match rustix::fs::fchown(&file, Some(uid), Some(gid)) {
                Err(Errno::PERM) => return Ok(None),
                set => set.map_err(Error::os("fchown"))?,
            }
        }
        if made.permissions() != permissions || made.uid != meta.uid || made.gid != meta.gid {
            rustix::fs::fchmod(&file, mode).map_err(Error::os("fchmod"))?;
        }
        if !make_alike(&located.node, old, &file)? {
            return Ok(None);
        }
        // Emptying a file does not update its access time.
        let change = SetAttrs {
            atime: SetTime::To(meta.atime),
            ..SetAttrs::default()
        };
        set_times(file.as_fd(), &change)?;
        Ok(Some(file))
    }

    /// Puts a new inode in a file's place; the old one is a version from then on.
    ///
    /// # Errors
    /// Any error from `renameat2(2)`; `ENOENT` if another file was there, or it has two links. On failure nothing has
    /// changed.
    pub(in crate::world) fn put_in_place(
        &self,
        located: &LocatedNode,
        fresh: &mut FreshInode<'_>,
        open_state: &dyn OpenState,
    ) -> Result<()> {
        let (Some(parent), Some(name)) = (located.path.parent(), located.path.name()) else {
            return Err(Error::NotFound);
        };
        let dir = self.root.dir(&parent)?;
        let version = fresh.making.name();
        let versions = self.versions.dir().as_fd();
        // A second link could still change it after it became a version.
        let id = located.node.meta().id;
        let is_it = |meta: &Meta| meta.id == id && meta.nlink == 1;
        let _names = self.names_lock.write();
        let (tv_sec, nsec, _) = dir.dir_time()?;
        if !is_it(&dir.stat(name)?) {
            return Err(Error::NotFound);
        }
        let swap = || {
            rustix::fs::renameat_with(
                &dir,
                name.bytes(),
                versions,
                version.as_bytes(),
                RenameFlags::EXCHANGE,
            )
            .map_err(Error::os_on("renameat2", || {
                format!("{} ⇄ version {version}", quoted(name.bytes()))
            }))
        };
        let (new, making) = (fresh.meta, &mut fresh.making);
        open_state.replace_inode(&new, fresh.file.as_fd(), &mut || {
            swap()?;
            let arrived = stat_at(versions, Name::new(version.as_bytes())?);
            if arrived.is_ok_and(|meta| is_it(&meta)) {
                return Ok(());
            }
            // Another file was put there behind the mount at this moment. If it cannot go back, it stays as a version.
            swap().inspect_err(|_| making.confirm())?;
            Err(Error::NotFound)
        })?;
        // The old inode is a file of the store's own now, whatever its mode was.
        let mode = located.node.meta().permissions();
        if mode & OWN_MODE != OWN_MODE {
            let _ = self.root.chmod(&located.node, mode | OWN_MODE);
        }
        // The directory's entries look unchanged, so its mtime stays unchanged too.
        let omit = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        };
        let times = Timestamps {
            last_access: omit,
            last_modification: Timespec {
                tv_sec,
                tv_nsec: i64::from(nsec),
            },
        };
        let _ = rustix::fs::utimensat(&dir, c"", &times, AtFlags::EMPTY_PATH);
        Ok(())
    }

    /// Replaces a file's content and keeps the old one. Returns the new attributes.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` if it is not a regular file; `EROFS`; `ENOSPC` if the old content cannot be kept; as
    /// [`NewContent::check`]. On failure nothing has changed, except with [`Error::Partly`]: writing stopped half-way,
    /// and the old content is kept and recorded.
    pub fn put_content(
        &self,
        located: &LocatedNode,
        content: &dyn NewContent,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<Meta> {
        self.expect_changeable(located, caller)?;
        if located.node.meta().is_dir() {
            return Err(Error::IsDirectory);
        }
        let meta = *located.node.meta();
        let op = |kept, new| Op::Content {
            path: located.path.clone(),
            ids: World::ids(meta.id),
            size: meta.size,
            to: content.size()
                + meta
                    .size
                    .saturating_sub(content.made_of().unwrap_or(meta.size)),
            mtime: (meta.mtime.sec, meta.mtime.nsec),
            kept,
            new,
        };
        let author = self.author(caller);
        self.keep_for_undo(located, caller);
        let old = self.root.open_to_read(&located.node)?;
        self.note_capability(located, caller)?;
        let mode = meta.permissions();
        if let Some(mut fresh) =
            self.create_replacement(located, old.as_fd(), OFlags::RDWR, mode, open_state)?
        {
            content.write_to(fresh.file.as_fd())?;
            // From here on nobody opens the file to write to it: such an open waits until `old` is closed.
            if !open_state.is_open() {
                expect_no_writer(old.as_fd(), &located.path)?;
            }
            content.check(old.as_fd())?;
            if let Some(mut was) = content.made_of() {
                let mut to = content.size();
                carry_over(&old, &fresh.file, &mut was, &mut to, meta.size)?;
            }
            put_set_ids(&fresh.file, &meta)?;
            self.versions.sync(&fresh.file)?;
            let new = Some(World::ids(fresh.meta.id));
            let pending = self
                .journal
                .begin(op(Some(fresh.kept()), new), &[], Some(&author))?;
            match self.put_in_place(located, &mut fresh, open_state) {
                Ok(()) => {
                    pending.done();
                    fresh.making.confirm();
                    let after = stat_fd(fresh.file.as_fd())?;
                    self.note_content_changed(&after, open_state);
                    return Ok(after);
                }
                Err(error) => pending.abort(&error),
            }
        }
        // The new content is complete before the old one is touched, so the file is never left half written.
        let ready = self.write_aside(content)?;
        let file = self.root.open_to_replace(&located.node)?;
        let keeping = self.keep(located, DestroyScope::Range(0, meta.size), open_state)?;
        content.check(old.as_fd())?;
        let pending = self
            .journal
            .begin(op(keeping.kept, None), &[], Some(&author))?;
        let was = content.made_of().unwrap_or(meta.size);
        let written =
            overwrite(&file, &ready, content.size(), was).and_then(|()| put_set_ids(&file, &meta));
        // Stopped half-way, by a full disk for example, the file has neither content: the old one must stay kept.
        pending.done();
        self.confirm_kept(keeping, open_state, caller);
        written.map_err(half_written)?;
        let after = located.node.stat()?;
        self.note_content_changed(&after, open_state);
        Ok(after)
    }

    /// Writes a content to a file without a name.
    fn write_aside(&self, content: &dyn NewContent) -> Result<OwnedFd> {
        let making = self.versions.reserve_version(0)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = open_beneath(
            self.versions.dir().as_fd(),
            making.name().as_bytes(),
            flags,
            mode,
        )?;
        content.write_to(file.as_fd())?;
        Ok(file)
    }

    /// Empties a file, open as `old`, by putting a new inode in its place; `None` if that is not possible, and nothing
    /// has changed.
    ///
    /// # Errors
    /// `ENOSPC` if the old content cannot be kept.
    pub(in crate::world) fn empty_by_moving(
        &self,
        located: &LocatedNode,
        old: BorrowedFd<'_>,
        flags: OFlags,
        open_state: &dyn OpenState,
        op: impl FnOnce(VersionRef, crate::journal::InodeNumbers) -> Op,
        caller: Caller,
    ) -> Result<Option<(OwnedFd, Meta)>> {
        // The kernel clears these bits when it truncates a file; here nothing is truncated.
        let meta = located.node.meta();
        let mode = without_setid(meta, caller).unwrap_or(meta.permissions());
        let Some(mut fresh) = self.create_replacement(located, old, flags, mode, open_state)?
        else {
            return Ok(None);
        };
        let op = op(fresh.kept(), World::ids(fresh.meta.id));
        let pending = self.journal.begin(op, &[], Some(&self.author(caller)))?;
        match self.put_in_place(located, &mut fresh, open_state) {
            Ok(()) => {
                pending.done();
                fresh.making.confirm();
                Ok(Some((fresh.file, fresh.meta)))
            }
            Err(error) => {
                // The directory is not writable or the file system cannot exchange: the content is kept in another
                // way.
                pending.abort(&error);
                Ok(None)
            }
        }
    }
}

/// Checks that no program outside the home has a file open for writing, and keeps it so while `file` is open, where the
/// file system has leases and the file is ours.
///
/// # Errors
/// [`Error::Conflict`] where a program has.
fn expect_no_writer(file: BorrowedFd<'_>, path: &WorldPath) -> Result<()> {
    match file_lease::take_quietly(file) {
        Err(Errno::AGAIN) => Err(Error::Conflict {
            what: format!("{path} is open for writing in another program"),
            remedy: "Close it there (`fuser -v` names the program), then try again.".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Gives a file the set-user-id and set-group-id bits that another one had: a write by an operator who is not root
/// clears them.
fn put_set_ids(file: &OwnedFd, of: &Meta) -> Result<()> {
    if of.mode & SET_IDS == 0 {
        return Ok(());
    }
    let mode = Mode::from_raw_mode(of.permissions());
    rustix::fs::fchmod(file, mode).map_err(Error::os("fchmod"))
}

/// Describes a file whose content could not be written to its end.
fn half_written(error: Error) -> Error {
    let (why, remedy) = error.into_words();
    let kept = "What it was is kept and recorded; `trumanfs redo` brings it back.";
    Error::Partly {
        what: format!("only part of the new content may have been written: {why}"),
        remedy: format!("{kept} {remedy}").trim_end().to_owned(),
    }
}

/// Returns the path of a version's file, relative to the state directory.
pub fn version_path(session: &str, n: u64) -> String {
    format!(
        "{}/{session}/{}/{}",
        crate::world::store::layout::SESSIONS,
        crate::world::store::layout::VERSIONS,
        crate::world::store::layout::version_name(n)
    )
}
