//! What becomes of a program's output on its way out: [`Stripped`].

use std::io::Write;

/// Passes output on without the sequences that steer a terminal (ECMA-48: CSI, OSC and the other strings, and two-byte
/// escapes).
#[derive(Debug)]
pub(super) struct Stripped<W> {
    to: W,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Escape,
    Sequence,
    String,
    /// In a string, after an escape that may begin its end.
    StringEscape,
}

impl<W: Write> Stripped<W> {
    pub(super) fn new(to: W) -> Stripped<W> {
        Stripped {
            to,
            state: State::Text,
        }
    }

    /// Returns whether a byte is text.
    fn take(&mut self, byte: u8) -> bool {
        let (next, is_text) = match (self.state, byte) {
            (State::Text | State::Sequence | State::Escape, 0x1b) => (State::Escape, false),
            (State::Text, _) => (State::Text, true),
            (State::Escape, b'[') => (State::Sequence, false),
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (State::String, false),
            // Intermediate bytes go on.
            (State::Escape, 0x20..=0x2f) => (State::Escape, false),
            (State::Escape, _) => (State::Text, false),
            (State::Sequence, 0x40..=0x7e) => (State::Text, false),
            // A sequence that is none ends where the line does.
            (State::Sequence | State::String | State::StringEscape, b'\n') => (State::Text, true),
            (State::Sequence, _) => (State::Sequence, false),
            (State::String, 0x07) => (State::Text, false),
            (State::String, 0x1b) => (State::StringEscape, false),
            (State::String, _) => (State::String, false),
            (State::StringEscape, b'\\') => (State::Text, false),
            (State::StringEscape, _) => (State::String, false),
        };
        self.state = next;
        is_text
    }
}

impl<W: Write> Write for Stripped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text: Vec<u8> = bytes
            .iter()
            .copied()
            .filter(|byte| self.take(*byte))
            .collect();
        self.to.write_all(&text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_left_out() {
        for (written, left) in [
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m\n", "red\n"),
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b(Btext", "text"),
            ("\x1b]never ends\nnext", "\nnext"),
            ("a\x1b\x1b[31mb", "ab"),
            ("tab\tand\r\n", "tab\tand\r\n"),
        ] {
            // In pieces of every size.
            for size in 1..4 {
                let mut to = Vec::new();
                let mut stripped = Stripped::new(&mut to);
                for piece in written.as_bytes().chunks(size) {
                    stripped.write_all(piece).unwrap();
                }
                assert_eq!(String::from_utf8(to).unwrap(), left, "{written:?} {size}");
            }
        }
    }
}
