//! Requests about the entries of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use parking_lot::Mutex;

use super::FileSystem;
use super::attr::{kind, nothing};
use crate::error::Result;
use crate::name::Name;
use crate::world::Id;

/// How long it is remembered where a listing ended.
const FRESH: Duration = Duration::from_millis(10);

/// Where the latest listings ended. A reply cannot say that it is the last one, so after each the kernel asks what comes
/// next, at once; whether something has been made there in between, POSIX leaves open (readdir(3p)).
///
/// Lock: one mutex, never held over a system call.
#[derive(Debug, Default)]
pub struct Ends(Mutex<[Option<End>; 16]>);

#[derive(Debug, Clone, Copy)]
struct End {
    dir: u64,
    offset: u64,
    since: Instant,
}

impl Ends {
    /// Notes that nothing comes after an offset.
    fn note(&self, dir: u64, offset: u64) {
        let since = Instant::now();
        if let Some(slot) = self.0.lock().get_mut(slot(dir)) {
            *slot = Some(End { dir, offset, since });
        }
    }

    /// Returns whether nothing comes after an offset, and forgets it.
    fn take(&self, dir: u64, offset: u64) -> bool {
        let end = self.0.lock().get_mut(slot(dir)).and_then(Option::take);
        end.is_some_and(|end| (end.dir, end.offset) == (dir, offset) && end.since.elapsed() < FRESH)
    }
}

fn slot(dir: u64) -> usize {
    (dir % 16) as usize
}

impl FileSystem {
    /// Fills a reply with names and kinds.
    pub(super) fn list(&self, ino: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
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
                kind(entry.kind),
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

    /// Fills a reply with names and attributes; the kernel then knows the entries as if it had looked them up.
    pub(super) fn list_plus(
        &self,
        ino: INodeNo,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        if self.shared.ends.take(ino.0, offset) {
            return Ok(());
        }
        let (dir, ttl) = self.listed_dir(ino.0)?;
        let mut end = Some(offset);
        self.world().list(&dir, offset, |entry| {
            let bytes = OsStr::from_bytes(entry.name);
            let Ok(name) = Name::new(entry.name) else {
                // `.` and `..`: listed, but the kernel is not told of a node by them.
                let mut attr = nothing();
                attr.kind = fuser::FileType::Directory;
                attr.ino = INodeNo(self.inodes().peek_or_reserve(Id(dir.id().0, entry.ino)));
                let never = Duration::ZERO;
                let full = reply.add(attr.ino, entry.next, bytes, &never, &attr, Generation(0));
                end = (!full).then_some(entry.next);
                return !full;
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
            end = (!full).then_some(entry.next);
            !full
        })?;
        if let Some(end) = end {
            self.shared.ends.note(ino.0, end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_only_for_its_own_directory() {
        let ends = Ends::default();
        ends.note(5, 70);
        assert!(!ends.take(21, 70), "another directory in the same slot");
        ends.note(5, 70);
        assert!(!ends.take(5, 60), "another offset");
        ends.note(5, 70);
        assert!(ends.take(5, 70));
        assert!(!ends.take(5, 70), "a second time");
        ends.note(5, 70);
        std::thread::sleep(2 * FRESH);
        assert!(!ends.take(5, 70), "too late");
    }
}
