//! Times as people type them: the one parser of `--at`, `--since`, `--until`, `--to` and ranges.

use chrono::{DateTime, Days, Local, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc};

/// Parses a time: RFC 3339; `2026-11-22`, with ` 10:15` or ` 10:15:30`, UTC unless an offset (`+0100`) follows; `-30m`
/// ago, as [`parse_ago`]; `30m` and days as [`parse_short`].
pub(super) fn parse(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if let Some(ago) = text.strip_prefix('-') {
        return parse_ago(ago, now);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    for form in [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
    ] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, form) {
            return Some(time.and_utc());
        }
        if let Ok(time) = DateTime::parse_from_str(text, &format!("{form} %z")) {
            return Some(time.to_utc());
        }
    }
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(date.and_hms_opt(0, 0, 0)?.and_utc());
    }
    parse_short(text, now)
}

/// Parses a time that a checkpoint may have for its name: `30s`, `5m`, `2h`, `1d`, `1w` ago, and the days `today` and
/// `yesterday`, which begin at midnight in this machine's zone.
pub(super) fn parse_short(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let days = match text {
        "today" => 0,
        "yesterday" => 1,
        _ => return parse_ago(text, now),
    };
    let date = now.with_timezone(&Local).date_naive();
    let date = date.checked_sub_days(Days::new(days))?;
    // Where a change of clocks skips midnight, the day begins later.
    let hours = (0..24).filter_map(|hour| date.and_hms_opt(hour, 0, 0));
    let mut starts = hours.filter_map(|start| Local.from_local_datetime(&start).earliest());
    starts.next().map(|start| start.to_utc())
}

/// Parses a number of seconds, minutes, hours, days or weeks, which have passed.
fn parse_ago(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let unit = text.chars().last()?;
    let count = text.strip_suffix(unit)?;
    let is_number = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    let count: i64 = is_number.then(|| count.parse().ok()).flatten()?;
    let ago = match unit {
        's' => TimeDelta::try_seconds(count),
        'm' => TimeDelta::try_minutes(count),
        'h' => TimeDelta::try_hours(count),
        'd' => TimeDelta::try_days(count),
        'w' => TimeDelta::try_weeks(count),
        _ => None,
    };
    now.checked_sub_signed(ago?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<String> {
        let now = "2026-11-29T12:00:00Z".parse().unwrap();
        parse(text, now).map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
    }

    #[test]
    fn times_are_read_in_each_form() {
        for (text, time) in [
            ("5m", "2026-11-29T11:55:00Z"),
            ("-5m", "2026-11-29T11:55:00Z"),
            ("90s", "2026-11-29T11:58:30Z"),
            ("2h", "2026-11-29T10:00:00Z"),
            ("1d", "2026-11-28T12:00:00Z"),
            ("1w", "2026-11-22T12:00:00Z"),
            ("2026-11-22", "2026-11-22T00:00:00Z"),
            ("2026-11-22 10:15", "2026-11-22T10:15:00Z"),
            ("2026-11-22 10:15:30 +0100", "2026-11-22T09:15:30Z"),
            ("2026-11-22 10:15 +05:30", "2026-11-22T04:45:00Z"),
            ("2026-11-22T10:15:00+01:00", "2026-11-22T09:15:00Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(time), "{text}");
        }
        for text in [
            "", "m", "-m", "5", "5x", "+5m", "--5m", "5 m", "5m2", "tomorrow", "Today",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert_eq!(parsed("99999999999999999999d"), None);
        assert_eq!(parsed("999999999999d"), None);
    }

    #[test]
    fn days_begin_at_midnight_here() {
        let now: DateTime<Utc> = "2026-11-29T12:00:00Z".parse().unwrap();
        let today = parse("today", now).unwrap();
        let yesterday = parse("yesterday", now).unwrap();
        let local = |time: DateTime<Utc>| time.with_timezone(&Local).naive_local();
        assert_eq!(local(today).date(), local(now).date());
        assert_eq!(local(yesterday).date(), local(now).date() - Days::new(1));
        assert!(today <= now);
    }
}
