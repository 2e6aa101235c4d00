//! `-printf`: a format with directives for the attributes of an entry.
//!
//! Directives, flags and escapes that are not supported are refused by name before anything runs: GNU prints some of
//! them as typed, with a warning.

use std::borrow::Cow;
use std::io::{self, Write};

use chrono::{DateTime, Local};

use super::predicate::TimeField;
use crate::call::LineRejection;
use crate::commands::date::WallTime;
use crate::commands::ls::{OwnerNames, mode_letters};
use crate::escape::{low_byte, number};
use trumanfs_types::meta::{Meta, Time};

/// The widest field. Wider than any line, but small enough to be harmless.
const MAX_WIDTH: u32 = 4096;

/// The letters of `%A`, `%C` and `%T` that mean what they do for `date`. `S`, `T` and `X` get a fraction.
const TIME_LETTERS: &[u8] = b"aAbBcCdDeFgGhHIjklmMprRsSTuUVwWxXyYzZ";

/// A parsed format.
#[derive(Debug)]
pub(super) struct PrintFormat {
    parts: Vec<FormatPart>,
    owners: OwnerNames,
}

#[derive(Debug)]
enum FormatPart {
    Text(Vec<u8>),
    Field {
        kind: FormatField,
        width: usize,
        /// True if padding follows the field.
        left: bool,
    },
}

/// The attribute that a directive stands for.
#[derive(Debug, Clone, Copy)]
enum FormatField {
    /// A part of the path, by its letter.
    Path(u8),
    Depth,
    /// A number or a word from the attributes, by its letter.
    Attribute(u8),
    /// A time in a form: a letter, `@`, `+`, or `t` for that of ctime(3).
    Time(TimeField, u8),
}

/// The names of an entry that directives print.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedEntry<'a> {
    /// The path as printed, beginning with the starting point.
    pub(super) shown: &'a [u8],
    /// The length of the starting point as typed.
    pub(super) start: usize,
    pub(super) depth: usize,
}

impl PrintFormat {
    /// Parses a format.
    ///
    /// # Errors
    /// The rejection of the line for what is not supported.
    pub(super) fn parse(format: &[u8]) -> Result<PrintFormat, LineRejection> {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut rest = format;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'\\' => match parse_escape(after)? {
                    Some((byte, after)) => {
                        text.push(byte);
                        rest = after;
                    }
                    // `\c`: nothing of the format follows.
                    None => break,
                },
                b'%' if after.starts_with(b"%") => {
                    text.push(b'%');
                    rest = after.get(1..).unwrap_or_default();
                }
                b'%' => {
                    let (part, after) = parse_directive(after)?;
                    rest = after;
                    parts.push(FormatPart::Text(std::mem::take(&mut text)));
                    parts.push(part);
                }
                byte => text.push(*byte),
            }
        }
        parts.push(FormatPart::Text(text));
        Ok(PrintFormat {
            parts,
            owners: OwnerNames::default(),
        })
    }

    /// Returns whether the format prints attributes.
    pub(super) fn needs_meta(&self) -> bool {
        self.parts.iter().any(|part| match part {
            FormatPart::Text(_) => false,
            FormatPart::Field { kind, .. } => {
                matches!(kind, FormatField::Attribute(_) | FormatField::Time(..))
            }
        })
    }

    /// Writes an entry; attributes may be absent where the format prints none.
    ///
    /// # Errors
    /// Write errors.
    pub(super) fn print(
        &self,
        out: &mut dyn Write,
        entry: PrintedEntry<'_>,
        meta: Option<&Meta>,
    ) -> io::Result<()> {
        for part in &self.parts {
            match part {
                FormatPart::Text(text) => out.write_all(text)?,
                FormatPart::Field { kind, width, left } => {
                    let field = self.field(*kind, entry, meta);
                    let padding = vec![b' '; width.saturating_sub(field.len())];
                    if *left {
                        out.write_all(&field)?;
                        out.write_all(&padding)?;
                    } else {
                        out.write_all(&padding)?;
                        out.write_all(&field)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn field<'a>(
        &self,
        kind: FormatField,
        entry: PrintedEntry<'a>,
        meta: Option<&Meta>,
    ) -> Cow<'a, [u8]> {
        match (kind, meta) {
            (FormatField::Path(letter), _) => Cow::Borrowed(entry.path_part(letter)),
            (FormatField::Depth, _) => Cow::Owned(entry.depth.to_string().into_bytes()),
            (FormatField::Attribute(letter), Some(meta)) => {
                Cow::Owned(self.attribute(letter, meta))
            }
            (FormatField::Time(field, form), Some(meta)) => {
                Cow::Owned(format_time(field.of(meta), form))
            }
            (FormatField::Attribute(_) | FormatField::Time(..), None) => Cow::Borrowed(b""),
        }
    }

    fn attribute(&self, letter: u8, meta: &Meta) -> Vec<u8> {
        let owned = |name: Option<std::rc::Rc<[u8]>>, number: u32| match name {
            Some(name) => name.to_vec(),
            None => number.to_string().into_bytes(),
        };
        let number = match letter {
            b'u' => return owned(self.owners.user(meta.uid), meta.uid),
            b'g' => return owned(self.owners.group(meta.gid), meta.gid),
            b'm' => return format!("{:o}", meta.mode & 0o7777).into_bytes(),
            b'M' => return mode_letters(meta).to_vec(),
            // There are no links, so `%Y` is `%y`.
            b'y' | b'Y' => {
                let [kind, ..] = mode_letters(meta);
                return vec![if kind == b'-' { b'f' } else { kind }];
            }
            b'U' => meta.uid.into(),
            b'G' => meta.gid.into(),
            b'n' => meta.nlink.into(),
            b'i' => meta.id.1,
            b'b' => meta.blocks,
            b'k' => meta.blocks.div_ceil(2),
            _ => meta.size,
        };
        number.to_string().into_bytes()
    }
}

impl<'a> PrintedEntry<'a> {
    /// Returns a part of the path, by its letter.
    fn path_part(self, letter: u8) -> &'a [u8] {
        let shown = self.shown;
        let (start, below) = shown.split_at_checked(self.start).unwrap_or((shown, b""));
        // Where the last component ends, and where it begins.
        let end = shown
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |at| at + 1);
        let named = shown.get(..end).unwrap_or_default();
        let slash = named.iter().rposition(|b| *b == b'/');
        match letter {
            b'H' => start,
            b'P' => below.strip_prefix(b"/").unwrap_or(below),
            b'h' if end == 0 => b"",
            b'h' => slash.map_or(b".", |slash| shown.get(..slash).unwrap_or_default()),
            // A single slash after it stays.
            b'f' => shown
                .get(slash.map_or(0, |at| at + 1)..shown.len().min(end + 1))
                .unwrap_or_default(),
            _ => shown,
        }
    }
}

/// Parses what follows a backslash; `None` for `\c`.
fn parse_escape(text: &[u8]) -> Result<Option<(u8, &[u8])>, LineRejection> {
    if let Some((value, rest)) = number(text, 8, 3) {
        return Ok(Some((low_byte(value), rest)));
    }
    let Some((letter, rest)) = text.split_first() else {
        return Err(unsupported(b"a backslash at the end"));
    };
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'c' => return Ok(None),
        letter => return Err(unsupported(&[b'\\', *letter])),
    };
    Ok(Some((byte, rest)))
}

/// Parses what follows a `%`.
fn parse_directive(text: &[u8]) -> Result<(FormatPart, &[u8]), LineRejection> {
    let (left, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // A zero is a flag.
    let width = number(rest, 10, 4).filter(|_| !rest.starts_with(b"0"));
    let (width, rest) = width.unwrap_or((0, rest));
    let Some((letter, rest)) = rest.split_first() else {
        return Err(unsupported(b"a % at the end"));
    };
    let wrong = |form: &[u8]| Err(unsupported(&[b"%", &[*letter][..], form].concat()));
    let time = |field, form| FormatField::Time(field, form);
    let (kind, rest) = match letter {
        b'p' | b'f' | b'h' | b'P' | b'H' => (FormatField::Path(*letter), rest),
        b'd' => (FormatField::Depth, rest),
        b's' | b'm' | b'M' | b'y' | b'Y' | b'u' | b'U' | b'g' | b'G' | b'n' | b'i' | b'b'
        | b'k' => (FormatField::Attribute(*letter), rest),
        b'a' => (time(TimeField::Access, b'='), rest),
        b'c' => (time(TimeField::Attributes, b'='), rest),
        b't' => (time(TimeField::Content, b'='), rest),
        b'A' | b'C' | b'T' => {
            let field = match letter {
                b'A' => TimeField::Access,
                b'C' => TimeField::Attributes,
                _ => TimeField::Content,
            };
            match rest.split_first() {
                Some((form, rest)) if TIME_LETTERS.contains(form) || b"@+".contains(form) => {
                    (time(field, *form), rest)
                }
                Some((form, _)) => return wrong(&[*form]),
                None => return wrong(b""),
            }
        }
        _ => return wrong(b""),
    };
    let part = FormatPart::Field {
        kind,
        width: usize::try_from(width.min(MAX_WIDTH)).unwrap_or_default(),
        left,
    };
    Ok((part, rest))
}

/// Formats a time as GNU does, with ten digits for the fraction of a second.
fn format_time(time: Time, form: u8) -> Vec<u8> {
    let fraction = format!(".{:09}0", time.nsec);
    if form == b'@' {
        return format!("{}{fraction}", time.sec).into_bytes();
    }
    let Some(at) = DateTime::from_timestamp(time.sec, time.nsec) else {
        return time.sec.to_string().into_bytes();
    };
    let at = WallTime::local(at.with_timezone(&Local));
    let fraction = fraction.as_bytes();
    match form {
        b'+' => [&at.format(b"%F+%T")[..], fraction].concat(),
        b'=' => [&at.format(b"%a %b %e %T")[..], fraction, &at.format(b" %Y")].concat(),
        b'S' | b'T' | b'X' => [&at.format(&[b'%', form])[..], fraction].concat(),
        form => at.format(&[b'%', form]),
    }
}

fn unsupported(what: &[u8]) -> LineRejection {
    let before = b"bash: find -printf: ";
    LineRejection {
        message: [&before[..], what, b" is not supported"].concat(),
        status: 2,
    }
}
