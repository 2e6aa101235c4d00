//! Small files that are read again and again go through the kernel's page cache, where the kernel could also read the
//! store's file itself.
//!
//! Owns which opens do, and when pages from an earlier one are still true. A backing file costs two requests to the
//! kernel (to register it and to let go of it) and a second open of the file there, each time; what is in the page
//! cache costs nothing. But to get it there takes a request that its reader waits for, so a file that is read once is
//! better read past the daemon: the second reader of the same content is the first one to get the page cache.
//!
//! Pages are kept where the file looks as it did when they were first read, and nobody has opened it otherwise since,
//! nor has it mapped for writing (`shared_maps.rs`): what is stored there shows in no time. A change behind the mount
//! shows in the file's times, and fanotify has the kernel drop the pages besides.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustix::fs::{FileType, OFlags};

use crate::world::Meta;

/// The size in bytes up to which a file counts as small. Of larger ones, bringing the content once and copying it from
/// there costs as much as a backing file each time (benches/results/small_files-2026-11-23.md).
const SMALL_FILE_BYTES: u64 = 16 << 10;

/// Knowledge of a file's content from those who had it open before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheKnowledge {
    /// Nobody has, or somebody may have changed it since.
    #[default]
    Nothing,
    /// A reader had the file open, past the daemon.
    Read(FileDigest),
    /// Its pages are cached.
    Cached(FileDigest),
    /// The file was opened for reading and writing past the daemon, so it may be mapped (`shared_maps.rs`).
    Mapped,
}

/// A digest of a file's identity, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDigest(u64);

impl CacheKnowledge {
    /// Returns whether a file that looks like this now is to be read through the page cache.
    pub(super) fn is_read_again(self, look: FileDigest) -> bool {
        matches!(self, CacheKnowledge::Read(before) | CacheKnowledge::Cached(before) if before == look)
    }

    /// Returns what is known of a file once it has been opened: past the daemon or not, and such that it can be mapped.
    pub(super) fn after_open(
        self,
        look: Option<FileDigest>,
        past: bool,
        maps: bool,
    ) -> CacheKnowledge {
        match look {
            _ if self == CacheKnowledge::Mapped || maps => CacheKnowledge::Mapped,
            Some(look) if past => CacheKnowledge::Read(look),
            Some(look) => CacheKnowledge::Cached(look),
            // This may change the content without the page cache.
            None => CacheKnowledge::Nothing,
        }
    }
}

/// Returns what a file looks like, if it is opened only to be read and is small.
pub(super) fn digest_for_read(asked: OFlags, meta: &Meta) -> Option<FileDigest> {
    let only = OFlags::RWMODE | OFlags::TRUNC | OFlags::DIRECT;
    let reads = asked & only == OFlags::RDONLY;
    let small = meta.kind == FileType::RegularFile && meta.size <= SMALL_FILE_BYTES;
    if !(reads && small) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let time = |time: crate::world::Time| (time.sec, time.nsec);
    let times = (time(meta.mtime), time(meta.ctime));
    (meta.id, meta.born, meta.size, times).hash(&mut hasher);
    Some(FileDigest(hasher.finish()))
}
