//! How records write a time, and a directory at a time.

/// A time of a file: seconds since 1970 and nanoseconds.
pub type Stamp = (i64, u32);

/// A directory that an act changes: when it had last changed (seconds and nanoseconds), and its inode number.
pub type At = (i64, u32, u64);

/// A record of an earlier release says nothing of the time.
pub(super) fn is_zero(stamp: &Stamp) -> bool {
    *stamp == (0, 0)
}
