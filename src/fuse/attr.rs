//! Translations between the kernel's types and the world's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fs::FileType;

use crate::error::Error;
use crate::world::{Meta, SetAttrs, SetTime, Time};

/// Translates attributes, with the inode number, the link count and the owner that the occupant sees.
pub(super) fn attributes(
    number: u64,
    nlink: u32,
    shown_owner: Option<(u32, u32)>,
    meta: &Meta,
) -> FileAttr {
    let (uid, gid) = shown_owner.unwrap_or((meta.uid, meta.gid));
    FileAttr {
        ino: INodeNo(number),
        size: meta.size,
        blocks: meta.blocks,
        atime: system_time(meta.atime),
        mtime: system_time(meta.mtime),
        ctime: system_time(meta.ctime),
        crtime: UNIX_EPOCH,
        kind: fuse_kind(meta.kind),
        perm: (meta.mode & 0o7777) as u16,
        nlink,
        uid,
        gid,
        rdev: 0,
        blksize: meta.blksize,
        flags: 0,
    }
}

/// Returns the attributes of a negative entry (number 0), which the kernel may cache.
pub(super) fn negative_attributes() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// Translates a file type. Device nodes never get here: they do not exist.
pub(super) fn fuse_kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

fn system_time(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nsec));
    let seconds = Duration::from_secs(time.sec.unsigned_abs());
    let whole = if time.sec < 0 {
        UNIX_EPOCH - seconds
    } else {
        UNIX_EPOCH + seconds
    };
    whole + nanos
}

/// Translates the attributes to set.
pub(super) fn set_attrs(
    (mode, uid, gid): (Option<u32>, Option<u32>, Option<u32>),
    size: Option<u64>,
    (atime, mtime): (Option<TimeOrNow>, Option<TimeOrNow>),
) -> SetAttrs {
    SetAttrs {
        mode,
        uid,
        gid,
        size,
        atime: set_time(atime),
        mtime: set_time(mtime),
    }
}

fn set_time(time: Option<TimeOrNow>) -> SetTime {
    match time {
        None => SetTime::Keep,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(time)) => SetTime::To(from_system_time(time)),
    }
}

/// Undoes fuser's conversion of the kernel's seconds and nanoseconds: for negative seconds it subtracts both from 1970
/// (fuser 0.18, time.rs), although nanoseconds always count forward.
pub(super) fn from_system_time(time: SystemTime) -> Time {
    let (sec, apart) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after),
        Err(before) => (
            -before.duration().as_secs().cast_signed(),
            before.duration(),
        ),
    };
    Time {
        sec,
        nsec: apart.subsec_nanos(),
    }
}

/// Translates an error.
pub(super) fn fuse_errno(error: &Error) -> fuser::Errno {
    fuser::Errno::from_i32(error.errno().raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_what_the_kernel_said() {
        // What fuser 0.18 makes of (-1000000000 s, 500000000 ns).
        let from_fuser = UNIX_EPOCH - Duration::new(1_000_000_000, 500_000_000);
        let time = from_system_time(from_fuser);
        assert_eq!((time.sec, time.nsec), (-1_000_000_000, 500_000_000));
        // On the way back fuser does it right.
        let half_past = UNIX_EPOCH - Duration::new(999_999_999, 500_000_000);
        assert_eq!(system_time(time), half_past);
    }
}
