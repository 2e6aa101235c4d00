//! The places that the options of an agent come from.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::PathBuf;

/// The place that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum OptionSource {
    #[default]
    Default,
    /// The profile that the program has.
    Profile,
    /// The options with which the store was last mounted.
    LastMount,
    CommandLine,
    UserFile,
    /// A table of the user's file for one profile.
    ProfileTable(String),
    ProjectFile,
}

impl Display for OptionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionSource::Default => f.write_str("default"),
            OptionSource::Profile => f.write_str("profile"),
            OptionSource::LastMount => f.write_str("last mount"),
            OptionSource::CommandLine => f.write_str("command line"),
            OptionSource::UserFile => f.write_str("agent.toml"),
            OptionSource::ProfileTable(name) => write!(f, "agent.toml, profile.{name}"),
            OptionSource::ProjectFile => f.write_str(".trumanfs.toml"),
        }
    }
}

/// Where the options of an agent come from.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionSources {
    /// By the name of the option, for those that are not at their default.
    pub(super) by_option: BTreeMap<String, OptionSource>,
    /// The sources of the patterns of `--hide`, `--read-only` and `--volatile`, in their order.
    pub(super) patterns: BTreeMap<&'static str, Vec<OptionSource>>,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
}

impl OptionSources {
    /// Returns that of an option.
    pub(super) fn of(&self, option: &str) -> OptionSource {
        self.by_option.get(option).cloned().unwrap_or_default()
    }

    /// Returns those of the patterns of an option.
    pub(super) fn of_patterns(&self, option: &str) -> &[OptionSource] {
        self.patterns.get(option).map_or(&[], Vec::as_slice)
    }
}
