//! Requests that list directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::FileSystem;
use super::attr::{fuse_kind, negative_attributes};
use super::reply::RequestInfo;
use crate::error::Result;
use crate::name::Name;
use crate::world::Id;

impl FileSystem {
    /// Replies with names and types.
    pub(super) fn list(
        &self,
        info: RequestInfo,
        ino: INodeNo,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let filled = self.fill(ino, offset, &mut reply);
        self.answer(info, reply, filled);
    }

    /// Replies with names and attributes; for the kernel this counts as a lookup of each entry.
    pub(super) fn list_plus(
        &self,
        info: RequestInfo,
        ino: INodeNo,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let filled = self.fill_plus(ino, offset, &mut reply);
        self.answer(info, reply, filled);
    }

    fn fill(&self, ino: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        if self.shared.ends.take(ino.0, offset) {
            return Ok(());
        }
        let (dir, _) = self.listed_dir(ino.0)?;
        let mut end = Some(offset);
        self.world().list(&dir, offset, |entry| {
            let number = self.inodes().peek_or_reserve(Id(dir.id().0, entry.ino));
            let full = reply.add(
                INodeNo(number),
                entry.next,
                fuse_kind(entry.kind),
                OsStr::from_bytes(entry.name),
            );
            end = (!full).then_some(entry.next);
            !full
        })?;
        if let Some(end) = end {
            self.shared.ends.note(ino.0, end);
        }
        Ok(())
    }

    fn fill_plus(&self, ino: INodeNo, offset: u64, reply: &mut ReplyDirectoryPlus) -> Result<()> {
        if self.shared.ends.take(ino.0, offset) {
            return Ok(());
        }
        let (dir, ttl) = self.listed_dir(ino.0)?;
        let mut end = Some(offset);
        self.world().list(&dir, offset, |entry| {
            let bytes = OsStr::from_bytes(entry.name);
            let Ok(name) = Name::new(entry.name) else {
                // `.` and `..` are listed, but do not count as lookups.
                let mut attr = negative_attributes();
                attr.kind = fuser::FileType::Directory;
                attr.ino = INodeNo(self.inodes().peek_or_reserve(Id(dir.id().0, entry.ino)));
                let never = Duration::ZERO;
                let full = reply.add(attr.ino, entry.next, bytes, &never, &attr, Generation(0));
                end = (!full).then_some(entry.next);
                return !full;
            };
            // The entry has gone since it was listed.
            let Ok(found) = self.world().lookup(&dir, name) else {
                return true;
            };
            let attr = self.record_entry(ino.0, name, &found.meta);
            let ttl = self.entry_ttl(ttl, &attr);
            let full = reply.add(attr.ino, entry.next, bytes, &ttl, &attr, Generation(0));
            if full {
                self.inodes().forget(attr.ino.0, 1);
            }
            end = (!full).then_some(entry.next);
            !full
        })?;
        if let Some(end) = end {
            self.shared.ends.note(ino.0, end);
        }
        Ok(())
    }
}
