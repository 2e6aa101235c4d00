//! `task`: file tasks under a lease, each answered by a signed result on standard output.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::exit::ExitReason;
use super::output::{Printer, print_line};
use crate::error::{Error, Result, reason};
use crate::exec::task::clock_report::clock_report;
use crate::exec::task::log_audit::{expect_head, verify_log};
use crate::exec::task::stream_request::{MAX_REQUEST_BYTES, StreamRequest, StreamSubject};
use crate::exec::task::{LedgerWait, TaskAnswer, TaskExecutor};

/// The bytes of a file that are read: more than any may have, so that a longer file is named as such.
const MAX_READ_BYTES: u64 = 1 << 20;

/// Arguments of `trumanfs task`.
#[derive(Subcommand, Debug)]
pub(super) enum TaskCommand {
    /// Does what a manifest says under a lease, or refuses; prints the signed result
    Run(TaskRunArgs),
    /// Takes back what a task did, under a lease for its result; prints the signed result of that
    Undo(TaskUndoArgs),
    /// The log of all tasks of an executor
    #[command(subcommand)]
    Log(TaskLogCommand),
    /// Prints the latest time that an executor has seen, by which it goes while its clock is behind
    Clock(ClockArgs),
}

/// Arguments of `trumanfs task clock`.
#[derive(Args, Debug)]
pub(super) struct ClockArgs {
    /// Have the executor go by its clock again, although that is behind: leases that expired meanwhile may be valid
    /// again
    #[arg(long)]
    accept_lower: bool,
    /// The executor's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs task run`.
#[derive(Args, Debug)]
pub(super) struct TaskRunArgs {
    /// `-` reads lines of JSON from standard input, `{"manifest": TEXT, "lease": ENVELOPE}` or `{"undo": RESULT, "lease":
    /// ENVELOPE}`, and answers a line each
    #[arg(value_name = "-", value_parser = ["-"], required_unless_present = "manifest", conflicts_with_all = ["manifest", "lease"])]
    stream: Option<String>,
    /// What is to be done, a file of JSON
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// The lease for it, an envelope of JSON
    #[arg(long, value_name = "FILE")]
    lease: Option<PathBuf>,
    /// Refuse to work unless a result in the log has this SHA-256 of its payload: the log was not rolled back behind it
    #[arg(long, value_name = "SHA256")]
    expect_head: Option<String>,
    /// The executor's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Arguments of `trumanfs task undo`.
#[derive(Args, Debug)]
pub(super) struct TaskUndoArgs {
    /// The signed result of the task to take back
    #[arg(long, value_name = "FILE")]
    result: PathBuf,
    /// A lease for that result's bytes, with a task id of its own
    #[arg(long, value_name = "FILE")]
    lease: Option<PathBuf>,
    /// Refuse to work unless a result in the log has this SHA-256 of its payload
    #[arg(long, value_name = "SHA256")]
    expect_head: Option<String>,
    /// The executor's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Arguments of `trumanfs task log`.
#[derive(Subcommand, Debug)]
pub(super) enum TaskLogCommand {
    /// Says whether each result is signed, follows the one before, and was begun; ends with 1 where something does not
    /// hold
    Verify(TaskLogVerifyArgs),
}

/// Arguments of `trumanfs task log verify`.
#[derive(Args, Debug)]
pub(super) struct TaskLogVerifyArgs {
    /// A result in the log must have this SHA-256 of its payload
    #[arg(long, value_name = "SHA256")]
    expect_head: Option<String>,
    /// The executor's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command that was typed.
pub(super) fn task(command: &TaskCommand) -> Result<ExitCode> {
    match command {
        TaskCommand::Run(args) => run(args),
        TaskCommand::Undo(args) => {
            let result = read(&args.result)?;
            let mut tasks = open(&args.config, args.expect_head.as_deref())?;
            let answer = tasks.undo(&result, &read_lease(args.lease.as_deref()))?;
            print_answer(&answer)
        }
        TaskCommand::Log(TaskLogCommand::Verify(args)) => verify(args),
        TaskCommand::Clock(args) => clock(args),
    }
}

/// Opens an executor whose log has the result that its host knows.
fn open(config: &Path, expected: Option<&str>) -> Result<TaskExecutor> {
    if let Some(head) = expected {
        expect_head(config, head)?;
    }
    TaskExecutor::open(config)
}

fn run(args: &TaskRunArgs) -> Result<ExitCode> {
    let Some(manifest) = &args.manifest else {
        if let Some(head) = &args.expect_head {
            expect_head(&args.config, head)?;
        }
        let mut tasks = TaskExecutor::open_waiting(&args.config, Box::new(write_wait))?;
        return answer_lines(&mut tasks);
    };
    let manifest = read(manifest)?;
    let mut tasks = open(&args.config, args.expect_head.as_deref())?;
    let answer = tasks.run(&manifest, &read_lease(args.lease.as_deref()))?;
    print_answer(&answer)
}

/// Prints a result. Returns the status that tells whether the task was done.
fn print_answer(answer: &TaskAnswer) -> Result<ExitCode> {
    write(&answer.result)?;
    Ok(if answer.success {
        ExitReason::Ok.into()
    } else {
        ExitReason::Nothing.into()
    })
}

fn write(result: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{result}").and_then(|()| out.flush());
    written.map_err(|error| Error::io("write", &error))
}

/// A line of a stream that answers nothing: it says that the stream waits.
#[derive(Serialize)]
struct WaitLine {
    waiting: WaitReport,
}

/// The wait: for what, for which process if that is known, and for how long so far.
#[derive(Serialize)]
struct WaitReport {
    r#for: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    ms: u64,
}

/// Says in the stream that it waits for another executor.
fn write_wait(wait: LedgerWait) -> Result<()> {
    let waiting = WaitReport {
        r#for: "log",
        pid: wait.pid,
        ms: u64::try_from(wait.elapsed.as_millis()).unwrap_or(u64::MAX),
    };
    let line = serde_json::to_string(&WaitLine { waiting });
    write(&line.map_err(|error| Error::io("write", &error.into()))?)
}

/// Answers line by line, until standard input ends.
fn answer_lines(tasks: &mut TaskExecutor) -> Result<ExitCode> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        tasks.prepare();
        line.clear();
        let most = MAX_REQUEST_BYTES as u64 + 2;
        let read = (&mut input).take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error| Error::io("read", &error))?;
        if read == 0 {
            return Ok(ExitReason::Ok.into());
        }
        let is_whole = line.last() == Some(&b'\n');
        if is_whole {
            line.pop();
        } else if read as u64 == most {
            skip_line(&mut input)?;
        }
        let answer = match StreamRequest::parse(&line) {
            Ok(line) => match &line.subject {
                StreamSubject::Manifest(manifest) => tasks.run(manifest, &line.lease)?,
                StreamSubject::Undo(result) => tasks.undo(result, &line.lease)?,
            },
            Err(why) => tasks.refuse(&format!("the line: {why}"))?,
        };
        write(&answer.result)?;
    }
}

/// Reads on to the end of a line, and keeps nothing of it.
fn skip_line(input: &mut impl BufRead) -> Result<()> {
    loop {
        let part = input
            .fill_buf()
            .map_err(|error| Error::io("read", &error))?;
        let (length, is_end) = match part.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (part.len(), part.is_empty()),
        };
        input.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let got = file.and_then(|file| file.take(MAX_READ_BYTES).read_to_end(&mut bytes));
    match got {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Error::Missing {
            what: format!("{}: {}", path.display(), reason(&error)),
            remedy: "Give a file that can be read.".to_owned(),
        }),
    }
}

/// Reads a lease. One that cannot be read is none, and answered by a signed result like any other that does not hold.
fn read_lease(path: Option<&Path>) -> Vec<u8> {
    path.and_then(|path| read(path).ok()).unwrap_or_default()
}

fn verify(args: &TaskLogVerifyArgs) -> Result<ExitCode> {
    let report = verify_log(&args.config, args.expect_head.as_deref())?;
    if args.json {
        Printer::new().json(&report)?;
    } else {
        for problem in &report.problems {
            print_line(format_args!("{problem}"));
        }
        if let Some(open) = &report.open {
            print_line(format_args!(
                "task {open} was begun and has no result yet: the next start settles it"
            ));
        }
        print_line(format_args!(
            "{} lines, {} tasks begun, {} results, {} of them of tasks that were done; the newest is {}",
            report.lines, report.intents, report.results, report.successes, report.head
        ));
    }
    Ok(if report.problems.is_empty() {
        ExitReason::Ok.into()
    } else {
        ExitReason::Nothing.into()
    })
}

fn clock(args: &ClockArgs) -> Result<ExitCode> {
    let report = clock_report(&args.config, args.accept_lower)?;
    if args.json {
        Printer::new().json(&report)?;
        return Ok(ExitReason::Ok.into());
    }
    print_line(format_args!(
        "the clock says {}, and the latest time that was seen is {}",
        report.system, report.latest
    ));
    let behind = report.latest.saturating_sub(report.system);
    if report.accepted {
        print_line(format_args!(
            "the executor goes by its clock from now on, {behind} s earlier; start anew what runs of it"
        ));
    } else if behind > 0 {
        print_line(format_args!(
            "no lease is valid before the clock has caught up, in {behind} s; if the clock was wrong then and is right now: --accept-lower"
        ));
    }
    Ok(ExitReason::Ok.into())
}
