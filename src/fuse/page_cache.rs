//! Small files that are only read go through the kernel's page cache, where the kernel could also read the store's file itself.
//!
//! Owns which opens do, and when pages from an earlier one are still true. A backing file costs two requests to the kernel (to
//! register it and to let go of it) and a second open of the file there; what is in the page cache costs nothing at all.
//!
//! Pages are kept where the file looks as it did when they were first read, and nobody has opened it otherwise since. A change
//! behind the mount shows in the file's times, and fanotify has the kernel drop the pages besides.

use std::hash::{DefaultHasher, Hash, Hasher};

use rustix::fs::{FileType, OFlags};

use super::Mechanisms;
use crate::world::Meta;

/// The size in bytes up to which a file counts as small: what the kernel reads ahead at most by default, so that one request
/// brings it.
const SMALL: u64 = 128 << 10;

/// What a file looked like when its pages began to be cached. Never 0, which stands for no look.
pub(super) type Look = u64;

/// Returns what a file looks like if an open of it goes through the page cache.
pub(super) fn look(asked: OFlags, meta: &Meta, mechanisms: Mechanisms) -> Option<Look> {
    let only = OFlags::RWMODE | OFlags::TRUNC | OFlags::DIRECT;
    let reads = asked & only == OFlags::RDONLY;
    let small = meta.kind == FileType::RegularFile && meta.size <= SMALL;
    if !(mechanisms.passthrough && reads && small) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let time = |time: crate::world::Time| (time.sec, time.nsec);
    (
        meta.id,
        meta.born,
        meta.size,
        time(meta.mtime),
        time(meta.ctime),
    )
        .hash(&mut hasher);
    Some(hasher.finish().max(1))
}
