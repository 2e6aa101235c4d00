//! The end of an agent: what its run has changed is said, taken back or reviewed.

use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::termios::{QueueSelector, tcflush};

use super::args::AgentArgs;
use crate::cli::escaping::print_error;
use crate::cli::exit::{ExitReason, report_failure};
use crate::cli::output::{Printer, bytes, count, quote, warn};
use crate::cli::review::{self, ScreenExit};
use crate::cli::{inspect, undo};
use crate::client::{Client, RunKept};
use crate::error::{FailureKind, Result};
use crate::exec::InterruptSignals;
use crate::exec::program::ProgramHome;
use crate::name::WorldPath;

/// The maximum of changed paths listed at the end.
pub(super) const MAX_LISTED_PATHS: usize = 40;

/// The bytes on disk from which a summary says what a run keeps.
const MUCH_KEPT: u64 = 100_000_000;

/// The bytes on disk, in directories of what can be made again, from which a summary names the option for them.
const MUCH_MADE_AGAIN: u64 = 500_000_000;

/// The result of the work after the agent's end.
pub(super) enum AgentEnd {
    Exit(ExitReason),
    /// Of whoever was asked.
    Signal(i32),
}

/// The decision about the changes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunDecision {
    Stays,
    TakenBack,
}

/// Says what came of a run, and takes it back if that is wanted. What is to be taken back is taken back first, whatever
/// can be told of it.
pub(super) fn end(
    args: &AgentArgs,
    programs: &ProgramHome,
    run: &str,
    interrupt: &InterruptSignals,
) -> Result<AgentEnd> {
    for client in std::iter::once(programs.client()).chain(programs.further_clients()) {
        let status = client.status().ok().flatten();
        for notice in status.into_iter().flat_map(|status| status.notices) {
            print_error(format_args!("trumanfs: {notice}"));
        }
    }
    let changed = changed_stores(programs, run);
    let Some(first) = changed.first() else {
        print_error(format_args!("trumanfs: nothing was changed (run {run})"));
        return Ok(AgentEnd::Exit(ExitReason::Ok));
    };
    let target = quote(first.path().as_os_str().as_bytes());
    if args.discard {
        return Ok(AgentEnd::Exit(discard(&changed, &target, run)));
    }
    print_summaries(&changed, run, RunDecision::Stays);
    if !args.ask {
        return Ok(AgentEnd::Exit(ExitReason::Ok));
    }
    if review::has_screen() {
        let mut last = AgentEnd::Exit(ExitReason::Ok);
        for client in &changed {
            let target = quote(client.path().as_os_str().as_bytes());
            last = review_run(client, &target, run, interrupt)?;
            if matches!(last, AgentEnd::Signal(_)) {
                break;
            }
        }
        return Ok(last);
    }
    if ask_to_keep()? {
        Ok(AgentEnd::Exit(ExitReason::Ok))
    } else {
        Ok(AgentEnd::Exit(discard(&changed, &target, run)))
    }
}

/// Says what a run has changed, in all stores, where that stays.
pub(super) fn print_what_stays(programs: &ProgramHome, run: &str) {
    print_summaries(&changed_stores(programs, run), run, RunDecision::Stays);
}

/// Takes a run back, and says what it had changed.
fn discard(changed: &[&Client], target: &str, run: &str) -> ExitReason {
    let (exit, stand) = match undo::undo_agent_run(changed, target, run) {
        Ok(exit @ (ExitReason::Ok | ExitReason::Nothing)) => (exit, RunDecision::TakenBack),
        Ok(exit) => (exit, RunDecision::Stays),
        Err(error) => {
            report_failure(&error);
            (ExitReason::of(error.kind()), RunDecision::Stays)
        }
    };
    print_summaries(changed, run, stand);
    exit
}

/// Has a run reviewed, and says what is left.
fn review_run(
    client: &Client,
    target: &str,
    run: &str,
    interrupt: &InterruptSignals,
) -> Result<AgentEnd> {
    let own = client.reopen()?;
    let scope = own.review_scope(Some(run), None)?;
    // The screen knows what to do with signals.
    let (left, _) = interrupt.during(|_| review::open_screen(own, scope, target.to_owned(), false));
    let left = left?;
    let scope = client.review_scope(Some(run), None)?;
    match client.review(scope, false)?.len() as u64 {
        0 => print_error(format_args!("trumanfs: nothing is left to be reviewed")),
        number => print_error(format_args!(
            "trumanfs: {} not accepted and not taken back: what was changed there stays\n look again:        trumanfs review {target} --run {run}",
            count(number, "path")
        )),
    }
    Ok(match left {
        ScreenExit::Quit => AgentEnd::Exit(ExitReason::Ok),
        ScreenExit::Signal(signal) => AgentEnd::Signal(signal),
    })
}

/// Returns the stores in which a run has recorded changes, or may have some.
fn changed_stores<'p>(programs: &'p ProgramHome, run: &str) -> Vec<&'p Client> {
    let all = std::iter::once(programs.client()).chain(programs.further_clients());
    let has_changed = |client: &&Client| match client.run(run) {
        // One that has nothing but marks has changed nothing.
        Ok(run) => client
            .turns_of(run.id)
            .map_or(true, |turns| turns.iter().any(|turn| turn.changes > 0)),
        Err(error) => error.kind() != FailureKind::Missing,
    };
    all.filter(has_changed).collect()
}

/// Returns whether a run has several turns.
fn has_turns(client: &Client, run: &str) -> bool {
    let turns = client.run(run).and_then(|run| client.turns_of(run.id));
    // What comes before the first one is counted, too.
    turns.is_ok_and(|turns| turns.len() > 2)
}

/// Says what a run has changed in each store, and how to take it back, or bring it back, in all.
fn print_summaries(changed: &[&Client], run: &str, stand: RunDecision) {
    let Some(first) = changed.first() else {
        return print_error(format_args!("trumanfs: nothing was changed (run {run})"));
    };
    for client in changed {
        let target = quote(client.path().as_os_str().as_bytes());
        if changed.len() > 1 {
            print_error(format_args!("in {target}:"));
        }
        print_summary(client, &target, run);
    }
    let target = quote(first.path().as_os_str().as_bytes());
    let back = match stand {
        RunDecision::Stays => format!("take it back:      trumanfs undo {target} --run {run}"),
        RunDecision::TakenBack => format!("bring it back:     trumanfs redo {target}"),
    };
    let mut printer = Printer::to_stderr();
    printer.line(format_args!(" {back}"));
    if stand == RunDecision::Stays && has_turns(first, run) {
        printer.line(format_args!(
            " its last turn:     trumanfs undo {target} --run {run} --turn last"
        ));
    }
}

/// Says what a run has changed in a store, and how to look at it.
fn print_summary(client: &Client, target: &str, run: &str) {
    let mut printer = Printer::to_stderr();
    let mut is_same = false;
    let differences = client
        .diff_of_run(run, &WorldPath::root())
        .and_then(|diff| {
            is_same = diff.is_empty();
            if is_same {
                let line = "no name, content or permission is different; times and links may be";
                printer.line(format_args!("trumanfs: {line}"));
                Ok(())
            } else {
                inspect::print_summary(&mut printer, &diff, MAX_LISTED_PATHS)
            }
        });
    printer.flush();
    if let Err(error) = differences {
        let why = error.full_message();
        warn(false, &format!("what is different cannot be told: {why}"));
    }
    let lines = [
        format!("what was done:     trumanfs log {target} --run {run}"),
        format!("what is different: trumanfs diff {target} --run {run} --patch"),
        format!("as a page:         trumanfs report {target} --run {run}"),
    ];
    for line in lines.iter().take(if is_same { 1 } else { lines.len() }) {
        printer.line(format_args!(" {line}"));
    }
    match client.kept_by_run(run) {
        Ok(kept) => print_kept(&mut printer, &kept, target),
        Err(error) => {
            let why = error.full_message();
            warn(false, &format!("what is kept cannot be told: {why}"));
        }
    }
    printer.flush();
}

/// Says how much is kept because of a run, if that is much, and which option keeps less.
fn print_kept(printer: &mut Printer, kept: &RunKept, target: &str) {
    if kept.disk < MUCH_KEPT {
        return;
    }
    let size = bytes(kept.disk);
    printer.line(format_args!(
        " what it keeps:     {size} of what was removed or overwritten; trumanfs usage {target}"
    ));
    let made_again: u64 = kept.made_again.values().sum();
    if made_again < MUCH_MADE_AGAIN {
        return;
    }
    let names: Vec<_> = kept
        .made_again
        .keys()
        .map(|name| format!("\"{name}/\""))
        .collect();
    let size = bytes(made_again);
    printer.line(format_args!(
        " to keep less:      {size} of it may be made again: volatile = [{}] in agent.toml (or --volatile)",
        names.join(", ")
    ));
}

/// Asks whether the changes stay.
fn ask_to_keep() -> Result<bool> {
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
