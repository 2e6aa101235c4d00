//! The selection of records for an undo request.
//!
//! A single pass over the records, newest first, down to the oldest that can be selected. A record brings along the
//! records that gathered for it in the trash. An undo is selected too if it only took back records that are selected
//! now: so undoing twice is the same as once, even if the first undo stopped half-way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::requested_paths::RequestedPaths;
use super::selection::RecordSelection;
use crate::error::{Error, Result};
use crate::journal::{InodeNumbers, Op, Record, RunId, UndoId};
use crate::name::EscapedBytes;
use crate::operator::Store;
use crate::operator::past::{RecordId, ReverseRecords};
use crate::operator::point::{Operation, Point};

/// The operations that an undo is asked for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UndoScope {
    /// The named operations; for an undo, everything that it did.
    Operations(Vec<Operation>),
    /// All changes in a session or since a point, optionally by one process or program only.
    #[serde(rename = "since")]
    Matching {
        /// The point that the changes come after.
        from: Point,
        /// The only session, if any.
        session: Option<String>,
        /// The only run, if any.
        #[serde(default)]
        run: Option<RunId>,
        /// The only turns of runs, if any.
        #[serde(default)]
        turns: Option<TurnScope>,
        /// The only process, if any.
        pid: Option<u32>,
        /// The only program, by its name or its path, if any.
        program: Option<String>,
        /// The patterns of paths whose changes are taken back, as for `log --path`; all paths if empty.
        #[serde(default)]
        paths: Vec<String>,
    },
}

/// A turn of a conversation, and maybe the later ones.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TurnScope {
    /// The turn's number.
    pub number: u32,
    /// True if the later turns are meant, too.
    pub and_later: bool,
    /// The parts of runs that these turns are.
    pub ranges: Vec<TurnRange>,
}

/// The part of a run that is a turn.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TurnRange {
    /// The run.
    pub run: RunId,
    /// The record of its mark.
    pub begin: Operation,
    /// The record of the run's next mark, if there is one.
    pub next: Option<Operation>,
}

impl TurnScope {
    /// Returns the option of `undo` that means this.
    pub fn option(&self) -> String {
        let option = if self.and_later {
            "--to-turn"
        } else {
            "--turn"
        };
        format!("{option} {}", self.number)
    }

    /// Returns whether one of the turns begins with a record.
    pub fn has(&self, begin: &Operation) -> bool {
        self.ranges.iter().any(|range| range.begin == *begin)
    }

    fn includes(&self, session: &str, record: &Record) -> bool {
        let in_range = |range: &TurnRange| {
            record.origin.run == Some(range.run) && range.includes(session, record.seq)
        };
        self.ranges.iter().any(in_range)
    }
}

impl TurnRange {
    /// Returns whether a record of the run is one of the turn.
    pub fn includes(&self, session: &str, seq: u64) -> bool {
        let at = (session, seq);
        let is_before = |next: &Operation| at < (next.session.as_str(), next.seq);
        at > (self.begin.session.as_str(), self.begin.seq)
            && self.next.as_ref().is_none_or(is_before)
    }
}

/// An earlier undo.
#[derive(Debug)]
struct EarlierUndo {
    session: Arc<str>,
    seq: u64,
    id: UndoId,
    of: Vec<(String, u64, u64)>,
    redo: bool,
}

impl EarlierUndo {
    fn key(&self) -> (Arc<str>, UndoId) {
        (self.session.clone(), self.id)
    }

    fn has_taken_back(&self, earlier: &EarlierUndo) -> bool {
        self.of.iter().any(|(session, from, to)| {
            **session == *earlier.session && (*from..=*to).contains(&earlier.seq)
        })
    }
}

/// A pass over the records.
struct SelectionPass {
    /// The requested paths.
    asked: RequestedPaths,
    /// The session of the latest record.
    session: Option<Arc<str>>,
    chosen: BTreeMap<Arc<str>, Vec<u64>>,
    /// Records of a run just before a chosen record of the same run.
    joined: BTreeMap<Arc<str>, Vec<u64>>,
    /// The record that was chosen last.
    latest: u64,
    /// Undos, newest first.
    undos: Vec<EarlierUndo>,
    /// The records of each undo, including its own.
    parts: HashMap<(Arc<str>, UndoId), Vec<u64>>,
    /// The files that each undo changed.
    changed_files: HashMap<(Arc<str>, UndoId), HashSet<InodeNumbers>>,
    /// The entries of the trash that each undo made.
    put_into_trash: HashMap<(Arc<str>, UndoId), Vec<EscapedBytes>>,
    /// The entries of the trash that undos took nodes out of, each with such a record.
    taken_from_trash: HashMap<EscapedBytes, RecordId>,
    /// Gathering records by entry of the trash, until the removal of their directory is reached.
    gathered: HashMap<EscapedBytes, Vec<u64>>,
}

impl SelectionPass {
    fn new(paths: &[String]) -> Result<SelectionPass> {
        Ok(SelectionPass {
            asked: RequestedPaths::new(paths)?,
            session: None,
            chosen: BTreeMap::new(),
            joined: BTreeMap::new(),
            latest: 0,
            undos: Vec::new(),
            parts: HashMap::new(),
            changed_files: HashMap::new(),
            put_into_trash: HashMap::new(),
            taken_from_trash: HashMap::new(),
            gathered: HashMap::new(),
        })
    }

    fn note_record(
        &mut self,
        session: &Arc<str>,
        record: Record,
        wanted: impl Fn(&Record) -> bool,
    ) {
        let seq = record.seq;
        let mut numbers = vec![seq];
        if let Op::Rmdir { trash, .. } = &record.op {
            numbers.extend(self.gathered.remove(trash).into_iter().flatten());
        }
        let undo = record.undo_id();
        if let Some(undo) = undo {
            let of = (session.clone(), undo);
            self.note_trash(of.clone(), &record);
            if let Some((_, ids)) = record.op.changed_file() {
                let files = self.changed_files.entry(of.clone()).or_default();
                files.insert(ids);
            }
            self.parts.entry(of).or_default().extend(&numbers);
        }
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            self.latest = 0;
            self.asked.next_session();
        }
        if record.can_be_undone() && !matches!(record.op, Op::Undo { .. }) && wanted(&record) {
            if self.asked.selects(&record.op) {
                self.latest = seq;
                numbers.extend(self.asked.removals_above(&record.op));
                self.chosen
                    .entry(session.clone())
                    .or_default()
                    .extend(numbers);
            } else {
                self.asked.note_removal(&record.op, &numbers);
            }
        }
        match record.op {
            Op::Run { .. } if self.latest == seq + 1 => {
                self.joined.entry(session.clone()).or_default().push(seq);
            }
            Op::Gather { trash, .. } => self.gathered.entry(trash).or_default().push(seq),
            Op::Undo { of, redo, .. } => self.undos.push(EarlierUndo {
                session: session.clone(),
                seq,
                id: undo.unwrap_or(UndoId::Record(seq)),
                of,
                redo,
            }),
            _ => {}
        }
    }

    /// Adds the undos that only took back selected records, except `outdated` ones.
    fn add_undos(&self, selection: &mut RecordSelection, outdated: &HashSet<(Arc<str>, UndoId)>) {
        // Oldest first, because one may have taken back another.
        for undo in self.undos.iter().rev() {
            if selection.covers(&undo.of)
                && !selection.has(&undo.session, undo.seq)
                && !outdated.contains(&undo.key())
            {
                selection.add(self.undos_taken_by(undo));
            }
        }
    }

    /// Returns the undos that put a node into the trash that another, unselected undo took out again, and the undos
    /// that they took back: together they changed nothing, and they cannot be taken back one by one any more.
    fn outdated_undos(&self, selection: &RecordSelection) -> HashSet<(Arc<str>, UndoId)> {
        let mut outdated = HashSet::new();
        for later in self.undos.iter().filter(|undo| undo.redo) {
            let entries = self.put_into_trash.get(&later.key());
            let is_gone = entries.into_iter().flatten().any(|entry| {
                let taker = self.taken_from_trash.get(entry);
                taker.is_some_and(|(session, seq)| !selection.has(session, *seq))
            });
            if is_gone {
                outdated.insert(later.key());
                let earlier = self.undos.iter().filter(|undo| later.has_taken_back(undo));
                outdated.extend(earlier.map(EarlierUndo::key));
            }
        }
        outdated
    }

    /// Notes the nodes that an undo puts into the trash and takes out of it.
    fn note_trash(&mut self, undo: (Arc<str>, UndoId), record: &Record) {
        match &record.op {
            Op::Unlink { trash, .. } | Op::Rmdir { trash, .. } => {
                let entries = self.put_into_trash.entry(undo).or_default();
                entries.push(trash.clone());
            }
            Op::Restore { path, .. } => {
                if let Some(entry) = path.components().nth(1) {
                    let entry = EscapedBytes(entry.bytes().to_vec());
                    self.taken_from_trash.insert(entry, (undo.0, record.seq));
                }
            }
            _ => {}
        }
    }

    fn undos_taken_by(&self, undo: &EarlierUndo) -> BTreeMap<Arc<str>, Vec<u64>> {
        let parts = self.parts.get(&(undo.session.clone(), undo.id));
        BTreeMap::from([(undo.session.clone(), parts.cloned().unwrap_or_default())])
    }
}

/// Selects the records of a request.
///
/// # Errors
/// For operations by number: [`Error::Refused`] for one that changed nothing, [`Error::Missing`] for one that did not
/// happen. Those of reading the journal.
pub fn select(store: &Store, wanted: &UndoScope) -> Result<RecordSelection> {
    let mut selection = RecordSelection::default();
    let mut pass = match wanted {
        UndoScope::Operations(operations) => by_number(store, operations, &mut selection)?,
        UndoScope::Matching {
            from,
            session: only,
            run,
            turns,
            pid,
            program,
            paths,
        } => {
            let mut pass = SelectionPass::new(paths)?;
            let mut records = ReverseRecords::open_unchecked(store)?;
            while let Some((session, record)) = records.next_record()? {
                if from.includes(&session, record.seq) {
                    break;
                }
                let in_session = only.as_ref().is_none_or(|only| **only == *session);
                let one = session.clone();
                pass.note_record(&session, record, |record| {
                    let turns = turns.as_ref();
                    in_session
                        && turns.is_none_or(|turns| turns.includes(&one, record))
                        && run.is_none_or(|run| record.origin.run == Some(run))
                        && is_by(record, *pid, program.as_deref())
                });
            }
            pass
        }
    };
    selection.add(std::mem::take(&mut pass.chosen));
    selection.add_between(std::mem::take(&mut pass.joined));
    let mut with_undos = selection.clone();
    pass.add_undos(&mut with_undos, &HashSet::new());
    let outdated = pass.outdated_undos(&with_undos);
    if !outdated.is_empty() {
        with_undos = selection;
        pass.add_undos(&mut with_undos, &outdated);
    }
    let mut selection = with_undos;
    note_cancelled(&pass, &mut selection);
    Ok(selection)
}

/// Notes the undos that were taken back since, each with its redo, if neither is selected. The newest come first: an
/// undo that was taken back itself has taken nothing back.
fn note_cancelled(pass: &SelectionPass, selection: &mut RecordSelection) {
    let undos = &pass.undos;
    let mut taken_back: HashSet<(Arc<str>, UndoId)> = HashSet::new();
    for later in undos.iter().filter(|undo| undo.redo) {
        if selection.has(&later.session, later.seq) || taken_back.contains(&later.key()) {
            continue;
        }
        for undo in undos.iter().filter(|undo| later.has_taken_back(undo)) {
            taken_back.insert(undo.key());
            if !selection.has(&undo.session, undo.seq) {
                let pair = [undo.key(), later.key()];
                let files = pair.iter().filter_map(|undo| pass.changed_files.get(undo));
                let files = files.flatten().copied().collect();
                selection.add_cancelling_pair(pair, files);
            }
        }
    }
}

/// Selects operations, and all records of those that are undos.
fn by_number(
    store: &Store,
    operations: &[Operation],
    selection: &mut RecordSelection,
) -> Result<SelectionPass> {
    let named: HashSet<(&str, u64)> = operations
        .iter()
        .map(|one| (one.session.as_str(), one.seq))
        .collect();
    let oldest = named.iter().min().copied().unwrap_or_default();
    let mut found = Vec::new();
    let mut pass = SelectionPass::new(&[])?;
    // Unchecked here: the plan reads the same records and checks them.
    let mut records = ReverseRecords::open_unchecked(store)?;
    while let Some((session, record)) = records.next_record()? {
        if (&*session, record.seq) < oldest {
            break;
        }
        if named.contains(&(&session, record.seq)) {
            expect_undoable(&record)?;
            found.push((session.clone(), record.seq));
        }
        let one = session.clone();
        pass.note_record(&session, record, |record| {
            named.contains(&(&one, record.seq))
        });
    }
    if found.len() < named.len() {
        return Err(Error::Missing {
            what: "one of these operations did not happen: its act failed, and was noted so"
                .to_owned(),
            remedy: "`trumanfs show` says what became of it.".to_owned(),
        });
    }
    for (session, seq) in found {
        let is_this = |undo: &&EarlierUndo| (&undo.session, undo.seq) == (&session, seq);
        if let Some(undo) = pass.undos.iter().find(is_this) {
            selection.add_undo(&session, seq, undo.redo);
            selection.add(pass.undos_taken_by(undo));
        }
    }
    Ok(pass)
}

fn expect_undoable(record: &Record) -> Result<()> {
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
    // An undo's changes are the operator's, not those of a process inside.
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
