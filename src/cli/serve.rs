//! `serve`: servers for programs that run agents.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};

use super::execute::with_policy::{self, watched_policy};
use super::exit::ExitReason;
use super::network_option::{NetworkChoice, network};
use super::system_shell::{shell_settings, system_shell};
use crate::error::{Error, Result, reason};
use crate::exec::program::sandbox::BackendChoice;
use crate::serve::mcp::{ServedShell, ServerEnd, ServerSettings, serve as serve_mcp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The time that what runs may take to end after a signal, before the process does.
const MAX_END_TIME: Duration = Duration::from_secs(8);

/// The servers.
#[derive(Subcommand, Debug)]
pub(super) enum ServeCommand {
    /// Serves a home as tools by the Model Context Protocol, on standard input and output
    Mcp(McpArgs),
}

/// Arguments of `trumanfs serve mcp`.
#[derive(Args, Debug)]
#[command(
    after_help = "Tools: bash, read_text_file, write_file, edit_file, list_directory, search_files, grep, remove, history, undo,\n\
bash_output, bash_kill. Only where --tools names them: move_file, copy_file, and run_PROGRAM for each program of the policy."
)]
pub(super) struct McpArgs {
    /// A mounted home, or a store, which is mounted for as long as the server runs
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: PathBuf,
    /// The shell that runs lines: one of this machine (`bash`, a path), in a sandbox, or `bundled` [default: bash where a
    /// sandbox can be made, else bundled]
    #[arg(long, value_name = "SHELL", conflicts_with = "policy")]
    shell: Option<OsString>,
    /// Let lines of the bundled shell, and run_PROGRAM, run the real programs that this policy allows (a file, or `default`), each in
    /// a sandbox
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// Offer these tools, instead of the usual ones
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    tools: Vec<String>,
    /// The network of the programs: `none`, or `allow=HOST[:PORT],…`. With --policy each may reach what that allows it of
    /// these hosts; with bash also `all` and groups of hosts (`npm`, `pip`), and none without --net
    #[arg(long, value_name = "WHAT", value_parser = network)]
    net: Vec<NetworkChoice>,
    /// What makes the sandbox of real programs: `namespaces`, `bwrap`, or `auto` [default: auto]
    #[arg(long, value_name = "BACKEND", value_parser = with_policy::parse_backend)]
    sandbox: Option<BackendChoice>,
    /// Let answers have so many tokens at most, of four bytes each: start and end are shown, the rest is read by bash_output
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    max_tokens: u64,
}

/// Serves until the client goes away, or a signal comes.
pub(super) fn serve(command: ServeCommand) -> Result<ExitReason> {
    let ServeCommand::Mcp(args) = command;
    let lines = served_shell(&args)?;
    let end = end_by_signal()?;
    serve_mcp(
        ServerSettings {
            root: args.root,
            lines,
            sandbox: args.sandbox.unwrap_or_default(),
            tools: args.tools,
            tokens: args.max_tokens,
        },
        end,
    )?;
    Ok(ExitReason::Ok)
}

/// Returns what runs the lines: without a policy bash, where a sandbox can be made.
fn served_shell(args: &McpArgs) -> Result<ServedShell> {
    if let Some(file) = &args.policy {
        let watched = watched_policy(Some(file), &args.root, false)?;
        let network = NetworkChoice::narrowing(&args.net)?;
        return Ok(ServedShell::WithPolicy(Arc::new(watched), network));
    }
    let typed = system_shell(args.shell.as_ref());
    if args.shell.is_some() && typed.is_none() {
        return Ok(ServedShell::Bundled);
    }
    let or_bundled = typed.is_none();
    let shell = typed.unwrap_or_else(|| "bash".into());
    let net = args.net.clone();
    Ok(ServedShell::System {
        settings: Arc::new(move |programs| shell_settings(&shell, programs, &net, None)),
        or_bundled,
    })
}

/// Has signals end the server: at once what runs, then the process.
fn end_by_signal() -> Result<ServerEnd> {
    let failed = |error: std::io::Error| {
        Error::refused(format!("signals cannot be handled: {}", reason(&error)), "")
    };
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    let end = ServerEnd::default();
    let ends = end.clone();
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let waiting = thread.spawn(move || {
        if signals.forever().next().is_some() {
            ends.end();
            std::thread::sleep(MAX_END_TIME);
            std::process::exit(1);
        }
    });
    waiting.map_err(failed)?;
    Ok(end)
}
