//! The changes of a session: a tree of directories, with text differences that unfold.
//!
//! Bounded in changes, differences and lines; the rest is counted, and the page states the count.

use std::collections::BTreeMap;

use super::MAX_LISTED;
use super::html::{HtmlFragment, many, size};
use super::hunks::hunks;
use crate::name::escape;
use crate::operator::diff::{ChangeStatus, Diff, DiffSide, NodeBytes, PathDifference};

/// The number of changes that are listed.
pub(super) const MAX_LISTED_CHANGES: usize = 3000;
/// The number of differences of contents that are shown.
const MAX_SHOWN_DIFFERENCES: usize = 300;
/// The number of differences of contents that are unfolded.
const MAX_OPEN_DIFFERENCES: usize = 60;
/// The largest content that is compared, in bytes.
const MAX_COMPARED_BYTES: u64 = 1 << 20;
/// The maximum size of all differences together, in bytes of HTML.
const MAX_HTML_BYTES: usize = 6 << 20;
/// The depth to which directories are nested in the page.
const MAX_DEPTH: usize = 24;

/// Directories filled by programs: they come last and folded.
const BULK_DIRS: [&str; 10] = [
    ".git",
    ".hg",
    "target",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".cache",
    "dist",
    ".mypy_cache",
];

/// A directory on the page.
#[derive(Default)]
struct PageFolder<'a> {
    folders: BTreeMap<String, PageFolder<'a>>,
    changes: Vec<(String, &'a PathDifference)>,
    /// The change of the directory itself.
    own: Option<&'a PathDifference>,
}

/// The output so far.
struct ChangesSection<'a, 'd> {
    html: HtmlFragment,
    diff: &'d Diff<'a>,
    shown: usize,
    left_out: u64,
    /// True within a directory filled by programs.
    is_bulk: bool,
}

/// Returns the number of paths of each kind: added, modified, renamed, removed.
pub(super) fn counts(diff: &Diff<'_>) -> [u64; 4] {
    let of = |status: ChangeStatus| diff.statuses().filter(|s| *s == status).count() as u64;
    [
        ChangeStatus::Added,
        ChangeStatus::Modified,
        ChangeStatus::Renamed,
        ChangeStatus::Removed,
    ]
    .map(of)
}

/// Writes the flagged changes, if there are any.
pub(super) fn write_flagged(html: &mut HtmlFragment, diff: &Diff<'_>) {
    let flags = match diff.flags() {
        Ok(flags) if flags.is_empty() => return,
        Ok(flags) => flags,
        Err(error) => {
            html.raw("<p class=\"warn\">Changes to look at first cannot be found: ");
            html.text(&error.to_string()).raw("</p>");
            return;
        }
    };
    html.raw("<div class=\"warn\"><h3>Look at these first</h3><ul>");
    for (number, flag) in flags.iter().take(MAX_LISTED) {
        if let Some((status, path)) = diff.nth_path(*number) {
            html.raw("<li>");
            badge(html, status);
            html.raw("<bdi class=\"name\">").text(&path.to_string());
            html.raw("</bdi> <span class=\"what\">")
                .text(flag.words())
                .raw("</span></li>");
        }
    }
    html.raw("</ul>");
    let more = flags.len().saturating_sub(MAX_LISTED) as u64;
    if more > 0 {
        html.raw("<p class=\"more\">")
            .number(more)
            .raw(" more.</p>");
    }
    html.raw("</div>");
}

/// Writes the tree of the listed changes.
pub(super) fn tree(diff: &Diff<'_>, listed: &[PathDifference]) -> String {
    let mut top = PageFolder::default();
    for change in listed {
        let parts: Vec<String> = change
            .path
            .components()
            .map(|p| escape(p.bytes()))
            .collect();
        let Some((name, above)) = parts.split_last() else {
            // The home itself.
            top.changes.push(("/".to_owned(), change));
            continue;
        };
        let (nested, deeper) = above.split_at(above.len().min(MAX_DEPTH));
        let mut folder = &mut top;
        for part in nested {
            folder = folder.folders.entry(part.clone()).or_default();
        }
        let is_dir = change
            .after
            .or(change.before)
            .is_some_and(|side| side.is_dir());
        if is_dir && deeper.is_empty() && nested.len() < MAX_DEPTH {
            folder.folders.entry(name.clone()).or_default().own = Some(change);
            continue;
        }
        let mut shown = deeper.join("/");
        if !shown.is_empty() {
            shown.push('/');
        }
        shown.push_str(name);
        folder.changes.push((shown, change));
    }
    let mut page = ChangesSection {
        html: HtmlFragment::default(),
        diff,
        shown: 0,
        left_out: 0,
        is_bulk: false,
    };
    page.folder(&top, 0);
    let more = diff.len().saturating_sub(MAX_LISTED_CHANGES) as u64;
    if more > 0 {
        page.html.raw("<p class=\"more\">").number(more).raw(
            " further changes are not listed here. <code>trumanfs diff</code> shows all of them.</p>",
        );
    }
    if page.left_out > 0 {
        let files = many(page.left_out, "changed file is", "changed files are");
        page.html
            .raw("<p class=\"more\">The content of ")
            .text(&files);
        page.html.raw(" not shown, because there is too much of it. <code>trumanfs diff --patch</code> shows it.</p>");
    }
    page.html.into_string()
}

impl ChangesSection<'_, '_> {
    fn folder(&mut self, folder: &PageFolder<'_>, depth: usize) {
        self.html.raw("<ul>");
        // Edits come first, then renames, additions and removals; directories filled by programs come last.
        let order = |change: &PathDifference| match change.status {
            ChangeStatus::Modified => 0,
            ChangeStatus::Renamed => 1,
            ChangeStatus::Added => 2,
            ChangeStatus::Removed => 3,
        };
        let mut changes: Vec<_> = folder.changes.iter().collect();
        changes.sort_by_key(|(_, change)| order(change));
        let is_bulk = |name: &str| BULK_DIRS.contains(&name);
        let mut folders: Vec<_> = folder.folders.iter().collect();
        folders.sort_by_key(|(name, inner)| (is_bulk(name), !inner.has_edits()));
        let (edited, others): (Vec<_>, Vec<_>) = changes
            .into_iter()
            .partition(|(_, change)| change.status == ChangeStatus::Modified);
        for (name, change) in edited {
            self.change(name, change);
        }
        let mut others = others.into_iter();
        for (name, inner) in folders {
            let bulk = is_bulk(name);
            if bulk || !inner.has_edits() {
                for (name, change) in others.by_ref() {
                    self.change(name, change);
                }
            }
            // A directory that contains only one directory shares its line.
            let (mut shown, mut at) = (name.clone(), inner);
            while at.changes.is_empty()
                && at.own.is_none()
                && at.folders.len() == 1
                && let Some((name, inner)) = at.folders.iter().next()
            {
                shown = format!("{shown}/{name}");
                at = inner;
            }
            if at.changes.is_empty() && at.folders.is_empty() {
                if let Some(change) = at.own {
                    self.change(&shown, change);
                }
                continue;
            }
            let count = at.count();
            let first = depth == 0 && at.changes.len() + at.folders.len() <= 60;
            let open = if !bulk && (count <= 40 || first) {
                " open"
            } else {
                ""
            };
            self.html
                .raw(&format!("<li class=\"dir\"><details{open}><summary>"));
            if let Some(change) = at.own {
                badge(&mut self.html, change.status);
            }
            self.html.raw("<bdi class=\"folder\">").text(&shown);
            self.html
                .raw("/</bdi> <span class=\"dim\">")
                .text(&many(count, "change", "changes"));
            if let Some(from) = at.own.and_then(|change| change.from.as_ref()) {
                self.html
                    .raw(", was <bdi>")
                    .text(&from.to_string())
                    .raw("</bdi>");
            }
            self.html.raw("</span></summary>");
            let was_bulk = self.is_bulk;
            self.is_bulk |= bulk;
            self.folder(at, depth + 1);
            self.is_bulk = was_bulk;
            self.html.raw("</details></li>");
        }
        for (name, change) in others {
            self.change(name, change);
        }
        self.html.raw("</ul>");
    }

    fn change(&mut self, name: &str, change: &PathDifference) {
        let texts = self.texts(change);
        self.html.raw("<li class=\"leaf\">");
        let line = |html: &mut HtmlFragment| {
            badge(html, change.status);
            html.raw("<bdi class=\"name\">");
            html.text(name);
            let is_dir = change
                .after
                .or(change.before)
                .is_some_and(|side| side.is_dir());
            html.raw(if is_dir { "/</bdi>" } else { "</bdi>" });
            if let Some(from) = &change.from {
                html.raw(" <span class=\"dim\">was <bdi>")
                    .text(&from.to_string())
                    .raw("</bdi></span>");
            }
            html.raw(" <span class=\"what\">")
                .text(&describe(change))
                .raw("</span>");
        };
        match texts {
            Some(lines) => {
                let is_open = !self.is_bulk && self.shown <= MAX_OPEN_DIFFERENCES;
                let open = if is_open { " open" } else { "" };
                self.html
                    .raw(&format!("<details class=\"file\"{open}><summary>"));
                line(&mut self.html);
                self.html.raw("</summary>").raw(&lines).raw("</details>");
            }
            None => line(&mut self.html),
        }
        self.html.raw("</li>");
    }

    /// Writes the difference of a file's contents, if it is text and there is room for it.
    fn texts(&mut self, change: &PathDifference) -> Option<String> {
        if !change.content && change.before.is_some() && change.after.is_some() {
            return None;
        }
        if change
            .before
            .or(change.after)
            .is_some_and(|side| side.is_dir())
        {
            return None;
        }
        let largest = |side: Option<DiffSide>| side.map_or(0, |side| side.size);
        if largest(change.before).max(largest(change.after)) > MAX_COMPARED_BYTES
            || self.shown >= MAX_SHOWN_DIFFERENCES
            || self.html.len() > MAX_HTML_BYTES
        {
            self.left_out += 1;
            return None;
        }
        let mut html = HtmlFragment::default();
        let read =
            |bytes: Option<NodeBytes>| bytes.map_or_else(|| Ok(Vec::new()), |bytes| bytes.read());
        let both = self.diff.contents(change);
        let both = both.and_then(|(before, after)| Ok((read(before)?, read(after)?)));
        match both {
            Err(error) => {
                html.raw("<p class=\"warn\">The content cannot be shown: ");
                html.text(&error.to_string()).raw("</p>");
            }
            Ok((before, after)) if is_binary(&before) || is_binary(&after) => return None,
            Ok((before, after)) if before == after => return None,
            Ok((before, after)) => hunks(&mut html, &before, &after),
        }
        self.shown += 1;
        Some(html.into_string())
    }
}

impl PageFolder<'_> {
    /// Returns whether anything in it was edited rather than created or removed.
    fn has_edits(&self) -> bool {
        let mut pending = vec![self];
        while let Some(folder) = pending.pop() {
            let edited =
                |(_, change): &(String, &PathDifference)| change.status == ChangeStatus::Modified;
            if folder.changes.iter().any(edited) {
                return true;
            }
            let inner = folder.folders.iter();
            pending.extend(
                inner
                    .filter(|(n, _)| !BULK_DIRS.contains(&n.as_str()))
                    .map(|(_, f)| f),
            );
        }
        false
    }

    fn count(&self) -> u64 {
        let mut count = 0;
        let mut pending = vec![self];
        while let Some(folder) = pending.pop() {
            count += folder.changes.len() as u64 + u64::from(folder.own.is_some());
            pending.extend(folder.folders.values());
        }
        count
    }
}

fn badge(html: &mut HtmlFragment, status: ChangeStatus) {
    let (class, letter) = (status.word(), status.letter());
    html.raw(&format!(
        "<span class=\"badge {class}\" title=\"{class}\"><span aria-hidden=\"true\">{letter}</span><span class=\"sr\">{class}: </span></span> "
    ));
}

/// Returns whether a content is binary, as in git: it has a NUL among the first bytes.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|b| *b == 0)
}

/// Describes a difference in a few words.
fn describe(change: &PathDifference) -> String {
    let mut words = Vec::new();
    match (change.before, change.after) {
        (None, Some(side)) | (Some(side), None) if !side.is_dir() => {
            if side.kind != "file" {
                words.push(side.kind.to_owned());
            }
            words.push(size(side.size));
        }
        (Some(before), Some(after)) => {
            if before.kind != after.kind {
                words.push(format!("{} → {}", before.kind, after.kind));
            }
            if change.content && before.size != after.size {
                words.push(format!("{} → {}", size(before.size), size(after.size)));
            } else if change.content {
                words.push(size(after.size));
            }
        }
        _ => {}
    }
    words.extend(change.rights());
    if change.xattrs {
        words.push("extended attributes".to_owned());
    }
    words.extend(change.unknown.clone());
    words.join(", ")
}
