//! `exec` and `shell`: a shell for one line, or for a person at a terminal.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::argument_values::seconds;
use super::exit::{report_failure, report_failure_as_json};
use super::network_option::{NetworkChoice, network};
use super::output::Printer;
use super::system_shell::{shell_settings, system_shell};
use crate::error::{Error, Result};
use crate::exec::program::sandbox::BackendChoice;
use crate::exec::program::{LineSource, ProgramHome, SystemShell};
use crate::exec::shell::Shell;
use crate::exec::{self, Limits, LineShell, Request, StoreAccess, pipeline};
use line::{print_outcome, stdin};

pub(super) mod line;
mod prompt;
pub(super) mod run;
pub(super) mod with_policy;

/// Where the shell works, and what a line may use.
#[derive(Args, Debug)]
struct ShellHomeArgs {
    /// A mounted home, or a store that nobody has mounted; nothing outside it exists for the shell
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: PathBuf,
    /// The working directory to begin in, from the root or below it
    #[arg(long, value_name = "D")]
    cwd: Option<OsString>,
    /// What the pattern names does not exist (gitignore syntax); for a store that nobody has mounted
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,
    /// What the pattern names cannot be changed (gitignore syntax); for a store that nobody has mounted
    #[arg(long, value_name = "PATTERN")]
    read_only: Vec<String>,
    /// The shell: `bundled`, which runs 18 commands of its own, or one of this machine (`bash`, a path), which runs
    /// whatever is there, in a sandbox [default: bundled]
    #[arg(long, value_name = "SHELL", conflicts_with_all = ["policy", "hide", "read_only", "wait"])]
    shell: Option<OsString>,
    /// Let lines of the bundled shell also run the real programs that this policy allows (a file, or `default`), each in a
    /// sandbox
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hide", "read_only", "wait"], value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// The network of the programs: `none`, or `allow=HOST[:PORT],…`. With --policy each may reach what that allows it of
    /// these hosts, without --net all of that. With a shell of this machine also `all` and groups of hosts (`npm`, `pip`);
    /// without --net none
    #[arg(long, value_name = "WHAT", value_parser = network)]
    net: Vec<NetworkChoice>,
    /// What makes the sandbox of real programs: `namespaces`, `bwrap`, or `auto`: namespaces, and bwrap where this
    /// machine refuses them [default: auto]
    #[arg(long, value_name = "BACKEND", value_parser = with_policy::parse_backend)]
    sandbox: Option<BackendChoice>,
    /// Wait so long for other commands that work on a store that nobody has mounted [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// End a line that would hold more than so many MiB in memory (status 1; a shell of this machine with all that it runs,
    /// 137); 0 is no limit [default: 256; three quarters of the machine's for a shell of this machine]
    #[arg(long, value_name = "MIB")]
    max_memory: Option<u64>,
    /// End a line that takes longer than so many seconds (status 124)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// Arguments of `trumanfs exec`.
#[derive(Args, Debug)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    place: ShellHomeArgs,
    /// Let so many lines out at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().lines)]
    max_lines: u64,
    /// Let so many bytes out at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().bytes)]
    max_bytes: u64,
    /// Where the output has to be cut, keep its end too: half of what may leave
    #[arg(long)]
    tail: bool,
    /// Print one JSON object with all that came of the line, and what it wrote
    #[arg(long)]
    json: bool,
    /// The line, as one word: quote it
    line: OsString,
}

/// Arguments of `trumanfs shell`.
#[derive(Args, Debug)]
pub(super) struct ShellArgs {
    #[command(flatten)]
    place: ShellHomeArgs,
}

/// Runs one line. Returns its status.
pub(super) fn exec(args: &ExecArgs) -> ExitCode {
    let limits = Limits {
        lines: args.max_lines,
        bytes: args.max_bytes,
        tail: args.tail,
        ..limits(&args.place)
    };
    let failed = |error| {
        if args.json {
            report_failure_as_json(error)
        } else {
            report_failure(&error)
        }
    };
    let mut shell = match open(&args.place, limits, args.json) {
        Ok(shell) => shell,
        Err(error) => return failed(error),
    };
    let line = args.line.as_bytes();
    let interrupt = match line::take_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => return failed(error),
    };
    if !args.json {
        let outcome = line::run(&mut shell, line, &interrupt).0;
        return print_outcome(&outcome, false);
    }
    let (outcome, _) = interrupt.during(|cancel| {
        let request = Request {
            cancel: Some(cancel),
            ..shell.request(line)
        };
        pipeline::gather(line::input(&shell), |streams| shell.run(&request, streams))
    });
    match Printer::new().json(&outcome) {
        Ok(()) => print_outcome(&outcome, true),
        Err(error) => failed(error),
    }
}

/// Reads lines and runs each: from a person at a terminal, or from whatever standard input is. Nothing of the output is
/// cut, for a person can stop it.
pub(super) fn shell(args: &ShellArgs) -> ExitCode {
    let limits = Limits {
        lines: 0,
        bytes: 0,
        ..limits(&args.place)
    };
    let is_terminal = std::io::stdin().is_terminal();
    let status = open(&args.place, limits, false).and_then(|shell| {
        let shell = match shell {
            LineShell::System(shell) => {
                // Whoever has a terminal can act on the session of its user.
                let input = stdin().filter(|_| !is_terminal);
                LineShell::System(Box::new(shell.with_session(input)))
            }
            bundled => bundled,
        };
        if is_terminal {
            prompt::run_prompt(shell)
        } else {
            prompt::read_all(shell)
        }
    });
    match status {
        Ok(status) => ExitCode::from(status),
        Err(error) => report_failure(&error),
    }
}

/// Returns the limits that both commands have.
fn limits(place: &ShellHomeArgs) -> Limits {
    let memory = place.max_memory.map(|mib| mib.saturating_mul(1 << 20));
    Limits {
        time: place.timeout,
        memory: memory.unwrap_or(Limits::default().memory),
        ..Limits::default()
    }
}

/// Opens the place that a shell works in.
fn open(place: &ShellHomeArgs, limits: Limits, as_json: bool) -> Result<LineShell> {
    let mut shell = match (system_shell(place.shell.as_ref()), &place.policy) {
        (Some(shell), _) => open_system_shell(&shell, place, limits)?,
        (None, Some(policy)) => open_with_policy(policy, place, limits, as_json)?,
        (None, None) => open_bundled(place, limits)?,
    };
    if let Some(cwd) = &place.cwd {
        shell.set_cwd(cwd.as_bytes()).map_err(|error| {
            let what = format!("{}: {error}", Path::new(cwd).display());
            error
                .kind()
                .error(what, "Give a directory below the root.".to_owned())
        })?;
    }
    Ok(shell)
}

fn open_bundled(place: &ShellHomeArgs, limits: Limits) -> Result<LineShell> {
    for (is_given, option) in [
        (!place.net.is_empty(), "--net"),
        (place.sandbox.is_some(), "--sandbox"),
    ] {
        if is_given {
            return Err(Error::usage(
                format!("{option} is for real programs, and the bundled shell alone runs none"),
                "Give --policy, or a --shell of this machine.",
            ));
        }
    }
    let access = StoreAccess {
        hide: place.hide.clone(),
        read_only: place.read_only.clone(),
        wait: place.wait,
    };
    let shell = Shell::at(exec::open(&place.root, &access)?, limits);
    Ok(LineShell::Bundled(Box::new(shell)))
}

fn open_with_policy(
    file: &Path,
    place: &ShellHomeArgs,
    limits: Limits,
    as_json: bool,
) -> Result<LineShell> {
    let net = NetworkChoice::narrowing(&place.net)?;
    let programs = Arc::new(open_programs(place)?);
    let at = exec::open_in(&place.root, &programs)?;
    let policy = with_policy::watched_policy(Some(file), &place.root, as_json)?;
    let source = LineSource::new(programs, policy, net);
    let shell = Shell::at(at, limits).with_programs(Arc::new(source));
    Ok(LineShell::Bundled(Box::new(shell)))
}

fn open_system_shell(shell: &Path, place: &ShellHomeArgs, limits: Limits) -> Result<LineShell> {
    let programs = Arc::new(open_programs(place)?);
    let memory = place.max_memory.map(|_| limits.memory);
    let settings = Arc::new(shell_settings(shell, &programs, &place.net, memory)?);
    let shell = SystemShell::new(programs, settings, limits);
    Ok(LineShell::System(Box::new(shell)))
}

fn open_programs(place: &ShellHomeArgs) -> Result<ProgramHome> {
    let launcher = with_policy::make_launcher(place.sandbox.unwrap_or_default());
    ProgramHome::open(&place.root, None, launcher)
}
