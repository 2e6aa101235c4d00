//! `date +FORMAT`: GNU's directives in the C locale, with their flags (`- _ 0 ^ #`) and widths.
//!
//! The flag `+` is not supported; a directive with it is printed as typed, like any unknown directive.

use chrono::{DateTime, Datelike, Local, NaiveDateTime, Offset, Timelike, Utc};

use crate::datetime::NamedZone;
use trumanfs_sys::zone;

/// A moment as wall-clock time in its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct WallTime {
    local: NaiveDateTime,
    /// The zone's offset: seconds east of Greenwich.
    east: i32,
    zone: Vec<u8>,
    /// Seconds since 1970.
    seconds: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A directive: the flags, width and letter after a `%`.
#[derive(Debug, Clone, Copy, Default)]
struct FormatDirective {
    pad: Option<u8>,
    upper: bool,
    swap: bool,
    width: Option<usize>,
    colons: usize,
    letter: u8,
}

impl FormatDirective {
    /// Reads the directive after a `%`. Returns it and the text that follows.
    fn read(text: &[u8]) -> Option<(FormatDirective, &[u8])> {
        let mut found = FormatDirective::default();
        let mut rest = text;
        loop {
            let (first, after) = rest.split_first()?;
            match first {
                b'-' | b'_' | b'0' => found.pad = Some(*first),
                b'^' => found.upper = true,
                b'#' => found.swap = true,
                _ => break,
            }
            rest = after;
        }
        while let Some((digit @ b'0'..=b'9', after)) = rest.split_first() {
            let width = found.width.unwrap_or(0) * 10 + usize::from(digit - b'0');
            // Wider than any line, but small enough to be harmless.
            found.width = Some(width.min(4096));
            rest = after;
        }
        while let [b':', after @ ..] = rest {
            found.colons += 1;
            rest = after;
        }
        // `E` and `O` ask for the locale's own numbers and years, which the C locale does not have.
        if let [b'E' | b'O', after @ ..] = rest
            && found.colons == 0
        {
            rest = after;
        }
        let (letter, rest) = rest.split_first()?;
        found.letter = *letter;
        Some((found, rest))
    }

    /// Pads a number to `least` digits, or to the width given. A sign counts towards the width; it stands before
    /// padding zeros and after padding spaces.
    fn number(self, sign: &str, digits: &str, least: usize, pad: u8) -> Vec<u8> {
        let missing = self.width.unwrap_or(least);
        let missing = missing.saturating_sub(sign.len() + digits.len());
        let (spaces, zeros) = match self.pad.unwrap_or(pad) {
            b'-' => (0, 0),
            b'_' => (missing, 0),
            _ => (0, missing),
        };
        let (spaces, zeros) = (" ".repeat(spaces), "0".repeat(zeros));
        [&spaces, sign, &zeros, digits].concat().into_bytes()
    }

    /// Pads a word, and changes its case.
    fn word(self, mut word: Vec<u8>, swapped: fn(&mut [u8])) -> Vec<u8> {
        if self.swap {
            swapped(&mut word);
        } else if self.upper {
            word.make_ascii_uppercase();
        }
        let missing = self.width.unwrap_or(0).saturating_sub(word.len());
        let mut padded = match self.pad {
            Some(b'-') => Vec::new(),
            Some(b'0') => vec![b'0'; missing],
            _ => vec![b' '; missing],
        };
        padded.append(&mut word);
        padded
    }
}

impl WallTime {
    /// Makes a moment in the process's zone.
    pub(in super::super) fn local(at: DateTime<Local>) -> WallTime {
        WallTime {
            local: at.naive_local(),
            east: at.offset().fix().local_minus_utc(),
            zone: zone::name(at.timestamp()).unwrap_or_default(),
            seconds: at.timestamp(),
        }
    }

    /// Makes a moment in a named zone.
    pub(super) fn zoned(at: &DateTime<NamedZone>) -> WallTime {
        WallTime {
            local: at.naive_local(),
            east: at.offset().fix().local_minus_utc(),
            zone: at.timezone().name_at(at.timestamp()),
            seconds: at.timestamp(),
        }
    }

    /// Makes a moment in UTC.
    pub(super) fn utc(at: DateTime<Utc>) -> WallTime {
        WallTime {
            local: at.naive_utc(),
            east: 0,
            zone: b"UTC".to_vec(),
            seconds: at.timestamp(),
        }
    }

    /// Formats the moment.
    pub(in super::super) fn format(&self, format: &[u8]) -> Vec<u8> {
        let mut written = Vec::new();
        let mut rest = format;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            if *first != b'%' {
                written.push(*first);
                continue;
            }
            let directive = FormatDirective::read(after);
            let found = directive
                .and_then(|(directive, rest)| self.directive(directive).map(|text| (text, rest)));
            match found {
                Some((text, after)) => {
                    written.extend_from_slice(&text);
                    rest = after;
                }
                // An unknown directive is printed as typed.
                None => written.push(b'%'),
            }
        }
        written
    }

    fn directive(&self, how: FormatDirective) -> Option<Vec<u8>> {
        if how.colons > 0 && how.letter != b'z' {
            return None;
        }
        let at = self.local;
        let weekday = at.weekday().num_days_from_sunday();
        let (month, day) = (name_of(&MONTHS, at.month0())?, name_of(&DAYS, weekday)?);
        let short = |name: &str| name.get(..3).unwrap_or_default().as_bytes().to_vec();
        let upper: fn(&mut [u8]) = <[u8]>::make_ascii_uppercase;
        let lower: fn(&mut [u8]) = <[u8]>::make_ascii_lowercase;
        let kept: fn(&mut [u8]) = |_| {};
        let nested = |format: &[u8]| how.word(self.format(format), kept);
        let number = |value: i64, least| signed(how, value, least, b'0');
        let spaced = |value: i64, least| signed(how, value, least, b'_');
        let year = i64::from(at.year());
        let week = at.iso_week();
        let hour12 = i64::from(at.hour12().1);
        Some(match how.letter {
            b'%' => b"%".to_vec(),
            b'n' => how.word(b"\n".to_vec(), kept),
            b't' => how.word(b"\t".to_vec(), kept),
            b'a' => how.word(short(day), upper),
            b'A' => how.word(day.as_bytes().to_vec(), upper),
            b'b' | b'h' => how.word(short(month), upper),
            b'B' => how.word(month.as_bytes().to_vec(), upper),
            b'c' => nested(b"%a %b %e %H:%M:%S %Y"),
            b'x' | b'D' => nested(b"%m/%d/%y"),
            b'X' | b'T' => nested(b"%H:%M:%S"),
            b'r' => nested(b"%I:%M:%S %p"),
            b'R' => nested(b"%H:%M"),
            b'F' => {
                let years = how.width.map_or(4, |width| width.saturating_sub(6).max(4));
                let how = FormatDirective {
                    width: Some(years),
                    ..how
                };
                let mut date = signed(how, year, 4, b'0');
                date.extend(self.format(b"-%m-%d"));
                date
            }
            b'p' => how.word(half(at, "AM", "PM"), lower),
            b'P' => FormatDirective {
                upper: false,
                ..how
            }
            .word(half(at, "am", "pm"), kept),
            b'Z' => how.word(self.zone.clone(), lower),
            b'C' => number(year.div_euclid(100), 2),
            b'd' => number(at.day().into(), 2),
            b'e' => spaced(at.day().into(), 2),
            b'g' => number(i64::from(week.year()).rem_euclid(100), 2),
            b'G' => number(week.year().into(), 4),
            b'H' => number(at.hour().into(), 2),
            b'I' => number(hour12, 2),
            b'j' => number(at.ordinal().into(), 3),
            b'k' => spaced(at.hour().into(), 2),
            b'l' => spaced(hour12, 2),
            b'm' => number(at.month().into(), 2),
            b'M' => number(at.minute().into(), 2),
            b'N' => self.fraction(how),
            b'q' => number(i64::from(at.month0() / 3 + 1), 1),
            b's' => number(self.seconds, 1),
            b'S' => number(at.second().into(), 2),
            b'u' => number(at.weekday().number_from_monday().into(), 1),
            b'U' => number(i64::from((at.ordinal() + 6 - weekday) / 7), 2),
            b'V' => number(week.week().into(), 2),
            b'w' => number(weekday.into(), 1),
            b'W' => number(i64::from((at.ordinal() + 6 - (weekday + 6) % 7) / 7), 2),
            b'y' => number(year.rem_euclid(100), 2),
            b'Y' => number(year, 4),
            b'z' => self.offset(how)?,
            _ => return None,
        })
    }

    /// Formats the nanoseconds; a width truncates them, or extends them with zeros.
    fn fraction(&self, how: FormatDirective) -> Vec<u8> {
        let mut digits = format!("{:09}", self.local.nanosecond()).into_bytes();
        let width = how.width.filter(|width| *width > 0).unwrap_or(9);
        digits.truncate(width);
        if how.pad == Some(b'_') {
            for digit in digits.iter_mut().skip(1).rev() {
                if *digit != b'0' {
                    break;
                }
                *digit = b' ';
            }
            digits.resize(width, b' ');
        }
        digits.resize(width, b'0');
        digits
    }

    /// Formats the zone's offset: `+0130`, `+01:30`, `+01:30:00`, and with three colons the shortest of these that is
    /// exact.
    fn offset(&self, how: FormatDirective) -> Option<Vec<u8>> {
        let sign = if self.east < 0 { "-" } else { "+" };
        let east = self.east.unsigned_abs();
        let (hours, minutes, seconds) = (east / 3600, east / 60 % 60, east % 60);
        let (text, least) = match (how.colons, minutes, seconds) {
            (0, ..) => (format!("{}", hours * 100 + minutes), 5),
            (3, 0, 0) => (format!("{hours}"), 3),
            (1, ..) | (3, _, 0) => (format!("{hours}:{minutes:02}"), 6),
            (2 | 3, ..) => (format!("{hours}:{minutes:02}:{seconds:02}"), 9),
            _ => return None,
        };
        Some(how.number(sign, &text, least, b'0'))
    }
}

fn signed(how: FormatDirective, value: i64, least: usize, pad: u8) -> Vec<u8> {
    let sign = if value < 0 { "-" } else { "" };
    how.number(sign, &value.unsigned_abs().to_string(), least, pad)
}

fn half(at: NaiveDateTime, am: &str, pm: &str) -> Vec<u8> {
    if at.hour() < 12 { am } else { pm }.as_bytes().to_vec()
}

fn name_of<'n>(names: &[&'n str], at: u32) -> Option<&'n str> {
    names.get(usize::try_from(at).ok()?).copied()
}
