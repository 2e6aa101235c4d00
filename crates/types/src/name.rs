//! Names: one component ([`Name`]), a whole path inside the store ([`WorldPath`]), and their text form.
//!
//! Names are bytes, not `str`: any legal Unix name works. They are parsed once at the edge; a `Name` or `WorldPath` is
//! never checked again. Nothing here touches a file system.

use std::collections::HashSet;
use std::fmt;

use crate::error::{Error, Result};

/// The longest name of a directory entry, in bytes (`NAME_MAX`, limits.h).
pub const NAME_MAX: usize = 255;

/// A valid component of a path: not empty, no `/`, no NUL, neither `.` nor `..`, at most [`NAME_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// `ENOENT` for an empty name, `EINVAL` for one with `/` or NUL, or `.` and `..`; `ENAMETOOLONG` past 255 bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Name<'a>> {
        match bytes {
            b"" => Err(Error::NotFound),
            b"." | b".." => Err(Error::Invalid),
            _ if bytes.len() > NAME_MAX => Err(Error::NameTooLong),
            _ if bytes.iter().any(|b| matches!(b, b'/' | 0)) => Err(Error::Invalid),
            _ => Ok(Name(bytes)),
        }
    }

    /// Returns the bytes of the name.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", escape(self.0))
    }
}

/// The prefix that stands for the scratch directory at the start of a path.
const SCRATCH: &[u8] = b"\0tmp";

/// A path inside the store: absolute from the store's root, normalised, and unable to climb out.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct WorldPath(Vec<u8>);

impl WorldPath {
    /// Returns the root of the store.
    pub fn root() -> WorldPath {
        WorldPath::default()
    }

    /// Parses a path as typed by a person: a leading `/` is the home, `.` and empty components are dropped.
    ///
    /// # Errors
    /// `ENOENT` if `..` would climb out; any error from [`Name::new`] for a component.
    pub fn parse(path: &[u8]) -> Result<WorldPath> {
        let mut parsed = WorldPath(Vec::with_capacity(path.len()));
        for part in path.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => parsed = parsed.parent().ok_or(Error::NotFound)?,
                part => parsed.push(Name::new(part)?),
            }
        }
        Ok(parsed)
    }

    /// Returns the root of a session's scratch directory, which lies beside the store. No path that somebody types leads to
    /// it: no [`Name`] has a NUL.
    pub fn scratch() -> WorldPath {
        WorldPath(SCRATCH.to_vec())
    }

    /// Returns the path below the scratch directory that this one leads to.
    pub fn in_scratch(&self) -> Option<WorldPath> {
        let rest = self.0.strip_prefix(SCRATCH)?;
        let inside = match rest {
            [] => rest,
            [b'/', inside @ ..] => inside,
            _ => return None,
        };
        Some(WorldPath(inside.to_vec()))
    }

    /// Appends one component.
    pub fn push(&mut self, name: Name<'_>) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name.bytes());
    }

    /// Returns the path of an entry of this directory.
    pub fn join(&self, name: Name<'_>) -> WorldPath {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.bytes().len());
        bytes.extend_from_slice(&self.0);
        let mut path = WorldPath(bytes);
        path.push(name);
        path
    }

    /// Returns whether this is the root of the store.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path without a leading slash; empty for the root.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the directory that holds this path; `None` for the root.
    pub fn parent(&self) -> Option<WorldPath> {
        if self.is_root() {
            return None;
        }
        Some(WorldPath(self.above().to_vec()))
    }

    /// Returns the path of the directory that holds this path, as [`WorldPath::bytes`] would; empty for the root.
    pub fn above(&self) -> &[u8] {
        let cut = memchr::memrchr(b'/', &self.0).unwrap_or(0);
        self.0.get(..cut).unwrap_or_default()
    }

    /// Returns the last component; `None` for the root.
    pub fn name(&self) -> Option<Name<'_>> {
        self.components().next_back()
    }

    /// Returns the components in order.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = Name<'_>> {
        self.0
            .split(|b| *b == b'/')
            .filter(|part| !part.is_empty())
            .map(Name)
    }

    /// Returns whether `other` is this path or lies below it.
    pub fn contains(&self, other: &WorldPath) -> bool {
        self.is_root()
            || other
                .0
                .strip_prefix(self.0.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// Returns where this path leads after `from` has become `to`; `None` if it is not below `from`.
    #[must_use]
    pub fn moved(&self, from: &WorldPath, to: &WorldPath) -> Option<WorldPath> {
        let rest = self.0.strip_prefix(from.0.as_slice())?;
        let below = rest.starts_with(b"/");
        below.then(|| WorldPath([&to.0, rest].concat()))
    }
}

/// Many paths, each with what is below it: whether one has a path in it costs what that path is deep.
#[derive(Debug)]
pub struct SubtreeSet<'p>(HashSet<&'p [u8]>);

impl<'p> SubtreeSet<'p> {
    /// Takes the paths.
    pub fn of(paths: &'p [WorldPath]) -> SubtreeSet<'p> {
        SubtreeSet(paths.iter().map(WorldPath::bytes).collect())
    }

    /// Returns whether a path is one of these, or below one, as [`WorldPath::contains`].
    pub fn contains(&self, path: &WorldPath) -> bool {
        let whole = path.bytes();
        let ends = memchr::memchr_iter(b'/', whole).chain([0, whole.len()]);
        ends.filter_map(|end| whole.get(..end))
            .any(|above| self.0.contains(above))
    }
}

impl fmt::Display for WorldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", escape(&self.0))
    }
}

impl fmt::Debug for WorldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for WorldPath {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for WorldPath {
    fn deserialize<D: serde::Deserializer<'de>>(
        from: D,
    ) -> std::result::Result<WorldPath, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        unescape(&text)
            .and_then(|bytes| WorldPath::parse(&bytes).ok())
            .ok_or_else(|| serde::de::Error::custom(format!("not a path: {text}")))
    }
}

/// Bytes that [`escape`] writes into JSON: a name, the target of a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EscapedBytes(pub Vec<u8>);

impl serde::Serialize for EscapedBytes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&escape(&self.0))
    }
}

impl<'de> serde::Deserialize<'de> for EscapedBytes {
    fn deserialize<D: serde::Deserializer<'de>>(
        from: D,
    ) -> std::result::Result<EscapedBytes, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        unescape(&text)
            .map(EscapedBytes)
            .ok_or_else(|| serde::de::Error::custom(format!("not an escaped name: {text}")))
    }
}

/// Returns a name or a path in quotes, escaped, for messages.
pub fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", escape(bytes))
}

/// Returns bytes as text that [`unescape`] reverses: valid UTF-8 is unchanged, a backslash is doubled, control
/// characters and bytes that are not UTF-8 become `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                // Also those past ASCII: U+009B begins a terminal's escape sequence, like ESC [.
                c if c.is_control() => escape_char(c, &mut text),
                c => text.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(text, "\\x{b:02x}");
        }
    }
    text
}

/// Returns whether a character does not look like what it is: it changes the direction of the text, has no width, or
/// is a control character. A person must not be shown it as it is, on a terminal or on a page.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Appends a character as [`escape`] writes a control character: each of its bytes as `\xNN`.
pub fn escape_char(c: char, text: &mut String) {
    use std::fmt::Write;
    for b in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{b:02x}");
    }
}

/// Reverses [`escape`]; `None` if the text is not valid.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'\\' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        match tail {
            [b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'x', hi, lo, tail @ ..] => {
                let digits = [*hi, *lo];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_cannot_be() {
        assert_eq!(Name::new(b""), Err(Error::NotFound));
        for bad in [&b"."[..], b"..", b"a/b", b"a\0b"] {
            assert_eq!(Name::new(bad), Err(Error::Invalid));
        }
        assert_eq!(Name::new(&[b'x'; 256]), Err(Error::NameTooLong));
        assert!(Name::new(&[0xff; 255]).is_ok());
    }

    #[test]
    fn paths_cannot_climb_out() {
        assert_eq!(WorldPath::parse(b"/a/../../etc"), Err(Error::NotFound));
        let path = WorldPath::parse(b"//a/./b/../c/").unwrap();
        assert_eq!(path.to_string(), "/a/c");
        assert_eq!(path.parent().unwrap().to_string(), "/a");
        assert_eq!(path.name().unwrap().bytes(), b"c");
        assert!(WorldPath::root().parent().is_none());
    }

    #[test]
    fn a_sibling_with_the_same_beginning_is_not_below() {
        let a = WorldPath::parse(b"a").unwrap();
        assert!(a.contains(&WorldPath::parse(b"a/b").unwrap()));
        assert!(a.contains(&a));
        assert!(!a.contains(&WorldPath::parse(b"ab").unwrap()));
    }

    #[test]
    fn many_paths_contain_what_one_of_them_does() {
        let path = |text: &&str| WorldPath::parse(text.as_bytes()).unwrap();
        let texts = ["", "a", "a/b", "ab", "a/b/c", "a/bc", "b", "b/a"];
        for chosen in [&[][..], &[""], &["a"], &["a/b", "b"], &["ab", "a/b/c"]] {
            let chosen: Vec<WorldPath> = chosen.iter().map(path).collect();
            let subtrees = SubtreeSet::of(&chosen);
            for at in texts.iter().map(path) {
                let one_by_one = chosen.iter().any(|path| path.contains(&at));
                assert_eq!(subtrees.contains(&at), one_by_one, "{at} in {chosen:?}");
            }
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (name, text) in [
            ("a\nb", "a\\x0ab"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("\u{9b}2J", "\\xc2\\x9b2J"),
        ] {
            assert_eq!(escape(name.as_bytes()), text);
            assert_eq!(unescape(text).as_deref(), Some(name.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn every_name_survives_the_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(unescape(&escape(&bytes)), Some(bytes));
        }
    }
}
