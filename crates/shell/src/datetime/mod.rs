//! Dates as people type them: the syntax of GNU's `date -d` and `touch -d` (parse_datetime), relative to a moment.
//!
//! A text is a sequence of items: a date, a time, a day of the week, a zone, at most one of each, and any number of
//! relative items; or `@` and seconds. Zones are known by GNU's names, not by those of the zone database, and
//! `TZ="..."` within the text is not supported.

mod items;
mod words;
mod zone;

use chrono::{
    DateTime, Datelike, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset,
    TimeZone,
};

use items::DateItems;
use words::{DateWord, split_words};
pub(super) use zone::NamedZone;

/// Parses a date; `None` where it is malformed or there is no such moment. Times without a zone are in the zone of
/// `now`.
pub(super) fn parse<Z: TimeZone>(text: &[u8], now: DateTime<Z>) -> Option<DateTime<Z>> {
    let words = split_words(text)?;
    let mut rest = words.as_slice();
    if let [DateWord::Mark(b'@'), seconds] = rest {
        let (seconds, nanos) = match *seconds {
            DateWord::Unsigned(number) | DateWord::Signed(number) => (number.value, 0),
            DateWord::Decimal(seconds, nanos, _) => (seconds, nanos),
            _ => return None,
        };
        let at = DateTime::from_timestamp(seconds, nanos)?;
        return Some(now.timezone().from_utc_datetime(&at.naive_utc()));
    }
    let mut items = DateItems::default();
    while !rest.is_empty() {
        rest = items.parse_item(rest)?;
    }
    items.at(&now)
}

impl DateItems {
    /// Returns the moment, in GNU's order: date and time, day of the week, calendar, zone, clock.
    fn at<Z: TimeZone>(&self, now: &DateTime<Z>) -> Option<DateTime<Z>> {
        let counts = [self.dates, self.times, self.days, self.zones];
        if counts.iter().any(|count| *count > 1) {
            return None;
        }
        let today = now.naive_local();
        let date = if self.dates > 0 {
            let year = self.year.unwrap_or(i64::from(today.year()));
            date_of(year, self.month, self.day)?
        } else {
            today.date()
        };
        let time = if self.times > 0 {
            self.time
        } else if self.relative && self.dates == 0 && self.days == 0 {
            today.time()
        } else {
            NaiveTime::MIN
        };
        let mut local = date.and_time(time);
        let mut at = self.settle(local, now, now)?;
        if self.zones == 0 && at.naive_local() != local && !self.keeps_offset() {
            // The hour that daylight saving time skips.
            return None;
        }
        if self.days > 0 && self.dates == 0 {
            let today = i64::from(local.weekday().num_days_from_sunday());
            // Ordinals count from tomorrow: `next` is the first such day after today, never today itself.
            let skips = i64::from(self.ordinal > 0 && today != self.weekday);
            let weeks = self.ordinal - skips;
            let days = (self.weekday - today).rem_euclid(7);
            local = local.checked_add_signed(days_of(weeks.checked_mul(7)?.checked_add(days)?)?)?;
            at = self.settle(local, now, &at)?;
        }
        if self.calendar != [0; 3] {
            let [years, months, days] = self.calendar;
            let year = i64::from(local.year()).checked_add(years)?;
            let months = i64::from(local.month0()).checked_add(months)?;
            let year = year.checked_add(months.div_euclid(12))?;
            // Days are added from the first, since the month may be too short: January 31 plus a month is March 3.
            let first = date_of(year, months.rem_euclid(12) + 1, 1)?;
            let days = i64::from(local.day0()).checked_add(days)?;
            local = first
                .and_time(local.time())
                .checked_add_signed(days_of(days)?)?;
            at = self.settle(local, now, &at)?;
        }
        at.checked_add_signed(self.clock)
    }

    /// Returns whether all items are relative to now, so that daylight saving time is not adjusted for, as in GNU's.
    fn keeps_offset(&self) -> bool {
        self.dates + self.times + self.days == 0
    }

    /// Returns the moment of a local time; where there are two, the one with the offset of `near`.
    fn settle<Z: TimeZone>(
        &self,
        local: NaiveDateTime,
        now: &DateTime<Z>,
        near: &DateTime<Z>,
    ) -> Option<DateTime<Z>> {
        let east = |seconds: i64| {
            let utc = local.checked_sub_signed(Duration::try_seconds(seconds)?)?;
            Some(now.timezone().from_utc_datetime(&utc))
        };
        let offset = |at: &DateTime<Z>| i64::from(at.offset().fix().local_minus_utc());
        if self.zones > 0 {
            return east(self.zone);
        }
        if self.keeps_offset() {
            return east(offset(now));
        }
        match now.timezone().from_local_datetime(&local) {
            LocalResult::Single(at) => Some(at),
            LocalResult::Ambiguous(a, _) if offset(&a) == offset(near) => Some(a),
            LocalResult::Ambiguous(_, b) => Some(b),
            LocalResult::None => {
                let before = local.checked_sub_signed(Duration::days(1))?;
                east(offset(&now.timezone().from_utc_datetime(&before)))
            }
        }
    }
}

fn date_of(year: i64, month: i64, day: i64) -> Option<NaiveDate> {
    let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)
}

fn days_of(days: i64) -> Option<Duration> {
    Duration::try_days(days)
}

#[cfg(test)]
mod tests;
