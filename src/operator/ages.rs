//! How old something in the journal is at most. A stamp is what a clock said, and clocks are set: the journal has the
//! order.
//!
//! Owns the rule that decides about deleting for good. What was recorded is no older than anything that was recorded
//! before it, and no older than the boot of the machine that it was recorded in, if that is the present one. So a clock
//! that was behind makes nothing old.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::journal::{Op, Record};
use crate::world::holder::boot_id;

/// The way through the records, the oldest first.
#[derive(Debug)]
pub(super) struct Ages {
    /// The present boot and when it began, by the present clock.
    boot: (String, String),
    latest: String,
}

impl Ages {
    /// Begins before the first record.
    pub(super) fn new() -> Ages {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let up = TimeDelta::try_seconds(up.tv_sec).unwrap_or_default();
        Ages::after(boot_id(), Utc::now().checked_sub_signed(up))
    }

    fn after(boot: String, began: Option<DateTime<Utc>>) -> Ages {
        let began = began.map(|began| began.to_rfc3339_opts(SecondsFormat::Micros, true));
        Ages {
            boot: (boot, began.unwrap_or_default()),
            latest: String::new(),
        }
    }

    /// Takes the next record. Returns the time before which it was not made, RFC 3339.
    pub(super) fn not_before(&mut self, record: &Record) -> &str {
        let (boot, began) = &self.boot;
        let is_of_boot = matches!(&record.op, Op::Begin { boot: of, .. } if of == boot);
        // All have the same form, so that their texts sort as the times.
        let bounds = [Some(&record.time), is_of_boot.then_some(began)];
        for bound in bounds.into_iter().flatten() {
            if *bound > self.latest {
                self.latest.clone_from(bound);
            }
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

    #[test]
    fn a_clock_that_was_behind_makes_nothing_old() {
        let mut ages = Ages::after("now".to_owned(), None);
        assert_eq!(
            ages.not_before(&begin("2026-03-01T00:00:00.000000Z", "a")),
            "2026-03-01T00:00:00.000000Z"
        );
        assert_eq!(
            ages.not_before(&made("2026-01-01T00:00:00.000000Z")),
            "2026-03-01T00:00:00.000000Z"
        );
        assert_eq!(
            ages.not_before(&made("2026-04-01T00:00:00.000000Z")),
            "2026-04-01T00:00:00.000000Z"
        );
    }

    #[test]
    fn what_the_present_boot_has_recorded_is_no_older_than_the_boot() {
        let booted = DateTime::parse_from_rfc3339("2026-05-01T12:00:00Z")
            .unwrap()
            .to_utc();
        let mut ages = Ages::after("now".to_owned(), Some(booted));
        assert_eq!(
            ages.not_before(&begin("1970-01-01T00:00:05.000000Z", "before")),
            "1970-01-01T00:00:05.000000Z"
        );
        assert_eq!(
            ages.not_before(&begin("1970-01-01T00:00:06.000000Z", "now")),
            "2026-05-01T12:00:00.000000Z"
        );
        assert_eq!(
            ages.not_before(&made("1970-01-01T00:00:07.000000Z")),
            "2026-05-01T12:00:00.000000Z"
        );
    }
}
