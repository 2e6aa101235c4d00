//! Assignments before a command, and similar syntax: elements of arrays, `{NAME}` before a redirect.

use super::parser::LineParser;
use crate::lex::{SyntaxRefusal, name_length};
use crate::syntax::{Word, WordAtom};

impl LineParser<'_> {
    /// Splits a word that is an assignment. `x=` followed by `(` assigns an array.
    pub(super) fn split_assignment(
        &mut self,
        word: &Word,
    ) -> Result<Option<(Vec<u8>, Word)>, SyntaxRefusal> {
        let equals = word
            .0
            .iter()
            .position(|atom| *atom == WordAtom::Plain(b'='));
        let Some(equals) = equals else {
            return Ok(None);
        };
        let (name, value) = word.0.split_at(equals);
        let appends = name.last() == Some(&WordAtom::Plain(b'+'));
        let bare = name.get(..name.len() - usize::from(appends));
        let bare = bare.unwrap_or_default();
        let length = bare.iter().position(|atom| *atom == WordAtom::Plain(b'['));
        let name = bare.get(..length.unwrap_or(bare.len()));
        let Some(name) = Word(name.unwrap_or_default().to_vec()).plain() else {
            return Ok(None);
        };
        let is_element = length.is_some() && bare.last() == Some(&WordAtom::Plain(b']'));
        if name.is_empty() || name_length(&name) != name.len() || length.is_some() != is_element {
            return Ok(None);
        }
        let value = value.get(1..).unwrap_or_default().to_vec();
        if value.is_empty() && self.lexer.rest().starts_with(b"(") {
            self.skip_extent(b')')?;
            self.note_unsupported([&name[..], b"=( ): arrays are"].concat());
        } else if is_element {
            self.note_unsupported([&name[..], b"[ ]=: arrays are"].concat());
        } else if appends {
            self.note_unsupported([&name[..], b"+=: appending to a variable is"].concat());
        } else if name == b"IFS" {
            self.note_unsupported("IFS: splitting at anything but blanks is");
        }
        Ok(Some((name, Word(value))))
    }
}

/// Returns whether a word is `{NAME}`, which names a stream where a redirect follows directly.
pub(super) fn names_stream(word: &Word) -> bool {
    let text = word.plain().unwrap_or_default();
    let name = text
        .strip_prefix(b"{")
        .and_then(|text| text.strip_suffix(b"}"));
    name.is_some_and(|name| !name.is_empty() && name_length(name) == name.len())
}
