//! `run`: a real program, under a policy and in a sandbox.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::super::argument_values::{seconds, some_seconds};
use super::super::exit::{report_failure, report_failure_as_json};
use super::super::network_option::listed_network;
use super::super::output::{Printer, warn};
use super::line::{print_outcome, stdin, take_signals};
use super::with_policy::{self, make_launcher, watched_policy};
use crate::error::{Result, reason};
use crate::exec::pipeline::{self, RequestStreams};
use crate::exec::program::network::NetworkRequest;
use crate::exec::program::sandbox;
use crate::exec::program::token_cap::{self, CappedOutput};
use crate::exec::program::{DecidedCommand, ProgramCommand};
use crate::exec::{Outcome, Status};

/// Arguments of `trumanfs run`.
#[derive(Args, Debug)]
#[command(
    after_help = "The program runs as the home's owner, sees the home, /usr and a /tmp of the session, and nothing else.\n\
It ends with the program's own code; 125: refused by the policy, or no sandbox; 124: its time was up;\n\
126 and 127: it cannot be executed, it is not there."
)]
pub(in crate::cli) struct RunArgs {
    /// A mounted home, or a store, which is mounted for as long as the program runs
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: PathBuf,
    /// The policy: a file, or the name of a shipped one (`default`) [default: $TRUMANFS_POLICY,
    /// /etc/trumanfs/policy.yaml, the store's own where it is trusted]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// The working directory, from the home or below it
    #[arg(long, value_name = "D", default_value = ".")]
    cwd: OsString,
    /// A variable for the program, where the policy lets it be asked for
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(Vec<u8>, Vec<u8>)>,
    /// End it after so many seconds, where the policy gives it longer
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// A file or directory of this machine that the program may read
    #[arg(long, value_name = "PATH")]
    bind_ro: Vec<PathBuf>,
    /// The network: `none`, or `allow=HOST[:PORT],…`, which must be hosts that the policy allows; without, all that it
    /// allows
    #[arg(long, value_name = "WHAT", value_parser = network)]
    net: Option<NetworkRequest>,
    /// What makes the sandbox: `namespaces`, `bwrap`, or `auto`: namespaces, and bwrap where this machine refuses them
    /// [default: auto]
    #[arg(long, value_name = "BACKEND", value_parser = with_policy::parse_backend)]
    sandbox: Option<sandbox::BackendChoice>,
    /// Let so many lines of each stream out at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_lines: u64,
    /// Let so many bytes of each stream out at most, where the policy lets out more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_bytes: Option<u64>,
    /// Where the output has to be cut, keep its end too: half of what may leave
    #[arg(long)]
    tail: bool,
    /// Keep only the head and the tail of the output, about so many tokens (of four bytes) in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Leave out sequences that steer a terminal
    #[arg(long)]
    strip_ansi: bool,
    /// Processor time of all its processes together, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds)]
    max_cpu: Option<Duration>,
    /// Memory of all its processes together, in MiB; 0 is no limit [default: three quarters of the machine's]
    #[arg(long, value_name = "MIB")]
    max_memory: Option<u64>,
    /// How many processes and threads there may be at once; 0 is no limit [default: 1024]
    #[arg(long, value_name = "N")]
    max_processes: Option<u64>,
    /// How many files each process may have open; what starts the program needs a few
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(16..))]
    max_files: Option<u64>,
    /// How large a file may become, in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    max_file_size: Option<u64>,
    /// Print one JSON object with all that came of it, and what it wrote
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    words: Vec<OsString>,
}

fn variable(text: &str) -> std::result::Result<(Vec<u8>, Vec<u8>), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("{text}: write it as NAME=VALUE")),
    }
}

/// Runs a program. Returns its status.
pub(in crate::cli) fn run(args: RunArgs) -> ExitCode {
    let as_json = args.json;
    match run_command(args) {
        Ok(code) => code,
        Err(error) => {
            if as_json {
                report_failure_as_json(error);
            } else {
                report_failure(&error);
            }
            // Whatever the reason, the program did not run.
            ExitCode::from(125)
        }
    }
}

fn network(text: &str) -> std::result::Result<NetworkRequest, String> {
    listed_network(text, NetworkRequest::Hosts)
}

fn run_command(args: RunArgs) -> Result<ExitCode> {
    let (policy, _) = watched_policy(args.policy.as_deref(), &args.root, args.json)?.current();
    let launcher = make_launcher(args.sandbox.unwrap_or_default());
    let decided = DecidedCommand::new(&args.root, &policy, command(&args), launcher)?;
    let interrupt = take_signals()?;
    // What is left out where the program succeeds, or has to be counted, is printed when it has ended.
    let is_held = args.json || args.max_tokens.is_some() || decided.suppresses_success_output();
    let (outcome, _) = interrupt.during(|cancel| {
        if is_held {
            return pipeline::gather(input_unless_terminal(), |streams| {
                decided.run(cancel, streams)
            });
        }
        let streams = RequestStreams {
            stdin: input_unless_terminal(),
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
        };
        decided.run(cancel, streams)
    });
    print(outcome, &args)
}

/// Returns standard input, unless it is a terminal: whoever has that can act on the session of its user.
fn input_unless_terminal() -> Option<OwnedFd> {
    stdin().filter(|_| !std::io::stdin().is_terminal())
}

/// Returns the limit that was given, where 0 is none, else the usual one.
fn limit_or_default(asked: Option<u64>, usual: Option<u64>) -> Option<u64> {
    match asked {
        None => usual,
        Some(0) => None,
        limit => limit,
    }
}

fn command(args: &RunArgs) -> ProgramCommand {
    let usual = sandbox::ResourceLimits::usual();
    ProgramCommand {
        argv: args
            .words
            .iter()
            .map(|word| word.clone().into_vec())
            .collect(),
        cwd: args.cwd.as_bytes().to_vec(),
        env: args.env.clone(),
        timeout: args.timeout,
        bind_ro: args.bind_ro.clone(),
        lines: args.max_lines,
        bytes: args.max_bytes,
        tail: args.tail,
        strips_ansi: args.strip_ansi,
        limits: sandbox::ResourceLimits {
            cpu: args.max_cpu,
            memory: limit_or_default(
                args.max_memory.map(|mib| mib.saturating_mul(1 << 20)),
                usual.memory,
            ),
            processes: limit_or_default(args.max_processes, usual.processes),
            open_files: args.max_files,
            file_size: args.max_file_size.map(|mib| mib.saturating_mul(1 << 20)),
        },
        network: args.net.clone(),
        cancel: None,
    }
}

/// Prints what came of it, as far as it has not been printed.
fn print(mut outcome: Outcome, args: &RunArgs) -> Result<ExitCode> {
    let suppresses = outcome
        .program
        .as_ref()
        .is_some_and(|program| program.suppress_success_output);
    if suppresses && outcome.status == Status::Success {
        outcome.stdout.clear();
        outcome.stderr.clear();
    }
    if let Some(tokens) = args.max_tokens {
        let CappedOutput { stdout, stderr } =
            token_cap::cap(&outcome.stdout, &outcome.stderr, tokens);
        outcome.truncated_stdout |= stdout != outcome.stdout;
        outcome.truncated_stderr |= stderr != outcome.stderr;
        (outcome.stdout, outcome.stderr) = (stdout, stderr);
    }
    if args.json {
        Printer::new().json(&outcome)?;
        return Ok(print_outcome(&outcome, true));
    }
    let written = std::io::stdout()
        .write_all(&outcome.stdout)
        .and_then(|()| std::io::stdout().flush())
        .and_then(|()| std::io::stderr().write_all(&outcome.stderr));
    let code = print_outcome(&outcome, false);
    match written {
        // Whoever has closed the stream does not want it.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            warn(false, &format!("standard output: {}", reason(&error)));
            Ok(ExitCode::FAILURE)
        }
        _ => Ok(code),
    }
}
