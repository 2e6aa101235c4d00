//! [`RequestPattern`]: the requests that a secret is added to, by method and path.
//!
//! A path that servers could read as another one matches nothing: empty parts, `.` and `..`, what is encoded without
//! need, separators in another spelling.

use std::fmt;

/// A method, or any, and a pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPattern {
    /// `None`: any method.
    method: Option<String>,
    path: String,
}

impl fmt::Display for RequestPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.as_deref().unwrap_or("*");
        write!(out, "{method} {}", self.path)
    }
}

impl RequestPattern {
    /// Reads `METHOD /PATH`. A `*` for the method is any; in a path it is anything but a slash, at least one character;
    /// `/**` at the end is everything below.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn parse(text: &str) -> Result<RequestPattern, String> {
        let wrong = |why: &str| Err(format!("`{text}`: {why}"));
        let Some((method, path)) = text.split_once(' ') else {
            return wrong("write a method and a path, as in `POST /v1/messages`");
        };
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if method != "*" && !is_method {
            return wrong("the method is a word in capitals, or *");
        }
        let plain = path.strip_suffix("/**").unwrap_or(path);
        if plain.contains("**") {
            return wrong("** stands for what is below a path, so it is its last part");
        }
        if plain.contains(['?', '#']) {
            return wrong("the path is given without a query");
        }
        // The pattern for everything is `/**`, whose rest is empty.
        if (!plain.is_empty() || plain == path)
            && let Err(why) = check_path(plain)
        {
            return wrong(why);
        }
        Ok(RequestPattern {
            method: (method != "*").then(|| method.to_owned()),
            path: path.to_owned(),
        })
    }

    /// Returns whether a request is one of these. The path must be one that [`check_path`] lets pass.
    pub(super) fn matches(&self, method: &str, path: &str) -> bool {
        if self.method.as_deref().is_some_and(|own| own != method) {
            return false;
        }
        let (pattern, is_below) = match self.path.strip_suffix("/**") {
            Some(pattern) => (pattern, true),
            None => (&*self.path, false),
        };
        let (mut own, mut parts) = (pattern.split('/'), path.split('/'));
        loop {
            match (own.next(), parts.next()) {
                (None, None) => return !is_below,
                (None, Some(_)) => return is_below,
                (Some(_), None) => return false,
                (Some(own), Some(part)) if part_matches(own.as_bytes(), part.as_bytes()) => {}
                _ => return false,
            }
        }
    }
}

/// Returns whether a part of a path is as its pattern, in which a `*` is one character or more.
fn part_matches(pattern: &[u8], part: &[u8]) -> bool {
    let mut pieces = pattern.split(|byte| *byte == b'*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = part.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        let Some((_, behind)) = rest.split_first() else {
            return false;
        };
        if pieces.peek().is_none() {
            return behind.ends_with(piece);
        }
        match memchr::memmem::find(behind, piece) {
            Some(at) => rest = behind.get(at + piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

/// Checks that all servers read a path alike.
///
/// # Errors
/// The part that they could read differently.
pub(super) fn check_path(path: &str) -> Result<(), &'static str> {
    let Some(parts) = path.strip_prefix('/') else {
        return Err("a path begins with a slash");
    };
    let mut parts = parts.split('/').peekable();
    while let Some(part) = parts.next() {
        match part {
            "" if parts.peek().is_some() => return Err("a part of the path is empty"),
            "." | ".." => return Err("a part of the path is . or .."),
            _ => {}
        }
    }
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {}
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' => {}
            b'*' | b'+' | b',' | b'=' | b':' | b'@' | b'/' => {}
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err("a % of the path has no two digits");
                };
                let code = u8::try_from(high * 16 + low).unwrap_or_default();
                let is_needed = matches!(code, b' ' | b'"' | b'<' | b'>' | b'[' | b']' | b'^' | b'`' | b'{'..=b'}' | 0x80..);
                if !is_needed {
                    return Err("the path encodes a character that has another spelling, or none");
                }
            }
            _ => return Err("the path has a character that servers read differently"),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_methods_and_parts_of_paths() {
        for (pattern, request, matches) in [
            ("POST /v1/messages", "POST /v1/messages", true),
            ("POST /v1/messages", "post /v1/messages", false),
            ("POST /v1/messages", "GET /v1/messages", false),
            ("POST /v1/messages", "POST /v1/messages/", false),
            ("POST /v1/messages", "POST /v1/messages/batches", false),
            ("POST /v1/messages", "POST /v1/messagesx", false),
            ("* /v1/models/*", "GET /v1/models/a-1.5", true),
            ("* /v1/models/*", "GET /v1/models/", false),
            ("* /v1/models/*", "GET /v1/models", false),
            ("* /v1/models/*", "GET /v1/models/a/b", false),
            ("POST /m/*:generate", "POST /m/gemini:generate", true),
            ("POST /m/*:generate", "POST /m/:generate", false),
            ("POST /m/*:generate", "POST /m/x:generateY", false),
            ("GET /a*b*c", "GET /a1b2c", true),
            ("GET /a*b*c", "GET /abc", false),
            ("GET /a*b*c", "GET /axbc", false),
            ("GET /**", "GET /", true),
            ("GET /**", "GET /a/b", true),
            ("GET /a/**", "GET /a/b/c", true),
            ("GET /a/**", "GET /a", false),
            ("GET /a/**", "GET /ab", false),
        ] {
            let (method, path) = request.split_once(' ').unwrap();
            let parsed = RequestPattern::parse(pattern).unwrap();
            assert_eq!(
                parsed.matches(method, path),
                matches,
                "{pattern}: {request}"
            );
            assert_eq!(parsed.to_string(), pattern);
        }
        for wrong in [
            "",
            "POST",
            "/v1",
            "post /v1",
            "POST v1",
            "POST /a/../b",
            "POST /a//b",
            "POST /a?b",
            "POST /a/**/b",
            "POST /%2e",
            "POST  /a",
            "POST ",
        ] {
            assert!(RequestPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn path_that_has_two_readings_is_refused() {
        for path in [
            "/",
            "/v1/messages",
            "/v1/models/gemini-2.5:x",
            "/a%20b",
            "/a%C3%A9",
            "/a/",
        ] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in [
            "",
            "v1",
            "//v1",
            "/v1//x",
            "/v1/./x",
            "/v1/../x",
            "/..",
            "/v1/.",
            "/v1%2fx",
            "/v1%2Fx",
            "/%2e%2e/x",
            "/v1/%6dessages",
            "/v1\\x",
            "/v1%5cx",
            "/v1;x",
            "/v1%3bx",
            "/v1%00",
            "/v1%0a",
            "/v1%25",
            "/v1%",
            "/v1%2",
            "/v1%zz",
            "/a?b",
            "/a#b",
            "/\u{e9}",
            "/a b",
            "/v1%3f",
            "/v1%23",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
