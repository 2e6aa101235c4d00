//! The policy and the sandbox launcher that `run`, `exec` and `shell` need for real programs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cli::output::warn;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::exec::program::policy::{FileExposure, PolicySource, WatchedPolicy, exposure};
use crate::exec::program::sandbox::{BackendChoice, Launcher};

/// Reads what `--sandbox` says.
pub(in crate::cli) fn parse_backend(text: &str) -> std::result::Result<BackendChoice, String> {
    let wrong = || format!("{text}: write it as auto, namespaces or bwrap");
    BackendChoice::from_name(text).ok_or_else(wrong)
}

/// Returns the launcher of sandboxes.
pub(in crate::cli) fn make_launcher(choice: BackendChoice) -> Launcher {
    Launcher::of_this_program().with_choice(choice)
}

/// Returns the policy that is in force for a home or a store, following its file. Warns of one that other users can
/// change.
///
/// # Errors
/// As [`WatchedPolicy::locate`]; the file lies in a home or in the store, where what runs by it could change it.
pub(in crate::cli) fn watched_policy(
    flag: Option<&Path>,
    root: &Path,
    as_json: bool,
) -> Result<WatchedPolicy> {
    let store = Client::open(root).ok();
    let watched = WatchedPolicy::locate(flag, store.as_ref().map(Client::path))?;
    if let PolicySource::File(file) = watched.source() {
        check_exposure(file, root, store.as_ref(), as_json)?;
    }
    Ok(watched)
}

fn check_exposure(file: &Path, root: &Path, store: Option<&Client>, as_json: bool) -> Result<()> {
    let homes: Vec<&Path> = [root].into_iter().chain(store.map(Client::path)).collect();
    // The home itself may hang.
    let owner = store.and_then(|store| std::fs::metadata(store.path()).ok());
    let owner = owner.map(|found| found.uid());
    let shown = file.display();
    match exposure(file, &homes, owner) {
        None => Ok(()),
        Some(FileExposure::Home(real)) => Err(Error::refused(
            format!(
                "{shown}: this policy lies where programs that run by it can change it ({})",
                real.display()
            ),
            "Move it out of the home and the store, or have the store's own policy.yaml count: `trumanfs policy trust STORE`.",
        )),
        Some(FileExposure::Users(_, why)) => {
            warn(
                as_json,
                &format!("{shown}: other users can change this policy: {why}"),
            );
            Ok(())
        }
    }
}
