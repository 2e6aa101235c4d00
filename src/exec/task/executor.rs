//! A task as the pipeline runs it: its intent is written when its file has been found, and a worker does the rest.

use std::sync::Arc;

use super::bases::{Base, Bases};
use super::errand::{self, Errand, SendFailure, of};
use super::failure::{Code, Failure};
use super::ledger::Turn;
use super::line::{Deed, Intent};
use super::quota::Quota;
use super::result::Keeper;
use super::settle::{Kept, Settled, kept_entry, run_of, settle, unclear};
use super::worker::order::{Expected, Made, Report};
use crate::error::Error;
use crate::exec::cancel::CancelToken;
use crate::exec::home::Home;
use crate::exec::home_context::HomeContext;
use crate::exec::pipeline::{AdmittedRequest, Executor, RequestEnd, RequestStreams};
use crate::exec::request::{Refusal, Request, Status};
use crate::name::WorldPath;
use crate::world::{OriginKind, RunId};

/// What a task is, apart from its deed: the names under which it is remembered.
#[derive(Debug, Clone)]
pub(super) struct Ids {
    pub(super) task_id: String,
    pub(super) lease_id: String,
    pub(super) manifest_sha256: String,
    /// The task that it undoes.
    pub(super) undoes: Option<String>,
}

/// Why a task was not done.
#[derive(Debug)]
pub(super) enum NotDone {
    /// Nothing of it is left.
    Failed(Failure),
    /// What it left cannot be told: its intent stays open.
    Unsettled(Failure),
}

impl From<Failure> for NotDone {
    fn from(failure: Failure) -> NotDone {
        NotDone::Failed(failure)
    }
}

/// What came of a task: the file, and where it is kept if it was removed.
pub(super) type Came = Result<(Made, Option<Kept>), NotDone>;

/// One task.
pub(super) struct Task<'t, 'l> {
    pub(super) bases: &'t Bases,
    /// The base that the run belongs to.
    pub(super) base: &'t Base,
    pub(super) turn: &'t mut Turn<'l>,
    pub(super) ids: Ids,
    pub(super) deed: Deed,
    pub(super) quota: Quota,
    pub(super) expected: Expected,
    pub(super) started_at: u64,
    /// What came of it; nothing before it was carried out.
    pub(super) came: Option<Came>,
}

impl Task<'_, '_> {
    /// Carries it out. Returns the file, and where it is kept if it was removed.
    fn perform(&mut self, run: RunId, cancel: Option<&CancelToken>) -> Came {
        let errand = Errand::new(self.bases, &self.deed, run_of(run, &self.deed))?
            .within(self.quota)
            .expecting(self.expected.clone());
        let mut intent: Option<Intent> = None;
        let (turn, ids) = (&mut *self.turn, &self.ids);
        let (deed, started_at) = (&self.deed, self.started_at);
        let sent = errand.send(cancel, &mut |report| match (report, &intent) {
            (Report::Found(found), None) => {
                let begun = Intent {
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
            (Report::Made(made), Some(begun)) => {
                turn.note_made(begun, made).map_err(|error| of(&error))?;
                let made = Some(made.clone());
                intent = intent.take().map(|begun| Intent { made, ..begun });
                Ok(())
            }
            _ => Err(Code::ExecutionFailed.because("the worker speaks out of turn")),
        });
        match (sent, intent) {
            (Ok(errand::Came::Done(made)), Some(intent)) => self.end(made, &intent),
            (Ok(_), _) => Err(Code::ExecutionFailed
                .because("the worker did nothing")
                .into()),
            (Err(sent), None) => Err(sent.failure.into()),
            (Err(sent), Some(intent)) => self.settle(&intent, sent),
        }
    }

    /// Brings what a worker left to its end. `failure`: what it says if nothing was done.
    fn settle(&self, intent: &Intent, sent: SendFailure) -> Came {
        let failure = sent.failure;
        match settle(self.bases, intent).map_err(NotDone::Unsettled)? {
            Settled::Done(made, entry) => Ok((made, entry)),
            Settled::Mistaken(why) => Err(Code::ExecutionFailed.because(why).into()),
            Settled::Undone => Err(failure.into()),
            // The disk does not show what the worker knows.
            Settled::Unclear if sent.has_not_acted => Err(failure.into()),
            Settled::Unclear => Err(failure.code.because(unclear(&failure.message)).into()),
        }
    }

    /// Finds out where a removed file is kept.
    fn end(&self, made: Made, intent: &Intent) -> Came {
        let Deed::Delete { .. } = &self.deed else {
            return Ok((made, None));
        };
        let entry = kept_entry(self.base, intent.run).map_err(NotDone::Unsettled)?;
        let is_it = |kept: &Kept| {
            kept.keeper == Keeper::Vault || self.base.trash_has(&kept.entry.0, made.stamp.inode)
        };
        match entry {
            Some(kept) if is_it(&kept) => Ok((made, Some(kept))),
            // Another file had the name at that moment: what is settled puts it back.
            _ => {
                let other = "another file took its place at this moment";
                self.settle(intent, Code::ExecutionFailed.because(other).into())
            }
        }
    }
}

impl Executor for Task<'_, '_> {
    type Plan = ();
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
    ) -> RequestEnd {
        let came = self.perform(admitted.run(), admitted.cancel());
        let done = match &came {
            Ok(_) => RequestEnd::finished(0),
            Err(NotDone::Failed(failure) | NotDone::Unsettled(failure)) => {
                RequestEnd::ended_early(Status::Failed, 1, failure.to_string())
            }
        };
        self.came = Some(came);
        done
    }
}
