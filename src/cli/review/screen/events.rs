//! Handlers of keys and of worker events: the changes that each makes to the state.

use std::collections::{BTreeSet, HashSet};

use super::super::super::output::count;
use super::keys::{Key, KeyAction, action};
use super::state::{
    FocusedPane, OpenPrompt, ScreenEffect, ScreenState, TextPurpose, WorkerActivity,
};
use super::worker_messages::{
    ActionOutcome, ListedPath, ReviewAction, ReviewListing, SeenChange, WorkerEvent,
};

/// The lines of the help on a narrow screen, about.
const MAX_HELP_LINES: usize = 80;

impl ScreenState {
    /// Does what a key says.
    pub(super) fn handle_key(&mut self, key: Key) -> Vec<ScreenEffect> {
        if key == Key::Ctrl('z') {
            return vec![ScreenEffect::Suspend];
        }
        match std::mem::replace(&mut self.asked, OpenPrompt::Nothing) {
            OpenPrompt::Nothing => match action(key) {
                Some(action) => self.handle_action(action),
                None => Vec::new(),
            },
            OpenPrompt::Sure { question, action } => self.answer_question(key, question, action),
            OpenPrompt::Text { of, text } => self.type_in(key, of, text),
            OpenPrompt::Read { title, lines, top } => {
                if let Some(top) = scroll_position(key, top, lines.len()) {
                    self.asked = OpenPrompt::Read { title, lines, top };
                }
                Vec::new()
            }
            OpenPrompt::Help { top } => {
                if let Some(top) = scroll_position(key, top, MAX_HELP_LINES) {
                    self.asked = OpenPrompt::Help { top };
                }
                Vec::new()
            }
        }
    }

    fn handle_action(&mut self, action: KeyAction) -> Vec<ScreenEffect> {
        if !matches!(action, KeyAction::Redraw | KeyAction::Suspend) {
            self.message.clear();
        }
        let page = self.page_rows();
        match action {
            KeyAction::Down => return self.step(1),
            KeyAction::Up => return self.step(-1),
            KeyAction::PageDown => return self.scroll(page),
            KeyAction::PageUp => return self.scroll(-page),
            KeyAction::First => return self.scroll(isize::MIN),
            KeyAction::Last => return self.scroll(isize::MAX),
            KeyAction::Into => return self.go_in(),
            KeyAction::Right => return self.go_right(),
            KeyAction::Left => return self.go_left(),
            KeyAction::MoveRight => return self.move_sideways(true),
            KeyAction::MoveLeft => return self.move_sideways(false),
            KeyAction::FoldAll => return self.fold_all(),
            KeyAction::Mark => return self.mark(),
            KeyAction::Unmark => {
                self.marked.clear();
                self.note_marks();
            }
            KeyAction::Split => return self.split_hunk(),
            KeyAction::Edit => return self.begin_edit(),
            KeyAction::Back => self.focus = FocusedPane::List,
            KeyAction::Accept => self.ask_to_decide(true),
            KeyAction::Reject => self.ask_to_decide(false),
            KeyAction::Search => self.begin_typing(TextPurpose::Search),
            KeyAction::Point => self.begin_typing(TextPurpose::Point),
            KeyAction::Next => return self.find_path(true),
            KeyAction::Previous => return self.find_path(false),
            KeyAction::Group => return self.regroup(),
            KeyAction::Restore => self.ask_to_restore(),
            KeyAction::Undo => self.ask_to_undo(),
            KeyAction::Help => self.asked = OpenPrompt::Help { top: 0 },
            KeyAction::Suspend => return vec![ScreenEffect::Suspend],
            KeyAction::Redraw => return vec![ScreenEffect::Redraw],
            KeyAction::Quit => return self.quit(),
        }
        Vec::new()
    }

    /// Ends the screen, but not in the middle of a change.
    pub(super) fn quit(&mut self) -> Vec<ScreenEffect> {
        match self.busy {
            Some(WorkerActivity::Changing) if !self.is_leaving => {
                self.is_leaving = true;
                self.message = "leaving when this is done".to_owned();
                Vec::new()
            }
            _ => vec![ScreenEffect::Quit],
        }
    }

    /// Takes note of what the work says.
    pub(super) fn handle_event(&mut self, event: WorkerEvent) -> Vec<ScreenEffect> {
        match event {
            WorkerEvent::Listed(listing) => self.show_listing(listing),
            WorkerEvent::Shown(shown) => {
                if self
                    .selected_item()
                    .is_some_and(|item| item.path == shown.path)
                {
                    self.hunk = self.hunk.min(shown.hunks.len().saturating_sub(1));
                    let seen = self.first_line..self.first_line + self.room.lines;
                    let hunk = shown.hunks.get(self.hunk).map(|hunk| hunk.line);
                    if let Some(line) = hunk.filter(|line| {
                        self.focus == FocusedPane::Difference && !seen.contains(line)
                    }) {
                        self.first_line = line;
                    }
                    self.shown = Some(*shown);
                }
                Vec::new()
            }
            WorkerEvent::Described(described) => {
                let described = described.into_iter();
                self.tags.extend(described.map(|row| (row.of, row.tags)));
                Vec::new()
            }
            WorkerEvent::Editable(text) => {
                if self.busy == Some(WorkerActivity::Opening) {
                    self.busy = None;
                }
                vec![ScreenEffect::Edit(text)]
            }
            WorkerEvent::Whole => {
                self.message =
                    "this hunk is whole: its changed lines are next to each other".to_owned();
                Vec::new()
            }
            WorkerEvent::Done(outcome, listing) => self.note_outcome(outcome, listing),
            WorkerEvent::Failed(what) => {
                self.busy = None;
                self.read("not read", vec![what]);
                Vec::new()
            }
        }
    }

    fn show_listing(&mut self, listing: ReviewListing) -> Vec<ScreenEffect> {
        if self.busy == Some(WorkerActivity::Reading) {
            self.busy = None;
        }
        let asked = match &self.asked {
            OpenPrompt::Sure { action, .. } => !matches!(action, ReviewAction::Undo(_)),
            _ => false,
        };
        let concerned = |state: &ScreenState| -> Vec<SeenChange> {
            state
                .concerned()
                .into_iter()
                .map(ListedPath::seen)
                .collect()
        };
        let before = asked.then(|| concerned(self));
        let selected = self.selection();
        // A difference of another point must not be taken for one of this.
        if self.shown_point() != listing.at.as_deref() {
            self.shown = None;
        }
        let last = self.listing.replace(listing);
        // A request for tags may have been about the list before.
        self.tags.retain(|_, tags| !tags.is_empty());
        self.carry_marks(&last.unwrap_or_default());
        self.arrange(selected);
        // Somebody who is asked about something must see what it has become. What was done here stays what it is.
        if before.is_some_and(|before| before.is_empty() || concerned(self) != before) {
            self.asked = OpenPrompt::Nothing;
            self.message = "it has changed meanwhile: look again".to_owned();
        }
        self.request_difference()
    }

    /// Marks what was marked in the last listing and is as it was then; says how many paths are not.
    fn carry_marks(&mut self, last: &ReviewListing) {
        if self.marked.is_empty() {
            return;
        }
        let marked = self.marked.iter().filter_map(|at| last.items.get(*at));
        let marked: HashSet<SeenChange> = marked.map(ListedPath::seen).collect();
        let listed = self.listing.iter().flat_map(|listing| &listing.items);
        let left = listed.enumerate();
        let left = left.filter(|(_, item)| marked.contains(&item.seen()));
        let left: BTreeSet<usize> = left.map(|(at, _)| at).collect();
        let lost = self.marked.len() - left.len();
        if lost > 0 {
            self.message = format!("{} changed meanwhile: unmarked", count(lost as u64, "path"));
        }
        self.marked = left;
    }

    fn note_outcome(
        &mut self,
        outcome: ActionOutcome,
        listing: Option<ReviewListing>,
    ) -> Vec<ScreenEffect> {
        self.busy = None;
        if self.is_leaving {
            return vec![ScreenEffect::Quit];
        }
        let effects = listing.map_or_else(Vec::new, |listing| self.show_listing(listing));
        if outcome.undid {
            self.done.pop();
        }
        self.is_last_accepted =
            outcome.accepted || self.is_last_accepted && outcome.undoable.is_none();
        self.done.extend(outcome.undoable);
        self.message = outcome.message;
        if !outcome.more.is_empty() {
            self.read("read this first", outcome.more);
        }
        effects
    }

    pub(super) fn read(&mut self, title: &'static str, lines: Vec<String>) {
        let lines = lines
            .iter()
            .flat_map(|line| line.lines())
            .map(str::to_owned);
        self.asked = OpenPrompt::Read {
            title,
            lines: lines.collect(),
            top: 0,
        };
    }
}

/// Returns where lines that are read begin after a key; `None` where it ends the reading.
fn scroll_position(key: Key, top: usize, lines: usize) -> Option<usize> {
    let last = lines.saturating_sub(1);
    match action(key) {
        Some(KeyAction::Down) => Some((top + 1).min(last)),
        Some(KeyAction::PageDown) => Some((top + 8).min(last)),
        Some(KeyAction::Up) => Some(top.saturating_sub(1)),
        Some(KeyAction::PageUp) => Some(top.saturating_sub(8)),
        _ => None,
    }
}
