//! The first fields of a line, read without parsing the line, and others on demand: most queries concern few of many
//! records.
//!
//! A field is found by its name in quotes before a colon: within a text each quote has a backslash before it, so a
//! text cannot look like a field. A line in another form (none that this program wrote) is parsed in full, so that the
//! answer is the same.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::fields::LineFields;
use super::json_cursor::{JsonCursor, JsonText};
use super::{fields, old_lines};
use trumanfs_types::origin::{Origin, OriginKind};
use trumanfs_types::turn_mark::TurnMark;

/// A search for a field by its name.
type FieldFinder = LazyLock<Finder<'static>>;

static PATH: FieldFinder = LazyLock::new(|| Finder::new("\"path\":"));
static TO: FieldFinder = LazyLock::new(|| Finder::new("\"to\":"));
static FROM: FieldFinder = LazyLock::new(|| Finder::new("\"from\":"));
static PID: FieldFinder = LazyLock::new(|| Finder::new("\"pid\":"));
static COMM: FieldFinder = LazyLock::new(|| Finder::new("\"comm\":"));
static EXE: FieldFinder = LazyLock::new(|| Finder::new("\"exe\":"));
static COMMAND: FieldFinder = LazyLock::new(|| Finder::new("\"command\":"));
static MARK: FieldFinder = LazyLock::new(|| Finder::new("\"mark\":"));
static NAME: FieldFinder = LazyLock::new(|| Finder::new("\"name\":"));
static WHAT: FieldFinder = LazyLock::new(|| Finder::new("\"what\":"));
static OF: FieldFinder = LazyLock::new(|| Finder::new("\"of\":"));
static REPLACED: FieldFinder = LazyLock::new(|| Finder::new("\"replaced\":"));
static KEPT: FieldFinder = LazyLock::new(|| Finder::new("\"kept\":"));
static ORIGIN: FieldFinder = LazyLock::new(|| Finder::new("\"origin\":"));
static UNDO: FieldFinder = LazyLock::new(|| Finder::new("\"undo\":"));

/// The first fields of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The schema.
    pub v: u32,
    /// The record's number in the session.
    pub seq: u64,
    /// The time, RFC 3339.
    pub time: Cow<'a, str>,
    /// The word of the operation.
    pub op: Cow<'a, str>,
    /// The line, without its newline.
    pub line: &'a [u8],
    /// The line in the form that [`LineFields`] reads.
    fixed: Cow<'a, [u8]>,
    /// The end of `op` in `fixed`.
    op_end: usize,
}

impl<'a> RecordHeader<'a> {
    /// Reads the header of a line.
    ///
    /// # Errors
    /// The syntax error of an invalid line.
    pub fn of(line: &'a [u8]) -> Result<RecordHeader<'a>, serde_json::Error> {
        if let Some(header) = first_fields(line) {
            return Ok(header);
        }
        let fixed = old_lines::in_fixed_form(line)?;
        let invalid = || serde::de::Error::custom("not a record");
        let first = first_fields(&fixed).ok_or_else(invalid)?;
        Ok(RecordHeader {
            op_end: first.op_end,
            v: first.v,
            seq: first.seq,
            time: Cow::Owned(first.time.into_owned()),
            op: Cow::Owned(first.op.into_owned()),
            line,
            fixed: Cow::Owned(fixed),
        })
    }

    /// Returns the path of the subject, as written.
    pub fn path(&self) -> Option<Cow<'_, str>> {
        self.text(&PATH)
    }

    /// Returns the path after, as written.
    pub fn to(&self) -> Option<Cow<'_, str>> {
        // A size in some records, not a text.
        self.text(&TO)
    }

    /// Returns each path, as written.
    pub fn paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let fields: [&FieldFinder; 3] = [&PATH, &TO, &FROM];
        fields.into_iter().filter_map(|field| self.text(field))
    }

    /// Returns the process id of the actor.
    pub fn pid(&self) -> Option<u64> {
        self.number(&PID)
    }

    /// Returns the name of the actor's process; empty where it is unknown.
    pub fn comm(&self) -> Cow<'_, str> {
        self.text(&COMM).unwrap_or_default()
    }

    /// Returns the program of the actor, escaped; empty where it is unknown.
    pub fn exe(&self) -> Cow<'_, str> {
        self.text(&EXE).unwrap_or_default()
    }

    /// Returns the command of a run, escaped.
    pub fn command(&self) -> Option<Cow<'_, str>> {
        self.text(&COMMAND)
    }

    /// Returns the name of a checkpoint, the turn of a mark, or the words of an operator's command.
    pub fn words(&self) -> Cow<'_, str> {
        if let Some(mark) = self.turn_mark() {
            return mark.to_string().into();
        }
        let field = match &*self.op {
            "checkpoint" => &NAME,
            _ => &WHAT,
        };
        self.text(field).unwrap_or_default()
    }

    /// Returns the mark, if it is one.
    pub fn turn_mark(&self) -> Option<TurnMark> {
        if self.op != "checkpoint" {
            return None;
        }
        let mark = serde_json::Deserializer::from_slice(self.value(&MARK)?);
        mark.into_iter().next()?.ok()
    }

    /// Returns the number of the record that an abort is about.
    pub fn aborted(&self) -> Option<u64> {
        self.number(&OF)
    }

    /// Returns whether the record names a replaced file.
    pub fn has_replaced(&self) -> bool {
        self.value(&REPLACED).is_some()
    }

    /// Returns whether the record names a former content.
    pub fn has_kept(&self) -> bool {
        self.value(&KEPT).is_some()
    }

    /// Returns the record's origin. Up to schema 2, a change of an undo has it in its actor.
    pub fn origin(&self) -> Origin {
        let value = self.value(&ORIGIN).map(JsonCursor);
        let of_undo = || match self.value(&UNDO) {
            Some(_) => OriginKind::Undo.into(),
            None => Origin::default(),
        };
        value
            .and_then(|mut value| fields::origin(&mut value))
            .unwrap_or_else(of_undo)
    }

    /// Returns the fields after `op`.
    pub(super) fn fields(&self) -> Option<LineFields<'_>> {
        LineFields::after_op(&self.op, self.fixed.get(self.op_end..)?)
    }

    fn text(&self, field: &FieldFinder) -> Option<Cow<'_, str>> {
        let mut value = JsonCursor(self.value(field)?);
        value.text().and_then(JsonText::text)
    }

    fn number(&self, field: &FieldFinder) -> Option<u64> {
        JsonCursor(self.value(field)?).number()
    }

    /// Returns the text after a field's name.
    fn value(&self, field: &FieldFinder) -> Option<&[u8]> {
        let at = field.find(&self.fixed)?;
        self.fixed.get(at + field.needle().len()..)
    }
}

fn first_fields(line: &[u8]) -> Option<RecordHeader<'_>> {
    let mut rest = JsonCursor(line);
    rest.skip("{\"v\":")?;
    let v = rest.number()?;
    rest.skip(",\"seq\":")?;
    let seq = rest.number()?;
    rest.skip(",\"time\":")?;
    let time = rest.text()?.plain()?;
    rest.skip(",\"op\":")?;
    let op = rest.text()?.plain()?;
    Some(RecordHeader {
        v,
        seq,
        time: Cow::Borrowed(time),
        op: Cow::Borrowed(op),
        line,
        fixed: Cow::Borrowed(line),
        op_end: line.len() - rest.0.len(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn order_makes_no_difference() {
        let usual =
            br#"{"v":1,"seq":7,"time":"2026-01-16T10:15:30.123460Z","op":"abort","of":3,"error":"x","prev":"x"}"#;
        let other =
            br#"{"seq":7,"op":"a\u0062ort","error":"x","v":1,"of":3,"prev":"x","time":"2026-01-16T10:15:30.123460Z"}"#;
        let (a, b) = (
            RecordHeader::of(usual).unwrap(),
            RecordHeader::of(other).unwrap(),
        );
        assert!(first_fields(usual).is_some() && first_fields(other).is_none());
        assert_eq!((a.v, a.seq, &a.time, &a.op), (b.v, b.seq, &b.time, &b.op));
        assert_eq!((a.aborted(), b.aborted()), (Some(3), Some(3)));
        assert!(RecordHeader::of(b"{\"v\":1,\"seq\":}").is_err());
    }

    #[test]
    fn name_cannot_pretend_to_be_a_field() {
        let line = br#"{"v":1,"seq":1,"time":"","op":"mkdir","path":"/\",\"comm\":\"x\",\"y\\\\","mode":7,"prev":""}"#;
        let header = RecordHeader::of(line).unwrap();
        assert_eq!(header.comm(), "");
        assert_eq!(header.path().unwrap(), "/\",\"comm\":\"x\",\"y\\\\");
        assert!(header.pid().is_none() && !header.has_kept());
    }
}
