//! The first fields of a line, read without parsing the line: most queries concern few of many records.
//!
//! Relies on the fixed order in which [`Record`](super::Record) writes its first fields. A line in another order
//! (none that this program wrote) is parsed in full, so that the answer is the same.

use std::borrow::Cow;

use serde::Deserialize;

use trumanfs_types::origin::{Origin, OriginKind};

/// The first fields of a record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RecordHeader<'a> {
    /// The schema.
    pub v: u32,
    /// The record's number in the session.
    pub seq: u64,
    /// The time, RFC 3339.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The word of the operation.
    #[serde(borrow)]
    pub op: Cow<'a, str>,
    /// The line, without its newline.
    #[serde(skip)]
    pub line: &'a [u8],
}

impl<'a> RecordHeader<'a> {
    /// Reads the header of a line.
    ///
    /// # Errors
    /// The syntax error of an invalid line.
    pub fn of(line: &'a [u8]) -> Result<RecordHeader<'a>, serde_json::Error> {
        match ordered(line) {
            Some(header) => Ok(header),
            None => {
                let parsed: RecordHeader<'a> = serde_json::from_slice(line)?;
                Ok(RecordHeader { line, ..parsed })
            }
        }
    }

    /// Returns the first text value of a field, at any depth.
    pub fn text(&self, field: &str) -> Option<Cow<'a, str>> {
        let value = self.value(field)?;
        let inside = value.strip_prefix(b"\"")?;
        match plain(inside) {
            Some((text, _)) => Some(Cow::Borrowed(text)),
            None => {
                let mut values = serde_json::Deserializer::from_slice(value).into_iter::<String>();
                values.next()?.ok().map(Cow::Owned)
            }
        }
    }

    /// Returns the first numeric value of a field, at any depth.
    pub fn number(&self, field: &str) -> Option<u64> {
        number(self.value(field)?).map(|(number, _)| number)
    }

    /// Returns whether the line has a field, at any depth.
    pub fn has(&self, field: &str) -> bool {
        self.value(field).is_some()
    }

    /// Returns the record's origin. Up to schema 2, a change of an undo has it in its actor.
    pub fn origin(&self) -> Origin {
        let parsed = self.value("origin").and_then(|value| {
            let mut values = serde_json::Deserializer::from_slice(value).into_iter::<Origin>();
            values.next()?.ok()
        });
        let of_undo = || match self.has("undo") {
            true => OriginKind::Undo.into(),
            false => Origin::default(),
        };
        parsed.unwrap_or_else(of_undo)
    }

    /// Returns the text after a field's name. Within a text each quote has a backslash before it, so a name with its
    /// quotes and the colon cannot occur there.
    fn value(&self, field: &str) -> Option<&'a [u8]> {
        let mut rest = self.line;
        loop {
            let at = memchr::memmem::find(rest, field.as_bytes())?;
            let before = rest.get(..at)?;
            let after = rest.get(at + field.len()..)?;
            match after.strip_prefix(b"\":") {
                Some(value) if before.ends_with(b"\"") => return Some(value),
                _ => rest = after,
            }
        }
    }
}

/// Returns the `prev` at the end of a line, before the check of a seal; `None` where it is elsewhere.
pub(super) fn prev(line: &[u8]) -> Option<&[u8]> {
    let rest = match check(line) {
        Some((before, _)) => before.strip_suffix(b"\"")?,
        None => line.strip_suffix(b"\"}")?,
    };
    let prev = |digits| hash(rest, b",\"prev\":\"", digits).map(|(_, prev)| prev);
    prev(16).or_else(|| prev(64))
}

/// Splits off the check at the end of a line: a seal has one, and nothing else does.
pub(super) fn check(line: &[u8]) -> Option<(&[u8], &[u8])> {
    hash(line.strip_suffix(b"\"}")?, b",\"check\":\"", 64)
}

/// Returns the schema of a line; 0 if it cannot be determined.
pub(super) fn schema(line: &[u8]) -> u32 {
    let ordered = line.strip_prefix(b"{\"v\":").and_then(number);
    match ordered {
        Some((v, _)) => u32::try_from(v).unwrap_or(u32::MAX),
        None => RecordHeader::of(line).map_or(0, |header| header.v),
    }
}

/// Splits off a field with the given number of hexadecimal digits at the end of a text.
fn hash<'a>(text: &'a [u8], field: &[u8], digits: usize) -> Option<(&'a [u8], &'a [u8])> {
    let (before, hash) = text.split_at_checked(text.len().checked_sub(digits)?)?;
    let before = before.strip_suffix(field)?;
    hash.iter()
        .all(u8::is_ascii_hexdigit)
        .then_some((before, hash))
}

fn ordered(line: &[u8]) -> Option<RecordHeader<'_>> {
    let rest = line.strip_prefix(b"{\"v\":")?;
    let (v, rest) = number(rest)?;
    let (seq, rest) = number(rest.strip_prefix(b",\"seq\":")?)?;
    let (time, rest) = plain(rest.strip_prefix(b",\"time\":\"")?)?;
    let (op, _) = plain(rest.strip_prefix(b",\"op\":\"")?)?;
    Some(RecordHeader {
        v: u32::try_from(v).ok()?,
        seq,
        time: Cow::Borrowed(time),
        op: Cow::Borrowed(op),
        line,
    })
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Reads a text without escapes.
fn plain(text: &[u8]) -> Option<(&str, &[u8])> {
    let end = text.iter().position(|b| *b == b'"')?;
    let (word, rest) = text.split_at_checked(end)?;
    let word = std::str::from_utf8(word)
        .ok()
        .filter(|word| !word.contains('\\'))?;
    Some((word, rest.strip_prefix(b"\"")?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn order_makes_no_difference() {
        let usual =
            br#"{"v":1,"seq":7,"time":"2026-01-16T10:15:30.123460Z","op":"end","prev":"x"}"#;
        let other =
            br#"{"seq":7,"op":"e\u006ed","v":1,"prev":"x","time":"2026-01-16T10:15:30.123460Z"}"#;
        let (a, b) = (
            RecordHeader::of(usual).unwrap(),
            RecordHeader::of(other).unwrap(),
        );
        assert!(ordered(usual).is_some() && ordered(other).is_none());
        assert_eq!((a.v, a.seq, &a.time, &a.op), (b.v, b.seq, &b.time, &b.op));
        assert!(RecordHeader::of(b"{\"v\":1,\"seq\":}").is_err());
        assert_eq!(
            (a.seq, a.number("seq"), a.text("op")),
            (7, Some(7), Some("end".into()))
        );
    }

    #[test]
    fn a_name_cannot_pretend_to_be_a_field() {
        let op = crate::journal::Op::Mkdir {
            path: crate::name::WorldPath::parse(b"\",\"comm\":\"x\",\"y\\").unwrap(),
            mode: 7,
        };
        let line = serde_json::to_vec(&op).unwrap();
        let header = RecordHeader {
            v: 1,
            seq: 1,
            time: "".into(),
            op: "".into(),
            line: &line,
        };
        assert_eq!(header.text("comm"), None);
        assert_eq!(header.text("path").unwrap(), "/\",\"comm\":\"x\",\"y\\\\");
        assert_eq!(header.number("mode"), Some(7));
        assert!(!header.has("pid") && header.text("mode").is_none());
    }

    #[test]
    fn the_hash_is_found_at_the_end_only() {
        let hash = "ab".repeat(32);
        let line = format!("{{\"seq\":1,\"prev\":\"{hash}\"}}");
        assert_eq!(prev(line.as_bytes()), Some(hash.as_bytes()));
        assert_eq!(
            prev(format!("{{\"prev\":\"{hash}\",\"seq\":1}}").as_bytes()),
            None
        );
        assert_eq!(prev(b"\"}"), None);
        let seal = format!(
            "{{\"seq\":1,\"prev\":\"{hash}\",\"check\":\"{}\"}}",
            "c".repeat(64)
        );
        assert_eq!(prev(seal.as_bytes()), Some(hash.as_bytes()));
        assert!(check(seal.as_bytes()).is_some() && check(line.as_bytes()).is_none());
    }
}
