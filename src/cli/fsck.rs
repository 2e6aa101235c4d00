//! `fsck`.

use std::path::PathBuf;

use clap::Args;

use super::exit::ExitReason;
use super::output::{Printer, bytes, count, json, print_line};
use super::progress::spinner;
use crate::client::Client;
use crate::error::Result;
use crate::operator::fsck::{CheckProgress, FindingWeight, FsckReport};

/// Arguments of `trumanfs fsck`.
#[derive(Args, Debug)]
pub(super) struct FsckArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Repair what can be; deletes nothing of the occupant's. The store must not be mounted
    #[arg(long)]
    repair: bool,
    /// Leave contents out: neither the trash nor former contents are read
    #[arg(long)]
    quick: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks a store.
pub(super) fn fsck(args: &FsckArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let bar = spinner("checking");
    let step = &mut |step| {
        bar.set_message(match step {
            CheckProgress::Records(records) => format!("checking: {records} records"),
            CheckProgress::Bytes(read) => format!("checking: {} of contents", bytes(read)),
        });
    };
    let report = if args.repair {
        client.repair(!args.quick, step)
    } else {
        client.check(!args.quick, step)
    };
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        Printer::new().json(&report)?
    } else {
        print(&report)
    }
    let repaired = report.findings.iter().any(|finding| finding.repaired);
    Ok(match (report.problems(), repaired) {
        (0, _) => ExitReason::Ok,
        (_, true) => ExitReason::Partly,
        (_, false) => ExitReason::Nothing,
    })
}

fn print(report: &FsckReport) {
    for finding in &report.findings {
        let weight = match (finding.repaired, finding.weight) {
            (true, _) => "repaired",
            (false, FindingWeight::Problem) => "problem",
            (false, FindingWeight::Note) => "note",
        };
        let session = finding.session.as_ref();
        let session = session.map_or_else(String::new, |id| format!("session {id}: "));
        print_line(format_args!("{weight}: {session}{}", finding.what));
        if !finding.repaired {
            print_line(format_args!("    {}", finding.remedy));
        }
    }
    for (kind, more) in &report.unnamed {
        print_line(format_args!(
            "and {more} more like these: {}",
            json(kind).unwrap_or_default()
        ));
    }
    let problems = match report.problems() {
        0 => "everything agrees".to_owned(),
        left => count(left, "problem"),
    };
    let contents = match report.verified {
        None => "contents left out".to_owned(),
        Some(verified) => {
            let without = match verified.without {
                0 => String::new(),
                without => format!(", {without} without a digest"),
            };
            let read = count(verified.contents, "content");
            format!("{read} ({}){without}", bytes(verified.bytes))
        }
    };
    print_line(format_args!(
        "checked {}, {}, {} of the trash, {}, {contents}: {problems}",
        count(report.sessions, "session"),
        count(report.records, "record"),
        count(report.entries, "entry"),
        count(report.versions, "version"),
    ));
}
