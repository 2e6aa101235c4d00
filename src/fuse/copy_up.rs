//! Changes of files that have a name outside the store: which requests are held until the store has a copy of its own,
//! and what the kernel is told.
//!
//! The copy is another file to the kernel: the answer to the request is `ESTALE`, on which the kernel looks the path up
//! anew and asks again (`retry_estale` in Linux). Who has the former file open for reading goes on reading that.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use fuser::{BackingId, FileHandle, INodeNo};

use super::FileSystem;
use super::reply::OpenReply;
use crate::error::{Error, Result};
use crate::world::{Caller, SetAttrs};

/// True if a thread counts the names of files that were changed.
static COUNTING: AtomicBool = AtomicBool::new(false);

impl FileSystem {
    /// Makes a change of a file that must be the store's alone, after a copy of it has taken its place if it is not.
    /// The caller holds no inode lock.
    ///
    /// # Errors
    /// [`Error::TakesLong`] if there is no time for that; `ESTALE` once a copy has taken its place; as
    /// [`World::copy_for_store`](crate::world::World::copy_for_store); those of the change.
    pub(super) fn on_own_file<T>(
        &self,
        number: u64,
        may_wait: bool,
        caller: Caller,
        change: impl Fn() -> Result<T>,
    ) -> Result<T> {
        match change() {
            Err(Error::LinkedOutside) if !may_wait => Err(Error::TakesLong),
            Err(Error::LinkedOutside) => {
                self.leave_outside_names(number, caller)?;
                change()
            }
            done => {
                if self.world().has_suspects() {
                    self.count_suspects();
                }
                done
            }
        }
    }

    /// Opens a file like [`FileSystem::open_handle`].
    pub(super) fn open_file(
        &self,
        ino: INodeNo,
        flags: i32,
        caller: Caller,
        may_wait: bool,
        register: impl Fn(BorrowedFd<'_>) -> std::io::Result<BackingId> + Copy,
    ) -> Result<OpenReply> {
        self.on_own_file(ino.0, may_wait, caller, || {
            self.open_handle(ino, flags, caller, may_wait, register)
        })
    }

    /// Sets attributes like [`FileSystem::set_attributes`].
    pub(super) fn change_attributes(
        &self,
        number: u64,
        change: (SetAttrs, Option<SystemTime>),
        fh: Option<FileHandle>,
        may_wait: bool,
        caller: Caller,
    ) -> Result<(Duration, fuser::FileAttr)> {
        self.on_own_file(number, may_wait, caller, || {
            self.set_attributes(number, change, fh, may_wait, caller)
        })
    }

    /// Sets or removes an extended attribute like [`FileSystem::set_xattr`].
    pub(super) fn change_xattr(
        &self,
        number: u64,
        name: &OsStr,
        value: Option<(&[u8], i32)>,
        may_wait: bool,
        caller: Caller,
    ) -> Result<()> {
        self.on_own_file(number, may_wait, caller, || {
            self.set_xattr(number, name, value, may_wait, caller)
        })
    }

    /// Puts a copy of a file in its place if it has names outside the store.
    fn leave_outside_names(&self, number: u64, caller: Caller) -> Result<()> {
        let moved = {
            let _turn = self.shared.handles.inode_lock(number, true)?;
            // Who writes to it must go on with the same file.
            if self.shared.handles.is_open(number).1 {
                return Err(Error::os("a name outside the store")(
                    rustix::io::Errno::BUSY,
                ));
            }
            let located = self.locate_held(number)?;
            let Some(copy) = self.world().copy_for_store(&located)? else {
                return Ok(());
            };
            let moving = self.inodes().begin_move();
            moving.set_moves_no_dir();
            let moved = self.world().put_copy(copy, caller)?;
            let mut names = Vec::with_capacity(moved.len());
            for name in &moved {
                if let Some(parent) = self.inodes().number_of(name.dir.id()) {
                    let from = (parent, crate::name::Name::new(&name.name)?);
                    let removed = &name.removed;
                    self.inodes()
                        .record_removal(from, removed.id, removed.entry.bytes());
                    names.push((parent, name.name.clone()));
                }
            }
            names
        };
        // Whoever holds one of these directories in the kernel may wait for the inode lock: it is free by now.
        if let Some(kernel) = self.shared.kernel.get() {
            for (parent, name) in moved {
                kernel.invalidate_entry(parent, &name);
            }
        }
        Err(Error::LinkedOutside)
    }

    /// Has the names of changed files counted, on a thread of its own.
    fn count_suspects(&self) {
        if COUNTING.swap(true, Ordering::SeqCst) {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        let counted = std::thread::Builder::new()
            .name("outside names".to_owned())
            .spawn(move || {
                if let Some(shared) = shared.upgrade() {
                    let counted = shared.world.count_suspects();
                    counted.unwrap_or_else(|error| log::warn!("names of files: {error}"));
                }
                COUNTING.store(false, Ordering::SeqCst);
            });
        if let Err(error) = counted {
            COUNTING.store(false, Ordering::SeqCst);
            log::warn!("no thread to count the names of files: {error}");
        }
    }
}
