//! Names the records in the way of an undo, which changed something later, in words.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::planner::ConflictCause;
use crate::error::Result;
use crate::journal::{Op, Record, RunId};
use crate::name::escape;
use crate::operator::Store;
use crate::operator::past::{RecordId, ReverseRecords};
use crate::operator::point::Operation;

/// The number of conflicts for which the conflicting record is looked up.
const MAX_LOOKUPS: usize = 100;

/// Finds the conflicting records, and describes their operation, their author and their run.
pub(in crate::operator) fn describe_conflicting_records(
    store: &Store,
    conflicts: &mut [ConflictCause],
) -> Result<()> {
    let shown = conflicts.iter().take(MAX_LOOKUPS);
    let mut wanted: BTreeSet<RecordId> = shown
        .flat_map(|(conflict, by)| {
            let own = (Arc::from(conflict.session.as_str()), conflict.seq);
            by.iter().cloned().chain([own])
        })
        .collect();
    // The commands of the runs that are in the way. A run's own record comes before all others of it, so it is met
    // after them.
    let mut commands: HashMap<RunId, Option<String>> = HashMap::new();
    let mut runs: HashMap<usize, RunId> = HashMap::new();
    let mut records = ReverseRecords::open_unchecked(store)?;
    while !wanted.is_empty() || commands.values().any(Option::is_none) {
        let Some((session, record)) = records.next_record()? else {
            break;
        };
        if let (Some(run), Op::Run { command, .. }) = (record.origin.run, &record.op)
            && let Some(command_text) = commands.get_mut(&run)
        {
            *command_text = Some(escape(&command.0));
        }
        if !wanted.remove(&(session.clone(), record.seq)) {
            continue;
        }
        for (index, (conflict, by)) in conflicts.iter_mut().take(MAX_LOOKUPS).enumerate() {
            if *by == Some((session.clone(), record.seq)) {
                conflict.by = Some(Operation {
                    session: session.to_string(),
                    seq: record.seq,
                });
                conflict.by_what = Some(describe_record(&record));
                if let Some(run) = record.origin.run.filter(|_| !record.origin.is_undo()) {
                    runs.insert(index, run);
                    commands.entry(run).or_default();
                }
            }
            if (&*conflict.session, conflict.seq) == (&*session, record.seq) {
                conflict.word = record.op.word().to_owned();
            }
        }
    }
    for (index, run) in runs {
        if let Some((conflict, _)) = conflicts.get_mut(index)
            && let (Some(what), Some(Some(command))) = (&mut conflict.by_what, commands.get(&run))
        {
            what.push_str(": $ ");
            what.push_str(command);
        }
    }
    Ok(())
}

/// Describes a record and its author in a few words.
fn describe_record(record: &Record) -> String {
    let paths: Vec<String> = record.op.paths().map(ToString::to_string).collect();
    let path = paths.join(" → ");
    let who = match (&record.actor, record.origin.run) {
        _ if record.undo_id().is_some() => " by an undo".to_owned(),
        (_, Some(run)) => format!(" by the {} run {run}", record.origin.kind.word()),
        (Some(actor), _) if actor.comm.is_empty() => format!(" by process {}", actor.pid),
        (Some(actor), _) => format!(" by {}[{}]", actor.comm, actor.pid),
        (None, _) => String::new(),
    };
    format!("{} {path}{who}", record.op.word())
}
