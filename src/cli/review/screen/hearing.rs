//! Handlers of keys and of worker events: the changes that each makes to the state.

use super::keys::{Key, KeyAction, action};
use super::orders::{ActionOutcome, ReviewAction, ReviewListing, WorkerEvent};
use super::state::{
    FocusedPane, OpenPrompt, ScreenEffect, ScreenState, TextPurpose, WorkerActivity,
};

impl ScreenState {
    /// Does what a key says.
    pub(super) fn key(&mut self, key: Key) -> Vec<ScreenEffect> {
        if key == Key::Ctrl('z') {
            return vec![ScreenEffect::Suspend];
        }
        match std::mem::replace(&mut self.asked, OpenPrompt::Nothing) {
            OpenPrompt::Nothing => match action(key) {
                Some(action) => self.act(action),
                None => Vec::new(),
            },
            OpenPrompt::Sure { question, deed } => self.answer(key, question, deed),
            OpenPrompt::Text { of, text } => self.type_in(key, of, text),
            OpenPrompt::Read { title, lines, top } => {
                if let Some(top) = scrolled(key, top, lines.len()) {
                    self.asked = OpenPrompt::Read { title, lines, top };
                }
                Vec::new()
            }
            OpenPrompt::Help { top } => {
                if let Some(top) = scrolled(key, top, super::keys::TABLE.len()) {
                    self.asked = OpenPrompt::Help { top };
                }
                Vec::new()
            }
        }
    }

    fn act(&mut self, action: KeyAction) -> Vec<ScreenEffect> {
        if !matches!(action, KeyAction::Redraw | KeyAction::Suspend) {
            self.said.clear();
        }
        let page = self.page();
        match action {
            KeyAction::Down => return self.step(1),
            KeyAction::Up => return self.step(-1),
            KeyAction::PageDown => return self.scroll(page),
            KeyAction::PageUp => return self.scroll(-page),
            KeyAction::First => return self.scroll(isize::MIN),
            KeyAction::Last => return self.scroll(isize::MAX),
            KeyAction::Into => self.go_in(),
            KeyAction::Back => self.focus = FocusedPane::List,
            KeyAction::Accept => self.decide(true),
            KeyAction::Reject => self.decide(false),
            KeyAction::Search => self.ask(TextPurpose::Search),
            KeyAction::Point => self.ask(TextPurpose::Point),
            KeyAction::Next => return self.find(true),
            KeyAction::Previous => return self.find(false),
            KeyAction::Group => return self.regroup(),
            KeyAction::Restore => self.restore(),
            KeyAction::Undo => self.undo(),
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
                self.said = "leaving when this is done".to_owned();
                Vec::new()
            }
            _ => vec![ScreenEffect::Quit],
        }
    }

    /// Takes note of what the work says.
    pub(super) fn news(&mut self, news: WorkerEvent) -> Vec<ScreenEffect> {
        match news {
            WorkerEvent::Listed(listing) => self.listed(listing),
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
            WorkerEvent::Done(outcome, listing) => self.has_done(outcome, listing),
            WorkerEvent::Failed(what) => {
                self.busy = None;
                self.read("not read", vec![what]);
                Vec::new()
            }
        }
    }

    fn listed(&mut self, listing: ReviewListing) -> Vec<ScreenEffect> {
        if self.busy == Some(WorkerActivity::Reading) {
            self.busy = None;
        }
        let (selected, before) = (self.selection(), self.concerned());
        // A difference of another point must not be taken for one of this.
        if self.at() != listing.at.as_deref() {
            self.shown = None;
        }
        self.listing = Some(listing);
        self.arrange(selected);
        // Somebody who is asked about something must see what it has become. What was done here stays what it is.
        if let OpenPrompt::Sure { deed, .. } = &self.asked
            && !matches!(deed, ReviewAction::Undo(_))
            && (before.is_empty() || self.concerned() != before)
        {
            self.asked = OpenPrompt::Nothing;
            self.said = "it has changed meanwhile: look again".to_owned();
        }
        self.look()
    }

    fn has_done(
        &mut self,
        outcome: ActionOutcome,
        listing: Option<ReviewListing>,
    ) -> Vec<ScreenEffect> {
        self.busy = None;
        if self.is_leaving {
            return vec![ScreenEffect::Quit];
        }
        let effects = listing.map_or_else(Vec::new, |listing| self.listed(listing));
        if outcome.undid {
            self.done.pop();
        }
        self.is_last_accepted =
            outcome.accepted || self.is_last_accepted && outcome.undoable.is_none();
        self.done.extend(outcome.undoable);
        self.said = outcome.said;
        if !outcome.more.is_empty() {
            self.read("read this first", outcome.more);
        }
        effects
    }

    fn read(&mut self, title: &'static str, lines: Vec<String>) {
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
fn scrolled(key: Key, top: usize, lines: usize) -> Option<usize> {
    let last = lines.saturating_sub(1);
    match action(key) {
        Some(KeyAction::Down) => Some((top + 1).min(last)),
        Some(KeyAction::PageDown) => Some((top + 8).min(last)),
        Some(KeyAction::Up) => Some(top.saturating_sub(1)),
        Some(KeyAction::PageUp) => Some(top.saturating_sub(8)),
        _ => None,
    }
}
