//! The order of checks, from bytes to a deed.
//!
//! Owns it. What is wrong with a lease is said before anything is looked at that it would give access to, so a lease that
//! fails tells nothing of what is there; and its failures are never stored, so that a forged task id cannot poison the
//! real one.

use super::config::Config;
use super::errand::of;
use super::failure::{Code, Failure, is_full};
use super::key::PrivateKey;
use super::lease::Lease;
use super::ledger::Turn;
use super::line::Deed;
use super::manifest::{Capability, Inputs, Manifest};
use super::path::AbsolutePath;
use super::result::{Ending, Output, TaskResult};
use super::revocations::Revocations;
use super::strict::{self, Malformed};
use super::trust::Trust;
use super::worker::order::Expected;
use crate::error::Error;
use crate::name::EscapedBytes;

/// What a task is to do, once its lease holds.
pub(super) struct Wish {
    pub(super) deed: Deed,
    /// The task that it undoes.
    pub(super) undoes: Option<String>,
    /// What the file must be.
    pub(super) expected: Expected,
}

/// What a request says of itself, for its result, as far as it could be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub(super) task_id: String,
    pub(super) capability_id: String,
    pub(super) manifest_sha256: String,
    pub(super) lease_id: String,
}

/// What a request asks for.
pub(super) enum Asked<'a> {
    /// What a manifest says.
    Manifest(&'a [u8]),
    /// That a task is undone, by its result.
    Undo(&'a [u8]),
}

/// How a request ends before anything was begun.
pub(super) enum Early {
    /// A failure of the lease, or a request that cannot be read: signed, never stored.
    Unstored(Failure),
    /// A failure of a task whose lease holds.
    Stored(Failure),
    /// It was done or tried earlier: where the result of that time lies.
    Again((u64, u64)),
    /// The executor itself cannot work.
    Broken(Error),
}

/// A request, read.
enum Request {
    Manifest(Manifest),
    Undo(Box<Output>),
}

/// What checks go by.
pub(super) struct Checker<'c> {
    pub(super) config: &'c Config,
    pub(super) key: &'c PrivateKey,
    pub(super) trust: &'c Trust,
    pub(super) now: u64,
    /// By how much that is ahead of the system's clock, in seconds.
    pub(super) ahead_s: u64,
}

impl Checker<'_> {
    /// Checks a request. `said` gets what could be read of it.
    ///
    /// # Errors
    /// How it ends here.
    pub(super) fn check(
        &self,
        asked: &Asked<'_>,
        lease: &[u8],
        said: &mut Said,
        turn: &Turn<'_>,
    ) -> Result<(Lease, Wish), Early> {
        let request = self.read(asked, said);
        let lease = self.lease(lease, &request, said)?;
        let request = match request {
            Ok(request) => request,
            Err(why) => {
                let failure = Code::ExecutionFailed.because(format!("the request: {why}"));
                return Err(Early::Unstored(failure));
            }
        };
        self.digest(&request, &lease, said, turn)?;
        self.validity(&lease, turn)?;
        let capability = match &request {
            Request::Manifest(manifest) => lease.check_capability(&manifest.capability_id),
            Request::Undo(_) => lease.check_capability(&said.capability_id),
        };
        let capability = capability.map_err(|failure| match failure.code {
            Code::InvalidLease => Early::Unstored(failure),
            _ => Early::Stored(failure),
        })?;
        let wish = match &request {
            Request::Manifest(manifest) => from_manifest(manifest, capability),
            Request::Undo(output) => from_output(output, capability, turn),
        };
        let wish = wish.map_err(Early::Stored)?;
        for path in paths(&wish.deed) {
            let checked = lease.check_path(path, &self.config.bases);
            checked.map_err(Early::Stored)?;
        }
        Ok((lease, wish))
    }

    /// Reads a request; whether it may be carried out is another question.
    fn read(&self, asked: &Asked<'_>, said: &mut Said) -> Result<Request, Malformed> {
        match asked {
            Asked::Manifest(text) => {
                (said.task_id, said.capability_id) = Manifest::ids(text);
                let manifest = Manifest::parse(text)?;
                said.manifest_sha256 = strict::sha256(text);
                Ok(Request::Manifest(manifest))
            }
            Asked::Undo(text) => {
                let own = TaskResult::verify(text, [self.key.public()]);
                let (result, _) = own.or_else(|_| TaskResult::verify_by_trust(text, self.trust))?;
                said.manifest_sha256 = strict::sha256(text);
                said.capability_id.clone_from(&result.capability_id);
                if result.executor != self.config.audience {
                    return Err(Malformed::new("the result is another executor's"));
                }
                match result.ending {
                    Ending::Success(output) => Ok(Request::Undo(Box::new(output))),
                    Ending::Failed(_) => Err(Malformed::new(
                        "the task failed, so there is nothing to undo",
                    )),
                }
            }
        }
    }

    /// Reads a lease and checks who has signed it. A malformed lease comes before a malformed manifest, and that before a
    /// signature that does not fit.
    fn lease(
        &self,
        text: &[u8],
        request: &Result<Request, Malformed>,
        said: &mut Said,
    ) -> Result<Lease, Early> {
        let envelope = super::envelope::Envelope::parse(text);
        if let Err(why) = &envelope {
            let why = format!("the lease is malformed: {why}");
            return Err(Early::Unstored(Code::InvalidLease.because(why)));
        }
        if let Err(why) = request {
            let failure = Code::ExecutionFailed.because(format!("the request: {why}"));
            return Err(Early::Unstored(failure));
        }
        let lease =
            Lease::verify(text, self.trust.kernel_keys(self.now)).map_err(Early::Unstored)?;
        said.lease_id.clone_from(&lease.lease_id);
        Ok(lease)
    }

    /// Checks whom and what the lease is for, and whether that was done already.
    fn digest(
        &self,
        request: &Request,
        lease: &Lease,
        said: &mut Said,
        turn: &Turn<'_>,
    ) -> Result<(), Early> {
        lease
            .check_audience(&self.config.audience)
            .map_err(Early::Unstored)?;
        match request {
            Request::Manifest(manifest) => lease
                .check_task(&manifest.task_id)
                .map_err(Early::Unstored)?,
            // The id of an undo stands in its lease alone.
            Request::Undo(_) => said.task_id.clone_from(&lease.task_id),
        }
        lease
            .check_digest(&said.manifest_sha256)
            .map_err(Early::Unstored)?;
        match turn.index().task(&said.task_id) {
            Some(known) if *known.manifest_sha256 != *said.manifest_sha256 => {
                let why = "the task id belongs to another manifest";
                Err(Early::Unstored(Code::InvalidLease.because(why)))
            }
            Some(known) => known.result.map_or(Ok(()), |at| Err(Early::Again(at))),
            None => Ok(()),
        }
    }

    /// Checks whether the lease is valid now.
    fn validity(&self, lease: &Lease, turn: &Turn<'_>) -> Result<(), Early> {
        let (skew, most) = (self.config.skew_s, self.config.max_lease_s);
        lease
            .check_time(self.now, skew, most)
            .map_err(|failure| Early::Unstored(self.explain(failure)))?;
        let list = self.config.revocations.as_deref();
        let state = &self.config.state_dir;
        let revoked = Revocations::load(list, self.trust, self.now, skew, state);
        let revoked = revoked.map_err(|error| match is_full(&error) {
            true => Early::Unstored(of(&error)),
            false => Early::Broken(error),
        })?;
        lease.check_revocation(&revoked).map_err(Early::Unstored)?;
        let used = turn.index().lease(&lease.lease_id);
        lease
            .check_uses(used.tries)
            .map_err(|failure| match used.last {
                Some(at) => Early::Again(at),
                None => Early::Unstored(failure),
            })
    }

    /// Says of a lease whose time is wrong that the executor's own may be.
    fn explain(&self, failure: Failure) -> Failure {
        match self.ahead_s > self.config.skew_s {
            false => failure,
            true => failure.code.because(format!(
                "{}; the executor has seen a time {} s later than its clock says now (`trumanfs task clock`)",
                failure.message, self.ahead_s
            )),
        }
    }
}

fn from_manifest(manifest: &Manifest, capability: Capability) -> Result<Wish, Failure> {
    let malformed = |why: Malformed| Code::ExecutionFailed.because(why.to_string());
    let inputs = Inputs::read(capability, &manifest.inputs).map_err(malformed)?;
    let deed = match (capability, inputs) {
        (Capability::FileDelete, _) if manifest.constraints.reversible != Some(true) => {
            let why = "FILE_DELETE takes constraints.reversible to be true";
            return Err(Code::ExecutionFailed.because(why));
        }
        (Capability::FileDelete, Inputs::One { source }) => Deed::Delete { source },
        (
            Capability::FileMove,
            Inputs::Two {
                source,
                destination,
            },
        ) => Deed::Move {
            source,
            destination,
        },
        (
            Capability::FileCopy,
            Inputs::Two {
                source,
                destination,
            },
        ) => Deed::Copy {
            source,
            destination,
        },
        _ => return Err(Code::ExecutionFailed.because("inputs of another capability")),
    };
    Ok(Wish {
        deed,
        undoes: None,
        expected: Expected::default(),
    })
}

/// Returns the exact inverse of what was done.
fn from_output(output: &Output, capability: Capability, turn: &Turn<'_>) -> Result<Wish, Failure> {
    let not = |why: &str| Code::ExecutionFailed.because(why);
    let (summary, metadata) = (&output.result_summary, &output.undo_metadata);
    if metadata.undoes.is_some() {
        return Err(not(
            "an undo is not undone: give the task again, with an id of its own",
        ));
    }
    let deed = match (capability, &summary.destination, &metadata.recovery) {
        (Capability::FileMove, Some(destination), None) => Deed::Move {
            source: destination.clone(),
            destination: summary.source.clone(),
        },
        (Capability::FileCopy, Some(destination), None) => Deed::Delete {
            source: destination.clone(),
        },
        (Capability::FileDelete, None, Some(recovery)) => Deed::Restore {
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
    Ok(Wish {
        deed,
        undoes: Some(output.task_id.clone()),
        expected: Expected {
            is_untouched: stamp.is_some(),
            stamp,
            sha256: summary.sha256.clone(),
        },
    })
}

fn paths(deed: &Deed) -> Vec<&AbsolutePath> {
    match deed {
        Deed::Move {
            source,
            destination,
        }
        | Deed::Copy {
            source,
            destination,
        } => vec![source, destination],
        Deed::Delete { source } => vec![source],
        Deed::Restore { destination, .. } => vec![destination],
    }
}
