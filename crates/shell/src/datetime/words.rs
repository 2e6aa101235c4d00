//! The words of a date: numbers, months, days of the week, units, zones and punctuation.
//!
//! Owns the tables of names, which are those of GNU's parse_datetime. The meaning of a sequence of words is not
//! decided here.

/// A whole number as typed. Its meaning depends on its number of digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypedNumber {
    pub(super) value: i64,
    pub(super) digits: usize,
}

/// The units of relative items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateWord {
    Unsigned(TypedNumber),
    /// A number after `+` or `-`.
    Signed(TypedNumber),
    /// A number with a fraction: whole seconds, rounded down, nanoseconds, and whether it has a sign.
    Decimal(i64, u32, bool),
    /// `January` is 1.
    Month(i64),
    /// `Sunday` is 0.
    Day(i64),
    /// `last`, `this`, `next`, `third`.
    Ordinal(i64),
    /// A unit, and the number of units that the name means: a week is 7 days.
    Unit(TimeUnit, i64),
    /// `yesterday`, `today`, `tomorrow`, in days.
    Shift(i64),
    /// `ago`, `hence`: a factor.
    Ago(i64),
    /// `am` or `pm`.
    Half(bool),
    /// Seconds east of Greenwich.
    Zone(i64),
    /// The word `dst` after a zone.
    Summer,
    /// The separator between date and time, or a zone.
    T,
    Mark(u8),
}

/// Splits a text into words; `None` where a word is unknown.
pub(super) fn split_words(text: &[u8]) -> Option<Vec<DateWord>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        match first {
            byte if is_space(*byte) => rest = after,
            b'0'..=b'9' => rest = parse_number(rest, None, &mut found)?,
            b'+' | b'-' => {
                rest = after.trim_ascii_start();
                // A sign is ignored before anything but a digit, as in GNU's.
                if rest.first().is_some_and(u8::is_ascii_digit) {
                    rest = parse_number(rest, Some(*first == b'-'), &mut found)?;
                }
            }
            b'(' => rest = after_comment(rest),
            byte if byte.is_ascii_alphabetic() => {
                let is_part = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'.';
                let (word, after) = split(rest, is_part);
                found.push(look_up_word(&word.to_ascii_uppercase())?);
                rest = after;
            }
            byte => {
                found.push(DateWord::Mark(*byte));
                rest = after;
            }
        }
    }
    Some(found)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn split(text: &[u8], is_part: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !is_part(byte));
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the text after a comment; an unclosed comment extends to the end.
fn after_comment(text: &[u8]) -> &[u8] {
    let mut open = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return text.get(at + 1..).unwrap_or_default();
        }
    }
    &[]
}

/// Parses a number; `negative` is its sign, if it has one. Returns the text after it.
fn parse_number<'t>(
    text: &'t [u8],
    negative: Option<bool>,
    found: &mut Vec<DateWord>,
) -> Option<&'t [u8]> {
    let (digits, after) = split(text, u8::is_ascii_digit);
    let mut value = 0_i64;
    for digit in digits {
        value = value
            .checked_mul(10)?
            .checked_add(i64::from(digit - b'0'))?;
    }
    if negative == Some(true) {
        value = -value;
    }
    if let [b'.' | b',', fraction @ ..] = after
        && fraction.first().is_some_and(u8::is_ascii_digit)
    {
        let (fraction, after) = split(fraction, u8::is_ascii_digit);
        let mut nanos = 0;
        for at in 0..9 {
            let digit = fraction.get(at).map_or(0, |digit| digit - b'0');
            nanos = nanos * 10 + u32::from(digit);
        }
        if negative == Some(true) && nanos > 0 {
            (value, nanos) = (value - 1, 1_000_000_000 - nanos);
        }
        found.push(DateWord::Decimal(value, nanos, negative.is_some()));
        return Some(after);
    }
    let digits = digits.len();
    let number = TypedNumber { value, digits };
    found.push(match negative {
        Some(_) => DateWord::Signed(number),
        None => DateWord::Unsigned(number),
    });
    Some(after)
}

const MONTHS_AND_DAYS: &[(&[u8], DateWord)] = &[
    (b"JANUARY", DateWord::Month(1)),
    (b"FEBRUARY", DateWord::Month(2)),
    (b"MARCH", DateWord::Month(3)),
    (b"APRIL", DateWord::Month(4)),
    (b"MAY", DateWord::Month(5)),
    (b"JUNE", DateWord::Month(6)),
    (b"JULY", DateWord::Month(7)),
    (b"AUGUST", DateWord::Month(8)),
    (b"SEPTEMBER", DateWord::Month(9)),
    (b"SEPT", DateWord::Month(9)),
    (b"OCTOBER", DateWord::Month(10)),
    (b"NOVEMBER", DateWord::Month(11)),
    (b"DECEMBER", DateWord::Month(12)),
    (b"SUNDAY", DateWord::Day(0)),
    (b"MONDAY", DateWord::Day(1)),
    (b"TUESDAY", DateWord::Day(2)),
    (b"TUES", DateWord::Day(2)),
    (b"WEDNESDAY", DateWord::Day(3)),
    (b"WEDNES", DateWord::Day(3)),
    (b"THURSDAY", DateWord::Day(4)),
    (b"THUR", DateWord::Day(4)),
    (b"THURS", DateWord::Day(4)),
    (b"FRIDAY", DateWord::Day(5)),
    (b"SATURDAY", DateWord::Day(6)),
];

const UNITS: &[(&[u8], DateWord)] = &[
    (b"YEAR", DateWord::Unit(TimeUnit::Year, 1)),
    (b"MONTH", DateWord::Unit(TimeUnit::Month, 1)),
    (b"FORTNIGHT", DateWord::Unit(TimeUnit::Day, 14)),
    (b"WEEK", DateWord::Unit(TimeUnit::Day, 7)),
    (b"DAY", DateWord::Unit(TimeUnit::Day, 1)),
    (b"HOUR", DateWord::Unit(TimeUnit::Hour, 1)),
    (b"MINUTE", DateWord::Unit(TimeUnit::Minute, 1)),
    (b"MIN", DateWord::Unit(TimeUnit::Minute, 1)),
    (b"SECOND", DateWord::Unit(TimeUnit::Second, 1)),
    (b"SEC", DateWord::Unit(TimeUnit::Second, 1)),
];

const RELATIVE: &[(&[u8], DateWord)] = &[
    (b"TOMORROW", DateWord::Shift(1)),
    (b"YESTERDAY", DateWord::Shift(-1)),
    (b"TODAY", DateWord::Shift(0)),
    (b"NOW", DateWord::Shift(0)),
    (b"LAST", DateWord::Ordinal(-1)),
    (b"THIS", DateWord::Ordinal(0)),
    (b"NEXT", DateWord::Ordinal(1)),
    (b"FIRST", DateWord::Ordinal(1)),
    (b"THIRD", DateWord::Ordinal(3)),
    (b"FOURTH", DateWord::Ordinal(4)),
    (b"FIFTH", DateWord::Ordinal(5)),
    (b"SIXTH", DateWord::Ordinal(6)),
    (b"SEVENTH", DateWord::Ordinal(7)),
    (b"EIGHTH", DateWord::Ordinal(8)),
    (b"NINTH", DateWord::Ordinal(9)),
    (b"TENTH", DateWord::Ordinal(10)),
    (b"ELEVENTH", DateWord::Ordinal(11)),
    (b"TWELFTH", DateWord::Ordinal(12)),
    (b"AGO", DateWord::Ago(-1)),
    (b"HENCE", DateWord::Ago(1)),
];

/// Zones by name, in minutes east of Greenwich. Ambiguous names are resolved as GNU does.
const ZONES: &[(&str, i64)] = &[
    ("GMT UT UTC WET", 0),
    ("WEST BST WAT CET MET MEZ", 60),
    ("CEST MEST MESZ EET CAT SAST", 120),
    ("EEST EAT MSK", 180),
    ("MSD GST", 240),
    ("IST", 330),
    ("SGT", 480),
    ("KST JST", 540),
    ("NZST", 720),
    ("NZDT", 780),
    ("BRST", -120),
    ("NDT", -150),
    ("NST", -210),
    ("ART BRT ADT CLST", -180),
    ("AST CLT EDT", -240),
    ("EST CDT", -300),
    ("CST MDT", -360),
    ("MST PDT", -420),
    ("PST AKDT", -480),
    ("AKST HADT", -540),
    ("HST HAST", -600),
    ("SST", -720),
];

/// Looks up a word of letters and periods in upper case.
fn look_up_word(word: &[u8]) -> Option<DateWord> {
    match word {
        b"AM" | b"A.M." => return Some(DateWord::Half(false)),
        b"PM" | b"P.M." => return Some(DateWord::Half(true)),
        b"DST" => return Some(DateWord::Summer),
        b"T" => return Some(DateWord::T),
        _ => {}
    }
    let find = |table: &[(&[u8], DateWord)], is: &dyn Fn(&[u8]) -> bool| {
        let found = table.iter().find(|(name, _)| is(name));
        found.map(|(_, word)| *word)
    };
    let short = match word {
        [start @ .., b'.'] if start.len() == 3 => start,
        word => word,
    };
    let singular = word.strip_suffix(b"S").unwrap_or(word);
    find(MONTHS_AND_DAYS, &|name| {
        name == word || short.len() == 3 && name.starts_with(short)
    })
    .or_else(|| look_up_zone(word))
    .or_else(|| find(UNITS, &|name| name == word || name == singular))
    .or_else(|| find(RELATIVE, &|name| name == word))
    .or_else(|| match word {
        [letter] => look_up_military_zone(*letter),
        word if word.contains(&b'.') => {
            let bare: Vec<u8> = word.iter().copied().filter(|b| *b != b'.').collect();
            look_up_zone(&bare)
        }
        _ => None,
    })
}

fn look_up_zone(word: &[u8]) -> Option<DateWord> {
    let has = |names: &str| names.split(' ').any(|name| name.as_bytes() == word);
    let found = ZONES.iter().find(|(names, _)| has(names))?;
    Some(DateWord::Zone(found.1 * 60))
}

/// Looks up a military zone of one letter; there is no `J`, and `T` is not only a zone.
fn look_up_military_zone(letter: u8) -> Option<DateWord> {
    let hours = match letter {
        b'A'..=b'I' => letter - b'A' + 1,
        b'K'..=b'M' => letter - b'K' + 10,
        b'N'..=b'Y' => return Some(DateWord::Zone(-3600 * i64::from(letter - b'N' + 1))),
        b'Z' => 0,
        _ => return None,
    };
    Some(DateWord::Zone(3600 * i64::from(hours)))
}
