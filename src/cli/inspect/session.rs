//! `session list` and `session show`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::super::exit::ExitReason;
use super::super::output::{Printer, TextStyle, bytes, count, quote, warn};
use super::super::shown_time::time;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::operator::session::{FOR_REQUESTS, Session, SessionEnding, is_for_requests};

/// The number of programs that are named in the list.
const MAX_NAMED_PROGRAMS: usize = 5;

/// Subcommands of `trumanfs session`.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum SessionCommand {
    /// Lists the sessions of a store: when, where, how much was changed, by which programs
    List(SessionListArgs),
    /// Shows one session
    Show(SessionShowArgs),
}

/// Arguments of `trumanfs session list`.
#[derive(Args, Debug)]
pub(in crate::cli) struct SessionListArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs session show`.
#[derive(Args, Debug)]
pub(in crate::cli) struct SessionShowArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Its id, a unique beginning of it, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists sessions, or shows one.
pub(in crate::cli) fn session(command: SessionCommand) -> Result<ExitReason> {
    match command {
        SessionCommand::List(args) => list(&args),
        SessionCommand::Show(args) => show(&args),
    }
}

fn list(args: &SessionListArgs) -> Result<ExitReason> {
    let sessions = Client::open(&args.target)?.sessions()?;
    let mut printer = Printer::new();
    for session in &sessions {
        if args.json {
            printer.json(session)?;
        } else {
            print_entry(&mut printer, session);
        }
    }
    drop(printer);
    Ok(exit_reason(&sessions, args.json))
}

fn show(args: &SessionShowArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let session = client.session_by_id(client.session(&args.session)?)?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&session)?
    } else {
        print_whole(&mut printer, &session, &args.target)
    }
    drop(printer);
    Ok(exit_reason(std::slice::from_ref(&session), args.json))
}

/// Damage is told where it is, and once more in a way that a script notices.
fn exit_reason(sessions: &[Session], as_json: bool) -> ExitReason {
    let mut exit = if sessions.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    };
    for session in sessions {
        if let Some(damage) = &session.damage {
            let damage = Error::Damaged(format!("session {}: {damage}", session.id));
            warn(as_json, &damage.to_string());
            exit = ExitReason::Partly;
        }
    }
    exit
}

fn print_entry(printer: &mut Printer, session: &Session) {
    let id = printer.style(TextStyle::Heading, &session.id);
    printer.line(format_args!("{id}  {}", span(session)));
    let mut programs: Vec<&str> = session
        .programs
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let more = programs.len().saturating_sub(MAX_NAMED_PROGRAMS);
    programs.truncate(MAX_NAMED_PROGRAMS);
    let by = match (programs.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(" by {}", programs.join(", ")),
        (false, more) => format!(" by {} and {more} more", programs.join(", ")),
    };
    let versions = match session.versions_bytes {
        0 => String::new(),
        size => format!("; versions take {}", bytes(size)),
    };
    let changes = count(session.changes, "change");
    printer.line(format_args!(
        "    {}, {changes}{by}{versions}",
        place(session)
    ));
}

fn place(session: &Session) -> String {
    match (&session.home, session.end) {
        (Some(home), _) if is_for_requests(home) => FOR_REQUESTS.to_owned(),
        (Some(home), _) => format!("home {home}"),
        (None, SessionEnding::Absent) => "no journal".to_owned(),
        (None, _) => "worked on while not mounted".to_owned(),
    }
}

fn span(session: &Session) -> String {
    let began = session
        .began
        .as_deref()
        .map_or_else(|| "?".to_owned(), time);
    let last = session.last.as_deref().map_or_else(|| "?".to_owned(), time);
    // The day once, where it is the same.
    let last = match (began.split_once(' '), last.split_once(' ')) {
        (Some((day, _)), Some((same, clock))) if day == same => clock.to_owned(),
        _ => last,
    };
    match session.end {
        SessionEnding::Clean => format!("{began} – {last}"),
        SessionEnding::Running => format!("{began} – still running"),
        SessionEnding::Abrupt => format!("{began} – {last} ended without unmounting"),
        SessionEnding::Absent => "has no journal".to_owned(),
    }
}

fn print_whole(printer: &mut Printer, session: &Session, target: &Path) {
    let id = printer.style(TextStyle::Heading, &session.id);
    printer.line(format_args!("session {id}"));
    let mut field = |name: &str, text: &str| printer.line(format_args!("  {name:<12}{text}"));
    field("time", &span(session));
    field("place", &place(session));
    if let (Some(host), Some(version)) = (&session.host, &session.version) {
        field("machine", &format!("{host}, trumanfs {version}"));
    }
    let journal = bytes(session.journal_bytes);
    field(
        "journal",
        &format!("{} in {journal}", count(session.records, "record")),
    );
    let versions = match session.kept {
        0 => "none were needed".to_owned(),
        kept => format!(
            "{} kept, {} on disk",
            count(kept, "former content"),
            bytes(session.versions_bytes)
        ),
    };
    field("versions", &versions);
    let ops: Vec<String> = session
        .ops
        .iter()
        .map(|(op, number)| format!("{op} {number}"))
        .collect();
    field(
        "changes",
        &format!("{}: {}", session.changes, ops.join(", ")),
    );
    for (index, (program, changes)) in session.programs.iter().enumerate() {
        let name = if index == 0 { "programs" } else { "" };
        field(name, &format!("{program}: {}", count(*changes, "change")));
    }
    if session.runs > 0 {
        let list = "`trumanfs log --op run` lists them";
        field("runs", &format!("{}; {list}", session.runs));
    }
    for mark in &session.marks {
        field(
            &mark.op,
            &format!("{} {} {}", mark.seq, time(&mark.time), mark.what),
        );
    }
    if session.changes > 0 {
        let target = quote(target.as_os_str().as_encoded_bytes());
        let id = &session.id;
        printer.line(format_args!(
            "  what it changed:   trumanfs diff {target} {id}.."
        ));
        printer.line(format_args!(
            "  to take it back:   trumanfs undo {target} --session {id}"
        ));
    }
}
