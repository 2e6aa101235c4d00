//! Everything known about a record: its fields, whether it was aborted or undone, and the place of the content or node
//! that it destroyed.
//!
//! Reads the journals from the record's session on, without parsing records that do not concern it.

use super::log::ForwardRecords;
use super::point::Operation;
use super::session::open_versions;
use super::{Store, trash};
use crate::error::{Error, Result};
use crate::journal::{KeepMethod, Op, Record, RunId, UndoId};
use crate::name::{EscapedBytes, Name, WorldPath, escape};
use crate::world::store::layout::TRASH;

/// An undo or redo of a record.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RecordUndo {
    /// The undo's record.
    pub by: Operation,
    /// Its time.
    pub time: String,
    /// Its command.
    pub what: String,
    /// True for a redo: the change was made again by undoing an undo.
    pub redo: bool,
}

/// The present state of a node that a record moved to the trash.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum TrashFate {
    /// In the trash.
    Trash {
        /// Its entry, or its path in a directory's entry.
        entry: EscapedBytes,
        /// Its size in bytes, if it is a file.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// Restored.
    Restored {
        /// The record that restored it.
        by: Operation,
        /// The path it was restored to.
        to: WorldPath,
    },
    /// Purged by an operator, or deleted as volatile.
    Purged {
        /// The record of the purge.
        by: Operation,
        /// True if it was volatile.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        volatile: bool,
    },
    /// Not in the trash, without a record of why.
    Gone,
}

/// The content before a change, and whether it still exists.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RecordPreimage {
    /// The way in which it was kept.
    pub how: KeepMethod,
    /// Its number among the session's versions; 0 where only its length is recorded.
    pub n: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The space that it takes on disk, in bytes.
    pub on_disk: u64,
    /// True if the content is still readable, that is, not evicted to make room.
    pub there: bool,
    /// The record that evicted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_by: Option<Operation>,
    /// True if it was never kept, as volatile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub volatile: bool,
}

/// Everything known about a record.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RecordDetails {
    /// Its session.
    pub session: String,
    /// True if the session was recorded in the original of a copied store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_original: bool,
    /// The record itself.
    pub record: Record,
    /// The reason why the record was aborted; absent if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_done: Option<String>,
    /// The undos and redos of it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<RecordUndo>,
    /// The command that the change belongs to, of a run or an undo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// The present state of the file that the record moved to the trash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trash: Option<TrashFate>,
    /// The content before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<RecordPreimage>,
}

/// The command of an undo, or of another executor's run, recorded before the record.
struct EnclosingCommand {
    seq: u64,
    run: Option<RunId>,
    what: String,
}

impl EnclosingCommand {
    fn of(record: Record) -> Option<EnclosingCommand> {
        let what = match record.op {
            Op::Undo { what, .. } => what,
            Op::Run { command, .. } => escape(&command.0),
            _ => return None,
        };
        Some(EnclosingCommand {
            seq: record.seq,
            run: record.origin.run,
            what,
        })
    }

    fn has(&self, record: &Record) -> bool {
        match record.origin.run {
            Some(run) => self.run == Some(run),
            None => record.undo_id() == Some(UndoId::Record(self.seq)),
        }
    }
}

/// Collects everything known about a record.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Damaged`] where the journal up to it cannot be trusted.
pub fn show(store: &Store, operation: &Operation) -> Result<RecordDetails> {
    let Operation { session, seq } = operation;
    let mut log = ForwardRecords::between(store, Some(session), None)?;
    let mut asked: Vec<EnclosingCommand> = Vec::new();
    let found = loop {
        let found = log.next_where(|s, record| {
            let asks = matches!(&*record.op, "undo" | "run");
            s != session || record.seq == *seq || (asks && record.seq < *seq)
        })?;
        match found {
            Some((s, record)) if s == *session && record.seq == *seq => break Some(record),
            Some((s, record)) if s == *session => asked.extend(EnclosingCommand::of(record)),
            _ => break None,
        }
    };
    let record = found.ok_or_else(|| Error::Missing {
        what: format!("session {session} has no operation {seq}"),
        remedy: "`trumanfs log --all` shows the numbers.".to_owned(),
    })?;
    let part_of = asked.into_iter().find(|asked| asked.has(&record));
    let mut shown = RecordDetails {
        part_of: part_of.map(|asked| asked.what),
        trash: record.op.trashed().map(|trashed| TrashFate::Trash {
            entry: trashed.entry.clone(),
            size: None,
        }),
        former: preimage_of(store, session, &record.op)?,
        in_original: store.is_foreign(session)?,
        session: session.clone(),
        record,
        not_done: None,
        taken_back: Vec::new(),
    };
    follow_effects(&mut log, &mut shown)?;
    check_on_disk(store, &mut shown)?;
    Ok(shown)
}

/// Follows the effects of the record through later records.
fn follow_effects(log: &mut ForwardRecords<'_>, shown: &mut RecordDetails) -> Result<()> {
    loop {
        let concerns = ["abort", "undo", "gather", "restore", "purge", "evict"];
        let (session, record) = match log.next_where(|_, record| concerns.contains(&&*record.op)) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(()),
            // What is known so far remains true.
            Err(Error::Damaged(what)) => {
                log::warn!("{what}");
                continue;
            }
            Err(error) => return Err(error),
        };
        let by = Operation {
            session,
            seq: record.seq,
        };
        let same = by.session == shown.session;
        match record.op {
            Op::Abort { of, error } if same && of == shown.record.seq => {
                shown.not_done = Some(error)
            }
            Op::Undo { what, of, redo, .. } => {
                let meant = |(session, first, last): &(String, u64, u64)| {
                    (*session == shown.session || (session.is_empty() && same))
                        && (*first..=*last).contains(&shown.record.seq)
                };
                if of.iter().any(meant) {
                    shown.taken_back.push(RecordUndo {
                        by,
                        time: record.time,
                        what,
                        redo,
                    });
                }
            }
            Op::Evict { versions, volatile } => {
                if let Some(former) = &mut shown.former
                    && versions
                        .iter()
                        .any(|(session, n)| *session == shown.session && *n == former.n)
                {
                    former.evicted_by = Some(by);
                    former.volatile = !volatile.is_empty();
                }
            }
            op => shown.trash = shown.trash.take().map(|was| fate_after(was, op, by)),
        }
    }
}

/// Returns the state of an entry of the trash after a later operation.
fn fate_after(was: TrashFate, op: Op, by: Operation) -> TrashFate {
    let TrashFate::Trash { entry, size } = was else {
        return was;
    };
    match op {
        Op::Gather {
            trash,
            entries,
            names,
            ..
        } => {
            let Some(gathered) = entries
                .iter()
                .find(|gathered| contains_entry(gathered, &entry))
            else {
                return TrashFate::Trash { entry, size };
            };
            let name = names.iter().find(|(e, _)| e == gathered);
            let name = name.map(|(_, name)| name.0.clone());
            let name = name
                .or_else(|| former_name(&gathered.0))
                .unwrap_or_default();
            let below = entry.0.get(gathered.0.len()..).unwrap_or_default();
            let entry = EscapedBytes([trash.0.as_slice(), b"/", &name, below].concat());
            TrashFate::Trash { entry, size }
        }
        Op::Restore { path, to, .. } if is_entry_or_parent(&path, &entry) => {
            TrashFate::Restored { by, to }
        }
        Op::Purge {
            entries, volatile, ..
        } if entries.iter().any(|purged| contains_entry(purged, &entry)) => {
            let volatile = !volatile.is_empty();
            TrashFate::Purged { by, volatile }
        }
        _ => TrashFate::Trash { entry, size },
    }
}

/// Returns whether a path in the store is an entry of the trash or one of its parents.
fn is_entry_or_parent(path: &WorldPath, entry: &EscapedBytes) -> bool {
    let at = WorldPath::parse(&[TRASH, b"/", entry.0.as_slice()].concat());
    at.is_ok_and(|at| path.contains(&at))
}

fn contains_entry(entry: &EscapedBytes, other: &EscapedBytes) -> bool {
    let rest = other.0.strip_prefix(entry.0.as_slice());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn former_name(entry: &[u8]) -> Option<Vec<u8>> {
    crate::world::trash::trash_entries::parse_entry(entry).map(|(_, name)| name.to_vec())
}

/// Checks on the disk the state that the records give.
fn check_on_disk(store: &Store, shown: &mut RecordDetails) -> Result<()> {
    if let Some(TrashFate::Trash { entry, size }) = &mut shown.trash {
        match trash::stat(store, &entry.0) {
            Ok(meta) => *size = (!meta.is_dir()).then_some(meta.size),
            Err(Error::NotFound | Error::NotDirectory) => shown.trash = Some(TrashFate::Gone),
            Err(error) => return Err(error),
        }
    }
    if shown.not_done.is_some() {
        shown.trash = None;
    }
    Ok(())
}

fn preimage_of(store: &Store, session: &str, op: &Op) -> Result<Option<RecordPreimage>> {
    let Some((kept, size)) = op.kept() else {
        return Ok(None);
    };
    let mut former = RecordPreimage {
        how: kept.how,
        n: kept.n,
        size,
        on_disk: 0,
        there: kept.how == KeepMethod::Length,
        evicted_by: None,
        volatile: false,
    };
    if kept.how != KeepMethod::Length
        && let Some(dir) = open_versions(store, session)?
    {
        match dir.stat(Name::new(format!("{:08}", kept.n).as_bytes())?) {
            Ok(meta) => {
                former.there = true;
                former.on_disk = meta.blocks * 512;
            }
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(former))
}
