//! What `trumanfs agent` takes, and what an agent is given of the network and of this environment by that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueHint};

use super::super::argument_values::{seconds, some_seconds};
use super::super::network_option::{NetworkChoice, network};
use super::super::output::warn;
use super::asks::AgentCommandArgs;
use super::option_source::OptionSources;
use super::secrets::{OnlyChoice, SecretArgument, only, secret_argument, service_of_variable};
use crate::client::{SessionPatterns, caches_of_tool, tools_with_caches};
use crate::error::{Error, Result};
use crate::exec::program::AgentProfile;
use crate::exec::program::policy::PublishedPort;
use crate::exec::program::sandbox::{self, Toolchains};

/// Arguments of `trumanfs agent`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Ends as PROGRAM does; with 123 if that could not be started, 124 if its time was up, 125 if the home went away.\n\
The program sees the store (at its own path), a directory of its own as HOME, /usr, a /tmp and your toolchains, and nothing else.\n\
Everything that it changes in the store is recorded: `trumanfs log`, `diff` and `undo` know the run by the id that is\n\
said at the end. Of its own directory only what the profile and --keep-state name is there the next time."
)]
pub(in crate::cli) struct AgentArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<AgentCommandArgs>,
    /// The store: a directory that becomes the agent's home, mounted for as long as the agent runs [default: the store
    /// around the working directory, the top of its git repository, or itself]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) store: Option<PathBuf>,
    /// Where the history of a new store lies, and its trash: a directory on the same mount [default: the state home of
    /// the project's owner, ~/.local/state/trumanfs, where it can be there, else the store]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) state: Option<PathBuf>,
    /// Another directory that it may change, at its own path: a store of its own, recorded and taken back with the run;
    /// may be given several times. The git directory of a linked worktree comes along by itself
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) also: Vec<PathBuf>,
    /// What the pattern names does not exist for the agent (gitignore syntax, relative to each directory that it may
    /// change); may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(super) hide: Vec<String>,
    /// What the pattern names it cannot change; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(super) read_only: Vec<String>,
    /// What can be made again, as target/ or node_modules/: nothing is kept of what the agent makes there and removes or
    /// overwrites; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(super) volatile: Vec<String>,
    /// Where the agent begins, from the home or below it [default: without --store, where this is called]
    #[arg(long, value_name = "D")]
    pub(super) cwd: Option<OsString>,
    /// What is known of the agent: a profile [default: that of the program, if there is one]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(profiles()))]
    pub(super) profile: Option<String>,
    /// The network: `none`, `allow=HOST[:PORT],…`, `all` (every public host), or the hosts of profiles and of cargo,
    /// debian, github, go, npm, pip; `ask`: what no other says is held until `trumanfs agent allow` answers; `learn`: every
    /// public host, and the end says what was reached; may be given several times [default: the hosts of the agent's own
    /// profile]
    #[arg(long, value_name = "WHAT", value_parser = network)]
    pub(super) net: Vec<NetworkChoice>,
    /// With --net ask: a command for `sh -c` that is asked, too. It gets {"run", "agent", "store", "id", "host", "port",
    /// "by"} as JSON, and writes {"verdict": "allow", "deny" or "ask", "reason", "scope": "run" or "once"}; the agent gets
    /// the reason
    #[arg(long, value_name = "CMD")]
    pub(super) ask_with: Option<OsString>,
    /// With --net ask: the time for an answer [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = ask_limit)]
    pub(super) ask_timeout: Option<Duration>,
    /// A port of the agent that is seen on this machine's 127.0.0.1, as the same port or as HOST_PORT; may be given
    /// several times
    #[arg(long, value_name = "[HOST_PORT:]PORT")]
    pub(super) publish: Vec<PublishedPort>,
    /// A port of this machine's 127.0.0.1 that the agent sees; may be given several times
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) host_port: Vec<u16>,
    /// Your ssh-agent, for logins to hosts that --net allows and whose keys your known_hosts has, and for nothing else;
    /// `ask`: the program of SSH_ASKPASS asks you for each. Needs OpenSSH 8.9 or newer in the sandbox
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "always", value_parser = ["always", "ask"])]
    pub(super) ssh_agent: Option<String>,
    /// A device of this machine that the agent may use as you may: /dev/kvm, /dev/dri, or a name such as
    /// nvidia.com/gpu=all of a file of the Container Device Interface; may be given several times
    #[arg(long, value_name = "PATH|NAME")]
    pub(super) device: Vec<OsString>,
    /// Where files of the Container Device Interface lie [default: /etc/cdi and /var/run/cdi]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) cdi_dir: Vec<PathBuf>,
    /// Your login of the agent's profile (such as ~/.claude/.credentials.json): copied into its own directory for this
    /// run, and back where the agent has refreshed it
    #[arg(long)]
    pub(super) login: bool,
    /// A secret that the agent uses and never has: the launcher adds it to the agent's requests for one host, by TLS. WHAT
    /// is anthropic, gemini or openai, with the key of the usual variable, or NAME:HOST[:PORT][:HEADER]; SOURCE is
    /// env:VARIABLE, file:PATH or cmd:COMMAND; may be given several times
    #[arg(long, value_name = "WHAT[=SOURCE]", value_parser = secret_argument)]
    pub(super) secret: Vec<SecretArgument>,
    /// The requests to which the secret is added, as `POST /v1/messages`; `*` is any method or part of a path, `/**` all
    /// below. NAME says which secret is meant, where there are several; may be given several times [default: those that
    /// an agent makes of anthropic, gemini or openai; all of another host]
    #[arg(long, value_name = "[NAME ]METHOD /PATH", value_parser = only)]
    pub(super) only: Vec<OnlyChoice>,
    /// A variable to pass on, or to set: nothing else of this environment is passed on
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,
    /// A file or directory of this machine that the agent may read
    #[arg(long, value_name = "PATH")]
    pub(super) bind_ro: Vec<PathBuf>,
    /// What else stays of its own directory: a path from there
    #[arg(long, value_name = "PATH", value_parser = path_below)]
    pub(super) keep_state: Vec<PathBuf>,
    /// The directories of your PATH that lie in your home directory, which the agent sees read-only, with what rustup,
    /// pyenv, nvm, volta, mise, sdkman, pipx and uv have there for them; `none`: it sees none
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ["auto", "none"], hide_default_value = true)]
    pub(super) toolchains: String,
    /// A cache, at a path of its own directory (`~/PATH`) or that of cargo, go, npm, pip or uv: writable, neither recorded
    /// nor undone, and there for the next agent of the same profile in whatever project. Your own caches are not shown;
    /// may be given several times
    #[arg(long, value_name = "TOOL|PATH", value_parser = cache)]
    pub(super) cache: Vec<CacheChoice>,
    /// Review the changes at the end, on a screen; where the terminal can show none, ask whether they stay
    #[arg(long, group = "end")]
    pub(super) ask: bool,
    /// Take all changes back at the end
    #[arg(long, group = "end")]
    pub(super) discard: bool,
    /// Let the changes stay, as without any of the three
    #[arg(long, group = "end")]
    pub(super) keep: bool,
    /// What it works in: `fuse`, a mounted home; `fork`, a copy of the store without a mount, whose changes come into the
    /// store as one run when it has ended
    #[arg(long, value_name = "WHAT", default_value = "fuse", value_parser = ["fuse", "fork"], hide_default_value = true)]
    pub(super) home: String,
    /// End it after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) timeout: Option<Duration>,
    /// What makes the sandbox: `namespaces`, `bwrap`, or `auto`. Without namespaces: `weak`, rules about files alone;
    /// `none`, nothing, where a container is the wall [default: auto]
    #[arg(long, value_name = "BACKEND", value_parser = backend)]
    pub(super) sandbox: Option<sandbox::BackendChoice>,
    /// Print what the agent would be shown and allowed, and where each option comes from, and start nothing
    #[arg(long)]
    pub(super) explain: bool,
    /// Leave your agent.toml aside: ~/.config/trumanfs/agent.toml, which sets options for each start. What is typed counts
    /// before it; --hide, --read-only and --volatile are added
    #[arg(long)]
    pub(super) no_config: bool,
    /// Where the options come from.
    #[arg(skip)]
    pub(super) sources: OptionSources,
    /// The agent and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(super) words: Vec<OsString>,
}

fn backend(text: &str) -> std::result::Result<sandbox::BackendChoice, String> {
    let wrong = || format!("{text}: write it as auto, namespaces, bwrap, weak or none");
    sandbox::BackendChoice::from_any_name(text).ok_or_else(wrong)
}

impl AgentArgs {
    /// Returns the patterns of what the agent does not see, what it cannot change, and what can be made again.
    pub(super) fn patterns(&self) -> SessionPatterns {
        SessionPatterns {
            hide: self.hide.clone(),
            read_only: self.read_only.clone(),
            volatile: self.volatile.clone(),
        }
    }
}

/// The profiles, as `--help` lists them.
pub(super) fn profiles() -> impl Iterator<Item = PossibleValue> {
    AgentProfile::names().map(|name| {
        let known = AgentProfile::named(name).ok().flatten();
        PossibleValue::new(name).help(known.unwrap_or_default().description)
    })
}

/// Reads the time for an answer.
fn ask_limit(text: &str) -> std::result::Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(3600);
    match some_seconds(text)? {
        limit if limit > LONGEST => Err(format!("{text}: an hour, 3600, is the longest")),
        limit => Ok(limit),
    }
}

/// The value of `--cache`: paths from the agent's own directory.
#[derive(Debug, Clone)]
pub(super) struct CacheChoice(pub(super) Vec<PathBuf>);

pub(super) fn cache(text: &str) -> std::result::Result<CacheChoice, String> {
    if let Some(paths) = caches_of_tool(text) {
        return Ok(CacheChoice(paths.iter().map(PathBuf::from).collect()));
    }
    if text.starts_with("~/") {
        return path_below(text).map(|path| CacheChoice(vec![path]));
    }
    let tools: Vec<_> = tools_with_caches().collect();
    let tools = tools.join(", ");
    Err(format!("{text}: write it as ~/PATH or one of {tools}"))
}

pub(super) fn path_below(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text.strip_prefix("~/").unwrap_or(text));
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if is_plain && !path.as_os_str().is_empty() {
        Ok(path)
    } else {
        Err(format!(
            "{text}: give a path from the agent's own directory, without `..`"
        ))
    }
}

/// Returns the agent's variables: of its terminal, of its profile, of toolchains, and those that were given.
pub(super) fn environment(
    args: &AgentArgs,
    profile: &AgentProfile,
    toolchains: &Toolchains,
) -> Result<Vec<(OsString, OsString)>> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    for name in ["TERM", "COLORTERM"] {
        env.extend(std::env::var_os(name).map(|value| (name.into(), value)));
    }
    let known = profile.env.iter();
    env.extend(known.map(|(name, value)| (name.into(), value.into())));
    env.extend(toolchains.env.iter().cloned());
    for given in &args.env {
        let bytes = given.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'=');
        let (name, value) = match at {
            Some(at) => {
                let (name, value) = bytes.split_at(at);
                let value = OsStr::from_bytes(value.get(1..).unwrap_or_default());
                (OsStr::from_bytes(name), value.to_owned())
            }
            None => {
                let missing = || {
                    Error::usage(
                        format!("--env {}: the variable is not set", given.display()),
                        "Set it, or give NAME=VALUE.",
                    )
                };
                (
                    given.as_os_str(),
                    std::env::var_os(given).ok_or_else(missing)?,
                )
            }
        };
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), value));
    }
    Ok(env)
}

/// Returns the credentials of this environment that the agent knows and does not get, for nothing is passed on unasked.
pub(super) fn withheld_credentials<'p>(
    args: &AgentArgs,
    profile: &'p AgentProfile,
) -> Vec<&'p String> {
    let is_passed = |name: &str| {
        let mut given = args.env.iter().map(|given| given.as_bytes());
        given.any(|given| given.split(|byte| *byte == b'=').next() == Some(name.as_bytes()))
    };
    let is_used = |name: &str| args.secret.iter().any(|secret| secret.is_variable(name));
    let known = profile.credentials.iter();
    let known = known.filter(|name| std::env::var_os(name).is_some());
    let withheld = known.filter(|name| !is_passed(name) && !is_used(name));
    withheld.collect()
}

/// Names those credentials, and how the agent would get them.
pub(super) fn say_of_credentials(args: &AgentArgs, profile: &AgentProfile) {
    for name in withheld_credentials(args, profile) {
        let way = match service_of_variable(name) {
            Some(service) => format!("--secret {service} lets it use that without having it, "),
            None => String::new(),
        };
        warn(
            false,
            &format!(
                "{name} is set here, and the agent does not get it: {way}--env {name} passes it on"
            ),
        );
    }
}
