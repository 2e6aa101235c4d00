//! `usage`: what takes space in a store.

use std::path::PathBuf;

use clap::Args;

use super::super::exit::ExitReason;
use super::super::output::{Printer, TextStyle, bytes, count, warn};
use super::super::progress::spinner;
use super::words::shown_command;
use crate::client::Client;
use crate::error::Result;
use crate::name::{escape, unescape};
use crate::operator::store_usage::{
    AgeClass, FileUsage, KeptSpace, ProgramUsage, RunUsage, StoreUsage,
};

/// The number of rows of a table, unless all are asked for.
const MAX_ROWS: usize = 10;
/// The longest command of a run that is printed whole, in characters.
const MAX_COMMAND: usize = 100;

/// Arguments of `trumanfs usage`.
#[derive(Args, Debug)]
#[command(after_help = "\
Space is what is allocated on disk, each file once. `trumanfs expire` and `trumanfs trash purge` free what is kept.")]
pub(in crate::cli) struct StoreUsageArgs {
    /// A store or a home; the store that encloses the working directory if absent
    target: PathBuf,
    /// Tell directories apart by this many components of their paths
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    depth: u16,
    /// Print all rows of each table, not only the ten largest
    #[arg(long, short)]
    all: bool,
    /// Print JSON, with all rows
    #[arg(long)]
    json: bool,
}

/// Says what takes space.
pub(in crate::cli) fn usage(args: &StoreUsageArgs) -> Result<ExitReason> {
    let client = Client::open(&args.target)?;
    let bar = spinner("reading the store and its journals");
    let usage = client.store_usage(usize::from(args.depth));
    bar.finish_and_clear();
    let usage = usage?;
    let mut printer = Printer::new();
    if args.json {
        printer.json(&usage)?
    } else {
        let store = std::fs::canonicalize(client.path());
        let store = store.as_deref().unwrap_or(client.path());
        let store = escape(store.as_os_str().as_encoded_bytes());
        print_totals(&mut printer, &usage, &store);
        print_tables(&mut printer, &usage, args.all);
    }
    printer.flush();
    for problem in &usage.problems {
        warn(args.json, problem);
    }
    Ok(match usage.problems.is_empty() {
        true => ExitReason::Ok,
        false => ExitReason::Partly,
    })
}

fn print_totals(printer: &mut Printer, usage: &StoreUsage, store: &str) {
    let heading = printer.style(TextStyle::Heading, store);
    printer.line(format_args!("{heading}"));
    let mut part = |name: &str, used: &FileUsage, thing: &str| {
        let files = count(used.files, thing);
        printer.line(format_args!(
            "  {name:<16}{:>12}  {files}, {} long",
            bytes(used.disk),
            bytes(used.size)
        ));
    };
    part("live files", &usage.live, "file");
    part("trash", &usage.trash, "file");
    part("former contents", &usage.versions, "file");
    part("journals", &usage.journals, "file");
    part("other state", &usage.other, "file");
    printer.line(format_args!("  {:<16}{:>12}", "all", bytes(usage.total)));
    let fs = &usage.file_system;
    printer.line(format_args!(
        "  {:<16}{:>12}  {} free, {} of it for ordinary users",
        "file system",
        bytes(fs.size),
        bytes(fs.free),
        bytes(fs.available)
    ));
}

fn print_tables(printer: &mut Printer, usage: &StoreUsage, all: bool) {
    if usage.trash.files + usage.versions.files == 0 {
        return;
    }
    let most = if all { usize::MAX } else { MAX_ROWS };
    let rows = usage.directories.iter();
    let rows = rows.map(|row| (row.kept, row.path.to_string())).collect();
    print_table(printer, "by directory", rows, most);
    let rows = usage.programs.iter();
    let rows = rows.map(|row| (row.kept, program_words(row))).collect();
    print_table(printer, "by program", rows, most);
    let rows = usage.runs.iter();
    let rows = rows.map(|row| (row.kept, run_words(row))).collect();
    print_table(printer, "by run", rows, most);
    let rows = usage.ages.iter();
    let rows = rows.map(|row| (row.kept, age_words(row.age).to_owned()));
    let rows = rows.collect();
    print_table(printer, "by age", rows, most);
    let rows = usage.made_again.iter();
    let rows = rows
        .map(|row| (row.kept, format!("{}/", row.name)))
        .collect();
    print_table(printer, "of which --volatile may save", rows, most);
    let what = "in no record, and directories' own".to_owned();
    print_table(printer, "the rest", vec![(usage.unrecorded, what)], most);
}

/// Prints a table: the rows with what they take, and how many are left out.
fn print_table(
    printer: &mut Printer,
    heading: &str,
    mut rows: Vec<(KeptSpace, String)>,
    most: usize,
) {
    rows.retain(|(kept, _)| kept.total() > 0);
    if rows.is_empty() {
        return;
    }
    let heading = printer.style(TextStyle::Heading, heading);
    printer.line(format_args!(""));
    printer.line(format_args!(
        "  {:>12}  {:>15}  {heading}",
        "trash", "former contents"
    ));
    for (kept, what) in rows.iter().take(most) {
        printer.line(format_args!(
            "  {:>12}  {:>15}  {what}",
            bytes(kept.trash),
            bytes(kept.versions)
        ));
    }
    let left_out = rows.len().saturating_sub(most);
    if left_out > 0 {
        let more = printer.style(
            TextStyle::Faint,
            &format!("… and {left_out} more (--all lists them)"),
        );
        printer.line(format_args!("  {:>12}  {:>15}  {more}", "", ""));
    }
}

fn program_words(row: &ProgramUsage) -> String {
    match (row.comm.as_str(), row.exe.as_str()) {
        ("", "") => "unknown".to_owned(),
        ("", exe) => exe.to_owned(),
        (comm, "") => comm.to_owned(),
        (comm, exe) => format!("{comm} ({exe})"),
    }
}

fn run_words(row: &RunUsage) -> String {
    let Some(run) = row.run else {
        return "no run".to_owned();
    };
    let kind = row.kind.map_or("run", |kind| kind.word());
    let Some(command) = &row.command else {
        return format!("{kind} {run}");
    };
    // The words of an undo are not escaped.
    let bytes = unescape(command).unwrap_or_else(|| command.as_bytes().to_vec());
    let whole = shown_command(&bytes);
    let mut shown: String = whole.chars().take(MAX_COMMAND).collect();
    if shown.len() < whole.len() {
        shown.push('…');
    }
    format!("{kind} {run}  {shown}")
}

fn age_words(age: AgeClass) -> &'static str {
    match age {
        AgeClass::Today => "today",
        AgeClass::Week => "last 7 days",
        AgeClass::Month => "last 30 days",
        AgeClass::Older => "older",
    }
}
