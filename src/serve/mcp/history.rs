//! `history` and `undo`: what the runs of a session changed, and taking it back. Other sessions' runs are not seen.

use super::admission::AT_ONCE;
use super::answer::ToolAnswer;
use super::arguments::{HistoryArgs, UndoToolArgs};
use super::sessions::McpSession;
use super::tool_context::ToolContext;
use crate::client::{Client, UndoOptions, UndoQuery};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::diff::Diff;
use crate::operator::run::RunSummary;
use crate::operator::undo::{OnConflict, UndoReport, in_words};
use serde_json::json;

/// The largest number of paths of a run that are named.
const NAMED: usize = 20;
/// The largest number of runs that `history` lists.
const MAX_RUNS: usize = 200;
/// The number of runs that are looked for at first: all that may have ended in another order than they changed something.
const FIRST: usize = AT_ONCE;

/// Finds the runs of a session that changed something, the newest first, in steps, and hands each step on until that is enough.
///
/// Each step is twice as long as the one before: all of them take no more than twice the time of one over all runs.
fn changed(
    client: &Client,
    session: &McpSession,
    mut act: impl FnMut(Vec<RunSummary>) -> Result<bool>,
) -> Result<()> {
    let mut ids = session.runs();
    ids.reverse();
    let (mut rest, mut step) = (ids.as_slice(), FIRST);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(step.min(rest.len()));
        let mut runs = client.runs(now)?;
        runs.sort_by(|one, other| other.last.cmp(&one.last));
        if !act(runs)? {
            break;
        }
        (rest, step) = (later, 2 * step);
    }
    Ok(())
}

/// Says what the latest runs of a session changed.
pub(super) fn history(work: &ToolContext, arguments: &HistoryArgs) -> Result<ToolAnswer> {
    let client = work.workplace.client()?;
    let most = arguments.limit.clamp(1, MAX_RUNS);
    let mut found = Vec::new();
    changed(&client, &work.session, |runs| {
        found.extend(runs);
        Ok(found.len() < most && work.cancel.ended().is_none())
    })?;
    found.truncate(most);
    let mut lines = Vec::new();
    let mut runs = Vec::new();
    client.diffs_of_runs(&found, |run, diff| {
        let command = run.command.clone().unwrap_or_default();
        lines.push(format!("{}  {command}\n", run.id));
        let changes: Vec<String> = changes(&diff).take(NAMED).collect();
        for change in &changes {
            lines.push(format!("    {change}\n"));
        }
        if let Some(more) = diff.len().checked_sub(NAMED).filter(|more| *more > 0) {
            lines.push(format!("    and {more} more\n"));
        }
        runs.push(json!({
            "run": run.id,
            "kind": run.kind,
            "command": command,
            "first": run.first.to_string(),
            "last": run.last.to_string(),
            "changes": changes,
            "changed": diff.len(),
        }));
        Ok(work.cancel.ended().is_none())
    })?;
    if runs.is_empty() {
        lines.push("Nothing was changed in this session.\n".to_owned());
    }
    Ok(ToolAnswer::new(lines.concat()).with("runs", runs))
}

/// Returns what a run changed: `A`, `M`, `D` or `R` and the path of each.
pub(super) fn changes(diff: &Diff<'_>) -> impl Iterator<Item = String> {
    (0..diff.len()).filter_map(|number| {
        let (status, path) = diff.nth_path(number)?;
        Some(format!("{} {path}", status.letter()))
    })
}

/// Takes a run of a session back, or what it did to a path.
pub(super) fn undo(work: &ToolContext, arguments: &UndoToolArgs) -> Result<ToolAnswer> {
    if work.cancel.ended().is_some() {
        return Ok(ToolAnswer::failed("cancelled: nothing was taken back"));
    }
    let client = work.workplace.client()?;
    if work.workplace.is_unmounted() && !arguments.dry_run {
        return Ok(ToolAnswer::failed(
            "the store could not be mounted, so this server has it for itself: `trumanfs undo` takes it back when the server has ended",
        ));
    }
    let Some(run) = wanted(&client, work, arguments)? else {
        return Ok(ToolAnswer::failed(
            "nothing was changed in this session, so there is nothing to take back",
        ));
    };
    let what = UndoQuery {
        run: Some(run.id.to_string()),
        paths: arguments
            .path
            .iter()
            .map(|path| path_in_home(work, path))
            .collect::<Result<_>>()?,
        ..UndoQuery::default()
    };
    let how = UndoOptions {
        on_conflict: OnConflict::Stop,
        dry_run: arguments.dry_run,
    };
    let request = client.undo_request(&what, how)?;
    let report = client.undo(&request)?;
    if let Some(undone_by) = report.run {
        work.session.add(undone_by);
    }
    Ok(said(&report, &run))
}

/// Finds the run that is meant.
fn wanted(
    client: &Client,
    work: &ToolContext,
    arguments: &UndoToolArgs,
) -> Result<Option<RunSummary>> {
    let Some(text) = &arguments.run else {
        let mut last = None;
        let mut undone = Vec::new();
        changed(client, &work.session, |runs| {
            for run in runs {
                let names_undone = run.command.as_deref().filter(|_| !run.undos.is_empty());
                match names_undone {
                    Some(what) => undone.push(what.to_owned()),
                    None if undone.iter().any(|what| what.contains(&run.id.to_string())) => {}
                    None => {
                        last = Some(run);
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        })?;
        return Ok(last);
    };
    let run = client.run(text)?;
    match work.session.runs().contains(&run.id) {
        true => Ok(Some(run)),
        // As if it were not there.
        false => Err(Error::Missing {
            what: format!("no run of this session is called {text:?}"),
            remedy: "`history` lists them.".to_owned(),
        }),
    }
}

/// Returns a path of a tool as an undo takes it: from the home, as a pattern of nothing but itself.
fn path_in_home(work: &ToolContext, typed: &str) -> Result<String> {
    let place = work.workplace.place();
    let root = String::from_utf8_lossy(place.root()).into_owned();
    let cwd = String::from_utf8_lossy(&work.session.cwd()).into_owned();
    let whole = match typed.starts_with('/') {
        true => typed.to_owned(),
        false => format!("{cwd}/{typed}"),
    };
    let below = whole.strip_prefix(&root).ok_or(Error::NotFound)?;
    let path = WorldPath::parse(below.as_bytes())?;
    let mut pattern = "/".to_owned();
    for letter in String::from_utf8_lossy(place.path_in_home(&path).bytes()).chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ']' | '{' | '}') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    Ok(pattern)
}

fn said(report: &UndoReport, run: &RunSummary) -> ToolAnswer {
    let of = run.command.clone().unwrap_or_default();
    let mut text = String::new();
    for conflict in &report.conflicts {
        text.push_str(&format!("conflict: {}\n", conflict.what));
    }
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text.push_str(&match (&report.failed, report.stopped, report.dry_run) {
        (Some(failed), ..) => format!("taking back {} stopped half-way: {failed}\n", run.id),
        (None, true, _) => format!(
            "nothing was changed: {} ({of}) cannot be taken back as it is\n",
            run.id
        ),
        (None, false, true) => format!(
            "would take back {} ({of}): {}\n",
            run.id,
            in_words(&report.steps)
        ),
        (None, false, false) => {
            format!("took back {} ({of}): {}\n", run.id, in_words(&report.steps))
        }
    });
    let data = serde_json::to_value(report).unwrap_or_default();
    ToolAnswer {
        is_error: report.stopped || report.failed.is_some(),
        ..ToolAnswer::new(text)
            .with("undone", run.id.to_string())
            .with("report", data)
    }
}
