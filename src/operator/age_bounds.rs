//! The greatest age that something in the journal can have. A time stamp comes from a clock, and clocks are set; the
//! journal has the true order.
//!
//! Owns the rule that decides about deleting for good. A record is no older than all records before it, and no older
//! than the boot of the machine in which it was written, if that is the present boot. So a clock that was behind makes
//! nothing old.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::journal::{Op, Record};
use crate::world::store::holder::boot_id;

/// The lower bounds of the records' times, found by reading all records, the oldest first.
#[derive(Debug)]
pub(super) struct AgeBounds {
    /// The present boot and when it began, by the present clock.
    boot: (String, String),
    latest: String,
}

impl AgeBounds {
    /// Starts before the first record.
    pub(super) fn new() -> AgeBounds {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let up = TimeDelta::try_seconds(up.tv_sec).unwrap_or_default();
        AgeBounds::after(boot_id(), Utc::now().checked_sub_signed(up))
    }

    fn after(boot: String, began: Option<DateTime<Utc>>) -> AgeBounds {
        let began = began.map(|began| began.to_rfc3339_opts(SecondsFormat::Micros, true));
        AgeBounds {
            boot: (boot, began.unwrap_or_default()),
            latest: String::new(),
        }
    }

    /// Takes the next record. Returns the time before which it was not made, RFC 3339.
    pub(super) fn not_before(&mut self, record: &Record) -> &str {
        let (boot, began) = &self.boot;
        if matches!(&record.op, Op::Begin { boot: of, .. } if of == boot) && *began > self.latest {
            self.latest.clone_from(began);
        }
        self.not_before_time(&record.time)
    }

    /// As [`AgeBounds::not_before`], for a record that begins no session, by its time alone.
    pub(super) fn not_before_time(&mut self, time: &str) -> &str {
        // All have the same form, so that their texts sort as the times.
        if *time > *self.latest {
            time.clone_into(&mut self.latest);
        }
        &self.latest
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(seq: u64, time: &str, op: &str) -> Record {
        let line = format!(r#"{{"v":5,"seq":{seq},"time":"{time}",{op},"prev":"0"}}"#);
        serde_json::from_str(&line).unwrap()
    }

    fn begin(time: &str, boot: &str) -> Record {
        let op = format!(r#""op":"begin","session":"s","version":"1","host":"h","boot":"{boot}""#);
        record(1, time, &op)
    }

    fn made(time: &str) -> Record {
        record(2, time, r#""op":"mkdir","path":"/d","mode":493"#)
    }

    /// Each record, and the time that it is not older than.
    #[track_caller]
    fn are_not_before(mut ages: AgeBounds, records: [(Record, &str); 3]) {
        for (record, expected) in records {
            assert_eq!(ages.not_before(&record), expected);
        }
    }

    #[test]
    fn clock_that_was_behind_makes_nothing_old() {
        let begun = "2026-03-01T00:00:00.000000Z";
        let later = "2026-04-01T00:00:00.000000Z";
        let records = [
            (begin(begun, "a"), begun),
            (made("2026-01-01T00:00:00.000000Z"), begun),
            (made(later), later),
        ];
        are_not_before(AgeBounds::after("now".to_owned(), None), records);
    }

    #[test]
    fn records_of_the_present_boot_are_no_older_than_it() {
        let booted = "2026-05-01T12:00:00.000000Z";
        let before = "1970-01-01T00:00:05.000000Z";
        let records = [
            (begin(before, "before"), before),
            (begin("1970-01-01T00:00:06.000000Z", "now"), booted),
            (made("1970-01-01T00:00:07.000000Z"), booted),
        ];
        let booted = DateTime::parse_from_rfc3339(booted).unwrap().to_utc();
        are_not_before(AgeBounds::after("now".to_owned(), Some(booted)), records);
    }
}
