//! The effect of signals on this process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::termios::{OptionalActions, Termios, tcsetattr};

/// A terminal with other settings than its own, and these.
static CHANGED_TERMINAL: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Notes the settings that a terminal has again before a signal ends this process; `None` where there is no such terminal any more.
pub fn keep_terminal(settings: Option<(OwnedFd, Termios)>) {
    *CHANGED_TERMINAL.lock() = settings;
}

/// Has the next signal after this one end the process, unless `ends` says that this one does. The terminal gets its settings back
/// first. It is one step, because another thread may handle a second signal at the same time.
///
/// # Errors
/// Any error from `sigaction(2)`.
pub fn end_at_next(signal: i32, ends: Arc<AtomicBool>) -> io::Result<()> {
    let act = move || {
        if !ends.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(kept) = CHANGED_TERMINAL.try_lock()
            && let Some((terminal, settings)) = &*kept
        {
            let _ = tcsetattr(terminal, OptionalActions::Now, settings);
        }
        signal_hook::low_level::exit(128 + signal);
    };
    // SAFETY: the action waits for no lock, allocates and frees nothing, makes one system call, and ends by _exit.
    unsafe { signal_hook::low_level::register(signal, act) }.map(drop)
}

/// Returns whether a signal is ignored (`SIG_IGN`), as by nohup(1) and in the background of a shell without job control.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the structure consists of integers, an address and a set of bits, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets nothing, and the structure lives through the call.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
