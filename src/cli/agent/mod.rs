//! `agent`: any agent in a home, with a sandbox and the network that it needs; its owner decides afterwards what stays.

mod args;
mod asks;
mod config;
mod devices;
mod end;
mod explain;
mod fork;
mod option_file;
mod option_source;
mod own_files;
mod project_options;
mod roots;
mod secrets;
mod ssh_agent;
mod watch;

pub(super) use asks::answer;
pub(super) use config::AgentCall;

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use args::{AgentArgs, environment, say_of_credentials};
use end::AgentEnd;
use fork::{
    open_home, print_way_to_start, record_unknown_writes, say_unknown_writes, settle_fork,
    take_snapshot,
};
use roots::{AgentHomes, AgentRoot, add_further_roots};
use secrets::AgentSecrets;
use watch::{AgentNetwork, unlisted_hosts};

use super::escaping::print_error;
use super::execute::line::{print_outcome, stdin, take_signals};
use super::execute::with_policy;
use super::exit::{ExitReason, report_failure};
use super::output::{quote, warn};
use super::toolchains::{say_of_withheld_dirs, toolchains_of};
use crate::client::{AgentDirectory, AgentPlace, Client, GitIdentity, PinnedDir};
use crate::error::{Error, Result};
use crate::exec::pipeline::RequestStreams;
use crate::exec::program::sandbox::{BackendChoice, Toolchains, in_place_warning};
use crate::exec::program::{
    AgentCommand, AgentProfile, AgentWatch, ProgramHome, TurnSocket, UserTerminal,
};
use crate::exec::{CancelToken, InterruptSignals, Outcome, Status};

/// Where an agent's own directory is in the sandbox; the second where the first is in the way of the home.
const AGENT_DIRS: [&str; 2] = ["/home/agent", "/agent"];

/// Names in the root of a store that hold keys and passwords.
const PRIVATE_FILES: [&str; 6] = [
    ".aws",
    ".gnupg",
    ".kube",
    ".netrc",
    ".password-store",
    ".ssh",
];

/// The agent could not be started, whatever the reason.
const NOT_STARTED: u8 = 123;

/// As of `run`: what came of the program is not known.
const UNKNOWN_END: u8 = 125;

/// As of `run`: the program cannot be executed, or is not there.
const NOT_EXECUTED: std::ops::RangeInclusive<u8> = 126..=127;

/// Runs an agent, or explains what it would be given. Returns its status.
pub(super) fn agent(call: AgentCall) -> ExitCode {
    let not_started = |error: Error| {
        report_failure(&error);
        ExitCode::from(NOT_STARTED)
    };
    let found = directory(&call.args).and_then(|place| {
        let pinned = PinnedDir::open(&place.store);
        let args = config::resolve(call, &place, pinned.as_ref().ok())?;
        Ok((args, place, pinned))
    });
    let (args, place, pinned) = match found {
        Ok(found) => found,
        Err(error) => return not_started(error),
    };
    if args.explain {
        return match explain::explain(&args, &place, pinned) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => not_started(error),
        };
    }
    let root = match AgentRoot::of(pinned, args.state.as_deref()) {
        Ok(root) => root,
        Err(error) => return not_started(error),
    };
    let mut roots = vec![root];
    let mut has_run = false;
    let code = run_agent(&args, &place, &mut roots, &mut has_run).unwrap_or_else(|error| {
        report_failure(&error);
        ExitCode::from(if has_run { UNKNOWN_END } else { NOT_STARTED })
    });
    // A project in which no agent could start is as it was.
    if !has_run {
        if code == ExitCode::from(NOT_STARTED) {
            say_where_options_are(&args);
            print_way_to_start(&args);
        }
        roots.into_iter().for_each(AgentRoot::leave_as_found);
    }
    code
}

/// After an agent that could not be started: names the files that may have the option at fault.
fn say_where_options_are(args: &AgentArgs) {
    for file in &args.sources.files {
        let file = file.display();
        print_error(format_args!("  options were also read from {file}"));
    }
}

/// Returns the directory that was named, or the one that is chosen by the working directory.
fn directory(args: &AgentArgs) -> Result<AgentDirectory> {
    if let Some(store) = &args.store {
        let (store, below) = (store.clone(), PathBuf::new());
        return Ok(AgentDirectory { store, below });
    }
    let here = std::env::current_dir().map_err(|error| Error::io("getcwd", &error))?;
    AgentDirectory::around(&here)
}

/// `roots` has the agent's own directory, and gets the further ones; `has_run` becomes true once the program has been
/// started.
fn run_agent(
    args: &AgentArgs,
    directory: &AgentDirectory,
    roots: &mut Vec<AgentRoot>,
    has_run: &mut bool,
) -> Result<ExitCode> {
    check_end(args)?;
    let program = args.words.first().map(OsString::as_os_str);
    let (name, profile) = find_profile(args.profile.as_deref(), program.unwrap_or_default())?;
    let secrets = AgentSecrets::read(args, &profile)?;
    let launcher = with_policy::make_launcher(args.sandbox.unwrap_or_default());
    let is_in_place = launcher.is_in_place();
    let unlisted = unlisted_hosts(args, is_in_place)?;
    let pinned = roots.first().and_then(|root| root.pinned.as_ref());
    let mut programs = open_home(args, directory, pinned, launcher)?;
    add_further_roots(args, &mut programs, roots)?;
    let homes = AgentHomes::open(&programs);
    let toolchains = toolchains(args, &homes)?;
    say_of_withheld_dirs(&toolchains);
    let mut devices = devices::devices(args)?;
    let env = environment(args, &profile, &toolchains)?;
    say_of_credentials(args, &profile);
    let env = devices::add_variables(&mut devices, env);
    let additions = programs.client().profile_additions(&name).ok();
    let network = AgentNetwork::of(args, &profile, additions, unlisted)?;
    secrets.check_outside(args, &env, &homes, &toolchains)?;
    let interrupt = take_signals()?;
    say_before_start(&programs, args.sandbox)?;
    let ssh_agent = ssh_agent::ssh_agent(args, &network.rule, &homes, &name)?;
    let place = programs.client().agent_place(&name, programs.owner())?;
    let own_path = match is_in_place {
        true => place.home_path()?,
        false => own_path(&homes),
    };
    let caches = caches(args, &programs, (&place, &own_path))?;
    own_files::lend_login(args, &profile, &homes, &place)?;
    let shown_at = (!is_in_place).then_some(&*own_path);
    let instructions = own_files::instructions(&profile, &homes, &place, shown_at);
    give_git_identity(&place, &programs);
    let own = rustix::io::fcntl_dupfd_cloexec(place.home(), 0).map_err(Error::os("fcntl"))?;
    let bind_ro = [&args.bind_ro[..], &toolchains.shown, &devices.bind_ro].concat();
    let secrets = secrets.into_routes();
    let seen = (&bind_ro[..], &secrets[..]);
    let watch = network.watch(args, (&place, &name), &programs, seen)?;
    let watch = watch.map(Arc::new);
    let agent = AgentCommand {
        argv: command_words(args, &profile),
        path: std::env::var_os("PATH").unwrap_or_default(),
        cwd: match &args.cwd {
            Some(cwd) => cwd.as_bytes().to_vec(),
            None => directory.below.as_os_str().as_bytes().to_vec(),
        },
        env,
        bind_ro,
        first_path: toolchains.path,
        network: network.rule.clone(),
        watch: watch.clone(),
        placed: devices.placed.into_iter().chain(instructions).collect(),
        ssh_agent,
        turns: turn_socket(&profile, &programs),
        secrets,
        caches,
        has_host_network: is_in_place && args.net.is_empty(),
        state: (own, own_path),
        run: place.run(),
        timeout: args.timeout,
        cancel: CancelToken::default(),
        terminal: user_terminal(),
    };
    let answers = (&network, watch.as_deref());
    run_to_end(
        (args, &name, &profile),
        &programs,
        (place, agent),
        answers,
        &interrupt,
        has_run,
    )
}

/// Checks that somebody can be asked at the end, where that is wanted.
fn check_end(args: &AgentArgs) -> Result<()> {
    if args.ask && !std::io::stdin().is_terminal() {
        return Err(Error::usage(
            "--ask needs a terminal to ask at",
            "Give --keep or --discard.",
        ));
    }
    Ok(())
}

/// Runs an agent, and says at its end what came of it and of its network, and what it has changed.
fn run_to_end(
    (args, name, profile): (&AgentArgs, &str, &AgentProfile),
    programs: &ProgramHome,
    (place, agent): (AgentPlace, AgentCommand),
    (network, watch): (&AgentNetwork, Option<&AgentWatch>),
    interrupt: &InterruptSignals,
    has_run: &mut bool,
) -> Result<ExitCode> {
    let agent_run = agent.to_run();
    let run = place.run().to_string();
    let snapshot = take_snapshot(programs, &place)?;
    let outcome = run_in_home(programs, agent, interrupt);
    record_unknown_writes(programs, snapshot.as_ref(), &place);
    watch.iter().for_each(|watch| watch.end());
    own_files::return_login(args, &AgentHomes::open(programs), &place);
    place.hide_instructions(&profile.instructions);
    prune_place(place, args, profile);
    // Whatever came of the program, what it has changed is there.
    let code = say_end(&outcome, programs, has_run);
    settle_fork(programs, &agent_run, *has_run);
    let report = outcome.ok().and_then(|outcome| outcome.program);
    for refusal in report.iter().flat_map(|report| &report.network_refusals) {
        print_error(format_args!("{refusal}"));
    }
    print_ended(report.iter().flat_map(|report| &report.ended_processes));
    watch.iter().for_each(|watch| network.say_end(watch, name));
    match end::end(args, programs, &run, interrupt)? {
        AgentEnd::Exit(ExitReason::Ok | ExitReason::Nothing) => Ok(code),
        AgentEnd::Exit(exit) => Ok(exit.into()),
        // As of a program that a signal ends.
        AgentEnd::Signal(signal) => Ok(u8::try_from(128 + signal).map_or(code, ExitCode::from)),
    }
}

/// Runs an agent to its end, with the streams of this process.
fn run_in_home(
    programs: &ProgramHome,
    agent: AgentCommand,
    interrupt: &InterruptSignals,
) -> Result<Outcome> {
    let (outcome, _) = interrupt.during(|cancel| {
        let input = stdin().filter(|_| !std::io::stdin().is_terminal());
        let streams = RequestStreams {
            stdin: input,
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        };
        programs.run_agent(&AgentCommand { cancel, ..agent }, streams)
    });
    outcome
}

/// Says how the program has ended, and whether it was started. Returns its code.
fn say_end(outcome: &Result<Outcome>, programs: &ProgramHome, has_run: &mut bool) -> ExitCode {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            report_failure(error);
            return ExitCode::from(NOT_STARTED);
        }
    };
    let is_error = |codes: std::ops::RangeInclusive<u8>| {
        outcome.status == Status::Error && codes.contains(&outcome.return_code)
    };
    // Of a home that is still there, the working directory is not.
    let has_no_place = is_error(UNKNOWN_END..=UNKNOWN_END) && !programs.is_lost();
    let is_refused = outcome.status == Status::Blocked || has_no_place;
    *has_run = !(is_refused || is_error(NOT_EXECUTED));
    match (print_outcome(outcome, false), is_refused) {
        (_, true) => ExitCode::from(NOT_STARTED),
        (code, false) => code,
    }
}

/// Makes the socket at which the agent says that turns begin. Where it cannot be had, the agent works without turns.
fn turn_socket(profile: &AgentProfile, programs: &ProgramHome) -> Option<TurnSocket> {
    TurnSocket::of(profile, programs).unwrap_or_else(|error| {
        let why = error.full_message();
        warn(false, &format!("the agent's turns are not marked: {why}"));
        None
    })
}

/// Names the processes that the agent has left behind.
fn print_ended<'r>(processes: impl Iterator<Item = &'r String>) {
    let named: Vec<&str> = processes.map(String::as_str).collect();
    if !named.is_empty() {
        let named = named.join(", ");
        print_error(format_args!(
            "trumanfs: these processes were still running and were ended with the agent: {named}"
        ));
    }
}

/// Finds the toolchains that the agent sees: those of whoever started it, if the project is theirs.
fn toolchains(args: &AgentArgs, homes: &AgentHomes) -> Result<Toolchains> {
    let home = homes.caller_home().filter(|_| args.toolchains != "none");
    let homes: Vec<&Path> = homes.paths.iter().map(PathBuf::as_path).collect();
    toolchains_of(home, &homes)
}

/// Returns the paths of the caches that were asked for, from the agent's own directory.
///
/// # Errors
/// [`Error::Usage`] where one lies in another one.
fn cache_paths(args: &AgentArgs) -> Result<Vec<&PathBuf>> {
    let mut paths: Vec<&PathBuf> = args.cache.iter().flat_map(|cache| &cache.0).collect();
    paths.sort();
    paths.dedup();
    for (outer, inner) in paths.iter().zip(paths.iter().skip(1)) {
        if inner.starts_with(outer) {
            let (outer, inner) = (outer.display(), inner.display());
            return Err(Error::usage(
                format!("--cache ~/{inner}: it lies in the cache ~/{outer}"),
                "Give the outer one alone.",
            ));
        }
    }
    Ok(paths)
}

/// Returns the caches that the agent gets, each with its path in the sandbox.
fn caches(
    args: &AgentArgs,
    programs: &ProgramHome,
    (place, own): (&AgentPlace, &Path),
) -> Result<Vec<(OwnedFd, PathBuf)>> {
    let paths = cache_paths(args)?;
    let clients = std::iter::once(programs.client()).chain(programs.further_clients());
    let stores: Vec<&Path> = clients.map(Client::path).collect();
    let open = |path: &PathBuf| {
        let dir = programs.client().agent_cache(place, path, &stores)?;
        Ok((dir, own.join(path)))
    };
    paths.into_iter().map(open).collect()
}

/// Lets the agent commit by the name of whoever started it, if the project is theirs.
fn give_git_identity(place: &AgentPlace, programs: &ProgramHome) {
    if rustix::process::geteuid().as_raw() != programs.owner().0 {
        return;
    }
    let identity = GitIdentity::of_user(programs.client().path());
    if let Err(error) = place.give_git_identity(&identity) {
        let why = error.full_message();
        warn(
            false,
            &format!("the agent does not get your name for git: {why}"),
        );
    }
}

/// Returns what stays of the agent's own directory.
fn kept_state(args: &AgentArgs, profile: &AgentProfile) -> Vec<PathBuf> {
    let kept = profile.state.iter().chain(&args.keep_state);
    kept.cloned().collect()
}

/// Removes what does not stay of the agent's own directory, and names what could not be removed.
fn prune_place(place: AgentPlace, args: &AgentArgs, profile: &AgentProfile) {
    for left in place.end(&kept_state(args, profile)) {
        warn(
            false,
            &format!(
                "{}: it could not be removed from the agent's own directory",
                left.display()
            ),
        );
    }
}

/// Says what the owner of a store should know before an agent begins there: what one that was killed has done, and that
/// there are keys.
fn say_before_start(programs: &ProgramHome, choice: Option<BackendChoice>) -> Result<()> {
    if let Some(BackendChoice::Only(backend)) = choice
        && let Some(warning) = in_place_warning(backend)
    {
        let name = backend.name();
        warn(false, &format!("--sandbox {name}: {warning}"));
        if programs.fork().is_none() && choice.is_some_and(|choice| !choice.has_file_rules()) {
            let (home, project) = (
                programs.path().display(),
                programs.client().path().display(),
            );
            warn(
                false,
                &format!(
                    "the agent works in {home}; nothing keeps it from {project} itself, past --hide, --read-only and records"
                ),
            );
        }
    }
    for unsettled in programs.client().settle_agents()? {
        warn(
            false,
            &format!(
                "{}, which ran here before, was killed (run {})",
                unsettled.name, unsettled.run
            ),
        );
        say_unknown_writes(unsettled.unknown);
        end::print_what_stays(programs, &unsettled.run);
    }
    for fork in programs.client().forks_of_killed_agents()? {
        let target = quote(programs.client().path().as_os_str().as_bytes());
        let fork = quote(fork.as_os_str().as_bytes());
        warn(
            false,
            &format!(
                "an agent that was killed has left its fork: trumanfs merge {target} {fork} brings what it has changed; then remove the fork"
            ),
        );
    }
    let private = PRIVATE_FILES.iter().filter(|name| programs.has_entry(name));
    for name in private {
        warn(
            false,
            &format!(
                "{name} lies in the store, so the agent can read it. Give a project's directory, or mount the store with --hide {name} first"
            ),
        );
    }
    Ok(())
}

/// Returns what is known of an agent, and the name of its own directory.
fn find_profile(given: Option<&str>, program: &OsStr) -> Result<(String, AgentProfile)> {
    let base = Path::new(program)
        .file_name()
        .unwrap_or(program)
        .to_string_lossy();
    if let Some(name) = given {
        let known = AgentProfile::named(name)?.unwrap_or_default();
        return Ok((name.to_owned(), known));
    }
    if let Some((name, known)) = AgentProfile::of_program(&base)? {
        return Ok((name.to_owned(), known));
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    Ok((
        base.chars().take(64).map(plain).collect(),
        AgentProfile::default(),
    ))
}

/// Returns the words to run: those of the profile come first after the program.
fn command_words(args: &AgentArgs, profile: &AgentProfile) -> Vec<OsString> {
    let mut words = args.words.clone();
    let more = profile.arguments.iter().map(OsString::from);
    words.splice(1..1, more);
    words
}

/// Returns where the agent's own directory is in the sandbox: beside the homes, and not in them.
fn own_path(homes: &AgentHomes) -> PathBuf {
    let is_free = |own: &str| {
        let mut homes = homes.paths.iter();
        homes.all(|home| !home.starts_with(own) && !Path::new(own).starts_with(home))
    };
    let mut own = AGENT_DIRS.into_iter();
    own.find(|own| is_free(own)).unwrap_or("/agent").into()
}

/// Returns the terminal that this program is started at, if it is.
fn user_terminal() -> Option<UserTerminal> {
    let is_one = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_one.then(stdin).flatten().and_then(UserTerminal::of)
}
