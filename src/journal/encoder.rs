//! The text of a journal's lines: the only writer of records and seals.
//!
//! Owns the names and forms of fields for writing, as `fields.rs` does for reading. Caches formatted text that stays
//! valid from line to line: the time to the second, and the actor. This code runs for each change, so it allocates
//! nothing as long as its buffers are long enough, unless a name has an escape or the operation is an operator's.

use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::former::{FormerAttrs, ReplacedFile, VersionRef};
use super::hash::hex;
use super::ids::InodeNumbers;
use super::op::Op;
use super::record::{Actor, Record};
use super::seal::Seal;
use super::stamp::{DirTime, FileTime, is_zero};
use crate::name::{EscapedBytes, WorldPath, escape};
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
    pub(super) prev: &'a [u8],
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
        text.begin(record.v, record.seq);
        text.word("\"").word(self.second_of(now));
        text.word(".").six_digits(now.timestamp_subsec_micros());
        text.word("Z\"").op(record.op)?;
        text.dir_times(record.at);
        if let Some(actor) = record.actor {
            text.word(",\"actor\":");
            text.0.extend_from_slice(self.text_of(actor));
        }
        text.origin(record.origin).prev(record.prev);
        text.word("}");
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

    fn text_of(&mut self, actor: &Arc<Actor>) -> &[u8] {
        let same = |(known, _): &(Arc<Actor>, _)| Arc::ptr_eq(known, actor);
        if !self.actor.as_ref().is_some_and(same) {
            let mut text = Vec::new();
            LineBuffer(&mut text).actor(actor);
            self.actor = Some((actor.clone(), text));
        }
        self.actor.as_ref().map_or(&[], |(_, text)| text.as_slice())
    }
}

/// Returns the line of a record, without a newline.
///
/// # Errors
/// As [`LineEncoder::write`].
pub(super) fn line(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut text = LineBuffer(&mut line);
    text.begin(record.v, record.seq);
    text.text(&record.time).op(&record.op)?;
    text.dir_times(&record.at);
    if let Some(actor) = &record.actor {
        text.word(",\"actor\":").actor(actor);
    }
    text.origin(record.origin).prev(record.prev.as_bytes());
    text.word("}");
    Ok(line)
}

impl Seal {
    /// Returns the line with its check, which is computed, without a newline.
    ///
    /// # Errors
    /// As [`LineEncoder::write`].
    pub(super) fn line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut text = LineBuffer(&mut line);
        text.begin(self.v, self.seq);
        text.text(&self.time).named("op").text(&self.op);
        text.named("from").number(self.from);
        text.named("lines").text(&self.lines);
        text.list("digests", &self.digests)?;
        text.list("stamps", &self.stamps)?;
        text.list("unknown", &self.unknown)?;
        text.prev(self.prev.as_bytes());
        // The check is the hash of what precedes it.
        let check = hex(&Sha256::digest(&text.0));
        text.word(",\"check\":\"").0.extend_from_slice(&check);
        text.word("\"}");
        Ok(line)
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

    fn begin(&mut self, v: u32, seq: u64) {
        self.word("{\"v\":").number(v);
        self.word(",\"seq\":").number(seq).word(",\"time\":");
    }

    /// Writes an operation with its fields.
    fn op(&mut self, op: &Op) -> serde_json::Result<()> {
        self.word(",\"op\":\"").word(op.word()).word("\"");
        match op {
            Op::Create {
                path,
                mode,
                dropped,
            }
            | Op::Mknod {
                path,
                mode,
                dropped,
            } => {
                self.path("path", path).named("mode").number(*mode);
                self.some("dropped", *dropped);
            }
            Op::Mkdir { path, mode } => {
                self.path("path", path).named("mode").number(*mode);
            }
            Op::Symlink { path, target } => {
                self.path("path", path).escaped("target", target);
            }
            Op::Link { path, from, ids } => {
                self.path("path", path).path("from", from).ids("ids", ids);
            }
            Op::Unlink { path, ids, trash } | Op::Rmdir { path, ids, trash } => {
                self.path("path", path).ids("ids", ids);
                self.escaped("trash", trash);
            }
            Op::Rename {
                path,
                to,
                ids,
                replaced,
            }
            | Op::Restore {
                path,
                to,
                ids,
                replaced,
            } => {
                self.path("path", path).path("to", to).ids("ids", ids);
                if let Some(ReplacedFile { ids, trash }) = replaced {
                    self.word(",\"replaced\":{\"ids\":").pair(ids);
                    self.escaped("trash", trash).word("}");
                }
            }
            Op::Exchange {
                path,
                to,
                ids,
                other,
            } => {
                self.path("path", path).path("to", to);
                self.ids("ids", ids).ids("other", other);
            }
            Op::Gather {
                path,
                trash,
                entries,
                names,
            } => {
                self.path("path", path).escaped("trash", trash);
                self.value("entries", entries)?.list("names", names)?;
            }
            Op::Purge {
                entries,
                volatile,
                expired,
            } => {
                self.value("entries", entries)?.list("volatile", volatile)?;
                self.present("expired", expired)?;
            }
            _ if self.content_op(op).is_some() => {}
            _ => self.session_op(op)?,
        }
        Ok(())
    }

    /// Writes the fields of an operation on the content or the attributes of a file; `None` for others.
    fn content_op(&mut self, op: &Op) -> Option<()> {
        self.path("path", op.changed_file()?.0);
        self.ids("ids", op.ids().next()?);
        match op {
            Op::Write {
                size,
                mtime,
                mode,
                kept,
                ..
            } => {
                self.named("size").number(*size).mtime(mtime);
                self.some("mode", *mode).kept(*kept);
            }
            Op::Truncate {
                size,
                to,
                mtime,
                mode,
                kept,
                new,
                ..
            } => {
                self.named("size").number(*size).named("to").number(*to);
                self.mtime(mtime).some("mode", *mode).kept(*kept);
                self.new_ids(new.as_ref());
            }
            Op::Content {
                size,
                to,
                mtime,
                kept,
                new,
                ..
            } => {
                self.named("size").number(*size).named("to").number(*to);
                self.named("mtime").stamp(mtime).kept(*kept);
                self.new_ids(new.as_ref());
            }
            Op::Allocate {
                mode,
                range: (start, length),
                size,
                mtime,
                kept,
                ..
            } => {
                self.named("mode").number(*mode);
                self.ids("range", &[*start, *length]);
                self.named("size").number(*size).mtime(mtime).kept(*kept);
            }
            Op::Attr {
                was,
                mode,
                uid,
                gid,
                times,
                ..
            } => {
                self.was(was).some("mode", *mode);
                self.some("uid", *uid).some("gid", *gid);
                self.word(if *times { ",\"times\":true" } else { "" });
            }
            Op::Xattr { name, was, .. } => {
                self.escaped("name", name);
                if let Some(was) = was {
                    self.escaped("was", was);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Writes the fields of an operation that changes no file of the home.
    fn session_op(&mut self, op: &Op) -> serde_json::Result<()> {
        match op {
            Op::Begin {
                session,
                version,
                host,
                boot,
                home,
                after,
                store,
                copied,
                mounted,
            } => {
                self.named("session").text(session);
                self.named("version").text(version);
                self.named("host").text(host).named("boot").text(boot);
                self.present("home", home)?.present("after", after)?;
                self.present("store", store)?.present("copied", copied)?;
                self.present("mounted", mounted)?;
            }
            Op::End { settled } => {
                self.word(if *settled { ",\"settled\":true" } else { "" });
            }
            Op::Run {
                command,
                length,
                cwd,
                also,
            } => {
                self.escaped("command", command);
                self.some("length", *length).path("cwd", cwd);
                self.list("also", also)?;
            }
            Op::Checkpoint { name, mark } => {
                self.named("name").text(name);
                if let Some(mark) = mark {
                    self.value("mark", mark)?;
                }
            }
            Op::Undo {
                what,
                of,
                redo,
                also,
            } => {
                self.named("what").text(what).list("of", of)?;
                self.word(if *redo { ",\"redo\":true" } else { "" });
                self.list("also", also)?;
            }
            Op::Accept {
                what,
                run,
                of,
                hunks,
            } => {
                self.named("what").text(what).present("run", run)?;
                self.value("of", of)?.list("hunks", hunks)?;
            }
            Op::Evict { versions, volatile } => {
                self.value("versions", versions)?
                    .list("volatile", volatile)?;
            }
            Op::Abort { of, error } => {
                self.named("of").number(*of).named("error").text(error);
            }
            _ => {}
        }
        Ok(())
    }

    fn mtime(&mut self, mtime: &FileTime) -> &mut Self {
        match is_zero(mtime) {
            true => self,
            false => self.named("mtime").stamp(mtime),
        }
    }

    fn kept(&mut self, kept: Option<VersionRef>) {
        if let Some(VersionRef { how, n }) = kept {
            self.word(",\"kept\":{\"how\":\"").word(how.word());
            self.word("\",\"n\":").number(n).word("}");
        }
    }

    fn was(&mut self, was: &FormerAttrs) -> &mut Self {
        self.word(",\"was\":{\"mode\":").number(was.mode);
        self.named("uid").number(was.uid);
        self.named("gid").number(was.gid);
        self.named("atime").stamp(&was.atime);
        self.named("mtime").stamp(&was.mtime).word("}")
    }

    fn dir_times(&mut self, at: &[DirTime]) {
        let mut mark = ",\"at\":[[";
        for (seconds, nanoseconds, inode) in at {
            self.word(mark).number(*seconds).word(",");
            self.number(*nanoseconds).word(",").number(*inode);
            mark = "],[";
        }
        self.word(if at.is_empty() { "" } else { "]]" });
    }

    fn actor(&mut self, actor: &Actor) {
        self.word("{\"pid\":").number(actor.pid);
        self.named("uid").number(actor.uid);
        self.named("gid").number(actor.gid);
        for (name, text) in [("comm", &actor.comm), ("exe", &actor.exe)] {
            if !text.is_empty() {
                self.named(name).text(text);
            }
        }
        self.some("undo", actor.undo).word("}");
    }

    fn origin(&mut self, origin: Origin) -> &mut Self {
        if origin.is_plain() {
            return self;
        }
        self.word(",\"origin\":{\"kind\":\"");
        self.word(origin.kind.word()).word("\"");
        if let Some(run) = origin.run {
            self.named("run").text(&run.to_string());
        }
        self.word("}")
    }

    fn prev(&mut self, digits: &[u8]) {
        self.named("prev").word("\"");
        self.0.extend_from_slice(digits);
        self.word("\"");
    }

    fn named(&mut self, name: &str) -> &mut Self {
        self.word(",\"").word(name).word("\":")
    }

    fn some(&mut self, name: &str, number: Option<impl itoa::Integer>) -> &mut Self {
        match number {
            Some(number) => self.named(name).number(number),
            None => self,
        }
    }

    fn stamp(&mut self, (seconds, nanoseconds): &FileTime) -> &mut Self {
        self.word("[").number(*seconds).word(",");
        self.number(*nanoseconds).word("]")
    }

    fn pair(&mut self, [one, two]: &InodeNumbers) -> &mut Self {
        self.word("[").number(*one).word(",").number(*two).word("]")
    }

    fn ids(&mut self, name: &str, ids: &InodeNumbers) -> &mut Self {
        self.named(name).pair(ids)
    }

    fn new_ids(&mut self, new: Option<&InodeNumbers>) {
        if let Some(new) = new {
            self.ids("new", new);
        }
    }

    fn path(&mut self, name: &str, path: &WorldPath) -> &mut Self {
        self.named(name).word("\"/").escaped_end(path.bytes())
    }

    fn escaped(&mut self, name: &str, bytes: &EscapedBytes) -> &mut Self {
        self.named(name).word("\"").escaped_end(&bytes.0)
    }

    /// Writes escaped bytes, and the quote after them.
    fn escaped_end(&mut self, bytes: &[u8]) -> &mut Self {
        if bytes.iter().all(is_plain) {
            self.0.extend_from_slice(bytes);
            return self.word("\"");
        }
        self.text_end(&escape(bytes))
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.word("\"").text_end(text)
    }

    /// Writes a text after its first quote.
    fn text_end(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                8 => "\\b",
                12 => "\\f",
                control @ 0..b' ' => {
                    let digits = hex(&[control]);
                    self.word("\\u00").0.extend(digits.iter().take(2));
                    continue;
                }
                plain => {
                    self.0.push(plain);
                    continue;
                }
            };
            self.word(escape);
        }
        self.word("\"")
    }

    /// Writes a value that has a form of its own.
    fn value(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<&mut Self> {
        self.named(name);
        serde_json::to_writer(&mut *self.0, value)?;
        Ok(self)
    }

    /// Writes a value that may be absent.
    fn present(
        &mut self,
        name: &str,
        value: &Option<impl Serialize>,
    ) -> serde_json::Result<&mut Self> {
        match value {
            Some(value) => self.value(name, value),
            None => Ok(self),
        }
    }

    /// Writes a list, unless it is empty.
    fn list(&mut self, name: &str, items: &[impl Serialize]) -> serde_json::Result<&mut Self> {
        match items {
            [] => Ok(self),
            _ => self.value(name, &items),
        }
    }
}

/// Returns whether a byte needs no escape.
fn is_plain(byte: &u8) -> bool {
    matches!(*byte, b' '..=b'~') && !matches!(*byte, b'"' | b'\\')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::form_tests::samples;
    use super::*;

    /// Returns the line of a record as a journal writes it.
    fn written(encoder: &mut LineEncoder, record: &Record) -> Vec<u8> {
        let mut line = b"former content".to_vec();
        let actor = record.actor.clone().map(Arc::new);
        let parts = RecordParts {
            v: record.v,
            seq: record.seq,
            op: &record.op,
            at: &record.at,
            actor: actor.as_ref(),
            origin: record.origin,
            prev: record.prev.as_bytes(),
        };
        let now = chrono::DateTime::parse_from_rfc3339(&record.time).unwrap();
        encoder.write(&mut line, now.to_utc(), &parts).unwrap();
        line
    }

    #[test]
    fn times_and_actors_are_those_of_each_line() {
        let mut encoder = LineEncoder::default();
        for mut record in samples() {
            for (time, pid) in [
                ("2026-01-16T10:15:30.999999Z", 1),
                ("2026-01-16T10:15:31.000000Z", 2),
                ("2026-01-16T10:15:31.000001Z", 2),
                ("1969-12-31T23:59:59.500000Z", 3),
                ("2026-01-16T10:15:31.000001Z", 1),
            ] {
                record.time = time.to_owned();
                if let Some(actor) = &mut record.actor {
                    actor.pid = pid;
                }
                assert_eq!(written(&mut encoder, &record), line(&record).unwrap());
            }
        }
    }
}
