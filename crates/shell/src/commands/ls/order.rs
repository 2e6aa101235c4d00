//! The sort keys of entries: name in the C locale, time, size, extension or version. Owns the comparison of versions.

use std::cmp::Ordering;

/// The sort key. Entries with equal keys are sorted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortOrder {
    /// The order of the directory.
    None,
    Name,
    /// The latest first.
    Time,
    /// The largest first.
    Size,
    Extension,
    Version,
}

/// Compares names as GNU's filevercmp does: without their suffixes first, then whole.
pub(super) fn compare_versions(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |name: &[u8]| match name {
        b"" => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    };
    match rank(a).cmp(&rank(b)) {
        Ordering::Equal if rank(a) > 2 => {}
        order => return order,
    }
    compare_runs(without_suffix(a), without_suffix(b)).then_with(|| compare_runs(a, b))
}

/// Cuts off what matches `(\.[A-Za-z~][A-Za-z0-9~]*)*$`.
fn without_suffix(name: &[u8]) -> &[u8] {
    let mut length = 0;
    let mut at = 0;
    loop {
        while let Some([b'.', first, rest @ ..]) = name.get(at..)
            && (first.is_ascii_alphabetic() || *first == b'~')
        {
            let more = rest
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'~');
            at += 2 + more.count();
        }
        if at >= name.len() {
            return name.get(..length).unwrap_or(name);
        }
        at += 1;
        length = at;
    }
}

/// Compares names run by run: runs without digits byte by byte, numbers by value.
fn compare_runs(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        while begins_in_text(a) || begins_in_text(b) {
            let order = byte_rank(a).cmp(&byte_rank(b));
            if order.is_ne() {
                return order;
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let (left, right) = (take_number(&mut a), take_number(&mut b));
        let order = left.len().cmp(&right.len()).then_with(|| left.cmp(right));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn begins_in_text(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Returns the rank of the first byte: `~` sorts before the end, the end before digits, letters before other bytes.
fn byte_rank(text: &[u8]) -> i32 {
    match text.first() {
        None => -1,
        Some(b'~') => -2,
        Some(byte) if byte.is_ascii_digit() => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// Takes the digits at the start. Returns them without leading zeros.
fn take_number<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    *text = rest;
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}
