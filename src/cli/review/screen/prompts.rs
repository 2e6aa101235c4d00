//! Questions before a change, and typed texts.

use super::super::super::output::count;
use super::editor::EditedDraft;
use super::keys::Key;
use super::state::{
    FocusedPane, OpenPrompt, ScreenEffect, ScreenState, TextPurpose, WorkerActivity,
};
use super::worker_messages::{ActionTarget, ListedPath, ReviewAction, WorkerRequest};
use crate::error::Result;
use crate::operator::diff::ChangeStatus;

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
        let group = self.selected_group().filter(|_| !self.are_marked_meant());
        let is_flagged = |item: &ListedPath| item.flag.is_some();
        if accepts && group.is_some_and(|group| self.items_of(group).all(is_flagged)) {
            self.message =
                "each of these paths is flagged: accept each of them by itself".to_owned();
            return;
        }
        let Some((what, named)) = self.target_and_name(accepts) else {
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

    /// Returns what is meant, and its name.
    fn target_and_name(&self, accepts: bool) -> Option<(ActionTarget, String)> {
        if self.are_marked_meant() {
            let marked = self.marked.iter().filter_map(|at| self.item(*at));
            let paths: Vec<_> = marked.map(|item| item.path.clone()).collect();
            let number = count(paths.len() as u64, "marked path");
            let named = match self.concerned().len().saturating_sub(paths.len()) {
                0 => format!("all changes of {number}"),
                more => format!("all changes of {number} and what is below ({more} more)"),
            };
            return Some((ActionTarget::Paths(paths), named));
        }
        if let Some(group) = self.selected_group() {
            let number = count(group.range.len() as u64, "listed path");
            if let Some(run) = group.run {
                let named = format!("everything that run {run} changed ({number})");
                return Some((ActionTarget::Run(run), named));
            }
            let items = || self.items_of(group);
            // Whoever accepts what is flagged does that by itself.
            let is_left = |item: &&ListedPath| accepts && item.flag.is_some();
            let left = items().filter(is_left).count();
            let paths: Vec<_> = items().filter(|item| !is_left(item)).collect();
            let paths = paths.iter().map(|item| item.path.clone()).collect();
            let concerned = self.concerned().len().saturating_sub(group.range.len());
            let number = count((group.range.len() - left) as u64, "listed path");
            let mut named = format!("all changes of {number}: {}", group.title);
            if concerned > 0 {
                named.push_str(&format!(" and what is below them ({concerned} more)"));
            }
            if left > 0 {
                named.push_str(&format!(", without {}", count(left as u64, "flagged path")));
            }
            return Some((ActionTarget::Paths(paths), named));
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

    /// Has the text of the selected path read, to be edited.
    pub(super) fn begin_edit(&mut self) -> Vec<ScreenEffect> {
        if self.busy.is_some() {
            self.message = "something is under way".to_owned();
            return Vec::new();
        }
        if let Some(at) = self.shown_point() {
            self.message = format!(
                "this is the review as of {at}: p with nothing leads to the present, which can be edited"
            );
            return Vec::new();
        }
        let Some(item) = self.selected_item() else {
            self.message = "e edits a path: select one".to_owned();
            return Vec::new();
        };
        if item.status == ChangeStatus::Removed {
            self.message = format!("{} was removed: r brings it back", item.path);
            return Vec::new();
        }
        let path = item.path.clone();
        self.busy = Some(WorkerActivity::Opening);
        vec![ScreenEffect::Request(WorkerRequest::ReadToEdit(path))]
    }

    /// Has the chosen hunk split.
    pub(super) fn split_hunk(&mut self) -> Vec<ScreenEffect> {
        let is_in = self.focus == FocusedPane::Difference;
        let shown = self.difference().filter(|_| is_in);
        let hunk = shown.and_then(|shown| Some((shown.path.clone(), shown.hunks.get(self.hunk)?)));
        match hunk.and_then(|(path, hunk)| Some((path, hunk.digest.clone()?))) {
            Some((path, digest)) => {
                vec![ScreenEffect::Request(WorkerRequest::Split(path, digest))]
            }
            None => {
                self.message = "s splits a hunk: choose one in the difference".to_owned();
                Vec::new()
            }
        }
    }

    /// Takes note of what became of a text in the editor. Returns the request to record it.
    pub(super) fn note_edited(
        &mut self,
        edited: Result<Option<EditedDraft>>,
    ) -> Option<WorkerRequest> {
        match edited {
            Ok(None) => {
                self.message = "the text is as it was; nothing was recorded".to_owned();
                None
            }
            Ok(Some(draft)) => {
                self.busy = Some(WorkerActivity::Changing);
                let number = self.listing.as_ref().map_or(0, |listing| listing.number);
                Some(WorkerRequest::Do(ReviewAction::Edit(draft), number))
            }
            Err(error) => {
                self.read("not edited", vec![error.full_message()]);
                None
            }
        }
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
