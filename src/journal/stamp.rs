//! Times in records, of files and of directories.

/// A time of a file: seconds since 1970 and nanoseconds.
pub type FileTime = (i64, u32);

/// A directory that an act changes: its modification time before (seconds and nanoseconds), and its inode number.
pub type DirTime = (i64, u32, u64);

/// Returns whether a time is absent, as in records of an earlier release.
pub(super) fn is_zero(stamp: &FileTime) -> bool {
    *stamp == (0, 0)
}
