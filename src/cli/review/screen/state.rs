//! The state of the screen. Pure: keys and news change it in `events`, `navigation` and `prompts`, and what is to be done
//! comes back as effects.

use super::groups::{GroupBy, ListRow, PathGroup};
use super::worker_messages::{
    ListedPath, ReviewAction, ReviewListing, ShownDifference, UndoableAction, WorkerRequest,
};
use crate::name::WorldPath;
use crate::operator::diff::ChangeStatus;

/// An effect that the state asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenEffect {
    Request(WorkerRequest),
    Redraw,
    Suspend,
    Quit,
}

/// Which side the keys go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FocusedPane {
    List,
    Difference,
}

/// The prompt that takes the keys before the list does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OpenPrompt {
    Nothing,
    /// A question before an action.
    Sure {
        question: String,
        action: ReviewAction,
    },
    /// A text.
    Text {
        of: TextPurpose,
        text: String,
    },
    /// Lines to be read, from one of them on.
    Read {
        title: &'static str,
        lines: Vec<String>,
        top: usize,
    },
    /// The help, from a line on.
    Help {
        top: usize,
    },
}

/// The purpose of a typed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextPurpose {
    Search,
    Point,
}

/// The present activity of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerActivity {
    /// Another point was asked for.
    Reading,
    /// Something is being changed.
    Changing,
}

/// The selection, whatever its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListSelection {
    Nothing,
    Path(WorldPath),
    /// The heading of a group, by its title: no two groups have the same.
    Group(String),
}

/// Rows that there are for the list and for the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PaneHeights {
    pub(super) list: usize,
    pub(super) lines: usize,
}

/// The whole state.
#[derive(Debug)]
pub(super) struct ScreenState {
    /// The subject of the review, in words.
    pub(super) title: String,
    /// The list; absent until it was read.
    pub(super) listing: Option<ReviewListing>,
    pub(super) by: GroupBy,
    pub(super) groups: Vec<PathGroup>,
    pub(super) rows: Vec<ListRow>,
    /// The selected row, and the first one that is seen.
    pub(super) selected: usize,
    pub(super) top: usize,
    pub(super) focus: FocusedPane,
    pub(super) shown: Option<ShownDifference>,
    /// The chosen hunk, and the first line that is seen.
    pub(super) hunk: usize,
    pub(super) first_line: usize,
    pub(super) asked: OpenPrompt,
    /// True if a key answers what is asked: whoever sits there has seen it.
    pub(super) is_answerable: bool,
    /// The message about the last action.
    pub(super) message: String,
    /// The worker's activity.
    pub(super) busy: Option<WorkerActivity>,
    /// The actions that were done here, the last one last.
    pub(super) done: Vec<UndoableAction>,
    /// True if the last thing was to accept something, which cannot be taken back.
    pub(super) is_last_accepted: bool,
    /// The text that was searched for.
    pub(super) search: String,
    pub(super) room: PaneHeights,
    /// True if the screen ends as soon as what is under way is done.
    pub(super) is_leaving: bool,
}

impl ScreenState {
    /// Makes the state of a screen that knows nothing yet.
    pub(super) fn new(title: String) -> ScreenState {
        ScreenState {
            title,
            listing: None,
            by: GroupBy::default(),
            groups: Vec::new(),
            rows: Vec::new(),
            selected: 0,
            top: 0,
            focus: FocusedPane::List,
            shown: None,
            hunk: 0,
            first_line: 0,
            asked: OpenPrompt::Nothing,
            is_answerable: true,
            message: String::new(),
            busy: None,
            done: Vec::new(),
            is_last_accepted: false,
            search: String::new(),
            room: PaneHeights::default(),
            is_leaving: false,
        }
    }

    /// Returns the question that a key would answer.
    pub(super) fn question(&self) -> Option<&str> {
        match &self.asked {
            OpenPrompt::Sure { question, .. } => Some(question),
            _ => None,
        }
    }

    /// Returns how many paths are listed.
    pub(super) fn count(&self) -> usize {
        self.listing
            .as_ref()
            .map_or(0, |listing| listing.items.len())
    }

    /// Returns the point that is shown; absent for the present.
    pub(super) fn shown_point(&self) -> Option<&str> {
        self.listing.as_ref()?.at.as_deref()
    }

    /// Returns a listed path.
    pub(super) fn item(&self, at: usize) -> Option<&ListedPath> {
        self.listing.as_ref()?.items.get(at)
    }

    /// Returns the selected path; absent on the heading of a group.
    pub(super) fn selected_item(&self) -> Option<&ListedPath> {
        match self.rows.get(self.selected)? {
            ListRow::Item(at) => self.item(*at),
            ListRow::Group(_) => None,
        }
    }

    /// Returns the group whose heading is selected.
    pub(super) fn selected_group(&self) -> Option<&PathGroup> {
        match self.rows.get(self.selected)? {
            ListRow::Group(at) => self.groups.get(*at),
            ListRow::Item(_) => None,
        }
    }

    /// Returns what is selected, so that it is found again in another list.
    pub(super) fn selection(&self) -> ListSelection {
        match (self.selected_item(), self.selected_group()) {
            (Some(item), _) => ListSelection::Path(item.path.clone()),
            (None, Some(group)) => ListSelection::Group(group.title.clone()),
            (None, None) => ListSelection::Nothing,
        }
    }

    /// Returns the listed paths that a decision on what is selected is about: a path and what is below it, or those of
    /// a group.
    pub(super) fn concerned(&self) -> Vec<(WorldPath, ChangeStatus, i64)> {
        let items = self
            .listing
            .as_ref()
            .map_or(&[][..], |listing| &listing.items);
        let of = |item: &ListedPath| (item.path.clone(), item.status, item.time);
        if let Some(group) = self.selected_group() {
            let items = group.items.iter().filter_map(|at| items.get(*at));
            return items.map(of).collect();
        }
        let Some(selected) = self.selected_item() else {
            return Vec::new();
        };
        let items = items
            .iter()
            .filter(|item| selected.path.contains(&item.path));
        items.map(of).collect()
    }

    /// Returns the difference of the selected path, as far as it was read.
    pub(super) fn difference(&self) -> Option<&ShownDifference> {
        let item = self.selected_item()?;
        self.shown.as_ref().filter(|shown| shown.path == item.path)
    }

    /// Takes note of the room that there is, so that what is selected is seen.
    pub(super) fn fit(&mut self, room: PaneHeights) {
        self.room = room;
        let list = room.list.max(1);
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        self.top = self
            .top
            .min(self.selected)
            .max((self.selected + 1).saturating_sub(list));
        // Rows below the last one are wasted.
        self.top = self.top.min(self.rows.len().saturating_sub(list));
        let lines = self.difference().map_or(0, |shown| shown.lines.len());
        self.first_line = self.first_line.min(lines.saturating_sub(room.lines));
    }
}
