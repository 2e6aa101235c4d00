//! Moving through the list and through a difference.

use super::groups::{ListRow, arrange};
use super::state::{FocusedPane, ListSelection, ScreenEffect, ScreenState};
use super::worker_messages::{ReviewListing, WorkerRequest};

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

    pub(super) fn go_in(&mut self) {
        // It may not be read yet.
        if self.selected_item().is_some() {
            self.focus = FocusedPane::Difference;
        }
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
        let fits = |row: &usize| match self.rows.get(*row) {
            Some(ListRow::Item(at)) => self.item(*at).is_some_and(|item| {
                let path = item.path.to_string();
                if folds {
                    path.to_lowercase().contains(&self.search)
                } else {
                    path.contains(&self.search)
                }
            }),
            _ => false,
        };
        let (rows, at) = (self.rows.len(), self.selected);
        let found = if forward {
            (at + 1..rows).chain(0..(at + 1).min(rows)).find(fits)
        } else {
            (0..at).rev().chain((at..rows).rev()).find(fits)
        };
        match found {
            Some(row) => {
                self.focus = FocusedPane::List;
                self.select(row)
            }
            None => {
                self.message = format!("no listed path has {:?} in it", self.search);
                Vec::new()
            }
        }
    }

    pub(super) fn regroup(&mut self) -> Vec<ScreenEffect> {
        self.by = self.by.next();
        self.message = format!("by {}", self.by.name());
        let of_group = || self.item(*self.selected_group()?.items.first()?);
        let item = self.selected_item().or_else(of_group);
        let path = item.map(|item| item.path.clone());
        self.arrange(path.map_or(ListSelection::Nothing, ListSelection::Path));
        self.request_difference()
    }

    /// Arranges the list anew; this stays selected, as far as it is still there.
    pub(super) fn arrange(&mut self, selected: ListSelection) {
        let empty = ReviewListing::default();
        let listing = self.listing.as_ref().unwrap_or(&empty);
        (self.groups, self.rows) = arrange(listing, self.by);
        let row = match selected {
            ListSelection::Nothing => None,
            ListSelection::Path(path) => {
                let at = listing.items.iter().position(|item| item.path == path);
                at.map(ListRow::Item)
            }
            ListSelection::Group(title) => {
                let at = self.groups.iter().position(|group| group.title == title);
                at.map(ListRow::Group)
            }
        };
        let row = row.and_then(|wanted| self.rows.iter().position(|row| *row == wanted));
        let last = self.rows.len().saturating_sub(1);
        self.selected = row.unwrap_or(self.selected.min(last));
    }
}
