//! Runs that worked in several stores, and taking them back in all of them.
//!
//! A run has the same id in each store, and its record names the others. A store counts as another part of a run only if
//! its record names this one: a copy of a store says what the first one said.
//!
//! Owns the order of a joint undo: the plans of all stores stand before the first change of any.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::target::Client;
use crate::error::{Error, FailureKind, Result};
use crate::name::EscapedBytes;
use crate::operator::run::find;
use crate::operator::undo::{JointRun, UndoReport, UndoRequest};
use crate::world::RunId;

/// The part of a run in another store.
#[derive(Debug)]
pub enum OtherPart {
    /// The store knows of this one.
    Known(Client),
    /// The store at this path cannot be had, or does not know of this one, with the reason.
    Unknown(PathBuf, Error),
}

/// The parts of a run in other stores.
#[derive(Debug)]
pub struct OtherParts {
    /// The run.
    pub run: RunId,
    /// The parts.
    pub parts: Vec<OtherPart>,
}

impl OtherPart {
    /// Returns the path of its store.
    pub fn path(&self) -> &Path {
        match self {
            OtherPart::Known(client) => client.path(),
            OtherPart::Unknown(path, _) => path,
        }
    }
}

impl Client {
    /// Finds the parts of a run that lie in other stores, where it changed something.
    ///
    /// # Errors
    /// As [`find`].
    pub fn other_parts(&self, run: &str) -> Result<OtherParts> {
        let run = find(&self.store, run)?;
        let own = self.recorded_path();
        let mut parts = Vec::new();
        for path in run.also {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path.0));
            let client = match Client::open(&path) {
                Ok(client) => client,
                Err(error) => {
                    parts.push(OtherPart::Unknown(path, error));
                    continue;
                }
            };
            match find(&client.store, &run.id.to_string()) {
                Ok(there) if there.also.contains(&own) => parts.push(OtherPart::Known(client)),
                Ok(_) => {
                    let why = Error::refused("its record names another directory than this", "");
                    parts.push(OtherPart::Unknown(path, why));
                }
                // Nothing was changed there.
                Err(error) if error.kind() == FailureKind::Missing => {}
                Err(error) => parts.push(OtherPart::Unknown(path, error)),
            }
        }
        Ok(OtherParts { run: run.id, parts })
    }

    /// Returns the store's path as records of other stores have it.
    fn recorded_path(&self) -> EscapedBytes {
        EscapedBytes(self.whole_path().into_os_string().into_vec())
    }

    /// Returns where the store is, as an absolute path without links.
    pub fn whole_path(&self) -> PathBuf {
        std::fs::canonicalize(self.path()).unwrap_or_else(|_| self.path().to_owned())
    }
}

/// The outcome of a joint undo.
#[derive(Debug)]
pub struct JointUndo {
    /// True if a conflict in one of the stores stopped all before any change.
    pub stopped: bool,
    /// The result in each store, in the order of the parts.
    pub reports: Vec<Result<UndoReport>>,
}

/// Takes operations back in several stores, as one run. What one of them has no operations for is left out there.
pub fn undo_jointly(parts: &[(&Client, UndoRequest)]) -> JointUndo {
    if let [(client, request)] = parts {
        let report = client.undo(request);
        return JointUndo {
            stopped: report.as_ref().map_or(true, |report| report.stopped),
            reports: vec![report],
        };
    }
    let plan = |(client, request): &(&Client, UndoRequest)| {
        let planned = client.undo(&UndoRequest {
            dry_run: true,
            ..request.clone()
        });
        planned.map(|report| UndoReport {
            dry_run: request.dry_run,
            ..report
        })
    };
    let plans: Vec<Result<UndoReport>> = parts.iter().map(plan).collect();
    let is_in_the_way = |plan: &Result<UndoReport>| match plan {
        Ok(report) => report.stopped,
        Err(_) => !is_missing(plan),
    };
    let stopped = plans.iter().any(is_in_the_way) || plans.iter().all(is_missing);
    if stopped || parts.iter().any(|(_, request)| request.dry_run) {
        return JointUndo {
            stopped,
            reports: plans,
        };
    }
    let run = RunId::random();
    let paths: Vec<EscapedBytes> = parts
        .iter()
        .map(|(client, _)| client.recorded_path())
        .collect();
    let mut reports = Vec::with_capacity(parts.len());
    for (((client, request), own), plan) in parts.iter().zip(&paths).zip(plans) {
        if is_missing(&plan) {
            reports.push(plan);
            continue;
        }
        let also = paths.iter().filter(|path| *path != own);
        reports.push(client.undo(&UndoRequest {
            joint: Some(JointRun {
                run,
                also: also.cloned().collect(),
            }),
            ..request.clone()
        }));
    }
    JointUndo {
        stopped: false,
        reports,
    }
}

/// Returns whether a store has nothing of what is to be taken back.
fn is_missing(report: &Result<UndoReport>) -> bool {
    let error = report.as_ref().err();
    error.is_some_and(|error| error.kind() == FailureKind::Missing)
}
