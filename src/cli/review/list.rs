//! `review`: the list of changes that nobody has accepted, as lines or as JSON.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::super::exit::ExitReason;
use super::super::inspect::author_words;
use super::super::inspect::{letter, path_of};
use super::super::joint_undo::name_other_parts;
use super::super::output::{Printer, TextStyle, quote, warn};
use super::super::shown_time::time;
use super::open_screen::{at_screen, has_screen};
use super::patch::{ChangeWithHunks, print_patch};
use crate::client::Client;
use crate::error::Result;
use crate::operator::review::{ReviewScope, ReviewedPath};

/// Arguments of `trumanfs review`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ReviewArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Only what this run changed, one request of an executor: its id, a unique beginning of it, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "session")]
    run: Option<String>,
    /// Only what this turn of a run changed: its number or `last`, in the newest conversation or in that of --run
    #[arg(long, value_name = "N", conflicts_with = "session")]
    turn: Option<String>,
    /// Only what was changed in this session; without --run, --turn and --session, everything since the last mount
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Also list what was accepted
    #[arg(long)]
    all: bool,
    /// Print the differences line by line; what stands behind a hunk's `@@` is its number, for `accept` and `reject
    /// --hunk`
    #[arg(long)]
    patch: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Reviews: on a terminal with the screen, else as a list.
pub(in crate::cli) fn review(args: &ReviewArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let run = args.run.as_deref();
    let scope = match &args.turn {
        Some(turn) => client.review_scope_of_turn(run, turn)?,
        None => client.review_scope(run, args.session.as_deref())?,
    };
    if !args.json && !args.patch && has_screen() {
        let target = quote(args.target.as_os_str().as_bytes());
        return at_screen(client, scope, target, args.all);
    }
    list(args, &client, scope)
}

/// Lists what is to be reviewed.
fn list(args: &ReviewArgs, client: &Client, scope: ReviewScope) -> Result<ExitReason> {
    let review = client.review(scope, args.all)?;
    let mut printer = Printer::new();
    let mut is_known = true;
    for number in 0..review.len() {
        let Some(change) = review.change(number)? else {
            continue;
        };
        if let Some(unknown) = &change.difference.unknown {
            is_known = false;
            warn(args.json, &format!("{}: {unknown}", change.difference.path));
        }
        match (args.json, args.patch) {
            (true, false) => printer.json(&change)?,
            (true, true) => printer.json(&ChangeWithHunks::of(&review, number, &change))?,
            (false, false) => print_line(&mut printer, &change),
            (false, true) => {
                if let Err(error) = print_patch(&mut printer, (&review, number, args.all), &change)
                {
                    is_known = false;
                    let path = &change.difference.path;
                    warn(false, &format!("{path}: {}", error.full_message()));
                }
            }
        }
    }
    printer.flush();
    if let Some(run) = &args.run {
        name_other_parts(&client.other_parts(run)?, "review", args.json);
    }
    Ok(match (is_known, review.is_empty()) {
        (false, _) => ExitReason::Partly,
        (true, true) => ExitReason::Ok,
        (true, false) => ExitReason::Nothing,
    })
}

/// `M  /src/main.rs  mode 644 → 755, 2026-01-16 10:15:30 by vim, sed (run 4k2m9x0c7d1f)`
fn print_line(printer: &mut Printer, change: &ReviewedPath) {
    let (letter, style) = letter(change.difference.status);
    let letter = printer.style(style, &letter.to_string());
    let who: Vec<String> = change.by.iter().map(|by| author_words(&by.who)).collect();
    let time = change.time.as_deref().map(time).unwrap_or_default();
    let accepted = if change.accepted { ", accepted" } else { "" };
    let rights = change.difference.rights();
    let rights = rights.iter().map(|words| format!("{words}, "));
    let rights: String = rights.collect();
    let flag = change.flag.map(|flag| format!("{}, ", flag.words()));
    let flag = flag.map(|words| printer.style(TextStyle::Removed, &words));
    let flag = flag.unwrap_or_default();
    let line = printer.style(
        TextStyle::Faint,
        &format!("{rights}{time} by {}{accepted}", who.join(", ")),
    );
    printer.line(format_args!(
        "{letter}  {}  {flag}{line}",
        path_of(&change.difference)
    ));
}
