//! A zone that was named (`TZ=Europe/Berlin date`), as chrono wants one.
//!
//! Owns what a name means: a zone of the machine's database, else rules as POSIX writes them (`CET-1CEST,M3.5.0,M10.5.0/3`). What is
//! neither is no zone; the C library would take it for UTC under another name, which is a wrong time without a word.

use std::sync::Arc;

use chrono::{FixedOffset, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone};

use crate::sys::zone;

/// A zone with its rules.
#[derive(Debug, Clone)]
pub(in crate::exec::shell) struct Zone {
    rules: Arc<tz::TimeZone>,
}

/// How far a zone is from Greenwich at one moment.
#[derive(Debug, Clone)]
pub(in crate::exec::shell) struct ZoneOffset {
    zone: Zone,
    east: FixedOffset,
}

impl Zone {
    /// Finds a zone by its name or its rules.
    pub(in crate::exec::shell) fn find(text: &[u8]) -> Option<Zone> {
        let text = std::str::from_utf8(text).ok()?;
        let rules = match zone::rules(text) {
            // Known where there is no database, too.
            _ if matches!(text, "UTC" | "UTC0" | "Etc/UTC") => {
                let utc = tz::LocalTimeType::new(0, false, Some(b"UTC")).ok()?;
                tz::TimeZone::new(vec![], vec![utc], vec![], None).ok()?
            }
            Some(bytes) => tz::TimeZone::from_tz_data(&bytes).ok()?,
            None => {
                let no_files =
                    |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
                let settings = tz::TimeZoneSettings::new(&[], no_files);
                settings.parse_posix_tz(text).ok()?
            }
        };
        Some(Zone {
            rules: Arc::new(rules),
        })
    }

    /// Returns what the zone is called at a moment, in seconds since 1970.
    pub(in crate::exec::shell) fn name_at(&self, seconds: i64) -> Vec<u8> {
        let found = self.rules.find_local_time_type(seconds);
        let name = found.map(|local| local.time_zone_designation().to_owned());
        name.unwrap_or_default().into_bytes()
    }

    /// Greenwich where the rules say nothing: before the years that they know.
    fn east_at(&self, seconds: i64) -> FixedOffset {
        let found = self.rules.find_local_time_type(seconds);
        let east = found.map_or(0, tz::LocalTimeType::ut_offset);
        FixedOffset::east_opt(east).unwrap_or(Offset::fix(&chrono::Utc))
    }

    fn offset(&self, east: FixedOffset) -> ZoneOffset {
        ZoneOffset {
            zone: self.clone(),
            east,
        }
    }
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.east
    }
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Zone {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> LocalResult<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(chrono::NaiveTime::MIN))
    }

    /// A clock that is put back shows a time twice, one that is put forward never shows some: what holds a day earlier and a day later
    /// are the two candidates.
    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> LocalResult<ZoneOffset> {
        const DAY: i64 = 24 * 3600;
        let clock = local.and_utc().timestamp();
        let holds =
            |east: &FixedOffset| self.east_at(clock - i64::from(east.local_minus_utc())) == *east;
        let before = Some(self.east_at(clock - DAY)).filter(holds);
        let after = Some(self.east_at(clock + DAY)).filter(holds);
        match (before, after) {
            (Some(one), Some(two)) if one == two => LocalResult::Single(self.offset(one)),
            (Some(one), Some(two)) => LocalResult::Ambiguous(self.offset(one), self.offset(two)),
            (Some(one), None) | (None, Some(one)) => LocalResult::Single(self.offset(one)),
            (None, None) => LocalResult::None,
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(chrono::NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        self.offset(self.east_at(utc.and_utc().timestamp()))
    }
}
