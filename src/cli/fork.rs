//! `fork` and `merge`: a second store of everything that a store has now, and its changes back into the first.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use super::escaping::print_error;
use super::exit::{ExitReason, with_advice};
use super::output::{Printer, count, quote, warn};
use crate::client::{Client, ForkMethod, ForkReport};
use crate::error::Result;
use crate::name::EscapedBytes;
use crate::operator::merge::{MergeReport, MergeRequest};
use crate::operator::undo::OnConflict;

/// Arguments of `trumanfs fork`.
#[derive(Args, Debug)]
pub(super) struct ForkArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// The new store: a name for a directory beside the store, or a path; nothing may be there yet
    name: PathBuf,
    /// Copy every byte where the file system cannot share blocks (ext4, tmpfs, another disk)
    #[arg(long)]
    copy: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Makes a fork.
pub(super) fn fork(args: &ForkArgs) -> Result<ExitReason> {
    let client = Client::open_or_begin(&args.target)?;
    let means = if args.copy {
        ForkMethod::Copied
    } else {
        ForkMethod::Cloned
    };
    let forked = client.fork(&args.name, means)?;
    if args.json {
        Printer::new().json(&forked)?
    } else {
        print(&forked)
    }
    Ok(if forked.notes.is_empty() {
        ExitReason::Ok
    } else {
        ExitReason::Partly
    })
}

fn print(forked: &ForkReport) {
    for note in &forked.notes {
        warn(false, note);
    }
    let counts = &forked.counts;
    let shares = match (forked.means, counts.copied) {
        (ForkMethod::Cloned, 0) => "sharing all contents with the origin".to_owned(),
        (ForkMethod::Cloned, copied) => format!(
            "sharing contents with the origin but for {}",
            count(copied, "file")
        ),
        (ForkMethod::Copied, _) => "copied".to_owned(),
    };
    let mut printer = Printer::new();
    printer.line(format_args!(
        "forked {} to {}: {} and {}, {shares}",
        forked.origin,
        forked.store,
        count(counts.files, "file"),
        match counts.directories {
            1 => "1 directory".to_owned(),
            n => format!("{n} directories"),
        },
    ));
}

/// Arguments of `trumanfs merge`.
#[derive(Args, Debug)]
pub(super) struct MergeArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// A fork of it, mounted or not
    fork: PathBuf,
    /// Only what is at or below these paths, as paths in the home
    paths: Vec<OsString>,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Merge what can be, and put the fork's side of each conflict beside (NAME.from-FORK)
    #[arg(long, conflicts_with = "force")]
    keep_both: bool,
    /// Take the fork's side of each conflict; what is there goes into the trash or the versions
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Merges a fork.
pub(super) fn merge(args: &MergeArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let fork = Client::open(&args.fork)?;
    let path = std::fs::canonicalize(fork.path()).unwrap_or_else(|_| fork.path().to_owned());
    let paths = args.paths.iter().map(|path| client.in_home(path));
    let request = MergeRequest {
        fork: EscapedBytes(path.as_os_str().as_bytes().to_vec()),
        paths: paths.collect::<Result<_>>()?,
        choice: OnConflict::chosen(args.keep_both, args.force),
        dry_run: args.dry_run,
        run: None,
    };
    let target = quote(args.target.as_os_str().as_bytes());
    let next = format!(
        "The same command goes on, mounted or not; `trumanfs redo {target}` takes back what was done."
    );
    let report = client
        .merge(&fork, &request)
        .map_err(|error| with_advice(error, &next))?;
    if args.json {
        Printer::new().json(&report)?
    } else {
        print_merge(&report, &next)
    }
    let unresolved = report
        .conflicts
        .iter()
        .any(|conflict| conflict.beside.is_some())
        || args.keep_both && !report.conflicts.is_empty();
    Ok(if report.stopped {
        ExitReason::Conflict
    } else if report.failed.is_some() || !report.notes.is_empty() || unresolved {
        ExitReason::Partly
    } else if report.changes.is_empty() {
        ExitReason::Nothing
    } else {
        ExitReason::Ok
    })
}

fn print_merge(report: &MergeReport, next: &str) {
    /// The maximum of conflicts that are printed one by one.
    const MAX_PRINTED: usize = 20;
    let conflicts = &report.conflicts;
    if !conflicts.is_empty() {
        let number = count(conflicts.len() as u64, "conflict");
        let what = if report.stopped {
            "; nothing was changed"
        } else {
            ""
        };
        warn(false, &format!("{number}{what}"));
    }
    for conflict in conflicts.iter().take(MAX_PRINTED) {
        let beside = conflict.beside.as_ref();
        let beside = beside.map_or(String::new(), |path| format!("; the fork's is at {path}"));
        print_error(format_args!(
            "  {} {}{beside}",
            conflict.path, conflict.what
        ));
    }
    if conflicts.len() > MAX_PRINTED {
        print_error(format_args!(
            "  and {} more (--json has all)",
            conflicts.len() - MAX_PRINTED
        ));
    }
    if report.stopped {
        print_error(format_args!(
            "  --keep-both merges the rest and puts the fork's side beside; --force takes the fork's side; PATHs merge only these."
        ));
        return;
    }
    for note in &report.notes {
        warn(false, note);
    }
    if let Some(error) = &report.failed {
        warn(false, &format!("stopped half-way: {error}\n  {next}"));
        return;
    }
    let mut printer = Printer::new();
    if report.dry_run {
        for change in &report.changes {
            printer.line(format_args!("would {change}"));
        }
    }
    let changes = count(report.changes.len() as u64, "change");
    match (&report.run, report.changes.is_empty()) {
        (_, true) => printer.line(format_args!("nothing to merge")),
        (Some(run), _) => printer.line(format_args!(
            "merged {changes} of {} (run {run})",
            report.fork
        )),
        (None, _) => printer.line(format_args!("would merge {changes} of {}", report.fork)),
    }
}
