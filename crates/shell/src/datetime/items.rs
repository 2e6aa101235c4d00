//! The items of a date: parses sequences of words by GNU's grammar, the longest item first.
//!
//! The parent module decides whether the items fit together, and which moment they mean.

use chrono::{Duration, NaiveTime};

use super::words::{DateWord, TimeUnit, TypedNumber};

/// The values of the items, and how many items of each kind there were.
#[derive(Debug, Default)]
pub(super) struct DateItems {
    pub(super) dates: u32,
    pub(super) year: Option<i64>,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) times: u32,
    pub(super) time: NaiveTime,
    pub(super) days: u32,
    pub(super) weekday: i64,
    pub(super) ordinal: i64,
    pub(super) zones: u32,
    pub(super) zone: i64,
    pub(super) relative: bool,
    /// Years, months, days.
    pub(super) calendar: [i64; 3],
    pub(super) clock: Duration,
}

impl DateItems {
    /// Parses the longest item at the start. Returns the words after it.
    pub(super) fn parse_item<'w>(&mut self, words: &'w [DateWord]) -> Option<&'w [DateWord]> {
        use DateWord::{Day, Half, Mark, Ordinal, Shift, Signed, T, Unsigned, Zone};
        if let Some(rest) = self.calendar_date(words) {
            return match (words, rest) {
                // 2026-01-02T03:04
                ([Unsigned(_), Signed(_), Signed(_), ..], [T, rest @ ..]) => self.parse_time(rest),
                _ => Some(rest),
            };
        }
        Some(match *words {
            [Day(day), ref rest @ ..] => {
                self.set_weekday(0, day);
                match rest {
                    [Mark(b','), rest @ ..] => rest,
                    rest => rest,
                }
            }
            [Ordinal(number), Day(day), ref rest @ ..] => {
                self.set_weekday(number, day);
                rest
            }
            [Unsigned(number), Day(day), ref rest @ ..] => {
                self.set_weekday(number.value, day);
                rest
            }
            [T, ref rest @ ..] => self.parse_zone(-7 * 3600, rest)?,
            [Zone(zone), ref rest @ ..] => self.parse_zone(zone, rest)?,
            [Shift(days), ref rest @ ..] => {
                self.add_relative(TimeUnit::Day, days, 0)?;
                rest
            }
            // 20260102 +1 day: here the sign belongs to the unit.
            [
                Unsigned(number),
                Signed(many),
                DateWord::Unit(unit, size),
                ref rest @ ..,
            ] => {
                self.take_number(number);
                self.add_relative(unit, many.value.checked_mul(size)?, 0)?;
                rest
            }
            [Unsigned(_), Mark(b':') | Signed(_) | Half(_), ..] => self.parse_time(words)?,
            _ => self.parse_amount(words)?,
        })
    }

    /// Parses a date with a day and a month, if one is next. Returns the words after it.
    fn calendar_date<'w>(&mut self, words: &'w [DateWord]) -> Option<&'w [DateWord]> {
        use DateWord::{Mark, Month, Signed, Unsigned};
        let (year, month, day, rest) = match *words {
            // 2026-01-02
            [Unsigned(year), Signed(month), Signed(day), ref rest @ ..] => {
                (Some(year), -month.value, -day.value, rest)
            }
            // 1/2/2026, 2026/1/2, 1/2
            [
                Unsigned(a),
                Mark(b'/'),
                Unsigned(b),
                Mark(b'/'),
                Unsigned(c),
                ref rest @ ..,
            ] => {
                if a.digits >= 4 {
                    (Some(a), b.value, c.value, rest)
                } else {
                    (Some(c), a.value, b.value, rest)
                }
            }
            [Unsigned(month), Mark(b'/'), Unsigned(day), ref rest @ ..] => {
                (None, month.value, day.value, rest)
            }
            // 2-JAN-2026, 2 Jan 2026, 2 Jan
            [Unsigned(day), Month(month), Signed(year), ref rest @ ..] => {
                (Some(negated(year)), month, day.value, rest)
            }
            [Unsigned(day), Month(month), Unsigned(year), ref rest @ ..] => {
                (Some(year), month, day.value, rest)
            }
            [Unsigned(day), Month(month), ref rest @ ..] => (None, month, day.value, rest),
            // JAN-2-2026, Jan 2, 2026, Jan 2
            [Month(month), Signed(day), Signed(year), ref rest @ ..] => {
                (Some(negated(year)), month, -day.value, rest)
            }
            [
                Month(month),
                Unsigned(day),
                Mark(b','),
                Unsigned(year),
                ref rest @ ..,
            ] => (Some(year), month, day.value, rest),
            [Month(month), Unsigned(day), ref rest @ ..] => (None, month, day.value, rest),
            _ => return None,
        };
        self.set_date(year, month, day);
        Some(rest)
    }

    /// Parses an amount of time, optionally with `ago`, or a number by itself. Returns the words after it.
    fn parse_amount<'w>(&mut self, words: &'w [DateWord]) -> Option<&'w [DateWord]> {
        use DateWord::{Ago, Ordinal, Signed, Unsigned};
        let (unit, many, nanos, rest) = match *words {
            [
                Unsigned(many) | Signed(many),
                DateWord::Unit(unit, size),
                ref rest @ ..,
            ] => (unit, many.value.checked_mul(size)?, 0, rest),
            [Ordinal(many), DateWord::Unit(unit, size), ref rest @ ..] => {
                (unit, many * size, 0, rest)
            }
            [DateWord::Unit(unit, size), ref rest @ ..] => (unit, size, 0, rest),
            [
                DateWord::Decimal(whole, nanos, _),
                DateWord::Unit(TimeUnit::Second, _),
                ref rest @ ..,
            ] => (TimeUnit::Second, whole, i64::from(nanos), rest),
            [Unsigned(number), ref rest @ ..] => {
                self.take_number(number);
                return Some(rest);
            }
            _ => return None,
        };
        let (factor, rest) = match *rest {
            [Ago(factor), ref rest @ ..] => (factor, rest),
            _ => (1, rest),
        };
        self.add_relative(unit, many.checked_mul(factor)?, nanos * factor)?;
        Some(rest)
    }

    fn set_date(&mut self, year: Option<TypedNumber>, month: i64, day: i64) {
        self.dates += 1;
        // Two-digit years follow XPG4: 69 to 99 are in the last century.
        self.year = year.map(|year| match year.value {
            value @ 0..69 if year.digits == 2 => value + 2000,
            value @ 69.. if year.digits == 2 => value + 1900,
            value => value,
        });
        (self.month, self.day) = (month, day);
    }

    fn set_weekday(&mut self, ordinal: i64, day: i64) {
        self.days += 1;
        (self.ordinal, self.weekday) = (ordinal, day);
    }

    /// Takes a number by itself: a year after a date without one, a date, or a time.
    fn take_number(&mut self, number: TypedNumber) {
        let TypedNumber { value, digits } = number;
        let bare = self.dates > 0 && self.year.is_none() && !self.relative;
        if bare && (self.times > 0 || digits > 2) {
            self.set_date(Some(number), self.month, self.day);
            self.dates -= 1;
        } else if digits > 4 {
            let (value, day) = (value / 100, value % 100);
            let (value, digits) = (value / 100, digits - 4);
            self.set_date(
                Some(TypedNumber { value, digits }),
                number.value / 100 % 100,
                day,
            );
        } else {
            let (hour, minute) = if digits <= 2 {
                (value, 0)
            } else {
                (value / 100, value % 100)
            };
            self.set_time(hour, minute, 0, 0, None);
        }
    }

    /// Parses `3pm`, `3:04`, `3:04:05.6 am`, `03:04+01:00`, `03+01`.
    fn parse_time<'w>(&mut self, words: &'w [DateWord]) -> Option<&'w [DateWord]> {
        use DateWord::{Decimal, Half, Mark, Signed, Unsigned};
        let (hour, minute, (second, nanos), rest) = match *words {
            [
                Unsigned(h),
                Mark(b':'),
                Unsigned(m),
                Mark(b':'),
                Unsigned(s),
                ref rest @ ..,
            ] => (h, m.value, (s.value, 0), rest),
            [
                Unsigned(h),
                Mark(b':'),
                Unsigned(m),
                Mark(b':'),
                Decimal(s, nanos, false),
                ref rest @ ..,
            ] => (h, m.value, (s, nanos), rest),
            [Unsigned(h), Mark(b':'), Unsigned(m), ref rest @ ..] => (h, m.value, (0, 0), rest),
            [Unsigned(h), ref rest @ ..] if matches!(rest, [Half(_) | Signed(_), ..]) => {
                (h, 0, (0, 0), rest)
            }
            _ => return None,
        };
        let (half, rest) = match *rest {
            [Half(half), ref rest @ ..] => (Some(half), rest),
            _ => (None, rest),
        };
        self.set_time(hour.value, minute, second, nanos, half);
        match *rest {
            [Signed(east), ref rest @ ..] if half.is_none() => self.parse_offset(0, east, rest),
            _ => Some(rest),
        }
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64, nanos: u32, half: Option<bool>) {
        let hour = match (half, hour) {
            (None, hour) => hour,
            (Some(after_noon), 1..=12) => hour % 12 + if after_noon { 12 } else { 0 },
            // There is no such hour.
            (Some(_), _) => -1,
        };
        let part = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        let time = NaiveTime::from_hms_nano_opt(part(hour), part(minute), part(second), nanos);
        // An invalid time counts as two, which is one more than is allowed.
        self.times += if time.is_some() { 1 } else { 2 };
        self.time = time.unwrap_or_default();
    }

    fn parse_zone<'w>(&mut self, zone: i64, rest: &'w [DateWord]) -> Option<&'w [DateWord]> {
        match *rest {
            // The number belongs to an item of its own.
            [DateWord::Signed(_), DateWord::Unit(..), ..] => {}
            [DateWord::Signed(east), ref rest @ ..] => return self.parse_offset(zone, east, rest),
            [DateWord::Summer, ref rest @ ..] => {
                self.set_zone(zone + 3600);
                return Some(rest);
            }
            _ => {}
        }
        self.set_zone(zone);
        Some(rest)
    }

    fn set_zone(&mut self, zone: i64) {
        self.zones += 1;
        self.zone = zone;
    }

    /// Parses the offset after a zone: `+1`, `+01`, `+0130`, `+1:30`.
    fn parse_offset<'w>(
        &mut self,
        from: i64,
        east: TypedNumber,
        rest: &'w [DateWord],
    ) -> Option<&'w [DateWord]> {
        let (minutes, rest) = match *rest {
            [
                DateWord::Mark(b':'),
                DateWord::Unsigned(minutes),
                ref rest @ ..,
            ] => {
                let sign = if east.value < 0 { -1 } else { 1 };
                (
                    east.value
                        .checked_mul(60)?
                        .checked_add(sign * minutes.value)?,
                    rest,
                )
            }
            _ if east.digits <= 2 => (east.value * 60, rest),
            _ => (east.value / 100 * 60 + east.value % 100, rest),
        };
        if !(-24 * 60..=24 * 60).contains(&minutes) {
            return None;
        }
        self.set_zone(from + minutes * 60);
        Some(rest)
    }

    fn add_relative(&mut self, unit: TimeUnit, many: i64, nanos: i64) -> Option<()> {
        self.relative = true;
        let [years, months, days] = &mut self.calendar;
        let (slot, seconds) = match unit {
            TimeUnit::Year => (years, 0),
            TimeUnit::Month => (months, 0),
            TimeUnit::Day => (days, 0),
            TimeUnit::Hour => (&mut 0, 3600),
            TimeUnit::Minute => (&mut 0, 60),
            TimeUnit::Second => (&mut 0, 1),
        };
        *slot = slot.checked_add(many)?;
        let length = Duration::try_seconds(many.checked_mul(seconds)?)?;
        self.clock = self.clock.checked_add(&length)?;
        self.clock = self.clock.checked_add(&Duration::nanoseconds(nanos))?;
        Some(())
    }
}

/// Returns the year after a hyphen, which was parsed as a negative number.
fn negated(year: TypedNumber) -> TypedNumber {
    TypedNumber {
        value: -year.value,
        ..year
    }
}
