//! Questions before a change, and typed texts.

use super::keys::Key;
use super::state::{
    FocusedPane, OpenPrompt, ScreenEffect, ScreenState, TextPurpose, WorkerActivity,
};
use super::worker_messages::{ActionTarget, ReviewAction, WorkerRequest};

impl ScreenState {
    pub(super) fn begin_typing(&mut self, of: TextPurpose) {
        self.asked = OpenPrompt::Text {
            of,
            text: String::new(),
        };
    }

    pub(super) fn type_in(
        &mut self,
        key: Key,
        of: TextPurpose,
        mut text: String,
    ) -> Vec<ScreenEffect> {
        match key {
            Key::Char(c) => text.push(c),
            Key::Backspace => drop(text.pop()),
            Key::Ctrl('u') => text.clear(),
            Key::Escape | Key::Ctrl('c') => return Vec::new(),
            Key::Enter if of == TextPurpose::Search => {
                self.search = text;
                return self.find_path(true);
            }
            Key::Enter => {
                self.busy = Some(WorkerActivity::Reading);
                let at = Some(text).filter(|text| !matches!(text.trim(), "" | "now"));
                return vec![ScreenEffect::Request(WorkerRequest::Read(at))];
            }
            _ => {}
        }
        self.asked = OpenPrompt::Text { of, text };
        Vec::new()
    }

    /// Asks whether what is selected shall be accepted, or taken back.
    pub(super) fn ask_to_decide(&mut self, accepts: bool) {
        if self.busy.is_some() {
            self.message = "something is under way".to_owned();
            return;
        }
        if let Some(at) = self.shown_point() {
            self.message = format!(
                "this is the review as of {at}: R puts a path back as it was then, p with nothing leads to the present"
            );
            return;
        }
        let Some((what, named)) = self.target_and_name() else {
            self.message = "nothing is selected".to_owned();
            return;
        };
        let (verb, action): (_, fn(ActionTarget) -> ReviewAction) = if accepts {
            ("accept", ReviewAction::Accept)
        } else {
            ("take back", ReviewAction::Reject)
        };
        self.asked = OpenPrompt::Sure {
            question: format!("{verb} {named}?"),
            action: action(what),
        };
    }

    /// Returns what is selected, and its name.
    fn target_and_name(&self) -> Option<(ActionTarget, String)> {
        if let Some(group) = self.selected_group() {
            let number = match group.items.len() {
                1 => "1 listed path".to_owned(),
                number => format!("{number} listed paths"),
            };
            return Some(match group.run {
                Some(run) => (
                    ActionTarget::Run(run),
                    format!("everything that run {run} changed ({number})"),
                ),
                None => {
                    let items = group.items.iter().filter_map(|at| self.item(*at));
                    let paths = items.map(|item| item.path.clone()).collect();
                    (
                        ActionTarget::Paths(paths),
                        format!("all changes of {number}: {}", group.title),
                    )
                }
            });
        }
        let item = self.selected_item()?;
        let shown = self
            .difference()
            .filter(|_| self.focus == FocusedPane::Difference);
        let hunk = shown.and_then(|shown| shown.hunks.get(self.hunk));
        if let Some((hunk, digest)) = hunk.and_then(|hunk| Some((hunk, hunk.digest.clone()?))) {
            return Some((
                ActionTarget::Hunk(item.path.clone(), hunk.number, digest),
                format!("hunk {} of {}", hunk.number, item.path),
            ));
        }
        let below = self.concerned().len().saturating_sub(1);
        let and = match below {
            0 => String::new(),
            1 => " and what is below it (1 path)".to_owned(),
            more => format!(" and what is below it ({more} paths)"),
        };
        Some((
            ActionTarget::Paths(vec![item.path.clone()]),
            format!("the changes of {}{and}", item.path),
        ))
    }

    pub(super) fn ask_to_restore(&mut self) {
        match (self.shown_point(), self.selected_item()) {
            (None, _) => {
                self.message =
                    "R puts a path back as it was at a point: choose one with p".to_owned()
            }
            (Some(_), None) => self.message = "nothing is selected".to_owned(),
            (Some(at), Some(item)) => {
                self.asked = OpenPrompt::Sure {
                    question: format!("put {} back as it was at {at}?", item.path),
                    action: ReviewAction::Restore(item.path.clone()),
                };
            }
        }
    }

    pub(super) fn ask_to_undo(&mut self) {
        match self.done.last() {
            _ if self.is_last_accepted => {
                self.message = "accepting cannot be taken back: it changed no file, and a later change lists the path again".to_owned();
            }
            None => self.message = "nothing was changed here yet".to_owned(),
            Some(last) => {
                self.asked = OpenPrompt::Sure {
                    question: "undo the last thing that was done here?".to_owned(),
                    action: ReviewAction::Undo(last.clone()),
                };
            }
        }
    }

    pub(super) fn answer_question(
        &mut self,
        key: Key,
        question: String,
        action: ReviewAction,
    ) -> Vec<ScreenEffect> {
        match key {
            Key::Char('y' | 'Y') => {
                self.busy = Some(WorkerActivity::Changing);
                let number = self.listing.as_ref().map_or(0, |listing| listing.number);
                vec![ScreenEffect::Request(WorkerRequest::Do(action, number))]
            }
            Key::Char('n' | 'N' | 'q') | Key::Escape | Key::Ctrl('c') => {
                self.message = "nothing was changed".to_owned();
                Vec::new()
            }
            _ => {
                self.asked = OpenPrompt::Sure { question, action };
                Vec::new()
            }
        }
    }
}
