//! The text of a listed path for an editor, and the edit that records what became of it.

use super::list::Review;
use crate::error::{Error, Result};
use crate::journal::InodeNumbers;
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::diff::{ChangeStatus, NodeBytes};
use crate::operator::text::{MAX_TEXT_BYTES, TextComparison};
use crate::operator::undo::edit::{ByteSplice, EditRequest};

/// The present text of a file, to be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditableText {
    /// The file.
    pub path: WorldPath,
    /// Its text.
    pub text: Vec<u8>,
    ids: InodeNumbers,
}

impl Review<'_> {
    /// Reads the text of a listed path as it is now.
    ///
    /// # Errors
    /// [`Error::Missing`] where no file is at the path; [`Error::Refused`] where it is no text; those of reading it.
    pub fn text_to_edit(&self, path: &WorldPath) -> Result<EditableText> {
        let refused = |why: &str| {
            let remedy = "Nothing was changed. Only the text of a file can be edited here.";
            Err(Error::refused(format!("{path} {why}"), remedy))
        };
        let is_it = |number: &usize| {
            let listed = self.path(*number);
            listed.is_some_and(|(status, at)| at == *path && status != ChangeStatus::Removed)
        };
        let number = (0..self.len()).find(is_it);
        let change = number.map(|number| self.change(number)).transpose()?;
        let (Some(change), Some(diff)) = (change.flatten(), self.diff()) else {
            return refused("is not there any more");
        };
        let after = change.difference.after.filter(|side| side.kind == "file");
        let Some(after) = after else {
            return refused("is no file");
        };
        if after.size > MAX_TEXT_BYTES {
            return refused("is too long a text");
        }
        let (_, content) = diff.contents(&change.difference)?;
        let content = content.ok_or(Error::NotFound)?;
        if content.is_binary()? {
            return refused("is no text: its content is binary");
        }
        let NodeBytes::File(_) = content else {
            return refused("is no file");
        };
        let ids = diff.trees().1.ids(after.node);
        Ok(EditableText {
            path: path.clone(),
            text: content.read()?,
            ids: ids.ok_or(Error::NotFound)?,
        })
    }
}

impl EditableText {
    /// Returns an empty text, for tests of what becomes of one.
    #[cfg(test)]
    pub(crate) fn of(path: WorldPath) -> EditableText {
        EditableText {
            path,
            text: Vec::new(),
            ids: [0, 0],
        }
    }

    /// Returns the request that makes the file the edited text; `None` where it is that already. Bytes that somebody
    /// appends meanwhile stay, unless the edit reaches the end.
    pub fn request(&self, edited: Vec<u8>) -> Option<EditRequest> {
        if edited == self.text {
            return None;
        }
        let compared = TextComparison::new(self.text.clone(), edited);
        let splices = compared.splices().map(|(range, bytes)| ByteSplice {
            start: range.start,
            end: range.end,
            bytes: EscapedBytes(bytes.to_vec()),
        });
        Some(EditRequest {
            what: format!("edit {}", self.path),
            path: self.path.clone(),
            ids: self.ids,
            seen: EditRequest::digest(&self.text),
            length: Some(self.text.len()),
            splices: splices.collect(),
        })
    }
}
