//! The network of an agent, and the watch over it: what `--net`, `--ask-with` and the owner's own additions to a profile
//! come to, and what is said of it before and after.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::escaping::print_error;
use super::super::network_option::{HostList, NetworkChoice};
use super::super::output::{quote, warn};
use super::args::AgentArgs;
use super::fork::check_in_place;
use crate::client::{AdditionsFile, AgentPlace, ProfileAdditions, RunningAgents};
use crate::error::{Error, Result};
use crate::exec::program::network::{AnswerEvent, NetworkSettings, SecretRoute, UnlistedHosts};
use crate::exec::program::policy::NetworkRule;
use crate::exec::program::policy::network::HostPattern;
use crate::exec::program::{AgentProfile, AgentWatch, ProgramHome, WatchSettings};

/// The time for an answer.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// The network of an agent, as it was asked for.
#[derive(Debug)]
pub(super) struct AgentNetwork {
    pub(super) rule: NetworkRule,
    /// The lists that the rule's allowed hosts come from.
    pub(super) lists: Vec<HostList>,
    pub(super) unlisted: UnlistedHosts,
    /// Where the owner's additions to the profile are.
    additions: Option<AdditionsFile>,
}

impl AgentNetwork {
    /// Returns the hosts and ports that the agent may reach, and the treatment of the others. `additions` is the file of its
    /// profile.
    ///
    /// # Errors
    /// [`Error::Refused`] for additions that are not understood.
    pub(super) fn of(
        args: &AgentArgs,
        profile: &AgentProfile,
        additions: Option<AdditionsFile>,
        unlisted: Option<UnlistedHosts>,
    ) -> Result<AgentNetwork> {
        let Some(unlisted) = unlisted else {
            return Ok(AgentNetwork {
                rule: NetworkRule::default(),
                lists: Vec::new(),
                unlisted: UnlistedHosts::Refused,
                additions: None,
            });
        };
        let own = additions
            .as_ref()
            .map(read_additions)
            .transpose()?
            .unwrap_or_default();
        let mut rule = NetworkRule {
            host_ports: args.host_port.clone(),
            publish: args.publish.clone(),
            deny: own.deny,
            all: unlisted == UnlistedHosts::Learned,
            ..NetworkRule::default()
        };
        let is_of_lists =
            |net: &NetworkChoice| !matches!(net, NetworkChoice::Ask | NetworkChoice::Learn);
        let mut lists = Vec::new();
        if !args.net.iter().any(is_of_lists) {
            // What a secret is for is reached with it alone: not with another's key, nor past `--only`.
            let is_reached = |host: &&String| !args.secret.iter().any(|secret| secret.is_for(host));
            lists.push(HostList {
                name: "the profile".to_owned(),
                hosts: profile.hosts.iter().filter(is_reached).cloned().collect(),
            });
        }
        // A list that was typed is meant as it is, unless it is one to begin with.
        if args.net.iter().all(|net| !is_of_lists(net)) || unlisted != UnlistedHosts::Refused {
            let file = additions.as_ref().map(AdditionsFile::path);
            lists.push(HostList {
                name: file.unwrap_or_default().display().to_string(),
                hosts: own.hosts,
            });
        }
        for net in &args.net {
            match net {
                NetworkChoice::Hosts(named) => lists.extend(named.iter().cloned()),
                NetworkChoice::All => rule.all = true,
                NetworkChoice::Nothing | NetworkChoice::Ask | NetworkChoice::Learn => {}
            }
        }
        lists.retain(|list| !list.hosts.is_empty());
        rule.allow = lists
            .iter()
            .flat_map(|list| list.hosts.iter().cloned())
            .collect();
        Ok(AgentNetwork {
            rule,
            lists,
            unlisted,
            additions,
        })
    }

    /// Begins to watch the agent, and says how it is answered. `shown` are paths of this machine that it sees, `secrets`
    /// what is added to its requests. Nothing: there
    /// is nothing to watch: no answer could arrive, or there is no network.
    ///
    /// # Errors
    /// [`Error::Refused`] where hosts are asked about and no answer could arrive; as [`ProgramHome::watch_agent`].
    pub(super) fn watch(
        &self,
        args: &AgentArgs,
        (place, name): (&AgentPlace, &str),
        programs: &ProgramHome,
        (shown, secrets): (&[PathBuf], &[Arc<SecretRoute>]),
    ) -> Result<Option<AgentWatch>> {
        let run = place.run();
        let has_network =
            || NetworkSettings::new(&self.rule, None).is_ok_and(|found| found.is_some());
        if self.unlisted == UnlistedHosts::Refused && !has_network() {
            return Ok(None);
        }
        let agents = match (unshown_place(shown), self.unlisted) {
            (Ok(agents), _) => Some(agents),
            (Err(error), UnlistedHosts::Asked(_)) if args.ask_with.is_none() => return Err(error),
            (Err(_), UnlistedHosts::Refused) => return Ok(None),
            (Err(_), _) => None,
        };
        if agents.is_some() && matches!(self.unlisted, UnlistedHosts::Asked(_)) {
            print_error(format_args!(
                "trumanfs: hosts that are not listed are asked about: trumanfs agent asks {run} --follow"
            ));
        }
        // Where the agent has the terminal, a line would be in the middle of its screen.
        let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let settings = WatchSettings {
            unlisted: self.unlisted,
            ask_with: args.ask_with.clone(),
            shows_errors: !has_terminal,
        };
        let says_asks = !has_terminal && agents.is_some();
        let notice = move |event: &AnswerEvent| {
            if let (AnswerEvent::Ask(ask), true) = (event, says_asks) {
                let (host, port) = (&ask.host, ask.port);
                print_error(format_args!(
                    "trumanfs: the agent waits for {host}:{port}: trumanfs agent allow {run} {host}:{port}"
                ));
            }
        };
        let watch =
            programs.watch_agent((run, name), (&self.rule, secrets), settings, agents, notice)?;
        Ok(Some(watch))
    }

    /// Says what was learned, and what the command that was asked did wrong.
    pub(super) fn say_end(&self, watch: &AgentWatch, name: &str) {
        for failure in watch.command_failures() {
            warn(false, &failure);
        }
        if self.unlisted != UnlistedHosts::Learned {
            return;
        }
        let hosts = watch.learned_hosts();
        if hosts.is_empty() {
            print_error(format_args!(
                "trumanfs: no host was reached: --net none would have sufficed"
            ));
            return;
        }
        print_error(format_args!(
            "trumanfs: these hosts would have sufficed: --net allow={}",
            hosts.join(",")
        ));
        let additions = ProfileAdditions {
            hosts,
            deny: self.rule.deny.clone(),
        };
        let text = serde_json::to_string_pretty(&additions).unwrap_or_default();
        if let Some(file) = &self.additions {
            use std::os::unix::ffi::OsStrExt;
            let path = quote(file.path().as_os_str().as_bytes());
            print_error(format_args!(
                "trumanfs: or, for later runs of {name} without --net, these in {path}:"
            ));
            text.lines()
                .for_each(|line| print_error(format_args!("{line}")));
        }
    }
}

/// Opens the place of the socket at which the agent is answered, if the agent does not see it.
fn unshown_place(shown: &[PathBuf]) -> Result<RunningAgents> {
    let agents = RunningAgents::own()?;
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let sockets = real(agents.path());
    match shown.iter().find(|path| sockets.starts_with(real(path))) {
        None => Ok(agents),
        Some(path) => Err(Error::refused(
            format!(
                "--bind-ro {}: it would show the agent {}, at which it is answered",
                path.display(),
                agents.path().display()
            ),
            "Name the directories in it that the agent needs.",
        )),
    }
}

/// Reads the treatment of hosts that no list names; nothing for an agent without namespaces, whose connections nobody
/// decides about.
///
/// # Errors
/// [`Error::Usage`] for choices that contradict each other; as [`check_in_place`] for an agent without namespaces.
pub(super) fn unlisted_hosts(args: &AgentArgs, is_in_place: bool) -> Result<Option<UnlistedHosts>> {
    let usage = |what: &str, remedy: &str| Err(Error::usage(what, remedy));
    let has = |wanted: fn(&NetworkChoice) -> bool| args.net.iter().any(wanted);
    let asks = has(|net| matches!(net, NetworkChoice::Ask));
    if !asks && (args.ask_with.is_some() || args.ask_timeout.is_some()) {
        return usage("--ask-with and --ask-timeout are for --net ask", "Add it.");
    }
    if is_in_place {
        return check_in_place(args).map(|()| None);
    }
    let learns = has(|net| matches!(net, NetworkChoice::Learn));
    if args.net.len() > 1 && has(|net| matches!(net, NetworkChoice::Nothing)) {
        return usage(
            "--net none stands beside another --net",
            "Give the one that is meant.",
        );
    }
    if asks && (learns || has(|net| matches!(net, NetworkChoice::All))) {
        return usage(
            "--net ask stands beside one that allows every public host",
            "Give the one that is meant.",
        );
    }
    Ok(Some(match (asks, learns) {
        (true, _) => UnlistedHosts::Asked(args.ask_timeout.unwrap_or(ASK_LIMIT)),
        (_, true) => UnlistedHosts::Learned,
        _ => UnlistedHosts::Refused,
    }))
}

fn read_additions(file: &AdditionsFile) -> Result<ProfileAdditions> {
    let additions = file.read()?;
    for host in additions.hosts.iter().chain(&additions.deny) {
        HostPattern::parse(host).map_err(|why| {
            Error::refused(
                format!("{}: {host:?} is no host: {why}", file.path().display()),
                "Mend it, or take it out.",
            )
        })?;
    }
    Ok(additions)
}
