//! What is typed at a terminal, as keys.
//!
//! The reader of crossterm is not used: it spins where the terminal is gone, and waits, deaf to signals, for the rest of
//! a sequence that it has half of.

use super::keys::Key;

/// The longest sequence that is waited for; what is longer is none.
const LONGEST: usize = 32;

/// Bytes that were typed and are no whole key yet.
#[derive(Debug, Default)]
pub(super) struct Typed {
    bytes: Vec<u8>,
}

/// What the bytes at the beginning are.
enum First {
    /// A key, of so many bytes.
    Key(Key, usize),
    /// So many bytes that mean nothing here.
    Nothing(usize),
    /// The beginning of something.
    Part,
}

impl Typed {
    /// Takes what was read; returns the keys that are whole by now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        self.keys(false)
    }

    /// Returns whether the rest of a key may still come.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the keys that are left when nothing more comes: a lone ESC is the key Esc.
    pub(super) fn end(&mut self) -> Vec<Key> {
        let keys = self.keys(true);
        self.bytes.clear();
        keys
    }

    fn keys(&mut self, is_end: bool) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            let taken = match first(rest) {
                First::Key(key, taken) => {
                    keys.push(key);
                    taken
                }
                First::Nothing(taken) => taken,
                First::Part if is_end || rest.len() > LONGEST => {
                    if rest == [0x1b] {
                        keys.push(Key::Escape);
                    }
                    rest.len()
                }
                First::Part => break,
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        self.bytes = rest.to_vec();
        keys
    }
}

fn first(bytes: &[u8]) -> First {
    match bytes {
        [0x1b] | [0x1b, b'[' | b'O'] => First::Part,
        // Two times Esc.
        [0x1b, 0x1b, ..] => First::Key(Key::Escape, 1),
        [0x1b, b'[', rest @ ..] => sequence(rest),
        [0x1b, b'O', letter, ..] => match of_letter(*letter) {
            Some(key) => First::Key(key, 3),
            None => First::Nothing(3),
        },
        // Alt and a key: nothing here.
        [0x1b, _, ..] => First::Nothing(2),
        [b'\r' | b'\n', ..] => First::Key(Key::Enter, 1),
        [b'\t', ..] => First::Key(Key::Tab, 1),
        [0x7f | 0x08, ..] => First::Key(Key::Backspace, 1),
        [control @ 1..=26, ..] => First::Key(Key::Ctrl(char::from(control | 0x60)), 1),
        [0..=0x1f, ..] => First::Nothing(1),
        _ => character(bytes),
    }
}

/// What stands behind `ESC [`.
fn sequence(rest: &[u8]) -> First {
    // ECMA-48, 5.4: parameters and intermediate bytes, then one final byte.
    let Some(at) = rest.iter().position(|byte| matches!(byte, 0x40..=0x7e)) else {
        let is_possible = rest.iter().all(|byte| matches!(byte, 0x20..=0x3f));
        return match is_possible {
            true => First::Part,
            false => First::Nothing(2 + rest.len()),
        };
    };
    let taken = 2 + at + 1;
    let (numbers, letter) = (rest.get(..at).unwrap_or_default(), rest.get(at));
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
        Some(key) => First::Key(key, taken),
        None => First::Nothing(taken),
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

fn character(bytes: &[u8]) -> First {
    let length = match bytes.first() {
        Some(0x00..=0x7f) => 1,
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return First::Nothing(1),
    };
    let Some(bytes) = bytes.get(..length) else {
        return First::Part;
    };
    match std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(c) => First::Key(Key::Char(c), length),
        None => First::Nothing(1),
    }
}

#[cfg(test)]
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
            let mut whole = Typed::default();
            let mut at_once = whole.take(bytes);
            at_once.extend(whole.end());
            assert_eq!(at_once, keys, "{bytes:?}");
            assert!(!whole.is_waiting());
            let mut pieces = Typed::default();
            let mut one_by_one: Vec<Key> = bytes
                .iter()
                .flat_map(|byte| pieces.take(&[*byte]))
                .collect();
            one_by_one.extend(pieces.end());
            assert_eq!(one_by_one, keys, "{bytes:?}");
        }
    }

    #[test]
    fn a_sequence_without_end_is_given_up() {
        let mut typed = Typed::default();
        let keys = typed.take(&[&b"\x1b["[..], &[b'1'; 200], b"q"].concat());
        assert!(keys.is_empty() || keys == [Key::Char('q')], "{keys:?}");
    }
}
