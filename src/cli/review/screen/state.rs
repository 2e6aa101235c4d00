//! The state of the screen. Pure: keys and news change it in `events`, `navigation` and `prompts`, and what is to be done
//! comes back as effects.

use std::collections::{BTreeSet, HashMap};

use super::groups::{FoldChoices, GroupBy, ListRow, PathGroup, ReviewArrangement};
use super::worker_messages::{
    ListedPath, ReviewAction, ReviewListing, SeenChange, ShownDifference, UndoableAction,
    WorkerRequest,
};
use crate::name::{SubtreeSet, WorldPath};
use crate::operator::review::EditableText;

/// The number of rows whose tags are remembered.
const MAX_TAGGED: usize = 10_000;

/// An effect that the state asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenEffect {
    Request(WorkerRequest),
    Redraw,
    Suspend,
    /// To have a text edited, and to note what became of it.
    Edit(Box<EditableText>),
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
    /// A text was asked for, to be edited.
    Opening,
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
    pub(super) arrangement: ReviewArrangement,
    pub(super) folds: FoldChoices,
    /// The rows, each with the number of headings that it is below.
    pub(super) rows: Vec<(ListRow, usize)>,
    /// The places of the marked paths in the listing.
    pub(super) marked: BTreeSet<usize>,
    /// The places of the marked paths in the order, sorted.
    marked_places: Vec<usize>,
    /// The tags of rows that were seen; empty until they are known.
    pub(super) tags: HashMap<SeenChange, Vec<&'static str>>,
    /// The selected row, and the first one that is seen.
    pub(super) selected: usize,
    pub(super) top: usize,
    pub(super) focus: FocusedPane,
    pub(super) shown: Option<ShownDifference>,
    /// The chosen hunk, and the first line that is seen.
    pub(super) hunk: usize,
    pub(super) first_line: usize,
    /// The columns of the difference that are left out at the left.
    pub(super) sideways: usize,
    pub(super) asked: OpenPrompt,
    /// True if keys count: whoever sits there has seen the screen, and what is asked.
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
            arrangement: ReviewArrangement::default(),
            folds: FoldChoices::default(),
            rows: Vec::new(),
            marked: BTreeSet::new(),
            marked_places: Vec::new(),
            tags: HashMap::new(),
            selected: 0,
            top: 0,
            focus: FocusedPane::List,
            shown: None,
            hunk: 0,
            first_line: 0,
            sideways: 0,
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

    /// Returns the selected row.
    pub(super) fn selected_row(&self) -> Option<ListRow> {
        self.rows.get(self.selected).map(|(row, _)| *row)
    }

    /// Returns the selected path; absent on the heading of a group.
    pub(super) fn selected_item(&self) -> Option<&ListedPath> {
        match self.selected_row()? {
            ListRow::Item(at) => self.item(at),
            ListRow::Group(_) => None,
        }
    }

    /// Returns the group whose heading is selected.
    pub(super) fn selected_group(&self) -> Option<&PathGroup> {
        match self.selected_row()? {
            ListRow::Group(at) => self.arrangement.groups.get(at),
            ListRow::Item(_) => None,
        }
    }

    /// Returns the listed paths of a group.
    pub(super) fn items_of<'s>(
        &'s self,
        group: &'s PathGroup,
    ) -> impl Iterator<Item = &'s ListedPath> {
        let items = self.arrangement.items_of(group).iter();
        items.filter_map(|at| self.item(*at))
    }

    /// Returns the number of a group's paths that are marked.
    pub(super) fn marked_in(&self, group: &PathGroup) -> usize {
        if self.marked.is_empty() {
            return 0;
        }
        let place = |at: usize| self.marked_places.partition_point(|marked| *marked < at);
        place(group.range.end) - place(group.range.start)
    }

    /// Finds the places of the marked paths in the order of the list.
    pub(super) fn note_marks(&mut self) {
        let order = self.arrangement.order.iter().enumerate();
        let order = order.filter(|_| !self.marked.is_empty());
        let places = order.filter(|(_, at)| self.marked.contains(at));
        self.marked_places = places.map(|(place, _)| place).collect();
    }

    /// Returns what is selected, so that it is found again in another list.
    pub(super) fn selection(&self) -> ListSelection {
        match (self.selected_item(), self.selected_group()) {
            (Some(item), _) => ListSelection::Path(item.path.clone()),
            (None, Some(group)) => ListSelection::Group(group.title.clone()),
            (None, None) => ListSelection::Nothing,
        }
    }

    /// Returns whether a decision is about the marked paths.
    pub(super) fn are_marked_meant(&self) -> bool {
        self.focus == FocusedPane::List && !self.marked.is_empty()
    }

    /// Returns the places in the listing of the paths that the selected row is of.
    pub(super) fn selected_places(&self) -> Vec<usize> {
        match (self.selected_group(), self.selected_row()) {
            (Some(group), _) => self.arrangement.items_of(group).to_vec(),
            (None, Some(ListRow::Item(at))) => vec![at],
            (None, _) => Vec::new(),
        }
    }

    /// Returns the listed changes that a decision is about: those of the marked paths, else of the selected ones, and of
    /// what is below them.
    pub(super) fn concerned(&self) -> Vec<&ListedPath> {
        let are_marked_meant = self.are_marked_meant();
        let meant = if are_marked_meant {
            self.marked.iter().copied().collect()
        } else {
            self.selected_places()
        };
        let mut is_concerned = vec![false; self.count()];
        for at in &meant {
            if let Some(is_concerned) = is_concerned.get_mut(*at) {
                *is_concerned = true;
            }
        }
        // A run's changes are its own, wherever they are.
        let of_run = self
            .selected_group()
            .is_some_and(|group| group.run.is_some());
        let meant = meant.iter().filter(|_| are_marked_meant || !of_run);
        let meant = meant.filter_map(|at| Some(self.item(*at)?.path.clone()));
        let meant: Vec<WorldPath> = meant.collect();
        let meant = SubtreeSet::of(&meant);
        let items = self.listing.iter().flat_map(|listing| &listing.items);
        let items = items.zip(is_concerned);
        // A path that is meant itself need not be searched for.
        let items = items.filter(|(item, is_meant)| *is_meant || meant.contains(&item.path));
        items.map(|(item, _)| item).collect()
    }

    /// Returns the difference of the selected path, as far as it was read.
    pub(super) fn difference(&self) -> Option<&ShownDifference> {
        let item = self.selected_item()?;
        self.shown.as_ref().filter(|shown| shown.path == item.path)
    }

    /// Returns the request for the tags of the rows that are seen and have none yet.
    pub(super) fn request_tags(&mut self) -> Option<WorkerRequest> {
        let number = self.listing.as_ref()?.number;
        let seen = self.rows.iter().skip(self.top).take(self.room.list);
        let items = seen.filter_map(|(row, _)| match row {
            ListRow::Item(at) => Some((*at, self.item(*at)?.seen())),
            ListRow::Group(_) => None,
        });
        let new = items.filter(|(_, seen)| !self.tags.contains_key(seen));
        let new: Vec<_> = new.collect();
        if new.is_empty() {
            return None;
        }
        if self.tags.len() > MAX_TAGGED {
            self.tags.clear();
        }
        let places = new.iter().map(|(at, _)| *at).collect();
        self.tags
            .extend(new.into_iter().map(|(_, seen)| (seen, Vec::new())));
        Some(WorkerRequest::Describe(number, places))
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
