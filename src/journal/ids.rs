//! Device and inode numbers in records.

/// An inode: `[st_dev, st_ino]`. In a journal, 0 stands for the store's own device (`subject.rs`).
pub type InodeNumbers = [u64; 2];
