//! Accepts and takes back single hunks of a path.

use super::accept::AcceptRequest;
use super::hunks::{PathHunks, ReviewHunk};
use super::list::Review;
use crate::error::{Error, Result};
use crate::name::{EscapedBytes, WorldPath};
use crate::operator::diff::ChangeStatus;
use crate::operator::text::TextComparison;
use crate::operator::undo::apply::PlanSize;
use crate::operator::undo::edit::{ByteSplice, EditReport, EditRequest};
use crate::operator::undo::step_summary::{StepKind, StepSummary};
use crate::operator::undo::{UndoReport, describe_conflicting_records};

/// The plan of taking single hunks back.
#[derive(Debug)]
pub struct HunkPlan {
    /// The report: the change that is made, or would be, or the conflict.
    pub report: UndoReport,
    /// The change of the file; `None` where something stands in the way.
    pub edit: Option<EditRequest>,
}

impl HunkPlan {
    /// Returns the report after the plan was carried out.
    pub fn into_report(self, edited: EditReport) -> UndoReport {
        let changes = self.report.changes.iter();
        let changes = changes.map(|change| change.replacen("take", "took", 1));
        UndoReport {
            record: Some(edited.record),
            run: edited.run,
            done: (0, 1, 0),
            changes: changes.collect(),
            ..self.report
        }
    }
}

impl Review<'_> {
    /// Compares the lines of a path.
    ///
    /// # Errors
    /// [`Error::Missing`] where it is not listed; as [`Review::lines`].
    pub fn lines_of(&self, path: &WorldPath) -> Result<PathHunks> {
        let at = (0..self.len()).filter_map(|number| Some((number, self.path(number)?)));
        let at = at.filter(|(_, (_, listed))| listed == path);
        // If another node has come to the path of a removed one, the path now means that node.
        let is_there = at.max_by_key(|(_, (status, _))| *status != ChangeStatus::Removed);
        let number = is_there.map(|(number, _)| number);
        let lines = number.map(|number| self.lines(number)).transpose();
        let lines = lines.map_err(|error| match error {
            Error::Missing { what, remedy } => Error::Missing {
                what: format!("{path}: {what}"),
                remedy,
            },
            error => error.of_reading(|| path.to_string()),
        })?;
        lines.flatten().ok_or_else(|| Error::Missing {
            what: format!("{path} is not among the changes that are to be reviewed"),
            remedy:
                "Nothing was changed. `trumanfs review` lists them; what is accepted is left out."
                    .to_owned(),
        })
    }

    /// Plans to take hunks back: their former lines come back into the file as it is now.
    ///
    /// # Errors
    /// As [`PathHunks::choose`]; those of reading the journals.
    pub fn take_back(
        &self,
        lines: &PathHunks,
        chosen: &[&ReviewHunk],
        what: String,
    ) -> Result<HunkPlan> {
        let path = lines.path();
        let mut report = UndoReport {
            operations: chosen.len() as u64,
            ..UndoReport::default()
        };
        let (now, edited) = match lines.text_without(chosen) {
            Ok(texts) => texts,
            Err(mut conflicts) => {
                describe_conflicting_records(self.store, &mut conflicts)?;
                report.stopped = true;
                report.conflicts = conflicts
                    .into_iter()
                    .map(|(conflict, _)| conflict)
                    .collect();
                return Ok(HunkPlan { report, edit: None });
            }
        };
        let (seen, length) = (EditRequest::digest(now), now.len());
        let compared = TextComparison::new(now.to_vec(), edited);
        let splices = compared.splices().map(|(range, bytes)| ByteSplice {
            start: range.start,
            end: range.end,
            bytes: EscapedBytes(bytes.to_vec()),
        });
        let changes = chosen
            .iter()
            .map(|hunk| format!("take back {} of {path}", hunk.hunk));
        report.changes = changes.collect();
        report.size = PlanSize {
            contents: 1,
            ..PlanSize::default()
        };
        report.steps = vec![StepSummary {
            kind: StepKind::Content,
            count: 1,
            paths: vec![path.clone()],
        }];
        let edit = EditRequest {
            what,
            path: path.clone(),
            ids: lines.ids().ok_or(Error::NotFound)?,
            seen,
            length: Some(length),
            splices: splices.collect(),
        };
        Ok(HunkPlan {
            report,
            edit: Some(edit),
        })
    }

    /// Returns the request to record for accepting hunks; `None` where nothing of the path is left to be reviewed then,
    /// so that the path can be accepted whole.
    pub fn accept_hunks(
        &self,
        lines: &PathHunks,
        chosen: &[&ReviewHunk],
        what: String,
    ) -> Option<AcceptRequest> {
        if lines.are_the_last(chosen) && lines.is_all() {
            return None;
        }
        let hunk = |hunk: &&ReviewHunk| (lines.path().clone(), hunk.digest.clone());
        Some(AcceptRequest {
            what,
            run: self.scope().run_id(),
            of: Vec::new(),
            hunks: chosen.iter().map(hunk).collect(),
        })
    }
}
