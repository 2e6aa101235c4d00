//! Layers: the statements of records about a file's content, one above the other, and the versions that they name.
//!
//! Owns finding, opening and locking the files in `versions/`. A missing version is an error that names it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::operator::Store;
use crate::world::keep::ranges::{self, RangeList};
use crate::world::keep::version_files::versions_of;
use crate::world::root::{Node, open_beneath};
use crate::world::store::layout::version_name;
use crate::world::store::state_files;

/// The statement of a record about the content before it.
#[derive(Debug)]
pub struct ContentLayer {
    /// The derivation of the earlier content from the later one.
    pub kind: LayerKind,
    /// The size of the earlier content; where absent, that of the layer below, or unknown before a change outside.
    pub size: Option<u64>,
    /// True if the record itself has the size.
    pub cuts: bool,
    /// The record's session and number.
    pub record: (Arc<str>, u64),
    /// True if the kept content may not have reached the disk before a power cut.
    pub doubtful: bool,
    /// The later content; `None` for the one on the disk now.
    pub below: Option<Arc<ContentLayer>>,
}

/// The derivation of a content from the later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerKind {
    /// A version holds all of it, or the ranges in its list if it has one: session and number.
    Whole(Arc<str>, u64),
    /// A version holds the ranges in its list; without a list, none are known.
    Ranges(Arc<str>, u64),
    /// The bytes are the same; the size may differ.
    Same,
    /// The file was changed outside the home after this: nothing is known of the bytes before.
    Outside,
    /// As [`LayerKind::Outside`], and a copy of what the home had left there was kept: session and number of the
    /// version.
    Left(Arc<str>, u64),
    /// A merge of lines, held in memory.
    Merged(MergedText),
}

/// A content that was put together for an undo and is not on the disk yet.
#[derive(Debug, Clone)]
pub struct MergedText(pub(super) Arc<File>);

impl PartialEq for MergedText {
    fn eq(&self, other: &MergedText) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for MergedText {}

impl MergedText {
    /// Makes a content of bytes, in a file in memory (memfd_create(2)).
    ///
    /// # Errors
    /// Those of the system calls, `ENOMEM` above all.
    pub fn new(bytes: &[u8]) -> Result<MergedText> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create(c"merged", flags).map_err(Error::os("memfd_create"))?;
        let file = File::from(file);
        file.write_all_at(bytes, 0)
            .map_err(|error| Error::io("pwrite", &error))?;
        Ok(MergedText(Arc::new(file)))
    }
}

impl LayerKind {
    /// Returns the version that holds all or part of it.
    pub fn version(&self) -> Option<(&Arc<str>, u64)> {
        match self {
            LayerKind::Whole(session, n)
            | LayerKind::Ranges(session, n)
            | LayerKind::Left(session, n) => Some((session, *n)),
            LayerKind::Same | LayerKind::Outside | LayerKind::Merged(_) => None,
        }
    }

    /// Returns whether this is a change outside the home.
    pub fn is_outside(&self) -> bool {
        matches!(self, LayerKind::Outside | LayerKind::Left(..))
    }
}

impl ContentLayer {
    /// Lays a record's layer over the later ones.
    pub fn lay_over(
        kind: LayerKind,
        size: Option<u64>,
        (record, doubtful): ((Arc<str>, u64), bool),
        below: Option<Arc<ContentLayer>>,
    ) -> Arc<ContentLayer> {
        let below = match (&kind, below) {
            // A file that is appended to a million times needs one layer: the shortest.
            (LayerKind::Same, Some(below))
                if below.kind == LayerKind::Same
                    && (below.size.is_none() || size.is_some() && size <= below.size) =>
            {
                below.below.clone()
            }
            (_, below) => below,
        };
        let cuts = size.is_some();
        // Before a change outside even the size is unknown, also if the file was empty after it.
        let later = below.as_ref().filter(|_| !kind.is_outside());
        let size = size.or(later.and_then(|later| later.size()));
        Arc::new(ContentLayer {
            kind,
            size,
            cuts,
            record,
            doubtful,
            below,
        })
    }

    /// Returns whether the content is known, or unknown, whatever the layers below say, though no version holds it.
    pub(super) fn needs_nothing_below(&self) -> bool {
        self.size == Some(0) || matches!(self.kind, LayerKind::Outside | LayerKind::Merged(_))
    }

    /// Returns the size of the content; `None` where it is that of the file on the disk, or unknown.
    pub fn size(&self) -> Option<u64> {
        self.size
    }
}

impl Drop for ContentLayer {
    /// Drops the layers without recursion: a file can have more of them than the stack has room for.
    fn drop(&mut self) {
        let mut below = self.below.take();
        while let Some(layer) = below {
            match Arc::try_unwrap(layer) {
                Ok(mut layer) => below = layer.below.take(),
                Err(_) => break,
            }
        }
    }
}

/// Finds the layer of a second record that an evicted version stood for, with only changes of length in between.
pub(super) fn layer_behind<'l>(
    at: Option<&'l Arc<ContentLayer>>,
    session: &str,
    n: u64,
) -> Option<&'l Arc<ContentLayer>> {
    let mut probe = at;
    while let Some(layer) = probe {
        match layer.kind.version() {
            None => probe = layer.below.as_ref(),
            Some((of, number)) if **of == *session && number == n => return layer.below.as_ref(),
            Some(_) => break,
        }
    }
    at
}

/// A version opened for reading.
#[derive(Debug)]
pub(super) struct OpenVersion {
    /// Its file, locked so that nothing is punched out while it is open.
    pub(super) file: File,
    /// The ranges that it holds; `None` where it holds everything.
    pub(super) list: Option<RangeList>,
}

/// Names a layer's record in a message.
pub(super) fn describe_record(layer: &ContentLayer) -> String {
    let (session, seq) = &layer.record;
    match layer.kind.version() {
        Some((_, n)) => format!("operation {session}:{seq} (version {n})"),
        None => format!("operation {session}:{seq}"),
    }
}

/// Opens a version's file. It is the file that was moved aside, so its mode may exclude its owner.
fn open_version(store: &Store, dir: BorrowedFd<'_>, name: &str) -> Result<File> {
    let open = || state_files::open(dir, name.as_bytes(), OFlags::RDONLY);
    match open() {
        Err(error) if error.is_denial() => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let node = open_beneath(dir, name.as_bytes(), flags, Mode::empty())?;
            store.root().with_access(&Node::from_fd(node)?, open)
        }
        opened => opened,
    }
}

/// Opens the version of a content with a given size.
///
/// # Errors
/// [`Error::Missing`], naming it, where it is not there; [`Error::Damaged`] for an unreadable or incomplete list.
pub(super) fn version(
    store: &Store,
    kind: &LayerKind,
    of: &dyn Fn() -> String,
) -> Result<Option<OpenVersion>> {
    let Some((session, n)) = kind.version() else {
        return Ok(None);
    };
    let missing = |error| missing_error(error, of);
    let dir = versions_of(store.state(), session)
        .and_then(|dir| dir.ok_or(Error::NotFound))
        .map_err(missing)?;
    let file = open_version(store, dir.as_fd(), &version_name(n)).map_err(missing)?;
    // Locked before looking for a list: from here on the file stays complete. The puncher holds its lock only
    // briefly.
    let _ = rustix::fs::flock(&file, FlockOperation::LockShared);
    let list = ranges::read(dir.as_fd(), n).map_err(|error| match error {
        Error::Damaged(line) => Error::Damaged(format!(
            "the list of what is kept of the content before {} cannot be read: {line}",
            of()
        )),
        error => missing(error),
    })?;
    match (kind, &list) {
        (LayerKind::Ranges(..), None) => Err(missing(Error::NotFound)),
        (LayerKind::Whole(..), Some(RangeList { content: None, .. })) => {
            Err(Error::Damaged(format!(
                "the list of what is kept of the content before {} is not whole: the power went before it was on the disk",
                of()
            )))
        }
        _ => Ok(Some(OpenVersion { file, list })),
    }
}

fn missing_error(error: Error, of: &dyn Fn() -> String) -> Error {
    match error {
        Error::NotFound => Error::Missing {
            what: format!("the content before {} is not in the store any more", of()),
            remedy: "It was purged or evicted (`trumanfs log` says so), or deleted behind the mount; `trumanfs fsck` \
                     names all that is missing."
                .to_owned(),
        },
        error if error.errno() == Errno::MFILE => Error::refused(
            format!(
                "{}: more versions lie between this content and now than a process may have files open",
                of()
            ),
            "Raise the limit (`ulimit -n`), or go back in steps, the latest session first.",
        ),
        error => error,
    }
}
