//! What became of a deed that was begun and whose end nobody saw: decided by what is on the disk.
//!
//! Owns the decision. A deed that happened is brought to its end; of one that did not happen nothing is left. The way is
//! the same after a crash, a killed worker and a failure half-way.

use super::bases::{Base, Bases};
use super::errand::Errand;
use super::failure::{Code, Failure};
use super::line::{Deed, Intent};
use super::path::AbsolutePath;
use super::result::Keeper;
use super::worker::order::{Expected, Made};
use crate::exec::quote;
use crate::name::{Escaped, WorldPath};
use crate::world::{OriginKind, Run, RunId};

/// What a deed came to.
#[derive(Debug, Clone)]
pub(super) enum Settled {
    /// It was done: the file, and where it is kept if it was removed.
    Done(Made, Option<Kept>),
    /// It was not, and nothing of it is left.
    Undone,
}

/// Where a removed file is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) keeper: Keeper,
    pub(super) entry: Escaped,
}

/// Returns what records say of a deed.
pub(super) fn command_of(deed: &Deed) -> Vec<u8> {
    let words: Vec<Vec<u8>> = match deed {
        Deed::Move {
            source,
            destination,
        } => vec!["FILE_MOVE", source.as_str(), destination.as_str()],
        Deed::Copy {
            source,
            destination,
        } => vec!["FILE_COPY", source.as_str(), destination.as_str()],
        Deed::Delete { source } => vec!["FILE_DELETE", source.as_str()],
        Deed::Restore { destination, .. } => vec!["undo", "FILE_DELETE", destination.as_str()],
    }
    .into_iter()
    .map(|word| word.as_bytes().to_vec())
    .collect();
    quote::line(&words)
}

/// Returns the run of a deed.
pub(super) fn run_of(id: RunId, deed: &Deed) -> Run {
    Run {
        id,
        kind: OriginKind::Task,
        command: Escaped(command_of(deed)),
        cwd: WorldPath::root(),
    }
}

/// Finds out what a deed came to, and brings it to its end.
///
/// # Errors
/// Why that cannot be told, or not be done.
pub(super) fn settle(bases: &Bases, intent: &Intent) -> Result<Settled, Failure> {
    let settling = Settling { bases, intent };
    match &intent.deed {
        Deed::Move {
            source,
            destination,
        } => settling.moved(source, destination),
        Deed::Copy {
            source,
            destination,
        } => settling.copied(source, destination),
        Deed::Delete { source } => settling.deleted(source),
        Deed::Restore { destination, .. } => settling.restored(destination),
    }
}

struct Settling<'s> {
    bases: &'s Bases,
    intent: &'s Intent,
}

impl Settling<'_> {
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

    fn look(&self, path: &AbsolutePath) -> Result<Option<Made>, Failure> {
        Errand::look(self.bases, path, self.looking())?.send(None, &mut |_| Ok(()))
    }

    fn look_kept(&self, path: &AbsolutePath, entry: &Escaped) -> Result<Option<Made>, Failure> {
        let errand = Errand::look_kept(self.bases, (path, entry), self.looking())?;
        errand.send(None, &mut |_| Ok(()))
    }

    fn sweep(&self, path: &AbsolutePath) -> Result<(), Failure> {
        Errand::sweep(self.bases, path, self.run())?
            .send(None, &mut |_| Ok(()))
            .map(drop)
    }

    fn base_of(&self, path: &AbsolutePath) -> Result<&Base, Failure> {
        let found = self.bases.locate(path);
        let base = found.and_then(|(number, _)| self.bases.base(number));
        base.ok_or_else(|| {
            Code::ExecutionFailed.because(format!("{}: outside the bases", path.as_str()))
        })
    }

    fn moved(&self, source: &AbsolutePath, to: &AbsolutePath) -> Result<Settled, Failure> {
        let found = self.intent.found.inode;
        match self.look(to)? {
            Some(made) if made.inode == found && self.intent.made.is_none() => {
                Ok(Settled::Done(made, None))
            }
            Some(made) if self.is_our_copy(&made, source)? => {
                // Across file systems: the copy is whole, so the source goes where it is kept.
                match self.look(source)? {
                    Some(left) if left.inode == found => {
                        let deed = Deed::Delete {
                            source: source.clone(),
                        };
                        let run = Run {
                            id: RunId::random(),
                            ..run_of(self.intent.run, &deed)
                        };
                        let errand = Errand::new(self.bases, &deed, run)?;
                        let expected = Expected {
                            inode: Some(found),
                            sha256: Some(made.sha256.clone()),
                        };
                        errand.expecting(expected).send(None, &mut |_| Ok(()))?;
                    }
                    _ => {}
                }
                Ok(Settled::Done(made, None))
            }
            _ => {
                self.sweep(to)?;
                Ok(Settled::Undone)
            }
        }
    }

    fn copied(&self, source: &AbsolutePath, to: &AbsolutePath) -> Result<Settled, Failure> {
        match self.look(to)? {
            Some(made) if self.is_our_copy(&made, source)? => Ok(Settled::Done(
                self.intent.made.clone().unwrap_or(made),
                None,
            )),
            _ => {
                self.sweep(to)?;
                Ok(Settled::Undone)
            }
        }
    }

    /// Returns whether a file is the copy that the deed made. What is known of the copy may have been lost in a power cut;
    /// then a file of the same content at a path where nothing was is taken for it.
    fn is_our_copy(&self, there: &Made, source: &AbsolutePath) -> Result<bool, Failure> {
        match &self.intent.made {
            Some(made) => Ok(made.inode == there.inode),
            None => {
                let source = self.look(source)?;
                Ok(source.is_some_and(|source| source.sha256 == there.sha256))
            }
        }
    }

    fn deleted(&self, source: &AbsolutePath) -> Result<Settled, Failure> {
        let base = self.base_of(source)?;
        let Some(kept) = kept_entry(base, self.intent.run)? else {
            return Ok(Settled::Undone);
        };
        match self.look_kept(source, &kept.entry)? {
            Some(made) if made.inode == self.intent.found.inode => {
                Ok(Settled::Done(made, Some(kept)))
            }
            // Another file had taken the name at that moment: it goes back.
            Some(_) => {
                let deed = Deed::Restore {
                    entry: kept.entry,
                    destination: source.clone(),
                };
                let errand = Errand::new(self.bases, &deed, self.looking())?;
                errand.send(None, &mut |_| Ok(()))?;
                Ok(Settled::Undone)
            }
            // It was put back since, or purged.
            None => Ok(Settled::Undone),
        }
    }

    fn restored(&self, to: &AbsolutePath) -> Result<Settled, Failure> {
        match self.look(to)? {
            Some(made) if made.inode == self.intent.found.inode => Ok(Settled::Done(made, None)),
            _ => Ok(Settled::Undone),
        }
    }
}

/// Returns what a run has put into the trash of the base's home, or into the vault.
///
/// # Errors
/// Those of reading the journal.
pub(super) fn kept_entry(base: &Base, run: RunId) -> Result<Option<Kept>, Failure> {
    match base.client() {
        Some(client) => {
            let entries = client
                .trashed(run)
                .map_err(|error| super::errand::of(&error))?;
            let keeper = Keeper::Trash;
            let entry = entries.into_iter().next();
            Ok(entry.map(|entry| Kept { keeper, entry }))
        }
        None => {
            let name = run.to_string();
            Ok(base.vault_has(&name).then(|| Kept {
                keeper: Keeper::Vault,
                entry: Escaped(name.into_bytes()),
            }))
        }
    }
}
