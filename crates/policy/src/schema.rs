//! The data of a policy: [`Policy`], a [`ProgramEntry`] for each program, a [`SubCommand`] for each of its
//! sub-commands. Reading it is `read/`, deciding by it is `decide.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::grammar::{FlagValue, ToolGrammar, WordReading};
use super::validator::Validator;

/// A loaded, checked policy. A clone is the same policy and costs nothing.
#[derive(Debug, Clone)]
pub struct Policy(pub(super) Arc<PolicyEntries>);

/// The entries of a policy.
#[derive(Debug, Default)]
pub(super) struct PolicyEntries {
    pub(super) entries: BTreeMap<String, ProgramEntry>,
    /// The entry `*`: what holds for every program that does not say otherwise.
    pub(super) every: ProgramEntry,
}

impl Policy {
    /// Returns the programs that have an entry, in order.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.0.entries.keys().map(String::as_str)
    }
}

/// The entry of one program.
#[derive(Debug, Default)]
pub(super) struct ProgramEntry {
    pub(super) name: String,
    pub(super) line: usize,
    /// The description by the policy's author.
    pub(super) description: Option<String>,
    pub(super) validator: Validator,
    /// The grammar of the program, where the policy adds to the shipped one.
    pub(super) grammar: Option<Box<ToolGrammar>>,
    pub(super) run: RunSettings,
    /// Nothing where the program is called without one.
    pub(super) subcommands: Option<BTreeMap<String, SubCommand>>,
    pub(super) deny_subcommands: Vec<String>,
    pub(super) flags: FlagList,
    /// True if there is a list of flags, though it may be empty.
    pub(super) has_flags: bool,
    /// The flags that may stand before the sub-command.
    pub(super) root_flags: FlagList,
    pub(super) deny_flags: Vec<String>,
    pub(super) require_flags: Vec<RequiredFlag>,
    pub(super) safe_env: EnvVariables,
    pub(super) env_overrides: EnvVariables,
    pub(super) allow_env: BTreeSet<String>,
    pub(super) max_output_bytes: Option<u64>,
    pub(super) ptrace: bool,
    pub(super) arguments: ArgumentRules,
    pub(super) tool: ToolKeys,
    pub(super) matches: Vec<CommandExample>,
    pub(super) not_matches: Vec<CommandExample>,
}

/// The settings of a run that an entry and a sub-command may have alike.
#[derive(Debug, Default)]
pub(super) struct RunSettings {
    pub(super) timeout: Option<Duration>,
    pub(super) suppress_success_output: Option<bool>,
    pub(super) network: Option<NetworkRule>,
    pub(super) bind_ro: Vec<PathBuf>,
    pub(super) read_only: Option<bool>,
}

/// The rules of one sub-command, or of one script of a package manager.
#[derive(Debug, Default)]
pub(super) struct SubCommand {
    pub(super) run: RunSettings,
    pub(super) flags: FlagList,
    pub(super) deny_flags: Vec<String>,
    pub(super) require_flags: Vec<RequiredFlag>,
    pub(super) disabled: bool,
    pub(super) arguments: ArgumentRules,
    /// Scripts by name; nothing where the sub-command runs none.
    pub(super) scripts: Option<BTreeMap<String, SubCommand>>,
    pub(super) deny_args: Option<DeniedArgs>,
    pub(super) allow_test_paths: Option<bool>,
    pub(super) allow_project_paths: Option<bool>,
    pub(super) require_no_packages: bool,
    pub(super) get_only: bool,
}

/// The words that are refused behind a script's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeniedArgs {
    All,
    Nothing,
    These(Vec<String>),
}

/// The rules for words that are not flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ArgumentRules {
    /// The reading of each, the last for all that follow; `None` if the validator knows.
    pub(super) kinds: Option<Vec<WordReading>>,
    /// The values that the first one may have; `None` if it may be anything.
    pub(super) first: Option<BTreeSet<String>>,
}

/// The flags that a list allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FlagList {
    /// By name, with what each takes.
    pub(super) names: BTreeMap<String, FlagValue>,
    /// Flags that are allowed with just this value: `--color=never`.
    pub(super) exact: BTreeSet<String>,
    /// `-<n>`: a dash and a number.
    pub(super) number: bool,
}

impl FlagList {
    /// Adds the flags of another list.
    pub(super) fn add(&mut self, other: FlagList) {
        self.names.extend(other.names);
        self.exact.extend(other.exact);
        self.number |= other.number;
    }
}

/// A flag that has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequiredFlag {
    pub(super) flag: String,
    /// Its values, the first being the one that is inserted; nothing for a flag without one.
    pub(super) values: Vec<String>,
}

/// Variables of an environment.
pub(super) type EnvVariables = BTreeMap<String, String>;

/// A command line that a policy says it allows, or refuses.
#[derive(Debug, Clone)]
pub(super) struct CommandExample {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The hosts and ports that a program may reach. Without a rule, none.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct NetworkRule {
    /// Hosts: `host`, `host:port`, `*.host` (below it), `**.host` (below it and itself).
    pub allow: Vec<String>,
    /// Hosts that are refused whatever `allow` says.
    pub deny: Vec<String>,
    /// Ports of the host's loopback that are seen inside.
    pub host_ports: Vec<u16>,
    /// Ports of the program that are seen on the host's loopback.
    pub publish: Vec<PublishedPort>,
    /// True if every public host is allowed, by its name or its address. No policy says so: a list there names whom it
    /// means.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// A port of the program, and the one of the host's loopback that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPort {
    /// On the host.
    pub on_host: u16,
    /// In the sandbox.
    pub port: u16,
}

impl From<u16> for PublishedPort {
    fn from(port: u16) -> Self {
        PublishedPort {
            on_host: port,
            port,
        }
    }
}

impl FromStr for PublishedPort {
    type Err = String;

    /// Reads `PORT` or `HOST_PORT:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = |text: &str| {
            let port = text.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| format!("{text} is no port; 1 to 65535 are"))
        };
        let (on_host, port) = text.split_once(':').unwrap_or((text, text));
        Ok(PublishedPort {
            on_host: read(on_host)?,
            port: read(port)?,
        })
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.on_host == self.port {
            true => self.port.fmt(out),
            false => write!(out, "{}:{}", self.on_host, self.port),
        }
    }
}

impl serde::Serialize for PublishedPort {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.on_host == self.port {
            true => serializer.serialize_u16(self.port),
            false => serializer.collect_str(self),
        }
    }
}

/// Keys of single tools.
#[derive(Debug, Default)]
pub(super) struct ToolKeys {
    pub(super) allow_test_paths: Option<bool>,
    pub(super) allow_script_paths: Option<bool>,
    pub(super) max_selector_args: Option<u64>,
    pub(super) max_argv_len: Option<u64>,
    pub(super) detect_venv: Option<bool>,
    pub(super) disable_plugin_autoload: Option<bool>,
    /// Packages of npx, with the flags of each; nothing where none is listed.
    pub(super) packages: BTreeMap<String, Option<FlagList>>,
    pub(super) command_aliases: BTreeMap<String, String>,
    pub(super) modes: BTreeMap<String, bool>,
    pub(super) allowed_entrypoints: Option<BTreeSet<String>>,
    pub(super) allow_test_mode: Option<bool>,
    pub(super) deny_tokens: Option<Vec<String>>,
    pub(super) safe_cmdlets: BTreeSet<String>,
    pub(super) dangerous_patterns: Vec<CompiledPattern>,
}

/// A regular expression of a policy, compiled.
#[derive(Debug, Clone)]
pub(super) struct CompiledPattern {
    pub(super) text: String,
    pub(super) regex: regex_automata::meta::Regex,
}
