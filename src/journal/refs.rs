//! The names and inodes in a line, extracted without parsing the line into a record: this rules out most lines in a
//! query about one path.
//!
//! Owns, for each operation, which names and inodes it changes and which directories are only on its paths. A line in
//! this program's usual form is scanned in place; any other is parsed, and a test compares the two.

use memchr::{memchr, memmem};

use super::header::RecordHeader;
use super::op::Op;
use super::record::Record;

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
        if usual(self.line, &mut note).is_none() {
            of_op(&Record::parse(self.line)?.op, &mut note);
        }
        Ok(())
    }
}

/// Passes the references of a line in the usual form.
fn usual(line: &[u8], note: &mut impl FnMut(RecordRef<'_>)) -> Option<()> {
    let start = memmem::find(line, b",\"op\":")?;
    let mut rest = LineScanner(line.get(start..)?);
    rest.skip(b",\"op\":")?;
    // Operations with many names, or none, are rare.
    if matches!(
        rest.text()?,
        b"gather" | b"purge" | b"run" | b"undo" | b"accept" | b"evict"
    ) {
        return None;
    }
    loop {
        rest.skip(b",\"")?;
        match rest.until(b'"')? {
            b"path" => path(rest.value_path()?, note),
            b"to" if rest.0.starts_with(b":\"") => path(rest.value_path()?, note),
            b"from" => note(RecordRef::Through(rest.value_path()?)),
            b"target" => {
                rest.value_text()?;
            }
            b"trash" => note(RecordRef::Changed(rest.value_text()?)),
            b"ids" | b"new" | b"other" => {
                rest.skip(b":")?;
                note(RecordRef::Inode(rest.inode()?));
            }
            b"replaced" => {
                rest.skip(b":{\"ids\":")?;
                note(RecordRef::Inode(rest.inode()?));
                rest.skip(b",\"trash\"")?;
                note(RecordRef::Changed(rest.value_text()?));
                rest.skip(b"}")?;
            }
            b"mode" | b"size" | b"to" | b"uid" | b"gid" | b"times" => rest.skip_to(b',')?,
            b"mtime" => {
                rest.skip_to(b']')?;
                rest.skip(b"]")?;
            }
            b"was" | b"kept" => {
                rest.skip(b":{")?;
                rest.skip_to(b'}')?;
                rest.skip(b"}")?;
            }
            b"at" => {
                let end = memmem::find(rest.0, b"]]")?;
                rest.0 = rest.0.get(end + 2..)?;
            }
            b"actor" => rest.actor()?,
            b"origin" => {
                rest.skip(b":{")?;
                rest.skip_to(b'}')?;
                rest.skip(b"}")?;
            }
            // `prev` is the last field, so none was overlooked.
            b"prev" => {
                rest.value_text()?;
                return (rest.0 == b"}").then_some(());
            }
            _ => return None,
        }
    }
}

/// A scanner over the rest of the line.
struct LineScanner<'a>(&'a [u8]);

impl<'a> LineScanner<'a> {
    fn skip(&mut self, word: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    fn skip_to(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.get(memchr(byte, self.0)?..)?;
        Some(())
    }

    fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(memchr(byte, self.0)?)?;
        self.0 = rest.get(1..)?;
        Some(found)
    }

    /// Reads a text without escapes.
    fn text(&mut self) -> Option<&'a [u8]> {
        self.skip(b"\"")?;
        let text = self.until(b'"')?;
        (!text.contains(&b'\\')).then_some(text)
    }

    fn value_text(&mut self) -> Option<&'a [u8]> {
        self.skip(b":")?;
        self.text()
    }

    /// Reads a path as written, with a slash before each name.
    fn value_path(&mut self) -> Option<&'a [u8]> {
        let path = self.value_text()?.strip_prefix(b"/")?;
        let odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
        (!path.split(|b| *b == b'/').any(odd)).then_some(path)
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.0.iter().position(|b| !b.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Reads the second number of a pair.
    fn inode(&mut self) -> Option<u64> {
        self.skip(b"[")?;
        self.number()?;
        self.skip(b",")?;
        let inode = self.number()?;
        self.skip(b"]")?;
        Some(inode)
    }

    fn actor(&mut self) -> Option<()> {
        for field in [&b":{\"pid\":"[..], b",\"uid\":", b",\"gid\":"] {
            self.skip(field)?;
            self.number()?;
        }
        for field in [&b",\"comm\":"[..], b",\"exe\":"] {
            if self.skip(field).is_some() {
                self.text()?;
            }
        }
        if self.skip(b",\"undo\":").is_some() {
            self.number()?;
        }
        self.skip(b"}")
    }
}

/// Passes the last name of a path as changed, and the directories before it.
fn path(path: &[u8], note: &mut (impl FnMut(RecordRef<'_>) + ?Sized)) {
    let (above, name) = match memchr::memrchr(b'/', path) {
        Some(slash) => (path.get(..slash), path.get(slash + 1..)),
        None => (None, Some(path)),
    };
    if let Some(above) = above.filter(|above| !above.is_empty()) {
        note(RecordRef::Through(above));
    }
    note(RecordRef::Changed(name.unwrap_or_default()));
}

fn of_op(op: &Op, note: &mut dyn FnMut(RecordRef<'_>)) {
    for one in op.paths() {
        path(one.bytes(), note);
    }
    for ids in op.ids() {
        note(RecordRef::Inode(ids[1]));
    }
    if let Some(trashed) = op.trashed() {
        note(RecordRef::Changed(&trashed.entry.0));
    }
    match op {
        Op::Link { from, .. } => note(RecordRef::Through(from.bytes())),
        Op::Gather {
            trash,
            entries,
            names,
            ..
        } => {
            note(RecordRef::Through(&trash.0));
            for entry in entries {
                note(RecordRef::Changed(&entry.0));
                // The name in its directory follows the time of its removal.
                let name = memchr(b'_', &entry.0).and_then(|at| entry.0.get(at + 1..));
                if let Some(name) = name {
                    note(RecordRef::Changed(name));
                }
            }
            for (_, name) in names {
                note(RecordRef::Changed(&name.0));
            }
        }
        Op::Purge { entries } => {
            for entry in entries {
                note(RecordRef::Changed(&entry.0));
            }
        }
        // An evicted version is reported when its content is read; the others have no further references.
        Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Mknod { .. }
        | Op::Symlink { .. }
        | Op::Write { .. }
        | Op::Truncate { .. }
        | Op::Content { .. }
        | Op::Allocate { .. }
        | Op::Attr { .. }
        | Op::Xattr { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::Exchange { .. }
        | Op::Restore { .. }
        | Op::Begin { .. }
        | Op::End
        | Op::Run { .. }
        | Op::Checkpoint { .. }
        | Op::Undo { .. }
        | Op::Accept { .. }
        | Op::Evict { .. }
        | Op::Abort { .. } => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn told(line: &str) -> (bool, Vec<String>, Vec<String>) {
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        let usual = usual(line.as_bytes(), &mut |word| quick.push(text(word))).is_some();
        let record = Record::parse(line.as_bytes()).unwrap();
        of_op(&record.op, &mut |word| slow.push(text(word)));
        quick.sort();
        slow.sort();
        (usual, quick, slow)
    }

    fn text(word: RecordRef<'_>) -> String {
        match word {
            RecordRef::Changed(name) => format!("={}", String::from_utf8_lossy(name)),
            RecordRef::Inode(number) => format!("#{number}"),
            RecordRef::Through(path) => format!(">{}", String::from_utf8_lossy(path)),
        }
    }

    #[test]
    fn a_line_says_what_its_record_says() {
        let stamps = r#""mtime":[-1,2],"mode":420,"kept":{"how":"moved","n":7}"#;
        let was = r#""was":{"mode":1,"uid":2,"gid":3,"atime":[4,5],"mtime":[-6,7]}"#;
        let gone = r#""ids":[9,10],"trash":"20260116T101530.123456Z_a""#;
        for (op, words) in [
            (r#"create","path":"/a","mode":420"#.to_owned(), "=a"),
            (r#"mkdir","path":"/d/e/ä ","mode":1"#.to_owned(), "=ä  >d/e"),
            (r#"mknod","path":"/a","mode":1"#.to_owned(), "=a"),
            (
                r#"symlink","path":"/d/a","target":"/b/c""#.to_owned(),
                "=a >d",
            ),
            (
                r#"link","path":"/d/a","from":"/e/b","ids":[9,10]"#.to_owned(),
                "#10 =a >d >e/b",
            ),
            (
                format!(r#"write","path":"/a","ids":[9,10],"size":1,{stamps}"#),
                "#10 =a",
            ),
            (
                format!(
                    r#"truncate","path":"/a","ids":[9,10],"size":1,"to":2,{stamps},"new":[9,11]"#
                ),
                "#10 #11 =a",
            ),
            (
                format!(r#"attr","path":"/a","ids":[9,10],{was},"uid":7,"times":true"#),
                "#10 =a",
            ),
            (
                format!(r#"unlink","path":"/d/a",{gone}"#),
                "#10 =20260116T101530.123456Z_a =a >d",
            ),
            (
                format!(r#"rename","path":"/d/a","to":"/b","ids":[9,1],"replaced":{{{gone}}}"#),
                "#1 #10 =20260116T101530.123456Z_a =a =b >d",
            ),
            (
                r#"exchange","path":"/a","to":"/b","ids":[9,1],"other":[9,2]"#.to_owned(),
                "#1 #2 =a =b",
            ),
            ("end\"".to_owned(), ""),
        ] {
            for actor in [
                "",
                r#""actor":{"pid":1,"uid":2,"gid":3,"comm":"{}]","exe":"/a","undo":7},"#,
            ] {
                for at in ["", r#""at":[[1,2,3],[-4,5,6]],"#] {
                    let line =
                        format!(r#"{{"v":1,"seq":7,"time":"t","op":"{op},{at}{actor}"prev":"x"}}"#);
                    let (usual, quick, slow) = told(&line);
                    assert!(usual, "{line}");
                    assert_eq!((&quick, quick.join(" ").as_str()), (&slow, words));
                }
            }
        }
    }

    #[test]
    fn what_stands_otherwise_is_parsed() {
        for op in [
            r#""op":"create","path":"/a\\x0a","mode":1,"prev":"x""#,
            r#""op":"create","path":"/a/../b","mode":1,"prev":"x""#,
            r#""op":"create","prev":"x","path":"/a","mode":1"#,
            r#""op":"rename","path":"/a","ids":[1,2],"actor":{"pid":1,"uid":1,"gid":1},"to":"/b","prev":"x""#,
            r#""op":"purge","entries":["a","b"],"prev":"x""#,
        ] {
            let line = format!(r#"{{"v":1,"seq":7,"time":"t",{op}}}"#);
            let (usual, _, slow) = told(&line);
            // No reference of a record may be missing; the fourth line's order is just as good.
            assert!(!usual || op.contains("rename"), "{line}");
            let header = RecordHeader::of(line.as_bytes()).unwrap();
            let mut words = Vec::new();
            header.refs(|word| words.push(text(word))).unwrap();
            assert!(slow.iter().all(|word| words.contains(word)), "{line}");
        }
    }
}
