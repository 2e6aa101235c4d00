//! The command line: what was typed becomes a resolved request, and what came of it becomes words and an exit code.
//!
//! clap lives here and nowhere else, and so does every word that is printed.

mod agent;
mod argument_values;
mod browser;
mod candidates;
mod completions;
mod doctor;
mod escaping;
mod examples;
mod execute;
mod exit;
mod expire;
mod fork;
mod fsck;
mod groups;
mod hook;
mod inspect;
mod installed_parts;
mod joint_undo;
mod key;
mod lease;
mod mark;
mod mount;
mod network_option;
mod omitted_target;
mod output;
mod pager;
mod policy;
mod progress;
mod purge;
mod report;
mod restore;
mod result;
mod review;
#[cfg(feature = "mcp")]
mod serve;
mod shown_time;
mod stores;
mod system_shell;
mod task;
mod toolchains;
mod trash;
mod undo;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::Result;
use crate::helper;
use exit::{from_clap, report_failure, report_failure_as_json};

pub use exit::ExitReason;

#[derive(Parser, Debug)]
#[command(name = "trumanfs", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

const AFTER_HELP: &str = "\
TARGET is a store, mounted or not, or a home. Where it is left out, the store that encloses the working directory is
meant, and paths count from there.
Exit codes: 0 ok, 1 differs or nothing found, 2 usage, 3 not found, 4 conflict (nothing changed), 5 partly done,
6 refused before anything was done, 7 the system could not. `exec` and `shell` end with their last command's status.";

#[derive(Subcommand, Debug)]
enum CliCommand {
    /// Mounts a store as a home
    Mount(mount::MountArgs),
    /// Unmounts a home, also one whose daemon has died
    Umount(mount::UmountArgs),
    /// Says what is mounted, and how it is going
    Status(inspect::StatusArgs),
    /// Says which sessions there were
    #[command(subcommand)]
    Session(inspect::SessionCommand),
    /// Prints what was changed, by whom, and when
    Log(inspect::LogArgs),
    /// Says everything about one operation: who, when, what was there before, how to get it back
    Show(inspect::ShowArgs),
    /// Says what differs between two points: sessions, operations, checkpoints, times, now
    Diff(inspect::DiffArgs),
    /// Lists the former contents of a path, and how to get each
    Versions(inspect::VersionsArgs),
    /// Writes what a path held, now or at an earlier point, to standard output
    Cat(inspect::CatArgs),
    /// Says what takes space: live files, trash, former contents; by directory, program, run and age
    Usage(inspect::StoreUsageArgs),
    /// Deletes the oldest part of the history for good, by rules of what is kept
    Expire(expire::ExpireArgs),
    /// Takes back what was done: operations, a program's or a process's doing, a session, everything since a point
    Undo(undo::UndoArgs),
    /// Takes the last undo or restore back; again, the one before
    Redo(undo::RedoArgs),
    /// Shows the changes that nobody has accepted yet, and who made them: on a terminal a screen, else a list
    Review(review::ReviewArgs),
    /// Accepts changes of a run: a review lists them no more
    Accept(review::AcceptArgs),
    /// Takes back changes of a run: an ordinary undo of what a review lists
    Reject(review::RejectArgs),
    /// Puts a file or a tree back as it was
    Restore(restore::RestoreArgs),
    /// Gives points names, and lists them
    #[command(subcommand)]
    Checkpoint(restore::CheckpointCommand),
    /// Says, inside an agent's sandbox, that the agent's work on another prompt begins
    Mark(mark::MarkArgs),
    /// Makes a second store of everything that a store has now; neither sees what changes in the other
    Fork(fork::ForkArgs),
    /// Brings what was changed in a fork into its origin, as one run that can be undone
    Merge(fork::MergeArgs),
    /// Looks into the trash, and takes things out of it
    #[command(subcommand)]
    Trash(trash::TrashCommand),
    /// Lists the stores whose state lies in the state home, forgets one, or moves the state of one there
    Stores(stores::StoresArgs),
    /// Writes a session down as a page: what happened, what is different, how to get things back
    Report(report::ReportArgs),
    /// Checks that journal, trash and former contents of a store agree with each other
    Fsck(fsck::FsckArgs),
    /// Lets an agent work in a store: a home, a sandbox, the network that it needs, and nothing else
    Agent(Box<agent::AgentCall>),
    /// Runs one line of the bundled shell in a home, or in a store that nobody has mounted
    Exec(execute::ExecArgs),
    /// Runs a real program in a home, if a policy allows it, in a sandbox that can write only to the home and a /tmp
    Run(Box<execute::run::RunArgs>),
    /// The bundled shell in a home, or in a store that nobody has mounted
    Shell(execute::ShellArgs),
    /// Serves a home to programs that run agents
    #[cfg(feature = "mcp")]
    #[command(subcommand)]
    Serve(serve::ServeCommand),
    /// Answers an event of an agent: what it is about to do happens in a home
    Hook(hook::HookArgs),
    /// Policies of real programs: which may run in a home, with which flags
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Single file operations under signed leases, answered by signed results
    #[command(subcommand)]
    Task(task::TaskCommand),
    /// Keys that sign leases and results of file tasks
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Leases: permissions for single file tasks, as the kernel that issues and revokes them
    #[command(subcommand)]
    Lease(lease::LeaseCommand),
    /// Results of file tasks
    #[command(subcommand)]
    Result(result::ResultCommand),
    /// Says what this machine can do for sandboxes, by trying it, what is installed, and how to mend what is not as it
    /// should be
    Doctor(doctor::DoctorArgs),
    /// Writes the completions of a shell to standard output
    Completions(completions::CompletionsArgs),
    /// Writes a manual page for each verb into a directory
    Man(completions::ManArgs),
    /// Prints the values that may complete a command line, for the scripts of `completions`
    #[command(hide = true)]
    CompleteValues(candidates::CandidatesArgs),
}

/// Returns the command line: its verbs, their options, and an example of each.
fn command() -> clap::Command {
    examples::add(Cli::command())
}

/// Returns the command line as its help, its manual and its completions show it.
fn shown_command() -> clap::Command {
    groups::add(omitted_target::show_as_optional(command()))
}

/// Runs the command that was typed.
pub fn run() -> ExitCode {
    // Before anything else, clap's tables included: each launch of a sandbox waits for this.
    if let Some(code) = helper::run() {
        return code;
    }
    let as_json = wants_json();
    let words = std::env::args_os().map(inspect::range_value).collect();
    let words = match omitted_target::insert_target(words, &command()) {
        Ok(words) => words,
        Err(error) if as_json => return report_failure_as_json(error),
        Err(error) => return report_failure(&error),
    };
    let typed = command().try_get_matches_from(&words);
    let cli = match typed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && is_hook() => return hook::answer_mistyped(&error),
        Err(error) if error.use_stderr() && as_json => {
            return report_failure_as_json(from_clap(&error));
        }
        Err(error) => {
            let is_help = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            let shown = is_help.then(|| shown_command().try_get_matches_from(&words));
            let shown = shown.and_then(std::result::Result::err);
            let _ = shown.as_ref().unwrap_or(&error).print();
            return if error.use_stderr() {
                ExitReason::Usage.into()
            } else {
                ExitReason::Ok.into()
            };
        }
    };
    if !matches!(cli.command, CliCommand::Mount(_)) {
        start_log(as_json);
    }
    if reads_versions(&cli.command) {
        crate::operator::past::raise_open_file_limit();
    }
    if is_paged(&cli.command) {
        pager::start();
    }
    let done = run_command(cli.command);
    pager::finish();
    match done {
        Ok(exit) => exit,
        Err(error) if as_json => report_failure_as_json(error),
        Err(error) => report_failure(&error),
    }
}

/// Returns whether this program was called as a hook, whatever else is typed wrongly.
fn is_hook() -> bool {
    std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == hook::VERB)
}

/// Returns whether JSON is asked for, whatever else is typed wrongly. What follows `--` is no option.
fn wants_json() -> bool {
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.any(|word| word == "--json")
}

/// Has warnings written to standard error: as objects where the answer is one.
fn start_log(as_json: bool) {
    use std::io::Write;
    let mut log =
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"));
    if as_json {
        log.format(|out, record| {
            let warning = serde_json::json!({ "what": record.args().to_string() });
            writeln!(out, "{}", serde_json::json!({ "warning": warning }))
        });
    }
    log.init();
}

/// Returns whether a pager may show what a command prints.
fn is_paged(command: &CliCommand) -> bool {
    match command {
        CliCommand::Log(args) => args.is_paged(),
        CliCommand::Diff(args) => args.is_paged(),
        CliCommand::Show(args) => args.is_paged(),
        _ => false,
    }
}

/// Returns whether a command may put contents together, each from all the versions between it and now, and starts no
/// program that would inherit the limit.
fn reads_versions(command: &CliCommand) -> bool {
    matches!(
        command,
        CliCommand::Show(_)
            | CliCommand::Diff(_)
            | CliCommand::Versions(_)
            | CliCommand::Cat(_)
            | CliCommand::Undo(_)
            | CliCommand::Redo(_)
            | CliCommand::Review(_)
            | CliCommand::Accept(_)
            | CliCommand::Reject(_)
            | CliCommand::Restore(_)
            | CliCommand::Fork(_)
            | CliCommand::Merge(_)
            | CliCommand::Trash(_)
            | CliCommand::Report(_)
            | CliCommand::Fsck(_)
    )
}

/// Does what was typed.
fn run_command(command: CliCommand) -> Result<ExitCode> {
    let exit = match command {
        CliCommand::Mount(args) => mount::mount(args),
        CliCommand::Umount(args) => mount::umount(&args),
        CliCommand::Status(args) => inspect::status(&args),
        CliCommand::Session(command) => inspect::session(command),
        CliCommand::Log(args) => inspect::log(&args),
        CliCommand::Show(args) => inspect::show(&args),
        CliCommand::Diff(args) => inspect::diff(&args),
        CliCommand::Versions(args) => inspect::versions(&args),
        CliCommand::Cat(args) => inspect::cat(&args),
        CliCommand::Usage(args) => inspect::usage(&args),
        CliCommand::Expire(args) => expire::expire(&args),
        CliCommand::Undo(args) => undo::undo(&args),
        CliCommand::Redo(args) => undo::redo(&args),
        CliCommand::Review(args) => review::review(&args),
        CliCommand::Accept(args) => review::accept(&args),
        CliCommand::Reject(args) => review::reject(&args),
        CliCommand::Restore(args) => restore::restore(&args),
        CliCommand::Checkpoint(command) => restore::checkpoint(command),
        CliCommand::Mark(args) => mark::mark(&args),
        CliCommand::Fork(args) => fork::fork(&args),
        CliCommand::Merge(args) => fork::merge(&args),
        CliCommand::Trash(command) => trash::trash(command),
        CliCommand::Stores(args) => stores::stores(&args),
        CliCommand::Report(args) => report::report(&args),
        CliCommand::Fsck(args) => fsck::fsck(&args),
        CliCommand::Doctor(args) => doctor::doctor(&args),
        CliCommand::Agent(call) => match &call.args.command {
            Some(command) => agent::answer(command),
            None => return Ok(agent::agent(*call)),
        },
        CliCommand::Run(args) => return Ok(execute::run::run(*args)),
        CliCommand::Exec(args) => return Ok(execute::exec(&args)),
        CliCommand::Shell(args) => return Ok(execute::shell(&args)),
        #[cfg(feature = "mcp")]
        CliCommand::Serve(command) => serve::serve(command),
        CliCommand::Hook(args) => hook::hook(&args),
        CliCommand::Policy(command) => return policy::policy(&command),
        CliCommand::Task(command) => return task::task(&command),
        CliCommand::Key(command) => key::key(&command),
        CliCommand::Lease(command) => lease::lease(&command),
        CliCommand::Result(command) => return Ok(result::result(&command)),
        CliCommand::Completions(args) => completions::completions(&args, shown_command()),
        CliCommand::CompleteValues(args) => Ok(candidates::print(&args, &self::command())),
        CliCommand::Man(args) => completions::man(&args, shown_command()),
    };
    exit.map(ExitCode::from)
}
