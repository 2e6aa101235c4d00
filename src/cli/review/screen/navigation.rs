//! Moving through the list and through a difference.

use super::groups::{ListRow, PathGroup, ReviewArrangement};
use super::state::{FocusedPane, ListSelection, ScreenEffect, ScreenState};
use super::worker_messages::{ReviewListing, WorkerRequest};

/// The columns by which a difference moves sideways.
const SIDEWAYS_COLUMNS: usize = 8;
/// A difference does not move further: its lines are cut before.
const MAX_SIDEWAYS: usize = 4_000;

impl ScreenState {
    pub(super) fn page_rows(&self) -> isize {
        let rows = match self.focus {
            FocusedPane::List => self.room.list,
            FocusedPane::Difference => self.room.lines,
        };
        isize::try_from(rows.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// A step to the next row or hunk.
    pub(super) fn step(&mut self, by: isize) -> Vec<ScreenEffect> {
        let hunks = self.difference().map_or(&[][..], |shown| &shown.hunks);
        if self.focus == FocusedPane::List || hunks.is_empty() {
            return self.scroll(by);
        }
        let hunk = self.hunk.saturating_add_signed(by).min(hunks.len() - 1);
        let first = hunks.get(hunk).map_or(0, |hunk| hunk.line);
        (self.hunk, self.first_line) = (hunk, first);
        Vec::new()
    }

    /// So many rows, or lines of the difference, further.
    pub(super) fn scroll(&mut self, by: isize) -> Vec<ScreenEffect> {
        match self.focus {
            FocusedPane::List => self.select(self.selected.saturating_add_signed(by)),
            FocusedPane::Difference => {
                let Some(shown) = self.difference() else {
                    return Vec::new();
                };
                let last = shown.lines.len().saturating_sub(self.room.lines);
                let first = self.first_line.saturating_add_signed(by).min(last);
                // The hunk that is at the top, or at the end the last one: those are what one looks at.
                let top = if by == isize::MAX {
                    shown.lines.len()
                } else {
                    first
                };
                let before = shown.hunks.iter().filter(|hunk| hunk.line <= top).count();
                self.hunk = before.saturating_sub(1);
                self.first_line = first;
                Vec::new()
            }
        }
    }

    /// Goes into the difference, or folds or unfolds a heading.
    pub(super) fn go_in(&mut self) -> Vec<ScreenEffect> {
        if let Some(group) = self.selected_group() {
            let is_folded = self.folds.is_folded(group);
            return self.fold_selected(!is_folded);
        }
        // It may not be read yet.
        if self.selected_item().is_some() {
            self.focus = FocusedPane::Difference;
        }
        Vec::new()
    }

    /// To the right: unfolds, goes into the difference, or moves it.
    pub(super) fn go_right(&mut self) -> Vec<ScreenEffect> {
        if self.focus == FocusedPane::Difference {
            return self.move_sideways(true);
        }
        match self.selected_group() {
            Some(group) if self.folds.is_folded(group) => self.fold_selected(false),
            Some(_) => self.step(1),
            None => self.go_in(),
        }
    }

    /// To the left: moves the difference back, leaves it, or folds.
    pub(super) fn go_left(&mut self) -> Vec<ScreenEffect> {
        if self.focus == FocusedPane::Difference {
            if self.sideways == 0 {
                self.focus = FocusedPane::List;
                return Vec::new();
            }
            return self.move_sideways(false);
        }
        match self.selected_group() {
            Some(group) if !self.folds.is_folded(group) => self.fold_selected(true),
            _ => match self.heading_above() {
                Some(row) => self.select(row),
                None => Vec::new(),
            },
        }
    }

    pub(super) fn move_sideways(&mut self, is_right: bool) -> Vec<ScreenEffect> {
        self.sideways = if is_right {
            (self.sideways + SIDEWAYS_COLUMNS).min(MAX_SIDEWAYS)
        } else {
            self.sideways.saturating_sub(SIDEWAYS_COLUMNS)
        };
        Vec::new()
    }

    /// Returns the row of the heading that the selected row is below.
    fn heading_above(&self) -> Option<usize> {
        let depth = self.rows.get(self.selected)?.1.checked_sub(1)?;
        self.rows
            .iter()
            .take(self.selected)
            .rposition(|(row, at)| matches!(row, ListRow::Group(_)) && *at == depth)
    }

    fn fold_selected(&mut self, is_folded: bool) -> Vec<ScreenEffect> {
        let Some(ListRow::Group(at)) = self.selected_row() else {
            return Vec::new();
        };
        if let Some(group) = self.arrangement.groups.get(at) {
            self.folds.fold(group, is_folded);
        }
        // The rows above it stay what they are.
        self.rows = self.arrangement.rows(&self.folds);
        Vec::new()
    }

    /// Folds everything, or unfolds everything where nothing is left to fold.
    pub(super) fn fold_all(&mut self) -> Vec<ScreenEffect> {
        let mut groups = self.arrangement.groups.iter();
        let is_folded = groups.any(|group| !self.folds.is_folded(group));
        let selected = match self.selected_item() {
            Some(_) if is_folded => {
                let around = self.selected_place().into_iter();
                let outer = around
                    .flat_map(|at| self.arrangement.groups_around(at))
                    .next();
                outer.map(|(_, group)| ListSelection::Group(group.title.clone()))
            }
            _ => None,
        };
        let selected = selected.unwrap_or_else(|| self.selection());
        self.folds.fold_all(is_folded);
        self.arrange(selected);
        self.request_difference()
    }

    /// Marks or unmarks the selected path, or all paths of the selected group, and goes on.
    pub(super) fn mark(&mut self) -> Vec<ScreenEffect> {
        let mut meant = self.selected_places();
        if self.selected_group().is_some() {
            // What is flagged is decided on by itself.
            meant.retain(|at| self.item(*at).is_some_and(|item| item.flag.is_none()));
        }
        if meant.iter().all(|at| self.marked.contains(at)) {
            for at in &meant {
                self.marked.remove(at);
            }
        } else {
            self.marked.extend(meant);
        }
        self.note_marks();
        self.focus = FocusedPane::List;
        self.step(1)
    }

    /// Returns the place of the selected row in the order of the list.
    fn selected_place(&self) -> Option<usize> {
        match self.selected_row()? {
            ListRow::Group(at) => Some(self.arrangement.groups.get(at)?.range.start),
            ListRow::Item(item) => self.arrangement.order.iter().position(|at| *at == item),
        }
    }

    /// Unfolds the headings around a place of the order, and selects its row.
    fn reveal(&mut self, at: usize) -> Vec<ScreenEffect> {
        let around = self.arrangement.groups_around(at);
        let folded = around.filter(|(_, group)| self.folds.is_folded(group));
        let folded: Vec<&PathGroup> = folded.map(|(_, group)| group).collect();
        let is_new = !folded.is_empty();
        for group in folded {
            self.folds.fold(group, false);
        }
        if is_new {
            self.rows = self.arrangement.rows(&self.folds);
        }
        let item = self.arrangement.order.get(at).copied().map(ListRow::Item);
        let row = self.rows.iter().position(|(row, _)| Some(*row) == item);
        let row = row.unwrap_or(self.selected);
        self.focus = FocusedPane::List;
        if is_new {
            // Another row is at the same place.
            self.selected = row;
            return self.request_difference();
        }
        self.select(row)
    }

    /// Selects a row, and has its difference read.
    pub(super) fn select(&mut self, row: usize) -> Vec<ScreenEffect> {
        let row = row.min(self.rows.len().saturating_sub(1));
        if row == self.selected {
            return Vec::new();
        }
        self.selected = row;
        self.request_difference()
    }

    /// Has the difference of the selected path read.
    pub(super) fn request_difference(&mut self) -> Vec<ScreenEffect> {
        let path = self.selected_item().map(|item| item.path.clone());
        if self.shown.as_ref().map(|shown| &shown.path) != path.as_ref() {
            (self.hunk, self.first_line, self.focus) = (0, 0, FocusedPane::List);
            self.sideways = 0;
        }
        let order = path.map(|path| ScreenEffect::Request(WorkerRequest::Show(path)));
        order.into_iter().collect()
    }

    /// Goes to the next path, or the one before, in which the text is.
    pub(super) fn find_path(&mut self, forward: bool) -> Vec<ScreenEffect> {
        if self.search.is_empty() {
            return Vec::new();
        }
        // As `grep -i`, unless there is a capital in it.
        let folds = !self.search.chars().any(char::is_uppercase);
        let fits = |at: &usize| {
            let item = self
                .arrangement
                .order
                .get(*at)
                .and_then(|at| self.item(*at));
            item.is_some_and(|item| {
                let path = item.path.to_string();
                if folds {
                    path.to_lowercase().contains(&self.search)
                } else {
                    path.contains(&self.search)
                }
            })
        };
        let count = self.arrangement.order.len();
        let at = self.selected_place().unwrap_or(0);
        // The first path below a heading is none that was found yet.
        let is_heading = self.selected_group().is_some();
        let next = if is_heading { at } else { at + 1 };
        let found = if forward {
            (next..count).chain(0..next.min(count)).find(fits)
        } else {
            (0..at).rev().chain((at..count).rev()).find(fits)
        };
        match found {
            Some(at) => self.reveal(at),
            None => {
                self.message = format!("no listed path has {:?} in it", self.search);
                Vec::new()
            }
        }
    }

    pub(super) fn regroup(&mut self) -> Vec<ScreenEffect> {
        self.by = self.by.next();
        self.message = format!("by {}", self.by.name());
        let of_group = || self.items_of(self.selected_group()?).next();
        let item = self.selected_item().or_else(of_group);
        let path = item.map(|item| item.path.clone());
        self.arrange(path.map_or(ListSelection::Nothing, ListSelection::Path));
        self.request_difference()
    }

    /// Arranges the list anew; this stays selected, as far as it is still there: the path, or the heading that it is
    /// folded below.
    pub(super) fn arrange(&mut self, selected: ListSelection) {
        let empty = ReviewListing::default();
        let listing = self.listing.as_ref().unwrap_or(&empty);
        self.arrangement = ReviewArrangement::of(listing, self.by);
        self.rows = self.arrangement.rows(&self.folds);
        let wanted: Vec<ListRow> = match selected {
            ListSelection::Nothing => Vec::new(),
            ListSelection::Path(path) => {
                let item = listing.items.iter().position(|item| item.path == path);
                let place =
                    item.and_then(|item| self.arrangement.order.iter().position(|at| *at == item));
                let around = place.into_iter();
                let around = around.flat_map(|at| self.arrangement.groups_around(at));
                let mut wanted: Vec<_> = around.map(|(at, _)| ListRow::Group(at)).collect();
                wanted.extend(item.map(ListRow::Item));
                wanted.reverse();
                wanted
            }
            ListSelection::Group(title) => {
                let mut groups = self.arrangement.groups.iter();
                let at = groups.position(|group| group.title == title);
                at.map(ListRow::Group).into_iter().collect()
            }
        };
        let row_of = |wanted: &ListRow| self.rows.iter().position(|(row, _)| row == wanted);
        let row = wanted.iter().find_map(row_of);
        let last = self.rows.len().saturating_sub(1);
        self.selected = row.unwrap_or(self.selected.min(last));
        self.note_marks();
    }
}
