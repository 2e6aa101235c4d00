//! Fast parsing of records in the form in which [`Record`] is written: fields in their fixed order, no text with an
//! escape.
//!
//! Decides no meaning: serde would read every accepted line the same way. Other lines (a rare operation, a name with a
//! backslash, a line of another program) are left to serde. This saves most of the time of reading a journal.

use super::former::{FormerAttrs, KeepMethod, ReplacedFile, VersionRef};
use super::ids::InodeNumbers;
use super::op::Op;
use super::record::{Actor, Record};
use super::stamp::{DirTime, FileTime};
use crate::name::{EscapedBytes, WorldPath};
use trumanfs_types::origin::{Origin, OriginKind};

impl Record {
    /// Parses a line. The result is that of its `Deserialize`, but serde buffers every field of a flattened tagged
    /// enum twice; lines in the usual form avoid that.
    ///
    /// # Errors
    /// The syntax error of an invalid line.
    pub fn parse(line: &[u8]) -> serde_json::Result<Record> {
        match record(line, true) {
            Some(record) => Ok(record),
            None => serde_json::from_slice(line),
        }
    }

    /// As [`Record::parse`], for callers that only need the operation: `time`, `actor` and `prev`, which are most of
    /// a record's memory, are left empty.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn parse_operation(line: &[u8]) -> serde_json::Result<Record> {
        match record(line, false) {
            Some(record) => Ok(record),
            None => serde_json::from_slice(line).map(|record: Record| Record {
                time: String::new(),
                actor: None,
                prev: String::new(),
                ..record
            }),
        }
    }
}

/// Parses a line; `None` where it is not in the usual form. Actor, time and the previous line's hash are always read,
/// and kept if `wanted`.
pub(super) fn record(line: &[u8], wanted: bool) -> Option<Record> {
    let keep = |text: &str| match wanted {
        true => text.to_owned(),
        false => String::new(),
    };
    let mut text = LineParser(std::str::from_utf8(line).ok()?);
    text.skip("{\"v\":")?;
    let v = text.number()?;
    let seq = text.field(",\"seq\":", LineParser::number)?;
    let time = keep(text.field(",\"time\":", LineParser::string)?);
    let op = match text.field(",\"op\":", LineParser::string)? {
        "create" => text.create()?,
        "mkdir" => Op::Mkdir {
            path: text.path()?,
            mode: text.mode()?,
        },
        "unlink" => Op::Unlink {
            path: text.path()?,
            ids: text.ids()?,
            trash: text.trash()?,
        },
        "rmdir" => Op::Rmdir {
            path: text.path()?,
            ids: text.ids()?,
            trash: text.trash()?,
        },
        "rename" => Op::Rename {
            path: text.path()?,
            to: text.field(",\"to\":", LineParser::world_path)?,
            ids: text.ids()?,
            replaced: text.optional(",\"replaced\":", LineParser::replaced)?,
        },
        "write" => Op::Write {
            path: text.path()?,
            ids: text.ids()?,
            size: text.field(",\"size\":", LineParser::number)?,
            mtime: text.mtime()?,
            mode: text.optional(",\"mode\":", LineParser::number)?,
            kept: text.optional(",\"kept\":", LineParser::kept)?,
        },
        "truncate" => Op::Truncate {
            path: text.path()?,
            ids: text.ids()?,
            size: text.field(",\"size\":", LineParser::number)?,
            to: text.field(",\"to\":", LineParser::number)?,
            mtime: text.mtime()?,
            mode: text.optional(",\"mode\":", LineParser::number)?,
            kept: text.optional(",\"kept\":", LineParser::kept)?,
            new: text.optional(",\"new\":", LineParser::pair)?,
        },
        "attr" => Op::Attr {
            path: text.path()?,
            ids: text.ids()?,
            was: text.field(",\"was\":", LineParser::was)?,
            mode: text.optional(",\"mode\":", LineParser::number)?,
            uid: text.optional(",\"uid\":", LineParser::number)?,
            gid: text.optional(",\"gid\":", LineParser::number)?,
            times: text.optional(",\"times\":true", |_| Some(()))?.is_some(),
        },
        _ => return None,
    };
    let record = Record {
        v,
        seq,
        time,
        op,
        at: text
            .optional(",\"at\":", LineParser::at)?
            .unwrap_or_default(),
        actor: text
            .optional(",\"actor\":", |text| text.actor(keep))?
            .filter(|_| wanted),
        origin: text
            .optional(",\"origin\":", LineParser::origin)?
            .unwrap_or_default(),
        prev: keep(text.field(",\"prev\":", LineParser::string)?),
    };
    (text.0 == "}").then_some(record)
}

/// The rest of the line.
struct LineParser<'a>(&'a str);

impl<'a> LineParser<'a> {
    fn skip(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    fn field<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.skip(name)?;
        read(self)
    }

    /// Reads an optional field; `None` where it is present and malformed.
    fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.skip(name) {
            Some(()) => read(self).map(Some),
            None => Some(None),
        }
    }

    /// Reads a text without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let end = memchr::memchr(b'"', self.0.as_bytes())?;
        let (text, rest) = self.0.split_at_checked(end)?;
        // Control characters are not allowed in a text.
        if text.bytes().any(|b| b == b'\\' || b < b' ') {
            return None;
        }
        self.0 = rest.strip_prefix('"')?;
        Some(text)
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut number: u64 = 0;
        let mut length = 0;
        for digit in self.0.bytes().take_while(u8::is_ascii_digit) {
            number = number
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            length += 1;
        }
        let (digits, rest) = self.0.split_at_checked(length)?;
        // No digits, or a leading zero: not a number.
        if length == 0 || (length > 1 && digits.starts_with('0')) {
            return None;
        }
        self.0 = rest;
        T::try_from(number).ok()
    }

    fn signed(&mut self) -> Option<i64> {
        match self.skip("-") {
            Some(()) => self
                .number::<i64>()
                .filter(|number| *number > 0)
                .map(|n| -n),
            None => self.number(),
        }
    }

    /// Reads a creation. A line with `dropped` is left to serde, as all that is rare.
    fn create(&mut self) -> Option<Op> {
        Some(Op::Create {
            path: self.path()?,
            mode: self.mode()?,
            dropped: None,
        })
    }

    fn pair(&mut self) -> Option<InodeNumbers> {
        let one = self.field("[", LineParser::number)?;
        let two = self.field(",", LineParser::number)?;
        self.skip("]")?;
        Some([one, two])
    }

    fn stamp(&mut self) -> Option<FileTime> {
        let seconds = self.field("[", LineParser::signed)?;
        let nanoseconds = self.field(",", LineParser::number)?;
        self.skip("]")?;
        Some((seconds, nanoseconds))
    }

    fn at(&mut self) -> Option<Vec<DirTime>> {
        let mut all = Vec::with_capacity(2);
        self.skip("[")?;
        loop {
            let seconds = self.field("[", LineParser::signed)?;
            let nanoseconds = self.field(",", LineParser::number)?;
            let inode = self.field(",", LineParser::number)?;
            self.skip("]")?;
            all.push((seconds, nanoseconds, inode));
            if self.skip("]").is_some() {
                return Some(all);
            }
            self.skip(",")?;
        }
    }

    fn world_path(&mut self) -> Option<WorldPath> {
        WorldPath::parse(self.string()?.as_bytes()).ok()
    }

    fn escaped(&mut self) -> Option<EscapedBytes> {
        Some(EscapedBytes(self.string()?.as_bytes().to_vec()))
    }

    fn path(&mut self) -> Option<WorldPath> {
        self.field(",\"path\":", LineParser::world_path)
    }

    fn mode(&mut self) -> Option<u32> {
        self.field(",\"mode\":", LineParser::number)
    }

    /// Reads the time of the content before, which lines of old journals lack.
    fn mtime(&mut self) -> Option<FileTime> {
        let mtime = self.optional(",\"mtime\":", LineParser::stamp)?;
        Some(mtime.unwrap_or((0, 0)))
    }

    fn ids(&mut self) -> Option<InodeNumbers> {
        self.field(",\"ids\":", LineParser::pair)
    }

    fn trash(&mut self) -> Option<EscapedBytes> {
        self.field(",\"trash\":", LineParser::escaped)
    }

    fn replaced(&mut self) -> Option<ReplacedFile> {
        let ids = self.field("{\"ids\":", LineParser::pair)?;
        let trash = self.trash()?;
        self.skip("}")?;
        Some(ReplacedFile { ids, trash })
    }

    fn kept(&mut self) -> Option<VersionRef> {
        let how = match self.field("{\"how\":", LineParser::string)? {
            "moved" => KeepMethod::Moved,
            "cloned" => KeepMethod::Cloned,
            "copied" => KeepMethod::Copied,
            "blocks" => KeepMethod::Blocks,
            "length" => KeepMethod::Length,
            _ => return None,
        };
        let n = self.field(",\"n\":", LineParser::number)?;
        self.skip("}")?;
        Some(VersionRef { how, n })
    }

    fn was(&mut self) -> Option<FormerAttrs> {
        let was = FormerAttrs {
            mode: self.field("{\"mode\":", LineParser::number)?,
            uid: self.field(",\"uid\":", LineParser::number)?,
            gid: self.field(",\"gid\":", LineParser::number)?,
            atime: self.field(",\"atime\":", LineParser::stamp)?,
            mtime: self.field(",\"mtime\":", LineParser::stamp)?,
        };
        self.skip("}")?;
        Some(was)
    }

    fn origin(&mut self) -> Option<Origin> {
        let kind = self.field("{\"kind\":", LineParser::string)?;
        let origin = Origin {
            kind: OriginKind::of_word(kind)?,
            run: self.optional(",\"run\":", |text| text.string()?.parse().ok())?,
        };
        self.skip("}")?;
        Some(origin)
    }

    fn actor(&mut self, keep: impl Fn(&str) -> String) -> Option<Actor> {
        let text = |text: Option<&str>| keep(text.unwrap_or_default());
        let actor = Actor {
            pid: self.field("{\"pid\":", LineParser::number)?,
            uid: self.field(",\"uid\":", LineParser::number)?,
            gid: self.field(",\"gid\":", LineParser::number)?,
            comm: text(self.optional(",\"comm\":", LineParser::string)?),
            exe: text(self.optional(",\"exe\":", LineParser::string)?),
            undo: self.optional(",\"undo\":", LineParser::number)?,
        };
        self.skip("}")?;
        Some(actor)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(super) mod tests {
    use super::*;

    fn path() -> WorldPath {
        WorldPath::parse("d/ä 1".as_bytes()).unwrap()
    }

    const IDS: [u64; 2] = [65024, u64::MAX];

    fn of_names() -> Vec<Op> {
        let ids = IDS;
        let trash = || EscapedBytes(b"20260116T101530.123456Z_a".to_vec());
        let replaced = Some(ReplacedFile {
            ids,
            trash: trash(),
        });
        vec![
            Op::Create {
                path: path(),
                mode: 0,
                dropped: None,
            },
            Op::Mkdir {
                path: WorldPath::root(),
                mode: 0o755,
            },
            Op::Unlink {
                path: path(),
                ids,
                trash: trash(),
            },
            Op::Rmdir {
                path: path(),
                ids,
                trash: trash(),
            },
            Op::Rename {
                path: path(),
                to: path(),
                ids,
                replaced: None,
            },
            Op::Rename {
                path: path(),
                to: path(),
                ids,
                replaced,
            },
        ]
    }

    fn of_contents() -> Vec<Op> {
        let ids = IDS;
        let kept = [
            KeepMethod::Moved,
            KeepMethod::Cloned,
            KeepMethod::Copied,
            KeepMethod::Blocks,
            KeepMethod::Length,
        ]
        .map(|how| Some(VersionRef { how, n: 7 }));
        let was = FormerAttrs {
            mode: 0o644,
            uid: 0,
            gid: u32::MAX,
            atime: (-5, 999_999_999),
            mtime: (0, 0),
        };
        let mut ops = Vec::new();
        for (i, kept) in kept.into_iter().chain([None]).enumerate() {
            let (mtime, mode) = [((0, 0), None), ((1, 2), Some(0o4755))][i % 2];
            ops.push(Op::Write {
                path: path(),
                ids,
                size: 0,
                mtime,
                mode,
                kept,
            });
            let new = kept.map(|_| ids);
            ops.push(Op::Truncate {
                path: path(),
                ids,
                size: 9,
                to: 1,
                mtime,
                mode,
                kept,
                new,
            });
            let (uid, gid, times) = (mode, kept.map(|_| 7), i % 2 == 0);
            ops.push(Op::Attr {
                path: path(),
                ids,
                was: was.clone(),
                mode,
                uid,
                gid,
                times,
            });
        }
        ops
    }

    /// Returns a record of each common operation, with each field there and absent.
    pub(in crate::journal) fn records() -> Vec<Record> {
        let actor = |i: usize| Actor {
            pid: 1,
            uid: 2,
            gid: 3,
            comm: ["", "rm"][i % 2].to_owned(),
            exe: ["", "/usr/bin/rm"][i / 2 % 2].to_owned(),
            undo: i.is_multiple_of(3).then_some(12),
        };
        let origin = |i: usize| Origin {
            kind: OriginKind::ALL[i % OriginKind::ALL.len()],
            run: (i % 5 > 1).then(|| "0123456789ab".parse().unwrap()),
        };
        let record = |(i, op): (usize, Op)| Record {
            v: 1,
            seq: i as u64 + 1,
            time: "2026-01-16T10:15:30.123460Z".to_owned(),
            op,
            at: vec![(-1, 5, 77); i % 3],
            actor: (i % 4 > 0).then(|| actor(i)),
            origin: origin(i),
            prev: "ab".repeat(32),
        };
        let ops = of_names().into_iter().chain(of_contents());
        ops.enumerate().map(record).collect()
    }

    #[test]
    fn it_reads_what_is_written_often_and_nothing_that_serde_does_not() {
        for written in records() {
            let line = serde_json::to_vec(&written).unwrap();
            assert_eq!(record(&line, true).as_ref(), Some(&written));
            let bare = Record {
                time: String::new(),
                actor: None,
                prev: String::new(),
                ..written
            };
            assert_eq!(record(&line, false), Some(bare));
            // With each byte damaged in some ways: the result is that of serde, or none.
            for at in 0..line.len() {
                for byte in *b"0\\\"}],\n\xff-e 1a" {
                    let mut changed = line.clone();
                    changed[at] = byte;
                    compare(&changed);
                    changed = line.clone();
                    changed.insert(at, byte);
                    compare(&changed);
                }
                compare(&line[..at]);
                compare(&[&line[..at], &line[at + 1..]].concat());
            }
            compare(&[&line[..], b" "].concat());
        }
    }

    #[track_caller]
    fn compare(line: &[u8]) {
        let quick = record(line, true);
        assert_eq!(quick.is_some(), record(line, false).is_some());
        if let Some(quick) = quick {
            let slow: Record = serde_json::from_slice(line).unwrap();
            assert_eq!(quick, slow);
        }
    }

    #[test]
    fn what_has_an_escape_is_left_to_serde() {
        let mut written = records().remove(0);
        written.op = Op::Create {
            path: WorldPath::parse(b"a\\\xff\n").unwrap(),
            mode: 1,
            dropped: None,
        };
        let line = serde_json::to_vec(&written).unwrap();
        assert_eq!(record(&line, true), None);
        assert_eq!(Record::parse(&line).unwrap(), written);
    }
}
