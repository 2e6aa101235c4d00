//! A terminal of the sandbox's own: the first process leads its session, and the program is in the foreground.
//!
//! The program must not lead the session itself: a group of processes whose parents are all in other sessions is not
//! stopped by ^Z (orphaned process groups, setpgid(2)).

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::backend::Backend;
use crate::error::{Step, StepFailure};

/// The path at which a new terminal is opened, of the devpts that is mounted in the sandbox.
const MULTIPLEXER: &str = "/dev/pts/ptmx";
/// The same where none is mounted: the other name may be closed to all.
const OUTER_MULTIPLEXER: &str = "/dev/ptmx";

/// Makes a terminal of so many rows and columns, and makes it that of a new session of this process. Returns its two
/// ends: the one that the launcher reads and writes, and the program's.
pub(crate) fn make(
    (rows, columns): (u16, u16),
    backend: Backend,
) -> Result<(OwnedFd, OwnedFd), StepFailure> {
    let multiplexer = match backend.has_namespaces() {
        true => MULTIPLEXER,
        false => OUTER_MULTIPLEXER,
    };
    let failed = |what: &'static str| move |errno| StepFailure::new(Step::Terminal, what, errno);
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master =
        rustix::fs::openat(CWD, multiplexer, flags, Mode::empty()).map_err(failed(multiplexer))?;
    rustix::pty::unlockpt(&master).map_err(failed("unlockpt"))?;
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).map_err(failed("TIOCSWINSZ"))?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).map_err(failed("TIOCGPTPEER"))?;
    match rustix::process::setsid() {
        // Bubblewrap has made it the leader of one.
        Ok(_) | Err(Errno::PERM) => {}
        Err(errno) => return Err(failed("setsid")(errno)),
    }
    rustix::process::ioctl_tiocsctty(&slave).map_err(failed("TIOCSCTTY"))?;
    Ok((master, slave))
}

/// Has a program that was stopped go on, with all in its process group.
pub(crate) fn go_on(program: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(program) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::CONT);
    }
}
