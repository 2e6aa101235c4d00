//! Edits a file for an operator: replaces some of its bytes, under a record of its own, if the file is as the operator
//! saw it.

use std::io::Read;
use std::os::fd::BorrowedFd;

use sha2::{Digest, Sha256};

use super::change_backend::ChangeBackend;
use crate::error::{Error, FailureKind, Result};
use crate::journal::{InodeNumbers, RunId};
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::point::Operation;
use crate::world::keep::replace::NewContent;
use crate::world::{Caller, Id, LocatedNode, World};

/// The number of attempts to edit a file that changes between reading and editing.
const MAX_ATTEMPTS: u32 = 5;

/// A range of bytes of a file, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ByteSplice {
    /// The offset of the first.
    pub start: usize,
    /// The offset behind the last.
    pub end: usize,
    /// The bytes in their place.
    pub bytes: EscapedBytes,
}

/// A request to edit a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EditRequest {
    /// The command in words, for the record.
    pub what: String,
    /// The file.
    pub path: WorldPath,
    /// Its inode.
    pub ids: InodeNumbers,
    /// SHA-256 (hex) of its content as it was seen.
    pub seen: String,
    /// The length of that content: bytes appended since stay. `None`: bytes appended since are a conflict.
    #[serde(default)]
    pub length: Option<usize>,
    /// The changes, in order.
    pub splices: Vec<ByteSplice>,
}

/// The result of an edit.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct EditReport {
    /// The record.
    pub record: Operation,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
}

/// An edited content in memory, with the content that it was made from.
struct EditedText<'t> {
    text: &'t [u8],
    of: &'t [u8],
    /// True if bytes appended after it touch none of the edited bytes.
    may_grow: bool,
}

impl NewContent for EditedText<'_> {
    fn size(&self) -> u64 {
        self.text.len() as u64
    }

    fn made_of(&self) -> Option<u64> {
        Some(self.of.len() as u64)
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        write_all(self.text, file)
    }

    fn check(&self, old: BorrowedFd<'_>) -> Result<()> {
        let (mut at, mut buffer) = (0, vec![0; 64 << 10]);
        loop {
            let read = rustix::io::pread(old, &mut *buffer, at as u64);
            let read = read.map_err(Error::os("pread"))?;
            let (now, was) = (buffer.get(..read), self.of.get(at..));
            let (now, was) = (now.unwrap_or_default(), was.unwrap_or_default());
            let grows = self.may_grow && now.len() > was.len();
            match (now, was) {
                ([], []) => return Ok(()),
                (now, was) if grows && now.starts_with(was) => return Ok(()),
                ([_, ..], was) if was.starts_with(now) => at += read,
                _ => return Err(changed_meanwhile("it")),
            }
        }
    }
}

/// A content in memory.
pub(in crate::operator) struct PlainText<'t>(pub(in crate::operator) &'t [u8]);

impl NewContent for PlainText<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        write_all(self.0, file)
    }
}

fn write_all(content: &[u8], file: BorrowedFd<'_>) -> Result<()> {
    let mut at = 0;
    while let Some(rest) = content.get(at..).filter(|rest| !rest.is_empty()) {
        at += rustix::io::pwrite(file, rest, at as u64).map_err(Error::os("pwrite"))?;
    }
    Ok(())
}

fn changed_meanwhile(what: &str) -> Error {
    Error::Conflict {
        what: format!("{what} has been changed since it was looked at"),
        remedy: "Nothing was changed. The same command looks at it anew.".to_owned(),
    }
}

/// A file that is about to be edited, and its content before and after.
struct EditTarget {
    located: LocatedNode,
    before: Vec<u8>,
    after: Vec<u8>,
    may_grow: bool,
}

impl EditTarget {
    /// Reads the file that a request names.
    fn read(request: &EditRequest, world: &World, caller: Caller) -> Result<EditTarget> {
        let changed = || changed_meanwhile(&request.path.to_string());
        let found = world
            .parent(&request.path)
            .and_then(|(dir, name)| world.locate_for(&dir, name, caller));
        let located = found.map_err(|error| match error.kind() {
            FailureKind::Missing => changed(),
            _ => error,
        })?;
        if located.node.meta().id != Id(request.ids[0], request.ids[1]) {
            return Err(changed());
        }
        let mut before = Vec::new();
        let mut file = std::fs::File::from(world.root().open_to_read(&located.node)?);
        file.read_to_end(&mut before)
            .map_err(|error| Error::io("read", &error))?;
        let after = request.apply_splices(&before).ok_or_else(changed)?;
        Ok(EditTarget {
            located,
            may_grow: request.length.is_some() && request.end() < before.len(),
            before,
            after,
        })
    }

    fn edit_file(&self, backend: &dyn ChangeBackend, caller: Caller) -> Result<()> {
        let text = EditedText {
            text: &self.after,
            of: &self.before,
            may_grow: self.may_grow,
        };
        backend.put_content(&self.located, &text, caller).map(drop)
    }
}

impl EditRequest {
    /// Returns SHA-256 (hex) of a content.
    pub fn digest(content: &[u8]) -> String {
        let digest = Sha256::digest(content);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the offset behind the last change.
    fn end(&self) -> usize {
        self.splices.last().map_or(0, |splice| splice.end)
    }

    /// Returns the content after the changes; `None` where it is not as it was seen.
    fn apply_splices(&self, content: &[u8]) -> Option<Vec<u8>> {
        // Bytes appended directly after edited lines touch them.
        let length = self.length.filter(|length| self.end() < *length);
        let seen = content.get(..length.unwrap_or(content.len()))?;
        if EditRequest::digest(seen) != self.seen {
            return None;
        }
        let (mut edited, mut at) = (Vec::with_capacity(content.len()), 0);
        for splice in &self.splices {
            edited.extend_from_slice(content.get(at..splice.start)?);
            edited.extend_from_slice(&splice.bytes.0);
            at = content.get(..splice.end).map(<[u8]>::len)?;
        }
        edited.extend_from_slice(content.get(at..)?);
        Some(edited)
    }
}

/// Edits a file. The former content is kept as a version, and the edit is a run of its own that can be undone.
///
/// # Errors
/// [`Error::Conflict`] where the file is not as it was seen; those of finding, reading and writing it. Nothing was
/// changed, except with [`Error::Partly`].
pub fn edit_file(
    backend: &dyn ChangeBackend,
    request: &EditRequest,
    caller: Caller,
) -> Result<EditReport> {
    let caller = caller.for_undo();
    let world = backend.world();
    let look = EditTarget::read(request, world, caller)?;
    let begun = world.begin_undo_record(request.what.clone(), Vec::new(), false, caller)?;
    let record = Operation {
        session: world.session().to_owned(),
        seq: begun.seq(),
    };
    let mut edited = look.edit_file(backend, caller);
    for _ in 1..MAX_ATTEMPTS {
        // The file changed after it was read: it may still have the bytes to edit.
        if !matches!(&edited, Err(Error::Conflict { .. } | Error::NotFound)) {
            break;
        }
        let look = EditTarget::read(request, world, caller);
        edited = look.and_then(|look| look.edit_file(backend, caller));
    }
    match edited.map_err(|error| of_path(error, &request.path)) {
        // A half-made edit can be taken back, so its record stays.
        Err(error) if error.kind() == FailureKind::Partly => {
            begun.done();
            Err(error)
        }
        Err(error) => {
            begun.abort(&error);
            Err(error)
        }
        Ok(()) => {
            begun.done();
            Ok(EditReport {
                record,
                run: caller.origin.run,
            })
        }
    }
}

/// Adds the path of the file to an error.
fn of_path(error: Error, path: &WorldPath) -> Error {
    match error {
        Error::NotFound | Error::Conflict { .. } => changed_meanwhile(&path.to_string()),
        error => {
            let (kind, (what, remedy)) = (error.kind(), error.into_words());
            kind.error(format!("{path}: {what}"), remedy)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn splices_apply_in_order_or_not_at_all() {
        let splice = |start, end, bytes: &[u8]| ByteSplice {
            start,
            end,
            bytes: EscapedBytes(bytes.to_vec()),
        };
        let applied = |splices: Vec<ByteSplice>| {
            let request = EditRequest {
                what: String::new(),
                path: WorldPath::root(),
                ids: [0, 0],
                seen: EditRequest::digest(b"0123456789"),
                length: None,
                splices,
            };
            request.apply_splices(b"0123456789")
        };
        let edited = applied(vec![
            splice(0, 0, b"a"),
            splice(2, 4, b""),
            splice(9, 10, b"\xff"),
        ]);
        assert_eq!(edited.unwrap(), b"a0145678\xff");
        assert_eq!(applied(vec![splice(9, 11, b"x")]), None);
        assert_eq!(applied(vec![splice(5, 6, b"x"), splice(2, 3, b"y")]), None);
    }

    /// A line that is added behind the last one touches it, and so does the rest of a line that had no end.
    #[test]
    fn appended_bytes_stay_unless_an_edit_touches_them() {
        let request = |length, end| EditRequest {
            what: String::new(),
            path: WorldPath::root(),
            ids: [0, 0],
            seen: EditRequest::digest(b"1\n2\n"),
            length,
            splices: vec![ByteSplice {
                start: 0,
                end,
                bytes: EscapedBytes(b"one\n".to_vec()),
            }],
        };
        let applied = |length, end, now: &[u8]| request(length, end).apply_splices(now);
        let stays = applied(Some(4), 2, b"1\n2\n3\n");
        assert_eq!(stays.as_deref(), Some(&b"one\n2\n3\n"[..]));
        assert_eq!(applied(Some(4), 4, b"1\n2\n3\n"), None);
        assert_eq!(applied(None, 2, b"1\n2\n3\n"), None);
        assert_eq!(applied(Some(4), 2, b"1\nx\n3\n"), None);
        assert_eq!(applied(Some(4), 2, b"1\n"), None);
        let same = applied(Some(4), 4, b"1\n2\n");
        assert_eq!(same.as_deref(), Some(&b"one\n"[..]));
    }
}
