//! What running real programs takes: a policy, and what starts sandboxes.

use std::path::Path;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::exec::program::policy::Watched;
use crate::exec::program::sandbox::Launcher;

/// Returns what starts sandboxes: this very program.
pub(super) fn launcher() -> Result<Launcher> {
    Launcher::of_this_program().map_err(|error| Error::refused(error.to_string(), ""))
}

/// Finds the policy that is in force for a home or a store, and watches it.
pub(super) fn policy(flag: Option<&Path>, root: &Path) -> Result<Watched> {
    let store = Client::open(root).ok();
    Watched::locate(flag, store.as_ref().map(Client::path))
}
