//! Listing a directory.

use std::io::Write;

use rustix::fs::FileType;

use super::work::{FileContext, FileError, at};
use crate::name::escape;

/// The largest number of entries in the result; the text alone has the others.
const MAX_ENTRIES: usize = 1000;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ListedEntry {
    /// Its name, escaped as in the log.
    pub name: String,
    /// `file`, `directory`, or `other`.
    pub kind: &'static str,
    /// The size of a file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Writes a line for each entry: its kind and its name. Returns the first thousand.
pub(super) fn list(
    work: &FileContext<'_>,
    typed: &[u8],
    out: &mut dyn Write,
) -> Result<Vec<ListedEntry>, FileError> {
    let path = work.path(typed)?;
    let mut entries = work.home.list(&path).map_err(|error| at(typed, &error))?;
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    let mut found = Vec::new();
    for entry in &entries {
        work.check()?;
        let kind = match entry.kind {
            FileType::Directory => "directory",
            FileType::RegularFile => "file",
            _ => "other",
        };
        let name = escape(&entry.name);
        let line = match kind {
            "directory" => format!("[DIR] {name}\n"),
            "file" => format!("[FILE] {name}\n"),
            _ => format!("[OTHER] {name}\n"),
        };
        if out.write_all(line.as_bytes()).is_err() {
            break;
        }
        if found.len() < MAX_ENTRIES {
            found.push(ListedEntry {
                name,
                kind,
                size: None,
            });
        }
    }
    let names: Vec<&[u8]> = entries
        .iter()
        .take(found.len())
        .map(|entry| &entry.name[..])
        .collect();
    // What was removed since has no size.
    let metas = work.home.stat_entries(&path, &names).unwrap_or_default();
    for (entry, meta) in found.iter_mut().zip(metas) {
        entry.size = meta
            .ok()
            .filter(|_| entry.kind == "file")
            .map(|meta| meta.size);
    }
    Ok(found)
}
