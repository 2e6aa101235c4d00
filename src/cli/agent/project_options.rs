//! The options that a project's own file sets, `.trumanfs.toml`. It may be an occupant's work, so it can only narrow.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Command, FromArgMatches};
use toml::Value;

use super::super::network_option::NetworkChoice;
use super::args::AgentArgs;
use super::option_file::{FileKey, HELP, check, clap_reason, key_of, option_words, parse};
use super::option_source::OptionSource;
use crate::cli::output::warn;
use crate::client::AgentConfig;
use crate::error::{Error, Result};

/// The keys of a project's file.
const PROJECT_KEYS: &str = "hide, read-only, timeout and net = \"none\"";

/// The most patterns of a project's file, and the longest one, in bytes.
const MAX_PROJECT_PATTERNS: usize = 256;
const MAX_PATTERN_BYTES: usize = 512;

/// The options of a project's file.
#[derive(Debug, Default)]
pub(super) struct ProjectOptions {
    hide: Vec<String>,
    read_only: Vec<String>,
    timeout: Option<Duration>,
    has_no_network: bool,
}

impl ProjectOptions {
    /// Reads the file; whatever could widen something is an error.
    pub(super) fn read(file: &AgentConfig, command: &Command) -> Result<ProjectOptions> {
        let mut words = Vec::new();
        let mut has_no_network = false;
        for (key, value) in &parse(file)? {
            let at = FileKey {
                file,
                profile: None,
                key,
            };
            let arg = command.get_arguments().find(|arg| key_of(arg) == key);
            let arg = arg.filter(|_| ["hide", "read-only", "timeout", "net"].contains(&&**key));
            let Some(arg) = arg else {
                return Err(at.wrong(
                    &format!("a project's file may only narrow, with {PROJECT_KEYS}"),
                    "It belongs in your own agent.toml, or on the command line.",
                ));
            };
            if key == "net" {
                has_no_network = value.as_str() == Some("none")
                    || value.as_array().is_some_and(
                        |nets| matches!(&nets[..], [Value::String(net)] if net == "none"),
                    );
                if !has_no_network {
                    return Err(at.wrong(
                        "a project's file may only have net = \"none\"",
                        "Other networks belong in your own agent.toml, or on the command line.",
                    ));
                }
                continue;
            }
            let own = option_words(arg, value, &at)?;
            if let Value::Array(_) | Value::String(_) = value {
                check_patterns(value, &at)?;
            }
            check(command, &own, &at)?;
            words.extend(own);
        }
        words.extend(["--", "program"].map(OsString::from));
        let parsed = command.clone().try_get_matches_from(words);
        let args = parsed.and_then(|matches| AgentArgs::from_arg_matches(&matches));
        let args = args.map_err(|error| {
            let path = file.path.display();
            Error::usage(format!("{path}: {}", clap_reason(&error)), HELP)
        })?;
        Ok(ProjectOptions {
            hide: args.hide,
            read_only: args.read_only,
            timeout: args.timeout,
            has_no_network,
        })
    }

    /// Adds them to options. Patterns come last, where none before takes them back.
    pub(super) fn narrow(self, args: &mut AgentArgs) {
        let sources = &mut args.sources;
        for (option, own, all) in [
            ("hide", self.hide, &mut args.hide),
            ("read-only", self.read_only, &mut args.read_only),
        ] {
            let known = sources.patterns.entry(option).or_default();
            known.extend(vec![OptionSource::ProjectFile; own.len()]);
            all.extend(own);
        }
        let mut set = |option: &str| {
            let source = OptionSource::ProjectFile;
            sources.by_option.insert(option.to_owned(), source);
        };
        if let Some(limit) = self.timeout
            && args.timeout.is_none_or(|known| limit < known)
        {
            args.timeout = Some(limit);
            set("timeout");
        }
        if self.has_no_network && !matches!(args.net[..], [NetworkChoice::Nothing]) {
            args.net = vec![NetworkChoice::Nothing];
            (args.ask_with, args.ask_timeout) = (None, None);
            set("net");
            if !args.explain {
                warn(
                    false,
                    "the agent has no network: .trumanfs.toml of the project has net = \"none\"",
                );
            }
        }
    }
}

/// Checks that a project's patterns take nothing back that others hide or protect, and that there are not too many.
fn check_patterns(value: &Value, at: &FileKey<'_>) -> Result<()> {
    let single = std::slice::from_ref(value);
    let values = value.as_array().map_or(single, Vec::as_slice);
    if values.len() > MAX_PROJECT_PATTERNS {
        let why = format!("more than {MAX_PROJECT_PATTERNS} patterns");
        return Err(at.wrong(
            &why,
            "Write fewer ones, or have them in your own agent.toml.",
        ));
    }
    for pattern in values.iter().filter_map(Value::as_str) {
        if pattern.trim_start().starts_with('!') {
            let why = format!("{pattern} would take other patterns back");
            return Err(at.wrong(&why, "Such a pattern belongs in your own agent.toml."));
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            let why = format!("a pattern is longer than {MAX_PATTERN_BYTES} bytes");
            return Err(at.wrong(&why, "Shorten it, or have it in your own agent.toml."));
        }
    }
    Ok(())
}
