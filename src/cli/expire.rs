//! `expire`: retention.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::argument_values::{ByteSize, duration};
use super::exit::ExitReason;
use super::output::{Printer, bytes, count, name_store, print_line, warn};
use super::progress::{bar, spinner};
use super::shown_time;
use crate::client::{Client, ExpireResult, PurgeResult};
use crate::error::Result;
use crate::operator::expire::{ExpirePlan, ExpireRules};

/// Arguments of `trumanfs expire`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each --keep option keeps a part of the history, and everything since; what is older than all of them goes for good:
entries of the trash, former contents, journals. It never asks: look with --dry-run first.")]
#[command(group(ArgGroup::new("rules").required(true).multiple(true)
    .args(["keep_within", "keep_last", "keep_daily", "keep_checkpoints", "keep_marks", "max_size"])))]
pub(super) struct ExpireArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Everything of this time: 30m, 12h, 30d, 4w
    #[arg(long, value_name = "TIME", value_parser = duration)]
    keep_within: Option<chrono::TimeDelta>,
    /// The newest N runs; what was done in no run counts as one for each session
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    keep_last: Option<usize>,
    /// The state at the end of each of the newest N days on which something was recorded
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    keep_daily: Option<usize>,
    /// All checkpoints
    #[arg(long)]
    keep_checkpoints: bool,
    /// All turns that are marked
    #[arg(long)]
    keep_marks: bool,
    /// No more than this, as in 500M or 20G: the oldest goes first, though another option would keep it, but not what
    /// --keep-checkpoints and --keep-marks keep
    #[arg(long, value_name = "SIZE")]
    max_size: Option<ByteSize>,
    /// Say what would go, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text}: a number from 1 is wanted")),
        Ok(number) => Ok(number),
    }
}

/// The part of the history that goes or went, in JSON.
#[derive(serde::Serialize)]
struct ExpireSummary<'a> {
    dry_run: bool,
    #[serde(flatten)]
    plan: &'a ExpirePlan,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<ExpireDone>,
}

/// The outcome, in JSON.
#[derive(serde::Serialize)]
struct ExpireDone {
    purged: u64,
    bytes: u64,
    sessions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// Deletes the oldest part of the history.
pub(super) fn expire(args: &ExpireArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    if !args.json {
        name_store(client.path());
    }
    let rules = ExpireRules {
        within: args.keep_within,
        last: args.keep_last,
        daily: args.keep_daily,
        checkpoints: args.keep_checkpoints,
        marks: args.keep_marks,
        max_size: args.max_size.map(|size| size.0),
    };
    let wait = spinner("reading the journals");
    let plan = client.expire_plan(&rules);
    wait.finish_and_clear();
    let plan = plan?;
    if args.dry_run || plan.is_empty() {
        if args.json {
            Printer::new().json(&ExpireSummary {
                dry_run: args.dry_run,
                plan: &plan,
                done: None,
            })?;
        } else {
            print_plan(&plan);
        }
        return Ok(match plan.is_empty() {
            true => ExitReason::Nothing,
            false => ExitReason::Ok,
        });
    }
    let progress = bar(plan.disk());
    let shown = ExpirePlan {
        before: plan.before.clone(),
        time: plan.time.clone(),
        because: plan.because,
        ..ExpirePlan::default()
    };
    let outcome = client.expire(plan, &mut |free| progress.inc(free));
    progress.finish_and_clear();
    let (purged, expired) = outcome?;
    let done = done(&purged, expired);
    let is_partly = done.stopped.is_some() || !done.left.is_empty();
    if args.json {
        Printer::new().json(&ExpireSummary {
            dry_run: false,
            plan: &shown,
            done: Some(done),
        })?;
    } else {
        print_done(&shown, &done);
    }
    Ok(match is_partly {
        true => ExitReason::Partly,
        false => ExitReason::Ok,
    })
}

fn done(purged: &PurgeResult, expired: ExpireResult) -> ExpireDone {
    let entries = purged.left.iter();
    let entries = entries.map(|(entry, why)| format!("{}: {why}", crate::name::escape(&entry.0)));
    let sessions = expired.left.iter();
    let sessions = sessions.map(|(session, why)| format!("session {session}: {why}"));
    ExpireDone {
        purged: purged.entries,
        bytes: purged.bytes,
        left: entries.chain(sessions).collect(),
        stopped: purged.stopped.clone(),
        sessions: expired.sessions,
    }
}

/// Says where the history begins then, and why.
fn beginning(plan: &ExpirePlan) -> String {
    let Some(before) = &plan.before else {
        return String::new();
    };
    let time = plan.time.as_deref().map(shown_time::time);
    let time = time.map_or_else(String::new, |time| format!(" of {time}"));
    format!("operation {before}{time} ({})", plan.because)
}

fn print_plan(plan: &ExpirePlan) {
    if plan.is_empty() {
        return print_line(format_args!("nothing to expire"));
    }
    let entries = count(plan.entries.len() as u64, "entry");
    print_line(format_args!(
        "would delete {entries} of the trash, {} and the journals of {}: at most {} would become free",
        count(plan.versions.len() as u64, "former content"),
        count(plan.sessions.len() as u64, "session"),
        bytes(plan.disk()),
    ));
    print_line(format_args!(
        "the history would begin with {}",
        beginning(plan)
    ));
}

fn print_done(plan: &ExpirePlan, done: &ExpireDone) {
    for left in &done.left {
        warn(false, &format!("stays: {left}"));
    }
    if let Some(why) = &done.stopped {
        return warn(
            false,
            &format!("stopped half-way: {why}\n  The same command goes on, mounted or not."),
        );
    }
    print_line(format_args!(
        "deleted {} and the journals of {}: {} free",
        count(done.purged, "kept thing"),
        count(done.sessions.len() as u64, "session"),
        bytes(done.bytes),
    ));
    print_line(format_args!("the history begins with {}", beginning(plan)));
}
