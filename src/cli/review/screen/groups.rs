//! The order of the list: changed paths below headings that can be folded.
//!
//! Owns what is folded by itself. Pure. A heading stands before the paths that it is of, which are one stretch of the
//! order; so does a heading within another.

use std::collections::HashMap;
use std::ops::Range;

use super::worker_messages::{AuthorLabel, ListedPath, ReviewListing};
use crate::journal::RunId;
use crate::operator::review::PathClass;

/// The number of paths of a list that has no headings of directories.
const MAX_PLAIN_LIST: usize = 20;
/// The number of paths in a directory that are listed without a heading.
const MAX_BARE_PATHS: usize = 8;
/// The number of paths directly in the home that are listed without a heading.
const MAX_TOP_PATHS: usize = 100;
/// The number of paths of a run, a program or a minute that are not folded.
const MAX_OPEN_PATHS: usize = 200;

/// The arrangement of the list.
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

/// A row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListRow {
    /// The heading of a group, by its place.
    Group(usize),
    /// A changed path, by its place in the listing.
    Item(usize),
}

/// Changed paths that have something in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathGroup {
    /// Its name: no two groups of an arrangement have the same.
    pub(super) title: String,
    /// The run that they are the doing of.
    pub(super) run: Option<RunId>,
    /// The run's request, escaped.
    pub(super) command: Option<String>,
    /// The places of the paths in [`ReviewArrangement::order`].
    pub(super) range: Range<usize>,
    /// The number of headings that it is below.
    pub(super) depth: usize,
    /// True if it is folded unless somebody unfolds it.
    is_long: bool,
}

/// The order of the list, and its headings.
#[derive(Debug, Default)]
pub(super) struct ReviewArrangement {
    /// The places in the listing, in order.
    pub(super) order: Vec<usize>,
    /// The headings, from the first to the last; an outer one before those in it.
    pub(super) groups: Vec<PathGroup>,
}

/// The headings that were folded or unfolded by hand, by title.
#[derive(Debug, Default)]
pub(super) struct FoldChoices {
    by_title: HashMap<String, bool>,
    /// The choice for all others.
    all: Option<bool>,
}

impl FoldChoices {
    pub(super) fn is_folded(&self, group: &PathGroup) -> bool {
        let chosen = self.by_title.get(&group.title).copied().or(self.all);
        chosen.unwrap_or(group.is_long)
    }

    pub(super) fn fold(&mut self, group: &PathGroup, is_folded: bool) {
        self.by_title.insert(group.title.clone(), is_folded);
    }

    pub(super) fn fold_all(&mut self, is_folded: bool) {
        self.by_title.clear();
        self.all = Some(is_folded);
    }
}

impl ReviewArrangement {
    /// Arranges a list. By path: what is flagged, then directories, then what git ignores, what tools wrote, and git's own
    /// files. Otherwise groups with what changed last first, in each of them the paths by name; by time, the last one
    /// first.
    pub(super) fn of(listing: &ReviewListing, by: GroupBy) -> ReviewArrangement {
        match by {
            GroupBy::Path => by_path(listing),
            by => by_author_or_time(listing, by),
        }
    }

    /// Returns the rows, each path with the number of headings that it is below.
    pub(super) fn rows(&self, choices: &FoldChoices) -> Vec<(ListRow, usize)> {
        let mut rows = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut groups = self.groups.iter().enumerate().peekable();
        let mut at = 0;
        while at < self.order.len() {
            open.retain(|end| *end > at);
            if let Some((number, group)) = groups.next_if(|(_, group)| group.range.start <= at) {
                // One that begins earlier is in a folded one.
                if group.range.start == at {
                    rows.push((ListRow::Group(number), group.depth));
                    if choices.is_folded(group) {
                        at = group.range.end;
                    } else {
                        open.push(group.range.end);
                    }
                }
                continue;
            }
            rows.extend(
                self.order
                    .get(at)
                    .map(|item| (ListRow::Item(*item), open.len())),
            );
            at += 1;
        }
        rows
    }

    /// Returns the groups that a place of the order is in, from the outside to the inside.
    pub(super) fn groups_around(&self, at: usize) -> impl Iterator<Item = (usize, &PathGroup)> {
        let groups = self.groups.iter().enumerate();
        groups.filter(move |(_, group)| group.range.contains(&at))
    }

    /// Returns the places in the listing of a group's paths.
    pub(super) fn items_of(&self, group: &PathGroup) -> &[usize] {
        self.order.get(group.range.clone()).unwrap_or_default()
    }

    fn push_group(&mut self, title: String, depth: usize, is_long: bool) -> usize {
        let start = self.order.len();
        self.groups.push(PathGroup {
            title,
            run: None,
            command: None,
            range: start..start,
            depth,
            is_long,
        });
        self.groups.len() - 1
    }

    fn end_group(&mut self, number: usize) {
        let end = self.order.len();
        if let Some(group) = self.groups.get_mut(number) {
            group.range.end = end;
        }
    }
}

fn by_path(listing: &ReviewListing) -> ReviewArrangement {
    let mut found = ReviewArrangement::default();
    let items = listing.items.iter().enumerate();
    let (flagged, others): (Vec<_>, Vec<_>) = items.partition(|(_, item)| item.flag.is_some());
    found.order.extend(flagged.iter().map(|(at, _)| *at));
    let of_class = |class: PathClass| -> Vec<(usize, &ListedPath)> {
        let others = others.iter().filter(|(_, item)| item.class == class);
        others.copied().collect()
    };
    let mut ordinary = of_class(PathClass::Ordinary);
    if ordinary.len() > MAX_PLAIN_LIST {
        ordinary.sort_by(|(_, one), (_, other)| component_order(one, other));
        add_tree(&mut found, &ordinary);
    } else {
        found.order.extend(ordinary.iter().map(|(at, _)| *at));
    }
    for (class, title) in [
        (PathClass::Generated, "lock files and generated files"),
        (PathClass::Ignored, "ignored by git"),
        (PathClass::Git, "git's own files"),
    ] {
        let items = of_class(class);
        let group = (items.len() > 1).then(|| found.push_group(title.to_owned(), 0, true));
        found.order.extend(items.iter().map(|(at, _)| *at));
        if let Some(group) = group {
            found.end_group(group);
        }
    }
    found
}

/// Compares paths name by name, so that a directory stands right before what is in it.
fn component_order(one: &ListedPath, other: &ListedPath) -> std::cmp::Ordering {
    let (a, b) = (one.path.bytes(), other.path.bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rank = |byte: Option<&u8>| match byte {
        None => 0,
        Some(b'/') => 1,
        Some(byte) => 2 + u16::from(*byte),
    };
    rank(a.get(same)).cmp(&rank(b.get(same)))
}

/// Adds sorted paths, with a heading for each directory that has many of them.
fn add_tree(found: &mut ReviewArrangement, items: &[(usize, &ListedPath)]) {
    let bytes = |at: usize| {
        items
            .get(at)
            .map_or(&b""[..], |(_, item)| item.path.bytes())
    };
    let is_top = |at: usize| memchr::memchr(b'/', bytes(at)).is_none();
    // Directories that have no heading of their own are as bare as files.
    let loose = (0..items.len()).filter(|at| is_top(*at)).count();
    let top =
        (loose > MAX_TOP_PATHS).then(|| found.push_group("/ (directly in it)".to_owned(), 0, true));
    if top.is_some() {
        let loose = (0..items.len()).filter(|at| is_top(*at));
        found
            .order
            .extend(loose.filter_map(|at| items.get(at)).map(|(at, _)| *at));
    }
    if let Some(top) = top {
        found.end_group(top);
    }
    // The end of each open heading in `items`, with the group and the length of its path.
    let mut open: Vec<(usize, usize, usize)> = Vec::new();
    let mut at = 0;
    while at < items.len() {
        while let Some((_, group, _)) = open.pop_if(|(end, ..)| *end <= at) {
            found.end_group(group);
        }
        let (end, _, prefix) = open.last().copied().unwrap_or((items.len(), 0, 0));
        let path = bytes(at);
        let name_end = memchr::memchr(b'/', path.get(prefix..).unwrap_or_default());
        let child = path.get(..name_end.map_or(path.len(), |length| prefix + length));
        let child = child.unwrap_or_default();
        let is_in = |at: usize| {
            let rest = bytes(at).strip_prefix(child);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let count = (at..end).take_while(|at| is_in(*at)).count().max(1);
        if count > MAX_BARE_PATHS && path.len() >= prefix {
            // A directory with all of it in one directory shares the heading.
            let dir = common_dir(bytes(at), bytes(at + count - 1)).max(child.len());
            let name = path.get(..dir).or(bytes(at + count - 1).get(..dir));
            let name = crate::name::escape(name.unwrap_or_default());
            let group = found.push_group(format!("/{name}/"), open.len(), true);
            open.push((at + count, group, dir + 1));
            // The directory's own change is the first below its heading.
            if path.len() <= dir {
                let is_listed = top.is_some() && is_top(at);
                let own = items.get(at).filter(|_| !is_listed);
                found.order.extend(own.map(|(at, _)| *at));
                at += 1;
            }
            continue;
        }
        for (place, (item, _)) in items.iter().enumerate().skip(at).take(count) {
            if top.is_none() || !is_top(place) {
                found.order.push(*item);
            }
        }
        at += count;
    }
    for (_, group, _) in open.into_iter().rev() {
        found.end_group(group);
    }
}

/// Returns the length of the directory that two paths have in common.
fn common_dir(one: &[u8], other: &[u8]) -> usize {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    if same == one.len() && other.get(same) == Some(&b'/') {
        return same;
    }
    memchr::memrchr(b'/', one.get(..same).unwrap_or_default()).unwrap_or(0)
}

/// The property that the paths of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum GroupKey {
    Run(Option<RunId>),
    Program(String),
    /// Minutes since 1970.
    Minute(i64),
}

fn by_author_or_time(listing: &ReviewListing, by: GroupBy) -> ReviewArrangement {
    let nobody = AuthorLabel::default();
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    // Each with the time of its last change, and its paths.
    let mut groups: Vec<(i64, PathGroup, Vec<usize>)> = Vec::new();
    for (at, item) in listing.items.iter().enumerate() {
        let who = listing.who.get(item.who).unwrap_or(&nobody);
        let common = match by {
            GroupBy::Run => GroupKey::Run(who.run),
            GroupBy::Program => GroupKey::Program(who.program.clone()),
            GroupBy::Path | GroupBy::Time => GroupKey::Minute(item.time.div_euclid(60_000_000)),
        };
        let place = *places.entry(common).or_insert_with_key(|common| {
            groups.push((item.time, group(common, who), Vec::new()));
            groups.len() - 1
        });
        if let Some((time, _, items)) = groups.get_mut(place) {
            *time = item.time.max(*time);
            items.push(at);
        }
    }
    groups.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    let mut found = ReviewArrangement::default();
    for (_, mut group, mut items) in groups {
        if by == GroupBy::Time {
            let time = |at: &usize| listing.items.get(*at).map(|item| item.time);
            items.sort_by_key(|at| std::cmp::Reverse(time(at)));
        }
        let start = found.order.len();
        found.order.extend(items);
        group.range = start..found.order.len();
        group.is_long = group.range.len() > MAX_OPEN_PATHS;
        found.groups.push(group);
    }
    found
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
        range: 0..0,
        depth: 0,
        is_long: false,
    }
}

/// Writes a time, microseconds since 1970, in UTC.
pub(super) fn clock(micros: i64, form: &str) -> String {
    let time = chrono::DateTime::from_timestamp_micros(micros);
    time.map(|time| time.format(form).to_string())
        .unwrap_or_default()
}
