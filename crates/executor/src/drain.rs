//! Reads a program's output from a pipe as it arrives, and stops waiting when the program has ended.
//!
//! A process that hangs in the kernel may keep a pipe open for ever. So after everything has been killed, the pipe is
//! read until it is empty, without waiting for its end.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The size of one read, in bytes.
const CHUNK: usize = 64 << 10;

/// Copies a pipe to a writer until the pipe's end, or until `ended` is readable or closed and the pipe is empty. Stops
/// at the first write error: the program gets `SIGPIPE` once the pipe is closed.
pub fn drain(pipe: &OwnedFd, ended: &OwnedFd, to: &mut dyn Write) {
    let mut chunk = vec![0; CHUNK];
    // Reads must not block once the program has ended.
    let _ = rustix::io::ioctl_fionbio(pipe, true);
    loop {
        match rustix::io::read(pipe, &mut *chunk) {
            Ok(0) => return,
            Ok(read) => {
                let bytes = chunk.get(..read).unwrap_or_default();
                if to.write_all(bytes).and_then(|()| to.flush()).is_err() {
                    return;
                }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn drain_reads_the_rest_without_waiting() {
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
