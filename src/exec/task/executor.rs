//! An executor of tasks: from a manifest and a lease to a signed result.
//!
//! Owns what is signed and stored. A result of a lease that holds is stored, only success is final; a result that was
//! stored is answered again byte for byte.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use super::base_directories::BaseDirectories;
use super::clock::{self, ExecutorClock};
use super::config::ExecutorConfig;
use super::envelope::Envelope;
use super::execution::{TaskCompletion, TaskError, TaskExecution, TaskIds};
use super::failure::{TaskFailure, is_full};
use super::failure_reason::FailureReason;
use super::key::PrivateKey;
use super::lease::Lease;
use super::ledger::{Ledger, LedgerGuard, WaitNotice};
use super::ledger_line::{StoredResult, TaskAction, TaskIntent};
use super::request_check::{EarlyFailure, RequestBytes, RequestIds, TaskChecker, TaskSpec};
use super::result::{
    RecoveryMetadata, ResultSummary, TaskOutcome, TaskOutput, TaskResult, UndoMetadata,
};
use super::settlement::{RecoveryEntry, SettleOutcome, command_of, settle, unclear};
use super::strict;
use super::trust::TrustedKeys;
use super::worker::worker_order::WorkerOutput;
use crate::error::{Error, Result};
use crate::exec::pipeline;
use crate::exec::request::{Limits, Request};

/// A result, as it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAnswer {
    /// The envelope, one line without its end.
    pub result: String,
    /// True if the task was done, now or earlier.
    pub success: bool,
}

/// An executor of tasks.
pub struct TaskExecutor {
    desk: ExecutorContext,
    ledger: Ledger,
}

/// The parts of an executor, except its ledger.
struct ExecutorContext {
    config: ExecutorConfig,
    key: PrivateKey,
    clock: ExecutorClock,
    bases: BaseDirectories,
}

impl TaskExecutor {
    /// Opens an executor by its configuration, and settles what an earlier one left.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Refused`] for what is wrong with the configuration, a base or the ledger;
    /// [`Error::Partly`] where what was left cannot be settled.
    pub fn open(config: &Path) -> Result<TaskExecutor> {
        TaskExecutor::open_with(config, None)
    }

    /// Opens an executor that waits as long as another one works on its log, and says so.
    ///
    /// # Errors
    /// As [`TaskExecutor::open`], and those of the receiver.
    pub fn open_waiting(config: &Path, notice: WaitNotice) -> Result<TaskExecutor> {
        TaskExecutor::open_with(config, Some(notice))
    }

    fn open_with(config: &Path, notice: Option<WaitNotice>) -> Result<TaskExecutor> {
        super::failpoint::check()?;
        let config = ExecutorConfig::load(config)?;
        let key = PrivateKey::load(&config.key)?;
        let mut ledger = Ledger::open(&config.state_dir, &config.vault_dir)?;
        if let Some(notice) = notice {
            ledger.wait_with(notice);
        }
        let desk = ExecutorContext {
            key,
            clock: ExecutorClock::open(&config.state_dir)?,
            bases: BaseDirectories::open(&config.bases, &config.vault_dir, ledger.lock()?)?,
            config,
        };
        let mut tasks = TaskExecutor { desk, ledger };
        let (desk, mut turn) = (&tasks.desk, tasks.ledger.turn()?);
        let now = desk.clock.now(&turn)?;
        desk.may_sign(&TrustedKeys::load(&desk.config.trust)?, now, now)?;
        let has_open = turn.index().open().is_some();
        desk.bases.are_as_before(&desk.config.state_dir, has_open)?;
        desk.settle(&mut turn)?;
        drop(turn);
        Ok(tasks)
    }

    /// Starts the worker of the next task, for a caller that waits for one.
    pub fn prepare(&self) {
        self.desk.bases.ready_worker().prepare();
    }

    /// Does what a manifest says, or refuses.
    ///
    /// # Errors
    /// Where the executor itself cannot work: its ledger, its trusted keys or its revocations cannot be had, or what a task
    /// left cannot be settled. What is wrong with the request is in the signed answer.
    pub fn run(&mut self, manifest: &[u8], lease: &[u8]) -> Result<TaskAnswer> {
        self.answer(&RequestBytes::Manifest(manifest), lease)
    }

    /// Takes back what a task did, by its result.
    ///
    /// # Errors
    /// As [`TaskExecutor::run`].
    pub fn undo(&mut self, result: &[u8], lease: &[u8]) -> Result<TaskAnswer> {
        self.answer(&RequestBytes::Undo(result), lease)
    }

    /// Signs that a request cannot be read at all.
    ///
    /// # Errors
    /// As [`TaskExecutor::run`].
    pub fn refuse(&mut self, why: &str) -> Result<TaskAnswer> {
        let ending = TaskOutcome::Failed(FailureReason::Malformed.because(why));
        let turn = self.ledger.turn()?;
        let now = self.desk.clock.now(&turn)?;
        let trust = TrustedKeys::load(&self.desk.config.trust)?;
        self.desk.may_sign(&trust, now, now)?;
        self.desk
            .unstored(&turn, &RequestIds::default(), ending, now)
    }

    fn answer(&mut self, asked: &RequestBytes<'_>, lease: &[u8]) -> Result<TaskAnswer> {
        let desk = &self.desk;
        desk.bases.are_there()?;
        let mut turn = self.ledger.turn()?;
        let now = desk.clock.now(&turn)?;
        let trust = TrustedKeys::load(&desk.config.trust)?;
        desk.may_sign(&trust, now, now)?;
        desk.settle(&mut turn)?;
        let checker = TaskChecker {
            config: &desk.config,
            key: &desk.key,
            trust: &trust,
            now,
            ahead_s: now.saturating_sub(clock::now()),
        };
        let mut said = RequestIds::default();
        match checker.check(asked, lease, &mut said, &turn) {
            Ok(_) if !desk.clock.is_kept() => {
                let failure = full("the latest time cannot be noted");
                desk.unstored(&turn, &said, TaskOutcome::Failed(failure), now)
            }
            Ok((lease, wish)) => {
                let end = now.saturating_add(lease.quota.wall_ms.div_ceil(1000));
                desk.may_sign(&trust, now, end)?;
                desk.carry_out(&mut turn, &said, wish, &lease, now)
            }
            Err(EarlyFailure::Stored(failure)) => {
                desk.conclude(&mut turn, &said, TaskOutcome::Failed(failure), now)
            }
            Err(EarlyFailure::Unstored(failure)) => {
                desk.unstored(&turn, &said, TaskOutcome::Failed(failure), now)
            }
            Err(EarlyFailure::Again(at)) => {
                let (result, success) = turn.stored(at)?;
                Ok(TaskAnswer { result, success })
            }
            Err(EarlyFailure::Broken(error)) => Err(error),
        }
    }
}

impl ExecutorContext {
    /// Returns an error unless what the executor signs between these times is a valid result: nothing is done whose answer nobody
    /// could verify.
    fn may_sign(&self, trust: &TrustedKeys, from: u64, until: u64) -> Result<()> {
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
    fn settle(&self, turn: &mut LedgerGuard<'_>) -> Result<()> {
        let Some(intent) = turn.index().open().cloned() else {
            return Ok(());
        };
        let said = RequestIds {
            task_id: intent.task_id.clone(),
            capability_id: capability(&intent).to_owned(),
            manifest_sha256: intent.manifest_sha256.clone(),
            lease_id: intent.lease_id.lease_id().to_owned(),
            use_key: intent.lease_id.clone(),
        };
        let ending = match settle(&self.bases, &intent) {
            Ok(SettleOutcome::Done(made, entry)) => {
                let undoes = intent.undoes.clone();
                TaskOutcome::Success(output(&said, &intent.deed, undoes, made, entry))
            }
            Ok(SettleOutcome::Mistaken(why)) => {
                TaskOutcome::Failed(FailureReason::Unclear.because(why))
            }
            Ok(SettleOutcome::Unclear) => TaskOutcome::Failed(
                FailureReason::Unclear.because(unclear("the executor was ended")),
            ),
            Ok(SettleOutcome::Undone) => TaskOutcome::Failed(
                FailureReason::Interrupted
                    .because("the executor was ended before it was done; nothing of it is left"),
            ),
            Err(failure) => return Err(unsettled(&intent.task_id, &failure)),
        };
        let started_at = intent.started_at;
        self.conclude(turn, &said, ending, started_at).map(drop)
    }

    fn carry_out(
        &self,
        turn: &mut LedgerGuard<'_>,
        said: &RequestIds,
        wish: TaskSpec,
        lease: &Lease,
        started_at: u64,
    ) -> Result<TaskAnswer> {
        let (deed, undoes) = (wish.deed.clone(), wish.undoes.clone());
        let ending = match self.perform(turn, said, wish, lease, started_at) {
            Ok((made, entry)) => TaskOutcome::Success(output(said, &deed, undoes, made, entry)),
            Err(TaskError::Failed(failure)) => TaskOutcome::Failed(failure),
            Err(TaskError::Unsettled(failure)) => return Err(unsettled(&said.task_id, &failure)),
        };
        self.conclude(turn, said, ending, started_at)
    }

    /// Puts a task through the pipeline.
    fn perform(
        &self,
        turn: &mut LedgerGuard<'_>,
        said: &RequestIds,
        wish: TaskSpec,
        lease: &Lease,
        started_at: u64,
    ) -> TaskCompletion {
        let first = match &wish.deed {
            TaskAction::Move { source, .. }
            | TaskAction::Copy { source, .. }
            | TaskAction::Delete { source } => source,
            TaskAction::Restore { destination, .. } => destination,
        };
        let base = self.bases.locate(first);
        let base = base.and_then(|(number, _)| self.bases.base(number));
        let base = base.ok_or_else(|| FailureReason::Outside.because("outside the bases"))?;
        let request = Request {
            command: command_of(&wish.deed),
            limits: Limits {
                time: Some(Duration::from_millis(lease.quota.wall_ms)),
                memory: 0,
                ..Limits::default()
            },
            ..Request::default()
        };
        let mut task = TaskExecution {
            bases: &self.bases,
            base,
            turn,
            ids: TaskIds {
                task_id: said.task_id.clone(),
                lease_id: said.use_key.clone(),
                manifest_sha256: said.manifest_sha256.clone(),
                undoes: wish.undoes,
            },
            deed: wish.deed,
            quota: lease.quota,
            expected: wish.expected,
            started_at,
        };
        let (outcome, completion) = pipeline::execute_gathering(&mut task, &request, None);
        completion.unwrap_or_else(|| {
            let why = outcome.error_message.unwrap_or_default();
            Err(FailureReason::Unavailable.because(why).into())
        })
    }

    /// Signs what came of a task, and stores it.
    fn conclude(
        &self,
        turn: &mut LedgerGuard<'_>,
        said: &RequestIds,
        ending: TaskOutcome,
        started_at: u64,
    ) -> Result<TaskAnswer> {
        let success = matches!(ending, TaskOutcome::Success(_));
        let envelope = self.sign(turn, said, ending, started_at)?;
        let result = envelope.to_text();
        let was_begun = turn.index().open().is_some();
        let stored = turn.conclude(&StoredResult {
            task_id: Cow::Borrowed(&said.task_id),
            manifest_sha256: Cow::Borrowed(&said.manifest_sha256),
            lease_id: Some(Cow::Borrowed(said.use_key.as_str())),
            success,
            payload_sha256: Cow::Owned(strict::sha256(&envelope.payload)),
            result: Cow::Borrowed(&result),
        });
        match stored {
            Ok(()) => Ok(TaskAnswer { result, success }),
            // Nothing was begun, so nothing has to be stored.
            Err(error) if !was_begun && is_full(&error) => {
                let failure = full("the log cannot grow");
                self.unstored(turn, said, TaskOutcome::Failed(failure), started_at)
            }
            Err(error) => Err(error),
        }
    }

    /// Signs why a request was not even begun.
    fn unstored(
        &self,
        turn: &LedgerGuard<'_>,
        said: &RequestIds,
        ending: TaskOutcome,
        started_at: u64,
    ) -> Result<TaskAnswer> {
        let envelope = self.sign(turn, said, ending, started_at)?;
        Ok(TaskAnswer {
            result: envelope.to_text(),
            success: false,
        })
    }

    fn sign(
        &self,
        turn: &LedgerGuard<'_>,
        said: &RequestIds,
        ending: TaskOutcome,
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

fn capability(intent: &TaskIntent) -> &'static str {
    match (&intent.deed, &intent.undoes) {
        (TaskAction::Move { .. }, _) => "FILE_MOVE",
        // The undo of a copy removes it, and has the capability of what it undoes.
        (TaskAction::Copy { .. }, _) | (TaskAction::Delete { .. }, Some(_)) => "FILE_COPY",
        (TaskAction::Delete { .. }, None) | (TaskAction::Restore { .. }, _) => "FILE_DELETE",
    }
}

/// Says that the state directory is full.
fn full(what: &str) -> TaskFailure {
    FailureReason::FullDisk.because(format!(
        "{what}, since the disk of the state directory is full: nothing is begun"
    ))
}

/// Says what was done, and how it can be taken back.
fn output(
    said: &RequestIds,
    deed: &TaskAction,
    undoes: Option<String>,
    made: WorkerOutput,
    kept: Option<RecoveryEntry>,
) -> TaskOutput {
    let (source, destination) = match deed {
        TaskAction::Move {
            source,
            destination,
        }
        | TaskAction::Copy {
            source,
            destination,
        } => (source, Some(destination.clone())),
        TaskAction::Delete { source } => (source, None),
        TaskAction::Restore { destination, .. } => (destination, None),
    };
    let is_move = matches!(deed, TaskAction::Move { .. });
    let recovery = kept.map(|kept| RecoveryMetadata {
        kind: kept.keeper,
        // The name of a file whose path is UTF-8, cut between characters.
        entry: String::from_utf8_lossy(&kept.entry.0).into_owned(),
        sha256: made.sha256.clone(),
    });
    TaskOutput {
        task_id: said.task_id.clone(),
        capability_id: said.capability_id.clone(),
        result_summary: ResultSummary {
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

fn unsettled(task: &str, failure: &TaskFailure) -> Error {
    Error::Partly {
        what: format!("task {task}: what came of it cannot be told: {}", failure.message),
        remedy: "Its intent is in the log. Mend what is in the way and start again: then it is settled and signed.".to_owned(),
    }
}
