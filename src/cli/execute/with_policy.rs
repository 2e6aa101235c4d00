//! The policy, the network and the sandbox launcher that `run`, `exec` and `shell` need for real programs.

use std::path::Path;

use crate::client::Client;
use crate::error::Result;
use crate::exec::program::network::Asked;
use crate::exec::program::policy::Watched;
use crate::exec::program::sandbox::{Choice, Launcher};

/// Reads what `--sandbox` says.
pub(in crate::cli) fn choice(text: &str) -> std::result::Result<Choice, String> {
    let wrong = || format!("{text}: write it as auto, namespaces or bwrap");
    Choice::from_name(text).ok_or_else(wrong)
}

/// Returns the launcher of sandboxes.
pub(in crate::cli) fn launcher(choice: Choice) -> Launcher {
    Launcher::of_this_program().with_choice(choice)
}

/// Returns the policy that is in force for a home or a store, following its file.
pub(in crate::cli) fn policy(flag: Option<&Path>, root: &Path) -> Result<Watched> {
    let store = Client::open(root).ok();
    Watched::locate(flag, store.as_ref().map(Client::path))
}

/// Reads what `--net` says; `hosts` makes something of those that it lists.
pub(in crate::cli) fn network(
    text: &str,
    hosts: fn(Vec<String>) -> Asked,
) -> std::result::Result<Asked, String> {
    match (text, text.strip_prefix("allow=")) {
        ("none", _) => Ok(Asked::Nothing),
        (_, Some(all)) if !all.is_empty() => {
            let asked = hosts(all.split(',').map(str::to_owned).collect());
            asked.check()?;
            Ok(asked)
        }
        _ => Err(format!("{text}: write it as none or allow=HOST[:PORT],…")),
    }
}
