//! A job of a worker: the order for a deed, and the reports of the worker to the end.

use std::os::fd::BorrowedFd;

use super::absolute_path::AbsolutePath;
use super::base_directories::{BaseDirectories, spot};
use super::failure::{FailureCode, TaskFailure};
use super::failure_reason::FailureReason;
use super::ledger_line::TaskAction;
use super::quota::TaskQuota;
use super::worker::worker_order::{
    ExpectedFile, FoundFile, PlacePath, WorkerAction, WorkerFailure, WorkerOrder, WorkerOutput,
    WorkerReport,
};
use crate::error::Error;
use crate::exec::cancel::CancelToken;
use crate::name::EscapedBytes;
use crate::world::{Run, RunId};

/// The reply of a worker to its job.
#[derive(Debug)]
pub(super) enum WorkerReply {
    /// The file was moved, copied or removed.
    Done(WorkerOutput),
    /// A file is there.
    There(FoundFile),
    /// No file is there; or nothing was to be told.
    Nothing,
}

/// Why an errand came to nothing, as far as the worker knows.
#[derive(Debug)]
pub(super) struct JobFailure {
    pub(super) failure: TaskFailure,
    /// True if the worker said, before it ended by itself, that nothing was done.
    pub(super) has_not_acted: bool,
}

impl From<TaskFailure> for JobFailure {
    fn from(failure: TaskFailure) -> JobFailure {
        JobFailure {
            failure,
            has_not_acted: false,
        }
    }
}

impl From<JobFailure> for TaskFailure {
    fn from(sent: JobFailure) -> TaskFailure {
        sent.failure
    }
}

/// The job that a worker is sent to do.
pub(super) struct WorkerJob<'e> {
    bases: &'e BaseDirectories,
    act: WorkerAction,
    /// The bases that the order names, by their numbers among all.
    places: Vec<usize>,
    expected: ExpectedFile,
    quota: Option<TaskQuota>,
    /// The name of a copy that is not whole yet, or of a file that is put aside.
    name: String,
    run: Run,
}

/// The numbers of bases, in the order in which a worker has them.
#[derive(Default)]
struct PlaceNumbers(Vec<usize>);

impl PlaceNumbers {
    /// Returns a path as the worker knows it.
    fn spot(
        &mut self,
        bases: &BaseDirectories,
        path: &AbsolutePath,
    ) -> Result<PlacePath, TaskFailure> {
        let (base, below) = bases.locate(path).ok_or_else(|| {
            FailureReason::Outside.because(format!("{}: outside the bases", path.as_str()))
        })?;
        Ok(spot(self.number(base), &below, path))
    }

    fn number(&mut self, base: usize) -> usize {
        let known = self.0.iter().position(|known| *known == base);
        known.unwrap_or_else(|| {
            self.0.push(base);
            self.0.len() - 1
        })
    }
}

impl<'e> WorkerJob<'e> {
    /// Makes one of a deed.
    ///
    /// # Errors
    /// [`FailureReason::Outside`] where a path lies in no base.
    pub(super) fn new(
        bases: &'e BaseDirectories,
        deed: &TaskAction,
        run: Run,
    ) -> Result<WorkerJob<'e>, TaskFailure> {
        let mut places = PlaceNumbers::default();
        let act = match deed {
            TaskAction::Move {
                source,
                destination,
            } => WorkerAction::Move {
                from: places.spot(bases, source)?,
                to: places.spot(bases, destination)?,
            },
            TaskAction::Copy {
                source,
                destination,
            } => WorkerAction::Copy {
                from: places.spot(bases, source)?,
                to: places.spot(bases, destination)?,
            },
            TaskAction::Delete { source } => WorkerAction::Delete {
                from: places.spot(bases, source)?,
            },
            TaskAction::Restore { entry, destination } => WorkerAction::Restore {
                entry: entry.clone(),
                to: places.spot(bases, destination)?,
            },
        };
        Ok(WorkerJob {
            bases,
            act,
            places: places.0,
            expected: ExpectedFile::default(),
            quota: None,
            name: run.id.to_string(),
            run,
        })
    }

    /// Makes one that looks what stands at a path.
    ///
    /// # Errors
    /// As [`WorkerJob::new`].
    pub(super) fn look(
        bases: &'e BaseDirectories,
        path: &AbsolutePath,
        run: Run,
    ) -> Result<WorkerJob<'e>, TaskFailure> {
        let mut places = PlaceNumbers::default();
        let at = places.spot(bases, path)?;
        let errand = WorkerJob::new(
            bases,
            &TaskAction::Delete {
                source: path.clone(),
            },
            run,
        )?;
        Ok(WorkerJob {
            act: WorkerAction::Look { at },
            ..errand
        })
    }

    /// Makes one that looks at what was kept of a file.
    ///
    /// # Errors
    /// As [`WorkerJob::new`].
    pub(super) fn look_kept(
        bases: &'e BaseDirectories,
        (path, entry): (&AbsolutePath, &EscapedBytes),
        run: Run,
    ) -> Result<WorkerJob<'e>, TaskFailure> {
        let errand = WorkerJob::look(bases, path, run)?;
        Ok(WorkerJob {
            act: WorkerAction::LookKept {
                place: 0,
                entry: entry.clone(),
            },
            ..errand
        })
    }

    /// Makes one that deletes a copy that did not become whole, of an earlier run.
    ///
    /// # Errors
    /// As [`WorkerJob::new`].
    pub(super) fn sweep(
        bases: &'e BaseDirectories,
        path: &AbsolutePath,
        run: Run,
        of: RunId,
    ) -> Result<WorkerJob<'e>, TaskFailure> {
        let errand = WorkerJob::look(bases, path, run)?;
        Ok(WorkerJob {
            act: WorkerAction::Sweep { place: 0 },
            name: of.to_string(),
            ..errand
        })
    }

    /// Says what the file must be.
    pub(super) fn expecting(mut self, expected: ExpectedFile) -> WorkerJob<'e> {
        self.expected = expected;
        self
    }

    /// Says what the worker may use.
    pub(super) fn within(mut self, quota: TaskQuota) -> WorkerJob<'e> {
        self.quota = Some(quota);
        self
    }

    /// Has a worker carry it out. `note` hears what it finds, and fails where the worker must not go on.
    ///
    /// # Errors
    /// Why it was not done, as far as the worker knows.
    pub(super) fn send(
        self,
        cancel: Option<&CancelToken>,
        note: &mut dyn FnMut(&WorkerReport) -> Result<(), TaskFailure>,
    ) -> Result<WorkerReply, JobFailure> {
        let bases = self
            .places
            .iter()
            .filter_map(|number| self.bases.base(*number));
        let bases: Vec<_> = bases.collect();
        let order = WorkerOrder {
            act: self.act,
            places: bases.iter().map(|base| base.kind()).collect(),
            quota: self.quota,
            name: self.name,
            run: self.run,
            expected: self.expected,
        };
        let descriptors = bases.iter().flat_map(|base| base.descriptors());
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.chain([self.bases.lock()]).collect();
        let ready = self.bases.ready_worker();
        let ordered = ready.order(&order, &descriptors);
        let mut worker = ordered.map_err(|error| of(&error))?;
        loop {
            match worker.next(cancel)? {
                WorkerReport::Done(made) => return Ok(WorkerReply::Done(made)),
                WorkerReport::There(found) => return Ok(WorkerReply::There(found)),
                WorkerReport::Nothing => return Ok(WorkerReply::Nothing),
                WorkerReport::Failed(WorkerFailure {
                    reason,
                    has_acted,
                    message,
                }) => {
                    return Err(JobFailure {
                        failure: reason.because(message),
                        has_not_acted: !has_acted,
                    });
                }
                report => {
                    note(&report)?;
                    // Where it is gone, what it says next tells why.
                    let _ = worker.go();
                }
            }
        }
    }
}

/// Returns what an error of this process's own makes of a task.
pub(super) fn of(error: &Error) -> TaskFailure {
    use rustix::io::Errno;
    let reason = match (FailureReason::of(error), error.errno()) {
        // No process can be started.
        (_, Errno::AGAIN) => FailureReason::SystemLimit,
        (_, Errno::FBIG) => FailureReason::Io,
        (limit, _) if limit.code() == FailureCode::ResourceExhausted => limit,
        // What a task's own files are like, a worker tells.
        _ => FailureReason::Io,
    };
    reason.because(error.full_message())
}
