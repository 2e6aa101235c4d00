//! The order of checks, from bytes to a deed.
//!
//! Owns it. What is wrong with a lease is said before anything is looked at that it would give access to, so a lease that
//! fails tells nothing of what is there; and its failures are never stored, so that a forged task id cannot poison the
//! real one.

use super::absolute_path::AbsolutePath;
use super::batch_lease::{BatchLease, LeaseGrant};
use super::config::ExecutorConfig;
use super::failure::{FailureCode, TaskFailure, is_full};
use super::failure_reason::FailureReason;
use super::key::PrivateKey;
use super::lease::Lease;
use super::ledger::LedgerGuard;
use super::ledger_line::{LeaseUseKey, TaskAction};
use super::manifest::{Capability, Manifest, TaskInputs};
use super::result::{TaskOutcome, TaskOutput, TaskResult};
use super::revocations::RevocationList;
use super::strict::{self, FormatError};
use super::trust::TrustedKeys;
use super::worker::worker_order::ExpectedFile;
use super::worker_job::of;
use crate::error::Error;
use crate::name::EscapedBytes;

/// The deed that a task is to do, once its lease holds.
pub(super) struct TaskSpec {
    pub(super) deed: TaskAction,
    /// The task that it undoes.
    pub(super) undoes: Option<String>,
    /// The conditions that the file must meet.
    pub(super) expected: ExpectedFile,
}

/// The ids that a request names, for its result, as far as they could be read.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestIds {
    pub(super) task_id: String,
    pub(super) capability_id: String,
    pub(super) manifest_sha256: String,
    pub(super) lease_id: String,
    /// The key by which uses of the lease are counted.
    pub(super) use_key: LeaseUseKey,
}

/// The bytes of a request.
pub(super) enum RequestBytes<'a> {
    /// The exact bytes of a manifest.
    Manifest(&'a [u8]),
    /// That a task is undone, by its result.
    Undo(&'a [u8]),
}

/// The end of a request before anything was begun.
pub(super) enum EarlyFailure {
    /// A failure of the lease, or a request that cannot be read: signed, never stored.
    Unstored(TaskFailure),
    /// A failure of a task whose lease holds.
    Stored(TaskFailure),
    /// The task was done or tried earlier: the line of the result of that time, by its byte offset and its length in
    /// bytes.
    Again((u64, u64)),
    /// The executor itself cannot work.
    Broken(Error),
}

/// A request, read.
enum TaskRequest {
    Manifest(Manifest),
    Undo(Box<TaskOutput>),
}

/// The context of the checks of a request.
pub(super) struct TaskChecker<'c> {
    pub(super) config: &'c ExecutorConfig,
    pub(super) key: &'c PrivateKey,
    pub(super) trust: &'c TrustedKeys,
    pub(super) now: u64,
    /// By how much that is ahead of the system's clock, in seconds.
    pub(super) ahead_s: u64,
}

impl TaskChecker<'_> {
    /// Checks a request. `said` gets what could be read of it.
    ///
    /// # Errors
    /// A failure that ends the request here.
    pub(super) fn check(
        &self,
        asked: &RequestBytes<'_>,
        lease: &[u8],
        said: &mut RequestIds,
        turn: &LedgerGuard<'_>,
    ) -> Result<(Lease, TaskSpec), EarlyFailure> {
        let request = self.read(asked, said);
        let lease = self.lease(lease, &request, said)?;
        let request = match request {
            Ok(request) => request,
            Err(failure) => return Err(EarlyFailure::Unstored(failure)),
        };
        self.digest(&request, &lease, said, turn)?;
        self.validity(&lease, &said.use_key, turn)?;
        let capability = match &request {
            TaskRequest::Manifest(manifest) => lease.check_capability(&manifest.capability_id),
            TaskRequest::Undo(_) => lease.check_capability(&said.capability_id),
        };
        let capability = capability.map_err(|failure| match failure.code {
            FailureCode::InvalidLease => EarlyFailure::Unstored(failure),
            _ => EarlyFailure::Stored(failure),
        })?;
        let wish = match &request {
            TaskRequest::Manifest(manifest) => from_manifest(manifest, capability),
            TaskRequest::Undo(output) => from_output(output, capability, turn),
        };
        let wish = wish.map_err(EarlyFailure::Stored)?;
        for path in paths(&wish.deed) {
            let checked = lease.check_path(path, &self.config.bases);
            checked.map_err(EarlyFailure::Stored)?;
        }
        Ok((lease, wish))
    }

    /// Reads a request; whether it may be carried out is another question.
    fn read(
        &self,
        asked: &RequestBytes<'_>,
        said: &mut RequestIds,
    ) -> Result<TaskRequest, TaskFailure> {
        let malformed =
            |why: FormatError| FailureReason::Malformed.because(format!("the request: {why}"));
        let not = |why: &str| FailureReason::NotUndoable.because(format!("the request: {why}"));
        match asked {
            RequestBytes::Manifest(text) => {
                (said.task_id, said.capability_id) = Manifest::ids(text);
                let manifest = Manifest::parse(text).map_err(malformed)?;
                said.manifest_sha256 = strict::sha256(text);
                Ok(TaskRequest::Manifest(manifest))
            }
            RequestBytes::Undo(text) => {
                let own = TaskResult::verify(text, [self.key.public()]);
                let (result, _) = own
                    .or_else(|_| TaskResult::verify_by_trust(text, self.trust))
                    .map_err(malformed)?;
                said.manifest_sha256 = strict::sha256(text);
                said.capability_id.clone_from(&result.capability_id);
                if result.executor != self.config.audience {
                    return Err(not("the result is another executor's"));
                }
                match result.ending {
                    TaskOutcome::Success(output) => Ok(TaskRequest::Undo(Box::new(output))),
                    TaskOutcome::Failed(_) => {
                        Err(not("the task failed, so there is nothing to undo"))
                    }
                }
            }
        }
    }

    /// Reads a lease and checks who has signed it. A malformed lease comes before a malformed manifest, and that before a
    /// signature that does not fit.
    fn lease(
        &self,
        text: &[u8],
        request: &Result<TaskRequest, TaskFailure>,
        said: &mut RequestIds,
    ) -> Result<Lease, EarlyFailure> {
        let envelope = super::envelope::Envelope::parse(text);
        if let Err(why) = &envelope {
            let why = format!("the lease is malformed: {why}");
            return Err(EarlyFailure::Unstored(
                FailureReason::LeaseMalformed.because(why),
            ));
        }
        if let Err(failure) = request {
            return Err(EarlyFailure::Unstored(failure.clone()));
        }
        let grant = LeaseGrant::verify(text, self.trust.kernel_keys(self.now))
            .map_err(EarlyFailure::Unstored)?;
        match grant {
            LeaseGrant::Single(lease) => {
                said.lease_id.clone_from(&lease.lease_id);
                said.use_key = LeaseUseKey::of_lease(&lease.lease_id);
                Ok(lease)
            }
            LeaseGrant::Batch(lease) => {
                said.lease_id.clone_from(&lease.lease_id);
                self.narrow(&lease, request, said)
                    .map_err(EarlyFailure::Unstored)
            }
        }
    }

    /// Returns the lease of one manifest out of a list.
    fn narrow(
        &self,
        lease: &BatchLease,
        request: &Result<TaskRequest, TaskFailure>,
        said: &mut RequestIds,
    ) -> Result<Lease, TaskFailure> {
        let Ok(TaskRequest::Manifest(manifest)) = request else {
            return Err(FailureReason::LeaseMismatch
                .because("a lease for a list of manifests undoes nothing"));
        };
        let sha256 = &said.manifest_sha256;
        let single = lease.for_manifest(&manifest.task_id, sha256);
        said.use_key = LeaseUseKey::of_manifest(&lease.lease_id, sha256);
        single
    }

    /// Checks whom and what the lease is for, and whether that was done already.
    fn digest(
        &self,
        request: &TaskRequest,
        lease: &Lease,
        said: &mut RequestIds,
        turn: &LedgerGuard<'_>,
    ) -> Result<(), EarlyFailure> {
        lease
            .check_audience(&self.config.audience)
            .map_err(EarlyFailure::Unstored)?;
        match request {
            TaskRequest::Manifest(manifest) => lease
                .check_task(&manifest.task_id)
                .map_err(EarlyFailure::Unstored)?,
            // The id of an undo stands in its lease alone.
            TaskRequest::Undo(_) => said.task_id.clone_from(&lease.task_id),
        }
        lease
            .check_digest(&said.manifest_sha256)
            .map_err(EarlyFailure::Unstored)?;
        match turn.index().task(&said.task_id) {
            Some(known) if *known.manifest_sha256 != *said.manifest_sha256 => {
                let why = "the task id belongs to another manifest";
                Err(EarlyFailure::Unstored(
                    FailureReason::TaskIdTaken.because(why),
                ))
            }
            Some(known) => known
                .result
                .map_or(Ok(()), |at| Err(EarlyFailure::Again(at))),
            None => Ok(()),
        }
    }

    /// Checks whether the lease is valid now.
    fn validity(
        &self,
        lease: &Lease,
        use_key: &LeaseUseKey,
        turn: &LedgerGuard<'_>,
    ) -> Result<(), EarlyFailure> {
        let (skew, most) = (self.config.skew_s, self.config.max_lease_s);
        lease
            .check_time(self.now, skew, most)
            .map_err(|failure| EarlyFailure::Unstored(self.explain(failure)))?;
        let list = self.config.revocations.as_deref();
        let state = &self.config.state_dir;
        let revoked = RevocationList::load(list, self.trust, self.now, skew, state);
        let revoked = revoked.map_err(|error| match is_full(&error) {
            true => EarlyFailure::Unstored(of(&error)),
            false => EarlyFailure::Broken(error),
        })?;
        lease
            .check_revocation(&revoked)
            .map_err(EarlyFailure::Unstored)?;
        let used = turn.index().lease(use_key);
        lease
            .check_uses(used.tries)
            .map_err(|failure| match used.last {
                Some(at) => EarlyFailure::Again(at),
                None => EarlyFailure::Unstored(failure),
            })
    }

    /// Says of a lease whose time is wrong that the executor's own may be.
    fn explain(&self, failure: TaskFailure) -> TaskFailure {
        match self.ahead_s > self.config.skew_s {
            false => failure,
            true => {
                let why = format!(
                    "{}; the executor has seen a time {} s later than its clock says now (`trumanfs task clock`)",
                    failure.message, self.ahead_s
                );
                failure.in_words(why)
            }
        }
    }
}

fn from_manifest(manifest: &Manifest, capability: Capability) -> Result<TaskSpec, TaskFailure> {
    let malformed = |why: FormatError| FailureReason::Malformed.because(why.to_string());
    let inputs = TaskInputs::read(capability, &manifest.inputs).map_err(malformed)?;
    let deed = match (capability, inputs) {
        (Capability::FileDelete, _) if manifest.constraints.reversible != Some(true) => {
            let why = "FILE_DELETE takes constraints.reversible to be true";
            return Err(FailureReason::Irreversible.because(why));
        }
        (Capability::FileDelete, TaskInputs::One { source }) => TaskAction::Delete { source },
        (
            Capability::FileMove,
            TaskInputs::Two {
                source,
                destination,
            },
        ) => TaskAction::Move {
            source,
            destination,
        },
        (
            Capability::FileCopy,
            TaskInputs::Two {
                source,
                destination,
            },
        ) => TaskAction::Copy {
            source,
            destination,
        },
        _ => return Err(FailureReason::Malformed.because("inputs of another capability")),
    };
    Ok(TaskSpec {
        deed,
        undoes: None,
        expected: ExpectedFile::default(),
    })
}

/// Returns the exact inverse of what was done.
fn from_output(
    output: &TaskOutput,
    capability: Capability,
    turn: &LedgerGuard<'_>,
) -> Result<TaskSpec, TaskFailure> {
    let not = |why: &str| FailureReason::NotUndoable.because(why);
    let (summary, metadata) = (&output.result_summary, &output.undo_metadata);
    if metadata.undoes.is_some() {
        return Err(not(
            "an undo is not undone: give the task again, with an id of its own",
        ));
    }
    let deed = match (capability, &summary.destination, &metadata.recovery) {
        (Capability::FileMove, Some(destination), None) => TaskAction::Move {
            source: destination.clone(),
            destination: summary.source.clone(),
        },
        (Capability::FileCopy, Some(destination), None) => TaskAction::Delete {
            source: destination.clone(),
        },
        (Capability::FileDelete, None, Some(recovery)) => TaskAction::Restore {
            entry: EscapedBytes(recovery.entry.clone().into_bytes()),
            destination: summary.source.clone(),
        },
        _ => return Err(not("the result does not say how it is undone")),
    };
    let stamp = match &summary.sha256 {
        Some(_) => None,
        // Its content was not read: it must be that file as it was then.
        None => Some(turn.index().unread(&output.task_id).ok_or_else(|| {
            not("the content of the file was not read then, and this log does not have its inode")
        })?),
    };
    Ok(TaskSpec {
        deed,
        undoes: Some(output.task_id.clone()),
        expected: ExpectedFile {
            is_untouched: stamp.is_some(),
            stamp,
            sha256: summary.sha256.clone(),
        },
    })
}

fn paths(deed: &TaskAction) -> Vec<&AbsolutePath> {
    match deed {
        TaskAction::Move {
            source,
            destination,
        }
        | TaskAction::Copy {
            source,
            destination,
        } => vec![source, destination],
        TaskAction::Delete { source } => vec![source],
        TaskAction::Restore { destination, .. } => vec![destination],
    }
}
