//! Replies: the one place where results become replies, and failures of the store become messages of the daemon.

use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request,
};

use rustix::fs::OFlags;

use super::FileSystem;
use super::aside::AsideGuard;
use super::attr::fuse_errno;
use super::counters::{NamedCounter, count};
use super::handles::DataPath;
use crate::error::{Error, Result};
use crate::world::{Caller, Origin, OriginKind};

/// Numbers are not reused while the kernel knows them, so one generation is enough.
const GENERATION: Generation = Generation(0);

/// A request: its operation, inode and caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestInfo {
    operation: &'static str,
    number: u64,
    pid: u32,
}

/// An open file, and how the kernel is to treat it.
pub(super) type OpenReply = (FileHandle, FopenFlags, DataPath);

/// A reply with a value or an error.
pub(super) trait FuseReply<T> {
    /// Replies with the result.
    fn send(self, value: T);
    /// Replies with an error.
    fn refuse(self, errno: Errno);
}

impl FileSystem {
    /// Begins a request whose caller waits for the answer: the worker acts as the owner, the request is counted, and the
    /// observer told.
    pub(super) fn begin_request(
        &self,
        req: &Request,
        number: INodeNo,
        counted: NamedCounter,
    ) -> RequestInfo {
        let info = self.begin_counted(req, number, counted);
        self.shared.observer.note_request(Some(req.pid()));
        info
    }

    /// Like [`FileSystem::begin_request`], for a request that moves data or waits for a disk: the caller, or the page
    /// cache for it, is busy with something else meanwhile.
    pub(super) fn begin_long_request(
        &self,
        req: &Request,
        number: INodeNo,
        counted: NamedCounter,
    ) -> RequestInfo {
        let info = self.begin_counted(req, number, counted);
        self.shared.observer.note_request(None);
        info
    }

    fn begin_counted(
        &self,
        req: &Request,
        number: INodeNo,
        (operation, counter): NamedCounter,
    ) -> RequestInfo {
        self.act_as_owner();
        count(counter(&self.shared.counters));
        RequestInfo {
            operation,
            number: number.0,
            pid: req.pid(),
        }
    }

    /// Returns who makes a request, and which run it belongs to, for what is recorded.
    pub(super) fn caller(&self, req: &Request) -> Caller {
        self.caller_without_run(req)
            .for_run(self.shared.runs.origin_of(req.pid()))
    }

    /// Returns who makes a request that sets permission bits. A process that cannot be looked at counts as a program of
    /// a run while there is any, if it asks for what such a program does not get: set-user-id, set-group-id.
    pub(super) fn caller_for_mode(&self, req: &Request, mode: u32) -> Caller {
        let caller = self.caller(req);
        let asks = mode & 0o6000 != 0 && caller.origin.is_plain();
        if asks && self.shared.runs.is_program(caller.pid, caller.uid) {
            caller.for_run(OriginKind::Program.into())
        } else {
            caller
        }
    }

    /// Returns who makes a request, where its run is looked up later or not at all.
    pub(super) fn caller_without_run(&self, req: &Request) -> Caller {
        Caller {
            pid: req.pid(),
            uid: req.uid(),
            gid: req.gid(),
            origin: Origin::default(),
        }
    }

    /// As [`FileSystem::caller`], of an open: one that can change nothing need not be asked about.
    pub(super) fn caller_of_open(&self, req: &Request, flags: i32) -> Caller {
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        if asked & (OFlags::RWMODE | OFlags::TRUNC) == OFlags::RDONLY {
            self.caller_without_run(req)
        } else {
            self.caller(req)
        }
    }

    /// Answers a request.
    pub(super) fn answer<T, R: FuseReply<T>>(
        &self,
        info: RequestInfo,
        reply: R,
        result: Result<T>,
    ) {
        match result {
            Ok(value) => reply.send(value),
            Err(error) => {
                let RequestInfo {
                    operation,
                    number,
                    pid,
                } = info;
                if error.is_of_store() {
                    self.shared.failures.warn(operation, number, pid, &error)
                } else {
                    log::trace!("{operation} of inode {number} by {pid}: {error}")
                }
                reply.refuse(fuse_errno(&error));
            }
        }
    }

    /// Waits for a disk and replies: at once while enough workers are left to answer others, else on a thread of its
    /// own. As many such requests as there are workers would stop the whole home; but a thread costs more than a sync
    /// that finds little to write.
    pub(super) fn sync_at_once_or_aside(
        &self,
        info: RequestInfo,
        reply: ReplyEmpty,
        sync: impl FnOnce(&FileSystem) -> Result<()> + Send + 'static,
    ) {
        match self.shared.syncs.begin() {
            Some(waiting) => {
                let done = sync(self);
                // The next sync may follow the reply at once.
                drop(waiting);
                self.answer(info, reply, done);
            }
            None => self.spawn_blocking(move |fs| fs.answer(info, reply, sync(fs))),
        }
    }

    /// Runs an action that takes long on a thread of its own.
    pub(super) fn spawn_blocking(&self, act: impl FnOnce(&FileSystem) + Send + 'static) {
        let fs = self.clone();
        let guard = AsideGuard::new(self.shared.clone());
        // If no thread can be started, the closure and its reply are dropped, and fuser then answers EIO.
        let spawned = std::thread::Builder::new()
            .name("sync".to_owned())
            .spawn(move || {
                act(&fs);
                drop(guard);
            });
        if let Err(error) = spawned {
            log::warn!("no thread for syncing: {error}");
        }
    }

    /// Runs an action at once if it does not take long, else on a thread of its own, and replies.
    pub(super) fn at_once_or_aside<T, R: FuseReply<T> + Send + 'static>(
        &self,
        info: RequestInfo,
        reply: R,
        act: impl Fn(&FileSystem, &R, bool) -> Result<T> + Send + 'static,
    ) {
        match act(self, &reply, false) {
            Err(Error::TakesLong) => self.spawn_blocking(move |fs| {
                let done = act(fs, &reply, true);
                fs.answer(info, reply, done);
            }),
            done => self.answer(info, reply, done),
        }
    }
}

/// Implements [`FuseReply`] for the replies with one type of value.
macro_rules! answers {
    ($($reply:ty, $value:ty: |$self:ident, $value_pat:pat_param| $send:expr;)*) => {
        $(impl FuseReply<$value> for $reply {
            fn send($self, $value_pat: $value) {
                $send
            }
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

answers! {
    ReplyEmpty, (): |self, ()| self.ok();
    ReplyDirectory, (): |self, ()| self.ok();
    ReplyDirectoryPlus, (): |self, ()| self.ok();
    ReplyData, Vec<u8>: |self, data| self.data(&data);
    ReplyWrite, u32: |self, written| self.written(written);
    ReplyLseek, i64: |self, at| self.offset(at);
    ReplyAttr, (Duration, FileAttr): |self, (ttl, attr)| self.attr(&ttl, &attr);
    ReplyEntry, (Duration, FileAttr): |self, (ttl, attr)| self.entry(&ttl, &attr, GENERATION);
    ReplyStatfs, rustix::fs::StatVfs: |self, fs| self.statfs(
        fs.f_blocks,
        fs.f_bfree,
        fs.f_bavail,
        fs.f_files,
        fs.f_ffree,
        u32::try_from(fs.f_bsize).unwrap_or(4096),
        255,
        u32::try_from(fs.f_frsize).unwrap_or(4096),
    );
    ReplyOpen, OpenReply: |self, (fh, fopen, way)| match way {
        DataPath::Passthrough(id) | DataPath::Direct(id) => self.opened_passthrough(fh, fopen, &id),
        DataPath::Served => self.opened(fh, fopen),
    };
    ReplyCreate, (Duration, FileAttr, OpenReply): |self, (ttl, attr, (fh, fopen, way))| match way {
        DataPath::Passthrough(id) | DataPath::Direct(id) => {
            self.created_passthrough(&ttl, &attr, GENERATION, fh, fopen, &id);
        }
        DataPath::Served => self.created(&ttl, &attr, GENERATION, fh, fopen),
    };
}

/// Replies as getxattr(2) does: only the size if none was given, ERANGE if it is too small.
impl FuseReply<Vec<u8>> for (ReplyXattr, u32) {
    fn send(self, value: Vec<u8>) {
        let (reply, size) = self;
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        match size {
            0 => reply.size(length),
            size if size < length => reply.error(Errno::ERANGE),
            _ => reply.data(&value),
        }
    }

    fn refuse(self, errno: Errno) {
        self.0.error(errno);
    }
}
