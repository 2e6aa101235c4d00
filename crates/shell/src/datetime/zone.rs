//! Named time zones (`TZ=Europe/Berlin date`) in chrono's terms.
//!
//! Owns the meaning of a name: a zone of the machine's database, otherwise POSIX rules
//! (`CET-1CEST,M3.5.0,M10.5.0/3`). Any other name is an error; the C library would silently use UTC under that name,
//! which is a wrong time.

use std::sync::Arc;

use chrono::{FixedOffset, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone};

use trumanfs_sys::zone;

/// A zone with its rules.
#[derive(Debug, Clone)]
pub(crate) struct NamedZone {
    rules: Arc<tz::TimeZone>,
}

/// A zone's offset from UTC at one moment.
#[derive(Debug, Clone)]
pub(crate) struct ZoneOffset {
    zone: NamedZone,
    east: FixedOffset,
}

impl NamedZone {
    /// Finds a zone by its name or its rules.
    pub(crate) fn find(text: &[u8]) -> Option<NamedZone> {
        let text = std::str::from_utf8(text).ok()?;
        let rules = match zone::rules(text) {
            // Works without a zone database, too.
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
        Some(NamedZone {
            rules: Arc::new(rules),
        })
    }

    /// Returns the zone's abbreviation at a moment, in seconds since 1970.
    pub(crate) fn name_at(&self, seconds: i64) -> Vec<u8> {
        let found = self.rules.find_local_time_type(seconds);
        let name = found.map(|local| local.time_zone_designation().to_owned());
        name.unwrap_or_default().into_bytes()
    }

    /// Returns the offset at a moment; UTC for moments before the rules begin.
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

impl TimeZone for NamedZone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> NamedZone {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> LocalResult<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(chrono::NaiveTime::MIN))
    }

    /// A clock set back shows a time twice, a clock set forward skips some: the offsets one day earlier and one day
    /// later are the two candidates.
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
