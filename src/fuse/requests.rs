//! The FUSE requests: each method counts its request, handles it and replies; handlers are in the module's other files.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::FileSystem;
use super::attr::set_attrs;
use super::counters::{count, counted};

impl Filesystem for FileSystem {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.negotiate(config);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let info = self.begin_request(req, parent, counted!(lookup));
        self.answer(info, reply, self.look_up(parent.0, name));
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.forget_lookups(ino.0, nlookup);
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let info = self.begin_request(req, ino, counted!(getattr));
        self.answer(info, reply, self.get_attributes(ino.0));
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
        ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let info = self.begin_request(req, ino, counted!(setattr));
        let change = set_attrs((mode, uid, gid), size, (atime, mtime));
        let caller = self.caller_for_mode(req, mode.unwrap_or(0));
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.change_attributes(ino.0, (change, ctime), fh, may_wait, caller)
        });
    }

    fn readlink(&self, req: &Request, ino: INodeNo, reply: ReplyData) {
        let info = self.begin_request(req, ino, counted!(readlink));
        self.answer(info, reply, self.target_of(ino.0));
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
        let info = self.begin_request(req, parent, counted!(mknod));
        let caller = self.caller_for_mode(req, mode);
        self.answer(info, reply, self.make_node(parent, name, mode, caller));
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
        let info = self.begin_request(req, parent, counted!(mkdir));
        let made = self.make_dir(parent, name, mode, self.caller(req));
        self.answer(info, reply, made);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let info = self.begin_request(req, parent, counted!(unlink));
        let removed = self.remove_file(parent, name, self.caller(req));
        self.answer(info, reply, removed);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let info = self.begin_request(req, parent, counted!(rmdir));
        let removed = self.remove_dir(parent, name, self.caller(req));
        self.answer(info, reply, removed);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let info = self.begin_request(req, parent, counted!(symlink));
        let made = self.make_symlink(parent, name, target, self.caller(req));
        self.answer(info, reply, made);
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
        let info = self.begin_request(req, parent, counted!(rename));
        let (from, to) = ((parent, name), (newparent, newname));
        let moved = self.move_entry(from, to, flags, self.caller(req));
        self.answer(info, reply, moved);
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let info = self.begin_request(req, ino, counted!(link));
        let (caller, newname) = (self.caller(req), newname.to_owned());
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.link_to(ino.0, newparent, &newname, may_wait, caller)
        });
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let info = self.begin_request(req, ino, counted!(open));
        let caller = self.caller_of_open(req, flags.0);
        self.at_once_or_aside(info, reply, move |fs, reply: &ReplyOpen, may_wait| {
            let register = |fd: BorrowedFd<'_>| reply.open_backing(fd);
            fs.open_file(ino, flags.0, caller, may_wait, register)
        });
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
        let info = self.begin_request(req, parent, counted!(create));
        let register = |fd: BorrowedFd<'_>| reply.open_backing(fd);
        let caller = self.caller_for_mode(req, mode);
        let made = self.create_handle(parent, name, (flags, mode), caller, register);
        self.answer(info, reply, made);
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_for(req, ino, (fh, offset, size), reply);
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        open: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let info = self.begin_long_request(req, ino, counted!(write));
        let written = self.write_at(
            ino.0,
            (fh, offset),
            data,
            (flags, open),
            self.caller_without_run(req),
        );
        self.answer(info, reply, written);
    }

    fn flush(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if !self.shared.mechanisms.lock().passthrough {
            // Each write was seen. After ENOSYS the kernel never asks again.
            return reply.error(Errno::ENOSYS);
        }
        let info = self.begin_request(req, ino, counted!(flush));
        let process = req.pid();
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.note_flushed(fh, process, may_wait)
        });
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
        self.begin_request(req, ino, counted!(release));
        self.close_handle(ino.0, fh, reply);
    }

    fn fsync(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let info = self.begin_long_request(req, ino, counted!(fsync));
        self.sync_at_once_or_aside(info, reply, move |fs| fs.sync(ino.0, fh, datasync));
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // After ENOSYS the kernel opens directories without asking, and caches their listings.
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let info = self.begin_request(req, ino, counted!(readdir));
        self.list(info, ino, offset, reply);
    }

    fn readdirplus(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let info = self.begin_request(req, ino, counted!(readdirplus));
        self.list_plus(info, ino, offset, reply);
    }

    fn fsyncdir(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let info = self.begin_long_request(req, ino, counted!(fsyncdir));
        self.sync_at_once_or_aside(info, reply, move |fs| fs.sync_dir(ino.0));
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let info = self.begin_request(req, ino, counted!(statfs));
        self.answer(info, reply, self.world().statfs());
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
        let info = self.begin_request(req, ino, counted!(setxattr));
        let (name, value, caller) = (name.to_owned(), value.to_vec(), self.caller(req));
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.change_xattr(ino.0, &name, Some((&value, flags)), may_wait, caller)
        });
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let info = self.begin_request(req, ino, counted!(getxattr));
        self.answer(info, (reply, size), self.get_xattr(ino.0, name));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let info = self.begin_request(req, ino, counted!(listxattr));
        self.answer(info, (reply, size), self.list_xattr(ino.0));
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let info = self.begin_request(req, ino, counted!(removexattr));
        let (name, caller) = (name.to_owned(), self.caller(req));
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.change_xattr(ino.0, &name, None, may_wait, caller)
        });
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let info = self.begin_request(req, ino, counted!(access));
        self.answer(info, reply, self.may_access(ino.0, mask));
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
        let info = self.begin_long_request(req, ino, counted!(fallocate));
        let (mode, caller) = (mode.cast_unsigned(), self.caller(req));
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.allocate(ino.0, fh, mode, (offset, length), may_wait, caller)
        });
    }

    fn lseek(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let info = self.begin_request(req, ino, counted!(lseek));
        self.answer(info, reply, self.seek_to(fh, offset, whence));
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
        let info = self.begin_long_request(req, ino_out, counted!(copy_file_range));
        let (from, to, caller) = ((fh_in, offset_in), (fh_out, offset_out), self.caller(req));
        self.at_once_or_aside(info, reply, move |fs, _, may_wait| {
            fs.copy(ino_out, from, to, (len, flags), may_wait, caller)
        });
    }
}
