//! An executor of tasks: from a manifest and a lease to a signed result.
//!
//! Owns what is signed and stored. A result of a lease that holds is stored, only success is final; a result that was
//! stored is answered again byte for byte.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use super::bases::Bases;
use super::check::{Asked, Checker, Early, Said, Wish};
use super::clock::{self, Clock};
use super::config::Config;
use super::envelope::Envelope;
use super::executor::{Came, Ids, NotDone, Task};
use super::failure::{Code, Failure, is_full};
use super::key::PrivateKey;
use super::lease::Lease;
use super::ledger::{Ledger, Turn};
use super::line::{Deed, Intent, Stored};
use super::result::{Ending, Output, Recovery, Summary, TaskResult, UndoMetadata};
use super::settle::{Kept, Settled, command_of, settle, unclear};
use super::strict;
use super::trust::Trust;
use super::worker::order::Made;
use crate::error::{Error, Result};
use crate::exec::pipeline;
use crate::exec::request::{Limits, Request};

/// A result, as it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The envelope, one line without its end.
    pub result: String,
    /// Whether the task was done, now or earlier.
    pub success: bool,
}

/// An executor of tasks.
pub struct Tasks {
    desk: Desk,
    ledger: Ledger,
}

/// What an executor works with, its ledger apart.
struct Desk {
    config: Config,
    key: PrivateKey,
    clock: Clock,
    bases: Bases,
}

impl Tasks {
    /// Opens an executor by its configuration, and settles what an earlier one left.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Refused`] for what is wrong with the configuration, a base or the ledger;
    /// [`Error::Partly`] where what was left cannot be settled.
    pub fn open(config: &Path) -> Result<Tasks> {
        super::failpoint::check()?;
        let config = Config::load(config)?;
        let key = PrivateKey::load(&config.key)?;
        let ledger = Ledger::open(&config.state_dir, &config.vault_dir)?;
        let desk = Desk {
            key,
            clock: Clock::open(&config.state_dir)?,
            bases: Bases::open(&config.bases, &config.vault_dir, ledger.lock()?)?,
            config,
        };
        let mut tasks = Tasks { desk, ledger };
        let (desk, mut turn) = (&tasks.desk, tasks.ledger.turn()?);
        let now = desk.clock.now(&turn)?;
        desk.may_sign(&Trust::load(&desk.config.trust)?, now, now)?;
        let has_open = turn.index().open().is_some();
        desk.bases.are_as_before(&desk.config.state_dir, has_open)?;
        desk.settle(&mut turn)?;
        drop(turn);
        Ok(tasks)
    }

    /// Does what a manifest says, or refuses.
    ///
    /// # Errors
    /// Where the executor itself cannot work: its ledger, its trusted keys or its revocations cannot be had, or what a task
    /// left cannot be settled. What is wrong with the request is in the signed answer.
    pub fn run(&mut self, manifest: &[u8], lease: &[u8]) -> Result<Answer> {
        self.answer(&Asked::Manifest(manifest), lease)
    }

    /// Takes back what a task did, by its result.
    ///
    /// # Errors
    /// As [`Tasks::run`].
    pub fn undo(&mut self, result: &[u8], lease: &[u8]) -> Result<Answer> {
        self.answer(&Asked::Undo(result), lease)
    }

    /// Signs that a request cannot be read at all.
    ///
    /// # Errors
    /// As [`Tasks::run`].
    pub fn refuse(&mut self, why: &str) -> Result<Answer> {
        let ending = Ending::Failed(Code::ExecutionFailed.because(why));
        let turn = self.ledger.turn()?;
        let now = self.desk.clock.now(&turn)?;
        let trust = Trust::load(&self.desk.config.trust)?;
        self.desk.may_sign(&trust, now, now)?;
        self.desk.unstored(&turn, &Said::default(), ending, now)
    }

    fn answer(&mut self, asked: &Asked<'_>, lease: &[u8]) -> Result<Answer> {
        let desk = &self.desk;
        desk.bases.are_there()?;
        let mut turn = self.ledger.turn()?;
        let now = desk.clock.now(&turn)?;
        let trust = Trust::load(&desk.config.trust)?;
        desk.may_sign(&trust, now, now)?;
        desk.settle(&mut turn)?;
        let checker = Checker {
            config: &desk.config,
            key: &desk.key,
            trust: &trust,
            now,
            ahead_s: now.saturating_sub(clock::now()),
        };
        let mut said = Said::default();
        match checker.check(asked, lease, &mut said, &turn) {
            Ok(_) if !desk.clock.is_kept() => {
                let failure = full("the latest time cannot be noted");
                desk.unstored(&turn, &said, Ending::Failed(failure), now)
            }
            Ok((lease, wish)) => {
                let end = now.saturating_add(lease.quota.wall_ms.div_ceil(1000));
                desk.may_sign(&trust, now, end)?;
                desk.carry_out(&mut turn, &said, wish, &lease, now)
            }
            Err(Early::Stored(failure)) => {
                desk.conclude(&mut turn, &said, Ending::Failed(failure), now)
            }
            Err(Early::Unstored(failure)) => {
                desk.unstored(&turn, &said, Ending::Failed(failure), now)
            }
            Err(Early::Again(at)) => {
                let (result, success) = turn.stored(at)?;
                Ok(Answer { result, success })
            }
            Err(Early::Broken(error)) => Err(error),
        }
    }
}

impl Desk {
    /// Returns an error unless what the executor signs between these times is a valid result: nothing is done whose answer nobody
    /// could verify.
    fn may_sign(&self, trust: &Trust, from: u64, until: u64) -> Result<()> {
        let Some(why) = trust.why_not_signed(self.key.public(), from, until) else {
            return Ok(());
        };
        Err(Error::refused(
            format!(
                "{}: nobody could verify its results by {}: {why}",
                self.config.key.display(),
                self.config.trust.display()
            ),
            "Name the executor's new key as `key`, or add the entry that `trumanfs key new` prints.",
        ))
    }

    /// Settles the task that was begun and has no result.
    fn settle(&self, turn: &mut Turn<'_>) -> Result<()> {
        let Some(intent) = turn.index().open().cloned() else {
            return Ok(());
        };
        let said = Said {
            task_id: intent.task_id.clone(),
            capability_id: capability(&intent).to_owned(),
            manifest_sha256: intent.manifest_sha256.clone(),
            lease_id: intent.lease_id.clone(),
        };
        let ending = match settle(&self.bases, &intent) {
            Ok(Settled::Done(made, entry)) => {
                let undoes = intent.undoes.clone();
                Ending::Success(output(&said, &intent.deed, undoes, made, entry))
            }
            Ok(Settled::Mistaken(why)) => Ending::Failed(Code::ExecutionFailed.because(why)),
            Ok(Settled::Unclear) => {
                Ending::Failed(Code::ExecutionFailed.because(unclear("the executor was ended")))
            }
            Ok(Settled::Undone) => Ending::Failed(
                Code::ExecutionFailed
                    .because("the executor was ended before it was done; nothing of it is left"),
            ),
            Err(failure) => return Err(unsettled(&intent.task_id, &failure)),
        };
        let started_at = intent.started_at;
        self.conclude(turn, &said, ending, started_at).map(drop)
    }

    fn carry_out(
        &self,
        turn: &mut Turn<'_>,
        said: &Said,
        wish: Wish,
        lease: &Lease,
        started_at: u64,
    ) -> Result<Answer> {
        let (deed, undoes) = (wish.deed.clone(), wish.undoes.clone());
        let ending = match self.perform(turn, said, wish, lease, started_at) {
            Ok((made, entry)) => Ending::Success(output(said, &deed, undoes, made, entry)),
            Err(NotDone::Failed(failure)) => Ending::Failed(failure),
            Err(NotDone::Unsettled(failure)) => return Err(unsettled(&said.task_id, &failure)),
        };
        self.conclude(turn, said, ending, started_at)
    }

    /// Puts a task through the pipeline.
    fn perform(
        &self,
        turn: &mut Turn<'_>,
        said: &Said,
        wish: Wish,
        lease: &Lease,
        started_at: u64,
    ) -> Came {
        let first = match &wish.deed {
            Deed::Move { source, .. } | Deed::Copy { source, .. } | Deed::Delete { source } => {
                source
            }
            Deed::Restore { destination, .. } => destination,
        };
        let base = self.bases.locate(first);
        let base = base.and_then(|(number, _)| self.bases.base(number));
        let base = base.ok_or_else(|| Code::ExecutionFailed.because("outside the bases"))?;
        let request = Request {
            command: command_of(&wish.deed),
            limits: Limits {
                time: Some(Duration::from_millis(lease.quota.wall_ms)),
                memory: 0,
                ..Limits::default()
            },
            ..Request::default()
        };
        let mut task = Task {
            bases: &self.bases,
            base,
            turn,
            ids: Ids {
                task_id: said.task_id.clone(),
                lease_id: said.lease_id.clone(),
                manifest_sha256: said.manifest_sha256.clone(),
                undoes: wish.undoes,
            },
            deed: wish.deed,
            quota: lease.quota,
            expected: wish.expected,
            started_at,
            came: None,
        };
        let outcome = pipeline::execute_gathering(&mut task, &request, None);
        task.came.unwrap_or_else(|| {
            let why = outcome.error_message.unwrap_or_default();
            Err(Code::ExecutionFailed.because(why).into())
        })
    }

    /// Signs what came of a task, and stores it.
    fn conclude(
        &self,
        turn: &mut Turn<'_>,
        said: &Said,
        ending: Ending,
        started_at: u64,
    ) -> Result<Answer> {
        let success = matches!(ending, Ending::Success(_));
        let envelope = self.sign(turn, said, ending, started_at)?;
        let result = envelope.to_text();
        let was_begun = turn.index().open().is_some();
        let stored = turn.conclude(&Stored {
            task_id: Cow::Borrowed(&said.task_id),
            manifest_sha256: Cow::Borrowed(&said.manifest_sha256),
            lease_id: Some(Cow::Borrowed(&said.lease_id)),
            success,
            payload_sha256: Cow::Owned(strict::sha256(&envelope.payload)),
            result: Cow::Borrowed(&result),
        });
        match stored {
            Ok(()) => Ok(Answer { result, success }),
            // Nothing was begun, so nothing has to be stored.
            Err(error) if !was_begun && is_full(&error) => {
                let failure = full("the log cannot grow");
                self.unstored(turn, said, Ending::Failed(failure), started_at)
            }
            Err(error) => Err(error),
        }
    }

    /// Signs why a request was not even begun.
    fn unstored(
        &self,
        turn: &Turn<'_>,
        said: &Said,
        ending: Ending,
        started_at: u64,
    ) -> Result<Answer> {
        let envelope = self.sign(turn, said, ending, started_at)?;
        Ok(Answer {
            result: envelope.to_text(),
            success: false,
        })
    }

    fn sign(
        &self,
        turn: &Turn<'_>,
        said: &Said,
        ending: Ending,
        started_at: u64,
    ) -> Result<Envelope> {
        let result = TaskResult {
            task_id: said.task_id.clone(),
            capability_id: said.capability_id.clone(),
            ending,
            executor: self.config.audience.clone(),
            started_at,
            finished_at: self.clock.now(turn)?,
            manifest_sha256: said.manifest_sha256.clone(),
            lease_id: said.lease_id.clone(),
            prev: turn.index().head().to_owned(),
        };
        let signed = result.sign(&self.key);
        signed.map_err(|why| Error::Damaged(format!("a result cannot be signed: {why}")))
    }
}

fn capability(intent: &Intent) -> &'static str {
    match (&intent.deed, &intent.undoes) {
        (Deed::Move { .. }, _) => "FILE_MOVE",
        // The undo of a copy removes it, and has the capability of what it undoes.
        (Deed::Copy { .. }, _) | (Deed::Delete { .. }, Some(_)) => "FILE_COPY",
        (Deed::Delete { .. }, None) | (Deed::Restore { .. }, _) => "FILE_DELETE",
    }
}

/// Says that the state directory is full.
fn full(what: &str) -> Failure {
    Code::ResourceExhausted.because(format!(
        "{what}, since the disk of the state directory is full: nothing is begun"
    ))
}

/// Says what was done, and how it can be taken back.
fn output(
    said: &Said,
    deed: &Deed,
    undoes: Option<String>,
    made: Made,
    kept: Option<Kept>,
) -> Output {
    let (source, destination) = match deed {
        Deed::Move {
            source,
            destination,
        }
        | Deed::Copy {
            source,
            destination,
        } => (source, Some(destination.clone())),
        Deed::Delete { source } => (source, None),
        Deed::Restore { destination, .. } => (destination, None),
    };
    let is_move = matches!(deed, Deed::Move { .. });
    let recovery = kept.map(|kept| Recovery {
        kind: kept.keeper,
        // The name of a file whose path is UTF-8, cut between characters.
        entry: String::from_utf8_lossy(&kept.entry.0).into_owned(),
        sha256: made.sha256.clone(),
    });
    Output {
        task_id: said.task_id.clone(),
        capability_id: said.capability_id.clone(),
        result_summary: Summary {
            source: source.clone(),
            destination,
            sha256: made.sha256,
            size: made.stamp.size,
        },
        undo_metadata: UndoMetadata {
            original_path: is_move.then(|| source.clone()),
            recovery,
            undoes,
        },
    }
}

fn unsettled(task: &str, failure: &Failure) -> Error {
    Error::Partly {
        what: format!("task {task}: what came of it cannot be told: {}", failure.message),
        remedy: "Its intent is in the log. Mend what is in the way and start again: then it is settled and signed.".to_owned(),
    }
}
