//! Times as people read them: of this machine's zone on a terminal, UTC elsewhere. JSON has UTC always.
//!
//! A time of another zone than UTC says its offset; so written it can be typed as a point, too.

use chrono::{DateTime, FixedOffset, Local, Offset};

use super::pager;

/// Writes the time of a record for people, to the second. Without an offset it is UTC.
pub(super) fn time(rfc3339: &str) -> String {
    on_terminal(rfc3339).unwrap_or_else(|| utc(rfc3339))
}

/// Writes the time of a record, and its zone in any case.
pub(super) fn time_and_zone(rfc3339: &str) -> String {
    on_terminal(rfc3339).unwrap_or_else(|| format!("{} UTC", utc(rfc3339)))
}

/// As [`time_and_zone`], to the microsecond.
pub(super) fn exact_time(rfc3339: &str) -> String {
    let micros = rfc3339.get(19..26).unwrap_or_default();
    let shown = time_and_zone(rfc3339);
    let (to_second, zone) = shown.split_at(shown.len().min(19));
    format!("{to_second}{micros}{zone}")
}

/// Writes the time of a record in UTC, without saying so. The review screen has no room for a zone.
pub(super) fn utc(rfc3339: &str) -> String {
    rfc3339.get(..19).unwrap_or_default().replace('T', " ")
}

/// Returns the time in this machine's zone; `None` where that is UTC, and where no terminal shows it.
fn on_terminal(rfc3339: &str) -> Option<String> {
    if !pager::is_terminal() {
        return None;
    }
    let time = DateTime::parse_from_rfc3339(rfc3339).ok()?;
    in_zone(time.with_timezone(&Local).fixed_offset())
}

fn in_zone(time: DateTime<FixedOffset>) -> Option<String> {
    let is_utc = time.offset().fix().local_minus_utc() == 0;
    (!is_utc).then(|| time.format("%Y-%m-%d %H:%M:%S %z").to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn zone_is_shown_unless_it_is_utc() {
        let time = |text| DateTime::parse_from_rfc3339(text).unwrap();
        let shown = in_zone(time("2026-07-01T23:30:00.5+05:30"));
        assert_eq!(shown.unwrap(), "2026-07-01 23:30:00 +0530");
        assert_eq!(in_zone(time("2026-07-01T23:30:00Z")), None);
    }

    #[test]
    fn utc_is_shown_where_no_terminal_is() {
        let text = "2026-01-16T10:15:30.123456Z";
        assert_eq!(utc(text), "2026-01-16 10:15:30");
        assert_eq!(utc(""), "");
    }
}
