//! The fields of a line, read once and in place, for every reader of a journal.
//!
//! Owns the names and forms of fields for reading, as `encoder.rs` does for writing. The order of the fields between
//! `op` and `prev` makes no difference, no field occurs twice, and fields of a later release are skipped. Lines in
//! another form are invalid, or of an earlier schema (`old_lines.rs`).

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use super::former::{FormerAttrs, KeepMethod, ReplacedFile, VersionRef};
use super::ids::InodeNumbers;
use super::json_cursor::{JsonCursor, JsonText};
use super::op::Op;
use super::record::{Actor, Record};
use super::seal::{self, Seal};
use super::stamp::{DirTime, FileTime};
use crate::name::{EscapedBytes, WorldPath, unescape};
use trumanfs_types::origin::{Origin, OriginKind};

/// The fields of a record or a seal. Those of rare operations are kept as JSON until they are needed.
#[derive(Debug, Default)]
pub(super) struct LineFields<'a> {
    v: u32,
    seq: u64,
    time: Option<JsonText<'a>>,
    pub(super) op: &'a str,
    pub(super) path: Option<JsonText<'a>>,
    pub(super) to: Option<JsonText<'a>>,
    to_size: Option<u64>,
    pub(super) from: Option<JsonText<'a>>,
    from_seq: Option<u64>,
    pub(super) trash: Option<JsonText<'a>>,
    pub(super) ids: Option<InodeNumbers>,
    pub(super) new: Option<InodeNumbers>,
    pub(super) other: Option<InodeNumbers>,
    pub(super) replaced: Option<ReplacedFields<'a>>,
    mode: Option<u32>,
    dropped: Option<u32>,
    size: Option<u64>,
    mtime: Option<FileTime>,
    kept: Option<VersionRef>,
    was: Option<FormerAttrs>,
    was_value: Option<JsonText<'a>>,
    uid: Option<u32>,
    gid: Option<u32>,
    has_times: Option<bool>,
    at: Option<&'a [u8]>,
    /// As JSON, because most readers do without it.
    actor: Option<&'a [u8]>,
    origin: Option<Origin>,
    prev: Option<JsonText<'a>>,
    check: Option<JsonText<'a>>,
    /// The fields that have a form of their own in each operation.
    rare: RareFields<'a>,
}

/// Names of entries of the trash, each with the whole name that it shortens.
pub(super) type TruncatedNames = Vec<(EscapedBytes, EscapedBytes)>;

/// The file that a rename or a restoration replaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplacedFields<'a> {
    pub(super) ids: InodeNumbers,
    pub(super) trash: JsonText<'a>,
}

/// Names and JSON of fields of rare operations.
#[derive(Debug, Default)]
struct RareFields<'a>(Vec<(&'a [u8], &'a [u8])>);

/// The names of the fields of rare operations.
const RARE: [&[u8]; 32] = [
    b"settled",
    b"session",
    b"version",
    b"host",
    b"boot",
    b"home",
    b"after",
    b"store",
    b"copied",
    b"mounted",
    b"command",
    b"length",
    b"cwd",
    b"target",
    b"name",
    b"entries",
    b"names",
    b"mark",
    b"range",
    b"what",
    b"of",
    b"redo",
    b"also",
    b"run",
    b"hunks",
    b"versions",
    b"volatile",
    b"expired",
    b"error",
    b"digests",
    b"stamps",
    b"unknown",
];

impl<'a> LineFields<'a> {
    /// Reads the fields of a line; `None` if the line is not in this form.
    pub(super) fn read(line: &'a [u8]) -> Option<LineFields<'a>> {
        let mut fields = LineFields::default();
        let mut rest = JsonCursor(line);
        rest.skip("{\"v\":")?;
        fields.v = rest.number()?;
        rest.skip(",\"seq\":")?;
        fields.seq = rest.number()?;
        rest.skip(",\"time\":")?;
        fields.time = Some(rest.text()?);
        rest.skip(",\"op\":")?;
        fields.op = rest.text()?.plain()?;
        fields.read_rest(rest)?;
        Some(fields)
    }

    /// Reads the fields after `op`.
    pub(super) fn after_op(op: &'a str, rest: &'a [u8]) -> Option<LineFields<'a>> {
        let mut fields = LineFields {
            op,
            ..LineFields::default()
        };
        fields.read_rest(JsonCursor(rest))?;
        Some(fields)
    }

    fn read_rest(&mut self, mut rest: JsonCursor<'a>) -> Option<()> {
        while self.prev.is_none() {
            rest.skip(",\"")?;
            self.field(rest.name()?, &mut rest)?;
        }
        if rest.skip(",\"check\":").is_some() {
            self.check = Some(rest.text()?);
        }
        rest.skip("}")?;
        rest.is_at_end().then_some(())
    }

    /// Reads the value of a field after `op`.
    fn field(&mut self, name: &'a [u8], value: &mut JsonCursor<'a>) -> Option<()> {
        match name {
            b"path" => once(&mut self.path, value.text()),
            b"ids" => once(&mut self.ids, pair(value)),
            b"trash" => once(&mut self.trash, value.text()),
            b"at" => once(&mut self.at, value.number_arrays()),
            b"actor" => once(&mut self.actor, value.value()),
            b"prev" => once(&mut self.prev, value.text()),
            b"mode" => once(&mut self.mode, value.number()),
            b"size" => once(&mut self.size, value.number()),
            b"mtime" => once(&mut self.mtime, file_time(value)),
            b"kept" => once(&mut self.kept, version(value)),
            b"origin" => once(&mut self.origin, origin(value)),
            b"to" if value.is_next(b'"') => once(&mut self.to, value.text()),
            b"to" => once(&mut self.to_size, value.number()),
            b"was" if value.is_next(b'"') => once(&mut self.was_value, value.text()),
            b"was" => once(&mut self.was, attrs(value)),
            b"times" => once(&mut self.has_times, boolean(value)),
            b"uid" => once(&mut self.uid, value.number()),
            b"gid" => once(&mut self.gid, value.number()),
            b"new" => once(&mut self.new, pair(value)),
            b"replaced" => once(&mut self.replaced, ReplacedFields::read(value)),
            b"from" if value.is_next(b'"') => once(&mut self.from, value.text()),
            b"from" => once(&mut self.from_seq, value.number()),
            b"other" => once(&mut self.other, pair(value)),
            b"dropped" => once(&mut self.dropped, value.number()),
            b"lines" => self.rare.add(name, value),
            _ if RARE.contains(&name) => self.rare.add(name, value),
            b"v" | b"seq" | b"time" | b"op" | b"check" => None,
            // Of a later release.
            _ => value.unknown(name),
        }
    }

    /// Returns the record; without what only some readers need (`time`, `actor`, `prev`), if `whole` is false.
    pub(super) fn record(&self, whole: bool) -> Option<Record> {
        let keep = |text: Option<JsonText<'_>>| match whole {
            true => Some(text?.text()?.into_owned()),
            false => Some(String::new()),
        };
        if self.check.is_some() {
            return None;
        }
        let (time, prev) = (keep(self.time)?, keep(self.prev)?);
        let op = self.op()?;
        let actor = optional(self.actor.filter(|_| whole), actor)?;
        Some(Record {
            v: self.v,
            seq: self.seq,
            time,
            op,
            at: optional(self.at, dir_times)?.unwrap_or_default(),
            actor,
            origin: self.origin.unwrap_or_default(),
            prev,
        })
    }

    /// Returns the operation.
    fn op(&self) -> Option<Op> {
        Some(match self.op {
            "create" => Op::Create {
                path: self.path()?,
                mode: self.mode?,
                dropped: self.dropped,
            },
            "mkdir" => Op::Mkdir {
                path: self.path()?,
                mode: self.mode?,
            },
            "mknod" => Op::Mknod {
                path: self.path()?,
                mode: self.mode?,
                dropped: self.dropped,
            },
            "symlink" => Op::Symlink {
                path: self.path()?,
                target: self.rare.get("target")?,
            },
            "link" => Op::Link {
                path: self.path()?,
                from: path(self.from?)?,
                ids: self.ids?,
            },
            "unlink" => Op::Unlink {
                path: self.path()?,
                ids: self.ids?,
                trash: bytes(self.trash?)?,
            },
            "rmdir" => Op::Rmdir {
                path: self.path()?,
                ids: self.ids?,
                trash: bytes(self.trash?)?,
            },
            "rename" => Op::Rename {
                path: self.path()?,
                to: path(self.to?)?,
                ids: self.ids?,
                replaced: self.replaced()?,
            },
            "exchange" => Op::Exchange {
                path: self.path()?,
                to: path(self.to?)?,
                ids: self.ids?,
                other: self.other?,
            },
            "restore" => Op::Restore {
                path: self.path()?,
                to: path(self.to?)?,
                ids: self.ids?,
                replaced: self.replaced()?,
            },
            "gather" => Op::Gather {
                path: self.path()?,
                trash: bytes(self.trash?)?,
                entries: self.rare.get("entries")?,
                names: self.rare.or_default("names")?,
            },
            "purge" => Op::Purge {
                entries: self.rare.get("entries")?,
                volatile: self.rare.or_default("volatile")?,
                expired: self.rare.or_default("expired")?,
            },
            _ => self.content_op().or_else(|| self.session_op())?,
        })
    }

    /// Returns an operation on the content or the attributes of a file.
    fn content_op(&self) -> Option<Op> {
        let (path, ids) = (self.path()?, self.ids?);
        // Lines of old journals lack the time of the content before.
        let mtime = self.mtime.unwrap_or_default();
        Some(match self.op {
            "write" => Op::Write {
                path,
                ids,
                size: self.size?,
                mtime,
                mode: self.mode,
                kept: self.kept,
            },
            "truncate" => Op::Truncate {
                path,
                ids,
                size: self.size?,
                to: self.to_size?,
                mtime,
                mode: self.mode,
                kept: self.kept,
                new: self.new,
            },
            "content" => Op::Content {
                path,
                ids,
                size: self.size?,
                to: self.to_size?,
                mtime: self.mtime?,
                kept: self.kept,
                new: self.new,
            },
            "allocate" => Op::Allocate {
                path,
                ids,
                mode: self.mode?,
                range: self.rare.get("range")?,
                size: self.size.unwrap_or_default(),
                mtime,
                kept: self.kept,
            },
            "attr" => Op::Attr {
                path,
                ids,
                was: self.was.clone()?,
                mode: self.mode,
                uid: self.uid,
                gid: self.gid,
                times: self.has_times.unwrap_or_default(),
            },
            "xattr" => Op::Xattr {
                path,
                ids,
                name: self.rare.get("name")?,
                was: optional(self.was_value, bytes)?,
            },
            _ => return None,
        })
    }

    /// Returns an operation that changes no file of the home.
    fn session_op(&self) -> Option<Op> {
        let rare = &self.rare;
        Some(match self.op {
            "begin" => Op::Begin {
                session: rare.get("session")?,
                version: rare.get("version")?,
                host: rare.get("host")?,
                boot: rare.get("boot")?,
                home: rare.or_default("home")?,
                after: rare.or_default("after")?,
                store: rare.or_default("store")?,
                copied: rare.or_default("copied")?,
                mounted: rare.or_default("mounted")?,
            },
            "end" => Op::End {
                settled: rare.or_default("settled")?,
            },
            "run" => Op::Run {
                command: rare.get("command")?,
                length: rare.or_default("length")?,
                cwd: rare.get("cwd")?,
                also: rare.or_default("also")?,
            },
            "checkpoint" => Op::Checkpoint {
                name: rare.get("name")?,
                mark: rare.or_default("mark")?,
            },
            "undo" => Op::Undo {
                what: rare.get("what")?,
                of: rare.or_default("of")?,
                redo: rare.or_default("redo")?,
                also: rare.or_default("also")?,
            },
            "accept" => Op::Accept {
                what: rare.get("what")?,
                run: rare.or_default("run")?,
                of: rare.get("of")?,
                hunks: rare.or_default("hunks")?,
            },
            "evict" => Op::Evict {
                versions: rare.get("versions")?,
                volatile: rare.or_default("volatile")?,
            },
            "abort" => Op::Abort {
                of: rare.get("of")?,
                error: rare.get("error")?,
            },
            _ => return None,
        })
    }

    /// Returns the seal; `None` if the line is a record.
    pub(super) fn seal(&self) -> Option<Seal> {
        let text = |text: Option<JsonText<'_>>| Some(text?.text()?.into_owned());
        Some(Seal {
            v: self.v,
            seq: self.seq,
            time: text(self.time)?,
            op: Some(self.op).filter(|op| *op == seal::WORD)?.to_owned(),
            from: self.from_seq?,
            lines: self.rare.get("lines")?,
            digests: self.rare.or_default("digests")?,
            stamps: self.rare.or_default("stamps")?,
            unknown: self.rare.or_default("unknown")?,
            prev: text(self.prev)?,
            check: text(self.check)?,
        })
    }

    /// Returns the entries of the trash in a gathering or purge, and the names that its entries truncate.
    pub(super) fn entries(&self) -> Option<(Vec<EscapedBytes>, TruncatedNames)> {
        Some((
            self.rare.or_default("entries")?,
            self.rare.or_default("names")?,
        ))
    }

    fn path(&self) -> Option<WorldPath> {
        path(self.path?)
    }

    fn replaced(&self) -> Option<Option<ReplacedFile>> {
        optional(self.replaced, |ReplacedFields { ids, trash }| {
            let trash = bytes(trash)?;
            Some(ReplacedFile { ids, trash })
        })
    }
}

impl<'a> RareFields<'a> {
    fn add(&mut self, name: &'a [u8], value: &mut JsonCursor<'a>) -> Option<()> {
        if self.0.iter().any(|(known, _)| *known == name) {
            return None;
        }
        self.0.push((name, value.value()?));
        Some(())
    }

    /// Returns a field that the operation must have.
    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name.as_bytes())?;
        serde_json::from_slice(value).ok()
    }

    /// Returns a field that may be absent; `None` if it is invalid.
    fn or_default<T: DeserializeOwned + Default>(&self, name: &str) -> Option<T> {
        match self.0.iter().any(|(known, _)| *known == name.as_bytes()) {
            true => self.get(name),
            false => Some(T::default()),
        }
    }
}

impl<'a> ReplacedFields<'a> {
    fn read(value: &mut JsonCursor<'a>) -> Option<ReplacedFields<'a>> {
        let (mut ids, mut trash) = (None, None);
        value.object(|name, value| match name {
            b"ids" => once(&mut ids, pair(value)),
            b"trash" => once(&mut trash, value.text()),
            _ => value.unknown(name),
        })?;
        Some(ReplacedFields {
            ids: ids?,
            trash: trash?,
        })
    }
}

fn actor(value: &[u8]) -> Option<Actor> {
    let (mut pid, mut uid, mut gid, mut undo) = (None, None, None, None);
    let (mut comm, mut exe) = (None, None);
    let mut value = JsonCursor(value);
    value.object(|name, value| match name {
        b"pid" => once(&mut pid, value.number()),
        b"uid" => once(&mut uid, value.number()),
        b"gid" => once(&mut gid, value.number()),
        b"comm" => once(&mut comm, value.text()),
        b"exe" => once(&mut exe, value.text()),
        b"undo" => once(&mut undo, value.number()),
        _ => value.unknown(name),
    })?;
    let text = |text: Option<JsonText<'_>>| match text {
        Some(text) => text.text().map(Cow::into_owned),
        None => Some(String::new()),
    };
    value.is_at_end().then_some(Actor {
        pid: pid?,
        uid: uid?,
        gid: gid?,
        comm: text(comm)?,
        exe: text(exe)?,
        undo,
    })
}

/// Sets a field; `None` if its value is invalid or the field occurs twice.
fn once<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    match field.replace(value?) {
        Some(_) => None,
        None => Some(()),
    }
}

/// Converts an optional value; `None` if it is present and invalid.
fn optional<T, U>(value: Option<T>, convert: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    match value {
        Some(value) => convert(value).map(Some),
        None => Some(None),
    }
}

/// Returns the bytes that an escaped text stands for.
pub(super) fn unescaped<'a>(text: JsonText<'a>) -> Option<Cow<'a, [u8]>> {
    Some(match text.text()? {
        Cow::Borrowed(plain) => Cow::Borrowed(plain.as_bytes()),
        Cow::Owned(text) => Cow::Owned(unescape(&text)?),
    })
}

fn bytes(text: JsonText<'_>) -> Option<EscapedBytes> {
    unescaped(text).map(|bytes| EscapedBytes(bytes.into_owned()))
}

fn path(text: JsonText<'_>) -> Option<WorldPath> {
    WorldPath::parse(&unescaped(text)?).ok()
}

fn plain<'a>(value: &mut JsonCursor<'a>) -> Option<&'a str> {
    value.text()?.plain()
}

fn boolean(value: &mut JsonCursor<'_>) -> Option<bool> {
    match value.skip("true") {
        Some(()) => Some(true),
        None => value.skip("false").map(|()| false),
    }
}

fn pair(value: &mut JsonCursor<'_>) -> Option<InodeNumbers> {
    value.skip("[")?;
    let device = value.number()?;
    value.skip(",")?;
    let inode = value.number()?;
    value.skip("]")?;
    Some([device, inode])
}

fn file_time(value: &mut JsonCursor<'_>) -> Option<FileTime> {
    value.skip("[")?;
    let seconds = value.signed()?;
    value.skip(",")?;
    let nanoseconds = value.number()?;
    value.skip("]")?;
    Some((seconds, nanoseconds))
}

fn dir_times(value: &[u8]) -> Option<Vec<DirTime>> {
    let mut all = Vec::with_capacity(2);
    let mut value = JsonCursor(value);
    value.array(|value| {
        value.skip("[")?;
        let seconds = value.signed()?;
        value.skip(",")?;
        let nanoseconds = value.number()?;
        value.skip(",")?;
        let inode = value.number()?;
        value.skip("]")?;
        all.push((seconds, nanoseconds, inode));
        Some(())
    })?;
    value.is_at_end().then_some(all)
}

fn version(value: &mut JsonCursor<'_>) -> Option<VersionRef> {
    let (mut how, mut n) = (None, None);
    value.object(|name, value| match name {
        b"how" => once(&mut how, plain(value).and_then(KeepMethod::of_word)),
        b"n" => once(&mut n, value.number()),
        _ => value.unknown(name),
    })?;
    Some(VersionRef { how: how?, n: n? })
}

fn attrs(value: &mut JsonCursor<'_>) -> Option<FormerAttrs> {
    let (mut mode, mut uid, mut gid, mut atime, mut mtime) = (None, None, None, None, None);
    value.object(|name, value| match name {
        b"mode" => once(&mut mode, value.number()),
        b"uid" => once(&mut uid, value.number()),
        b"gid" => once(&mut gid, value.number()),
        b"atime" => once(&mut atime, file_time(value)),
        b"mtime" => once(&mut mtime, file_time(value)),
        _ => value.unknown(name),
    })?;
    Some(FormerAttrs {
        mode: mode?,
        uid: uid?,
        gid: gid?,
        atime: atime?,
        mtime: mtime?,
    })
}

/// Reads the origin of a change.
pub(super) fn origin(value: &mut JsonCursor<'_>) -> Option<Origin> {
    let (mut kind, mut run) = (None, None);
    value.object(|name, value| match name {
        b"kind" => once(&mut kind, plain(value).and_then(OriginKind::of_word)),
        b"run" => once(&mut run, plain(value).and_then(|run| run.parse().ok())),
        _ => value.unknown(name),
    })?;
    Some(Origin { kind: kind?, run })
}
