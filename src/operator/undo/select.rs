//! Which records are to be taken back, from what an operator asked for.
//!
//! One pass over the records, the newest first, down to the oldest that can be meant. With a record go those that gathered
//! for it in the trash. An undo that took back nothing but what is asked for now is taken back as well: so to undo twice
//! is the same as once, also when the first time stopped half-way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::paths::Asked;
use crate::error::{Error, Result};
use crate::journal::{Op, Record, UndoId};
use crate::name::Escaped;
use crate::operator::Store;
use crate::operator::past::ReverseRecords;
use crate::operator::point::{Operation, Point};

/// What an operator wants taken back.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// These operations; of an undo, all that it did.
    Operations(Vec<Operation>),
    /// What was done in a session, or since a point; by a process or a program only, where they are given.
    Since {
        /// Everything after this.
        from: Point,
        /// In this session only.
        session: Option<String>,
        /// By this process only.
        pid: Option<u32>,
        /// By this program only: its name, or its path.
        program: Option<String>,
        /// Only what concerns one of these paths (patterns as of `log --path`); all where there are none.
        #[serde(default)]
        paths: Vec<String>,
    },
}

/// The records that are to be taken back.
#[derive(Debug, Default)]
pub struct Selection {
    /// By session: numbers from and to, ascending.
    ranges: BTreeMap<Arc<str>, Vec<(u64, u64)>>,
    /// The oldest record that is selected.
    pub oldest: Option<(Arc<str>, u64)>,
    /// How many there are.
    pub count: u64,
    /// Whether it takes an undo back.
    pub redo: bool,
    /// The undos that were asked for by their numbers.
    undos: Vec<(String, u64, u64)>,
}

/// The newest thing that an operator did and `redo` takes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDone {
    /// Its record.
    pub operation: Operation,
    /// What was asked for, in the words of the command.
    pub what: String,
}

/// How many ranges a record of an undo names at most. More would make a line of megabytes; they are only needed to know
/// an undo that was asked for before.
const NAMED: usize = 2000;

impl Selection {
    /// Returns whether a record is to be taken back.
    pub fn has(&self, session: &str, seq: u64) -> bool {
        let Some(ranges) = self.ranges.get(session) else {
            return false;
        };
        let next = ranges.partition_point(|(_, to)| *to < seq);
        ranges.get(next).is_some_and(|(from, _)| *from <= seq)
    }

    /// Returns what the record of the undo says.
    /// Returns what the record of the undo says.
    pub fn named(&self) -> Vec<(String, u64, u64)> {
        self.named_up_to(NAMED)
    }

    pub(super) fn named_up_to(&self, limit: usize) -> Vec<(String, u64, u64)> {
        let all = self.ranges.iter().flat_map(|(session, ranges)| {
            let of = move |(from, to): &(u64, u64)| (session.to_string(), *from, *to);
            ranges.iter().map(of)
        });
        let named: Vec<_> = all.take(limit + 1).collect();
        match named.len() > limit {
            // By its own number an undo is known too, so that a redo does not take it back for ever.
            true => self.undos.clone(),
            false => named,
        }
    }

    fn covers(&self, of: &[(String, u64, u64)]) -> bool {
        let inside = |(session, from, to): &(String, u64, u64)| {
            let Some(ranges) = self.ranges.get(session.as_str()) else {
                return false;
            };
            let next = ranges.partition_point(|(_, end)| *end < *from);
            ranges
                .get(next)
                .is_some_and(|(start, end)| start <= from && to <= end)
        };
        !of.is_empty() && of.iter().all(inside)
    }

    fn add(&mut self, numbers: BTreeMap<Arc<str>, Vec<u64>>) {
        for (session, numbers) in numbers {
            let ranges = self.ranges.entry(session.clone()).or_default();
            for number in numbers {
                self.count += 1;
                ranges.push((number, number));
                let this = (session.clone(), number);
                if self.oldest.as_ref().is_none_or(|oldest| this < *oldest) {
                    self.oldest = Some(this);
                }
            }
            ranges.sort_unstable();
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for (from, to) in ranges.drain(..) {
                match merged.last_mut() {
                    Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
                    _ => merged.push((from, to)),
                }
            }
            *ranges = merged;
        }
    }
}

/// An undo that was met on the way.
#[derive(Debug)]
struct Before {
    session: Arc<str>,
    seq: u64,
    id: UndoId,
    of: Vec<(String, u64, u64)>,
    redo: bool,
}

/// One pass over the records.
struct Pass {
    /// Which paths are meant.
    asked: Asked,
    /// The session of the record that was met last.
    session: Option<Arc<str>>,
    chosen: BTreeMap<Arc<str>, Vec<u64>>,
    /// Undos, the newest first.
    undos: Vec<Before>,
    /// The records of each undo, its own among them.
    parts: HashMap<(Arc<str>, UndoId), Vec<u64>>,
    /// Records of gathering under an entry, until the removal of the directory is met.
    gathered: HashMap<Escaped, Vec<u64>>,
}

impl Pass {
    fn met(&mut self, session: &Arc<str>, record: Record, wanted: impl Fn(&Record) -> bool) {
        let seq = record.seq;
        let mut numbers = vec![seq];
        if let Op::Rmdir { trash, .. } = &record.op {
            numbers.extend(self.gathered.remove(trash).into_iter().flatten());
        }
        let undo = record.undo_id();
        if let Some(undo) = undo {
            let of = (session.clone(), undo);
            self.parts.entry(of).or_default().extend(&numbers);
        }
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            self.asked.next_session();
        }
        if record.can_be_undone() && !matches!(record.op, Op::Undo { .. }) && wanted(&record) {
            if self.asked.concerns(&record.op) {
                numbers.extend(self.asked.above(&record.op));
                self.chosen
                    .entry(session.clone())
                    .or_default()
                    .extend(numbers);
            } else {
                self.asked.note_removal(&record.op, &numbers);
            }
        }
        match record.op {
            Op::Gather { trash, .. } => self.gathered.entry(trash).or_default().push(seq),
            Op::Undo { of, redo, .. } => self.undos.push(Before {
                session: session.clone(),
                seq,
                id: undo.unwrap_or(UndoId::Record(seq)),
                of,
                redo,
            }),
            _ => {}
        }
    }

    fn parts_of(&self, undo: &Before) -> BTreeMap<Arc<str>, Vec<u64>> {
        let parts = self.parts.get(&(undo.session.clone(), undo.id));
        BTreeMap::from([(undo.session.clone(), parts.cloned().unwrap_or_default())])
    }
}

/// Finds the records that are meant.
///
/// # Errors
/// [`Error::Refused`] for an operation that changed nothing; [`Error::Missing`] where nothing is meant.
pub fn select(store: &Store, wanted: &Wanted) -> Result<Selection> {
    let paths = match wanted {
        Wanted::Since { paths, .. } => &paths[..],
        Wanted::Operations(_) => &[],
    };
    let mut pass = Pass {
        asked: Asked::new(paths)?,
        session: None,
        chosen: BTreeMap::new(),
        undos: Vec::new(),
        parts: HashMap::new(),
        gathered: HashMap::new(),
    };
    // The plan reads the same records, and checks them.
    let mut records = ReverseRecords::trusting(store)?;
    let mut selection = Selection::default();
    match wanted {
        Wanted::Operations(operations) => {
            let named: HashSet<(&str, u64)> = operations
                .iter()
                .map(|one| (one.session.as_str(), one.seq))
                .collect();
            let oldest = named.iter().min().copied().unwrap_or_default();
            let mut found = Vec::new();
            while let Some((session, record)) = records.next_record()? {
                if (&*session, record.seq) < oldest {
                    break;
                }
                if named.contains(&(&session, record.seq)) {
                    check(&record)?;
                    found.push((session.clone(), record.seq));
                }
                let one = session.clone();
                pass.met(&session, record, |record| {
                    named.contains(&(&one, record.seq))
                });
            }
            if found.len() < named.len() {
                return Err(Error::Missing {
                    what:
                        "one of these operations did not happen: its act failed, and was noted so"
                            .to_owned(),
                    remedy: "`trumanfs show` says what became of it.".to_owned(),
                });
            }
            for (session, seq) in found {
                if let Some(undo) = pass
                    .undos
                    .iter()
                    .find(|u| (&u.session, u.seq) == (&session, seq))
                {
                    selection.redo |= !undo.redo;
                    selection.undos.push((session.to_string(), seq, seq));
                    selection.add(pass.parts_of(undo));
                }
            }
        }
        Wanted::Since {
            from,
            session: only,
            pid,
            program,
            paths: _,
        } => {
            while let Some((session, record)) = records.next_record()? {
                if from.includes(&session, record.seq) {
                    break;
                }
                let in_session = only.as_ref().is_none_or(|only| **only == *session);
                pass.met(&session, record, |record| {
                    in_session && is_by(record, *pid, program.as_deref())
                });
            }
        }
    }
    selection.add(std::mem::take(&mut pass.chosen));
    // From the oldest on, because one may have taken back the other.
    for undo in pass.undos.iter().rev() {
        if selection.covers(&undo.of) && !selection.has(&undo.session, undo.seq) {
            selection.add(pass.parts_of(undo));
        }
    }
    Ok(selection)
}

/// Finds what `redo` takes back: the newest undo or restore that changed something and that no redo has taken back since.
///
/// # Errors
/// [`Error::Missing`] where there is none; [`Error::Damaged`] where a journal cannot be read.
pub fn last_done(store: &Store) -> Result<LastDone> {
    let mut taken_back: Vec<(String, u64, u64)> = Vec::new();
    let mut acted: HashSet<(Arc<str>, UndoId)> = HashSet::new();
    let mut records = ReverseRecords::trusting(store)?;
    while let Some((session, record)) = records.next_record()? {
        let seq = record.seq;
        let Some(undo) = record.undo_id().map(|undo| (session.clone(), undo)) else {
            continue;
        };
        let Op::Undo { what, of, redo } = record.op else {
            acted.insert(undo);
            continue;
        };
        let dead = taken_back
            .iter()
            .any(|(s, from, to)| **s == *session && (*from..=*to).contains(&seq));
        // One that changed nothing left nothing to take back, and as a redo took nothing back.
        if dead || !acted.contains(&undo) {
            continue;
        }
        if !redo {
            let operation = Operation {
                session: session.to_string(),
                seq,
            };
            return Ok(LastDone { operation, what });
        }
        taken_back.extend(of);
    }
    Err(Error::Missing {
        what: "there is no undo and no restore that could be taken back".to_owned(),
        remedy: "`trumanfs log` shows what was undone and restored.".to_owned(),
    })
}

fn check(record: &Record) -> Result<()> {
    let why = match &record.op {
        Op::Purge { .. } | Op::Evict { .. } => "it deleted for good",
        Op::Gather { .. } => "it belongs to the removal of a directory: undo that",
        _ if record.can_be_undone() => return Ok(()),
        _ => "it changed nothing",
    };
    Err(Error::refused(
        format!(
            "operation {} ({}) cannot be undone: {why}",
            record.seq,
            record.op.word()
        ),
        "`trumanfs log --all` shows what was changed by which operation.",
    ))
}

fn is_by(record: &Record, pid: Option<u32>, program: Option<&str>) -> bool {
    if pid.is_none() && program.is_none() {
        return true;
    }
    // What an operator took back was nobody's doing inside.
    if record.undo_id().is_some() {
        return false;
    }
    let Some(actor) = &record.actor else {
        return false;
    };
    let named = |program: &str| {
        actor.comm == program
            || actor.exe == program
            || actor.exe.rsplit('/').next() == Some(program)
    };
    pid.is_none_or(|pid| actor.pid == pid) && program.is_none_or(named)
}
