//! Sizes and times as operators write them.

use std::time::Duration;

/// A number of bytes, as operators write it: 4096, 500K, 20M, 3G, 1T (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteSize(pub(super) u64);

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let bad = || format!("{text}: not a size; write it as in 500K, 20M or 3G");
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = text.get(number.len()..).unwrap_or_default();
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(bad()),
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(ByteSize).ok_or_else(bad)
    }
}

fn number<'a>(text: &'a str, what: &str) -> std::result::Result<(u64, &'a str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    match digits.parse() {
        Ok(number) => Ok((number, unit)),
        Err(_) => Err(format!("not a {what}")),
    }
}

/// Reads `30m`, `12h`, `7d`, `4w`.
pub(super) fn duration(text: &str) -> std::result::Result<chrono::TimeDelta, String> {
    let (number, unit) = number(text, "time; try 30m, 12h, 7d or 4w")?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        "w" => 7 * 86400,
        _ => return Err("not a time; try 30m, 12h, 7d or 4w".to_owned()),
    };
    let seconds = number
        .checked_mul(seconds)
        .and_then(|s| i64::try_from(s).ok());
    // Longer than the calendar reaches back is as good as never.
    let seconds = seconds.filter(|seconds| *seconds < 200 * 366 * 86400);
    seconds
        .and_then(chrono::TimeDelta::try_seconds)
        .ok_or_else(|| "more than 200 years".to_owned())
}

/// Reads a number of seconds.
pub(super) fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("{text}: not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("{text}: {error}"))
}

/// Reads a number of seconds that is not 0.
pub(super) fn some_seconds(text: &str) -> std::result::Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err(format!("{text}: within no time nothing runs")),
        some => Ok(some),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("7d", 604_800), ("1w", 604_800)] {
            assert_eq!(duration(text).unwrap().num_seconds(), seconds, "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "-1d",
            "7 days",
            "99999999999999999999d",
            "1000000w",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
