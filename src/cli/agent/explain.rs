//! `agent --explain`: what an agent would be shown, allowed and refused, and where each option comes from.
//!
//! Takes the same decisions as a start, by the same functions, and prints them. Starts no program, mounts nothing and makes
//! nothing: no store, no directory of its state, and the commands of `--secret` and `--ask-with` are not run.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::args::{AgentArgs, environment, withheld_credentials};
use super::devices::{add_variables, devices};
use super::fork::check_patterns;
use super::option_source::OptionSource;
use super::own_files::logins;
use super::roots::{AgentHomes, git_directory};
use super::secrets::{check_files, secret_choices};
use super::ssh_agent::ssh_agent_rules;
use super::watch::{AgentNetwork, unlisted_hosts};
use super::{
    cache_paths, check_end, command_words, find_profile, kept_state, own_path, toolchains,
};
use crate::cli::execute::with_policy::make_launcher;
use crate::cli::output::{print_line, quote};
use crate::client::{AgentDirectory, ForeseenHome, HistoryPlace, PinnedDir, user_instructions};
use crate::error::Result;
use crate::exec::program::network::UnlistedHosts;
use crate::exec::program::sandbox::{BackendChoice, DeviceAccess, Toolchains};
use crate::exec::program::{AgentProfile, ProgramHome, SANDBOX_VARIABLES};

/// The width of a row's label, with the space behind it.
const LABEL_WIDTH: usize = 14;

/// The decisions about an agent.
struct Explanation<'a> {
    args: &'a AgentArgs,
    profile: &'a AgentProfile,
    homes: &'a AgentHomes,
    toolchains: &'a Toolchains,
    devices: &'a DeviceAccess,
    env: &'a [(OsString, OsString)],
    network: &'a AgentNetwork,
    is_in_place: bool,
}

/// Prints what an agent would be given.
///
/// # Errors
/// Those with which a start would fail for its options.
pub(super) fn explain(
    args: &AgentArgs,
    place: &AgentDirectory,
    pinned: Result<PinnedDir>,
) -> Result<()> {
    check_end(args)?;
    let program = args.words.first().map(OsString::as_os_str);
    let (name, profile) = find_profile(args.profile.as_deref(), program.unwrap_or_default())?;
    secret_choices(args)?;
    let is_in_place = make_launcher(args.sandbox.unwrap_or_default()).is_in_place();
    let unlisted = unlisted_hosts(args, is_in_place)?;
    check_patterns(args)?;
    let dir = pinned?;
    let own = dir.foreseen_home(args.state.as_deref())?;
    ProgramHome::is_for(&place.store)?;
    ProgramHome::expect_beside(&own.path, &[])?;
    let further = further_homes(args, &own)?;
    let homes = AgentHomes::foreseen(&own, &further);
    let toolchains = toolchains(args, &homes)?;
    let mut devices = devices(args)?;
    let env = environment(args, &profile, &toolchains)?;
    let env = add_variables(&mut devices, env);
    let additions = dir.profile_additions(&name).ok();
    let network = AgentNetwork::of(args, &profile, additions, unlisted)?;
    check_files(args, &homes, &toolchains)?;
    let ssh = ssh_agent_rules(args, &network.rule, &homes, &name)?;
    let explanation = Explanation {
        args,
        profile: &profile,
        homes: &homes,
        toolchains: &toolchains,
        devices: &devices,
        env: &env,
        network: &network,
        is_in_place,
    };
    explanation.print_program(place, &name);
    explanation.print_homes(&own, &further);
    explanation.print_shown();
    explanation.print_own_directory()?;
    explanation.print_network(ssh.is_some());
    explanation.print_secrets()?;
    explanation.print_end();
    Ok(())
}

/// Returns the further homes that would be opened.
///
/// # Errors
/// As [`ProgramHome::add_further`] for those that were asked for.
fn further_homes(args: &AgentArgs, own: &ForeseenHome) -> Result<Vec<ForeseenHome>> {
    let mut further: Vec<ForeseenHome> = Vec::new();
    let fits = |path: &Path, further: &[ForeseenHome]| {
        ProgramHome::is_for(path)?;
        if args.home == "fork" {
            return Err(ProgramHome::one_directory_error(path));
        }
        let home = PinnedDir::open(path)?.foreseen_home(None)?;
        let taken = std::iter::once(own).chain(further);
        let taken: Vec<&Path> = taken.map(|home| &*home.path).collect();
        ProgramHome::expect_beside(&home.path, &taken)?;
        ProgramHome::expect_owner(&home.path, home.owner, own.owner)?;
        Ok(home)
    };
    for path in &args.also {
        let home = fits(path, &further)?;
        further.push(home);
    }
    let stores: Vec<&Path> = further.iter().map(|home| &*home.store).collect();
    let git = git_directory(&own.store, &stores).filter(|git| git.points_back);
    // A start goes on without it, too.
    let git = git.and_then(|git| fits(&git.path, &further).ok());
    further.extend(git);
    Ok(further)
}

fn group(name: &str) {
    print_line(format_args!("{name}"));
}

fn row(label: &str, text: impl Display) {
    print_line(format_args!("  {label:<LABEL_WIDTH$}{text}"));
}

fn row_from(label: &str, text: impl Display, source: OptionSource) {
    row(label, format_args!("{text}  [{source}]"));
}

fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.is_empty() {
        true => "none".to_owned(),
        false => items.join(", "),
    }
}

fn below_own(paths: &[PathBuf]) -> String {
    list(paths.iter().map(|path| format!("~/{}", path.display())))
}

impl Explanation<'_> {
    fn source(&self, option: &str) -> OptionSource {
        self.args.sources.of(option)
    }

    fn print_program(&self, place: &AgentDirectory, name: &str) {
        let words = command_words(self.args, self.profile);
        let words = words.iter().map(|word| quote(word.as_encoded_bytes()));
        group("Program");
        row("command", words.collect::<Vec<_>>().join(" "));
        let known = match self.profile.description.is_empty() {
            true => "nothing is known of it",
            false => &self.profile.description,
        };
        row_from(
            "profile",
            format_args!("{name}: {known}"),
            self.source("profile"),
        );
        let cwd = match &self.args.cwd {
            Some(cwd) => Path::new(cwd),
            None => &place.below,
        };
        // Without the slash of an empty path.
        let cwd: PathBuf = self.path().join(cwd).components().collect();
        row_from("begins in", cwd.display(), self.source("cwd"));
        let files = self.args.sources.files.iter();
        row("options from", list(files.map(|file| file.display())));
    }

    /// Returns the source of an option whose default is the profile's.
    fn source_or_profile(&self, option: &str) -> OptionSource {
        match self.source(option) {
            OptionSource::Default if !self.profile.description.is_empty() => OptionSource::Profile,
            source => source,
        }
    }

    /// Returns the path of the home, as the agent sees it.
    fn path(&self) -> Cow<'_, Path> {
        self.homes
            .paths
            .first()
            .map_or(Path::new("").into(), |path| path.into())
    }

    fn print_homes(&self, own: &ForeseenHome, further: &[ForeseenHome]) {
        let args = self.args;
        group("Directories that it changes, each change recorded");
        row_from("project", own.path.display(), self.source("store"));
        let history = match &own.history {
            HistoryPlace::InStore(is_new) => {
                let new = if *is_new { " (new)" } else { "" };
                format!("in the project, .trumanfs{new}")
            }
            HistoryPlace::At(path) => path.display().to_string(),
            HistoryPlace::New(path) => format!(
                "{} (new), or in the project where nothing can be moved there",
                path.display()
            ),
        };
        row_from("history", history, self.source("state"));
        for (number, home) in further.iter().enumerate() {
            let path = home.path.display();
            match number < args.also.len() {
                true => row_from("also", path, self.source("also")),
                false => row(
                    "also",
                    format_args!("{path}  [git directory of the project]"),
                ),
            }
        }
        let home = match (args.home.as_str(), own.is_mounted) {
            ("fork", _) => "fork: a copy, whose changes come into the project at the end",
            (_, true) => "fuse: mounted already, with the options of that mount",
            (_, false) => "fuse: mounted while it runs",
        };
        row_from("home", home, self.source("home"));
        let sandbox = match args.sandbox.unwrap_or_default() {
            BackendChoice::Auto => {
                "auto: namespaces, or bwrap where this machine refuses those; nothing weaker"
            }
            BackendChoice::Only(backend) => backend.name(),
        };
        row_from("sandbox", sandbox, self.source("sandbox"));
        self.print_patterns(own);
    }

    fn print_patterns(&self, own: &ForeseenHome) {
        let args = self.args;
        for (label, option, known, patterns) in [
            ("hidden", "hide", &own.patterns.hide, &args.hide),
            (
                "protected",
                "read-only",
                &own.patterns.read_only,
                &args.read_only,
            ),
            (
                "volatile",
                "volatile",
                &own.patterns.volatile,
                &args.volatile,
            ),
        ] {
            // A copy has no patterns.
            let known = known.iter().filter(|_| args.home != "fork");
            let known = known.map(|pattern| (pattern, OptionSource::LastMount));
            let sources = args.sources.of_patterns(option).iter().cloned();
            let all: Vec<_> = known.chain(patterns.iter().zip(sources)).collect();
            if all.is_empty() {
                row(label, "nothing by a pattern");
            }
            for (pattern, source) in all {
                row_from(label, pattern, source);
            }
        }
    }

    fn print_shown(&self) {
        let args = self.args;
        group("What it sees of this machine, read-only");
        match self.is_in_place {
            true => row(
                "system",
                "what is at its path outside, as the sandbox allows",
            ),
            false => row("system", "/usr, and a few files of /etc"),
        }
        let shown = self.toolchains.path.iter().chain(&self.toolchains.shown);
        let mut shown: Vec<&PathBuf> = shown.collect();
        shown.sort();
        shown.dedup();
        let shown = list(shown.iter().map(|path| path.display()));
        row_from("toolchains", shown, self.source("toolchains"));
        let bound = list(args.bind_ro.iter().map(|path| path.display()));
        row_from("files", bound, self.source("bind-ro"));
        let nodes = self.devices.placed.iter().map(|node| &node.path);
        let nodes = list(
            nodes
                .chain(&self.devices.bind_ro)
                .map(|path| path.display()),
        );
        row_from("devices", nodes, self.source("device"));
        let home = self.homes.caller_home().filter(|_| !self.is_in_place);
        let instructions = home.map(|home| {
            let paths = &self.homes.paths;
            let found = user_instructions(&home, &self.profile.instructions, paths);
            found.into_iter().map(|(_, path)| path).collect::<Vec<_>>()
        });
        row("instructions", below_own(&instructions.unwrap_or_default()));
        if self.homes.are_callers() {
            row("git", "your name, your address, and what your git ignores");
        }
        group("What it does not get");
        for (dir, secret) in &self.toolchains.withheld {
            let (dir, secret) = (dir.display(), secret.display());
            row(
                "of PATH",
                format_args!("{dir}: {secret} looks like a secret"),
            );
        }
        let withheld = withheld_credentials(args, self.profile);
        row(
            "credentials",
            list(withheld.iter().map(|name| format!("{name} (set here)"))),
        );
        row(
            "else",
            "your home directory, other variables, other programs' sockets",
        );
    }

    fn print_own_directory(&self) -> Result<()> {
        let args = self.args;
        group("Its own directory and variables");
        match self.is_in_place {
            true => row("HOME", "a directory in the state home"),
            false => row("HOME", own_path(self.homes).display()),
        }
        row_from(
            "stays",
            below_own(&kept_state(args, self.profile)),
            self.source_or_profile("keep-state"),
        );
        let caches: Vec<PathBuf> = cache_paths(args)?.into_iter().cloned().collect();
        row_from("caches", below_own(&caches), self.source("cache"));
        let login = match args.login {
            true => {
                let (home, files) = logins(self.profile, self.homes)?;
                let mut files = files.to_vec();
                files.retain(|file| home.join(file).exists());
                format!("lent: {}", below_own(&files))
            }
            false => "not lent".to_owned(),
        };
        row_from("login", login, self.source("login"));
        let known = SANDBOX_VARIABLES.into_iter().map(Cow::Borrowed);
        let names = self.env.iter().map(|(name, _)| name.to_string_lossy());
        row_from("variables", list(known.chain(names)), self.source("env"));
        Ok(())
    }

    fn print_network(&self, has_ssh_agent: bool) {
        let (args, network) = (self.args, self.network);
        group("Network");
        let source = self.source_or_profile("net");
        if self.is_in_place {
            let rule = match args.net.is_empty() {
                true => "that of this process",
                false => "none",
            };
            return row_from("rule", rule, source);
        }
        let others = match (network.unlisted, network.rule.all) {
            (UnlistedHosts::Learned, _) => {
                "every public host; the end lists what was reached".into()
            }
            (_, true) => "every public host".to_owned(),
            (UnlistedHosts::Asked(limit), _) => {
                let by = if args.ask_with.is_some() {
                    "a command, and you"
                } else {
                    "you"
                };
                format!("other hosts: {by} are asked, for {} s", limit.as_secs_f64())
            }
            (UnlistedHosts::Refused, _) if network.lists.is_empty() => "no host".to_owned(),
            (UnlistedHosts::Refused, _) => "these hosts, and no other one".to_owned(),
        };
        row_from("rule", others, source);
        for list in &network.lists {
            let name = if list.name.is_empty() {
                "by name"
            } else {
                &list.name
            };
            row("hosts", format_args!("{name}: {}", list.hosts.join(", ")));
        }
        row("never", list(&network.rule.deny));
        row_from("published", list(&args.publish), self.source("publish"));
        row_from(
            "host ports",
            list(&args.host_port),
            self.source("host-port"),
        );
        let ssh = match (has_ssh_agent, args.ssh_agent.as_deref()) {
            (true, Some("ask")) => "signs logins to these hosts that known_hosts has, and asks you",
            (true, _) => "signs logins to these hosts that known_hosts has",
            (false, _) => "not lent",
        };
        row_from("ssh-agent", ssh, self.source("ssh-agent"));
    }

    fn print_secrets(&self) -> Result<()> {
        let choices = secret_choices(self.args)?;
        group("Secrets that are added outside, and never shown");
        if choices.is_empty() {
            row("secret", "none");
        }
        for choice in choices {
            let (what, value, requests) = choice.describe(self.args)?;
            row_from(
                "secret",
                format_args!("{what}, from {value}"),
                self.source("secret"),
            );
            let requests = match requests.is_empty() {
                true => "all of that host".to_owned(),
                false => requests.join(", "),
            };
            row_from("  requests", requests, self.source("only"));
        }
        Ok(())
    }

    fn print_end(&self) {
        let args = self.args;
        group("End");
        let limit = args.timeout.map_or("no limit".to_owned(), |limit| {
            format!("after {} s", limit.as_secs_f64())
        });
        row_from("time", limit, self.source("timeout"));
        let (changes, option) = match (args.ask, args.discard) {
            (true, _) => ("you review them", "ask"),
            (_, true) => ("they are taken back", "discard"),
            _ => ("they stay, and can be taken back", "keep"),
        };
        row_from("changes", changes, self.source(option));
    }
}
