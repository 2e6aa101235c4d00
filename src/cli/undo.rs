//! `undo` and `redo`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::output::{Printer, count, json, quote};
use super::wish::{ask_to_change, in_process, into_error};
use super::{Exit, open_store, say};
use crate::daemon::control::{Answer, Request};
use crate::error::{Error, Result};
use crate::operator::Store;
use crate::operator::point::{self, Operation, Point};
use crate::operator::undo::deeds::{Deed, Kind};
use crate::operator::undo::{
    LastDone, OnConflict, UndoReport, UndoRequest, Wanted, last_done, run,
};
use crate::world::Caller;

/// What `trumanfs undo` takes.
#[derive(Args, Debug)]
pub(super) struct UndoArgs {
    /// A store or a home
    target: PathBuf,
    /// Operations, as NUMBER (of the last session) or SESSION:NUMBER; of an undo, all that it did
    #[arg(value_name = "OP", conflicts_with_all = ["pid", "program", "session", "since", "to", "path"])]
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
    /// What was done in this session; `last` is the newest
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// What was done since a time, as "2026-11-22 10:15" or -30m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<String>,
    /// Everything after a point: a checkpoint, an operation, a session's start, a time
    #[arg(long, value_name = "POINT", allow_hyphen_values = true, conflicts_with_all = ["session", "since"])]
    to: Option<String>,
    #[command(flatten)]
    how: How,
}

/// What `trumanfs redo` takes.
#[derive(Args, Debug)]
pub(super) struct RedoArgs {
    /// A store or a home
    target: PathBuf,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Debug)]
struct How {
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
    json: bool,
}

/// Takes operations back.
pub(super) fn undo(args: &UndoArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let (wanted, what) = wanted(args, &store)?;
    let target = quote(args.target.as_os_str().as_bytes());
    let again = again(&target, &wanted, &args.how);
    let go_on = format!(
        "`{again}` goes on, mounted or not; `trumanfs redo {target}` takes back what was done. Both are safe."
    );
    let what = format!("undo{what}");
    carry_out(&path, &store, wanted, what, &args.how, &go_on, None)
}

/// Takes the last undo or restore back. Which one that is, is settled first: so whoever asks once more, because it stopped
/// half-way, can name it.
pub(super) fn redo(args: &RedoArgs) -> Result<Exit> {
    let (path, store) = open_store(&args.target)?;
    let LastDone { operation, what } = last_done(&store)?;
    let taken_back = what;
    let what = format!("redo: takes back {operation} ({taken_back})");
    let wanted = Wanted::Operations(vec![operation]);
    let target = quote(args.target.as_os_str().as_bytes());
    let go_on = format!(
        "`{}` goes on, mounted or not.",
        again(&target, &wanted, &args.how)
    );
    let taken_back = Some(&*taken_back);
    carry_out(&path, &store, wanted, what, &args.how, &go_on, taken_back)
}

/// The command that goes on with what stopped half-way. It names what was meant then: a number alone, `last` and `-30m` may
/// mean something else by now.
fn again(target: &str, wanted: &Wanted, how: &How) -> String {
    use std::fmt::Write;
    let mut command = format!("trumanfs undo {target}");
    match wanted {
        Wanted::Operations(operations) => {
            for operation in operations {
                let _ = write!(command, " {operation}");
            }
        }
        Wanted::Since {
            from,
            session,
            pid,
            program,
            paths,
        } => {
            let _ = match session {
                Some(session) => write!(command, " --session {session}"),
                None => write!(command, " --to {from}"),
            };
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

fn wanted(args: &UndoArgs, store: &Store) -> Result<(Wanted, String)> {
    use std::fmt::Write;
    let mut what = String::new();
    if !args.operations.is_empty() {
        let operations: Result<Vec<Operation>> = args
            .operations
            .iter()
            .map(|text| point::operation(store, text))
            .collect();
        for text in &args.operations {
            let _ = write!(what, " {text}");
        }
        return Ok((Wanted::Operations(operations?), what));
    }
    let words = [
        ("--session", args.session.clone()),
        ("--since", args.since.clone()),
        ("--to", args.to.clone()),
        ("--pid", args.pid.map(|pid| pid.to_string())),
        ("--program", args.program.clone()),
    ];
    for (flag, value) in &words {
        if let Some(value) = value {
            let _ = write!(what, " {flag} {value}");
        }
    }
    for path in &args.path {
        let _ = write!(what, " --path {path}");
    }
    if what.is_empty() {
        return Err(Error::refused(
            "undo what?",
            "Give operations, or --session, --since, --to, --pid, --program or --path. `trumanfs log` shows what was done.",
        ));
    }
    let from = args.since.as_ref().or(args.to.as_ref());
    let from = from.map(|text| point::point(store, text)).transpose()?;
    let session = match (&args.session, &from) {
        (Some(text), _) => Some(point::session(store, text)?),
        // A process's number means something in one session only; a program is meant as it ran last.
        (None, None) => Some(last_mounted(store)?),
        (None, Some(_)) => None,
    };
    let from = match (from, &session) {
        (Some(from), _) => from,
        (None, Some(session)) => Point::After(Operation::start_of(session.clone())),
        (None, None) => Point::After(Operation::start_of("")),
    };
    let wanted = Wanted::Since {
        from,
        session,
        pid: args.pid,
        program: args.program.clone(),
        paths: args.path.clone(),
    };
    Ok((wanted, what))
}

/// The newest session in which the store was mounted: what an operator did to it unmounted is no occupant's doing.
fn last_mounted(store: &Store) -> Result<String> {
    use crate::journal::{Op, Reader};
    use crate::world::settle::{open_journal, sessions};
    for session in sessions(store.state())?.into_iter().rev() {
        let Ok(file) = open_journal(store.state(), &session) else {
            continue;
        };
        let begin = Reader::new(std::io::BufReader::new(file)).next_record()?;
        if matches!(
            begin.map(|record| record.op),
            Some(Op::Begin { home: Some(_), .. })
        ) {
            return Ok(session);
        }
    }
    point::session(store, "last")
}

fn carry_out(
    path: &Path,
    store: &Store,
    wanted: Wanted,
    what: String,
    how: &How,
    go_on: &str,
    taken_back: Option<&str>,
) -> Result<Exit> {
    let wish = UndoRequest {
        wanted,
        choice: match (how.keep_both, how.force) {
            (true, _) => OnConflict::KeepBoth,
            (_, true) => OnConflict::Force,
            _ => OnConflict::Stop,
        },
        dry_run: how.dry_run,
        what,
    };
    let report = if wish.dry_run {
        run(store, &wish, None, Caller::myself())?
    } else if store.is_served()? {
        match ask_to_change(store, &Request::Undo(wish), go_on)? {
            Answer::Undone(report) => *report,
            other => return Err(into_error(other)),
        }
    } else {
        if store.copied()?.is_some() {
            // What cannot be told here is refused before a session begins.
            let dry = UndoRequest {
                dry_run: true,
                ..wish.clone()
            };
            run(store, &dry, None, Caller::myself())?;
        }
        in_process(path, |store, applier| {
            run(store, &wish, Some(applier), Caller::myself())
        })?
    };
    if how.json {
        say(format_args!("{}", json(&report)?));
    } else {
        print(&report, go_on, taken_back);
    }
    Ok(exit_of(&report))
}

fn exit_of(report: &UndoReport) -> Exit {
    if report.stopped {
        Exit::Conflict
    } else if report.failed.is_some() || !report.notes.is_empty() {
        Exit::Partly
    } else if report.record.is_none() && !report.dry_run {
        Exit::Nothing
    } else {
        Exit::Ok
    }
}

/// Says what was done to which files.
fn told(deeds: &[Deed]) -> String {
    let told = deeds.iter().map(|deed| {
        let verb = match deed.kind {
            Kind::BroughtBack => "brought back",
            Kind::Removed => "removed",
            Kind::Moved => "moved back",
            Kind::Content => "put back the content of",
            Kind::Attributes => "put back the attributes of",
            Kind::Time => "put back the time of",
        };
        let paths: Vec<String> = deed.paths.iter().map(ToString::to_string).collect();
        let more = deed.count - paths.len() as u64;
        let and = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{verb} {}{and}", paths.join(", "))
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => "nothing that shows".to_owned(),
        false => told.join("; "),
    }
}

/// `taken_back`: what a redo takes back, in the words of its command.
fn print(report: &UndoReport, go_on: &str, taken_back: Option<&str>) {
    let mut printer = Printer::new();
    if report.stopped {
        eprintln!(
            "trumanfs: {} in the way; nothing was changed",
            count(report.conflicts.len() as u64, "conflict")
        );
    }
    const SHOWN: usize = 20;
    for conflict in report.conflicts.iter().take(SHOWN) {
        let by = conflict.by.as_ref().map_or_else(
            || ": by nobody that a record names".to_owned(),
            |(session, seq, words)| format!(": operation {session}:{seq}, {words}"),
        );
        eprintln!(
            "  {}:{} {}: {}{by}",
            conflict.session, conflict.seq, conflict.word, conflict.what
        );
    }
    if report.conflicts.len() > SHOWN {
        eprintln!(
            "  and {} more (--json has all)",
            report.conflicts.len() - SHOWN
        );
    }
    if report.stopped
        && report
            .conflicts
            .iter()
            .all(|conflict| conflict.can_be_forced)
    {
        eprintln!(
            "  Undo the later operations as well, or: --keep-both puts what comes back beside what is there; --force \
             puts what is there into the trash or the versions."
        );
    }
    for note in &report.notes {
        eprintln!("trumanfs: {note}");
    }
    if report.dry_run {
        for change in &report.changes {
            printer.line(format_args!("would {change}"));
        }
    }
    if report.stopped {
        return;
    }
    let deeds = told(&report.deeds);
    let operations = count(report.operations, "operation");
    match (report.dry_run, report.record, &report.failed) {
        (true, ..) => printer.line(format_args!("would undo {operations}: {deeds}")),
        (_, None, _) if !report.notes.is_empty() => {
            printer.line(format_args!("nothing else could be taken back"));
        }
        (_, None, _) => printer.line(format_args!("nothing to do: it is as it was")),
        (_, Some(_), Some(error)) => {
            printer.flush();
            let (extent, (moves, contents, attributes)) = (report.extent, report.done);
            eprintln!(
                "trumanfs: stopped half-way: {error}\n  Done so far: {moves} of {}, {contents} of {}, {attributes} of {} with other attributes. {go_on}",
                count(extent.names, "move"),
                count(extent.contents, "content"),
                count(extent.attributes, "thing"),
            );
        }
        (_, Some(record), None) => {
            let done = match taken_back {
                Some(what) => format!("redone: took back “{what}”"),
                None => format!("undone {operations}"),
            };
            let but = match report.notes.is_empty() {
                true => "",
                false => ", but for what is said above",
            };
            printer.line(format_args!("{done}{but}: {deeds} (operation {record})"));
        }
    }
}
