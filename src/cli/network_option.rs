//! `--net`: the hosts that programs may reach, as it is typed.

use crate::error::{Error, Result};
use crate::exec::program::network::NetworkRequest;
use crate::exec::program::{AgentProfile, HostGroup};

/// Reads a network that lists hosts, of which `hosts` makes something.
pub(in crate::cli) fn listed_network(
    text: &str,
    hosts: fn(Vec<String>) -> NetworkRequest,
) -> std::result::Result<NetworkRequest, String> {
    match (text, text.strip_prefix("allow=")) {
        ("none", _) => Ok(NetworkRequest::Nothing),
        (_, Some(all)) if !all.is_empty() => {
            let asked = hosts(all.split(',').map(str::to_owned).collect());
            asked.check()?;
            Ok(asked)
        }
        _ => Err(format!("{text}: write it as none or allow=HOST[:PORT],…")),
    }
}

/// The value of `--net`.
#[derive(Debug, Clone)]
pub(in crate::cli) enum NetworkChoice {
    Nothing,
    All,
    Ask,
    Learn,
    Hosts(Vec<HostList>),
}

impl NetworkChoice {
    /// Returns what is asked for of the network that a policy allows; nothing where nothing was typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for what only a policy can say: which hosts there are.
    pub(in crate::cli) fn narrowing(typed: &[NetworkChoice]) -> Result<Option<NetworkRequest>> {
        let mut hosts = Vec::new();
        for choice in typed {
            match choice {
                NetworkChoice::Nothing => return Ok(Some(NetworkRequest::Nothing)),
                NetworkChoice::Hosts(lists) => {
                    hosts.extend(lists.iter().flat_map(|list| list.hosts.iter().cloned()));
                }
                NetworkChoice::All | NetworkChoice::Ask | NetworkChoice::Learn => {
                    return Err(Error::usage(
                        "with --policy, --net can only narrow what the policy allows",
                        "Give none, or allow=HOST[:PORT],…",
                    ));
                }
            }
        }
        let asked = (!hosts.is_empty()).then_some(NetworkRequest::AtMost(hosts));
        Ok(asked)
    }
}

/// Hosts that belong together.
#[derive(Debug, Clone)]
pub(in crate::cli) struct HostList {
    /// The name of a profile or a group, or where the list comes from; nothing for hosts that are listed themselves.
    pub(in crate::cli) name: String,
    pub(in crate::cli) hosts: Vec<String>,
}

/// Reads the value of `--net` for what no policy decides about.
pub(in crate::cli) fn network(text: &str) -> std::result::Result<NetworkChoice, String> {
    match text {
        "all" => return Ok(NetworkChoice::All),
        "ask" => return Ok(NetworkChoice::Ask),
        "learn" => return Ok(NetworkChoice::Learn),
        _ => {}
    }
    match listed_network(text, NetworkRequest::Hosts) {
        Ok(NetworkRequest::Hosts(hosts)) => {
            let name = String::new();
            return Ok(NetworkChoice::Hosts(vec![HostList { name, hosts }]));
        }
        Ok(_) => return Ok(NetworkChoice::Nothing),
        Err(why) if text.starts_with("allow=") => return Err(why),
        Err(_) => {}
    }
    let mut lists = Vec::new();
    for name in text.split(',') {
        let hosts = named_hosts(name).ok_or_else(|| {
            let names: Vec<_> = AgentProfile::names().chain(HostGroup::names()).collect();
            let names = names.join(", ");
            format!(
                "{name}: write it as none, all, allow=HOST[:PORT],…, ask, learn or some of {names}"
            )
        })?;
        let name = name.to_owned();
        lists.push(HostList { name, hosts });
    }
    Ok(NetworkChoice::Hosts(lists))
}

/// Returns the hosts of a profile or a group.
fn named_hosts(name: &str) -> Option<Vec<String>> {
    let profile = AgentProfile::named(name).ok().flatten();
    let group = || HostGroup::named(name).ok().flatten();
    profile
        .map(|profile| profile.hosts)
        .or_else(|| group().map(|group| group.hosts))
}
