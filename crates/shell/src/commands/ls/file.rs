//! An entry of a listing.

use rustix::fs::FileType;

use trumanfs_types::meta::Meta;

/// A file to be listed.
pub(super) struct ListedFile {
    /// The name as printed.
    pub(super) name: Vec<u8>,
    pub(super) kind: FileType,
    pub(super) ino: u64,
    /// The attributes, if the listing needs them.
    pub(super) meta: Option<Meta>,
}

impl ListedFile {
    pub(super) fn new(name: &[u8], meta: Meta) -> ListedFile {
        ListedFile {
            name: name.to_vec(),
            kind: meta.kind,
            ino: meta.id.1,
            meta: Some(meta),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }
}
