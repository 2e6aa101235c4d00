//! The identity and attributes of one node, as returned by one `statx`.
//!
//! Owns the translation of `statx(2)`; decides nothing.

use rustix::fs::{FileType, Statx, StatxAttributes, StatxFlags};

/// A device and inode number. Two names with the same `Id` are hard links of one file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Id(
    /// The device, as `st_dev`.
    pub u64,
    /// The inode number, as `st_ino`.
    pub u64,
);

/// A point in time: seconds since 1970 (negative before) and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

/// The attributes of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Its identity.
    pub id: Id,
    /// Its type.
    pub kind: FileType,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Number of hard links, including those in the trash, which the home does not show.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Preferred size of an I/O, in bytes.
    pub blksize: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// Time of birth in nanoseconds since 1970; 0 if the file system does not report it. Tells a reused inode number
    /// from its former owner.
    pub born: u64,
    /// True if another file system (or a bind mount) is mounted here.
    pub mount_root: bool,
}

impl Meta {
    /// Translates the answer of `statx(2)`.
    pub fn from_statx(x: &Statx) -> Meta {
        let time = |t: &rustix::fs::StatxTimestamp| Time {
            sec: t.tv_sec,
            nsec: t.tv_nsec,
        };
        Meta {
            id: Id(
                rustix::fs::makedev(x.stx_dev_major, x.stx_dev_minor),
                x.stx_ino,
            ),
            kind: FileType::from_raw_mode(u32::from(x.stx_mode)),
            mode: u32::from(x.stx_mode),
            nlink: x.stx_nlink,
            uid: x.stx_uid,
            gid: x.stx_gid,
            size: x.stx_size,
            blocks: x.stx_blocks,
            blksize: x.stx_blksize,
            atime: time(&x.stx_atime),
            mtime: time(&x.stx_mtime),
            ctime: time(&x.stx_ctime),
            born: born(x),
            mount_root: x.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        }
    }

    /// Returns whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns the permission bits, `0o7777` at most.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

fn born(x: &Statx) -> u64 {
    if !StatxFlags::from_bits_retain(x.stx_mask).contains(StatxFlags::BTIME) {
        return 0;
    }
    let seconds = x.stx_btime.tv_sec.cast_unsigned();
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(x.stx_btime.tv_nsec))
}
