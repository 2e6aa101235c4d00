//! The names and inodes in a line, extracted without making a record: this rules out most lines in a query about one
//! path.
//!
//! Owns which names and inodes an operation changes, by the fields that it has, and which directories are only on its
//! paths. A test compares them with the record.

use std::borrow::Cow;

use memchr::memchr;
use serde::de::Error as _;

use super::fields::{LineFields, unescaped};
use super::header::RecordHeader;
use super::json_cursor::JsonText;
use super::old_lines;
use crate::name::WorldPath;

/// A reference in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordRef<'a> {
    /// A name whose meaning changed, in a directory or in the trash; or the name of a file that changed.
    Changed(&'a [u8]),
    /// An inode that moved or changed.
    Inode(u64),
    /// The directories on a path, without a leading slash.
    Through(&'a [u8]),
}

impl RecordHeader<'_> {
    /// Passes each reference in the line to `note`, some of them twice.
    ///
    /// # Errors
    /// The syntax error of an invalid line; where it is not in the usual form, some references may have been passed
    /// before.
    pub fn refs(&self, mut note: impl FnMut(RecordRef<'_>)) -> Result<(), serde_json::Error> {
        let mut pass = |fields: LineFields<'_>| fields.refs(&mut note);
        if self.fields().and_then(&mut pass).is_some() {
            return Ok(());
        }
        let fixed = old_lines::in_fixed_form(self.line)?;
        let passed = LineFields::read(&fixed).and_then(pass);
        passed.ok_or_else(|| serde_json::Error::custom("a name is not in its form"))
    }
}

impl LineFields<'_> {
    /// Passes each reference; `None` if a name is invalid.
    fn refs(&self, note: &mut impl FnMut(RecordRef<'_>)) -> Option<()> {
        // A link tells what was at the name that it was made from.
        for written in [self.path, self.to, self.from].into_iter().flatten() {
            path(&path_bytes(written)?, note);
        }
        for ids in [self.ids, self.new, self.other].into_iter().flatten() {
            note(RecordRef::Inode(ids[1]));
        }
        if let Some(replaced) = &self.replaced {
            note(RecordRef::Inode(replaced.ids[1]));
            note(RecordRef::Changed(&unescaped(replaced.trash)?));
        }
        match self.trash {
            Some(trash) if self.op == "gather" => note(RecordRef::Through(&unescaped(trash)?)),
            Some(trash) => note(RecordRef::Changed(&unescaped(trash)?)),
            None => {}
        }
        let (entries, names) = self.entries()?;
        for entry in &entries {
            note(RecordRef::Changed(&entry.0));
            // The name in its directory follows the time of its removal.
            let name = memchr(b'_', &entry.0).and_then(|at| entry.0.get(at + 1..));
            if let Some(name) = name.filter(|_| self.op == "gather") {
                note(RecordRef::Changed(name));
            }
        }
        for (_, name) in &names {
            note(RecordRef::Changed(&name.0));
        }
        Some(())
    }
}

/// Returns the bytes of a path, without a leading slash.
fn path_bytes(written: JsonText<'_>) -> Option<Cow<'_, [u8]>> {
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
    if let Some([b'/', path @ ..]) = written.plain_bytes()
        && !path.split(|b| *b == b'/').any(is_odd)
    {
        return Some(Cow::Borrowed(path));
    }
    let path = WorldPath::parse(&unescaped(written)?).ok()?;
    Some(Cow::Owned(path.bytes().to_vec()))
}

/// Passes the last name of a path as changed, and the directories before it.
fn path(path: &[u8], note: &mut impl FnMut(RecordRef<'_>)) {
    let (above, name) = match memchr::memrchr(b'/', path) {
        Some(slash) => (path.get(..slash), path.get(slash + 1..)),
        None => (None, Some(path)),
    };
    if let Some(above) = above.filter(|above| !above.is_empty()) {
        note(RecordRef::Through(above));
    }
    note(RecordRef::Changed(name.unwrap_or_default()));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::form_tests::samples;
    use super::super::{Op, encoder};
    use super::*;

    fn text(reference: RecordRef<'_>) -> String {
        match reference {
            RecordRef::Changed(name) => format!("={}", String::from_utf8_lossy(name)),
            RecordRef::Inode(number) => format!("#{number}"),
            RecordRef::Through(path) => format!(">{}", String::from_utf8_lossy(path)),
        }
    }

    fn refs_of(line: &[u8]) -> Vec<String> {
        let mut refs = Vec::new();
        let header = RecordHeader::of(line).unwrap();
        header.refs(|one| refs.push(text(one))).unwrap();
        refs.sort();
        refs
    }

    fn refs_of_op(op: &Op) -> Vec<String> {
        let mut refs = Vec::new();
        let mut note = |one: RecordRef<'_>| refs.push(text(one));
        for one in op.paths() {
            path(one.bytes(), &mut note);
        }
        for ids in op.ids() {
            note(RecordRef::Inode(ids[1]));
        }
        if let Some(trashed) = op.trashed() {
            note(RecordRef::Changed(&trashed.entry.0));
        }
        match op {
            Op::Link { from, .. } => path(from.bytes(), &mut note),
            Op::Gather {
                trash,
                entries,
                names,
                ..
            } => {
                note(RecordRef::Through(&trash.0));
                for entry in entries {
                    note(RecordRef::Changed(&entry.0));
                    if let Some(at) = memchr(b'_', &entry.0) {
                        note(RecordRef::Changed(entry.0.get(at + 1..).unwrap()));
                    }
                }
                for (_, name) in names {
                    note(RecordRef::Changed(&name.0));
                }
            }
            Op::Purge { entries, .. } => entries
                .iter()
                .for_each(|entry| note(RecordRef::Changed(&entry.0))),
            _ => {}
        }
        refs.sort();
        refs
    }

    #[test]
    fn line_has_the_references_of_its_record() {
        for record in samples() {
            let line = encoder::line(&record).unwrap();
            let shown = String::from_utf8_lossy(&line);
            assert_eq!(refs_of(&line), refs_of_op(&record.op), "{shown}");
        }
    }

    #[test]
    fn line_in_another_form_lacks_no_reference() {
        for (op, refs) in [
            (
                r#""op":"create","path":"/a\\x0a","mode":1,"prev":"x""#,
                "=a\n",
            ),
            (
                r#""op":"create","path":"/d//b","mode":1,"prev":"x""#,
                "=b >d",
            ),
            (r#""op":"create","prev":"x","path":"/a","mode":1"#, "=a"),
            (r#""op":"create", "path":"/a", "mode":1,"prev":"x""#, "=a"),
            (
                r#""op":"purge","entries":["a","b_c"],"prev":"x""#,
                "=a =b_c",
            ),
        ] {
            let line = format!(r#"{{"v":1,"seq":7,"time":"t",{op}}}"#);
            assert_eq!(refs_of(line.as_bytes()).join(" "), refs, "{line}");
        }
        let odd =
            br#"{"v":1,"seq":7,"time":"t","op":"create","path":"/a\u0000","mode":1,"prev":"x"}"#;
        assert!(RecordHeader::of(odd).unwrap().refs(|_| {}).is_err());
    }
}
