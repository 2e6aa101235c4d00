//! Replacing texts in a file.

use std::io::Read;
use std::time::Duration;

use memchr::memmem;
use parking_lot::Mutex;

use super::work::{FileContext, FileError, at, of_io};
use super::write::put;
use crate::error::Error;
use crate::exec::home::WriteMode;
use crate::name::{WorldPath, escape};

/// The largest file that is edited, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The interval at which an edit that waits for another edit checks whether it has to end.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);

/// Two edits of one process that overlap would each put the other's work back.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A text to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The text to replace. Empty: the file is empty, or does not exist.
    pub old: Vec<u8>,
    /// The text that replaces it.
    pub new: Vec<u8>,
    /// True if every occurrence is to be replaced; otherwise there must be exactly one.
    pub all: bool,
}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditResult {
    /// The content of the file before the edit.
    pub before: Vec<u8>,
    /// The content of the file after the edit.
    pub after: Vec<u8>,
    /// The number of places at which the file was changed.
    pub places: u64,
}

/// Replaces texts in a file, one after the other; the file is written once, or not at all.
pub(super) fn edit(
    work: &FileContext<'_>,
    typed: &[u8],
    edits: &[FileEdit],
    dry: bool,
) -> Result<EditResult, FileError> {
    let _one = loop {
        work.check()?;
        if let Some(one) = ONE_AT_A_TIME.try_lock_for(CANCEL_INTERVAL) {
            break one;
        }
    };
    let path = work.path_to_make(typed)?;
    let before = content(work, typed, &path)?;
    let is_new = before.is_none();
    if is_new && edits.first().is_none_or(|edit| !edit.old.is_empty()) {
        return Err(at(typed, &Error::NotFound));
    }
    let before = before.unwrap_or_default();
    let (mut after, mut places) = (before.clone(), 0);
    for (number, edit) in edits.iter().enumerate() {
        // Each takes a pass over the file, and others wait for their turn.
        work.check()?;
        let which = match edits.len() {
            1 => String::new(),
            _ => format!("edit {}: ", number + 1),
        };
        let said = |what: String| format!("{}: {which}{what}", escape(typed)).into_bytes();
        let (next, count) = replace(&after, edit).map_err(said)?;
        places += count;
        after = next;
    }
    if !dry && (after != before || is_new) {
        // Others work here, too: what they wrote since is not overwritten unseen.
        let now = content(work, typed, &path)?;
        if now.is_none() != is_new || now.unwrap_or_default() != before {
            let what = "somebody else changed it meanwhile; nothing was written";
            return Err(format!("{}: {what}", escape(typed)).into_bytes());
        }
        let how = match is_new {
            true => WriteMode::New,
            false => WriteMode::Truncate,
        };
        put(work, (typed, &path), how, &after)?;
    }
    Ok(EditResult {
        before,
        after,
        places,
    })
}

/// Returns what a file holds; nothing where there is none.
fn content(
    work: &FileContext<'_>,
    typed: &[u8],
    path: &WorldPath,
) -> Result<Option<Vec<u8>>, FileError> {
    let file = match work.home.open(path) {
        Ok(file) => file,
        Err(Error::NotFound) => return Ok(None),
        Err(error) => return Err(at(typed, &error)),
    };
    let mut content = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| at(typed, &of_io(&error)))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        let most = MAX_FILE_BYTES >> 20;
        let name = escape(typed);
        return Err(format!("{name}: larger than {most} MiB: use a program").into_bytes());
    }
    Ok(Some(content))
}

/// Replaces one text. Returns the content, and in how many places it is different.
fn replace(content: &[u8], edit: &FileEdit) -> Result<(Vec<u8>, u64), String> {
    if edit.old.is_empty() {
        return match content.is_empty() {
            true => Ok((edit.new.clone(), 1)),
            false => Err(
                "the old text is empty, and the file is not: give the text to replace".to_owned(),
            ),
        };
    }
    if edit.old == edit.new {
        return Err("the old text and the new one are the same".to_owned());
    }
    let places: Vec<usize> = memmem::find_iter(content, &edit.old).collect();
    match places.len() {
        0 => return Err(not_found(content, edit)),
        1 => {}
        count if !edit.all => {
            return Err(format!(
                "the old text stands there {count} times: give more of what is around it, or replace all"
            ));
        }
        _ => {}
    }
    // Before it is made: a short text that stands there often, and a long new one, would take all memory.
    let gone = (places.len() * edit.old.len()) as u64;
    let come = (places.len() as u64).saturating_mul(edit.new.len() as u64);
    let size = (content.len() as u64 - gone).saturating_add(come);
    if size > MAX_FILE_BYTES {
        return Err(format!(
            "the result is larger than {} MiB",
            MAX_FILE_BYTES >> 20
        ));
    }
    let mut next = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    let mut end = 0;
    for place in &places {
        next.extend_from_slice(content.get(end..*place).unwrap_or_default());
        next.extend_from_slice(&edit.new);
        end = place + edit.old.len();
    }
    next.extend_from_slice(content.get(end..).unwrap_or_default());
    Ok((next, places.len() as u64))
}

fn not_found(content: &[u8], edit: &FileEdit) -> String {
    let has_cr = |text: &[u8]| memmem::find(text, b"\r\n").is_some();
    let hint = match has_cr(content) && !has_cr(&edit.old) && edit.old.contains(&b'\n') {
        true => "; its lines end with \\r\\n",
        false => "",
    };
    format!("the old text stands there 0 times{hint}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn replaced(content: &str, old: &str, new: &str, all: bool) -> Result<(String, u64), String> {
        let edit = FileEdit {
            old: old.into(),
            new: new.into(),
            all,
        };
        let (next, places) = replace(content.as_bytes(), &edit)?;
        Ok((String::from_utf8(next).unwrap(), places))
    }

    #[test]
    fn one_place_or_all_of_them() {
        assert_eq!(
            replaced("a b a", "b", "c", false),
            Ok(("a c a".to_owned(), 1))
        );
        assert_eq!(replaced("a b a", "a", "", true), Ok((" b ".to_owned(), 2)));
        let twice = replaced("a b a", "a", "x", false).unwrap_err();
        assert!(twice.contains("2 times"), "{twice}");
        let never = replaced("a\r\nb\r\n", "a\nb", "x", false).unwrap_err();
        assert!(
            never.contains("0 times") && never.contains("\\r\\n"),
            "{never}"
        );
        assert_eq!(replaced("", "", "new", false), Ok(("new".to_owned(), 1)));
        assert!(replaced("old", "", "new", false).is_err());
        assert!(replaced("old", "old", "old", false).is_err());
        // Places do not overlap.
        assert_eq!(replaced("aaa", "aa", "b", true), Ok(("ba".to_owned(), 1)));
        // A result that nobody could hold is not begun.
        let (many, long) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        let large = replaced(&many, "a", &long, true).unwrap_err();
        assert!(large.contains("larger than 16 MiB"), "{large}");
    }
}
