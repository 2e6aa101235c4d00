//! An agent in a fork: where no home can be mounted, or no sandbox made, and what then comes into the project.

use std::os::unix::ffi::OsStrExt;

use super::super::escaping::print_error;
use super::super::network_option::NetworkChoice;
use super::super::output::{count, quote, warn};
use super::args::AgentArgs;
use super::end::MAX_LISTED_PATHS;
use crate::client::{AgentDirectory, AgentPlace, HeldFor, PinnedDir, StoreSnapshot, trial};
use crate::error::{Error, Result};
use crate::exec::program::sandbox::{BackendChoice, Launcher, has_file_rules, probe};
use crate::exec::program::{AgentRun, ProgramHome};
use crate::name::WorldPath;

/// Checks what an agent without namespaces can have.
///
/// # Errors
/// [`Error::Usage`] for what it cannot have.
pub(super) fn check_in_place(args: &AgentArgs) -> Result<()> {
    let cannot = |what: &str, why: &str, remedy: &str| {
        let what = format!("{what} cannot be used with --sandbox weak or none: {why}");
        Err(Error::usage(what, remedy))
    };
    if !args.also.is_empty() {
        let why = "the agent works in one directory";
        return cannot("--also", why, "Leave it out.");
    }
    if !args.cache.is_empty() {
        return cannot(
            "--cache",
            "nothing can be shown at another path",
            "Leave it out.",
        );
    }
    if !args.device.is_empty() {
        return cannot("--device", "no device can be shown", "Leave it out.");
    }
    if args.ssh_agent.is_some() {
        return cannot(
            "--ssh-agent",
            "its socket can be shown nowhere",
            "Leave it out.",
        );
    }
    if !args.secret.is_empty() {
        return cannot(
            "--secret",
            "it is kept from the agent by namespaces, which there are none of",
            "Leave it out.",
        );
    }
    let is_plain = match args.net.as_slice() {
        [] => true,
        [NetworkChoice::Nothing] => args.sandbox.is_some_and(|one| one.has_file_rules()),
        _ => false,
    };
    if !is_plain || !args.publish.is_empty() || !args.host_port.is_empty() {
        return cannot(
            "this network",
            "the agent has that of this process",
            "Leave --net, --publish and --host-port out; --net none goes with weak.",
        );
    }
    Ok(())
}

/// Checks that patterns of a home are for an agent in one.
///
/// # Errors
/// [`Error::Usage`] for patterns with a fork.
pub(super) fn check_patterns(args: &AgentArgs) -> Result<()> {
    let no_patterns = args.hide.is_empty() && args.read_only.is_empty() && args.volatile.is_empty();
    if args.home == "fork" && !no_patterns {
        return Err(Error::usage(
            "--hide, --read-only and --volatile cannot be used with --home fork: no rule of a home holds in a copy",
            "Leave them out, or work in a copy without those files.",
        ));
    }
    Ok(())
}

/// Opens the home that the agent works in: a mounted one, or a fork.
///
/// # Errors
/// As [`ProgramHome::open`]; for a fork [`Error::Refused`] where the store is mounted, and as [`ProgramHome::forked`].
pub(super) fn open_home(
    args: &AgentArgs,
    place: &AgentDirectory,
    directory: Option<&PinnedDir>,
    launcher: Launcher,
) -> Result<ProgramHome> {
    check_patterns(args)?;
    if args.home != "fork" {
        return ProgramHome::open_with(&place.store, directory, &args.patterns(), launcher);
    }
    let mounted = || {
        Error::refused(
            "the directory lies in a mounted home",
            "An agent can work there: leave --home fork out.",
        )
    };
    ProgramHome::forked(directory.ok_or_else(mounted)?, launcher)
}

/// Brings what the agent has changed in its fork into the store, and names what did not come as it was.
pub(super) fn settle_fork(programs: &ProgramHome, run: &AgentRun, has_run: bool) {
    let Some(fork) = programs.fork() else { return };
    let brought = match has_run {
        true => programs.bring_in_fork(run),
        false => fork.discard().map(|()| None),
    };
    let report = match brought {
        Ok(Some(report)) => report,
        Ok(None) => return,
        Err(error) => {
            let why = error.full_message();
            let fork = fork.path();
            return warn(
                false,
                &format!(
                    "{}: what the agent has changed there has not come: {why}",
                    fork.display()
                ),
            );
        }
    };
    for conflict in &report.conflicts {
        let beside = conflict.beside.as_ref();
        let beside = beside.map_or(String::new(), |path| format!("; the agent's is at {path}"));
        warn(
            false,
            &format!("{} {}{beside}", conflict.path, conflict.what),
        );
    }
    for note in &report.notes {
        warn(false, note);
    }
    if let Some(why) = &report.failed {
        let target = quote(programs.client().path().as_os_str().as_bytes());
        let fork = quote(fork.path().as_os_str().as_bytes());
        warn(
            false,
            &format!(
                "not all that the agent has changed has come: {why}\n the rest:          trumanfs merge {target} {fork} --keep-both"
            ),
        );
    }
}

/// Takes a snapshot of the project, where no wall keeps the agent from it, and keeps it for the next run, should this one
/// be killed.
///
/// # Errors
/// Those of reading the project, and of writing beside the run's mark.
pub(super) fn take_snapshot(
    programs: &ProgramHome,
    place: &AgentPlace,
) -> Result<Option<StoreSnapshot>> {
    if !programs.is_in_place() {
        return Ok(None);
    }
    let snapshot = programs.client().snapshot()?;
    place.keep_snapshot(&snapshot)?;
    Ok(Some(snapshot))
}

/// Records and names what an unknown writer has changed in the project since a snapshot.
pub(super) fn record_unknown_writes(
    programs: &ProgramHome,
    since: Option<&StoreSnapshot>,
    place: &AgentPlace,
) {
    let Some(since) = since else { return };
    let found = programs.client();
    let found = found.record_unknown_writes(since, place.run());
    say_unknown_writes(found.map_err(|error| error.full_message()));
}

/// Names what an unknown writer has changed in the project.
pub(super) fn say_unknown_writes(found: std::result::Result<Vec<WorldPath>, String>) {
    let found = match found {
        Ok(found) if found.is_empty() => return,
        Ok(found) => found,
        Err(why) => {
            return warn(
                false,
                &format!(
                    "what was changed directly in the project is not known, nor recorded: {why}"
                ),
            );
        }
    };
    let paths = found.iter().take(MAX_LISTED_PATHS);
    let mut paths: Vec<String> = paths.map(ToString::to_string).collect();
    if let Some(more) = found
        .len()
        .checked_sub(paths.len())
        .filter(|more| *more > 0)
    {
        paths.push(format!("and {more} more"));
    }
    let (number, paths) = (count(found.len() as u64, "file"), paths.join(", "));
    warn(
        false,
        &format!(
            "{number} of the project changed meanwhile, by an unknown writer, which may be the agent: {paths}\n an undo of earlier runs, and a merge, will not take that for yours: it is a conflict there"
        ),
    );
}

/// After an agent that could not be started: prints the options with which one would start here, where this machine allows
/// no home or no sandbox. They are weaker, so nobody but the user takes them.
pub(super) fn print_way_to_start(args: &AgentArgs) {
    let has_home = |entered| args.home == "fork" || trial::try_mount(entered).is_ok();
    if let Some(BackendChoice::Only(backend)) = args.sandbox {
        if !backend.has_namespaces() && !has_home(HeldFor::Programs) {
            let name = backend.name();
            print_error(format_args!(
                "  no home can be mounted here; an agent would start in a copy of the project with\n    trumanfs agent --home fork --sandbox {name} -- PROGRAM"
            ));
        }
        return;
    }
    let has_sandbox = probe(&Launcher::of_this_program()).backend.is_some();
    let home = match has_sandbox {
        true if has_home(HeldFor::Sandboxes) => return,
        false if args.home != "fork" && has_home(HeldFor::Programs) => "",
        _ => "--home fork ",
    };
    let wall = match has_sandbox {
        true => "",
        false if has_file_rules() => "--sandbox weak ",
        false => "--sandbox none ",
    };
    let why = match has_sandbox {
        true => "no home can be mounted here; an agent would start in a copy of the project with",
        false => "no sandbox can be made here; an agent would start with a weaker wall with",
    };
    print_error(format_args!(
        "  {why}\n    trumanfs agent {home}{wall}-- PROGRAM"
    ));
}
