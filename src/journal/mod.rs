//! The journal: every change, in order, in lines that cannot be altered unnoticed.
//!
//! Owns the format on disk (JSON lines, each with a checksum of the line before) and the rule that a record is written,
//! with one `write(2)`, *before* its act. Only an act that fails adds a line ([`Op::Abort`]). Knows paths, ids and
//! time, not the world: `world/store/settle.rs` finds out whether the act of a last record happened.

mod actor;
mod begin;
mod encoder;
mod fields;
mod former;
mod hash;
mod header;
mod history_cut;
mod ids;
mod image;
mod json_cursor;
mod left_files;
mod left_state;
mod lenient;
mod line_ends;
mod lines;
mod old_lines;
mod op;
mod parser;
mod read;
mod record;
mod refs;
mod reserve;
mod reverse;
mod rights;
mod seal;
mod sealing;
mod stamp;
mod subject;
mod volatile_loss;
mod waiting_stamps;
mod writer;

pub use actor::{ActorCache, Author, Caller};
pub use begin::{KeepSettings, MountSettings, SessionEnd, StoreId};
pub use former::{FormerAttrs, KeepMethod, ReplacedFile, VersionRef};
pub use hash::ChainLink;
pub use header::RecordHeader;
pub use history_cut::{CutSession, HistoryCut};
pub use ids::InodeNumbers;
pub use left_files::LastLeft;
pub use left_state::{LeftState, UnknownWriter};
pub use lenient::{JournalLine, LenientReader, ParsedLine};
pub use op::{MERGE, Op, WORDS};
pub use read::{JournalReader, JournalTail, seq_at, tail, tail_of_damaged};
pub use record::{Actor, Record, SCHEMA, SEALED};
pub use refs::RecordRef;
pub use reverse::ReverseReader;
pub use rights::SetIdRights;
pub use seal::{ContentDigest, DigestSubject, Seal};
pub use stamp::{DirTime, FileTime};
pub use subject::TrashedNode;
pub use trumanfs_types::origin::{NotARunId, Origin, OriginKind, Run, RunId, UndoId};
pub use trumanfs_types::turn_mark::TurnMark;
pub use volatile_loss::VolatileLoss;
pub use writer::{Journal, PendingRecord, RecordListener, SealListener};

#[cfg(test)]
mod deletion_samples;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
mod form_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
