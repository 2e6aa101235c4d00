//! The lines of the list: changed paths, in groups.

use std::collections::HashMap;

use super::worker_messages::{AuthorLabel, ReviewListing};
use crate::journal::RunId;

/// By what the list is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum GroupBy {
    #[default]
    Path,
    Run,
    Program,
    Time,
}

impl GroupBy {
    /// Returns the next one, in a circle.
    pub(super) fn next(self) -> GroupBy {
        match self {
            GroupBy::Path => GroupBy::Run,
            GroupBy::Run => GroupBy::Program,
            GroupBy::Program => GroupBy::Time,
            GroupBy::Time => GroupBy::Path,
        }
    }

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            GroupBy::Path => "path",
            GroupBy::Run => "run",
            GroupBy::Program => "program",
            GroupBy::Time => "time",
        }
    }
}

/// A line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListRow {
    /// The heading of a group, by its place.
    Group(usize),
    /// A changed path, by its place.
    Item(usize),
}

/// Changed paths that have something in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathGroup {
    pub(super) title: String,
    /// The run that they are the doing of.
    pub(super) run: Option<RunId>,
    /// The run's request, escaped.
    pub(super) command: Option<String>,
    /// The places of the paths.
    pub(super) items: Vec<usize>,
}

/// The property that the paths of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum GroupKey {
    Run(Option<RunId>),
    Program(String),
    /// Minutes since 1970.
    Minute(i64),
}

/// Arranges a list: groups with what changed last first, in each of them the paths by name; by time, the last one
/// first.
pub(super) fn arrange(listing: &ReviewListing, by: GroupBy) -> (Vec<PathGroup>, Vec<ListRow>) {
    if by == GroupBy::Path {
        return (
            Vec::new(),
            (0..listing.items.len()).map(ListRow::Item).collect(),
        );
    }
    let nobody = AuthorLabel::default();
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    // Each with the time of its last change.
    let mut groups: Vec<(i64, PathGroup)> = Vec::new();
    for (at, item) in listing.items.iter().enumerate() {
        let who = listing.who.get(item.who).unwrap_or(&nobody);
        let common = match by {
            GroupBy::Run => GroupKey::Run(who.run),
            GroupBy::Program => GroupKey::Program(who.program.clone()),
            GroupBy::Path | GroupBy::Time => GroupKey::Minute(item.time.div_euclid(60_000_000)),
        };
        let place = *places.entry(common).or_insert_with_key(|common| {
            groups.push((item.time, group(common, who)));
            groups.len() - 1
        });
        if let Some((time, group)) = groups.get_mut(place) {
            *time = item.time.max(*time);
            group.items.push(at);
        }
    }
    groups.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut rows = Vec::with_capacity(listing.items.len() + groups.len());
    for (place, (_, group)) in groups.iter_mut().enumerate() {
        if by == GroupBy::Time {
            let time = |at: &usize| listing.items.get(*at).map(|item| item.time);
            group.items.sort_by_key(|at| std::cmp::Reverse(time(at)));
        }
        rows.push(ListRow::Group(place));
        rows.extend(group.items.iter().copied().map(ListRow::Item));
    }
    (groups.into_iter().map(|(_, group)| group).collect(), rows)
}

fn group(common: &GroupKey, who: &AuthorLabel) -> PathGroup {
    let (title, run) = match common {
        GroupKey::Run(Some(run)) => (format!("run {run}"), Some(*run)),
        GroupKey::Run(None) => ("in no run".to_owned(), None),
        GroupKey::Program(program) => (program.clone(), None),
        GroupKey::Minute(minute) => (clock(minute * 60_000_000, "%Y-%m-%d %H:%M"), None),
    };
    PathGroup {
        title,
        run,
        command: who.command.clone().filter(|_| run.is_some()),
        items: Vec::new(),
    }
}

/// Writes a time, microseconds since 1970, in UTC.
pub(super) fn clock(micros: i64, form: &str) -> String {
    let time = chrono::DateTime::from_timestamp_micros(micros);
    time.map(|time| time.format(form).to_string())
        .unwrap_or_default()
}
