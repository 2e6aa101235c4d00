//! `--device`: devices of this machine, and what files of the Container Device Interface say of them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::output::warn;
use super::args::AgentArgs;
use crate::error::{Error, Result};
use crate::exec::program::sandbox::{CDI_DIRS, DeviceAccess};

/// Finds the devices that were asked for, and names what does not come along with them.
///
/// # Errors
/// [`Error::Refused`] for one that is not there, or that may not be shown; [`Error::Usage`] for a directory without any.
pub(super) fn devices(args: &AgentArgs) -> Result<DeviceAccess> {
    if args.device.is_empty() && !args.cdi_dir.is_empty() {
        return Err(Error::usage("--cdi-dir is for --device", "Add it."));
    }
    let dirs: Vec<PathBuf> = match args.cdi_dir.is_empty() {
        true => CDI_DIRS.map(PathBuf::from).into(),
        false => args.cdi_dir.clone(),
    };
    let refused = |why: String| {
        Error::refused(
            format!("--device: {why}"),
            "See docs/semantics/programs.md, \"Agents\".",
        )
    };
    let access = DeviceAccess::find(&args.device, &dirs).map_err(refused)?;
    for what in &access.left_out {
        warn(false, &format!("--device {what} is not done here"));
    }
    Ok(access)
}

/// Returns the agent's variables, with those that belong to devices where it has no other ones.
pub(super) fn add_variables(
    access: &mut DeviceAccess,
    env: Vec<(OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut all = std::mem::take(&mut access.env);
    all.retain(|(name, _)| !env.iter().any(|(known, _)| known == name));
    all.extend(env);
    all
}
