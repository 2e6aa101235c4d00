//! The processes that the library starts from the program it is part of: the daemon behind a home and its keeper, the worker of file tasks,
//! and, where the library could not carry a program of its own for that, the first process of a sandbox.
//!
//! Each is the running program started anew with a word of the library's as its first argument. A program that mounts homes,
//! runs real programs or carries out tasks therefore calls [`run`] before anything else in `main`. Without that call a home is refused instead
//! of mounted: the program would only start itself, over and over.

use std::process::ExitCode;

use crate::daemon;
use crate::exec::program::sandbox;
use crate::exec::task;

/// Does the work of the process that the library has started, if this is one, and returns how it ends.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = trumanfs::helper::run() {
///         return code;
///     }
///     // What the program is for.
///     std::process::ExitCode::SUCCESS
/// }
/// ```
#[must_use = "a process that the library has started ends with this"]
pub fn run() -> Option<ExitCode> {
    daemon::allow_background();
    sandbox::allow_this_program();
    let word = std::env::args_os().nth(1)?;
    if word == sandbox::INIT {
        return Some(sandbox::run_init());
    }
    if word == task::WORKER {
        return Some(task::run_worker());
    }
    if word == daemon::KEEPER_WORD {
        daemon::run_keeper();
        return Some(ExitCode::SUCCESS);
    }
    if word == daemon::BACKGROUND_WORD {
        daemon::run_in_background();
        return Some(ExitCode::SUCCESS);
    }
    None
}
