//! The outcome of a decision: [`AllowedCommand`] or [`CommandRefusal`].

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::schema::NetworkRule;

/// A command that may run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCommand {
    /// The words to run, with what the policy inserted or replaced.
    pub argv: Vec<Vec<u8>>,
    /// The working directory, an absolute path in the home.
    pub cwd: Vec<u8>,
    /// The whole environment, sorted by name.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// The directories in which the program is looked up, in the form of PATH; its children look in the PATH of `env`.
    pub search_path: Vec<u8>,
    /// The time that the command may run.
    pub timeout: Duration,
    /// The number of bytes kept of each output stream.
    pub max_output_bytes: u64,
    /// The hosts that the command may reach.
    pub network: NetworkRule,
    /// Directories and files of the host to show it, for reading only.
    pub bind_ro: Vec<PathBuf>,
    /// True if the home is to be read-only for the command, so that it may run in a home that is.
    pub read_only: bool,
    /// True if the command may trace other processes of its sandbox.
    pub ptrace: bool,
    /// True if the output of a successful command is left out.
    pub suppress_success_output: bool,
    /// The key of the policy that allowed it: `git.subcommands.status`.
    pub rule: String,
}

/// Why a command may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRefusal {
    /// The kind of rule that refused the command.
    pub class: RefusalClass,
    /// The key of the policy that refused it, or the built-in rule: `git.deny_global_flags`, `words.operator`.
    pub rule: String,
    /// The refused part, and what would be allowed. The reader is a model.
    pub reason: String,
}

impl CommandRefusal {
    /// Makes a refusal.
    pub fn new(
        class: RefusalClass,
        rule: impl Into<String>,
        reason: impl Into<String>,
    ) -> CommandRefusal {
        CommandRefusal {
            class,
            rule: rule.into(),
            reason: reason.into(),
        }
    }
}

/// The kind of rule that refused a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalClass {
    /// The line is no list of words: an operator, an open quote, a character that hides something.
    Words,
    /// The program has no entry.
    Program,
    /// The sub-command, script, package or mode is not allowed.
    Subcommand,
    /// A flag, or its value, is not allowed.
    Flag,
    /// A word that is no flag is not allowed.
    Argument,
    /// A word names something outside the home.
    Path,
    /// The working directory lies outside the home.
    Cwd,
    /// A variable may not be asked for.
    Environment,
    /// The time that was asked for is none.
    Time,
    /// The home is mounted read-only, and the program would change it.
    Home,
    /// The network that was asked for, or that the policy gives, cannot be had.
    Network,
}

impl RefusalClass {
    /// Returns the name of the class, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RefusalClass::Words => "words",
            RefusalClass::Program => "program",
            RefusalClass::Subcommand => "subcommand",
            RefusalClass::Flag => "flag",
            RefusalClass::Argument => "argument",
            RefusalClass::Path => "path",
            RefusalClass::Cwd => "cwd",
            RefusalClass::Environment => "environment",
            RefusalClass::Time => "time",
            RefusalClass::Home => "home",
            RefusalClass::Network => "network",
        }
    }
}
