//! The escapes common to `echo -e` and `$'…'`.

/// Decodes the escape of a letter after a backslash and the text that follows. Returns its bytes, and the rest of that
/// text; `None` if this is not an escape common to both.
pub(super) fn decode_escape(letter: u8, after: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b'e' | b'E' => 27,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'x' => {
            return number(after, 16, 2).map(|(value, after)| (vec![low_byte(value)], after));
        }
        b'u' => return number(after, 16, 4).map(|(code, after)| (character(code), after)),
        b'U' => return number(after, 16, 8).map(|(code, after)| (character(code), after)),
        _ => return None,
    };
    Some((vec![byte], after))
}

/// Parses a number of limited length. Returns it and the text that follows; `None` where there is no digit.
pub(super) fn number(text: &[u8], base: u32, most: usize) -> Option<(u32, &[u8])> {
    let digits = text
        .iter()
        .take(most)
        .map_while(|byte| char::from(*byte).to_digit(base));
    let length = digits.clone().count();
    let value = digits.fold(0, |value, digit| value * base + digit);
    Some((value, text.get(length..)?)).filter(|_| length > 0)
}

/// Returns the lowest byte of a number: three octal digits may exceed a byte.
pub(super) fn low_byte(value: u32) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}

/// Encodes a character in UTF-8, whatever the locale.
fn character(code: u32) -> Vec<u8> {
    char::from_u32(code)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
        .to_string()
        .into_bytes()
}
