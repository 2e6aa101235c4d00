//! The terminal of whoever starts a program that has one of its own in its sandbox: what is typed goes there, what is
//! shown comes from there.
//!
//! While a program has it, the terminal is raw: ^C and ^Z mean what the sandbox's terminal makes of them. It gets its
//! former settings back when the program ends or is stopped, and before a signal ends this process.
//!
//! Threads: one for what is typed and for changes of the size, one for what is shown.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::{SIGTSTP, SIGWINCH};
use signal_hook::low_level::{pipe, raise, unregister};

use crate::exec::drain::drain;
use crate::sys::signal::keep_terminal;

/// A size for terminals that do not say theirs: rows and columns.
const USUAL: (u16, u16) = (24, 80);

/// The number of typed bytes that are read at once.
const INPUT_BYTES: usize = 4096;

/// A terminal that a person sits at.
#[derive(Debug)]
pub struct UserTerminal {
    /// The descriptor of the terminal: for what is typed, and for the terminal's settings.
    typed: OwnedFd,
    /// The former settings of the terminal.
    settings: Termios,
}

impl UserTerminal {
    /// Takes the terminal that is behind a descriptor, if it is one.
    pub fn of(typed: OwnedFd) -> Option<UserTerminal> {
        let settings = tcgetattr(&typed).ok()?;
        Some(UserTerminal { typed, settings })
    }

    /// Returns how many rows and columns it has.
    pub(super) fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.typed) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
            _ => USUAL,
        }
    }

    /// Has what is typed go to the program as it is.
    fn make_raw(&self) {
        let mut raw = self.settings.clone();
        raw.make_raw();
        // In the background, this would stop the process; there is nothing to be typed then.
        let _ = tcsetattr(&self.typed, OptionalActions::Drain, &raw);
    }

    fn give_back(&self) {
        let _ = tcsetattr(&self.typed, OptionalActions::Drain, &self.settings);
    }

    /// Stops this process as ^Z stops a program, until somebody has it go on. `inner`: the program's terminal.
    pub(super) fn suspend(&self, inner: BorrowedFd<'_>) {
        self.give_back();
        // Of this thread, so that it happens before the next line. Where no shell could have it go on, nothing stops.
        let _ = raise(SIGTSTP);
        self.make_raw();
        self.resize(inner);
    }

    fn resize(&self, inner: impl AsFd) {
        if let Ok(size) = tcgetwinsize(&self.typed) {
            let _ = tcsetwinsize(inner, size);
        }
    }

    /// Connects the terminal with that of a program while `act` is under way. What the program has shown by its end is
    /// shown; nothing is waited for then.
    ///
    /// # Errors
    /// No pipe can be made, or no handler be set for changes of the size.
    pub(super) fn while_connected<T>(
        &self,
        inner: BorrowedFd<'_>,
        shown: &mut (dyn Write + Send),
        act: impl FnOnce() -> T,
    ) -> io::Result<T> {
        let (ended, ending) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (resized, resizing) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        let handler = pipe::register(SIGWINCH, resizing)?;
        let (reading, writing) = (again(inner)?, again(inner)?);
        keep_terminal(Some((again(self.typed.as_fd())?, self.settings.clone())));
        let _back = TerminalGuard(self);
        self.make_raw();
        self.resize(inner);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| drain(&reading, &ended, shown));
            scope.spawn(|| self.pass_on(&writing, &resized, &ended));
            let outcome = act();
            drop(ending);
            outcome
        });
        unregister(handler);
        Ok(outcome)
    }

    /// Passes on what is typed, and the size.
    fn pass_on(&self, inner: &OwnedFd, resized: &UnixStream, ended: &OwnedFd) {
        let mut is_open = true;
        loop {
            let mut fds = vec![
                PollFd::new(ended, PollFlags::IN),
                PollFd::new(resized, PollFlags::IN),
            ];
            if is_open {
                fds.push(PollFd::new(&self.typed, PollFlags::IN));
            }
            match rustix::event::poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready.first() == Some(&true) {
                return;
            }
            if ready.get(1) == Some(&true) {
                let mut bytes = [0; 64];
                while matches!(rustix::io::read(resized, &mut bytes), Ok(1..)) {}
                self.resize(inner);
            }
            if ready.get(2) == Some(&true) {
                is_open = self.pass_on_once(inner, ended);
            }
        }
    }

    /// Passes on what has been typed; returns whether there may be more.
    fn pass_on_once(&self, inner: &OwnedFd, ended: &OwnedFd) -> bool {
        let mut bytes = [0; INPUT_BYTES];
        let read = match rustix::io::read(&self.typed, &mut bytes) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        };
        let mut rest = bytes.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            match rustix::io::write(inner, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // Its buffer is full, and the program reads nothing.
                Err(Errno::AGAIN) => {
                    let mut fds = [
                        PollFd::new(inner, PollFlags::OUT),
                        PollFd::new(ended, PollFlags::IN),
                    ];
                    let _ = rustix::event::poll(&mut fds, None);
                    if !fds[1].revents().is_empty() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }
}

/// Gives a terminal its settings back when it is dropped, whatever happened.
struct TerminalGuard<'t>(&'t UserTerminal);

impl Drop for TerminalGuard<'_> {
    fn drop(&mut self) {
        self.0.give_back();
        keep_terminal(None);
    }
}

fn again(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
}
