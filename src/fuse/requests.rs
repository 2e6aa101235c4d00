//! One method for each request of the kernel, a few lines each: decode, ask the world, reply.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;

use super::attr::{attributes, errno, nothing, set_time};
use super::counters::{Counters, count};
use super::data::Kept;
use super::handles::Way;
use super::open_state::Unseen;
use super::{FileSystem, caller, handle_flags};
use crate::error::Error;
use crate::world::{Located, Meta, SetAttrs};

/// Numbers are not used again while the kernel knows them, so there is only one generation.
const ONLY: Generation = Generation(0);

/// Copies of more than this are made aside, in bytes.
const LONG_COPY: u64 = 4 << 20;

/// Answers a request with what a closure returns, or with its error: the one place where errors become replies.
macro_rules! answer {
    ($reply:ident, $result:expr, $ok:expr) => {
        match $result {
            Ok(value) => $ok($reply, value),
            Err(error) => {
                log::trace!("{}:{}: {error}", file!(), line!());
                $reply.error(errno(&error))
            }
        }
    };
}

impl FileSystem {
    fn seen(&self, req: &Request, counter: impl Fn(&Counters) -> &AtomicU64) {
        self.act_as_owner();
        count(counter(&self.shared.counters));
        self.shared.activity.request(Some(req.pid()));
    }

    /// As [`FileSystem::seen`], for what moves data or waits for a disk: the caller, or the page cache for it, has
    /// something else to do meanwhile.
    fn seen_long(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        self.act_as_owner();
        count(counter(&self.shared.counters));
        self.shared.activity.request(None);
    }

    pub(super) fn attributes_of(
        &self,
        located: &Located,
        meta: &Meta,
        number: u64,
    ) -> (Duration, fuser::FileAttr) {
        (
            self.ttl_of(number, located),
            attributes(number, self.link_count(located, meta), meta),
        )
    }
}

/// Answers as getxattr(2) does: the size alone where none was given, ERANGE where it is too small.
fn answer_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.size(length),
        size if size < length => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.negotiate(config);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.seen(req, |c| &c.lookup);
        let (ttl, found) = self.look_up(parent.0, name);
        match found {
            Ok(attr) => reply.entry(&ttl, &attr, ONLY),
            Err(Error::NotFound) if !ttl.is_zero() => reply.entry(&ttl, &nothing(), ONLY),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        count(&self.shared.counters.forget);
        if let Some(place) = self.inodes().forget(ino.0, nlookup)
            && let Some(watch) = &self.shared.watch
        {
            watch.forget(
                ino.0,
                self.world()
                    .root()
                    .dir_expecting(&place.path, place.id)
                    .ok()
                    .as_ref(),
            );
        }
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.seen(req, |c| &c.getattr);
        let answer = || {
            match self.held_by_user(ino.0) {
                Ok(located) => Ok(self.attributes_of(&located, located.node.meta(), ino.0)),
                // Its entry in the trash was purged while it is open: the open file survives that too.
                Err(error) => {
                    let handle = self.shared.handles.of_node(ino.0).ok_or(error)?;
                    let meta = crate::world::root::stat_fd(handle.as_fd())?;
                    Ok((Duration::ZERO, attributes(ino.0, meta.nlink, &meta)))
                }
            }
        };
        answer!(reply, answer(), |reply: ReplyAttr, (ttl, attr)| reply
            .attr(&ttl, &attr))
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.seen(req, |c| &c.setattr);
        let change = SetAttrs {
            mode,
            uid,
            gid,
            size,
            atime: set_time(atime),
            mtime: set_time(mtime),
        };
        let caller = caller(req);
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| fs.set_attributes(ino.0, change, fh, may_wait, caller),
            |reply: ReplyAttr, done| {
                answer!(reply, done, |reply: ReplyAttr, (ttl, attr)| reply
                    .attr(&ttl, &attr))
            },
        );
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        self.seen(req, |c| &c.readlink);
        let answer = || self.world().read_link(&self.located(ino.0)?);
        answer!(reply, answer(), |reply: ReplyData, target: Vec<u8>| reply
            .data(&target))
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        self.seen(req, |c| &c.mknod);
        let made = self.make(parent, name, |dir, name| {
            self.world().mknod(dir, name, mode, caller(req))
        });
        answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
            .entry(&ttl, &attr, ONLY))
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.seen(req, |c| &c.mkdir);
        let made = self.make(parent, name, |dir, name| {
            self.world().mkdir(dir, name, mode, caller(req))
        });
        answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
            .entry(&ttl, &attr, ONLY))
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(req, |c| &c.unlink);
        answer!(
            reply,
            self.remove_file(parent, name, caller(req)),
            |reply: ReplyEmpty, ()| reply.ok()
        )
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(req, |c| &c.rmdir);
        answer!(
            reply,
            self.remove_dir(parent, name, caller(req)),
            |reply: ReplyEmpty, ()| reply.ok()
        )
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &std::path::Path,
        reply: ReplyEntry,
    ) {
        self.seen(req, |c| &c.symlink);
        let target = target.as_os_str().as_bytes();
        let made = self.make(parent, name, |dir, name| {
            self.world().symlink(dir, name, target, caller(req))
        });
        answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
            .entry(&ttl, &attr, ONLY))
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.seen(req, |c| &c.rename);
        answer!(
            reply,
            self.move_entry((parent, name), (newparent, newname), flags, caller(req)),
            |reply: ReplyEmpty, ()| reply.ok()
        )
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.seen(req, |c| &c.link);
        let (caller, newname) = (caller(req), newname.to_owned());
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| {
                // A file with two links is not replaced when it is emptied, and one that is being replaced gets no link.
                let _turn = fs.shared.handles.inode_lock(ino.0, may_wait)?;
                let located = fs.located(ino.0)?;
                fs.make(newparent, &newname, |dir, name| {
                    fs.world().link(&located, dir, name, caller)
                })
            },
            |reply: ReplyEntry, made| {
                answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
                    .entry(&ttl, &attr, ONLY))
            },
        );
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.seen(req, |c| &c.open);
        let caller = caller(req);
        self.at_once_or_aside(
            reply,
            move |fs, reply: &ReplyOpen, may_wait| {
                let register = |fd: BorrowedFd<'_>| reply.open_backing(fd);
                fs.open_handle(ino, flags.0, caller, may_wait, register)
            },
            |reply, opened| match opened {
                Ok((fh, fopen, Way::Passthrough(id) | Way::Direct(id))) => {
                    reply.opened_passthrough(fh, fopen, &id)
                }
                Ok((fh, fopen, Way::Served)) => reply.opened(fh, fopen),
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.seen(req, |c| &c.create);
        let mechanisms = *self.shared.mechanisms.lock();
        let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::EXCL;
        let wanted = handle_flags(flags, mechanisms) | exclusive;
        let mut file = None;
        let made = self.make(parent, name, |dir, name| {
            let created = self
                .world()
                .create(dir, name, wanted, mode, &Unseen, caller(req))?;
            file = Some(created.file);
            Ok(created.meta)
        });
        let made = made.and_then(|(ttl, attr)| Ok((ttl, attr, file.ok_or(Error::NotFound)?)));
        answer!(reply, made, |reply: ReplyCreate,
                              (ttl, attr, file): (
            Duration,
            fuser::FileAttr,
            OwnedFd
        )| {
            let register = |fd: BorrowedFd<'_>| reply.open_backing(fd);
            let kept = Kept::of_new(self.writes_through(mechanisms));
            match self.add_handle(attr.ino, req.pid(), file, flags, kept, register) {
                (fh, fopen, Way::Passthrough(id) | Way::Direct(id)) => {
                    reply.created_passthrough(&ttl, &attr, ONLY, fh, fopen, &id)
                }
                (fh, fopen, Way::Served) => reply.created(&ttl, &attr, ONLY, fh, fopen),
            }
        })
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.seen_long(|c| &c.read);
        answer!(
            reply,
            self.read_at(fh, offset, size),
            |reply: ReplyData, data: Vec<u8>| reply.data(&data)
        )
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.seen_long(|c| &c.write);
        let answer = || {
            let written = self.write_at(fh, offset, data, caller(req))?;
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                self.world()
                    .drop_setid(&self.located(ino.0)?, caller(req))?;
            }
            Ok(written)
        };
        answer!(reply, answer(), |reply: ReplyWrite, written| reply
            .written(written))
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is held back that a close would have to write. ENOSYS: the kernel never asks again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.seen(req, |c| &c.release);
        let closed = self.shared.handles.remove(fh.0);
        reply.ok();
        let Some((handle, ends_writing)) = closed else {
            return;
        };
        if handle.maps {
            self.attributes_changed(ino.0);
        }
        if ends_writing && let Ok(meta) = crate::world::root::stat_fd(handle.as_fd()) {
            self.world().finalizer().closed(meta.id);
        }
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.seen_long(|c| &c.fsync);
        self.spawn_blocking(move |fs| {
            let synced = fs.handle(fh).and_then(|handle| {
                if handle.maps {
                    fs.attributes_changed(ino.0);
                }
                let sync = if datasync {
                    rustix::fs::fdatasync
                } else {
                    rustix::fs::fsync
                };
                sync(handle.as_fd()).map_err(Error::os("fsync"))
            });
            answer!(reply, synced, |reply: ReplyEmpty, ()| reply.ok())
        });
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // ENOSYS: the kernel opens directories without asking, and caches what they list.
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.seen(req, |c| &c.readdir);
        let outcome = self.list(ino, offset, &mut reply);
        answer!(reply, outcome, |reply: ReplyDirectory, ()| reply.ok())
    }

    fn readdirplus(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.seen(req, |c| &c.readdirplus);
        let outcome = self.list_plus(ino, offset, &mut reply);
        answer!(reply, outcome, |reply: ReplyDirectoryPlus, ()| reply.ok())
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.seen_long(|c| &c.fsyncdir);
        self.spawn_blocking(move |fs| {
            let synced = fs.dir(ino.0).and_then(|dir| fs.world().sync_dir(&dir));
            answer!(reply, synced, |reply: ReplyEmpty, ()| reply.ok())
        });
    }

    fn statfs(&self, req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.seen(req, |c| &c.statfs);
        answer!(
            reply,
            self.world().statfs(),
            |reply: ReplyStatfs, fs: rustix::fs::StatVfs| reply.statfs(
                fs.f_blocks,
                fs.f_bfree,
                fs.f_bavail,
                fs.f_files,
                fs.f_ffree,
                u32::try_from(fs.f_bsize).unwrap_or(4096),
                255,
                u32::try_from(fs.f_frsize).unwrap_or(4096),
            )
        )
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.seen(req, |c| &c.setxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let (name, value, caller) = (name.to_owned(), value.to_vec(), caller(req));
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| {
                let _turn = fs.shared.handles.inode_lock(ino.0, may_wait)?;
                let located = fs.held_by_user(ino.0)?;
                let flags = flags.cast_unsigned();
                fs.world()
                    .set_xattr(&located, name.as_bytes(), &value, flags, caller)
            },
            |reply: ReplyEmpty, set| answer!(reply, set, |reply: ReplyEmpty, ()| reply.ok()),
        );
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.seen(req, |c| &c.getxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let value = self
            .located(ino.0)
            .and_then(|located| self.world().get_xattr(&located, name.as_bytes()));
        answer!(reply, value, |reply, value: Vec<u8>| answer_xattr(
            reply, size, &value
        ))
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.seen(req, |c| &c.listxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let listed = self
            .located(ino.0)
            .and_then(|located| self.world().list_xattr(&located));
        answer!(reply, listed, |reply, names: Vec<u8>| answer_xattr(
            reply, size, &names
        ))
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(req, |c| &c.removexattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let (name, caller) = (name.to_owned(), caller(req));
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| {
                let _turn = fs.shared.handles.inode_lock(ino.0, may_wait)?;
                let located = fs.held_by_user(ino.0)?;
                fs.world().remove_xattr(&located, name.as_bytes(), caller)
            },
            |reply: ReplyEmpty, removed| {
                answer!(reply, removed, |reply: ReplyEmpty, ()| reply.ok())
            },
        );
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.seen(req, |c| &c.access);
        let wanted = rustix::fs::Access::from_bits_truncate(mask.bits().cast_unsigned());
        let checked = self
            .located(ino.0)
            .and_then(|located| self.world().access(&located, wanted));
        answer!(reply, checked, |reply: ReplyEmpty, ()| reply.ok())
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        count(&self.shared.counters.other);
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.seen_long(|c| &c.fallocate);
        let caller = caller(req);
        let (mode, range) = (mode.cast_unsigned(), (offset, length));
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| fs.allocate(ino.0, fh, mode, range, may_wait, caller),
            |reply: ReplyEmpty, done| answer!(reply, done, |reply: ReplyEmpty, ()| reply.ok()),
        );
    }

    fn lseek(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.seen(req, |c| &c.lseek);
        answer!(
            reply,
            self.seek_to(fh, offset, whence),
            |reply: ReplyLseek, at| reply.offset(at)
        )
    }

    fn copy_file_range(
        &self,
        req: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.seen_long(|c| &c.copy_file_range);
        let caller = caller(req);
        self.at_once_or_aside(
            reply,
            move |fs, _, may_wait| {
                // What is overwritten is copied first: it takes twice as long as it does elsewhere.
                if !may_wait && len > LONG_COPY {
                    return Err(Error::TakesLong);
                }
                fs.copy(
                    ino_out,
                    caller,
                    (fh_in, offset_in),
                    (fh_out, offset_out),
                    len,
                    flags,
                )
            },
            |reply: ReplyWrite, done| {
                answer!(reply, done, |reply: ReplyWrite, copied| reply
                    .written(copied))
            },
        );
    }
}
