//! The facts of a session, from one pass over its journal: the changes of each program, and their times.
//!
//! Memory grows with the number of programs, not of records: changes are counted in time slices that get wider as the
//! session gets longer.

use std::collections::{BTreeMap, HashSet};
use std::io::BufReader;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};
use crate::journal::{JournalReader, Op, Record, VolatileLoss};
use crate::name::{WorldPath, escape};
use crate::operator::Store;
use crate::operator::run::RunSummary;
use crate::operator::turn::RunTurn;
use crate::operator::usage::program;
use crate::world::store::settle::open_journal;

/// The maximum number of time slices.
pub(super) const MAX_SLICES: usize = 180;

/// The width of a time slice of the shortest sessions; longer ones have wider slices.
const MIN_SLICE_MILLISECONDS: i64 = 10;

/// The maximum number of operator actions listed.
const MAX_MARKS: usize = 200;

/// The maximum number of programs that are kept apart.
const MAX_PROGRAMS: usize = 200;

/// The maximum number of processes counted for one program.
const MAX_PROCESSES: usize = 100_000;

/// The changes in a time slice: those that only add, and those that destroy.
pub(super) type SliceCounts = (u32, u32);

/// The changes of one program.
#[derive(Debug, Default)]
pub(super) struct ProgramFacts {
    pub(super) path: String,
    pub(super) processes: HashSet<u32>,
    pub(super) changes: u64,
    pub(super) created: u64,
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) moved: u64,
    pub(super) attributes: u64,
    pub(super) slices: Vec<SliceCounts>,
    /// True for an operator's changes: undos and restores.
    pub(super) by_operator: bool,
}

/// The name for an operator's own changes among the programs.
const OPERATOR: &str = "an operator";

/// An operator's action, or another event listed by itself.
#[derive(Debug)]
pub(super) struct PageEvent {
    pub(super) seq: u64,
    pub(super) time: DateTime<Utc>,
    pub(super) what: String,
}

/// The facts of a session.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    pub(super) id: String,
    /// The run of the session that the page is about, if any.
    pub(super) run: Option<RunSummary>,
    /// The turn of that run that the page is about, if any.
    pub(super) turn: Option<RunTurn>,
    /// The records of that run.
    pub(super) seqs: HashSet<u64>,
    pub(super) home: Option<String>,
    pub(super) host: String,
    pub(super) release: String,
    pub(super) began: Option<DateTime<Utc>>,
    pub(super) last: Option<DateTime<Utc>>,
    pub(super) last_seq: u64,
    pub(super) ended: bool,
    pub(super) damage: Option<String>,
    pub(super) changes: u64,
    pub(super) not_done: u64,
    pub(super) programs: BTreeMap<String, ProgramFacts>,
    pub(super) marks: Vec<PageEvent>,
    pub(super) marks_left_out: u64,
    /// The number and the bytes of volatile things that are gone, by directory.
    pub(super) volatile: BTreeMap<String, (u64, u64)>,
    /// The width of a slice in milliseconds.
    pub(super) width: i64,
}

/// Reads the journal of a session.
///
/// # Errors
/// `ENOENT` where it has no journal; those of `read(2)`. Damage is noted in the facts.
pub(super) fn read(
    store: &Store,
    id: &str,
    (run, turn): (Option<&RunSummary>, Option<&RunTurn>),
) -> Result<SessionFacts> {
    let mut facts = SessionFacts {
        id: id.to_owned(),
        run: run.cloned(),
        turn: turn.cloned(),
        width: MIN_SLICE_MILLISECONDS,
        ..SessionFacts::default()
    };
    let file = open_journal(store.state(), id)?;
    let mut reader = JournalReader::new(BufReader::with_capacity(1 << 17, file));
    loop {
        match reader.next_record() {
            Ok(Some(record)) => facts.add_record(record),
            Ok(None) => return Ok(facts),
            Err(Error::Damaged(what)) => {
                facts.damage = Some(what);
                return Ok(facts);
            }
            Err(error) => return Err(error),
        }
    }
}

impl SessionFacts {
    fn add_volatile(&mut self, losses: &[VolatileLoss]) {
        for loss in losses {
            let sum = self.volatile.entry(loss.dir.to_string()).or_default();
            *sum = (sum.0 + loss.files, sum.1 + loss.bytes);
        }
    }

    fn add_record(&mut self, record: Record) {
        let turn = self.turn.as_ref();
        let in_turn = turn.is_none_or(|turn| turn.range().includes(&self.id, record.seq));
        if let Some(run) = &self.run
            && (record.origin.run != Some(run.id) || !in_turn)
        {
            // The begin and the end of the session hold for the run, too.
            return self.take_frame(record.op);
        }
        if self.run.is_some() {
            self.seqs.insert(record.seq);
        }
        let time = DateTime::parse_from_rfc3339(&record.time);
        let time = time.map_or(self.last.unwrap_or_default(), |t| t.with_timezone(&Utc));
        self.began.get_or_insert(time);
        self.last = Some(time);
        self.last_seq = record.seq;
        let mark = match &record.op {
            Op::Begin { .. } | Op::End { .. } => return self.take_frame(record.op),
            Op::Abort { .. } => {
                self.not_done += 1;
                return;
            }
            // The daemon's own additions to changes that are counted already.
            Op::Gather { .. } | Op::Run { .. } => return,
            Op::Checkpoint {
                mark: Some(mark), ..
            } => mark.to_string(),
            Op::Checkpoint { name, .. } => format!("checkpoint “{name}”"),
            Op::Undo { what, .. } | Op::Accept { what, .. } => what.clone(),
            Op::Purge { volatile, .. } | Op::Evict { volatile, .. } if !volatile.is_empty() => {
                return self.add_volatile(volatile);
            }
            Op::Purge {
                expired: Some(cut), ..
            } => format!("expired what came before {}:{}", cut.before.0, cut.before.1),
            Op::Purge { entries, .. } => match entries.as_slice() {
                [one] => format!("purged {}", escape(&one.0)),
                many => format!("purged {} entries of the trash", many.len()),
            },
            Op::Evict { versions, .. } => format!("deleted {} former contents", versions.len()),
            _ => String::new(),
        };
        if !mark.is_empty() {
            if self.marks.len() < MAX_MARKS {
                let seq = record.seq;
                self.marks.push(PageEvent {
                    seq,
                    time,
                    what: mark,
                });
            } else {
                self.marks_left_out += 1;
            }
            return;
        }
        self.changes += 1;
        let slice = self.slice_of(time);
        let mut name = program(record.actor.as_ref());
        let by_operator = record.undo_id().is_some();
        if by_operator {
            OPERATOR.clone_into(&mut name);
        } else if name.is_empty() {
            name = "unknown".to_owned();
        }
        if !self.programs.contains_key(&name) && self.programs.len() >= MAX_PROGRAMS {
            name = "others".to_owned();
        }
        let program = self.programs.entry(name).or_default();
        program.by_operator = by_operator;
        program.add_record(&record, slice);
    }

    /// Notes the begin or the end of the session.
    fn take_frame(&mut self, op: Op) {
        match op {
            Op::Begin {
                home,
                host,
                version,
                ..
            } => {
                self.home = home.map(|home| escape(&home.0));
                (self.host, self.release) = (host, version);
            }
            Op::End { .. } => self.ended = true,
            _ => {}
        }
    }

    /// Returns whether the page covers a record.
    pub(super) fn has(&self, session: Option<&str>, seq: Option<u64>) -> bool {
        let in_run = || seq.is_some_and(|seq| self.seqs.contains(&seq));
        session == Some(&*self.id) && (self.run.is_none() || in_run())
    }

    /// Returns the subject of the page, in a word.
    pub(super) fn subject(&self) -> &'static str {
        match (&self.run, &self.turn) {
            (_, Some(_)) => "turn",
            (Some(_), None) => "run",
            (None, None) => "session",
        }
    }

    /// Returns the slice of a time. Where there would be too many slices, pairs are merged.
    fn slice_of(&mut self, time: DateTime<Utc>) -> usize {
        let began = self.began.unwrap_or(time);
        let since = (time - began).num_milliseconds().max(0);
        while since / self.width >= MAX_SLICES as i64 {
            self.width *= 2;
            for program in self.programs.values_mut() {
                let pairs = program.slices.chunks(2);
                program.slices = pairs.map(|pair| pair.iter().fold((0, 0), add)).collect();
            }
        }
        usize::try_from(since / self.width).unwrap_or(0)
    }

    /// Returns the programs, busiest first, and the operator last.
    pub(super) fn busiest(&self) -> Vec<(&str, &ProgramFacts)> {
        let mut programs: Vec<_> = self.programs.iter().map(|(n, p)| (n.as_str(), p)).collect();
        programs.sort_by_key(|(_, p)| (p.by_operator, std::cmp::Reverse(p.changes)));
        programs
    }
}

pub(super) fn add(a: SliceCounts, b: &SliceCounts) -> SliceCounts {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

impl ProgramFacts {
    fn add_record(&mut self, record: &Record, slice: usize) {
        self.changes += 1;
        if let Some(actor) = &record.actor {
            if self.processes.len() < MAX_PROCESSES {
                self.processes.insert(actor.pid);
            }
            if self.path.is_empty() {
                actor.exe.clone_into(&mut self.path);
            }
        }
        let count = match &record.op {
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Link { .. } => &mut self.created,
            Op::Unlink { .. } | Op::Rmdir { .. } => &mut self.removed,
            Op::Rename { .. } | Op::Exchange { .. } | Op::Restore { .. } => &mut self.moved,
            Op::Attr { .. } | Op::Xattr { .. } => &mut self.attributes,
            _ => &mut self.written,
        };
        *count += 1;
        if self.slices.len() <= slice {
            self.slices.resize(slice + 1, (0, 0));
        }
        if let Some(counts) = self.slices.get_mut(slice) {
            if destroys(&record.op) {
                counts.1 = counts.1.saturating_add(1)
            } else {
                counts.0 = counts.0.saturating_add(1)
            }
        }
    }
}

/// Returns whether an operation destroys something.
fn destroys(op: &Op) -> bool {
    op.trashed().is_some() || op.kept().is_some_and(|(kept, _)| kept.n > 0)
}

/// Quotes a path for a shell command.
pub(super) fn shell_path(path: &WorldPath) -> String {
    quote_for_shell(&[b"/", path.bytes()].concat())
}

/// Quotes an argument so that a shell reads it back unchanged, whatever it contains.
pub(super) fn quote_for_shell(argument: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(b);
    let option = argument.first() == Some(&b'-');
    match std::str::from_utf8(argument) {
        Ok(text) if !text.is_empty() && !option && argument.iter().all(plain) => text.to_owned(),
        Ok(text) if !text.chars().any(crate::name::is_deceptive) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let byte = |b: &u8| match b {
                b'\'' | b'\\' => format!("\\{}", char::from(*b)),
                b' '..=b'~' => char::from(*b).to_string(),
                b => format!("\\x{b:02x}"),
            };
            format!("$'{}'", argument.iter().map(byte).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_arguments_survive_a_shell() {
        for name in [
            &b"plain/name.txt"[..],
            b"with space",
            b"it's",
            b"$(rm -rf ~)`x`\"; rm -rf /",
            b"line\nbreak",
            b"-rf",
            b"\xff\xfe\x01'\\",
            "\u{202e}gpj.exe".as_bytes(),
            b"",
        ] {
            let line = format!("printf %s {}", quote_for_shell(name));
            let output = std::process::Command::new("bash")
                .arg("-c")
                .arg(&line)
                .output();
            assert_eq!(
                output.map(|o| o.stdout).ok().as_deref(),
                Some(name),
                "{line}"
            );
        }
    }
}
