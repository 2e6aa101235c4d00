//! Which inode a record is about.

/// Which inode: `[st_dev, st_ino]`. In a journal 0 is the device that the store is on (`subject.rs`).
pub type Ids = [u64; 2];
