//! Numbers as `head` and `tail` parse them, with GNU's size suffixes.

use super::CountUnit;
use crate::call::{CommandError, usage_error};

/// Parses a number. The error message names the unit.
pub(super) fn parse_count(text: &[u8], unit: CountUnit) -> Result<u64, CommandError> {
    let what = match unit {
        CountUnit::Bytes => "bytes",
        CountUnit::Lines(_) => "lines",
    };
    let wrong = |why: &str| {
        let begin = format!("invalid number of {what}: '");
        usage_error([begin.as_bytes(), text, b"'", why.as_bytes()].concat())
    };
    let Some((digits, factor)) = split(text) else {
        return Err(wrong(""));
    };
    // A suffix without digits counts as 1 of it.
    let number = digits.iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    let number = if digits.is_empty() { Some(1) } else { number };
    number
        .and_then(|number| number.checked_mul(factor?))
        .ok_or_else(|| wrong(": Value too large for defined data type"))
}

/// Splits a number into its digits and the value of its suffix, which is `None` where it overflows. Returns `None`
/// for text that is not a number.
fn split(text: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let trimmed = text.trim_ascii_start();
    let unsigned = match trimmed {
        [b'+', rest @ ..] if rest.first()?.is_ascii_digit() => rest,
        _ => trimmed,
    };
    let length = unsigned
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, suffix) = unsigned.split_at(length);
    // Leading spaces are allowed before digits, not before a suffix alone.
    if digits.is_empty() && trimmed.len() < text.len() {
        return None;
    }
    let (letter, base) = match suffix {
        b"" if digits.is_empty() => return None,
        b"" => return Some((digits, Some(1))),
        b"b" => return Some((digits, Some(512))),
        [letter] | [letter, b'i', b'B'] => (letter, 1024u64),
        [letter, b'B'] => (letter, 1000),
        _ => return None,
    };
    let power = match letter {
        b'k' | b'K' => 1,
        b'm' | b'M' => 2,
        b'G' => 3,
        b'T' => 4,
        b'P' => 5,
        b'E' => 6,
        b'Z' => 7,
        b'Y' => 8,
        _ => return None,
    };
    Some((digits, base.checked_pow(power)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<u64, String> {
        parse_count(text.as_bytes(), CountUnit::Bytes).map_err(|stop| match stop {
            CommandError::Usage(message, 1) => String::from_utf8(message).unwrap(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn numbers_and_suffixes() {
        for (text, number) in [
            ("0", 0),
            ("12", 12),
            ("+2", 2),
            (" 2", 2),
            ("K", 1024),
            ("2b", 1024),
            ("1k", 1024),
            ("1kB", 1000),
            ("1KiB", 1024),
            ("3MB", 3_000_000),
            ("1m", 1 << 20),
            ("1G", 1 << 30),
            ("15E", 15 << 60),
        ] {
            assert_eq!(of(text), Ok(number), "{text}");
        }
        for text in [
            "", "x", "-1", "2x", "2 ", " K", "+K", "1bB", "0x10", "1Q", "1Bi", "+", "g",
        ] {
            assert_eq!(of(text), Err(format!("invalid number of bytes: '{text}'")));
        }
        for text in ["99999999999999999999", "1Y", "16E"] {
            let message =
                format!("invalid number of bytes: '{text}': Value too large for defined data type");
            assert_eq!(of(text), Err(message));
        }
    }
}
