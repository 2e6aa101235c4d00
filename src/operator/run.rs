//! Runs as an operator names them: by the id, a unique beginning of it, or `last`.
//!
//! Owns the meaning of these words, and the search for a run: a pass over the records, the newest first, that ends with
//! the run's own record where the id is whole. Nothing is guessed: an ambiguous name is refused with the candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Store;
use super::past::ReverseRecords;
use super::point::{Operation, Point};
use crate::error::{Error, Result};
use crate::journal::{Op, OriginKind, Record, RecordHeader, RunId};
use crate::name::{EscapedBytes, escape};

/// The number of candidates named where several runs fit.
const MAX_NAMED_CANDIDATES: usize = 5;

/// A run that has records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RunSummary {
    /// The run's id.
    pub id: RunId,
    /// The kind of executor.
    pub kind: OriginKind,
    /// The command, escaped; absent where its record is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its first record.
    pub first: Operation,
    /// Its last record.
    pub last: Operation,
    /// The records of the run's undos.
    #[serde(skip)]
    pub undos: Vec<Operation>,
    /// The paths of the other stores that it worked in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<EscapedBytes>,
}

impl RunSummary {
    /// Returns the point just before the run's first record.
    pub fn start(&self) -> Point {
        Point::After(Operation {
            session: self.first.session.clone(),
            seq: self.first.seq.saturating_sub(1),
        })
    }

    /// Returns the point just after its last record.
    pub fn end(&self) -> Point {
        Point::After(self.last.clone())
    }

    /// Takes an older record of the run.
    fn add(&mut self, by: Operation, record: Record) {
        match record.op {
            Op::Run { command, also, .. } => {
                self.command = Some(escape(&command.0));
                self.also = also;
            }
            Op::Undo { what, also, .. } => {
                self.command = Some(what);
                self.also = also;
                self.undos.push(by.clone());
            }
            _ => {}
        }
        self.first = by;
    }
}

/// Finds a run: its id, a beginning of it that no other run has, or `last`: the newest run of an executor or merge,
/// undos left out.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Refused`] naming the candidates where it could be several;
/// [`Error::Damaged`] where a journal cannot be read.
pub fn find(store: &Store, text: &str) -> Result<RunSummary> {
    let whole = match text {
        "last" => Some(newest_run(store)?),
        _ => text.parse::<RunId>().ok(),
    };
    let wanted = whole.map_or(RunSelector::Beginning(text), RunSelector::Run);
    let mut found: BTreeMap<RunId, RunSummary> = BTreeMap::new();
    let mut records = ReverseRecords::open_unchecked(store)?;
    while let Some((session, record)) = records.next_where(|header| wanted.matches(header))? {
        let Some(id) = record.origin.run else {
            continue;
        };
        let is_first = matches!(record.op, Op::Run { .. });
        note(&mut found, id, &session, record);
        // An undo may have two records; every other run has its own record first.
        if is_first && matches!(wanted, RunSelector::Run(_)) {
            break;
        }
    }
    single_run(found.into_values().collect(), text)
}

/// A run by its name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentRun {
    /// The run's id.
    pub id: RunId,
    /// The command, escaped.
    pub command: String,
}

/// Returns the newest runs of executors and merges, the newest first.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn recent(store: &Store, most: usize) -> Result<Vec<RecentRun>> {
    let mut records = ReverseRecords::open_unchecked(store)?;
    let mut found = Vec::new();
    let is_named = |header: &RecordHeader<'_>| matches!(&*header.op, "run" | "undo");
    while found.len() < most
        && let Some((_, record)) = records.next_where(is_named)?
    {
        let is_merge = record.op.is_merge();
        let command = match record.op {
            Op::Run { command, .. } => escape(&command.0),
            Op::Undo { what, .. } if is_merge => what,
            _ => continue,
        };
        let id = record.origin.run;
        found.extend(id.map(|id| RecentRun { id, command }));
    }
    Ok(found)
}

/// Finds the newest run of an executor, or the newest merge.
fn newest_run(store: &Store) -> Result<RunId> {
    let mut records = ReverseRecords::open_unchecked(store)?;
    // The undos, restores and merges that changed something.
    let mut acted: BTreeSet<RunId> = BTreeSet::new();
    loop {
        let fits = |header: &RecordHeader<'_>| {
            let (origin, is_named) = (header.origin(), header.op == "undo");
            if let Some(run) = origin.run.filter(|_| origin.is_undo() && !is_named) {
                acted.insert(run);
            }
            origin.run.is_some() && (!origin.is_undo() || is_named)
        };
        let Some((_, record)) = records.next_where(fits)? else {
            return Err(no_run("last"));
        };
        let Some(run) = record.origin.run else {
            continue;
        };
        if !record.origin.is_undo() || record.op.is_merge() && acted.contains(&run) {
            return Ok(run);
        }
    }
}

/// Returns the entries of the trash that a run has made, the newest first; none where it has recorded nothing.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn entries_trashed_by(store: &Store, id: RunId) -> Result<Vec<EscapedBytes>> {
    let wanted = RunSelector::Run(id);
    let mut entries = Vec::new();
    let mut records = ReverseRecords::open_unchecked(store)?;
    while let Some((_, record)) = records.next_where(|header| wanted.matches(header))? {
        if matches!(record.op, Op::Run { .. }) {
            break;
        }
        entries.extend(record.op.trashed().map(|trashed| trashed.entry.clone()));
    }
    Ok(entries)
}

/// Finds runs by their ids, in one pass over the records. Those that have no records are left out; the others are in
/// the order of the ids.
///
/// # Errors
/// [`Error::Damaged`] where a journal cannot be read.
pub fn find_all(store: &Store, ids: &[RunId]) -> Result<Vec<RunSummary>> {
    let mut found: BTreeMap<RunId, RunSummary> = BTreeMap::new();
    // Those whose first record has not been met.
    let mut wanted: BTreeSet<RunId> = ids.iter().copied().collect();
    let mut records = ReverseRecords::open_unchecked(store)?;
    while !wanted.is_empty() {
        let fits = |header: &RecordHeader<'_>| {
            let run = header.origin().run;
            run.is_some_and(|run| wanted.contains(&run))
        };
        let Some((session, record)) = records.next_where(fits)? else {
            break;
        };
        let Some(id) = record.origin.run else {
            continue;
        };
        // As above: an undo has no such record.
        if matches!(record.op, Op::Run { .. }) {
            wanted.remove(&id);
        }
        note(&mut found, id, &session, record);
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// The records that a search is for.
enum RunSelector<'a> {
    Run(RunId),
    Beginning(&'a str),
}

impl RunSelector<'_> {
    fn matches(&self, header: &RecordHeader<'_>) -> bool {
        let origin = header.origin();
        origin.run.is_some_and(|id| match self {
            RunSelector::Run(run) => id == *run,
            RunSelector::Beginning(text) => !text.is_empty() && id.to_string().starts_with(text),
        })
    }
}

fn note(found: &mut BTreeMap<RunId, RunSummary>, id: RunId, session: &Arc<str>, record: Record) {
    let by = Operation {
        session: session.to_string(),
        seq: record.seq,
    };
    let run = found.entry(id).or_insert_with(|| RunSummary {
        id,
        kind: record.origin.kind,
        command: None,
        first: by.clone(),
        last: by.clone(),
        undos: Vec::new(),
        also: Vec::new(),
    });
    run.add(by, record);
}

fn single_run(mut found: Vec<RunSummary>, text: &str) -> Result<RunSummary> {
    if found.len() > 1 {
        let named: Vec<String> = found.iter().map(|run| run.id.to_string()).collect();
        let more = match named.len().saturating_sub(MAX_NAMED_CANDIDATES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = named
            .get(..MAX_NAMED_CANDIDATES)
            .unwrap_or(&named)
            .join(", ");
        return Err(Error::refused(
            format!(
                "{text:?} could be any of {} runs: {first}{more}",
                named.len()
            ),
            "Give more of its id.",
        ));
    }
    found.pop().ok_or_else(|| no_run(text))
}

fn no_run(text: &str) -> Error {
    Error::Missing {
        what: match text {
            "last" => "no run has changed anything in this store".to_owned(),
            _ => format!("no run of this store is called {text:?}"),
        },
        remedy: "`trumanfs log --op run,undo` lists the runs that changed something; a unique beginning of an id, or `last`, will do."
            .to_owned(),
    }
}
