//! Parsing a line as a record or a seal: by its fields in place, or, up to schema 5, in any form.

use super::fields::LineFields;
use super::old_lines;
use super::record::Record;
use super::seal::{Seal, WORD};

impl Record {
    /// Parses a line.
    ///
    /// # Errors
    /// The syntax error of an invalid line.
    pub fn parse(line: &[u8]) -> serde_json::Result<Record> {
        let fields = LineFields::read(line);
        match fields.as_ref().and_then(|fields| fields.record(true)) {
            Some(record) => Ok(record),
            None => old_lines::record(line),
        }
    }

    /// As [`Record::parse`], for callers that only need the operation: `time`, `actor` and `prev`, which are most of
    /// a record's memory, are left empty.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn parse_operation(line: &[u8]) -> serde_json::Result<Record> {
        let fields = LineFields::read(line);
        match fields.as_ref().and_then(|fields| fields.record(false)) {
            Some(record) => Ok(record),
            None => old_lines::record(line).map(|record| Record {
                time: String::new(),
                actor: None,
                prev: String::new(),
                ..record
            }),
        }
    }
}

impl Seal {
    /// Parses a line.
    ///
    /// # Errors
    /// The syntax error of a line that is not a seal.
    pub fn parse(line: &[u8]) -> serde_json::Result<Seal> {
        if let Some(seal) = LineFields::read(line).and_then(|fields| fields.seal()) {
            return Ok(seal);
        }
        let seal = old_lines::seal(line)?;
        match seal.op == WORD {
            true => Ok(seal),
            false => Err(serde::de::Error::custom(format!(
                "`{}` with a check, which only a seal has",
                seal.op
            ))),
        }
    }
}
