//! The ends of a line, read without the fields between: its schema, its link to the line before, and the check of a seal.

use super::json_cursor::JsonCursor;

/// Returns the `prev` at the end of a line, before the check of a seal; `None` where it is elsewhere.
pub(super) fn prev(line: &[u8]) -> Option<&[u8]> {
    let rest = match check(line) {
        Some((before, _)) => before.strip_suffix(b"\"")?,
        None => line.strip_suffix(b"\"}")?,
    };
    let prev = |digits| hash(rest, b",\"prev\":\"", digits).map(|(_, prev)| prev);
    prev(16).or_else(|| prev(64))
}

/// Splits off the check at the end of a line: a seal has one, and nothing else does.
pub(super) fn check(line: &[u8]) -> Option<(&[u8], &[u8])> {
    hash(line.strip_suffix(b"\"}")?, b",\"check\":\"", 64)
}

/// Returns the schema of a line; 0 if it cannot be determined.
pub(super) fn schema(line: &[u8]) -> u32 {
    #[derive(serde::Deserialize)]
    struct SchemaField {
        v: u32,
    }
    let number = |text| JsonCursor(text).number::<u64>();
    match line.strip_prefix(b"{\"v\":").and_then(number) {
        Some(v) => u32::try_from(v).unwrap_or(u32::MAX),
        None => serde_json::from_slice(line).map_or(0, |field: SchemaField| field.v),
    }
}

/// Splits off a field with the given number of hexadecimal digits at the end of a text.
fn hash<'a>(text: &'a [u8], field: &[u8], digits: usize) -> Option<(&'a [u8], &'a [u8])> {
    let (before, hash) = text.split_at_checked(text.len().checked_sub(digits)?)?;
    let before = before.strip_suffix(field)?;
    hash.iter()
        .all(u8::is_ascii_hexdigit)
        .then_some((before, hash))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_found_at_the_end_only() {
        let hash = "ab".repeat(32);
        let line = format!("{{\"seq\":1,\"prev\":\"{hash}\"}}");
        assert_eq!(prev(line.as_bytes()), Some(hash.as_bytes()));
        assert_eq!(
            prev(format!("{{\"prev\":\"{hash}\",\"seq\":1}}").as_bytes()),
            None
        );
        assert_eq!(prev(b"\"}"), None);
        let seal = format!(
            "{{\"seq\":1,\"prev\":\"{hash}\",\"check\":\"{}\"}}",
            "c".repeat(64)
        );
        assert_eq!(prev(seal.as_bytes()), Some(hash.as_bytes()));
        assert!(check(seal.as_bytes()).is_some() && check(line.as_bytes()).is_none());
    }
}
