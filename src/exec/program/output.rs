//! What a program writes: read as it comes, until it has ended, and never waited for after that.
//!
//! A process that hangs in the kernel may keep a pipe open for ever. So what is in the pipe when everything has been
//! killed is read, and no more is waited for.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// How much is read at once, in bytes.
const CHUNK: usize = 64 << 10;

/// Reads a pipe and hands on what comes, until its end, or until `ended` is readable or closed and the pipe is empty.
/// What nobody takes is read all the same, so that the program does not wait.
pub(super) fn drain(pipe: &OwnedFd, ended: &OwnedFd, to: &mut dyn Write) {
    let mut chunk = vec![0; CHUNK];
    let mut is_open = true;
    // What is left is read without waiting.
    let _ = rustix::io::ioctl_fionbio(pipe, true);
    loop {
        match rustix::io::read(pipe, &mut *chunk) {
            Ok(0) => return,
            Ok(read) => {
                let bytes = chunk.get(..read).unwrap_or_default();
                is_open = is_open && to.write_all(bytes).and_then(|()| to.flush()).is_ok();
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [
                    PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
                    PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
                ];
                let _ = rustix::event::poll(&mut fds, None);
                let [pipe, ended] = fds;
                if pipe.revents().is_empty() && !ended.revents().is_empty() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

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

    #[test]
    fn what_is_there_is_read_and_nothing_is_waited_for() {
        let (pipe, writer) = rustix::pipe::pipe().unwrap();
        let (ended, ending) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"all of it").unwrap();
        drop(ending);
        let mut got = Vec::new();
        // The writer stays open.
        drain(&pipe, &ended, &mut got);
        assert_eq!(got, b"all of it");
    }
}
