//! Reads a program's output from a pipe as it comes, and stops waiting when the program has ended.
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
/// Stops where nobody takes it: the program hears of that once the pipe is closed.
pub fn drain(pipe: &OwnedFd, ended: &OwnedFd, to: &mut dyn Write) {
    let mut chunk = vec![0; CHUNK];
    // What is left is read without waiting.
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
