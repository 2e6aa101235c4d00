//! What the screen asks of the work behind it, and what it hears: plain data, without a store.

use crate::journal::RunId;
use crate::name::WorldPath;
use crate::operator::diff::ChangeStatus;
use crate::operator::point::Operation;

/// What the work is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// To read the review as of a point, as it was typed; absent for the present.
    Read(Option<String>),
    /// To read the difference of a listed path.
    Show(WorldPath),
    /// To change something. The number is that of the list that it was decided on.
    Do(Deed, u64),
}

/// Something that changes the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Accepting.
    Accept(What),
    /// Taking back.
    Reject(What),
    /// Putting a path back as it was at the point that is shown.
    Restore(WorldPath),
    /// Taking back what was done here.
    Undo(Undoable),
}

/// Which changes are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// All changes of these paths, and of what is below them.
    Paths(Vec<WorldPath>),
    /// What a run changed.
    Run(RunId),
    /// One hunk of a path: its number, and the digest of its lines, so that it is the one that was seen.
    Hunk(WorldPath, usize, String),
}

/// Something that was done here and can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undoable {
    /// An undo, by its run.
    Undone(RunId),
    /// A restore, by its record.
    Restored(Operation),
}

/// What is heard of the work.
#[derive(Debug)]
pub(super) enum News {
    /// The list, when it was read.
    Listed(Listing),
    /// The difference of a path.
    Shown(Box<Shown>),
    /// What came of a deed, and the list after it; absent where it could not be read. One piece: a key that is pressed when
    /// the new list is seen must not find the screen still busy.
    Done(Outcome, Option<Listing>),
    /// What could not be read, and the remedy.
    Failed(String),
}

/// The changed paths.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Which list it is: each has another number.
    pub(super) number: u64,
    /// Sorted by path.
    pub(super) items: Vec<Item>,
    /// Those who changed something.
    pub(super) who: Vec<Whose>,
    /// The point that it is of; absent for the present.
    pub(super) at: Option<String>,
}

/// A changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: WorldPath,
    pub(super) status: ChangeStatus,
    /// Who changed it last: a place in [`Listing::who`].
    pub(super) who: usize,
    /// When that was: microseconds since 1970.
    pub(super) time: i64,
}

/// Who changed something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Whose {
    pub(super) run: Option<RunId>,
    pub(super) program: String,
    /// What the run was asked for, escaped.
    pub(super) command: Option<String>,
}

/// The difference of a path, as text that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) path: WorldPath,
    /// What is said above the lines.
    pub(super) head: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) hunks: Vec<ShownHunk>,
}

/// A hunk of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownHunk {
    /// Where it begins in [`Shown::lines`].
    pub(super) line: usize,
    /// Its number, as `review --patch` has it.
    pub(super) number: usize,
    /// The digest of its lines; absent where it cannot be decided on by itself.
    pub(super) digest: Option<String>,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    pub(super) text: String,
}

/// What a line of a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The heading of a hunk.
    Hunk,
    /// It is on both sides.
    Same,
    /// It was there before.
    Removed,
    /// It is there after.
    Added,
    /// It is said of the difference.
    Said,
}

/// What came of a deed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    /// In one line: what was done, and how to take it back.
    pub(super) said: String,
    /// What is to be read before going on: conflicts, what could not be done.
    pub(super) more: Vec<String>,
    /// What `u` takes back; absent where nothing was changed or it cannot be taken back.
    pub(super) undoable: Option<Undoable>,
    /// Whether this took back the last thing done here.
    pub(super) undid: bool,
    /// Whether something was accepted.
    pub(super) accepted: bool,
}
