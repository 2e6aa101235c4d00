//! `agent`: any agent in a home, with a sandbox and the network that it needs; its owner decides afterwards what stays.

mod args;

pub(super) use args::AgentArgs;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::termios::{QueueSelector, tcflush};

use args::{environment, hosts, say_of_credentials};

use super::execute::line::{interrupt, stdin, tell};
use super::execute::with_policy;
use super::exit::{Exit, failed};
use super::inspect;
use super::output::{Printer, count, quote, warn};
use super::review::{self, Left};
use super::shown::complain;
use super::undo;
use crate::client::Client;
use crate::error::{Error, Kind, Result};
use crate::exec::pipeline::Streams;
use crate::exec::program::policy::NetworkRule;
use crate::exec::program::{Agent, Profile, Programs, Terminal};
use crate::exec::{Cancel, Interrupt, Outcome};
use crate::name::WorldPath;

/// Where an agent's own directory is in the sandbox; the second where the first is in the way of the home.
const OWN: [&str; 2] = ["/home/agent", "/agent"];

/// What has somebody's keys and passwords, where it lies in the root of a store.
const PRIVATE: [&str; 6] = [
    ".aws",
    ".gnupg",
    ".kube",
    ".netrc",
    ".password-store",
    ".ssh",
];

/// How many changed paths are listed at the end, at most.
const LISTED: usize = 40;

/// Runs an agent. Returns its status.
pub(super) fn agent(args: &AgentArgs) -> ExitCode {
    match carry_out(args) {
        Ok(code) => code,
        Err(error) => {
            failed(&error);
            // As of `run`: the program did not run.
            ExitCode::from(125)
        }
    }
}

fn carry_out(args: &AgentArgs) -> Result<ExitCode> {
    if args.ask && !std::io::stdin().is_terminal() {
        return Err(Error::usage(
            "--ask needs a terminal to ask at",
            "Give --keep or --discard.",
        ));
    }
    let program = args
        .words
        .first()
        .map(OsString::as_os_str)
        .unwrap_or_default();
    let (name, profile) = profile(args.profile.as_deref(), program)?;
    let launcher = with_policy::launcher(args.sandbox.unwrap_or_default());
    let programs = Programs::open(&args.store, launcher)?;
    let interrupt = interrupt()?;
    let target = quote(programs.client().path().as_os_str().as_bytes());
    say_first(&programs, &target)?;
    say_of_credentials(args, &profile);
    let place = programs.client().agent_place(&name, programs.owner())?;
    let own = rustix::io::fcntl_dupfd_cloexec(place.home(), 0).map_err(Error::os("fcntl"))?;
    let agent = Agent {
        argv: words(args, &profile),
        path: std::env::var_os("PATH").unwrap_or_default(),
        env: environment(args, &profile)?,
        bind_ro: args.bind_ro.clone(),
        network: NetworkRule {
            allow: hosts(args, &profile)?,
            ..NetworkRule::default()
        },
        state: (own, own_path(programs.path())),
        run: place.run(),
        timeout: args.timeout,
        cancel: Cancel::default(),
        terminal: terminal(),
    };
    let (outcome, _) = interrupt.during(|cancel| {
        let input = stdin().filter(|_| !std::io::stdin().is_terminal());
        let streams = Streams {
            stdin: input,
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        };
        programs.run_agent(&Agent { cancel, ..agent }, streams)
    });
    let kept: Vec<PathBuf> = profile
        .state
        .iter()
        .chain(&args.keep_state)
        .cloned()
        .collect();
    for left in place.end(&kept) {
        warn(
            false,
            &format!(
                "{}: it could not be removed from the agent's own directory",
                left.display()
            ),
        );
    }
    let outcome = outcome?;
    let code = tell(&outcome, false);
    match end(args, &programs, &target, &outcome, &interrupt)? {
        End::Exit(Exit::Ok | Exit::Nothing) => Ok(code),
        End::Exit(exit) => Ok(exit.into()),
        // As of a program that a signal ends.
        End::Signal(signal) => Ok(u8::try_from(128 + signal).map_or(code, ExitCode::from)),
    }
}

/// How what comes after the agent has ended.
enum End {
    Exit(Exit),
    /// Of whoever was asked.
    Signal(i32),
}

/// Says what the owner of a store should know before an agent begins there: what one that was killed has done, and that
/// there are keys.
fn say_first(programs: &Programs, target: &str) -> Result<()> {
    for unsettled in programs.client().settle_agents()? {
        warn(
            false,
            &format!(
                "{}, which ran here before, was killed (run {})",
                unsettled.name, unsettled.run
            ),
        );
        summary(programs.client(), target, &unsettled.run)?;
    }
    let home = programs.mounted_at();
    let private = PRIVATE
        .iter()
        .filter(|name| home.join(name).symlink_metadata().is_ok());
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
fn profile(given: Option<&str>, program: &OsStr) -> Result<(String, Profile)> {
    let base = Path::new(program)
        .file_name()
        .unwrap_or(program)
        .to_string_lossy();
    if let Some(name) = given {
        let known = Profile::named(name)?.unwrap_or_default();
        return Ok((name.to_owned(), known));
    }
    if let Some((name, known)) = Profile::of_program(&base)? {
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
        Profile::default(),
    ))
}

/// Returns the words to run: those of the profile come first after the program.
fn words(args: &AgentArgs, profile: &Profile) -> Vec<OsString> {
    let mut words = args.words.clone();
    let more = profile.arguments.iter().map(OsString::from);
    words.splice(1..1, more);
    words
}

/// Returns where the agent's own directory is in the sandbox: beside the home, and not in it.
fn own_path(home: &Path) -> PathBuf {
    let is_free = |own: &str| !home.starts_with(own) && !Path::new(own).starts_with(home);
    let mut own = OWN.into_iter();
    own.find(|own| is_free(own)).unwrap_or("/agent").into()
}

/// Returns the terminal that this program is started at, if it is.
fn terminal() -> Option<Terminal> {
    let is_one = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    is_one.then(stdin).flatten().and_then(Terminal::of)
}

/// Says what came of it, and takes it back if that is wanted.
fn end(
    args: &AgentArgs,
    programs: &Programs,
    target: &str,
    outcome: &Outcome,
    interrupt: &Interrupt,
) -> Result<End> {
    let run = outcome.run.to_string();
    let client = programs.client();
    let report = outcome.program.as_ref();
    for refusal in report
        .map(|report| &report.network_refusals[..])
        .unwrap_or_default()
    {
        complain(format_args!("{refusal}"));
    }
    let status = client.status().ok().flatten();
    for notice in status.into_iter().flat_map(|status| status.notices) {
        complain(format_args!("trumanfs: {notice}"));
    }
    let has_changed = summary(client, target, &run)?;
    if args.ask && has_changed && review::has_screen() {
        return reviewed(client, target, &run, interrupt);
    }
    let discards = args.discard || args.ask && has_changed && !stays()?;
    match discards && has_changed {
        true => undo::take_back(client, target, &run).map(End::Exit),
        false => Ok(End::Exit(Exit::Ok)),
    }
}

/// Has a run reviewed, and says what is left.
fn reviewed(client: &Client, target: &str, run: &str, interrupt: &Interrupt) -> Result<End> {
    let own = Client::open(client.path())?;
    let scope = own.review_scope(Some(run), None)?;
    // The screen knows what to do with signals.
    let (left, _) = interrupt.during(|_| review::screen(own, scope, target.to_owned(), false));
    let left = left?;
    let scope = client.review_scope(Some(run), None)?;
    match client.review(scope, false)?.len() as u64 {
        0 => complain(format_args!("trumanfs: nothing is left to be reviewed")),
        number => complain(format_args!(
            "trumanfs: {} not accepted and not taken back: what was changed there stays\n look again:        trumanfs review {target} --run {run}",
            count(number, "path")
        )),
    }
    Ok(match left {
        Left::Quit => End::Exit(Exit::Ok),
        Left::Signal(signal) => End::Signal(signal),
    })
}

/// Says what a run has changed, and how to look at it and take it back. Returns whether it has changed anything.
fn summary(client: &Client, target: &str, run: &str) -> Result<bool> {
    let diff = match client.diff_of_run(run, &WorldPath::root()) {
        // A run without a record has changed nothing.
        Err(error) if error.kind() == Kind::Missing => {
            complain(format_args!("trumanfs: nothing was changed"));
            return Ok(false);
        }
        diff => diff?,
    };
    if diff.is_empty() {
        complain(format_args!("trumanfs: nothing is different"));
        return Ok(false);
    }
    let mut printer = Printer::to_stderr();
    inspect::summary(&mut printer, &diff, LISTED)?;
    for line in [
        format!("what was done:     trumanfs log {target} --run {run}"),
        format!("what is different: trumanfs diff {target} --run {run} --patch"),
        format!("as a page:         trumanfs report {target} --run {run}"),
        format!("take it back:      trumanfs undo {target} --run {run}"),
    ] {
        printer.line(format_args!(" {line}"));
    }
    Ok(true)
}

/// Asks whether the changes stay.
fn stays() -> Result<bool> {
    // What the agent's queries have the terminal answer, and what was typed to the agent, is no answer to this.
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
    loop {
        let mut out = std::io::stderr();
        let asked =
            write!(out, "Keep these changes? [k]eep, [d]iscard: ").and_then(|()| out.flush());
        let mut answer = String::new();
        let read = asked.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
        match (read, answer.trim()) {
            (Ok(_), "d" | "discard") => return Ok(false),
            // At the end of input nobody is there to answer, and nothing is lost by keeping.
            (Ok(0) | Err(_), _) | (_, "k" | "keep") => return Ok(true),
            _ => {}
        }
    }
}
