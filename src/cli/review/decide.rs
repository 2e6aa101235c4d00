//! `accept` and `reject`: what becomes of reviewed changes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::super::exit::{ExitReason, with_advice};
use super::super::joint_undo::{name_other_parts, undo_in_all};
use super::super::output::{Printer, count, quote};
use super::super::undo::{UndoModeArgs, print_report, undo_and_print};
use crate::client::{Client, Review};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::undo::OnConflict;

/// Which changes are meant.
#[derive(Args, Debug)]
struct ChangeArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The run whose changes are meant, one request of an executor: its id, a unique beginning of it, or `last`. Then,
    /// only its changes of these paths and of what is below them. With --session, paths alone
    #[arg(value_name = "RUN] [PATH")]
    changes: Vec<OsString>,
    /// The changes of a session instead of a run, whoever made them; `last` is the newest
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only what this turn of the run changed: its number or `last`
    #[arg(long, value_name = "N", conflicts_with = "session")]
    turn: Option<String>,
    /// Only these hunks of one path, by the numbers that `review --patch` shows: 2, or 1,3
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    hunk: Vec<usize>,
}

/// Arguments of `trumanfs accept`.
#[derive(Args, Debug)]
pub(in crate::cli) struct AcceptArgs {
    #[command(flatten)]
    which: ChangeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `trumanfs reject`.
#[derive(Args, Debug)]
pub(in crate::cli) struct RejectArgs {
    #[command(flatten)]
    which: ChangeArgs,
    #[command(flatten)]
    how: UndoModeArgs,
}

impl ChangeArgs {
    /// Returns the run as it was typed, and the paths.
    fn run_and_paths(&self) -> Result<(Option<&str>, &[OsString])> {
        if self.session.is_some() {
            return Ok((None, &self.changes));
        }
        let usage = |what: &str| {
            Error::usage(
                what,
                "Give a run or --session SESSION. `trumanfs review` names the runs that changed something.",
            )
        };
        let (run, paths) = self
            .changes
            .split_first()
            .ok_or_else(|| usage("whose changes?"))?;
        let run = run
            .to_str()
            .ok_or_else(|| usage("a run's id has only letters and digits"))?;
        Ok((Some(run), paths))
    }

    /// Reviews what is meant.
    fn review<'c>(&self, client: &'c Client) -> Result<(Review<'c>, Vec<WorldPath>)> {
        let (run, paths) = self.run_and_paths()?;
        let paths = paths.iter().map(|path| client.in_home(path));
        let paths = paths.collect::<Result<_>>()?;
        let scope = match &self.turn {
            Some(turn) => client.review_scope_of_turn(run, turn)?,
            None => client.review_scope(run, self.session.as_deref())?,
        };
        Ok((client.review(scope, false)?, paths))
    }

    /// Returns the path that hunks are meant of; `None` where none are.
    fn of_hunks<'p>(&self, paths: &'p [WorldPath]) -> Result<Option<&'p WorldPath>> {
        match (self.hunk.is_empty(), paths) {
            (true, _) => Ok(None),
            (false, [path]) => Ok(Some(path)),
            (false, _) => Err(Error::usage(
                "--hunk goes with one path",
                "The numbers are those of one file: `trumanfs review --patch` shows them.",
            )),
        }
    }

    fn command_words(&self) -> String {
        quote(self.target.as_os_str().as_bytes())
    }
}

/// Accepts changes.
pub(in crate::cli) fn accept(args: &AcceptArgs) -> Result<ExitReason> {
    let client = Client::open(&args.which.target)?;
    let (review, paths) = args.which.review(&client)?;
    let next = "`trumanfs review` shows what is left; accepting once more is safe.";
    let accepted = match args.which.of_hunks(&paths)? {
        Some(path) => client.accept_hunks(&review, path, &args.which.hunk),
        None => client.accept(&review, &paths),
    };
    let accepted = accepted.map_err(|error| with_advice(error, next))?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&accepted)?
    } else {
        let what = match (accepted.paths, args.which.hunk.len() as u64) {
            (0, hunks) => count(hunks, "hunk"),
            (paths, _) => count(paths, "path"),
        };
        printer.line(format_args!(
            "accepted {what} (operation {})",
            accepted.record.seq
        ));
    }
    if let Some(run) = args.which.run_and_paths()?.0 {
        name_other_parts(&client.other_parts(run)?, "accept", args.json);
    }
    Ok(ExitReason::Ok)
}

/// Takes changes back.
pub(in crate::cli) fn reject(args: &RejectArgs) -> Result<ExitReason> {
    let client = Client::open(&args.which.target)?;
    let (review, paths) = args.which.review(&client)?;
    if let Some(path) = args.which.of_hunks(&paths)? {
        let how = args.how.options();
        if how.on_conflict != OnConflict::Stop {
            return Err(Error::usage(
                "--keep-both and --force do not go with --hunk",
                "Without --hunk, they are for the whole path.",
            ));
        }
        let report = client.reject_hunks(&review, path, &args.which.hunk, how.dry_run)?;
        return print_report(&report, &args.how, "", None);
    }
    let request = client.reject_request(&review, &paths, args.how.options())?;
    let next = format!(
        "The same command goes on, mounted or not; `trumanfs redo {}` takes back what was done. Both are safe.",
        args.which.command_words()
    );
    let others = args
        .which
        .run_and_paths()?
        .0
        .map(|run| client.other_parts(run));
    let others = others
        .transpose()?
        .filter(|others| !others.parts.is_empty());
    let Some(others) = others else {
        return undo_and_print(&client, &request, &args.how, &next, None);
    };
    if !paths.is_empty() || args.which.turn.is_some() {
        name_other_parts(&others, "reject", args.how.json);
        return undo_and_print(&client, &request, &args.how, &next, None);
    }
    let of_other = |other: &Client, run: &str| {
        let review = other.review(other.review_scope(Some(run), None)?, false)?;
        other.reject_request(&review, &[], args.how.options())
    };
    let output = args.how.output(&next, None);
    undo_in_all(&client, request, &others, &of_other, &output)
}
