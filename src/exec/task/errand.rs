//! One worker's errand: the order for a deed, and what it says to the end.

use std::os::fd::BorrowedFd;

use super::bases::{Bases, spot};
use super::failure::{Code, Failure};
use super::line::Deed;
use super::path::AbsolutePath;
use super::quota::Quota;
use super::supervise::Worker;
use super::worker::order::{Act, Expected, Failed, Found, Made, Order, Report, Spot};
use crate::error::Error;
use crate::exec::cancel::CancelToken;
use crate::name::EscapedBytes;
use crate::world::{Run, RunId};

/// What an errand came to.
#[derive(Debug)]
pub(super) enum Came {
    /// The file was moved, copied or removed.
    Done(Made),
    /// A file is there.
    There(Found),
    /// No file is there; or nothing was to be told.
    Nothing,
}

/// Why an errand came to nothing, as far as the worker knows.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) failure: Failure,
    /// Whether the worker said, before it ended by itself, that nothing was done.
    pub(super) has_not_acted: bool,
}

impl From<Failure> for SendFailure {
    fn from(failure: Failure) -> SendFailure {
        SendFailure {
            failure,
            has_not_acted: false,
        }
    }
}

impl From<SendFailure> for Failure {
    fn from(sent: SendFailure) -> Failure {
        sent.failure
    }
}

/// What a worker is sent to do.
pub(super) struct Errand<'e> {
    bases: &'e Bases,
    act: Act,
    /// The bases that the order names, by their numbers among all.
    places: Vec<usize>,
    expected: Expected,
    quota: Option<Quota>,
    /// What a file is called that is not whole yet, or put aside.
    name: String,
    run: Run,
}

/// The numbers of bases, in the order in which a worker has them.
#[derive(Default)]
struct Places(Vec<usize>);

impl Places {
    /// Returns a path as the worker knows it.
    fn spot(&mut self, bases: &Bases, path: &AbsolutePath) -> Result<Spot, Failure> {
        let (base, below) = bases.locate(path).ok_or_else(|| {
            Code::ExecutionFailed.because(format!("{}: outside the bases", path.as_str()))
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

impl<'e> Errand<'e> {
    /// Makes one of a deed.
    ///
    /// # Errors
    /// [`Code::ExecutionFailed`] where a path lies in no base.
    pub(super) fn new(bases: &'e Bases, deed: &Deed, run: Run) -> Result<Errand<'e>, Failure> {
        let mut places = Places::default();
        let act = match deed {
            Deed::Move {
                source,
                destination,
            } => Act::Move {
                from: places.spot(bases, source)?,
                to: places.spot(bases, destination)?,
            },
            Deed::Copy {
                source,
                destination,
            } => Act::Copy {
                from: places.spot(bases, source)?,
                to: places.spot(bases, destination)?,
            },
            Deed::Delete { source } => Act::Delete {
                from: places.spot(bases, source)?,
            },
            Deed::Restore { entry, destination } => Act::Restore {
                entry: entry.clone(),
                to: places.spot(bases, destination)?,
            },
        };
        Ok(Errand {
            bases,
            act,
            places: places.0,
            expected: Expected::default(),
            quota: None,
            name: run.id.to_string(),
            run,
        })
    }

    /// Makes one that looks what stands at a path.
    ///
    /// # Errors
    /// As [`Errand::new`].
    pub(super) fn look(
        bases: &'e Bases,
        path: &AbsolutePath,
        run: Run,
    ) -> Result<Errand<'e>, Failure> {
        let mut places = Places::default();
        let at = places.spot(bases, path)?;
        let errand = Errand::new(
            bases,
            &Deed::Delete {
                source: path.clone(),
            },
            run,
        )?;
        Ok(Errand {
            act: Act::Look { at },
            ..errand
        })
    }

    /// Makes one that looks at what was kept of a file.
    ///
    /// # Errors
    /// As [`Errand::new`].
    pub(super) fn look_kept(
        bases: &'e Bases,
        (path, entry): (&AbsolutePath, &EscapedBytes),
        run: Run,
    ) -> Result<Errand<'e>, Failure> {
        let errand = Errand::look(bases, path, run)?;
        Ok(Errand {
            act: Act::LookKept {
                place: 0,
                entry: entry.clone(),
            },
            ..errand
        })
    }

    /// Makes one that deletes a copy that did not become whole, of an earlier run.
    ///
    /// # Errors
    /// As [`Errand::new`].
    pub(super) fn sweep(
        bases: &'e Bases,
        path: &AbsolutePath,
        run: Run,
        of: RunId,
    ) -> Result<Errand<'e>, Failure> {
        let errand = Errand::look(bases, path, run)?;
        Ok(Errand {
            act: Act::Sweep { place: 0 },
            name: of.to_string(),
            ..errand
        })
    }

    /// Says what the file must be.
    pub(super) fn expecting(mut self, expected: Expected) -> Errand<'e> {
        self.expected = expected;
        self
    }

    /// Says what the worker may use.
    pub(super) fn within(mut self, quota: Quota) -> Errand<'e> {
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
        note: &mut dyn FnMut(&Report) -> Result<(), Failure>,
    ) -> Result<Came, SendFailure> {
        let bases = self
            .places
            .iter()
            .filter_map(|number| self.bases.base(*number));
        let bases: Vec<_> = bases.collect();
        let order = Order {
            act: self.act,
            places: bases.iter().map(|base| base.kind()).collect(),
            quota: self.quota,
            name: self.name,
            run: self.run,
            expected: self.expected,
        };
        let descriptors = bases.iter().flat_map(|base| base.descriptors());
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.chain([self.bases.lock()]).collect();
        let mut worker = Worker::start().map_err(|error| of(&error))?;
        worker
            .order(&order, &descriptors)
            .map_err(|error| of(&error))?;
        loop {
            match worker.next(cancel)? {
                Report::Done(made) => return Ok(Came::Done(made)),
                Report::There(found) => return Ok(Came::There(found)),
                Report::Nothing => return Ok(Came::Nothing),
                Report::Failed(Failed {
                    exhausted,
                    has_acted,
                    message,
                }) => {
                    let code = match exhausted {
                        true => Code::ResourceExhausted,
                        false => Code::ExecutionFailed,
                    };
                    return Err(SendFailure {
                        failure: code.because(message),
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
pub(super) fn of(error: &Error) -> Failure {
    use rustix::io::Errno;
    let code = match error.errno() {
        Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::AGAIN => {
            Code::ResourceExhausted
        }
        _ => Code::ExecutionFailed,
    };
    code.because(error.told())
}
