//! `--ssh-agent`: the caller's ssh-agent and known hosts, as the agent may use them.

use std::path::{Path, PathBuf};

use super::super::output::warn;
use super::args::AgentArgs;
use super::roots::AgentHomes;
use crate::error::{Error, Result};
use crate::exec::program::SshAgentAccess;
use crate::exec::program::policy::NetworkRule;
use crate::exec::program::policy::network::HostRules;
use crate::exec::program::sandbox::ssh_agent::{Confirmation, KnownHosts, SshAgentRules};

/// The file of known hosts of all users.
const SYSTEM_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// Returns the access to the caller's ssh-agent, where it was asked for.
///
/// # Errors
/// As [`ssh_agent_rules`], and those of making its socket.
pub(super) fn ssh_agent(
    args: &AgentArgs,
    rule: &NetworkRule,
    homes: &AgentHomes,
    name: &str,
) -> Result<Option<SshAgentAccess>> {
    let rules = ssh_agent_rules(args, rule, homes, name)?;
    rules.map(SshAgentAccess::new).transpose()
}

/// Returns what the agent may do with the caller's ssh-agent, where that was asked for.
///
/// # Errors
/// [`Error::Refused`] where there is no ssh-agent, nobody to ask, no host to log in to, or the project is another user's.
pub(super) fn ssh_agent_rules(
    args: &AgentArgs,
    rule: &NetworkRule,
    homes: &AgentHomes,
    name: &str,
) -> Result<Option<SshAgentRules>> {
    let Some(when) = &args.ssh_agent else {
        return Ok(None);
    };
    if !homes.are_callers() {
        return Err(Error::refused(
            "--ssh-agent: the project belongs to another user than the ssh-agent",
            "Start the agent as the project's owner.",
        ));
    }
    let hosts = HostRules::new(&rule.allow, &rule.deny)
        .map_err(|why| Error::usage(why, "See `trumanfs agent --help`."))?
        .with_all(rule.all);
    if hosts.is_empty() {
        return Err(Error::usage(
            "--ssh-agent: the agent may reach no host",
            "Name the host with --net allow=HOST, or --net github.",
        ));
    }
    let socket = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
    let socket = socket.map(PathBuf::from).ok_or_else(|| {
        Error::refused(
            "--ssh-agent: there is no ssh-agent here: SSH_AUTH_SOCK is not set",
            "Start one (`eval $(ssh-agent)`, `ssh-add`), or leave the option out.",
        )
    })?;
    std::os::unix::net::UnixStream::connect(&socket).map_err(|error| {
        Error::refused(
            format!("--ssh-agent: {}: {error}", socket.display()),
            "Have SSH_AUTH_SOCK name the socket of an ssh-agent that runs.",
        )
    })?;
    let ask = || Confirmation::new(std::env::var_os("SSH_ASKPASS"));
    let confirmation = (when == "ask").then(ask).transpose().map_err(|why| {
        Error::refused(
            format!("--ssh-agent ask: nobody can be asked: {why}"),
            "Set SSH_ASKPASS to a program like ssh-askpass, as `ssh-add -c` needs it.",
        )
    })?;
    let known = known_hosts();
    if known.allowed_lines(&hosts).is_empty() {
        warn(
            false,
            "--ssh-agent: known_hosts has no key of a host that --net allows, so nothing will be signed: log in there once yourself",
        );
    }
    Ok(Some(SshAgentRules {
        socket,
        hosts,
        known,
        confirmation,
        program: name.to_owned(),
    }))
}

/// Reads the known hosts of the caller.
fn known_hosts() -> KnownHosts {
    let ssh = std::env::home_dir().map(|home| home.join(".ssh"));
    let of_user =
        ["known_hosts", "known_hosts2"].map(|name| ssh.as_ref().map(|ssh| ssh.join(name)));
    let of_user: Vec<PathBuf> = of_user.into_iter().flatten().collect();
    let mut files: Vec<&Path> = of_user.iter().map(PathBuf::as_path).collect();
    files.push(Path::new(SYSTEM_KNOWN_HOSTS));
    KnownHosts::read(&files)
}
