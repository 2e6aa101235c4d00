//! Taking back in all stores in which a run worked: what is said of each, and how the whole has ended.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::escaping::print_error;
use super::exit::{ExitReason, with_advice};
use super::output::{Printer, quote, warn};
use super::undo::{UndoOutput, exit_reason, print};
use crate::client::{Client, JointUndo, OtherPart, OtherParts, undo_jointly};
use crate::error::{Error, FailureKind, Result};
use crate::name::escape;
use crate::operator::undo::{UndoReport, UndoRequest};

/// The report of one store, as JSON.
#[derive(serde::Serialize)]
struct StoreReport<'r> {
    store: String,
    #[serde(flatten)]
    report: &'r UndoReport,
}

/// The report of the first store as JSON, with those of the others.
#[derive(serde::Serialize)]
struct JointReport<'r> {
    #[serde(flatten)]
    report: &'r UndoReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<StoreReport<'r>>,
}

/// Takes a request back in its store, and what belongs to it in others, by the requests that `of_other` makes.
///
/// # Errors
/// Those of planning in one of the stores: nothing was changed in any.
pub(super) fn undo_in_all(
    client: &Client,
    request: UndoRequest,
    others: &OtherParts,
    of_other: &dyn Fn(&Client, &str) -> Result<UndoRequest>,
    output: &UndoOutput<'_>,
) -> Result<ExitReason> {
    let mut parts = vec![(client, request)];
    let mut is_all = true;
    for part in &others.parts {
        match part {
            OtherPart::Known(other) => {
                match of_other(other, &others.run.to_string()) {
                    // Nothing of it is left there.
                    Err(error) if error.kind() == FailureKind::Missing => {}
                    request => parts.push((other, request?)),
                }
            }
            OtherPart::Unknown(path, error) => {
                is_all = false;
                warn(output.json, &elsewhere(path, "undo", others, Some(error)));
            }
        }
    }
    let exit = undo_parts(&parts, output)?;
    Ok(match exit {
        ExitReason::Ok | ExitReason::Nothing if !is_all => ExitReason::Partly,
        exit => exit,
    })
}

/// Takes back in these stores, the first of which was named.
///
/// # Errors
/// As [`undo_in_all`].
pub(super) fn undo_parts(
    parts: &[(&Client, UndoRequest)],
    output: &UndoOutput<'_>,
) -> Result<ExitReason> {
    let JointUndo { stopped, reports } = undo_jointly(parts);
    if stopped && let Some(error) = first_error(&reports) {
        return Err(with_advice(error, output.next));
    }
    let mut ends = Vec::new();
    let mut shown = Vec::new();
    for ((client, _), report) in parts.iter().zip(&reports) {
        let path = quote(client.whole_path().as_os_str().as_bytes());
        match report {
            Ok(report) => {
                ends.push(exit_reason(report));
                shown.push((*client, report));
            }
            Err(error) if error.kind() == FailureKind::Missing => {}
            Err(error) => {
                ends.push(ExitReason::Partly);
                let error = with_advice(error.clone(), output.next);
                warn(output.json, &format!("{path}: {}", error.full_message()));
            }
        }
    }
    if output.json {
        print_json(&shown)?;
    } else {
        for (client, report) in shown
            .iter()
            .filter(|(_, report)| !stopped || report.stopped)
        {
            print_part(client, report, output, parts.len() > 1);
        }
    }
    Ok(if stopped {
        ExitReason::Conflict
    } else {
        joint_exit(&ends)
    })
}

fn print_part(client: &Client, report: &UndoReport, output: &UndoOutput<'_>, is_one_of_many: bool) {
    if is_one_of_many {
        let path = quote(client.whole_path().as_os_str().as_bytes());
        let mut heading = output.printer();
        heading.line(format_args!("in {path}:"));
        heading.flush();
    }
    print(output.printer(), report, output.next, output.taken_back);
}

fn print_json(shown: &[(&Client, &UndoReport)]) -> Result<()> {
    let Some(((_, report), others)) = shown.split_first() else {
        return Ok(());
    };
    let also = others.iter().map(|(client, report)| StoreReport {
        store: escape(client.whole_path().as_os_str().as_bytes()),
        report,
    });
    Printer::new().json(&JointReport {
        report,
        also: also.collect(),
    })
}

/// Returns what keeps all stores from being planned for; of those that have nothing of the run, one.
fn first_error(reports: &[Result<UndoReport>]) -> Option<Error> {
    let errors = || reports.iter().filter_map(|report| report.as_ref().err());
    let hard = errors().find(|error| error.kind() != FailureKind::Missing);
    let nowhere = || {
        errors()
            .next()
            .filter(|_| reports.iter().all(Result::is_err))
    };
    hard.or_else(nowhere).cloned()
}

/// Returns how a whole has ended whose parts have ended so.
fn joint_exit(ends: &[ExitReason]) -> ExitReason {
    let is_there = |exit| ends.contains(&exit);
    if is_there(ExitReason::Partly) || is_there(ExitReason::Conflict) && is_there(ExitReason::Ok) {
        ExitReason::Partly
    } else if is_there(ExitReason::Conflict) {
        ExitReason::Conflict
    } else if is_there(ExitReason::Ok) {
        ExitReason::Ok
    } else {
        ExitReason::Nothing
    }
}

/// Says where else a run has changed something, which a command left alone.
pub(super) fn name_other_parts(others: &OtherParts, verb: &str, json: bool) {
    for part in &others.parts {
        let line = elsewhere(part.path(), verb, others, None);
        match json {
            true => warn(true, &line),
            false => print_error(format_args!("trumanfs: {line}")),
        }
    }
}

fn elsewhere(path: &Path, verb: &str, others: &OtherParts, error: Option<&Error>) -> String {
    let path = quote(path.as_os_str().as_bytes());
    let why = error.map(|error| format!(", which is left alone: {}", error.full_message()));
    let why = why.unwrap_or_default();
    let option = match verb {
        "accept" | "reject" => "",
        _ => "--run ",
    };
    format!(
        "a part of the run lies in {path}{why} (trumanfs {verb} {path} {option}{})",
        others.run
    )
}
