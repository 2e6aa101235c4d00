//! Patterns of names as in fnmatch(3) in the C locale: `*`, `?`, `[a-z]`, `[!x]`, `[[:alpha:]]`, backslash.

/// A glob pattern, matched against a whole name byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GlobPattern(Vec<PatternItem>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternItem {
    Byte(u8),
    Any,
    Star,
    OneOf(Box<[bool; 256]>),
}

impl GlobPattern {
    /// Parses a pattern. An unclosed `[` and a trailing backslash are literal.
    pub(super) fn new(text: &[u8]) -> GlobPattern {
        let mut items = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            items.push(match first {
                b'*' => PatternItem::Star,
                b'?' => PatternItem::Any,
                b'\\' => match after.split_first() {
                    Some((next, after)) => {
                        rest = after;
                        PatternItem::Byte(*next)
                    }
                    None => PatternItem::Byte(b'\\'),
                },
                b'[' => match bracket(after) {
                    Some((set, after)) => {
                        rest = after;
                        PatternItem::OneOf(Box::new(set))
                    }
                    None => PatternItem::Byte(b'['),
                },
                byte => PatternItem::Byte(*byte),
            });
        }
        items.dedup_by(|a, b| (&*a, &*b) == (&PatternItem::Star, &PatternItem::Star));
        GlobPattern(items)
    }

    /// Returns the same pattern, ignoring the case of ASCII letters.
    pub(super) fn ignoring_case(mut self) -> GlobPattern {
        for item in &mut self.0 {
            if let PatternItem::Byte(byte) = item
                && byte.is_ascii_alphabetic()
            {
                let mut set = [false; 256];
                for case in [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] {
                    admit(&mut set, case);
                }
                *item = PatternItem::OneOf(Box::new(set));
            } else if let PatternItem::OneOf(set) = item {
                for byte in b'a'..=b'z' {
                    let either = has(set, byte) || has(set, byte.to_ascii_uppercase());
                    if either {
                        admit(set, byte);
                        admit(set, byte.to_ascii_uppercase());
                    }
                }
            }
        }
        self
    }

    /// Returns whether the whole of `name` matches. A slash is a byte like any other.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let (mut item, mut at) = (0, 0);
        // Where to resume after a mismatch: the last star takes one more byte.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let matched = match (self.0.get(item), name.get(at)) {
                (None, None) => return true,
                (Some(PatternItem::Star), _) => {
                    retry = Some((item + 1, at));
                    item += 1;
                    continue;
                }
                (Some(PatternItem::Byte(wanted)), Some(byte)) => wanted == byte,
                (Some(PatternItem::Any), Some(_)) => true,
                (Some(PatternItem::OneOf(set)), Some(byte)) => has(set, *byte),
                _ => false,
            };
            if matched {
                (item, at) = (item + 1, at + 1);
                continue;
            }
            match retry {
                Some((after, from)) if from < name.len() => {
                    retry = Some((after, from + 1));
                    (item, at) = (after, from + 1);
                }
                _ => return false,
            }
        }
    }
}

fn has(set: &[bool; 256], byte: u8) -> bool {
    set.get(usize::from(byte)).copied().unwrap_or(false)
}

fn admit(set: &mut [bool; 256], byte: u8) {
    if let Some(slot) = set.get_mut(usize::from(byte)) {
        *slot = true;
    }
}

/// Parses a bracket expression after its `[`. Returns the set and the text after the `]`.
fn bracket(text: &[u8]) -> Option<([bool; 256], &[u8])> {
    let mut set = [false; 256];
    let (inverted, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut first = true;
    loop {
        let (byte, after) = match rest {
            [b']', after @ ..] if !first => {
                if inverted {
                    set.iter_mut().for_each(|slot| *slot = !*slot);
                }
                return Some((set, after));
            }
            [b'[', b':', class @ ..] => {
                let end = class.windows(2).position(|pair| pair == b":]")?;
                let is = class_of(class.get(..end)?)?;
                (0..=u8::MAX)
                    .filter(is)
                    .for_each(|byte| admit(&mut set, byte));
                rest = class.get(end + 2..)?;
                first = false;
                continue;
            }
            [b'\\', byte, after @ ..] => (*byte, after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        first = false;
        rest = after;
        if let [b'-', end, after @ ..] = rest
            && *end != b']'
        {
            let (end, after) = match (end, after) {
                (b'\\', [escaped, after @ ..]) => (*escaped, after),
                (end, after) => (*end, after),
            };
            (byte..=end).for_each(|byte| admit(&mut set, byte));
            rest = after;
        } else {
            admit(&mut set, byte);
        }
    }
}

/// Returns the predicate of a character class in the C locale.
pub(super) fn class_of(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |b| matches!(b, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |b| matches!(b, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_fnmatch() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.rs", "a.rs", true),
            ("*.rs", "a.rsx", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "ab", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[[:digit:]]*", "7up", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[a-]", "-", true),
            ("**a", "bba", true),
        ] {
            let found = GlobPattern::new(pattern.as_bytes()).matches(name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
        let pattern = GlobPattern::new(b"Read*[a-c]").ignoring_case();
        assert!(pattern.matches(b"rEADme.C"));
    }

    #[test]
    fn many_stars_match_fast() {
        let pattern = GlobPattern::new("a*".repeat(50).as_bytes());
        assert!(!pattern.matches("b".repeat(5000).as_bytes()));
        let pattern = GlobPattern::new([&b"*a".repeat(30)[..], b"b"].concat().as_slice());
        assert!(!pattern.matches("a".repeat(20_000).as_bytes()));
    }
}
