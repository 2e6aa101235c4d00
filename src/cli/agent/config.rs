//! The options of an agent that files set: the user's `agent.toml`, and `.trumanfs.toml` of the project.
//!
//! Owns which keys each file may have, and what counts where several places say something. A key is an option of `agent`;
//! its value becomes words of a command line, so that the same parsers check it. The project's file may be an occupant's
//! work: it can only narrow what the agent may do.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::super::network_option::NetworkChoice;
use super::args::AgentArgs;
use super::find_profile;
use super::option_file::{
    ADDED, ENDS, FileOption, FileOptions, HELP, UserFile, clap_reason, key_of, word,
};
use super::option_source::{OptionSource, OptionSources};
use super::project_options::ProjectOptions;
use crate::cli::output::quote;
use crate::client::{
    AgentConfig, AgentDirectory, OuterGitDirectory, PinnedDir, enclosing_store, store_behind,
};
use crate::error::{Error, Result};
use crate::exec::program::policy::{FileExposure, exposure};

/// A command line of `trumanfs agent`.
#[derive(Debug)]
pub(in crate::cli) struct AgentCall {
    pub(in crate::cli) args: AgentArgs,
    /// To tell what was typed from defaults.
    typed: ArgMatches,
}

impl FromArgMatches for AgentCall {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<AgentCall, clap::Error> {
        Ok(AgentCall {
            typed: matches.clone(),
            args: AgentArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = AgentCall::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AgentCall {
    fn augment_args(command: Command) -> Command {
        AgentArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        AgentArgs::augment_args_for_update(command)
    }
}

/// Returns the options that count for an agent in a directory. `pinned` is that directory.
///
/// # Errors
/// [`Error::Refused`] for a file that others could write, that lies where the agent works, or cannot be read;
/// [`Error::Usage`] for a key or a value that it may not have.
pub(super) fn resolve(
    call: AgentCall,
    place: &AgentDirectory,
    pinned: Option<&PinnedDir>,
) -> Result<AgentArgs> {
    let AgentCall { args, typed } = call;
    let user = match args.no_config {
        true => None,
        false => AgentConfig::of_user()?,
    };
    let project = AgentConfig::of_project(&place.store, pinned)?;
    let command = agent_command();
    let mut options = FileOptions::new();
    if let Some(file) = &user {
        expect_private(file)?;
        let program = args.words.first().map(OsString::as_os_str);
        let (profile, _) = find_profile(args.profile.as_deref(), program.unwrap_or_default())?;
        options = UserFile {
            file,
            command: &command,
        }
        .options(&profile)?;
    }
    let mut args = merge(&command, &typed, options, user.as_ref())?;
    if let Some(file) = &user {
        expect_outside(file, &args, &place.store)?;
        args.sources.files.push(file.path.clone());
    }
    if let Some(file) = &project {
        ProjectOptions::read(file, &command)?.narrow(&mut args);
        args.sources.files.push(file.path.clone());
    }
    Ok(args)
}

/// The command line of `trumanfs agent`, for words without its name.
fn agent_command() -> Command {
    AgentArgs::augment_args(Command::new("agent").no_binary_name(true))
}

/// Puts together what was typed and what the user's file says: what was typed counts, also instead of a whole list, but
/// for the lists that each place adds to.
fn merge(
    command: &Command,
    typed: &ArgMatches,
    mut options: FileOptions,
    file: Option<&AgentConfig>,
) -> Result<AgentArgs> {
    let is_typed = |arg: &Arg| {
        use clap::parser::ValueSource;
        typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let has_end = |arg: &Arg| ENDS.contains(&key_of(arg)) && is_typed(arg);
    if command.get_arguments().any(has_end) {
        ENDS.iter().for_each(|end| drop(options.remove(*end)));
    }
    let mut words = Vec::new();
    let mut sources = OptionSources::default();
    for arg in command.get_arguments().filter(|arg| !arg.is_last_set()) {
        let key = key_of(arg);
        let own = is_typed(arg).then(|| typed_words(arg, typed));
        let own = own.map(|words| FileOption {
            words,
            source: OptionSource::CommandLine,
        });
        let file = options.remove(key).unwrap_or_default();
        if let Some(added) = ADDED.into_iter().find(|added| *added == key) {
            let known = sources.patterns.entry(added).or_default();
            for option in file.into_iter().chain(own) {
                known.extend(vec![option.source; option.words.len()]);
                words.extend(option.words);
            }
        } else if let Some(chosen) = own.or(file.into_iter().next()) {
            words.extend(chosen.words);
            sources.by_option.insert(key.to_owned(), chosen.source);
        }
    }
    words.push("--".into());
    words.extend(
        typed
            .get_raw("words")
            .into_iter()
            .flatten()
            .map(OsString::from),
    );
    let parsed = command.clone().try_get_matches_from(words);
    let args = parsed.and_then(|matches| AgentArgs::from_arg_matches(&matches));
    let mut args = args.map_err(|error| {
        let file = file.map_or(String::new(), |file| format!("{}: ", file.path.display()));
        Error::usage(format!("{file}{}", clap_reason(&error)), HELP)
    })?;
    args.sources = sources;
    drop_unused(&mut args);
    Ok(args)
}

/// Leaves out what the user's file says for another network, other secrets or other devices than there are this time.
fn drop_unused(args: &mut AgentArgs) {
    let is_typed = |args: &AgentArgs, option| args.sources.of(option) == OptionSource::CommandLine;
    if !args.net.iter().any(|net| matches!(net, NetworkChoice::Ask)) {
        if !is_typed(args, "ask-with") {
            args.ask_with = None;
        }
        if !is_typed(args, "ask-timeout") {
            args.ask_timeout = None;
        }
    }
    if !is_typed(args, "only") {
        let secrets = &args.secret;
        args.only
            .retain(|only| secrets.iter().any(|secret| only.names(secret)));
    }
    if args.device.is_empty() && !is_typed(args, "cdi-dir") {
        args.cdi_dir.clear();
    }
}

/// Returns the words of an option that was typed.
fn typed_words(arg: &Arg, typed: &ArgMatches) -> Vec<OsString> {
    if !arg.get_action().takes_values() {
        return vec![format!("--{}", key_of(arg)).into()];
    }
    let values = typed.get_raw(arg.get_id().as_str()).into_iter().flatten();
    values.map(|value| word(arg, value.to_owned())).collect()
}

/// Checks that nobody but this user and root can write the user's file.
fn expect_private(file: &AgentConfig) -> Result<()> {
    let Some(FileExposure::Users(path, why)) = exposure(&file.path, &[], None) else {
        return Ok(());
    };
    let me = rustix::process::geteuid().as_raw();
    let is_foreign = std::fs::metadata(&path).is_ok_and(|meta| ![0, me].contains(&meta.uid()));
    let shown = quote(path.as_os_str().as_bytes());
    let remedy = match is_foreign {
        true => format!(
            "It must be yours or root's: chown {me} {shown}, once you have read the file; or --no-config."
        ),
        false => format!("chmod go-w {shown}, once you have read the file; or --no-config."),
    };
    let file = file.path.display();
    Err(Error::refused(
        format!("{file}: others could write it: {why}"),
        remedy,
    ))
}

/// Checks that the user's file does not lie where the agent works, or in another store, where another one may have.
fn expect_outside(file: &AgentConfig, args: &AgentArgs, store: &Path) -> Result<()> {
    let behind = store_behind(store)?;
    let git = OuterGitDirectory::of(behind.as_deref().unwrap_or(store));
    let git = git.filter(|git| git.points_back).map(|git| git.path);
    let dirs = [store].into_iter().chain(behind.as_deref());
    let dirs = dirs.chain(args.also.iter().map(PathBuf::as_path));
    let dirs: Vec<&Path> = dirs.chain(git.as_deref()).collect();
    let shown = file.path.display();
    let remedy = "Move it out of what an agent can write, or leave it aside with --no-config.";
    let real = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    if let Some(FileExposure::Home(real)) = exposure(&file.path, &dirs, None) {
        let what = format!(
            "{shown}: the agent could write it, for it lies where it works ({})",
            real.display()
        );
        return Err(Error::refused(what, remedy));
    }
    for path in [&real, &file.path] {
        let dir = path.parent().unwrap_or(path);
        // Whatever keeps that from being known, such as a store of another user's, is no reason to believe the file.
        if !matches!(enclosing_store(dir), Ok(None)) {
            let dir = dir.display();
            let what = format!("{shown}: {dir} lies in a store, where an occupant could write it");
            return Err(Error::refused(what, remedy));
        }
    }
    Ok(())
}
