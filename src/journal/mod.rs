//! The journal: every change, in order, in lines that cannot be altered unnoticed.
//!
//! Owns the format on disk (JSON lines, each with a checksum of the line before) and the rule that a record is written,
//! with one `write(2)`, *before* its act. Only an act that fails adds a line ([`Op::Abort`]). Knows paths, ids and
//! time, not the world: `world/store/settle.rs` finds out whether the act of a last record happened.

mod actor;
mod begin;
mod fast_parse;
mod former;
mod hash;
mod header;
mod ids;
mod image;
mod lenient;
mod line_text;
mod lines;
mod op;
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
mod writer;

pub use actor::{Actors, Author, Caller};
pub use begin::{After, KeptWith, MountedWith, StoreId};
pub use former::{How, Kept, Replaced, Was};
pub use hash::Link;
pub use header::RecordHeader;
pub use ids::Ids;
pub use lenient::{LenientReader, Line, What};
pub use op::{MERGE, Op, WORDS};
pub use read::{Reader, Tail, end_of, seq_at, tail};
pub use record::{Actor, Record, SCHEMA, SEALED};
pub use refs::Ref;
pub use reverse::Backward;
pub use rights::Rights;
pub use seal::{Content, Digest, Seal};
pub use stamp::{At, Stamp};
pub use subject::Trashed;
pub use trumanfs_types::origin::{NotARunId, Origin, OriginKind, Run, RunId, UndoId};
pub use writer::{Journal, Listener, Pending};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
