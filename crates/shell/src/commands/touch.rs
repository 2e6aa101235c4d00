//! `touch`: sets the times of files, and creates missing ones.

use chrono::{DateTime, Datelike, Local, NaiveDate, TimeZone};

use crate::call::{Call, CommandError, CommandResult, usage_error};
use crate::datetime;
use trumanfs_executor::home::WriteMode;
use trumanfs_types::error::Error;

use crate::options::{OptSpec, OptionArg, ParsedArgs};
use crate::quote::quoted;
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::meta::Time;

const TOUCH: OptSpec = OptSpec {
    short: "acd:fhmr:t:",
    long: &[
        ("date", OptionArg::Required, 'd'),
        ("no-create", OptionArg::None, 'c'),
        ("no-dereference", OptionArg::None, 'h'),
        ("reference", OptionArg::Required, 'r'),
        ("time", OptionArg::Required, '='),
    ],
    error_status: 1,
};

/// The mode of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Runs `touch [-acm] [-d DATE | -t STAMP] [-r FILE] FILE...`.
pub(super) fn touch(call: &mut Call<'_>) -> CommandResult {
    let typed = TOUCH.read(call.args)?;
    let Some(change) = parse_times(call, &typed)? else {
        return Ok(1);
    };
    if typed.operands.is_empty() {
        return Err(usage_error("missing file operand"));
    }
    let mut status = 0;
    // `-` is standard output, which is not itself a file of the home.
    for operand in typed.operands.iter().filter(|operand| **operand != b"-") {
        call.check()?;
        // A link's own times are not set by making a file.
        let only = typed.has('c') || typed.has('h');
        match touch_one(call, operand, &change, only) {
            Err(Error::NotFound) if typed.has('c') => {}
            Err(error) => {
                call.report_path_error(operand, &error)?;
                status = 1;
            }
            Ok(()) => {}
        }
    }
    Ok(status)
}

fn touch_one(call: &Call<'_>, typed: &[u8], change: &SetAttrs, only: bool) -> Result<(), Error> {
    let (home, path) = (call.home(), call.path(typed)?);
    match home.set_attrs(&path, change) {
        Err(Error::NotFound) if !only => {
            drop(home.open_write(&path, WriteMode::Append, NEW_FILE_MODE)?);
            let set = |time| matches!(time, SetTime::To(_));
            if set(change.atime) || set(change.mtime) {
                home.set_attrs(&path, change)
            } else {
                Ok(())
            }
        }
        set => set,
    }
}

/// Returns the times to set; `None`, after reporting it, where the reference cannot be read.
fn parse_times(
    call: &mut Call<'_>,
    typed: &ParsedArgs<'_>,
) -> Result<Option<SetAttrs>, CommandError> {
    let (mut stamp, mut date, mut reference) = (None, None, None);
    let (mut atime, mut mtime) = (false, false);
    for (letter, value) in &typed.options {
        let value = value.unwrap_or_default();
        match letter {
            'a' => atime = true,
            'm' => mtime = true,
            'd' => date = Some(value),
            'r' => reference = Some(value),
            't' => stamp = Some(to_time(value, parse_stamp(value))?),
            '=' => match value {
                b"atime" | b"access" | b"use" => atime = true,
                b"mtime" | b"modify" => mtime = true,
                other => {
                    let message = [b"invalid argument ", &quoted(other)[..], b" for '--time'"];
                    return Err(usage_error(message.concat()));
                }
            },
            _ => {}
        }
    }
    if stamp.is_some() && (date.is_some() || reference.is_some()) {
        return Err(usage_error(
            "cannot specify times from more than one source",
        ));
    }
    let (mut access, mut content) = match stamp {
        Some(time) => (SetTime::To(time), SetTime::To(time)),
        None => (SetTime::Now, SetTime::Now),
    };
    if let Some(typed) = reference {
        match call.path(typed).and_then(|path| call.home().stat(&path)) {
            Ok(meta) => (access, content) = (SetTime::To(meta.atime), SetTime::To(meta.mtime)),
            Err(error) => {
                call.report_path_error(typed, &error)?;
                return Ok(None);
            }
        }
    }
    if let Some(text) = date {
        // Relative to now, or to the reference's times.
        let shift = |from| to_time(text, parse_date(text, from)).map(SetTime::To);
        (access, content) = match (access, content) {
            (SetTime::To(access), SetTime::To(content)) => {
                (shift(to_local(access))?, shift(to_local(content))?)
            }
            _ => {
                let time = shift(Some(Local::now()))?;
                (time, time)
            }
        };
    }
    let of = |wanted: bool, time| {
        if wanted || atime == mtime {
            time
        } else {
            SetTime::Keep
        }
    };
    Ok(Some(SetAttrs {
        atime: of(atime, access),
        mtime: of(mtime, content),
        ..SetAttrs::default()
    }))
}

/// Converts a parsed time, or reports the text that could not be parsed.
fn to_time(typed: &[u8], time: Option<DateTime<Local>>) -> Result<Time, CommandError> {
    let wrong = || usage_error([b"invalid date format ", &quoted(typed)[..]].concat());
    time.map(|time| Time {
        sec: time.timestamp(),
        nsec: time.timestamp_subsec_nanos(),
    })
    .ok_or_else(wrong)
}

fn parse_date(text: &[u8], from: Option<DateTime<Local>>) -> Option<DateTime<Local>> {
    datetime::parse(text, from?)
}

fn to_local(time: Time) -> Option<DateTime<Local>> {
    Some(DateTime::from_timestamp(time.sec, time.nsec)?.with_timezone(&Local))
}

/// Parses `[[CC]YY]MMDDhhmm[.ss]`.
fn parse_stamp(text: &[u8]) -> Option<DateTime<Local>> {
    let (digits, seconds) = match text.iter().position(|b| *b == b'.') {
        Some(dot) => (text.get(..dot)?, Some(text.get(dot + 1..)?)),
        None => (text, None),
    };
    let pairs = |digits: &[u8]| -> Option<Vec<i32>> {
        let pair = |pair: &[u8]| match pair {
            [a @ b'0'..=b'9', b @ b'0'..=b'9'] => {
                Some(i32::from(a - b'0') * 10 + i32::from(b - b'0'))
            }
            _ => None,
        };
        digits.chunks(2).map(pair).collect()
    };
    let pairs_given = pairs(digits)?;
    let (year, rest) = match pairs_given.as_slice() {
        [century, year, rest @ ..] if rest.len() == 4 => (century * 100 + year, rest),
        // POSIX: 69 to 99 are in the last century.
        [year, rest @ ..] if rest.len() == 4 && *year >= 69 => (1900 + year, rest),
        [year, rest @ ..] if rest.len() == 4 => (2000 + year, rest),
        rest => (Local::now().year(), rest),
    };
    let [month, day, hour, minute] = *rest else {
        return None;
    };
    let second = match seconds.map(pairs) {
        None => 0,
        Some(Some(seconds)) => match *seconds.as_slice() {
            [second @ 0..=60] => second,
            _ => return None,
        },
        Some(None) => return None,
    };
    let part = |part: i32| u32::try_from(part).ok();
    let day = NaiveDate::from_ymd_opt(year, part(month)?, part(day)?)?;
    let minute = day.and_hms_opt(part(hour)?, part(minute)?, 0)?;
    // A leap second (:60) becomes the first second of the next minute.
    let time = minute + chrono::Duration::seconds(second.into());
    Local.from_local_datetime(&time).earliest()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use crate::commands::tests::Bench;

    #[test]
    fn files_are_touched() {
        let mut bench = Bench::new();
        bench.put("f", "kept");
        bench.put("d/x", "");
        for (line, err) in [
            ("touch new f d", ""),
            ("touch -c missing missing/x", ""),
            ("touch - .", ""),
            ("touch f/x", "f/x: Not a directory"),
            ("touch -c f/x", "f/x: Not a directory"),
            ("touch missing/", "missing/: No such file or directory"),
            ("touch missing/x", "missing/x: No such file or directory"),
            ("touch", "missing file operand"),
            ("touch -Z f", "invalid option -- 'Z'"),
            ("touch -d garbage f", "invalid date format 'garbage'"),
            ("touch -t 2026 f", "invalid date format '2026'"),
            (
                "touch -t 202613020304 f",
                "invalid date format '202613020304'",
            ),
            (
                "touch -t 202601020304.61 f",
                "invalid date format '202601020304.61'",
            ),
            ("touch -r missing f", "missing: No such file or directory"),
            ("touch --time=foo f", "invalid argument 'foo' for '--time'"),
            (
                "touch -d 2020-01-01 -t 01020304 f",
                "cannot specify times from more than one source",
            ),
            ("touch /etc/x", "/etc/x: No such file or directory"),
        ] {
            let wanted = match err {
                "" => (String::new(), String::new(), 0),
                err => (String::new(), format!("touch: {err}\n"), 1),
            };
            assert_eq!(bench.run(line, ""), wanted, "{line}");
        }
        assert!(bench.dir.path().join("new").exists());
        assert!(!bench.dir.path().join("missing").exists());
        let kept = std::fs::read(bench.dir.path().join("f")).unwrap();
        assert_eq!(kept, b"kept");
    }

    #[test]
    fn times_are_set_as_requested() {
        let mut bench = Bench::new();
        let mut times = |line: &str| {
            assert_eq!(bench.run(line, "").2, 0, "{line}");
            let meta = std::fs::metadata(bench.dir.path().join("f")).unwrap();
            (meta.atime(), meta.mtime())
        };
        assert_eq!(times("touch -d @1000.5 f"), (1000, 1000));
        assert_eq!(times("touch -a -d @2000 f"), (2000, 1000));
        assert_eq!(times("touch -m -d @3000 f"), (2000, 3000));
        assert_eq!(times("touch -am -d @4000 f"), (4000, 4000));
        assert_eq!(times("touch --time=use -d @5000 f"), (5000, 4000));
        assert_eq!(times("touch -r f -d 1day f"), (5000 + 86400, 4000 + 86400));
        let (atime, mtime) = times("touch -t 6912312359.60 f");
        assert_eq!(atime, mtime);
        assert!((-86400..86400).contains(&mtime), "{mtime}");
        let (_, later) = times("touch -t 6801010000 f");
        assert!(later > 3_000_000_000, "{later}");
        let now = chrono::Utc::now().timestamp();
        assert!((times("touch f").1 - now).abs() < 100);
    }
}
