//! The keys in the bytes that a terminal sends. Answers of the terminal to queries are dropped: a program that had the
//! terminal before may have asked, and the answers hold letters that it chose.
//!
//! The reader of crossterm is not used: it spins where the terminal is gone, and waits, deaf to signals, for the rest
//! of a sequence that it has half of.

use std::time::Duration;

use super::keys::Key;

/// The longest sequence that is waited for; what is longer is none.
const MAX_SEQUENCE_BYTES: usize = 1024;

/// The time for which the rest of a key is waited for: Esc is also the beginning of other keys.
const REST_OF_KEY: Duration = Duration::from_millis(50);

/// The time for which the rest of a terminal's answer is waited for, which comes in pieces over a slow line.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);

/// Bytes that were typed and are no whole key yet.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    bytes: Vec<u8>,
    /// The control string whose end has not come.
    string: Option<ControlString>,
    /// True if the last key was an ESC of which nothing more came in time. Over a slow line it may have begun an
    /// answer.
    is_late: bool,
}

/// The terminator of a control string besides ST (ECMA-48, 5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ControlString {
    /// BEL does: it is one for the operating system.
    by_bell: bool,
    /// ST as one byte does, as the string began with one.
    by_byte: bool,
}

/// The parse of the bytes at the beginning.
enum ParsedInput {
    /// A key, of so many bytes.
    Key(Key, usize),
    /// So many bytes that mean nothing here.
    Nothing(usize),
    /// So many bytes that begin a control string.
    String(ControlString, usize),
    /// The beginning of something.
    Part,
}

impl KeyParser {
    /// Takes what was read; returns the keys that are whole by now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        let is_late = std::mem::take(&mut self.is_late);
        if is_late && matches!(bytes, [b'[' | b']' | b'P' | b'X' | b'^' | b'_', ..]) {
            self.bytes.push(0x1b);
        }
        self.bytes.extend_from_slice(bytes);
        self.keys(false)
    }

    /// Returns how long the rest of what has come may take; nothing where it is whole.
    pub(super) fn waits_for(&self) -> Option<Duration> {
        match (self.string, self.bytes.as_slice()) {
            (None, []) => None,
            (None, [0x1b]) => Some(REST_OF_KEY),
            _ => Some(REST_OF_ANSWER),
        }
    }

    /// Returns the keys that are left when nothing more comes: a lone ESC is the key Esc.
    pub(super) fn end(&mut self) -> Vec<Key> {
        self.is_late = self.string.is_none() && self.bytes == [0x1b];
        let keys = self.keys(true);
        self.bytes.clear();
        self.string = None;
        keys
    }

    fn keys(&mut self, is_end: bool) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            if let Some(string) = self.string {
                let (taken, is_whole) = string.end(rest);
                rest = rest.get(taken..).unwrap_or_default();
                if !is_whole {
                    break;
                }
                self.string = None;
                continue;
            }
            let taken = match first(rest) {
                ParsedInput::String(string, taken) => {
                    self.string = Some(string);
                    taken
                }
                ParsedInput::Key(key, taken) => {
                    keys.push(key);
                    taken
                }
                ParsedInput::Nothing(taken) => taken,
                ParsedInput::Part if is_end || rest.len() > MAX_SEQUENCE_BYTES => {
                    if rest == [0x1b] {
                        keys.push(Key::Escape);
                    }
                    rest.len()
                }
                ParsedInput::Part => break,
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        self.bytes = rest.to_vec();
        keys
    }
}

impl ControlString {
    /// Returns how many of these bytes belong to the string, and whether it ends with them.
    fn end(self, bytes: &[u8]) -> (usize, bool) {
        for (at, byte) in bytes.iter().enumerate() {
            match (byte, bytes.get(at + 1)) {
                (0x07, _) if self.by_bell => return (at + 1, true),
                (0x9c, _) if self.by_byte => return (at + 1, true),
                (0x1b, Some(b'\\')) => return (at + 2, true),
                // The rest of ST may still come.
                (0x1b, None) => return (at, false),
                // Another sequence, which ends this one.
                (0x1b, Some(_)) => return (at, true),
                _ => {}
            }
        }
        (bytes.len(), false)
    }
}

/// Returns the control string that an introducer begins: DCS, SOS, OSC, PM, APC.
fn control_string(introducer: u8, by_byte: bool) -> Option<ControlString> {
    matches!(introducer, b'P' | b'X' | b']' | b'^' | b'_').then_some(ControlString {
        by_bell: introducer == b']',
        by_byte,
    })
}

/// Reads an introducer that is one character, as terminals send it that were asked to: as a byte, or in UTF-8.
fn of_one_character(bytes: &[u8]) -> Option<ParsedInput> {
    let (introducer, length) = match bytes {
        [0xc2, byte @ 0x80..=0x9f, ..] => (byte, 2),
        [byte @ 0x80..=0x9f, ..] => (byte, 1),
        _ => return None,
    };
    let introducer = introducer - 0x40;
    let rest = bytes.get(length..).unwrap_or_default();
    Some(match control_string(introducer, true) {
        Some(string) => ParsedInput::String(string, length),
        None if introducer == b'[' => sequence(rest, length),
        None => ParsedInput::Nothing(length),
    })
}

fn first(bytes: &[u8]) -> ParsedInput {
    if let Some(first) = of_one_character(bytes) {
        return first;
    }
    if let [0x1b, introducer, ..] = bytes
        && let Some(string) = control_string(*introducer, false)
    {
        return ParsedInput::String(string, 2);
    }
    match bytes {
        [0x1b] | [0x1b, b'[' | b'O'] => ParsedInput::Part,
        // Two times Esc.
        [0x1b, 0x1b, ..] => ParsedInput::Key(Key::Escape, 1),
        [0x1b, b'[', rest @ ..] => sequence(rest, 2),
        [0x1b, b'O', letter, ..] => match of_letter(*letter) {
            Some(key) => ParsedInput::Key(key, 3),
            None => ParsedInput::Nothing(3),
        },
        // Alt and a key: nothing here.
        [0x1b, _, ..] => ParsedInput::Nothing(2),
        [b'\r' | b'\n', ..] => ParsedInput::Key(Key::Enter, 1),
        [b'\t', ..] => ParsedInput::Key(Key::Tab, 1),
        [0x7f | 0x08, ..] => ParsedInput::Key(Key::Backspace, 1),
        [control @ 1..=26, ..] => ParsedInput::Key(Key::Ctrl(char::from(control | 0x60)), 1),
        [0..=0x1f, ..] => ParsedInput::Nothing(1),
        _ => character(bytes),
    }
}

/// What stands behind `ESC [`, or another introducer of so many bytes.
fn sequence(rest: &[u8], introducer: usize) -> ParsedInput {
    // ECMA-48, 5.4: parameters and intermediate bytes, then one final byte.
    let Some(at) = rest.iter().position(|byte| matches!(byte, 0x40..=0x7e)) else {
        let is_possible = rest.iter().all(|byte| matches!(byte, 0x20..=0x3f));
        return if is_possible {
            ParsedInput::Part
        } else {
            ParsedInput::Nothing(introducer + rest.len())
        };
    };
    let (numbers, letter) = (rest.get(..at).unwrap_or_default(), rest.get(at));
    // What mice do in the oldest form, and function keys of the Linux console, have bytes behind the final one.
    let behind = match (numbers, letter) {
        ([], Some(b'M')) => 3,
        ([], Some(b'[')) => 1,
        _ => 0,
    };
    let taken = introducer + at + 1 + behind;
    if rest.len() < at + 1 + behind {
        return ParsedInput::Part;
    }
    // Answers, and what mice do.
    let is_private = matches!(numbers.first(), Some(b'<'..=b'?'));
    if behind > 0 || is_private || letter == Some(&b'M') {
        return ParsedInput::Nothing(taken);
    }
    let number = numbers
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    let key = match (letter, number) {
        (Some(b'~'), b"1" | b"7") => Some(Key::Home),
        (Some(b'~'), b"4" | b"8") => Some(Key::End),
        (Some(b'~'), b"5") => Some(Key::PageUp),
        (Some(b'~'), b"6") => Some(Key::PageDown),
        (Some(letter), _) => of_letter(*letter),
        (None, _) => None,
    };
    match key {
        Some(key) => ParsedInput::Key(key, taken),
        None => ParsedInput::Nothing(taken),
    }
}

fn of_letter(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        // Shift and Tab.
        b'Z' => Key::Left,
        b'M' => Key::Enter,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> ParsedInput {
    let length = match bytes.first() {
        Some(0x00..=0x7f) => 1,
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return ParsedInput::Nothing(1),
    };
    let Some(bytes) = bytes.get(..length) else {
        return ParsedInput::Part;
    };
    match std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(c) => ParsedInput::Key(Key::Char(c), length),
        None => ParsedInput::Nothing(1),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_whole_or_in_pieces() {
        for (bytes, keys) in [
            (
                &b"aG?"[..],
                &[Key::Char('a'), Key::Char('G'), Key::Char('?')][..],
            ),
            (
                b"\x1b[A\x1bOB\x1b[5~\x1b[6;2~",
                &[Key::Up, Key::Down, Key::PageUp, Key::PageDown],
            ),
            (
                "é日😀".as_bytes(),
                &[Key::Char('é'), Key::Char('日'), Key::Char('😀')],
            ),
            (
                b"\x03\x1a\r\t\x7f",
                &[
                    Key::Ctrl('c'),
                    Key::Ctrl('z'),
                    Key::Enter,
                    Key::Tab,
                    Key::Backspace,
                ],
            ),
            (b"\x1b", &[Key::Escape]),
            (b"\x1b\x1b[C", &[Key::Escape, Key::Right]),
            // What means nothing here is no key, and hides none behind it.
            (
                b"\x1b[200~x\x1bfy\xffz\x1b[?1;2c!",
                &[
                    Key::Char('x'),
                    Key::Char('y'),
                    Key::Char('z'),
                    Key::Char('!'),
                ],
            ),
            (b"\x1b[", &[]),
            (b"\xe6\x97", &[]),
        ] {
            let mut whole = KeyParser::default();
            let mut at_once = whole.take(bytes);
            at_once.extend(whole.end());
            assert_eq!(at_once, keys, "{bytes:?}");
            assert_eq!(whole.waits_for(), None);
            let mut pieces = KeyParser::default();
            let mut one_by_one: Vec<Key> = bytes
                .iter()
                .flat_map(|byte| pieces.take(&[*byte]))
                .collect();
            one_by_one.extend(pieces.end());
            assert_eq!(one_by_one, keys, "{bytes:?}");
        }
    }

    #[test]
    fn answers_whose_rest_is_late_are_no_keys() {
        for rest in [&b"]11;ay\x07"[..], b"P>|ay\x1b\\", b"[?1;2c", b"[24;80R"] {
            let mut typed = KeyParser::default();
            assert_eq!(typed.take(b"\x1b"), &[]);
            assert_eq!(typed.end(), &[Key::Escape]);
            let keys: Vec<Key> = rest.iter().flat_map(|byte| typed.take(&[*byte])).collect();
            assert_eq!(keys, &[], "{rest:?}");
            assert_eq!(typed.take(b"a"), &[Key::Char('a')], "{rest:?}");
        }
        let mut typed = KeyParser::default();
        typed.take(b"\x1b");
        assert_eq!(typed.end(), &[Key::Escape]);
        assert_eq!(typed.take(b"y]"), &[Key::Char('y'), Key::Char(']')]);
    }

    /// Each answer holds letters that would decide something.
    #[test]
    fn answers_of_terminals_are_no_keys() {
        for answer in [
            &b"\x1b]lay\x1b\\"[..],
            b"\x1b]11;rgb:ay/ay/ay\x07",
            b"\x1b]52;c;YXkay\x1b\\",
            b"\x1bP>|XTerm(ay)\x1b\\",
            b"\x1bP1$ray\x07ay\x1b\\",
            b"\x1b_Gi=1;ay\x1b\\",
            b"\x1b^ay\x1b\\",
            b"\x1bXay\x1b\\",
            b"\x9day\x9c",
            b"\xc2\x90ay\xc2\x9c",
            b"\x9b24;80R",
            b"\xc2\x9b?1;2c",
            b"\x1b[?64;1;2;6;9;15;16;17;18;21;22;28;29;42c",
            b"\x1b[24;80R",
            b"\x1b[>0;276;0c",
            b"\x1b[?2026;2$y",
            b"\x1b[8;24;80t",
            b"\x1b[I\x1b[O",
            b"\x1b[M ay",
            b"\x1b[<0;97;121M\x1b[<0;97;121m",
            b"\x1b[32;97;121M",
            b"\x1b[[A",
        ] {
            let mut whole = KeyParser::default();
            let keys = whole.take(&[answer, b"q"].concat());
            assert_eq!(keys, [Key::Char('q')], "{answer:?}");
            assert_eq!(whole.waits_for(), None, "{answer:?}");
            // Piece by piece, and with the rest missing.
            let mut pieces = KeyParser::default();
            for byte in answer {
                assert_eq!(pieces.take(&[*byte]), [], "{answer:?}");
            }
            assert_eq!(pieces.end(), [], "{answer:?}");
            let mut part = KeyParser::default();
            let (_, most) = answer.split_last().unwrap();
            assert_eq!(part.take(most), [], "{answer:?}");
            assert!(part.waits_for().is_some(), "{answer:?}");
            assert_eq!(part.end(), [], "{answer:?}");
        }
        // A long one is not kept.
        let mut typed = KeyParser::default();
        assert_eq!(typed.take(&[&b"\x1b]l"[..], &[b'y'; 100_000]].concat()), []);
        assert!(typed.bytes.is_empty());
        assert_eq!(typed.take(b"ay\x1b"), []);
        assert_eq!(typed.take(b"\\q"), [Key::Char('q')]);
        // Another sequence ends one.
        assert_eq!(typed.take(b"\x1b]lay\x1b[Aq"), [Key::Up, Key::Char('q')]);
    }

    #[test]
    fn a_sequence_without_end_is_given_up() {
        let mut typed = KeyParser::default();
        let keys = typed.take(&[&b"\x1b["[..], &[b'1'; 200], b"q"].concat());
        assert!(keys.is_empty() || keys == [Key::Char('q')], "{keys:?}");
    }
}
