//! `trash usage` and `trash purge`.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::argument_values::{ByteSize, duration};
use super::exit::ExitReason;
use super::output::{Printer, bytes, count, name_store, print_line, warn};
use super::progress::{bar, spinner};
use crate::client::{Client, PurgeResult};
use crate::error::Result;
use crate::name::{EscapedBytes, escape};
use crate::operator::kept_versions::KeptVersion;
use crate::operator::purge::{PurgePlan, PurgeRequest, PurgeScope};
use crate::operator::trash::TrashEntry;
use crate::operator::usage::{SpaceShare, SpaceUsage};
use clap::Args;

/// Arguments of `trumanfs trash usage`.
#[derive(Args, Debug)]
pub(super) struct UsageArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where to purge.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum VersionsFlag {
    /// Former contents as well as entries of the trash
    Also,
    /// Former contents only
    Only,
}

/// Arguments of `trumanfs trash purge`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is purged is gone for good. Each condition narrows the choice; without any nothing is done.
It never asks: look with --dry-run first. What is purged is recorded.")]
#[command(group(clap::ArgGroup::new("choice").required(true).multiple(true)
    .args(["entries", "all", "older_than", "larger_than", "keep_last", "ephemeral"])))]
pub(super) struct PurgeArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Entries, as `trash list` names them
    #[arg(value_name = "ENTRY")]
    entries: Vec<std::ffi::OsString>,
    /// Everything
    #[arg(long, conflicts_with_all = ["entries", "older_than", "larger_than", "keep_last", "ephemeral"])]
    all: bool,
    /// What was removed longer ago than this: 30m, 12h, 7d, 4w
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older_than: Option<chrono::TimeDelta>,
    /// What is at least this big: 500K, 100M, 2G
    #[arg(long, value_name = "SIZE")]
    larger_than: Option<ByteSize>,
    /// All but the newest N entries; of former contents, all but each file's newest N
    #[arg(long, value_name = "N")]
    keep_last: Option<usize>,
    /// Noise: what one process made and removed again, lock files, journals of databases
    #[arg(long)]
    ephemeral: bool,
    /// Former contents of files too; `--versions=only`: these and nothing else
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true,
        default_missing_value = "also", conflicts_with_all = ["entries", "ephemeral"])]
    versions: Option<VersionsFlag>,
    /// Say what would be purged, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Says what the trash takes.
pub(super) fn print_usage(args: &UsageArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let bar = spinner("reading the trash and the journals");
    let usage = client.usage()?;
    bar.finish_and_clear();
    if args.json {
        Printer::new().json(&usage)?
    } else {
        print(&usage)
    }
    Ok(match usage.trash.count + usage.versions.count {
        0 => ExitReason::Nothing,
        _ => ExitReason::Ok,
    })
}

fn print(usage: &SpaceUsage) {
    print_line(format_args!(
        "trash           {:>10}  {}",
        bytes(usage.trash.disk),
        count(usage.trash.count, "entry")
    ));
    print_line(format_args!(
        "former contents {:>10}  {}",
        bytes(usage.versions.disk),
        count(usage.versions.count, "version")
    ));
    let row = |name: &str, share: &SpaceShare| {
        let name = if name.is_empty() { "unknown" } else { name };
        print_line(format_args!(
            "  {:>10} {:>7}  {:>10} {:>7}  {name}",
            bytes(share.trash.disk),
            share.trash.count,
            bytes(share.versions.disk),
            share.versions.count,
        ));
    };
    if usage.trash.count + usage.versions.count == 0 {
        return;
    }
    print_line(format_args!(
        "\n  {:>18}  {:>18}  by session",
        "trash", "former contents"
    ));
    for (session, share) in &usage.sessions {
        row(session, share);
    }
    print_line(format_args!(
        "\n  {:>18}  {:>18}  by program",
        "trash", "former contents"
    ));
    let mut programs: Vec<_> = usage.programs.iter().collect();
    programs.sort_by_key(|(_, share)| std::cmp::Reverse(share.trash.disk + share.versions.disk));
    for (program, share) in programs {
        row(program, share);
    }
    if !usage.biggest.is_empty() {
        print_line(format_args!("\nbiggest entries of the trash"));
    }
    usage.biggest.iter().for_each(print_entry);
    if !usage.biggest_versions.is_empty() {
        print_line(format_args!("\nbiggest former contents"));
    }
    usage.biggest_versions.iter().for_each(print_version);
}

fn print_entry(entry: &TrashEntry) {
    let was = match &entry.path {
        Some(path) => format!(", was {path}{}", if entry.directory { "/" } else { "" }),
        None => String::new(),
    };
    print_line(format_args!(
        "  {:>10}  {}{was}",
        bytes(entry.disk),
        escape(&entry.entry.0)
    ));
}

fn print_version(version: &KeptVersion) {
    print_line(format_args!(
        "  {:>10}  {} before {}:{}",
        bytes(version.disk),
        version.path,
        version.session,
        version.seq
    ));
}

/// Deletes for good.
pub(super) fn purge(args: PurgeArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let (dry_run, json) = (args.dry_run, args.json);
    if !json {
        name_store(client.path());
    }
    let bar = spinner("choosing");
    let plan = client.purge_plan(&purge_request(args))?;
    bar.finish_and_clear();
    if plan.needed > 0 && !json {
        let left = match plan.needed {
            1 => "1 former content is".to_owned(),
            needed => format!("{needed} former contents are"),
        };
        let why = "older ones, which are not chosen, are made from them";
        warn(false, &format!("{left} left: {why}"));
    }
    if plan.undated > 0 && !json {
        let left = match plan.undated {
            1 => "1 entry is".to_owned(),
            undated => format!("{undated} entries are"),
        };
        let why = "no record says when they were removed. Name them to purge them, or give --all";
        warn(false, &format!("{left} left: {why}"));
    }
    if dry_run {
        return print_forecast(&plan, json);
    }
    let purged = if plan.entries.is_empty() && plan.versions.is_empty() {
        PurgeResult::default()
    } else {
        purge_with_progress(&client, &plan)?
    };
    if json {
        Printer::new().json(&PurgeSummary::of(&purged, &plan))?
    } else {
        print_purged(&client, &purged, &plan)?
    }
    Ok(if !purged.left.is_empty() || purged.stopped.is_some() {
        ExitReason::Partly
    } else if plan.entries.is_empty() && plan.versions.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

fn purge_request(args: PurgeArgs) -> PurgeRequest {
    PurgeRequest {
        before: args.older_than.map(|age| chrono::Utc::now() - age),
        larger_than: args.larger_than.map(|size| size.0),
        keep_last: args.keep_last,
        ephemeral: args.ephemeral,
        among: match args.versions {
            None => PurgeScope::Trash,
            Some(VersionsFlag::Also) => PurgeScope::Both,
            Some(VersionsFlag::Only) => PurgeScope::Versions,
        },
        entries: args
            .entries
            .into_iter()
            .map(|entry| EscapedBytes(entry.into_vec()))
            .collect(),
    }
}

/// The things that a purge would delete, in JSON.
#[derive(serde::Serialize)]
struct PurgeForecast<'a> {
    dry_run: bool,
    #[serde(flatten)]
    plan: &'a PurgePlan,
}

/// The things that a purge deleted, in JSON.
#[derive(serde::Serialize)]
struct PurgeSummary<'a> {
    dry_run: bool,
    purged: u64,
    names: u64,
    bytes: u64,
    needed: u64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    missing: &'a [EscapedBytes],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    left: &'a [(EscapedBytes, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: &'a Option<String>,
}

impl<'a> PurgeSummary<'a> {
    fn of(purged: &'a PurgeResult, plan: &PurgePlan) -> PurgeSummary<'a> {
        PurgeSummary {
            dry_run: false,
            purged: purged.entries,
            names: purged.names,
            bytes: purged.bytes,
            needed: plan.needed,
            missing: &purged.missing,
            left: &purged.left,
            stopped: &purged.stopped,
        }
    }
}

fn print_forecast(plan: &PurgePlan, as_json: bool) -> Result<ExitReason> {
    let chosen = (plan.entries.len() + plan.versions.len()) as u64;
    if as_json {
        Printer::new().json(&PurgeForecast {
            dry_run: true,
            plan,
        })?;
    } else {
        plan.entries.iter().for_each(print_entry);
        plan.versions.iter().for_each(print_version);
        match chosen {
            0 => print_line(format_args!("nothing to purge")),
            chosen => print_line(format_args!(
                "would purge {}: at most {} would become free",
                count(chosen, "thing"),
                bytes(bytes_on_disk(plan))
            )),
        }
    }
    Ok(if chosen == 0 {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

/// Returns the bytes on disk of all that is chosen.
fn bytes_on_disk(plan: &PurgePlan) -> u64 {
    let entries = plan.entries.iter().map(|entry| entry.disk);
    let versions = plan.versions.iter().map(|version| version.disk);
    entries.chain(versions).sum()
}

fn purge_with_progress(client: &Client, plan: &PurgePlan) -> Result<PurgeResult> {
    let bar = bar(bytes_on_disk(plan));
    let purged = client.purge(plan, &mut |free| bar.inc(free));
    bar.finish_and_clear();
    purged
}

fn print_purged(client: &Client, purged: &PurgeResult, plan: &PurgePlan) -> Result<()> {
    let chosen = (plan.entries.len() + plan.versions.len()) as u64;
    if let Some(why) = &purged.stopped {
        let left = client.still_there(plan)?;
        let gone = format!(
            "{} of {} are gone for good, {left} are still there. The same command goes on, mounted or not.",
            chosen.saturating_sub(left),
            count(chosen, "chosen thing"),
        );
        warn(false, &format!("stopped half-way: {why}\n  {gone}"));
    }
    match chosen {
        0 => print_line(format_args!("nothing to purge")),
        _ => print_line(format_args!(
            "purged {}: {} free",
            count(purged.entries, "thing"),
            bytes(purged.bytes)
        )),
    }
    for (entry, why) in &purged.left {
        let entry = escape(&entry.0);
        warn(false, &format!("{entry} could not be deleted whole: {why}"));
    }
    for entry in &purged.missing {
        warn(
            false,
            &format!("{} was not there any more", escape(&entry.0)),
        );
    }
    Ok(())
}
