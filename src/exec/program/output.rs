//! The filter for a program's output on its way out: [`EscapeStripper`].

use std::io::Write;

/// Passes output on without the sequences that steer a terminal (ECMA-48: CSI, OSC and the other strings, and two-byte
/// escapes).
#[derive(Debug)]
pub(super) struct EscapeStripper<W> {
    to: W,
    state: EscapeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    Text,
    Escape,
    Sequence,
    String,
    /// In a string, after an escape that may begin its end.
    StringEscape,
}

impl<W: Write> EscapeStripper<W> {
    pub(super) fn new(to: W) -> EscapeStripper<W> {
        EscapeStripper {
            to,
            state: EscapeState::Text,
        }
    }

    /// Returns whether a byte is text.
    fn take(&mut self, byte: u8) -> bool {
        let (next, is_text) = match (self.state, byte) {
            (EscapeState::Text | EscapeState::Sequence | EscapeState::Escape, 0x1b) => {
                (EscapeState::Escape, false)
            }
            (EscapeState::Text, _) => (EscapeState::Text, true),
            (EscapeState::Escape, b'[') => (EscapeState::Sequence, false),
            (EscapeState::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (EscapeState::String, false),
            // Intermediate bytes go on.
            (EscapeState::Escape, 0x20..=0x2f) => (EscapeState::Escape, false),
            (EscapeState::Escape, _) => (EscapeState::Text, false),
            (EscapeState::Sequence, 0x40..=0x7e) => (EscapeState::Text, false),
            // A sequence that is none ends where the line does.
            (EscapeState::Sequence | EscapeState::String | EscapeState::StringEscape, b'\n') => {
                (EscapeState::Text, true)
            }
            (EscapeState::Sequence, _) => (EscapeState::Sequence, false),
            (EscapeState::String, 0x07) => (EscapeState::Text, false),
            (EscapeState::String, 0x1b) => (EscapeState::StringEscape, false),
            (EscapeState::String, _) => (EscapeState::String, false),
            (EscapeState::StringEscape, b'\\') => (EscapeState::Text, false),
            (EscapeState::StringEscape, _) => (EscapeState::String, false),
        };
        self.state = next;
        is_text
    }
}

impl<W: Write> Write for EscapeStripper<W> {
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
                let mut stripped = EscapeStripper::new(&mut to);
                for piece in written.as_bytes().chunks(size) {
                    stripped.write_all(piece).unwrap();
                }
                assert_eq!(String::from_utf8(to).unwrap(), left, "{written:?} {size}");
            }
        }
    }
}
