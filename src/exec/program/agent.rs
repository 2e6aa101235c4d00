//! Agents: programs that nobody has to allow by a policy, because whoever names one admits it. The sandbox is the same.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::agent_extras::AgentExtras;
use super::agent_watch::AgentWatch;
use super::command::ProgramCommand;
use super::decision::cwd_of;
use super::executor::ProgramExecution;
use super::network::{NetworkSettings, SecretRoute};
use super::policy::{AllowedCommand, NetworkRule};
use super::program_home::ProgramHome;
use super::runnable::RunnableCommand;
use super::sandbox::{PlacedMount, directories_of};
use super::ssh_agent::SshAgentAccess;
use super::terminal::UserTerminal;
use super::turn_socket::{self, TurnSocket};
use crate::client::MergeReport;
use crate::error::{Error, Result};
use crate::exec::CancelToken;
use crate::exec::pipeline::{self, RequestStreams};
use crate::exec::quote::line;
use crate::exec::request::{Limits, Outcome, Request};
use crate::name::{EscapedBytes, WorldPath};
use crate::world::{OriginKind, Run, RunId};

/// The name that records and outcomes give to the rule that allowed an agent.
const RULE: &str = "agent";

/// The variables that every agent has.
pub const SANDBOX_VARIABLES: [&str; 5] = ["HOME", "PATH", "TMPDIR", "LANG", "SHELL"];

/// Directories of programs that every sandbox has.
pub(super) const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// An agent that is to run.
#[derive(Debug)]
pub struct AgentCommand {
    /// Its words; the first is the program.
    pub argv: Vec<OsString>,
    /// Directories of this machine in which it is looked up, as `PATH` has them.
    pub path: OsString,
    /// Directories that come first in its `PATH`, which it sees.
    pub first_path: Vec<PathBuf>,
    /// Where it begins, from the home or below it.
    pub cwd: Vec<u8>,
    /// Its variables, beside those that every agent has.
    pub env: Vec<(OsString, OsString)>,
    /// Paths of the host that it may read besides system software.
    pub bind_ro: Vec<PathBuf>,
    /// The rule for the hosts that the agent may reach.
    pub network: NetworkRule,
    /// True if the agent has the network of this process, which only one without namespaces can.
    pub has_host_network: bool,
    /// The watch over it, which has its network then.
    pub watch: Option<Arc<AgentWatch>>,
    /// The secrets that are added to its requests.
    pub secrets: Vec<Arc<SecretRoute>>,
    /// Its own directory, `HOME`, and where that is in the sandbox.
    pub state: (OwnedFd, PathBuf),
    /// Directories that stay beyond its run, each at a path in its own directory.
    pub caches: Vec<(OwnedFd, PathBuf)>,
    /// Single things of the host at paths of their own, such as devices.
    pub placed: Vec<PlacedMount>,
    /// The ssh-agent of whoever started it, where it gets that.
    pub ssh_agent: Option<SshAgentAccess>,
    /// The socket at which it says that turns begin.
    pub turns: Option<TurnSocket>,
    /// The id of its run.
    pub run: RunId,
    /// The longest time that the agent may run.
    pub timeout: Option<Duration>,
    /// The token that ends the agent before its time is up.
    pub cancel: CancelToken,
    /// The terminal of whoever started it, where it gets one.
    pub terminal: Option<UserTerminal>,
}

/// The run of an agent, as its store's records name it.
#[derive(Debug)]
pub struct AgentRun {
    id: RunId,
    command: Vec<u8>,
    cwd: Vec<u8>,
}

impl AgentCommand {
    /// Returns what records name of the agent's run.
    pub fn to_run(&self) -> AgentRun {
        let words: Vec<Vec<u8>> = self
            .argv
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        AgentRun {
            id: self.run,
            command: line(&words),
            cwd: self.cwd.clone(),
        }
    }
}

impl ProgramHome {
    /// Runs an agent in the home. Without a terminal of its own, its output goes to these streams.
    ///
    /// # Errors
    /// The home is mounted read-only; the network that was asked for means nothing.
    pub fn run_agent(&self, agent: &AgentCommand, streams: RequestStreams) -> Result<Outcome> {
        if self.is_read_only() {
            let home = self.place.root().to_vec();
            return Err(Error::refused(
                format!(
                    "{}: the home is mounted read-only",
                    PathBuf::from(OsString::from_vec(home)).display()
                ),
                "An agent needs one that it can change: unmount it, and mount it without --read-only.",
            ));
        }
        let network = match &agent.watch {
            Some(watch) => watch.network.clone(),
            None => NetworkSettings::of_agent(&agent.network, None, &agent.secrets)
                .map_err(|reason| Error::usage(reason, "See `trumanfs agent --help`."))?,
        };
        let command = ProgramCommand {
            argv: agent
                .argv
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect(),
            cwd: cwd_of(self.place.root(), &agent.cwd),
            bind_ro: agent.bind_ro.clone(),
            ..ProgramCommand::default()
        };
        let ready = RunnableCommand {
            allowed: self.allowed(agent, &command, network.as_ref()),
            network,
            read_only: false,
        };
        let request = Request {
            command: line(&command.argv),
            limits: Limits {
                time: agent.timeout,
                memory: 0,
                bytes: 0,
                lines: 0,
                ..Limits::default()
            },
            cancel: Some(agent.cancel.clone()),
            run: Some(agent.run),
        };
        if let Some(fork) = self.fork() {
            fork.begin_use();
        }
        let extra = AgentExtras {
            state: &agent.state,
            caches: &agent.caches,
            has_host_network: agent.has_host_network,
            placed: &agent.placed,
            ssh_agent: agent.ssh_agent.as_ref(),
            turns: agent.turns.as_ref(),
            terminal: agent.terminal.as_ref(),
        };
        let mut execution =
            ProgramExecution::new(&self.place, &command, Ok((self, ready))).with(extra);
        Ok(pipeline::execute(&mut execution, &request, streams).0)
    }

    /// Brings what an agent has changed in its fork into the store, as the agent's run, once nothing of the agent is left.
    /// Returns what came of that; `None` where the agent worked in a mounted home.
    ///
    /// # Errors
    /// As [`AgentFork::bring_in`](crate::client::AgentFork::bring_in).
    pub fn bring_in_fork(&self, agent: &AgentRun) -> Result<Option<MergeReport>> {
        let Some(fork) = self.fork() else {
            return Ok(None);
        };
        let run = Run {
            id: agent.id,
            kind: OriginKind::Program,
            command: EscapedBytes(agent.command.clone()),
            cwd: WorldPath::parse(&agent.cwd).unwrap_or_default(),
            also: Vec::new(),
        };
        fork.bring_in(&run).map(Some)
    }

    fn allowed(
        &self,
        agent: &AgentCommand,
        command: &ProgramCommand,
        network: Option<&NetworkSettings>,
    ) -> AllowedCommand {
        let path = self.path_for(agent);
        let values = [
            agent.state.1.as_os_str().as_bytes(),
            &path,
            self.scratch_path().as_os_str().as_bytes(),
            b"C.UTF-8",
            b"/bin/bash",
        ]
        .map(<[u8]>::to_vec);
        let names = SANDBOX_VARIABLES.map(Vec::from);
        let mut env: Vec<(Vec<u8>, Vec<u8>)> = names.into_iter().zip(values).collect();
        if agent.ssh_agent.is_some() {
            let (name, path) = SshAgentAccess::variable();
            env.push((name.into(), path.to_vec()));
        }
        let of_secrets = network.map(NetworkSettings::secret_variables);
        for (name, value) in of_secrets.into_iter().flatten() {
            env.push((name.into_bytes(), value.into_bytes()));
        }
        for (name, value) in &agent.env {
            env.retain(|(known, _)| known != name.as_bytes());
            env.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        env.sort();
        AllowedCommand {
            argv: command.argv.clone(),
            cwd: command.cwd.clone(),
            search_path: value_of(&env, b"PATH"),
            env,
            timeout: agent.timeout.unwrap_or(Duration::MAX),
            max_output_bytes: u64::MAX,
            network: agent.network.clone(),
            bind_ro: Vec::new(),
            read_only: false,
            ptrace: false,
            suppress_success_output: false,
            rule: RULE.to_owned(),
        }
    }

    /// Returns `PATH` for an agent: toolchains come first, and where its program and its interpreter were found.
    fn path_for(&self, agent: &AgentCommand) -> Vec<u8> {
        let program = agent.argv.first().map(OsString::as_os_str);
        let home = self.path();
        let found = directories_of(program.unwrap_or_default(), &agent.path, home);
        let usual: Vec<&[u8]> = PATH.split(|byte| *byte == b':').collect();
        let first = agent.first_path.iter().chain(&found);
        let mut dirs: Vec<&[u8]> = Vec::new();
        for dir in first.map(|dir| dir.as_os_str().as_bytes()) {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        dirs.retain(|dir| !usual.contains(dir));
        dirs.extend(usual.iter());
        dirs.extend(
            agent
                .turns
                .iter()
                .map(|_| turn_socket::PROGRAM_DIR.as_bytes()),
        );
        dirs.join(&b':')
    }
}

/// Returns the value of a variable, empty where there is none.
fn value_of(env: &[(Vec<u8>, Vec<u8>)], name: &[u8]) -> Vec<u8> {
    let found = env.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}
