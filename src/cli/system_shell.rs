//! `--shell`: a shell of this machine for lines, and what its user lends it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::network_option::{HostList, NetworkChoice};
use super::toolchains::toolchains_of;
use crate::client::GitIdentity;
use crate::error::{Error, Result};
use crate::exec::program::policy::NetworkRule;
use crate::exec::program::sandbox::{ResourceLimits, Toolchains};
use crate::exec::program::{ProgramHome, SystemShellSettings};

/// The value of `--shell` for the shell that is part of this program.
const BUNDLED: &str = "bundled";

/// Returns the shell of this machine that was asked for; nothing for the bundled one.
pub(in crate::cli) fn system_shell(typed: Option<&OsString>) -> Option<PathBuf> {
    typed.filter(|name| *name != BUNDLED).map(PathBuf::from)
}

/// Returns the settings for a shell in a home, with the toolchains and the name for git of whoever starts it, if the home is
/// theirs.
///
/// # Errors
/// [`Error::Usage`] for a network that only an agent can have.
pub(in crate::cli) fn shell_settings(
    shell: &Path,
    programs: &ProgramHome,
    net: &[NetworkChoice],
    memory: Option<u64>,
) -> Result<SystemShellSettings> {
    let is_callers = rustix::process::geteuid().as_raw() == programs.owner().0;
    let toolchains = toolchains(programs, is_callers)?;
    let identity = match is_callers {
        true => GitIdentity::of_user(programs.client().path()),
        false => GitIdentity::default(),
    };
    let etc_files = identity.etc_files();
    let mut env = toolchains.env;
    if !etc_files.is_empty() {
        let (name, value) = GitIdentity::SYSTEM_VARIABLE;
        env.push((name.into(), value.into()));
    }
    let usual = ResourceLimits::usual();
    Ok(SystemShellSettings {
        env,
        first_path: toolchains.path,
        bind_ro: toolchains.shown,
        etc_files,
        network: network_rule(net)?,
        limits: ResourceLimits {
            memory: memory.map_or(usual.memory, |bytes| Some(bytes).filter(|bytes| *bytes > 0)),
            ..usual
        },
        ..SystemShellSettings::of(shell)
    })
}

fn toolchains(programs: &ProgramHome, is_callers: bool) -> Result<Toolchains> {
    let home = std::env::home_dir().filter(|_| is_callers);
    let homes: Vec<&Path> = programs.paths().collect();
    toolchains_of(home, &homes)
}

/// Returns the rule for what `--net` says; without, there is no network.
///
/// # Errors
/// [`Error::Usage`] for what needs somebody to ask, or a run to learn from.
fn network_rule(net: &[NetworkChoice]) -> Result<NetworkRule> {
    let mut rule = NetworkRule::default();
    for choice in net {
        match choice {
            NetworkChoice::Nothing => {}
            NetworkChoice::All => rule.all = true,
            NetworkChoice::Hosts(lists) => {
                let hosts = lists.iter().flat_map(|HostList { hosts, .. }| hosts);
                rule.allow.extend(hosts.cloned());
            }
            NetworkChoice::Ask | NetworkChoice::Learn => {
                return Err(Error::usage(
                    "--net ask and --net learn are for `trumanfs agent`",
                    "Give none, all, allow=HOST[:PORT],… or the name of a group of hosts.",
                ));
            }
        }
    }
    Ok(rule)
}
