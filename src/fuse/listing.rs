//! Requests about the entries of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::FileSystem;
use super::attr::{kind, nothing};
use crate::error::Result;
use crate::name::Name;
use crate::world::Id;

impl FileSystem {
    /// Fills a reply with names and kinds.
    pub(super) fn list(&self, ino: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
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
    }

    /// Fills a reply with names and attributes; the kernel then knows the entries as if it had looked them up.
    pub(super) fn list_plus(
        &self,
        ino: INodeNo,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let (dir, ttl) = self.listed_dir(ino.0)?;
        self.world().list(&dir, offset, |entry| {
            let bytes = OsStr::from_bytes(entry.name);
            let Ok(name) = Name::new(entry.name) else {
                // `.` and `..`: listed, but the kernel is not told of a node by them.
                let mut attr = nothing();
                attr.kind = fuser::FileType::Directory;
                attr.ino = INodeNo(self.inodes().number_for_listing(Id(dir.id().0, entry.ino)));
                return !reply.add(
                    attr.ino,
                    entry.next,
                    bytes,
                    &Duration::ZERO,
                    &attr,
                    Generation(0),
                );
            };
            // Gone since it was listed: not there.
            let Ok(found) = self.world().lookup(&dir, name) else {
                return true;
            };
            let attr = self.entry(ino.0, name, &found.meta);
            let ttl = match self.shared.handles.is_emptying(attr.ino.0) {
                true => Duration::ZERO,
                false => ttl,
            };
            let full = reply.add(attr.ino, entry.next, bytes, &ttl, &attr, Generation(0));
            if full {
                self.inodes().forget(attr.ino.0, 1);
            }
            !full
        })
    }
}
