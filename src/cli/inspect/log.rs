//! `log`: what was changed, by whom, and when.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};

use super::super::exit::ExitReason;
use super::super::output::{Printer, TextStyle, warn};
use super::super::shown_time::time;
use super::words::{activity_words, describe, process_words, run};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::journal::{Actor, MERGE, Op, Origin, Record, RecordHeader, RunId, WORDS};
use crate::name::escape;
use crate::operator::activity_fold::{Activity, ActivityFold, FoldEvent};
use crate::operator::filter::{PathGlobs, RecordFilter};
use crate::operator::log::ForwardRecords;
use crate::operator::session::{FOR_REQUESTS, is_for_requests};

/// How often it is looked whether something has come.
const POLL_PAUSE: Duration = Duration::from_millis(200);
/// After so many looks at nothing, what has come is told.
const MAX_EMPTY_POLLS: u32 = 5;

/// Arguments of `trumanfs log`.
#[derive(Args, Debug)]
pub(in crate::cli) struct LogArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Only what concerns these paths in the home, and what is below them
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Another store to look into, too; may be given several times
    #[arg(long, value_name = "STORE", value_hint = ValueHint::DirPath, conflicts_with = "follow")]
    also: Vec<PathBuf>,
    /// Print the records as they are, one JSON object a line, each with its `session`, and its `store_path` with --also
    #[arg(long)]
    json: bool,
    /// Print each operation, instead of what a process did in one go
    #[arg(long, short)]
    all: bool,
    /// Go on printing what comes
    #[arg(long, short)]
    follow: bool,
    /// Only this session: its id, a unique beginning of it, or `last`
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,
    /// Only this run, one request of an executor: its id, a unique beginning of it, or `last`
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only what this process did
    #[arg(long, short, value_name = "PID")]
    pid: Option<u32>,
    /// Only what this program did: its name, its file's name, or its path
    #[arg(long, value_name = "NAME")]
    program: Option<OsString>,
    /// Only what concerns paths that match this pattern (and what is below them), written as in .gitignore
    #[arg(long, value_name = "GLOB")]
    path: Option<OsString>,
    /// Only these operations
    #[arg(long, value_name = "OP", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(WORDS))]
    op: Vec<String>,
    /// Only what came after: a time as "2026-11-22 10:15" (UTC, unless +0100 or the like follows), 30m (ago), today or
    /// yesterday; an operation, a session, a checkpoint
    #[arg(long, value_name = "POINT", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only what came up to then
    #[arg(long, value_name = "POINT", allow_hyphen_values = true)]
    until: Option<String>,
    /// Print to the terminal itself, without a pager
    #[arg(long)]
    no_pager: bool,
}

impl LogArgs {
    /// Returns whether a pager may show what is printed.
    pub(in crate::cli) fn is_paged(&self) -> bool {
        !self.json && !self.follow && !self.no_pager
    }
}

/// Prints the log, of several stores one after the other.
pub(in crate::cli) fn log(args: &LogArgs) -> Result<ExitReason> {
    if args.also.is_empty() {
        return log_of_store(args, &args.target);
    }
    let (mut partly, mut any) = (false, false);
    for target in std::iter::once(&args.target).chain(&args.also) {
        match log_of_store(args, target) {
            Ok(ExitReason::Nothing) => {}
            Ok(ExitReason::Ok) => any = true,
            Ok(_) => partly = true,
            // It has not got the run or the session that was asked for.
            Err(Error::Missing { .. }) if args.run.is_some() || args.session.is_some() => {}
            Err(error @ Error::Usage { .. }) => return Err(error),
            Err(error) => {
                partly = true;
                let store = escape(target.as_os_str().as_bytes());
                warn(args.json, &format!("{store}: {}", error.full_message()));
            }
        }
    }
    Ok(match (partly, any) {
        (true, _) => ExitReason::Partly,
        (false, false) => ExitReason::Nothing,
        (false, true) => ExitReason::Ok,
    })
}

fn log_of_store(args: &LogArgs, target: &Path) -> Result<ExitReason> {
    let client = Client::open(target)?;
    let filter = filter(&client, args)?;
    let mut log = client.log(&filter)?;
    let mut log_printer = LogPrinter {
        printer: Printer::new(),
        form: match (args.json, args.all) {
            (true, _) => LogFormat::Json,
            (false, true) => LogFormat::All,
            (false, false) => LogFormat::Folded(ActivityFold::default()),
        },
        store: (!args.also.is_empty()).then(|| StoreHeading {
            path: escape(client.path().as_os_str().as_bytes()),
            is_due: true,
        }),
        session: String::new(),
        merges: BTreeSet::new(),
    };
    let (mut damaged, mut any) = (false, false);
    let mut looks = 0;
    loop {
        match next(&mut log, &filter, &mut log_printer) {
            Ok(true) => {
                any = true;
                looks = 0;
            }
            Ok(false) if args.follow => {
                if looks == MAX_EMPTY_POLLS {
                    log_printer.end()?;
                }
                looks += 1;
                log_printer.printer.flush();
                std::thread::sleep(POLL_PAUSE);
            }
            Ok(false) => break,
            Err(error @ Error::Damaged(_)) => {
                damaged = true;
                log.skip_session();
                // In its place among the lines.
                log_printer.end()?;
                log_printer.printer.flush();
                warn(args.json, &error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    log_printer.end()?;
    Ok(match (damaged, any) {
        (true, _) => ExitReason::Partly,
        (false, false) => ExitReason::Nothing,
        (false, true) => ExitReason::Ok,
    })
}

fn filter(client: &Client, args: &LogArgs) -> Result<RecordFilter> {
    let point = |text: &Option<String>| {
        let text = text.as_deref();
        text.map(|text| client.point(text)).transpose()
    };
    let glob = |pattern: &OsString| {
        let text = pattern.to_str().ok_or_else(|| {
            Error::usage(
                format!("{:?} is not UTF-8", pattern),
                "Write a `?` for a byte that is not.",
            )
        })?;
        PathGlobs::parse(text)
    };
    let session = args.session.as_deref();
    Ok(RecordFilter {
        session: session.map(|text| client.session(text)).transpose()?,
        run: args
            .run
            .as_deref()
            .map(|text| client.run(text))
            .transpose()?,
        pid: args.pid,
        program: args.program.as_ref().map(|name| escape(name.as_bytes())),
        path: args.path.as_ref().map(glob).transpose()?,
        paths: args
            .paths
            .iter()
            .map(|path| client.in_home(path))
            .collect::<Result<_>>()?,
        ops: args.op.clone(),
        since: point(&args.since)?,
        until: point(&args.until)?,
    })
}

/// Goes to the next record that is wanted, and hands it to the printer.
fn next(
    log: &mut ForwardRecords<'_>,
    filter: &RecordFilter,
    log_printer: &mut LogPrinter,
) -> Result<bool> {
    while log.advance()? {
        let header = log.header()?;
        if filter.selects(log.session(), &header) {
            log_printer.record(log.session(), &header)?;
            return Ok(true);
        }
    }
    Ok(false)
}

enum LogFormat {
    Json,
    All,
    Folded(ActivityFold),
}

/// The heading of one of several stores.
struct StoreHeading {
    path: String,
    /// True until it was printed.
    is_due: bool,
}

struct LogPrinter {
    printer: Printer,
    form: LogFormat,
    store: Option<StoreHeading>,
    /// The session whose heading was printed last.
    session: String,
    /// The merges that were printed: their records have the origin of an undo.
    merges: BTreeSet<RunId>,
}

impl LogPrinter {
    fn record(&mut self, session: &str, record: &RecordHeader<'_>) -> Result<()> {
        match &mut self.form {
            LogFormat::Json => {
                let rest = record.line.strip_prefix(b"{").unwrap_or_default();
                let mut first = "{".to_owned();
                if let Some(store) = &self.store {
                    let _ = write!(first, "\"store_path\":{},", serde_json::json!(store.path));
                }
                // The first record of a session names it by itself.
                if record.op != "begin" {
                    let _ = write!(first, "\"session\":\"{session}\",");
                }
                self.printer.bytes(first.as_bytes());
                self.printer.bytes(rest);
                self.printer.bytes(b"\n");
            }
            LogFormat::All => self.print_record(session, record.line)?,
            LogFormat::Folded(fold) => {
                fold.add(session, record);
                self.print_complete()?;
            }
        }
        Ok(())
    }

    /// Prints what is still held back.
    fn end(&mut self) -> Result<()> {
        if let LogFormat::Folded(fold) = &mut self.form {
            fold.close_all();
        }
        self.print_complete()
    }

    fn print_complete(&mut self) -> Result<()> {
        while let LogFormat::Folded(fold) = &mut self.form
            && let Some(event) = fold.next_complete()
        {
            match event {
                FoldEvent::Single { session, line, .. } => self.print_record(&session, &line)?,
                FoldEvent::Activity(activity) => self.print_activity(&activity),
            }
        }
        Ok(())
    }

    fn print_record(&mut self, session: &str, line: &[u8]) -> Result<()> {
        let record = Record::parse(line)
            .map_err(|error| Error::Damaged(format!("session {session}: not a record: {error}")))?;
        if let Op::Begin { home, version, .. } = &record.op {
            let place = match home.as_ref().map(|home| escape(&home.0)) {
                None => "worked on while not mounted".to_owned(),
                Some(home) if is_for_requests(&home) => FOR_REQUESTS.to_owned(),
                Some(home) => format!("at {home}"),
            };
            self.print_heading(session, &format!(" {place}, trumanfs {version}"));
            return Ok(());
        }
        self.print_heading(session, "");
        if record.op.is_merge() {
            self.merges.extend(record.origin.run);
        }
        let text = describe(&record.op);
        // The record that begins a run stands for the run; those that follow have its id.
        let (by, text) = match (record.origin.run, &record.op) {
            (Some(_), Op::Run { .. } | Op::Undo { .. }) => (self.run(record.origin), text),
            (Some(run), _) => {
                let run = self.printer.style(TextStyle::Faint, &format!("({run})"));
                (of_actor(record.actor.as_ref()), format!("{text}  {run}"))
            }
            (None, _) => (of_actor(record.actor.as_ref()), text),
        };
        let number = record.seq.to_string();
        self.print_entry(&number, &record.time, &by, &text);
        Ok(())
    }

    fn run(&self, origin: Origin) -> String {
        match origin.run.filter(|run| self.merges.contains(run)) {
            Some(merge) => format!("{MERGE} {merge}"),
            None => run(origin),
        }
    }

    fn print_activity(&mut self, activity: &Activity) {
        self.print_heading(&activity.session, "");
        let numbers = format!("{}–{}", activity.first, activity.last);
        let began = activity.began.to_rfc3339();
        let text = activity_words(activity, &self.printer);
        let by = match activity.origin.run {
            Some(_) => self.run(activity.origin),
            None => process_words(&activity.comm, activity.pid),
        };
        self.print_entry(&numbers, &began, &by, &text);
    }

    fn print_heading(&mut self, session: &str, more: &str) {
        if self.session == session {
            return;
        }
        session.clone_into(&mut self.session);
        if let Some(store) = self.store.as_mut().filter(|store| store.is_due) {
            store.is_due = false;
            let text = format!("══ {}", store.path);
            let text = self.printer.style(TextStyle::Heading, &text);
            self.printer.line(format_args!("{text}"));
        }
        let text = format!("── session {session}{more}");
        let text = self.printer.style(TextStyle::Heading, &text);
        self.printer.line(format_args!("{text}"));
    }

    fn print_entry(&mut self, numbers: &str, at: &str, by: &str, text: &str) {
        let width = if matches!(self.form, LogFormat::All) {
            6
        } else {
            11
        };
        // Padded before it is coloured: a colour has no width.
        let when = self.printer.style(TextStyle::Faint, &time(at));
        self.printer
            .line(format_args!("{numbers:>width$}  {when}  {by:<20}  {text}"));
    }
}

/// Says who did something, where a process did it.
fn of_actor(actor: Option<&Actor>) -> String {
    actor.map_or_else(String::new, |actor| process_words(&actor.comm, actor.pid))
}
