//! What a plan would do, in the words of whoever works with files: what comes back, what goes, what gets its content or its
//! attributes back.

use super::apply::other_xattrs;
use super::plan::Plan;
use crate::error::Result;
use crate::name::{Name, WorldPath};
use crate::world::view::in_trash;

/// How many changes are told one by one.
const LISTED: usize = 10_000;
/// How many paths of a kind are named.
const NAMED: usize = 3;

/// A kind of change.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A thing comes back from the trash.
    BroughtBack,
    /// A thing goes to the trash.
    Removed,
    /// A thing goes elsewhere.
    Moved,
    /// A file gets a former content.
    Content,
    /// Mode, owner or extended attributes are others.
    Attributes,
    /// Only the time of the last change is another.
    Time,
}

/// How often a kind of change is to be made, and the first paths.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Deed {
    /// Which kind.
    pub kind: Kind,
    /// How often.
    pub count: u64,
    /// The first few, by name.
    pub paths: Vec<WorldPath>,
}

/// One change, in words for a dry run.
type DeedLine = (Kind, WorldPath, String);

/// Sums a plan up, and tells each of its changes in a line.
///
/// # Errors
/// What the disk says.
pub(super) fn deeds(plan: &Plan<'_>) -> Result<(Vec<Deed>, Vec<String>)> {
    let mut changes = changes(plan)?;
    changes.sort_unstable();
    let mut deeds: Vec<Deed> = Vec::new();
    for (kind, path, _) in &changes {
        match deeds.last_mut().filter(|deed| deed.kind == *kind) {
            Some(deed) => {
                deed.count += 1;
                if deed.paths.len() < NAMED {
                    deed.paths.push(path.clone());
                }
            }
            None => deeds.push(Deed {
                kind: *kind,
                count: 1,
                paths: vec![path.clone()],
            }),
        }
    }
    // Directories get their times back with whatever is done in them.
    if deeds.len() > 1 {
        deeds.retain(|deed| deed.kind != Kind::Time);
    }
    let told = changes.into_iter().filter(|(kind, ..)| *kind != Kind::Time);
    let mut lines: Vec<String> = told.map(|(.., line)| line).collect();
    lines.sort_unstable();
    if lines.len() > LISTED {
        let more = lines.len() - LISTED;
        lines.truncate(LISTED);
        lines.push(format!("and {more} more"));
    }
    Ok((deeds, lines))
}

fn changes(plan: &Plan<'_>) -> Result<Vec<DeedLine>> {
    let target = &plan.target;
    let disk = target.disk();
    let mut changes = Vec::new();
    for ((dir, name_id), then) in target.changed_places() {
        let now = disk.lookup_id(dir, name_id)?;
        if now == then {
            continue;
        }
        // What was gathered in a directory that comes back, and stays in the trash, does not go from the home.
        let shows = |path: &WorldPath| !in_trash(path);
        if then.is_none() && !disk.path(dir).is_some_and(|path| shows(&path)) {
            continue;
        }
        let Some(dir) = target.path(dir).filter(shows) else {
            continue;
        };
        let path = dir.join(Name::new(&disk.text(name_id))?);
        let (kind, line) = match then.map(|node| target.disk().path(node)) {
            None => (Kind::Removed, format!("remove {path}")),
            Some(Some(from)) if !in_trash(&from) => (Kind::Moved, format!("move {from} to {path}")),
            Some(_) => (Kind::BroughtBack, format!("bring back {path}")),
        };
        changes.push((kind, path, line));
    }
    // The old name of what moves is not a removal.
    let moves = changes.iter().filter(|(kind, ..)| *kind == Kind::Moved);
    let left: std::collections::HashSet<String> = moves
        .filter_map(|(_, to, line)| {
            let from = line.strip_prefix("move ")?;
            let from = from.strip_suffix(&format!(" to {to}"))?;
            Some(format!("remove {from}"))
        })
        .collect();
    changes.retain(|(_, _, line)| !left.contains(line));
    for (node, then) in target.changed_nodes() {
        let Some(path) = target.path(node).filter(|path| !in_trash(path)) else {
            continue;
        };
        if let Some(layer) = &then.content {
            let (session, seq) = &layer.record;
            let line = format!("content of {path}, as before {session}:{seq}");
            changes.push((Kind::Content, path.clone(), line));
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
            changes.push((Kind::Attributes, path, line));
        } else if then
            .mtime
            .is_some_and(|mtime| mtime != (now.mtime.sec, now.mtime.nsec))
        {
            changes.push((Kind::Time, path, String::new()));
        }
    }
    Ok(changes)
}
