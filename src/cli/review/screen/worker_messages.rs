//! The screen's requests to its worker, and the worker's events: plain data, without a store.

use super::editor::EditedDraft;
use crate::journal::RunId;
use crate::name::WorldPath;
use crate::operator::diff::{ChangeStatus, PathFlag};
use crate::operator::point::Operation;
use crate::operator::review::{EditableText, PathClass};

/// A request to the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerRequest {
    /// To read the review as of a point, as it was typed; absent for the present.
    Read(Option<String>),
    /// To read the difference of a listed path.
    Show(WorldPath),
    /// To read what rows show besides the path: the number of the list, and the places in it.
    Describe(u64, Vec<usize>),
    /// To split a hunk of a path, by its digest.
    Split(WorldPath, String),
    /// To read the text of a path, to be edited.
    ReadToEdit(WorldPath),
    /// To change something. The number is that of the list that it was decided on.
    Do(ReviewAction, u64),
}

/// Something that changes the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReviewAction {
    /// Accepting.
    Accept(ActionTarget),
    /// Taking back.
    Reject(ActionTarget),
    /// Putting a path back as it was at the point that is shown.
    Restore(WorldPath),
    /// Recording an edited text.
    Edit(EditedDraft),
    /// Taking back what was done here.
    Undo(UndoableAction),
}

/// Which changes are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActionTarget {
    /// All changes of these paths, and of what is below them.
    Paths(Vec<WorldPath>),
    /// All changes of a run.
    Run(RunId),
    /// A hunk of a path: its number, and the digest of its lines, so that it is the one that was seen.
    Hunk(WorldPath, usize, String),
}

/// Something that was done here and can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UndoableAction {
    /// An undo, by its run.
    Undone(RunId),
    /// A restore, by its record.
    Restored(Operation),
}

/// An event from the worker.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    /// The list, when it was read.
    Listed(ReviewListing),
    /// The difference of a path.
    Shown(Box<ShownDifference>),
    /// What rows show besides the path.
    Described(Vec<DescribedPath>),
    /// A hunk that was to be split has one part.
    Whole,
    /// The text of a path, to be edited.
    Editable(Box<EditableText>),
    /// The outcome of an action, and the list after it; absent where it could not be read. One piece: a key that is
    /// pressed when the new list is seen must not find the screen still busy.
    Done(ActionOutcome, Option<ReviewListing>),
    /// A failure to read, and the remedy.
    Failed(String),
}

/// The changed paths.
#[derive(Debug, Default)]
pub(super) struct ReviewListing {
    /// Which list it is: each has another number.
    pub(super) number: u64,
    /// The flagged ones, then the others, each sorted by path.
    pub(super) items: Vec<ListedPath>,
    /// Those who changed something.
    pub(super) who: Vec<AuthorLabel>,
    /// The point that it is of; absent for the present.
    pub(super) at: Option<String>,
}

impl ListedPath {
    /// Returns the change as it is shown.
    pub(super) fn seen(&self) -> SeenChange {
        SeenChange {
            path: self.path.clone(),
            status: self.status,
            time: self.time,
        }
    }
}

/// A changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedPath {
    pub(super) path: WorldPath,
    pub(super) status: ChangeStatus,
    /// Why it should be looked at first.
    pub(super) flag: Option<PathFlag>,
    pub(super) class: PathClass,
    /// The author of the last change: a place in [`ReviewListing::who`].
    pub(super) who: usize,
    /// The time of the last change: microseconds since 1970.
    pub(super) time: i64,
}

/// What the row of a path shows besides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedPath {
    /// The change that was described.
    pub(super) of: SeenChange,
    /// Words on its kind, such as `exec`.
    pub(super) tags: Vec<&'static str>,
}

/// A change as a row shows it: where any of these differs, somebody should look again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SeenChange {
    pub(super) path: WorldPath,
    pub(super) status: ChangeStatus,
    pub(super) time: i64,
}

/// The author of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AuthorLabel {
    pub(super) run: Option<RunId>,
    pub(super) program: String,
    /// The run's request, escaped.
    pub(super) command: Option<String>,
}

/// The difference of a path, as text that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownDifference {
    pub(super) path: WorldPath,
    /// The remarks above the lines.
    pub(super) head: Vec<String>,
    pub(super) lines: Vec<DifferenceLine>,
    pub(super) hunks: Vec<DifferenceHunk>,
}

/// A hunk of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DifferenceHunk {
    /// The hunk's first line in [`ShownDifference::lines`].
    pub(super) line: usize,
    /// Its number, as `review --patch` has it.
    pub(super) number: usize,
    /// The digest of its lines; absent where it cannot be decided on by itself.
    pub(super) digest: Option<String>,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DifferenceLine {
    pub(super) kind: LineKind,
    pub(super) text: String,
}

/// The kind of a line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The heading of a hunk.
    Hunk,
    /// A line on both sides.
    Same,
    /// A line of the older side only.
    Removed,
    /// A line of the newer side only.
    Added,
    /// A remark on the difference.
    Said,
}

/// The outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ActionOutcome {
    /// In one line: what was done, and how to take it back.
    pub(super) message: String,
    /// The lines to be read before going on: conflicts and failures.
    pub(super) more: Vec<String>,
    /// The action that `u` takes back; absent where nothing was changed or it cannot be taken back.
    pub(super) undoable: Option<UndoableAction>,
    /// True if this took back the last thing done here.
    pub(super) undid: bool,
    /// True if something was accepted.
    pub(super) accepted: bool,
}
