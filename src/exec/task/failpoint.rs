//! Places where a test ends the process, as a power cut would. Builds without `debug_assertions` have none.

use crate::error::{Error, Result};

/// The variable that names the place.
pub const VARIABLE: &str = "TRUMANFS_FAILPOINT";

/// The places: there are no others.
pub const NAMES: [&str; 8] = [
    "before_intent",
    "after_intent",
    "after_intent_sync",
    "mid_data",
    "after_backup",
    "after_act",
    "before_result_sync",
    "after_result",
];

/// Checks that the variable names a place, so that a slip of the pen does not make a test that cannot fail.
///
/// # Errors
/// It names something else.
pub fn check() -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    match std::env::var_os(VARIABLE) {
        Some(name) if !NAMES.iter().any(|known| name == **known) => Err(Error::usage(
            format!("{VARIABLE}={}: there is no such place", name.display()),
            format!("The places are {}.", NAMES.join(", ")),
        )),
        _ => Ok(()),
    }
}

/// Ends the process, as `kill -9` would, where the variable names this place.
pub fn reach(name: &str) {
    if is_named(name) {
        end();
    }
}

/// As [`reach`], in a worker: its supervisor ends first, so that nobody mends what is left.
pub(super) fn reach_in_worker(name: &str) {
    if !is_named(name) {
        return;
    }
    if let Some(supervisor) = rustix::process::getppid() {
        let _ = rustix::process::kill_process(supervisor, rustix::process::Signal::KILL);
    }
    end();
}

fn is_named(name: &str) -> bool {
    if !cfg!(debug_assertions) {
        return false;
    }
    debug_assert!(NAMES.contains(&name), "{name} is no failpoint");
    std::env::var_os(VARIABLE).is_some_and(|named| named == name)
}

fn end() {
    let me = rustix::process::getpid();
    let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
    std::process::abort();
}
