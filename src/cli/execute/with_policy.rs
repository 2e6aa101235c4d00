//! What running real programs takes: a policy, and what starts sandboxes.

use std::path::Path;

use crate::error::{Error, Result};
use crate::exec::program::policy::{self, Policy};
use crate::exec::program::sandbox::Launcher;

/// Returns what starts sandboxes: this very program.
pub(super) fn launcher() -> Result<Launcher> {
    Launcher::of_this_program().map_err(|error| Error::refused(error.to_string(), ""))
}

/// Reads the policy.
pub(super) fn policy(file: &Path) -> Result<Policy> {
    let examined = policy::open(file);
    examined.policy.ok_or_else(|| {
        let all: Vec<String> = examined.problems.iter().map(ToString::to_string).collect();
        Error::usage(
            all.join("\n"),
            "Mend the policy; nothing runs by a broken one.",
        )
    })
}
