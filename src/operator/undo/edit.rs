//! Editing a file for an operator: some of its bytes are replaced, under a record of its own, if it is as it was seen.

use std::io::Read;
use std::os::fd::BorrowedFd;

use sha2::{Digest, Sha256};

use super::applier::Applier;
use crate::error::{Error, Result};
use crate::journal::{Ids, RunId};
use crate::name::{Escaped, WorldPath};
use crate::operator::point::Operation;
use crate::world::replace::NewContent;
use crate::world::{Caller, Id};

/// Bytes of a file, and what comes in their place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Splice {
    /// The offset of the first.
    pub start: usize,
    /// The offset behind the last.
    pub end: usize,
    /// What comes in their place.
    pub bytes: Escaped,
}

/// A request to edit a file.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct EditRequest {
    /// The command in words, for the record.
    pub what: String,
    /// The file.
    pub path: WorldPath,
    /// Its inode.
    pub ids: Ids,
    /// SHA-256 (hex) of its content as it was seen.
    pub seen: String,
    /// The changes, in order.
    pub splices: Vec<Splice>,
}

/// What was edited.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Edited {
    /// The record.
    pub record: Operation,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
}

/// A content in memory, and how long the one is that it was made of, where that is known.
pub(in crate::operator) struct Text<'t>(
    pub(in crate::operator) &'t [u8],
    pub(in crate::operator) Option<u64>,
);

impl NewContent for Text<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn made_of(&self) -> Option<u64> {
        self.1
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        let mut at = 0;
        while let Some(rest) = self.0.get(at..).filter(|rest| !rest.is_empty()) {
            at += rustix::io::pwrite(file, rest, at as u64).map_err(Error::os("pwrite"))?;
        }
        Ok(())
    }
}

impl EditRequest {
    /// Returns SHA-256 (hex) of a content.
    pub fn digest(content: &[u8]) -> String {
        let digest = Sha256::digest(content);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the content after the changes; `None` where it does not have the bytes that they replace.
    fn applied(&self, content: &[u8]) -> Option<Vec<u8>> {
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

/// Edits a file. What it was is kept as a version, and the edit is a run of its own that can be undone.
///
/// # Errors
/// [`Error::Conflict`] where the file is not as it was seen; those of finding, reading and writing it. In all cases nothing
/// was changed.
pub fn edit(applier: &dyn Applier, request: &EditRequest, caller: Caller) -> Result<Edited> {
    let caller = caller.for_undo();
    let world = applier.world();
    let (dir, name) = world.parent(&request.path)?;
    let located = world.hold_for(&dir, name, caller)?;
    let mut content = Vec::new();
    let mut file = std::fs::File::from(world.root().reopen_quietly(&located.node)?);
    file.read_to_end(&mut content)
        .map_err(|error| Error::io("read", &error))?;
    let is_it = located.node.meta().id == Id(request.ids[0], request.ids[1]);
    let edited = match is_it && EditRequest::digest(&content) == request.seen {
        true => request.applied(&content),
        false => None,
    };
    let edited = edited.ok_or_else(|| Error::Conflict {
        what: format!("{} has been changed since it was looked at", request.path),
        remedy: "Nothing was changed. The same command looks at it anew.".to_owned(),
    })?;
    let begun = world.note_undo(request.what.clone(), Vec::new(), false, caller)?;
    let record = Operation {
        session: world.session().to_owned(),
        seq: begun.seq(),
    };
    match applier.put_content(&located, &Text(&edited, Some(content.len() as u64)), caller) {
        Ok(_) => begun.done(),
        Err(error) => {
            begun.abort(&error);
            return Err(error);
        }
    }
    Ok(Edited {
        record,
        run: caller.origin.run,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_replaced_in_order_or_not_at_all() {
        let splice = |start, end, bytes: &[u8]| Splice {
            start,
            end,
            bytes: Escaped(bytes.to_vec()),
        };
        let applied = |splices: Vec<Splice>| {
            let request = EditRequest {
                what: String::new(),
                path: WorldPath::root(),
                ids: [0, 0],
                seen: String::new(),
                splices,
            };
            request.applied(b"0123456789")
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
}
