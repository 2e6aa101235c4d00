//! What a key, or a piece of news, makes of the state.

use super::keys::{Action, Key, action};
use super::orders::{Deed, Listing, News, Outcome};
use super::state::{Asked, Busy, Effect, Focus, State, TextOf};

impl State {
    /// Does what a key says.
    pub(super) fn key(&mut self, key: Key) -> Vec<Effect> {
        if key == Key::Ctrl('z') {
            return vec![Effect::Suspend];
        }
        match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Nothing => match action(key) {
                Some(action) => self.act(action),
                None => Vec::new(),
            },
            Asked::Sure { question, deed } => self.answer(key, question, deed),
            Asked::Text { of, text } => self.type_in(key, of, text),
            Asked::Read { title, lines, top } => {
                if let Some(top) = scrolled(key, top, lines.len()) {
                    self.asked = Asked::Read { title, lines, top };
                }
                Vec::new()
            }
            Asked::Help { top } => {
                if let Some(top) = scrolled(key, top, super::keys::TABLE.len()) {
                    self.asked = Asked::Help { top };
                }
                Vec::new()
            }
        }
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        if !matches!(action, Action::Redraw | Action::Suspend) {
            self.said.clear();
        }
        let page = self.page();
        match action {
            Action::Down => return self.step(1),
            Action::Up => return self.step(-1),
            Action::PageDown => return self.scroll(page),
            Action::PageUp => return self.scroll(-page),
            Action::First => return self.scroll(isize::MIN),
            Action::Last => return self.scroll(isize::MAX),
            Action::Into => self.go_in(),
            Action::Back => self.focus = Focus::List,
            Action::Accept => self.decide(true),
            Action::Reject => self.decide(false),
            Action::Search => self.ask(TextOf::Search),
            Action::Point => self.ask(TextOf::Point),
            Action::Next => return self.find(true),
            Action::Previous => return self.find(false),
            Action::Group => return self.regroup(),
            Action::Restore => self.restore(),
            Action::Undo => self.undo(),
            Action::Help => self.asked = Asked::Help { top: 0 },
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::Quit => return self.quit(),
        }
        Vec::new()
    }

    /// Ends the screen, but not in the middle of a change.
    pub(super) fn quit(&mut self) -> Vec<Effect> {
        match self.busy {
            Some(Busy::Changing) if !self.is_leaving => {
                self.is_leaving = true;
                self.said = "leaving when this is done".to_owned();
                Vec::new()
            }
            _ => vec![Effect::Quit],
        }
    }

    /// Takes note of what the work says.
    pub(super) fn news(&mut self, news: News) -> Vec<Effect> {
        match news {
            News::Listed(listing) => self.listed(listing),
            News::Shown(shown) => {
                if self
                    .selected_item()
                    .is_some_and(|item| item.path == shown.path)
                {
                    self.hunk = self.hunk.min(shown.hunks.len().saturating_sub(1));
                    let seen = self.first_line..self.first_line + self.room.lines;
                    let hunk = shown.hunks.get(self.hunk).map(|hunk| hunk.line);
                    if let Some(line) =
                        hunk.filter(|line| self.focus == Focus::Difference && !seen.contains(line))
                    {
                        self.first_line = line;
                    }
                    self.shown = Some(*shown);
                }
                Vec::new()
            }
            News::Done(outcome, listing) => self.has_done(outcome, listing),
            News::Failed(what) => {
                self.busy = None;
                self.read("not read", vec![what]);
                Vec::new()
            }
        }
    }

    fn listed(&mut self, listing: Listing) -> Vec<Effect> {
        if self.busy == Some(Busy::Reading) {
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
        if let Asked::Sure { deed, .. } = &self.asked
            && !matches!(deed, Deed::Undo(_))
            && (before.is_empty() || self.concerned() != before)
        {
            self.asked = Asked::Nothing;
            self.said = "it has changed meanwhile: look again".to_owned();
        }
        self.look()
    }

    fn has_done(&mut self, outcome: Outcome, listing: Option<Listing>) -> Vec<Effect> {
        self.busy = None;
        if self.is_leaving {
            return vec![Effect::Quit];
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
        self.asked = Asked::Read {
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
        Some(Action::Down) => Some((top + 1).min(last)),
        Some(Action::PageDown) => Some((top + 8).min(last)),
        Some(Action::Up) => Some(top.saturating_sub(1)),
        Some(Action::PageUp) => Some(top.saturating_sub(8)),
        _ => None,
    }
}
