//! One method for each request of the kernel, a few lines each: decode, ask the world, reply.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::OFlags;

use super::attr::{attributes, errno, kind, nothing, set_time};
use super::counters::{Counters, count};
use super::handles::{Handle, Way};
use super::{FileSystem, caller, handle_flags};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::{Change, Held, Id, Meta, Renaming};

/// Numbers are not used again while the kernel knows them, so there is only one generation.
const ONLY: Generation = Generation(0);

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
    fn seen(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        count(counter(&self.shared.counters));
        self.shared.activity.request();
    }

    fn handle(&self, number: FileHandle) -> Result<std::sync::Arc<Handle>> {
        let bad = Error::Os {
            call: "handle",
            errno: rustix::io::Errno::BADF,
        };
        self.shared.handles.get(number.0).ok_or(bad)
    }

    /// Does something in a directory that the kernel is then told the outcome of.
    fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        act: impl FnOnce(&crate::world::Dir, Name<'_>) -> Result<Meta>,
    ) -> Result<(Duration, fuser::FileAttr)> {
        let name = Name::new(name.as_bytes())?;
        let (dir, ttl) = self.listed_dir(parent.0)?;
        let meta = act(&dir, name)?;
        Ok((ttl, self.entry(parent.0, name, &meta)))
    }

    fn attributes_of(&self, held: &Held, meta: &Meta, number: u64) -> (Duration, fuser::FileAttr) {
        (
            self.ttl_of(held),
            attributes(number, self.link_count(held, meta), meta),
        )
    }

    fn fopen_flags(&self, way: &Way, flags: i32) -> FopenFlags {
        match way {
            Way::Passthrough(_) => FopenFlags::FOPEN_NOFLUSH,
            Way::Served if flags & libc_o_direct() != 0 => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH
            }
            // Changes made behind the mount are noticed and invalidate; else the attributes' life is short and the
            // kernel compares the time of change (AUTO_INVAL_DATA).
            Way::Served => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH,
        }
    }
}

fn libc_o_direct() -> i32 {
    OFlags::DIRECT.bits().cast_signed()
}

fn writes(flags: OFlags) -> bool {
    flags & OFlags::RWMODE != OFlags::RDONLY
}

impl Filesystem for FileSystem {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let offered = config.capabilities();
        let mut wanted = InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            | InitFlags::FUSE_NO_EXPORT_SUPPORT
            | InitFlags::FUSE_ASYNC_DIO;
        let passthrough =
            self.shared.options.passthrough && offered.contains(InitFlags::FUSE_PASSTHROUGH);
        if passthrough {
            wanted |= InitFlags::FUSE_PASSTHROUGH;
            // 1: the store may be on an ordinary file system, and an overlay may be put over the home.
            let _ = config.set_max_stack_depth(1);
        } else {
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE
                | InitFlags::FUSE_AUTO_INVAL_DATA
                | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        }
        let agreed = wanted & offered;
        let _ = config.add_capabilities(agreed);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        *self.shared.mechanisms.lock() = super::Mechanisms {
            passthrough,
            writeback: agreed.contains(InitFlags::FUSE_WRITEBACK_CACHE),
            readdirplus: agreed.contains(InitFlags::FUSE_DO_READDIRPLUS),
            killpriv_v2: agreed.contains(InitFlags::FUSE_HANDLE_KILLPRIV_V2),
            atomic_o_trunc: agreed.contains(InitFlags::FUSE_ATOMIC_O_TRUNC),
        };
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.seen(|c| &c.lookup);
        let mut ttl = Duration::ZERO;
        let found = Name::new(name.as_bytes()).and_then(|name| {
            let (dir, life) = self.listed_dir(parent.0)?;
            ttl = life;
            let found = self.world().lookup(&dir, name)?;
            if crate::world::view::in_trash(&found.path()) {
                ttl = Duration::ZERO;
            }
            Ok(self.entry(parent.0, name, &found.meta))
        });
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

    fn getattr(&self, _req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        self.seen(|c| &c.getattr);
        let answer = || {
            if let Some(handle) = fh.and_then(|fh| self.shared.handles.get(fh.0)) {
                let meta = crate::world::root::stat_fd(handle.as_fd())?;
                let removed = self.inodes().place(ino.0).is_ok_and(|place| place.removed);
                let nlink = self.world().links_shown(&meta, removed);
                let ttl = self.default_ttl();
                return Ok((ttl, attributes(ino.0, nlink, &meta)));
            }
            let held = self.held(ino.0)?;
            Ok(self.attributes_of(&held, held.node.meta(), ino.0))
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
        self.seen(|c| &c.setattr);
        let answer = || {
            let held = self.held(ino.0)?;
            let change = Change {
                mode,
                uid,
                gid,
                size,
                atime: set_time(atime),
                mtime: set_time(mtime),
            };
            let handle = fh
                .and_then(|fh| self.shared.handles.get(fh.0))
                .filter(|handle| handle.writes);
            let file = handle.as_ref().map(|handle| handle.as_fd());
            let meta = self.world().set_attr(&held, change, file, caller(req))?;
            Ok(self.attributes_of(&held, &meta, ino.0))
        };
        answer!(reply, answer(), |reply: ReplyAttr, (ttl, attr)| reply
            .attr(&ttl, &attr))
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        self.seen(|c| &c.readlink);
        let answer = || self.world().read_link(&self.held(ino.0)?);
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
        self.seen(|c| &c.mknod);
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
        self.seen(|c| &c.mkdir);
        let made = self.make(parent, name, |dir, name| {
            self.world().mkdir(dir, name, mode, caller(req))
        });
        answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
            .entry(&ttl, &attr, ONLY))
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(|c| &c.unlink);
        let answer = || {
            let name = Name::new(name.as_bytes())?;
            let removed = self
                .world()
                .unlink(&self.dir(parent.0)?, name, caller(req))?;
            self.inodes()
                .removed((parent.0, name), removed.id, removed.entry.bytes());
            Ok(())
        };
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(|c| &c.rmdir);
        let answer = || {
            let name = Name::new(name.as_bytes())?;
            let dir = self.dir(parent.0)?;
            self.inodes().moving();
            let outcome = self.world().rmdir(&dir, name, caller(req));
            if let Ok(removed) = &outcome {
                self.inodes()
                    .removed((parent.0, name), removed.id, removed.entry.bytes());
                self.inodes().gathered(removed.id, &removed.gathered);
            }
            self.inodes().moving();
            outcome.map(|_| ())
        };
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &std::path::Path,
        reply: ReplyEntry,
    ) {
        self.seen(|c| &c.symlink);
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
        self.seen(|c| &c.rename);
        let answer = || {
            let how = match flags {
                f if f.is_empty() => Renaming::Replace,
                RenameFlags::RENAME_NOREPLACE => Renaming::NoReplace,
                RenameFlags::RENAME_EXCHANGE => Renaming::Exchange,
                _ => return Err(Error::Invalid),
            };
            let (name, newname) = (Name::new(name.as_bytes())?, Name::new(newname.as_bytes())?);
            let (dir, newdir) = (self.dir(parent.0)?, self.dir(newparent.0)?);
            self.inodes().moving();
            let outcome = self
                .world()
                .rename(&dir, name, &newdir, newname, how, caller(req));
            if let Ok(moved) = &outcome {
                let (from, to) = ((parent.0, name), (newparent.0, newname));
                if let Some(replaced) = &moved.replaced {
                    self.inodes()
                        .removed(to, replaced.id, replaced.entry.bytes());
                }
                self.inodes().moved(from, to, moved.id);
                if let Some(other) = moved.exchanged {
                    self.inodes().moved(to, from, other);
                }
            }
            self.inodes().moving();
            outcome.map(|_| ())
        };
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.seen(|c| &c.link);
        let made = self.held(ino.0).and_then(|held| {
            self.make(newparent, newname, |dir, name| {
                self.world().link(&held, dir, name, caller(req))
            })
        });
        answer!(reply, made, |reply: ReplyEntry, (ttl, attr)| reply
            .entry(&ttl, &attr, ONLY))
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.seen(|c| &c.open);
        let mechanisms = *self.shared.mechanisms.lock();
        let wanted = handle_flags(flags.0, mechanisms);
        let opened = self.held(ino.0).and_then(|held| {
            let file = match self.world().open_file(&held, wanted, caller(req)) {
                // The page cache would like to read what it is only allowed to write: then it writes through.
                Err(Error::Os {
                    errno: rustix::io::Errno::ACCESS,
                    ..
                }) if mechanisms.writeback => {
                    let asked = handle_flags(flags.0, super::Mechanisms::default());
                    self.world().open_file(&held, asked, caller(req))?
                }
                file => file?,
            };
            Ok(file)
        });
        match opened {
            Err(error) => reply.error(errno(&error)),
            Ok(file) => {
                let register = |fd: std::os::fd::BorrowedFd<'_>| {
                    if mechanisms.passthrough {
                        reply.open_backing(fd).ok()
                    } else {
                        None
                    }
                };
                let (fh, way) = self
                    .shared
                    .handles
                    .add(ino.0, file, writes(wanted), register);
                let fopen = self.fopen_flags(&way, flags.0);
                match way {
                    Way::Passthrough(id) => reply.opened_passthrough(FileHandle(fh), fopen, &id),
                    Way::Served => reply.opened(FileHandle(fh), fopen),
                }
            }
        }
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
        self.seen(|c| &c.create);
        let mechanisms = *self.shared.mechanisms.lock();
        let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::EXCL;
        let wanted = handle_flags(flags, mechanisms) | exclusive;
        let mut file = None;
        let made = self.make(parent, name, |dir, name| {
            let created = self.world().create(dir, name, wanted, mode, caller(req))?;
            file = Some(created.file);
            Ok(created.meta)
        });
        match (made, file) {
            (Ok((ttl, attr)), Some(file)) => {
                let register = |fd: std::os::fd::BorrowedFd<'_>| {
                    if mechanisms.passthrough {
                        reply.open_backing(fd).ok()
                    } else {
                        None
                    }
                };
                let (fh, way) = self
                    .shared
                    .handles
                    .add(attr.ino.0, file, writes(wanted), register);
                let fopen = self.fopen_flags(&way, flags);
                match way {
                    Way::Passthrough(id) => {
                        reply.created_passthrough(&ttl, &attr, ONLY, FileHandle(fh), fopen, &id);
                    }
                    Way::Served => reply.created(&ttl, &attr, ONLY, FileHandle(fh), fopen),
                }
            }
            (Err(error), _) => reply.error(errno(&error)),
            (Ok(_), None) => reply.error(Errno::EIO),
        }
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
        self.seen(|c| &c.read);
        let answer = || {
            let handle = self.handle(fh)?;
            let mut data = vec![0; usize::try_from(size).unwrap_or(0)];
            let mut filled = 0;
            // A short read means the end of the file to the kernel, so go on until it is that.
            while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match rustix::io::pread(handle.as_fd(), rest, offset + filled as u64) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => return Err(Error::os("pread")(errno)),
                }
            }
            data.truncate(filled);
            Ok(data)
        };
        answer!(reply, answer(), |reply: ReplyData, data: Vec<u8>| reply
            .data(&data))
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
        self.seen(|c| &c.write);
        let answer = || {
            let handle = self.handle(fh)?;
            let mut written = 0;
            while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
                match rustix::io::pwrite(handle.as_fd(), rest, offset + written as u64) {
                    Ok(n) => written += n,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) if written > 0 => break,
                    Err(errno) => return Err(Error::os("pwrite")(errno)),
                }
            }
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                self.world().drop_setid(&self.held(ino.0)?, caller(req))?;
            }
            Ok(u32::try_from(written).unwrap_or(u32::MAX))
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
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.seen(|c| &c.release);
        self.shared.handles.remove(fh.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.seen(|c| &c.fsync);
        let answer = || {
            let handle = self.handle(fh)?;
            let synced = if datasync {
                rustix::fs::fdatasync(handle.as_fd())
            } else {
                rustix::fs::fsync(handle.as_fd())
            };
            synced.map_err(Error::os("fsync"))
        };
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // ENOSYS: the kernel opens directories without asking, and caches what they list.
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.seen(|c| &c.readdir);
        let mut answer = || {
            let (dir, _) = self.listed_dir(ino.0)?;
            self.world().list(&dir, offset, |entry| {
                let number = self.inodes().number_for_listing(Id(dir.id().0, entry.ino));
                !reply.add(
                    INodeNo(number),
                    entry.next,
                    kind(entry.kind),
                    OsStr::from_bytes(entry.name),
                )
            })
        };
        let outcome = answer();
        answer!(reply, outcome, |reply: ReplyDirectory, ()| reply.ok())
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.seen(|c| &c.readdirplus);
        let mut answer = || {
            let (dir, ttl) = self.listed_dir(ino.0)?;
            self.world().list(&dir, offset, |entry| {
                let bytes = OsStr::from_bytes(entry.name);
                let Ok(name) = Name::new(entry.name) else {
                    // `.` and `..`: listed, but the kernel is not told of a node by them.
                    let mut attr = nothing();
                    attr.kind = fuser::FileType::Directory;
                    attr.ino = INodeNo(self.inodes().number_for_listing(Id(dir.id().0, entry.ino)));
                    return !reply.add(attr.ino, entry.next, bytes, &Duration::ZERO, &attr, ONLY);
                };
                // Gone since it was listed: not there.
                let Ok(found) = self.world().lookup(&dir, name) else {
                    return true;
                };
                let attr = self.entry(ino.0, name, &found.meta);
                let full = reply.add(attr.ino, entry.next, bytes, &ttl, &attr, ONLY);
                if full {
                    self.inodes().forget(attr.ino.0, 1);
                }
                !full
            })
        };
        let outcome = answer();
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
        self.seen(|c| &c.fsyncdir);
        let answer = || self.world().sync_dir(&self.dir(ino.0)?);
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.seen(|c| &c.statfs);
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
        self.seen(|c| &c.setxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let set = self.held(ino.0).and_then(|held| {
            self.world().set_xattr(
                &held,
                name.as_bytes(),
                value,
                flags.cast_unsigned(),
                caller(req),
            )
        });
        answer!(reply, set, |reply: ReplyEmpty, ()| reply.ok())
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.seen(|c| &c.getxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let answer = || {
            let mut value = vec![0; usize::try_from(size).unwrap_or(0)];
            let length = self
                .world()
                .get_xattr(&self.held(ino.0)?, name.as_bytes(), &mut value)?;
            value.truncate(length);
            Ok((length, value))
        };
        answer!(
            reply,
            answer(),
            |reply: ReplyXattr, (length, value): (usize, Vec<u8>)| {
                if size == 0 {
                    reply.size(u32::try_from(length).unwrap_or(u32::MAX))
                } else {
                    reply.data(&value)
                }
            }
        )
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.seen(|c| &c.listxattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let listed = self
            .held(ino.0)
            .and_then(|held| self.world().list_xattr(&held));
        answer!(reply, listed, |reply: ReplyXattr, names: Vec<u8>| {
            let length = u32::try_from(names.len()).unwrap_or(u32::MAX);
            match size {
                0 => reply.size(length),
                size if size < length => reply.error(Errno::ERANGE),
                _ => reply.data(&names),
            }
        })
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.seen(|c| &c.removexattr);
        if !self.shared.options.xattr {
            return reply.error(Errno::ENOSYS);
        }
        let removed = self.held(ino.0).and_then(|held| {
            self.world()
                .remove_xattr(&held, name.as_bytes(), caller(req))
        });
        answer!(reply, removed, |reply: ReplyEmpty, ()| reply.ok())
    }

    fn access(&self, _req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.seen(|c| &c.access);
        let wanted = rustix::fs::Access::from_bits_truncate(mask.bits().cast_unsigned());
        let checked = self
            .held(ino.0)
            .and_then(|held| self.world().access(&held, wanted));
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
        self.seen(|c| &c.fallocate);
        let answer = || {
            let (held, handle) = (self.held(ino.0)?, self.handle(fh)?);
            self.world().allocate(
                &held,
                handle.as_fd(),
                mode.cast_unsigned(),
                (offset, length),
                caller(req),
            )
        };
        answer!(reply, answer(), |reply: ReplyEmpty, ()| reply.ok())
    }

    fn lseek(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.seen(|c| &c.lseek);
        let answer = || {
            let handle = self.handle(fh)?;
            let at = u64::try_from(offset).map_err(|_| Error::Invalid)?;
            let to = match whence {
                3 => rustix::fs::SeekFrom::Data(at), // SEEK_DATA; the kernel answers all but these two by itself
                4 => rustix::fs::SeekFrom::Hole(at), // SEEK_HOLE
                _ => return Err(Error::Invalid),
            };
            let at = rustix::fs::seek(handle.as_fd(), to).map_err(Error::os("lseek"))?;
            i64::try_from(at).map_err(|_| Error::Invalid)
        };
        answer!(reply, answer(), |reply: ReplyLseek, at| reply.offset(at))
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        fh_in: FileHandle,
        mut offset_in: u64,
        _ino_out: INodeNo,
        fh_out: FileHandle,
        mut offset_out: u64,
        len: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.seen(|c| &c.copy_file_range);
        let mut answer = || {
            if !flags.is_empty() {
                return Err(Error::Invalid);
            }
            let (from, to) = (self.handle(fh_in)?, self.handle(fh_out)?);
            // The reply counts in 32 bits.
            let len = usize::try_from(len.min(1 << 30)).unwrap_or(0);
            let copied = rustix::fs::copy_file_range(
                from.as_fd(),
                Some(&mut offset_in),
                to.as_fd(),
                Some(&mut offset_out),
                len,
            );
            let copied = copied.map_err(Error::os("copy_file_range"))?;
            Ok(u32::try_from(copied).unwrap_or(u32::MAX))
        };
        answer!(reply, answer(), |reply: ReplyWrite, copied| reply
            .written(copied))
    }
}
