//! `date`: prints the current time, or a date given as text, in a format. It never sets the clock.
//!
//! The zone is that of `TZ=… date`, UTC with `date -u`, otherwise the process's own.

mod format;

use std::io::{BufRead, Write};

use chrono::{DateTime, Local, Utc};

use crate::call::{Call, CommandError, CommandResult, usage_error};
use crate::datetime;
use crate::options::{OptSpec, OptionArg, ParsedArgs};
use crate::stream::buffered;
pub(super) use format::WallTime;

const KNOWN: OptSpec = OptSpec {
    short: "d:f:I::r:Rs:u",
    long: &[
        ("date", OptionArg::Required, 'd'),
        ("file", OptionArg::Required, 'f'),
        ("iso-8601", OptionArg::Optional, 'I'),
        ("reference", OptionArg::Required, 'r'),
        ("rfc-2822", OptionArg::None, 'R'),
        ("rfc-3339", OptionArg::Required, '3'),
        ("rfc-822", OptionArg::None, 'R'),
        ("rfc-email", OptionArg::None, 'R'),
        ("set", OptionArg::Required, 's'),
        ("uct", OptionArg::None, 'u'),
        ("universal", OptionArg::None, 'u'),
        ("utc", OptionArg::None, 'u'),
    ],
    error_status: 1,
};

/// The precisions of `--iso-8601`; without one, only the date is printed.
const ISO_8601: &[(&str, &[u8])] = &[
    ("hours", b"%Y-%m-%dT%H%:z"),
    ("minutes", b"%Y-%m-%dT%H:%M%:z"),
    ("date", b"%Y-%m-%d"),
    ("seconds", b"%Y-%m-%dT%H:%M:%S%:z"),
    ("ns", b"%Y-%m-%dT%H:%M:%S,%N%:z"),
];

/// The precisions of `--rfc-3339`.
const RFC_3339: &[(&str, &[u8])] = &[
    ("date", b"%Y-%m-%d"),
    ("seconds", b"%Y-%m-%d %H:%M:%S%:z"),
    ("ns", b"%Y-%m-%d %H:%M:%S.%N%:z"),
];

const RFC_5322: &[u8] = b"%a, %d %b %Y %H:%M:%S %z";
const DEFAULT_FORMAT: &[u8] = b"%a %b %e %H:%M:%S %Z %Y";

/// The zone to print in.
enum OutputZone {
    Local,
    Utc,
    Named(datetime::NamedZone),
}

/// The dates to print.
enum DateSource<'a> {
    Now,
    Text(&'a [u8]),
    /// Each line of a file.
    Lines(&'a [u8]),
    /// The modification time of a file.
    File(&'a [u8]),
}

pub(super) fn date(call: &mut Call<'_>) -> CommandResult {
    let typed = KNOWN.read(call.args)?;
    let named = call.state.variables.get(&b"TZ"[..]);
    let place = match named {
        _ if typed.has('u') => OutputZone::Utc,
        None => OutputZone::Local,
        // An empty `TZ` means UTC, as in the C library.
        Some(text) if text.is_empty() => OutputZone::Utc,
        // Admission has already refused lines with an unknown zone.
        Some(text) => datetime::NamedZone::find(text).map_or(OutputZone::Utc, OutputZone::Named),
    };
    let (source, mut set) = parse_source(&typed)?;
    let mut format = parse_format(&typed)?;
    let mut operands = typed.operands.iter();
    if let Some(operand) = operands.next() {
        if let Some(extra) = operands.next() {
            return Err(usage_error(quoted(b"extra operand ", extra, b"")));
        }
        match operand.strip_prefix(b"+") {
            Some(_) if format.is_some() => {
                return Err(usage_error("multiple output formats specified"));
            }
            Some(typed) => format = Some(typed),
            None if set.is_some() || !matches!(source, DateSource::Now) => {
                return Err(usage_error(quoted(
                    b"the argument ",
                    operand,
                    b" lacks a leading '+'",
                )));
            }
            None if !is_clock(operand) => return report_invalid(call, operand),
            None => set = Some(b"now"),
        }
    }
    if let Some(text) = set {
        return match place.read(text) {
            None => report_invalid(call, text),
            Some(_) => {
                call.report(b"cannot set date: Operation not supported")?;
                Ok(1)
            }
        };
    }
    let format = format.unwrap_or(DEFAULT_FORMAT);
    match source {
        DateSource::Now => print(call, Some(place.moment(Utc::now())), format),
        DateSource::Text(text) => match place.read(text) {
            None => report_invalid(call, text),
            found => print(call, found, format),
        },
        DateSource::File(file) => {
            let found = call.path(file).and_then(|path| call.home().stat(&path));
            match found {
                Ok(meta) => {
                    let at = DateTime::from_timestamp(meta.mtime.sec, meta.mtime.nsec);
                    print(call, at.map(|at| place.moment(at)), format)
                }
                Err(error) => {
                    call.report_path_error(file, &error)?;
                    Ok(1)
                }
            }
        }
        DateSource::Lines(file) => print_lines(call, file, &place, format),
    }
}

fn parse_source<'a>(
    typed: &ParsedArgs<'a>,
) -> Result<(DateSource<'a>, Option<&'a [u8]>), CommandError> {
    let (mut source, mut set) = (DateSource::Now, None);
    let mut kinds: Vec<char> = Vec::new();
    for (letter, value) in &typed.options {
        let value = value.unwrap_or_default();
        match letter {
            'd' => source = DateSource::Text(value),
            'f' => source = DateSource::Lines(value),
            'r' => source = DateSource::File(value),
            's' => {
                set = Some(value);
                continue;
            }
            _ => continue,
        }
        if !kinds.contains(letter) {
            kinds.push(*letter);
        }
    }
    if kinds.len() > 1 {
        let message = "the options to specify dates for printing are mutually exclusive";
        return Err(usage_error(message));
    }
    if set.is_some() && !kinds.is_empty() {
        let message = "the options to print and set the time may not be used together";
        return Err(usage_error(message));
    }
    Ok((source, set))
}

fn parse_format(typed: &ParsedArgs<'_>) -> Result<Option<&'static [u8]>, CommandError> {
    let mut format = None;
    for (letter, value) in &typed.options {
        let one = match letter {
            'I' => find_format(ISO_8601, value.unwrap_or(b"date"), b"--iso-8601")?,
            '3' => find_format(RFC_3339, value.unwrap_or_default(), b"--rfc-3339")?,
            'R' => RFC_5322,
            _ => continue,
        };
        if format.replace(one).is_some() {
            return Err(usage_error("multiple output formats specified"));
        }
    }
    Ok(format)
}

/// Finds a format by its name or a prefix of it.
fn find_format(
    formats: &[(&str, &'static [u8])],
    typed: &[u8],
    option: &[u8],
) -> Result<&'static [u8], CommandError> {
    let mut found = formats
        .iter()
        .filter(|(name, _)| name.as_bytes().starts_with(typed));
    match (found.next(), found.next()) {
        (Some((_, format)), None) => Ok(format),
        (found, _) => {
            let what: &[u8] = if found.is_some() {
                b"ambiguous argument "
            } else {
                b"invalid argument "
            };
            let option = quoted(b" for ", option, b"");
            Err(usage_error(quoted(what, typed, &option)))
        }
    }
}

/// Returns whether an operand is a time to set the clock to: `MMDDhhmm[[CC]YY][.ss]`.
fn is_clock(operand: &[u8]) -> bool {
    let (digits, seconds) = match operand {
        [digits @ .., b'.', a, b] => (digits, [*a, *b]),
        digits => (digits, *b"00"),
    };
    let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    matches!(digits.len(), 8 | 10 | 12) && is_digits(digits) && is_digits(&seconds)
}

/// Prints the dates listed in a file, one a line.
fn print_lines(
    call: &mut Call<'_>,
    file: &[u8],
    place: &OutputZone,
    format: &[u8],
) -> CommandResult {
    let mut opened = None;
    if file != b"-" {
        match call.open(file) {
            Ok(file) => opened = Some(buffered(file)),
            Err(error) => {
                call.report_path_error(file, &error)?;
                return Ok(1);
            }
        }
    }
    let (mut status, mut line) = (0, Vec::new());
    loop {
        call.check()?;
        line.clear();
        match &mut opened {
            Some(file) => file.read_until(b'\n', &mut line)?,
            None => call.stdin.read_until(b'\n', &mut line)?,
        };
        if line.is_empty() {
            return Ok(status);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        status |= match place.read(text) {
            None => report_invalid(call, text)?,
            found => print(call, found, format)?,
        };
    }
}

impl OutputZone {
    fn read(&self, text: &[u8]) -> Option<WallTime> {
        match self {
            OutputZone::Local => datetime::parse(text, Local::now()).map(WallTime::local),
            OutputZone::Utc => datetime::parse(text, Utc::now()).map(WallTime::utc),
            OutputZone::Named(zone) => {
                datetime::parse(text, Utc::now().with_timezone(zone)).map(|at| WallTime::zoned(&at))
            }
        }
    }

    fn moment(&self, at: DateTime<Utc>) -> WallTime {
        match self {
            OutputZone::Local => WallTime::local(at.with_timezone(&Local)),
            OutputZone::Utc => WallTime::utc(at),
            OutputZone::Named(zone) => WallTime::zoned(&at.with_timezone(zone)),
        }
    }
}

/// Prints a moment; `None` is a moment beyond the years that can be printed.
fn print(call: &mut Call<'_>, at: Option<WallTime>, format: &[u8]) -> CommandResult {
    let Some(at) = at else {
        call.report(b"time is out of range")?;
        return Ok(1);
    };
    let mut line = at.format(format);
    line.push(b'\n');
    call.out.write_all(&line)?;
    Ok(0)
}

fn report_invalid(call: &mut Call<'_>, text: &[u8]) -> CommandResult {
    call.report(&quoted(b"invalid date ", text, b""))?;
    Ok(1)
}

fn quoted(before: &[u8], what: &[u8], after: &[u8]) -> Vec<u8> {
    [before, b"'", what, b"'", after].concat()
}

#[cfg(test)]
mod tests;
