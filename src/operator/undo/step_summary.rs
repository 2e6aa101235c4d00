//! A plan's changes in terms of files: files that come back, that go, that get their content or attributes back.

use std::collections::HashSet;

use super::apply::other_xattrs;
use super::planner::UndoPlan;
use crate::error::Result;
use crate::name::{Name, WorldPath};
use crate::world::view::in_trash;

/// The number of changes that a dry run lists.
const MAX_LISTED_CHANGES: usize = 10_000;
/// The number of paths that are listed for each kind of change.
const MAX_NAMED_PATHS: usize = 3;

/// A kind of change.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A file comes back from the trash.
    BroughtBack,
    /// A file goes to the trash.
    Removed,
    /// A file moves.
    Moved,
    /// A file gets a former content.
    Content,
    /// Mode, owner or extended attributes change.
    Attributes,
    /// Only the modification time changes.
    Time,
}

/// The number of changes of a kind, and the first paths.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StepSummary {
    /// The kind.
    pub kind: StepKind,
    /// The number of changes.
    pub count: u64,
    /// The first few paths, sorted.
    pub paths: Vec<WorldPath>,
}

/// Describes the changes and their files in a sentence.
pub fn in_words(steps: &[StepSummary]) -> String {
    let words = steps.iter().map(|step| {
        let verb = match step.kind {
            StepKind::BroughtBack => "brought back",
            StepKind::Removed => "removed",
            StepKind::Moved => "moved back",
            StepKind::Content => "put back the content of",
            StepKind::Attributes => "put back the attributes of",
            StepKind::Time => "put back the time of",
        };
        let paths: Vec<String> = step.paths.iter().map(ToString::to_string).collect();
        let more = step.count - paths.len() as u64;
        let and = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{verb} {}{and}", paths.join(", "))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        "nothing that shows".to_owned()
    } else {
        words.join("; ")
    }
}

/// A change as a line of a dry run.
type StepLine = (StepKind, WorldPath, String);

/// Summarizes a plan, and describes each of its changes in a line.
///
/// # Errors
/// Those of reading the disk.
pub(super) fn summarize_plan(plan: &UndoPlan<'_>) -> Result<(Vec<StepSummary>, Vec<String>)> {
    let mut changes = step_lines(plan)?;
    changes.sort_unstable();
    let mut steps: Vec<StepSummary> = Vec::new();
    for (kind, path, _) in &changes {
        match steps.last_mut().filter(|step| step.kind == *kind) {
            Some(step) => {
                step.count += 1;
                if step.paths.len() < MAX_NAMED_PATHS {
                    step.paths.push(path.clone());
                }
            }
            None => steps.push(StepSummary {
                kind: *kind,
                count: 1,
                paths: vec![path.clone()],
            }),
        }
    }
    // Directories get their times back whenever something in them changes.
    if steps.len() > 1 {
        steps.retain(|step| step.kind != StepKind::Time);
    }
    let words = changes
        .into_iter()
        .filter(|(kind, ..)| *kind != StepKind::Time);
    let mut lines: Vec<String> = words.map(|(.., line)| line).collect();
    lines.sort_unstable();
    if lines.len() > MAX_LISTED_CHANGES {
        let more = lines.len() - MAX_LISTED_CHANGES;
        lines.truncate(MAX_LISTED_CHANGES);
        lines.push(format!("and {more} more"));
    }
    Ok((steps, lines))
}

fn step_lines(plan: &UndoPlan<'_>) -> Result<Vec<StepLine>> {
    let target = &plan.target;
    let disk = target.disk();
    let mut changes = Vec::new();
    let mut left = HashSet::new();
    for ((dir, name_id), then) in target.changed_places() {
        let now = disk.lookup_id(dir, name_id)?;
        if now == then {
            continue;
        }
        // An entry gathered under a directory that comes back, and that itself stays in the trash, is not removed
        // from the home.
        let shows = |path: &WorldPath| !in_trash(path);
        if then.is_none() && !disk.path(dir).is_some_and(|path| shows(&path)) {
            continue;
        }
        let Some(dir) = target.path(dir).filter(shows) else {
            continue;
        };
        let path = dir.join(Name::new(&disk.text(name_id))?);
        let (kind, line) = match then.map(|node| target.disk().path(node)) {
            None => (StepKind::Removed, format!("remove {path}")),
            Some(Some(from)) if !in_trash(&from) => {
                let line = format!("move {from} to {path}");
                left.insert(from);
                (StepKind::Moved, line)
            }
            Some(_) => (StepKind::BroughtBack, format!("bring back {path}")),
        };
        changes.push((kind, path, line));
    }
    // The old name of a moved file is not a removal.
    changes.retain(|(kind, path, _)| *kind != StepKind::Removed || !left.contains(path));
    for (node, then) in target.changed_nodes() {
        let Some(path) = target.path(node).filter(|path| !in_trash(path)) else {
            continue;
        };
        if let Some(layer) = &then.content {
            let (session, seq) = &layer.record;
            let line = format!("content of {path}, as before {session}:{seq}");
            changes.push((StepKind::Content, path.clone(), line));
        }
        let Ok(now) = target.disk().stat(node) else {
            continue;
        };
        if then.mode.is_some_and(|mode| mode != now.permissions())
            || then.uid.is_some_and(|uid| uid != now.uid)
            || then.gid.is_some_and(|gid| gid != now.gid)
            || other_xattrs(target, node)?
        {
            let line = format!("attributes of {path}");
            changes.push((StepKind::Attributes, path, line));
        } else if then
            .mtime
            .is_some_and(|mtime| mtime != (now.mtime.sec, now.mtime.nsec))
        {
            changes.push((StepKind::Time, path, String::new()));
        }
    }
    Ok(changes)
}
