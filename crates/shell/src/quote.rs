//! Quoted names as GNU's commands print them (`shell-escape-always`, in the C locale): the output can be pasted into
//! a shell.

/// Quotes a name.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let apostrophe = name.contains(&b'\'');
    if apostrophe && (0..name.len()).all(|at| needs_no_apostrophes(name, at)) {
        return [b"\"", name, b"\""].concat();
    }
    let mut text = vec![b'\''];
    // Whether the current position is within `$'…'`.
    let mut escaping = false;
    for (at, byte) in name.iter().enumerate() {
        let escape = escape(*byte, name.get(at + 1));
        match (escape.is_some(), escaping) {
            (true, false) => text.extend_from_slice(b"'$'"),
            // An apostrophe ends both kinds of quotes.
            (false, true) if *byte != b'\'' => text.extend_from_slice(b"''"),
            _ => {}
        }
        escaping = escape.is_some();
        match (escape, byte) {
            (Some(escape), _) => text.extend_from_slice(&escape),
            (None, b'\'') => text.extend_from_slice(b"'\\''"),
            (None, byte) => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

/// Returns whether a byte means the same in double quotes as in single quotes.
fn needs_no_apostrophes(name: &[u8], at: usize) -> bool {
    match name.get(at) {
        Some(b'#' | b'~') => at == 0,
        Some(b'{' | b'}') => name.len() == 1,
        Some(
            b' ' | b'\'' | b'%' | b'+' | b',' | b'-' | b'.' | b'/' | b':' | b']' | b'_' | b'@',
        ) => true,
        Some(byte) => byte.is_ascii_alphanumeric(),
        None => true,
    }
}

/// Returns the escape of an unprintable byte.
fn escape(byte: u8, next: Option<&u8>) -> Option<Vec<u8>> {
    let letter = match byte {
        7 => b'a',
        8 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        11 => b'v',
        12 => b'f',
        b'\r' => b'r',
        0 if !next.is_some_and(u8::is_ascii_digit) => b'0',
        b' '..=b'~' => return None,
        byte => return Some(format!("\\{byte:03o}").into_bytes()),
    };
    Some(vec![b'\\', letter])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_in_gnu() {
        for (name, text) in [
            (&b"plain"[..], "'plain'"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $x", "'it'\\''s $x'"),
            (b"'", "\"'\""),
            (b"#'", "\"#'\""),
            (b"'#", "''\\''#'"),
            (b"a\nb", "'a'$'\\n''b'"),
            (b"a\n", "'a'$'\\n'"),
            (b"\xc3\xa9", "''$'\\303\\251'"),
            (b"\xffx\x01", "''$'\\377''x'$'\\001'"),
            (b"a\\b", "'a\\b'"),
            (b"\n'x", "''$'\\n'\\''x'"),
        ] {
            assert_eq!(String::from_utf8_lossy(&quoted(name)), text);
        }
    }
}
