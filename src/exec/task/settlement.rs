//! The settlement of a deed that was begun and whose end nobody saw: the disk decides what became of it.
//!
//! Owns the decision. A deed that happened is brought to its end; of one that did not happen nothing is left. The way is
//! the same after a crash, a killed worker and a failure half-way.

use super::absolute_path::AbsolutePath;
use super::base_directories::{BaseDirectories, BaseDirectory};
use super::failure::TaskFailure;
use super::failure_reason::FailureReason;
use super::ledger_line::{TaskAction, TaskIntent};
use super::result::RecoveryKind;
use super::worker::worker_order::{ExpectedFile, FileStamp, FoundFile, WorkerOutput};
use super::worker_job::{WorkerJob, WorkerReply};
use crate::exec::quote;
use crate::name::{EscapedBytes, WorldPath};
use crate::world::{OriginKind, Run, RunId};

/// The outcome of a deed.
#[derive(Debug, Clone)]
pub(super) enum SettleOutcome {
    /// The deed was done: the file, and the place where it is kept if it was removed.
    Done(WorkerOutput, Option<RecoveryEntry>),
    /// The deed was not done, and nothing of it is left.
    Undone,
    /// That cannot be told: no file is where it would be if it was done, and none where it would be if not.
    Unclear,
    /// The deed was not done: another file was taken for its file. The text says where that file lies now.
    Mistaken(String),
}

/// The place where a removed file is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecoveryEntry {
    pub(super) keeper: RecoveryKind,
    pub(super) entry: EscapedBytes,
}

/// Returns what records say of a deed.
pub(super) fn command_of(deed: &TaskAction) -> Vec<u8> {
    let words: Vec<Vec<u8>> = match deed {
        TaskAction::Move {
            source,
            destination,
        } => vec!["FILE_MOVE", source.as_str(), destination.as_str()],
        TaskAction::Copy {
            source,
            destination,
        } => vec!["FILE_COPY", source.as_str(), destination.as_str()],
        TaskAction::Delete { source } => vec!["FILE_DELETE", source.as_str()],
        TaskAction::Restore { destination, .. } => {
            vec!["undo", "FILE_DELETE", destination.as_str()]
        }
    }
    .into_iter()
    .map(|word| word.as_bytes().to_vec())
    .collect();
    quote::line(&words)
}

/// Returns the run of a deed.
pub(super) fn run_of(id: RunId, deed: &TaskAction) -> Run {
    Run {
        id,
        kind: OriginKind::Task,
        command: EscapedBytes(command_of(deed)),
        cwd: WorldPath::root(),
        also: Vec::new(),
    }
}

/// Finds out what a deed came to, and brings it to its end.
///
/// # Errors
/// Why that cannot be told, or not be done.
pub(super) fn settle(
    bases: &BaseDirectories,
    intent: &TaskIntent,
) -> Result<SettleOutcome, TaskFailure> {
    let settling = SettleContext { bases, intent };
    match &intent.deed {
        TaskAction::Move {
            source,
            destination,
        } => settling.moved(source, destination),
        TaskAction::Copy { destination, .. } => settling.copied(destination),
        TaskAction::Delete { source } => settling.deleted(source),
        TaskAction::Restore { entry, destination } => settling.restored(entry, destination),
    }
}

/// Says of a deed that from the disk it cannot be told whether it was done. `why`: what ended it.
pub(super) fn unclear(why: &str) -> String {
    format!(
        "{why}, and from what lies on the disk it cannot be told whether it was done: somebody may have moved on what it made, moved \
         or kept"
    )
}

struct SettleContext<'s> {
    bases: &'s BaseDirectories,
    intent: &'s TaskIntent,
}

impl SettleContext<'_> {
    fn run(&self) -> Run {
        run_of(self.intent.run, &self.intent.deed)
    }

    /// A run of its own for looking: that of the deed may have records already.
    fn looking(&self) -> Run {
        Run {
            id: RunId::random(),
            ..self.run()
        }
    }

    fn look(&self, path: &AbsolutePath) -> Result<Option<FoundFile>, TaskFailure> {
        there(WorkerJob::look(self.bases, path, self.looking())?)
    }

    fn look_kept(
        &self,
        path: &AbsolutePath,
        entry: &EscapedBytes,
    ) -> Result<Option<FoundFile>, TaskFailure> {
        there(WorkerJob::look_kept(
            self.bases,
            (path, entry),
            self.looking(),
        )?)
    }

    /// Returns the file that the deed was about, as it was when it began.
    fn found(&self) -> WorkerOutput {
        let found = &self.intent.found;
        WorkerOutput {
            stamp: found.stamp,
            sha256: found.sha256.clone(),
        }
    }

    fn sweep(&self, path: &AbsolutePath) -> Result<(), TaskFailure> {
        WorkerJob::sweep(self.bases, path, self.looking(), self.intent.run)?
            .send(None, &mut |_| Ok(()))?;
        Ok(())
    }

    fn base_of(&self, path: &AbsolutePath) -> Result<&BaseDirectory, TaskFailure> {
        let found = self.bases.locate(path);
        let base = found.and_then(|(number, _)| self.bases.base(number));
        base.ok_or_else(|| {
            FailureReason::Outside.because(format!("{}: outside the bases", path.as_str()))
        })
    }

    fn moved(
        &self,
        source: &AbsolutePath,
        to: &AbsolutePath,
    ) -> Result<SettleOutcome, TaskFailure> {
        let (there, left) = (self.look(to)?, self.look(source)?);
        let is = |file: &Option<FoundFile>, stamp: &FileStamp| {
            file.as_ref().is_some_and(|file| file.stamp.is(stamp))
        };
        let found = &self.intent.found.stamp;
        match &self.intent.made {
            // A second link that somebody made has the inode too; then the source is still there.
            None if is(&there, found) && !is(&left, found) => {
                Ok(SettleOutcome::Done(self.found(), None))
            }
            // Across file systems: the copy is whole, so the source goes where it is kept.
            Some(made) if is(&there, &made.stamp) => match is(&left, found) {
                false => Ok(SettleOutcome::Done(made.clone(), None)),
                true => self.end_across((source, to), made),
            },
            _ => {
                self.sweep(to)?;
                Ok(match is(&left, found) {
                    true => SettleOutcome::Undone,
                    false => SettleOutcome::Unclear,
                })
            }
        }
    }

    /// Ends a move across file systems, of which the copy is whole and the source still there.
    fn end_across(
        &self,
        (source, to): (&AbsolutePath, &AbsolutePath),
        made: &WorkerOutput,
    ) -> Result<SettleOutcome, TaskFailure> {
        let same = ExpectedFile {
            stamp: Some(self.intent.found.stamp),
            is_untouched: true,
            sha256: made.sha256.clone(),
        };
        if self.put_away(source, same).is_ok() {
            return Ok(SettleOutcome::Done(made.clone(), None));
        }
        // It cannot go, or has changed since: so the copy goes.
        let ours = ExpectedFile {
            stamp: Some(made.stamp),
            ..ExpectedFile::default()
        };
        Ok(match self.put_away(to, ours) {
            Ok(()) => SettleOutcome::Undone,
            Err(why) => SettleOutcome::Mistaken(format!(
                "{} cannot be removed, and neither can its copy: {}",
                source.as_str(),
                why.message
            )),
        })
    }

    /// Moves a file to where what is removed is kept.
    fn put_away(&self, path: &AbsolutePath, expected: ExpectedFile) -> Result<(), TaskFailure> {
        let deed = TaskAction::Delete {
            source: path.clone(),
        };
        let run = run_of(RunId::random(), &deed);
        let errand = WorkerJob::new(self.bases, &deed, run)?.expecting(expected);
        errand.send(None, &mut |_| Ok(()))?;
        Ok(())
    }

    /// The copy is noted before it gets its name, so what is not noted is somebody else's. One that is noted and not there was never
    /// named, or somebody has moved it on.
    fn copied(&self, to: &AbsolutePath) -> Result<SettleOutcome, TaskFailure> {
        if let (Some(made), Some(there)) = (&self.intent.made, self.look(to)?)
            && made.stamp.is(&there.stamp)
        {
            return Ok(SettleOutcome::Done(made.clone(), None));
        }
        self.sweep(to)?;
        Ok(match &self.intent.made {
            None => SettleOutcome::Undone,
            Some(_) => SettleOutcome::Unclear,
        })
    }

    /// Says of a deed that has left nothing whether its file is still there as it was.
    fn untouched(&self, still: Option<FoundFile>) -> SettleOutcome {
        match still {
            Some(still) if still.stamp.is(&self.intent.found.stamp) => SettleOutcome::Undone,
            _ => SettleOutcome::Unclear,
        }
    }

    fn deleted(&self, source: &AbsolutePath) -> Result<SettleOutcome, TaskFailure> {
        let base = self.base_of(source)?;
        let Some(kept) = kept_entry(base, self.intent.run)? else {
            return Ok(self.untouched(self.look(source)?));
        };
        match self.look_kept(source, &kept.entry)? {
            Some(there) if there.stamp.is(&self.intent.found.stamp) => {
                Ok(SettleOutcome::Done(self.found(), Some(kept)))
            }
            // Another file had taken the name at that moment: it goes back.
            Some(_) => self.put_back(source, kept),
            // It was put back since, or purged.
            None => Ok(self.untouched(self.look(source)?)),
        }
    }

    /// Puts another file back that had the name when the deed was done.
    fn put_back(
        &self,
        path: &AbsolutePath,
        kept: RecoveryEntry,
    ) -> Result<SettleOutcome, TaskFailure> {
        let name = crate::name::escape(&kept.entry.0);
        let deed = TaskAction::Restore {
            entry: kept.entry,
            destination: path.clone(),
        };
        let errand = WorkerJob::new(self.bases, &deed, self.looking())?;
        let place: &str = kept.keeper.into();
        Ok(match errand.send(None, &mut |_| Ok(())) {
            Ok(_) => SettleOutcome::Undone,
            Err(why) => SettleOutcome::Mistaken(format!(
                "another file had taken its place; that one lies in the {place} as {name}, because: {}",
                why.failure.message
            )),
        })
    }

    fn restored(
        &self,
        entry: &EscapedBytes,
        to: &AbsolutePath,
    ) -> Result<SettleOutcome, TaskFailure> {
        match self.look(to)? {
            Some(there) if there.stamp.is(&self.intent.found.stamp) => {
                Ok(SettleOutcome::Done(self.found(), None))
            }
            _ => Ok(self.untouched(self.look_kept(to, entry)?)),
        }
    }
}

fn there(errand: WorkerJob<'_>) -> Result<Option<FoundFile>, TaskFailure> {
    match errand.send(None, &mut |_| Ok(()))? {
        WorkerReply::There(found) => Ok(Some(found)),
        WorkerReply::Done(_) | WorkerReply::Nothing => Ok(None),
    }
}

/// Returns what a run has put into the trash of the base's home, or into the vault.
///
/// # Errors
/// Those of reading the journal.
pub(super) fn kept_entry(
    base: &BaseDirectory,
    run: RunId,
) -> Result<Option<RecoveryEntry>, TaskFailure> {
    match base.client() {
        Some(client) => {
            let entries = client
                .entries_trashed_by(run)
                .map_err(|error| super::worker_job::of(&error))?;
            let keeper = RecoveryKind::Trash;
            let entry = entries.into_iter().next();
            Ok(entry.map(|entry| RecoveryEntry { keeper, entry }))
        }
        None => {
            let name = run.to_string();
            Ok(base.vault_has(&name).then(|| RecoveryEntry {
                keeper: RecoveryKind::Vault,
                entry: EscapedBytes(name.into_bytes()),
            }))
        }
    }
}
