//! `undo` and `redo`.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::escaping::print_error;
use super::exit::{ExitReason, with_advice};
use super::joint_undo::{name_other_parts, undo_in_all, undo_parts};
use super::output::{Printer, count, quote, warn};
use crate::client::{Client, EVERY_SESSION, UndoOptions, UndoQuery};
use crate::error::Result;
use crate::journal::RunId;
use crate::operator::point::Point;
use crate::operator::undo::in_words;
use crate::operator::undo::{OnConflict, TurnScope, UndoReport, UndoRequest, UndoScope};

/// Arguments of `trumanfs undo`.
#[derive(Args, Debug)]
pub(super) struct UndoArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Operations, as NUMBER (of the last session) or SESSION:NUMBER; of an undo, all that it did
    #[arg(value_name = "OP", conflicts_with_all = ["pid", "program", "session", "run", "since", "to", "path"])]
    operations: Vec<String>,
    /// What this process did
    #[arg(long)]
    pid: Option<u32>,
    /// What this program did, by its name or its path
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Only what concerns this path, or what is below it; a pattern as in .gitignore, may be given several times
    #[arg(long, value_name = "PATTERN")]
    path: Vec<String>,
    /// What was done in this session; `last` is the newest, `all` stands for every session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// What this run did, one request of an executor, or a merge: its id, a unique beginning of it, or `last`; of an
    /// undo, all that it did
    #[arg(long, value_name = "RUN", conflicts_with_all = ["session", "since", "to"])]
    run: Option<String>,
    /// What this turn of a run did, an agent's work on one prompt: its number or `last`, in the newest conversation or in
    /// that of --run
    #[arg(long, value_name = "N", conflicts_with_all = ["operations", "session", "since", "to"])]
    turn: Option<String>,
    /// What this turn did and all later ones of its run: back to the moment of its prompt
    #[arg(long, value_name = "N", conflicts_with_all = ["operations", "session", "since", "to", "turn"])]
    to_turn: Option<String>,
    /// What was done since a time, as "2026-11-22 10:15", 30m (ago) or yesterday
    #[arg(long, value_name = "POINT", allow_hyphen_values = true)]
    since: Option<String>,
    /// Everything after a point: a checkpoint, an operation, a session's start, a time
    #[arg(long, value_name = "POINT", allow_hyphen_values = true, conflicts_with_all = ["session", "since"])]
    to: Option<String>,
    #[command(flatten)]
    how: UndoModeArgs,
}

/// Arguments of `trumanfs redo`.
#[derive(Args, Debug)]
pub(super) struct RedoArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The undo or restore that was this run, instead of the last one: its id, a unique beginning of it, or `last`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    how: UndoModeArgs,
}

/// How something is taken back.
#[derive(Args, Debug)]
pub(super) struct UndoModeArgs {
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where something later stands in the way, put what comes back beside it (NAME.before-NUMBER)
    #[arg(long, conflicts_with = "force")]
    keep_both: bool,
    /// Where something later stands in the way, put it into the trash or the versions
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl UndoModeArgs {
    /// Returns what was chosen.
    pub(super) fn options(&self) -> UndoOptions {
        UndoOptions {
            on_conflict: OnConflict::chosen(self.keep_both, self.force),
            dry_run: self.dry_run,
        }
    }

    /// Returns how it is said what came of it.
    pub(super) fn output<'o>(&self, next: &'o str, taken_back: Option<&'o str>) -> UndoOutput<'o> {
        UndoOutput {
            next,
            taken_back,
            json: self.json,
            to_stderr: false,
        }
    }
}

/// Takes operations back.
pub(super) fn undo(args: &UndoArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let what = UndoQuery {
        operations: args.operations.clone(),
        session: args.session.clone(),
        run: args.run.clone(),
        turn: args.turn.clone(),
        to_turn: args.to_turn.clone(),
        since: args.since.clone(),
        to: args.to.clone(),
        pid: args.pid,
        program: args.program.clone(),
        paths: args.path.clone(),
    };
    let request = client.undo_request(&what, args.how.options())?;
    let turns = (&what.turn, &what.to_turn);
    let is_narrowed = [
        &what.session,
        &what.run,
        turns.0,
        turns.1,
        &what.since,
        &what.to,
    ]
    .iter()
    .any(|given| given.is_some());
    if let (
        false,
        UndoScope::Matching {
            session: Some(session),
            ..
        },
    ) = (is_narrowed, &request.scope)
    {
        warn(
            args.how.json,
            &format!(
                "only session {session}, the last one, is looked at: --session {EVERY_SESSION} looks in every session"
            ),
        );
    }
    let target = quote(args.target.as_os_str().as_bytes());
    let command = command_to_go_on(&target, &request.scope, &args.how);
    let next = format!(
        "`{command}` goes on, mounted or not; `trumanfs redo {target}` takes back what was done. Both are safe."
    );
    let run = match &request.scope {
        UndoScope::Matching {
            turns: Some(turns), ..
        } => {
            say_turns(&client, turns, args.how.json)?;
            turns.ranges.first().map(|range| range.run.to_string())
        }
        _ => args.run.clone(),
    };
    let others = run.as_deref().map(|run| client.other_parts(run));
    let others = others
        .transpose()?
        .filter(|others| !others.parts.is_empty());
    let Some(others) = others else {
        return undo_and_print(&client, &request, &args.how, &next, None);
    };
    let is_part = turns != (&None, &None) || !args.path.is_empty();
    if is_part || args.pid.is_some() || args.program.is_some() {
        name_other_parts(&others, "undo", args.how.json);
        return undo_and_print(&client, &request, &args.how, &next, None);
    }
    let of_other =
        |other: &Client, run: &str| other.undo_request(&whole_run(run), args.how.options());
    let output = args.how.output(&next, None);
    undo_in_all(&client, request, &others, &of_other, &output)
}

/// Says on standard error which turns are meant, and which changes of their runs are not: the marks of turns are the
/// agent's word.
fn say_turns(client: &Client, asked: &TurnScope, as_json: bool) -> Result<()> {
    let runs: BTreeSet<RunId> = asked.ranges.iter().map(|range| range.run).collect();
    for run in runs {
        let mut left = Vec::new();
        for turn in client.turns_of(run)? {
            match turn.mark {
                Some((mark, begin)) if asked.has(&begin) => {
                    let changes = count(turn.changes, "change");
                    warn(as_json, &format!("{mark} ({changes} of the run {run})"));
                }
                _ if turn.changes == 0 => {}
                Some((mark, _)) => left.push(format!("{} of turn {}", turn.changes, mark.turn)),
                None => left.push(format!("{} before its first turn", turn.changes)),
            }
        }
        if !left.is_empty() {
            let left = left.join(", ");
            warn(
                as_json,
                &format!("other changes of the run {run} stay: {left}"),
            );
        }
    }
    Ok(())
}

/// Takes the last undo or restore back; where nothing of it is left to take back, the one before.
pub(super) fn redo(args: &RedoArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let target = quote(args.target.as_os_str().as_bytes());
    let mut skipped = Vec::new();
    let mut found = client.redo_request(args.run.as_deref(), &skipped, args.how.options())?;
    loop {
        let (request, last) = found;
        let command = command_to_go_on(&target, &request.scope, &args.how);
        let next = format!("`{command}` goes on, mounted or not.");
        let others = last.run.map(|run| client.other_parts(&run.to_string()));
        let others = others
            .transpose()?
            .filter(|others| !others.parts.is_empty());
        if let Some(others) = others {
            let of_other = |other: &Client, run: &str| {
                let request = other.redo_request(Some(run), &[], args.how.options());
                request.map(|(request, _)| request)
            };
            let output = args.how.output(&next, Some(&last.what));
            return undo_in_all(&client, request, &others, &of_other, &output);
        }
        let report = client
            .undo(&request)
            .map_err(|error| with_advice(error, &next))?;
        if args.run.is_none() && is_empty(&report) {
            skipped.push(last.operation);
            if let Ok(before) = client.redo_request(None, &skipped, args.how.options()) {
                found = before;
                continue;
            }
        }
        return print_report(&report, &args.how, &next, Some(&last.what));
    }
}

/// Returns whether there was nothing to do.
fn is_empty(report: &UndoReport) -> bool {
    let extent = report.size;
    let planned = extent.names + extent.contents + extent.attributes;
    let has_messages = report.stopped || report.failed.is_some() || !report.notes.is_empty();
    report.record.is_none() && planned == 0 && !has_messages
}

/// The command that goes on with what stopped half-way. It names what was meant then: a number alone, `last` and `-30m`
/// may mean something else by now.
fn command_to_go_on(target: &str, wanted: &UndoScope, how: &UndoModeArgs) -> String {
    use std::fmt::Write;
    let mut command = format!("trumanfs undo {target}");
    match wanted {
        UndoScope::Operations(operations) => {
            for operation in operations {
                let _ = write!(command, " {operation}");
            }
        }
        UndoScope::Matching {
            from,
            session,
            run,
            turns,
            pid,
            program,
            paths,
        } => {
            let of_turns = turns.as_ref().and_then(|turns| turns.ranges.first());
            let run = run.or(of_turns.map(|range| range.run));
            let _ = match (run, session) {
                (Some(run), _) => write!(command, " --run {run}"),
                (None, Some(session)) => write!(command, " --session {session}"),
                (None, None) if *from == Point::beginning() => {
                    write!(command, " --session {EVERY_SESSION}")
                }
                (None, None) => write!(command, " --to {from}"),
            };
            if let Some(turns) = turns {
                let _ = write!(command, " {}", turns.option());
            }
            if let Some(pid) = pid {
                let _ = write!(command, " --pid {pid}");
            }
            if let Some(program) = program {
                let _ = write!(command, " --program {}", quote(program.as_bytes()));
            }
            for path in paths {
                let _ = write!(command, " --path {}", quote(path.as_bytes()));
            }
        }
    }
    for (chosen, flag) in [(how.keep_both, " --keep-both"), (how.force, " --force")] {
        command.push_str(if chosen { flag } else { "" });
    }
    command
}

/// Takes a run back in the stores where it changed something, and says on standard error what came of it.
///
/// # Errors
/// As [`undo_parts`].
pub(super) fn undo_agent_run(clients: &[&Client], target: &str, run: &str) -> Result<ExitReason> {
    let how = UndoOptions {
        on_conflict: OnConflict::Stop,
        dry_run: false,
    };
    let next = format!("`trumanfs undo {target} --run {run}` goes on, mounted or not.");
    let mut parts = Vec::with_capacity(clients.len());
    for client in clients {
        parts.push((*client, client.undo_request(&whole_run(run), how)?));
    }
    let output = UndoOutput {
        next: &next,
        taken_back: None,
        json: false,
        to_stderr: true,
    };
    undo_parts(&parts, &output)
}

fn whole_run(run: &str) -> UndoQuery {
    UndoQuery {
        run: Some(run.to_owned()),
        ..UndoQuery::default()
    }
}

/// The form in which the outcome of an undo is printed.
pub(super) struct UndoOutput<'o> {
    /// The advice for an undo that stopped half-way.
    pub(super) next: &'o str,
    /// The undo that a redo takes back, in the words of its command.
    pub(super) taken_back: Option<&'o str>,
    pub(super) json: bool,
    to_stderr: bool,
}

impl UndoOutput<'_> {
    pub(super) fn printer(&self) -> Printer {
        match self.to_stderr {
            true => Printer::to_stderr(),
            false => Printer::new(),
        }
    }
}

/// Takes something back, and says what came of it. `next`: how to go on where it stopped half-way. `taken_back`: what a
/// redo takes back, in the words of its command.
///
/// # Errors
/// As [`Client::undo`].
pub(super) fn undo_and_print(
    client: &Client,
    request: &UndoRequest,
    how: &UndoModeArgs,
    next: &str,
    taken_back: Option<&str>,
) -> Result<ExitReason> {
    let report = client
        .undo(request)
        .map_err(|error| with_advice(error, next))?;
    print_report(&report, how, next, taken_back)
}

/// Says what came of taking something back.
///
/// # Errors
/// Those of writing it as JSON.
pub(super) fn print_report(
    report: &UndoReport,
    how: &UndoModeArgs,
    next: &str,
    taken_back: Option<&str>,
) -> Result<ExitReason> {
    if how.json {
        Printer::new().json(report)?
    } else {
        print(Printer::new(), report, next, taken_back)
    }
    Ok(exit_reason(report))
}

pub(super) fn exit_reason(report: &UndoReport) -> ExitReason {
    if report.stopped {
        ExitReason::Conflict
    } else if report.failed.is_some() || !report.notes.is_empty() {
        ExitReason::Partly
    } else if report.record.is_none() && !report.dry_run {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    }
}

/// `next`: how to go on where it stopped half-way. `taken_back`: what a redo takes back, in the words of its command.
pub(super) fn print(
    mut printer: Printer,
    report: &UndoReport,
    next: &str,
    taken_back: Option<&str>,
) {
    print_conflicts(report);
    for note in &report.notes {
        warn(false, note);
    }
    let is_told = report.dry_run || report.record.is_some();
    for change in report.changes.iter().filter(|_| is_told) {
        let would = if report.dry_run { "would " } else { "" };
        printer.line(format_args!("{would}{change}"));
    }
    if report.stopped {
        return;
    }
    for merged in &report.merged {
        let would = if report.dry_run { "would have " } else { "" };
        printer.line(format_args!("{would}{merged}"));
    }
    for (dir, number) in &report.volatile {
        let would = if report.dry_run {
            "would not bring"
        } else {
            "not brought"
        };
        let things = count(*number, "thing");
        printer.line(format_args!("{would} back, as volatile: {things} in {dir}"));
    }
    let deeds = in_words(&report.steps);
    let operations = count(report.operations, "operation");
    match (report.dry_run, &report.record, &report.failed) {
        (true, ..) => printer.line(format_args!("would undo {operations}: {deeds}")),
        (_, None, _) if !report.notes.is_empty() => {
            printer.line(format_args!("nothing else could be taken back"));
        }
        (_, None, _) => printer.line(format_args!(
            "nothing to undo: all of it is already as it was"
        )),
        (_, Some(_), Some(error)) => {
            printer.flush();
            let (extent, (moves, contents, attributes)) = (report.size, report.done);
            let done = format!(
                "Done so far: {moves} of {}, {contents} of {}, {attributes} of {} with other attributes. {next}",
                count(extent.names, "move"),
                count(extent.contents, "content"),
                count(extent.attributes, "thing"),
            );
            warn(false, &format!("stopped half-way: {error}\n  {done}"));
        }
        (_, Some(record), None) => {
            let done = match taken_back {
                Some(what) => format!("redone: took back “{what}”"),
                None => format!("undone {operations}"),
            };
            let but = if report.notes.is_empty() {
                ""
            } else {
                ", but for what is said above"
            };
            printer.line(format_args!(
                "{done}{but}: {deeds} (operation {})",
                record.seq
            ));
        }
    }
}

/// Says what stood in the way.
fn print_conflicts(report: &UndoReport) {
    if report.stopped {
        let number = count(report.conflicts.len() as u64, "conflict");
        warn(false, &format!("{number} in the way; nothing was changed"));
    }
    for line in conflict_lines(report) {
        print_error(format_args!("  {line}"));
    }
}

/// Says what stood in the way, in a line for each conflict, and what can be done about it.
pub(super) fn conflict_lines(report: &UndoReport) -> Vec<String> {
    /// How many are told one by one.
    const MAX_PRINTED_CONFLICTS: usize = 20;
    let conflicts = &report.conflicts;
    let mut lines = Vec::new();
    for conflict in conflicts.iter().take(MAX_PRINTED_CONFLICTS) {
        let by = match (&conflict.by, &conflict.by_what) {
            (Some(by), Some(what)) => format!(": operation {by}, {what}"),
            (None, Some(what)) => format!(": {what}"),
            _ if conflict.what.contains("outside the home") => String::new(),
            _ => ": outside the home, without a record".to_owned(),
        };
        lines.push(format!(
            "{}:{} {}: {}{by}",
            conflict.session, conflict.seq, conflict.word, conflict.what
        ));
    }
    if conflicts.len() > MAX_PRINTED_CONFLICTS {
        lines.push(format!(
            "and {} more (--json has all)",
            conflicts.len() - MAX_PRINTED_CONFLICTS
        ));
    }
    if report.stopped && conflicts.iter().all(|conflict| conflict.can_be_forced) {
        lines.push(
            "Undo the later operations as well, or: --keep-both puts what comes back beside what is there; --force \
             puts what is there into the trash or the versions."
                .to_owned(),
        );
    }
    lines
}
