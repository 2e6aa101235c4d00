//! The toolchains in the caller's home directory, which programs in a sandbox see.

use std::path::{Path, PathBuf};

use super::output::warn;
use crate::error::Result;
use crate::exec::program::sandbox::Toolchains;
use crate::exec::program::version_managers;

/// Finds those of a home directory; none without one. `homes`: what the programs work in.
///
/// # Errors
/// The facts about version managers are not understood.
pub(in crate::cli) fn toolchains_of(home: Option<PathBuf>, homes: &[&Path]) -> Result<Toolchains> {
    let Some(home) = home else {
        return Ok(Toolchains::default());
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let managers = version_managers()?;
    Ok(Toolchains::of_user(&managers, &home, &path, homes))
}

/// Names the directories of PATH that the agent does not see.
pub(in crate::cli) fn say_of_withheld_dirs(toolchains: &Toolchains) {
    for (dir, secret) in &toolchains.withheld {
        let (dir, secret) = (dir.display(), secret.display());
        warn(
            false,
            &format!("{dir} of your PATH is not shown to the agent: {secret} looks like a secret"),
        );
    }
}
