//! A task as the pipeline runs it: its intent is written when its file has been found, and a worker does the rest.

use std::sync::Arc;

use super::base_directories::{BaseDirectories, BaseDirectory};
use super::failure::TaskFailure;
use super::failure_reason::FailureReason;
use super::ledger::LedgerGuard;
use super::ledger_line::{LeaseUseKey, TaskAction, TaskIntent};
use super::quota::TaskQuota;
use super::result::RecoveryKind;
use super::settlement::{RecoveryEntry, SettleOutcome, kept_entry, run_of, settle, unclear};
use super::worker::worker_order::{ExpectedFile, WorkerOutput, WorkerReport};
use super::worker_job::{JobFailure, WorkerJob, WorkerReply, of};
use crate::error::Error;
use crate::exec::cancel::CancelToken;
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::request::{Refusal, Request, Status};
use crate::name::WorldPath;
use crate::world::{OriginKind, RunId};

/// The names under which a task is remembered: the task without its deed.
#[derive(Debug, Clone)]
pub(super) struct TaskIds {
    pub(super) task_id: String,
    pub(super) lease_id: LeaseUseKey,
    pub(super) manifest_sha256: String,
    /// The task that it undoes.
    pub(super) undoes: Option<String>,
}

/// Why a task was not done.
#[derive(Debug)]
pub(super) enum TaskError {
    /// Nothing of it is left.
    Failed(TaskFailure),
    /// The task may have left something, and nothing tells what: its intent stays open.
    Unsettled(TaskFailure),
}

impl From<TaskFailure> for TaskError {
    fn from(failure: TaskFailure) -> TaskError {
        TaskError::Failed(failure)
    }
}

/// The end of a task: the file, and the place where it is kept if it was removed; or the error.
pub(super) type TaskCompletion = Result<(WorkerOutput, Option<RecoveryEntry>), TaskError>;

/// A task that the pipeline runs.
pub(super) struct TaskExecution<'t, 'l> {
    pub(super) bases: &'t BaseDirectories,
    /// The base that the run belongs to.
    pub(super) base: &'t BaseDirectory,
    pub(super) turn: &'t mut LedgerGuard<'l>,
    pub(super) ids: TaskIds,
    pub(super) deed: TaskAction,
    pub(super) quota: TaskQuota,
    pub(super) expected: ExpectedFile,
    pub(super) started_at: u64,
}

impl TaskExecution<'_, '_> {
    /// Carries it out. Returns the file, and where it is kept if it was removed.
    fn perform(&mut self, run: RunId, cancel: Option<&CancelToken>) -> TaskCompletion {
        let errand = WorkerJob::new(self.bases, &self.deed, run_of(run, &self.deed))?
            .within(self.quota)
            .expecting(self.expected.clone());
        let mut intent: Option<TaskIntent> = None;
        let (turn, ids) = (&mut *self.turn, &self.ids);
        let (deed, started_at) = (&self.deed, self.started_at);
        let sent = errand.send(cancel, &mut |report| match (report, &intent) {
            (WorkerReport::Found(found), None) => {
                let begun = TaskIntent {
                    task_id: ids.task_id.clone(),
                    lease_id: ids.lease_id.clone(),
                    manifest_sha256: ids.manifest_sha256.clone(),
                    run,
                    started_at,
                    deed: deed.clone(),
                    found: found.clone(),
                    made: None,
                    undoes: ids.undoes.clone(),
                };
                turn.intend(&begun).map_err(|error| of(&error))?;
                intent = Some(begun);
                Ok(())
            }
            (WorkerReport::Made(made), Some(begun)) => {
                turn.note_made(begun, made).map_err(|error| of(&error))?;
                let made = Some(made.clone());
                intent = intent.take().map(|begun| TaskIntent { made, ..begun });
                Ok(())
            }
            _ => Err(FailureReason::Worker.because("the worker speaks out of turn")),
        });
        match (sent, intent) {
            (Ok(WorkerReply::Done(made)), Some(intent)) => self.end(made, &intent),
            (Ok(_), _) => Err(FailureReason::Worker
                .because("the worker did nothing")
                .into()),
            (Err(sent), None) => Err(sent.failure.into()),
            (Err(sent), Some(intent)) => self.settle(&intent, sent),
        }
    }

    /// Brings what a worker left to its end. `failure`: what it says if nothing was done.
    fn settle(&self, intent: &TaskIntent, sent: JobFailure) -> TaskCompletion {
        let failure = sent.failure;
        match settle(self.bases, intent).map_err(TaskError::Unsettled)? {
            SettleOutcome::Done(made, entry) => Ok((made, entry)),
            SettleOutcome::Mistaken(why) => Err(FailureReason::Unclear.because(why).into()),
            SettleOutcome::Undone => Err(failure.into()),
            // The disk does not show what the worker knows.
            SettleOutcome::Unclear if sent.has_not_acted => Err(failure.into()),
            SettleOutcome::Unclear => {
                let why = unclear(&failure.message);
                Err(failure.into_unclear(why).into())
            }
        }
    }

    /// Finds out where a removed file is kept.
    fn end(&self, made: WorkerOutput, intent: &TaskIntent) -> TaskCompletion {
        let TaskAction::Delete { .. } = &self.deed else {
            return Ok((made, None));
        };
        let entry = kept_entry(self.base, intent.run).map_err(TaskError::Unsettled)?;
        let is_it = |kept: &RecoveryEntry| {
            kept.keeper == RecoveryKind::Vault
                || self.base.trash_has(&kept.entry.0, made.stamp.inode)
        };
        match entry {
            Some(kept) if is_it(&kept) => Ok((made, Some(kept))),
            // Another file had the name at that moment: what is settled puts it back.
            _ => {
                let other = "another file took its place at this moment";
                self.settle(intent, FailureReason::Changed.because(other).into())
            }
        }
    }
}

impl Executor for TaskExecution<'_, '_> {
    type Plan = ();
    type Output = TaskCompletion;
    const KIND: OriginKind = OriginKind::Task;

    fn context(&self) -> &HomeContext {
        self.base.place()
    }

    fn cwd(&self) -> Vec<u8> {
        self.context().root().to_vec()
    }

    fn directory(&self) -> &WorldPath {
        static ROOT: std::sync::OnceLock<WorldPath> = std::sync::OnceLock::new();
        ROOT.get_or_init(WorldPath::root)
    }

    fn plan(&self, _: &Request) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_change(&self, (): &()) -> bool {
        true
    }

    fn noun(&self, (): &()) -> &'static str {
        "lines"
    }

    fn unavailable(&self, error: &Error) -> Refusal {
        Refusal {
            message: format!("the home cannot be changed: {error}").into_bytes(),
            return_code: 1,
        }
    }

    fn interrupted(&self, cancel: &CancelToken) -> RequestEnd {
        RequestEnd::cancelled(cancel, "the task was ended")
    }

    fn store_return_code(&mut self, _: u8) {}

    fn carry_out(
        &mut self,
        admitted: AdmittedRequest<()>,
        _: Arc<dyn Home>,
        _: RequestStreams,
    ) -> (RequestEnd, TaskCompletion) {
        let completion = self.perform(admitted.run(), admitted.cancel());
        let end = match &completion {
            Ok(_) => RequestEnd::finished(0),
            Err(TaskError::Failed(failure) | TaskError::Unsettled(failure)) => {
                RequestEnd::ended_early(Status::Failed, 1, failure.to_string())
            }
        };
        (end, completion)
    }
}
