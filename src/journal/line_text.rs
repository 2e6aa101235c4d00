//! The text of a record's line: byte for byte what serde writes for a [`Record`](super::Record), without creating one.
//!
//! Caches formatted text that stays valid from line to line: the time to the second, and the actor. This code runs for
//! each change, so it allocates nothing as long as its buffers are long enough. Rare records (an operation of an
//! operator, a name with an escape) are left to serde.

use std::sync::Arc;

use super::former::{FormerAttrs, ReplacedFile, VersionRef};
use super::hash::ChainLink;
use super::ids::InodeNumbers;
use super::op::Op;
use super::record::Actor;
use super::stamp::{DirTime, FileTime, is_zero};
use crate::name::{EscapedBytes, WorldPath};
use trumanfs_types::origin::Origin;

/// The parts of a record besides its time.
#[derive(Debug)]
pub(super) struct RecordParts<'a> {
    pub(super) v: u32,
    pub(super) seq: u64,
    pub(super) op: &'a Op,
    pub(super) at: &'a [DirTime],
    pub(super) actor: Option<&'a Arc<Actor>>,
    pub(super) origin: Origin,
    pub(super) prev: &'a ChainLink,
}

/// An encoder of records as lines.
#[derive(Debug, Default)]
pub(super) struct LineEncoder {
    /// The second of the line before, and its text up to the decimal point.
    second: i64,
    time: String,
    /// The actor of the line before, and its text. The reference keeps another actor from getting the same address.
    actor: Option<(Arc<Actor>, Vec<u8>)>,
}

impl LineEncoder {
    /// Replaces a buffer's content by the line of a record, without a newline.
    ///
    /// # Errors
    /// Those of serde, of which there are none for a record.
    pub(super) fn write(
        &mut self,
        line: &mut Vec<u8>,
        now: chrono::DateTime<chrono::Utc>,
        record: &RecordParts<'_>,
    ) -> serde_json::Result<()> {
        line.clear();
        let mut text = LineBuffer(line);
        text.word("{\"v\":").number(record.v);
        text.word(",\"seq\":").number(record.seq);
        text.word(",\"time\":\"").word(self.second_of(now));
        text.word(".").six_digits(now.timestamp_subsec_micros());
        text.word("Z\"");
        if text.op(record.op).is_none() {
            text.by_serde(record.op)?;
        }
        if !record.at.is_empty() {
            text.word(",\"at\":")
                .list(record.at, |text, (s, n, inode)| {
                    text.word("[").number(*s).word(",").number(*n).word(",");
                    text.number(*inode).word("]");
                });
        }
        if let Some(actor) = record.actor {
            text.word(",\"actor\":");
            text.0.extend_from_slice(self.text_of(actor)?);
        }
        if !record.origin.is_plain() {
            text.word(",\"origin\":");
            serde_json::to_writer(&mut *text.0, &record.origin)?;
        }
        text.word(",\"prev\":\"");
        text.0.extend_from_slice(record.prev.bytes());
        text.word("\"}");
        Ok(())
    }

    fn second_of(&mut self, now: chrono::DateTime<chrono::Utc>) -> &str {
        if self.second != now.timestamp() || self.time.is_empty() {
            self.second = now.timestamp();
            self.time = now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            self.time.pop(); // The `Z` comes behind the microseconds.
        }
        &self.time
    }

    fn text_of(&mut self, actor: &Arc<Actor>) -> serde_json::Result<&[u8]> {
        let same = |(known, _): &(Arc<Actor>, _)| Arc::ptr_eq(known, actor);
        if !self.actor.as_ref().is_some_and(same) {
            self.actor = Some((actor.clone(), serde_json::to_vec(&**actor)?));
        }
        Ok(self.actor.as_ref().map_or(&[], |(_, text)| text.as_slice()))
    }
}

/// The line as far as it has been written.
struct LineBuffer<'a>(&'a mut Vec<u8>);

impl LineBuffer<'_> {
    fn word(&mut self, word: &str) -> &mut Self {
        self.0.extend_from_slice(word.as_bytes());
        self
    }

    fn number(&mut self, number: impl itoa::Integer) -> &mut Self {
        let mut digits = itoa::Buffer::new();
        self.word(digits.format(number))
    }

    fn six_digits(&mut self, number: u32) -> &mut Self {
        let mut digits = [b'0'; 6];
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        self.0.extend_from_slice(&digits);
        self
    }

    fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) -> &mut Self {
        let mut mark = "[";
        for item in items {
            self.word(mark);
            each(self, item);
            mark = ",";
        }
        self.word("]")
    }

    /// Writes an operation that is common and has no escapes; `None` where serde has to, with nothing written.
    fn op(&mut self, op: &Op) -> Option<()> {
        let start = self.0.len();
        let written = self.common(op);
        if written.is_none() {
            self.0.truncate(start);
        }
        written
    }

    fn common(&mut self, op: &Op) -> Option<()> {
        self.word(",\"op\":\"").word(op.word()).word("\"");
        match op {
            Op::Create {
                path,
                mode,
                dropped: None,
            }
            | Op::Mkdir { path, mode } => {
                self.path("path", path)?.word(",\"mode\":").number(*mode);
            }
            Op::Unlink { path, ids, trash } | Op::Rmdir { path, ids, trash } => {
                self.path("path", path)?.pair("ids", ids).trash(trash)?;
            }
            Op::Rename {
                path,
                to,
                ids,
                replaced,
            } => {
                self.path("path", path)?.path("to", to)?.pair("ids", ids);
                if let Some(ReplacedFile { ids, trash }) = replaced {
                    self.word(",\"replaced\":{\"ids\":").two(ids);
                    self.trash(trash)?.word("}");
                }
            }
            Op::Link { path, from, ids } => {
                self.path("path", path)?
                    .path("from", from)?
                    .pair("ids", ids);
            }
            Op::Write {
                path,
                ids,
                size,
                mtime,
                mode,
                kept,
            } => {
                self.path("path", path)?.pair("ids", ids);
                self.word(",\"size\":").number(*size);
                self.content(mtime, *mode, *kept);
            }
            Op::Truncate {
                path,
                ids,
                size,
                to,
                mtime,
                mode,
                kept,
                new,
            } => {
                self.path("path", path)?.pair("ids", ids);
                self.word(",\"size\":").number(*size);
                self.word(",\"to\":").number(*to);
                self.content(mtime, *mode, *kept);
                if let Some(new) = new {
                    self.pair("new", new);
                }
            }
            Op::Attr {
                path,
                ids,
                was,
                mode,
                uid,
                gid,
                times,
            } => {
                self.path("path", path)?.pair("ids", ids).was(was);
                self.some(",\"mode\":", *mode).some(",\"uid\":", *uid);
                self.some(",\"gid\":", *gid);
                self.word(if *times { ",\"times\":true" } else { "" });
            }
            _ => return None,
        }
        Some(())
    }

    /// Writes an operation as serde does: its own object, without the braces.
    fn by_serde(&mut self, op: &Op) -> serde_json::Result<()> {
        let start = self.0.len();
        serde_json::to_writer(&mut *self.0, op)?;
        if let Some(brace) = self.0.get_mut(start) {
            *brace = b',';
        }
        self.0.pop();
        Ok(())
    }

    fn content(&mut self, mtime: &FileTime, mode: Option<u32>, kept: Option<VersionRef>) {
        if !is_zero(mtime) {
            self.word(",\"mtime\":").stamp(mtime);
        }
        self.some(",\"mode\":", mode);
        if let Some(VersionRef { how, n }) = kept {
            self.word(",\"kept\":{\"how\":\"").word(how.word());
            self.word("\",\"n\":").number(n).word("}");
        }
    }

    fn was(&mut self, was: &FormerAttrs) -> &mut Self {
        self.word(",\"was\":{\"mode\":").number(was.mode);
        self.word(",\"uid\":").number(was.uid);
        self.word(",\"gid\":").number(was.gid);
        self.word(",\"atime\":").stamp(&was.atime);
        self.word(",\"mtime\":").stamp(&was.mtime).word("}")
    }

    fn some(&mut self, name: &str, number: Option<u32>) -> &mut Self {
        match number {
            Some(number) => self.word(name).number(number),
            None => self,
        }
    }

    fn stamp(&mut self, (seconds, nanoseconds): &FileTime) -> &mut Self {
        self.word("[").number(*seconds).word(",");
        self.number(*nanoseconds).word("]")
    }

    fn two(&mut self, [one, two]: &InodeNumbers) -> &mut Self {
        self.word("[").number(*one).word(",").number(*two).word("]")
    }

    fn pair(&mut self, name: &str, ids: &InodeNumbers) -> &mut Self {
        self.word(",\"").word(name).word("\":").two(ids)
    }

    fn path(&mut self, name: &str, path: &WorldPath) -> Option<&mut Self> {
        self.word(",\"").word(name).word("\":\"/");
        self.plain(path.bytes())
    }

    fn trash(&mut self, entry: &EscapedBytes) -> Option<&mut Self> {
        self.word(",\"trash\":\"").plain(&entry.0)
    }

    /// Writes the rest of a text that needs no escape.
    fn plain(&mut self, bytes: &[u8]) -> Option<&mut Self> {
        let is_plain = |b: &u8| matches!(*b, b' '..=b'~') && !matches!(*b, b'"' | b'\\');
        if !bytes.iter().all(is_plain) {
            return None;
        }
        self.0.extend_from_slice(bytes);
        Some(self.word("\""))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Record;
    use super::super::fast_parse::tests::records;
    use super::*;

    /// The line of a record as it is written.
    fn line(text: &mut LineEncoder, record: &Record) -> Vec<u8> {
        let mut line = b"what was there before".to_vec();
        let actor = record.actor.clone().map(Arc::new);
        let parts = RecordParts {
            v: record.v,
            seq: record.seq,
            op: &record.op,
            at: &record.at,
            actor: actor.as_ref(),
            origin: record.origin,
            prev: &ChainLink::parse(record.prev.as_bytes()).unwrap(),
        };
        let now = chrono::DateTime::parse_from_rfc3339(&record.time).unwrap();
        text.write(&mut line, now.to_utc(), &parts).unwrap();
        line
    }

    #[test]
    fn a_line_is_what_serde_makes_of_the_record() {
        let mut text = LineEncoder::default();
        let names: [&[u8]; 5] = [
            b"plain",
            b"a \"b\"",
            b"\xff\n",
            "\u{e4}\u{9b}".as_bytes(),
            b"\\\x7f",
        ];
        for record in records() {
            assert_eq!(
                line(&mut text, &record),
                serde_json::to_vec(&record).unwrap()
            );
            for name in names {
                let path = WorldPath::parse(name).unwrap();
                let (ids, trash) = ([0, 7], EscapedBytes(name.to_vec()));
                for op in [
                    Op::Unlink {
                        path: path.clone(),
                        ids,
                        trash: trash.clone(),
                    },
                    Op::Link {
                        path: path.clone(),
                        from: path.clone(),
                        ids,
                    },
                    Op::Symlink {
                        path,
                        target: trash,
                    },
                    Op::End,
                ] {
                    let record = Record {
                        op,
                        ..record.clone()
                    };
                    assert_eq!(
                        line(&mut text, &record),
                        serde_json::to_vec(&record).unwrap()
                    );
                }
            }
        }
    }

    #[test]
    fn times_and_actors_are_those_of_each_line() {
        let mut text = LineEncoder::default();
        let mut record = records().remove(7);
        for (time, pid) in [
            ("2026-01-16T10:15:30.999999Z", 1),
            ("2026-01-16T10:15:31.000000Z", 2),
            ("2026-01-16T10:15:31.000001Z", 2),
            ("1969-12-31T23:59:59.500000Z", 3),
            ("2026-01-16T10:15:31.000001Z", 1),
        ] {
            record.time = time.to_owned();
            record.actor.as_mut().unwrap().pid = pid;
            assert_eq!(
                line(&mut text, &record),
                serde_json::to_vec(&record).unwrap()
            );
        }
    }
}
