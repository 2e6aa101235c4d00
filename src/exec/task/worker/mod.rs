//! The process that carries one task out: this program, started again with a socket for its standard input.
//!
//! It has the directories of its task and nothing else: no key, no path of the host, no network, no other program. It is
//! killed when its time is up, and with its supervisor.

pub(super) mod channel;
pub(super) mod worker_order;

mod confine;
mod content_hash;
mod copy;
mod source_file;
mod source_guard;
mod task_worker;
mod worker_failure;
mod worker_place;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::fs::{CWD, Mode, OFlags};

use self::task_worker::{TaskWorker, cannot_begin};
use self::worker_failure::plain;
use self::worker_order::{WorkerOrder, WorkerReport};
use self::worker_place::WorkerPlace;
use super::failure_reason::FailureReason;
use crate::error::{Error, Result};

/// The word by which this program becomes a worker.
pub const WORKER: &str = "__task_worker";

/// Carries one task out, as the socket on standard input says.
pub fn run_worker() -> ExitCode {
    let Ok(socket) = rustix::io::dup(std::io::stdin().as_fd()) else {
        return ExitCode::FAILURE;
    };
    let Ok(Some((order, descriptors))) = channel::receive::<WorkerOrder>(&socket) else {
        return ExitCode::FAILURE;
    };
    let report = work(&socket, &order, descriptors);
    match channel::send(&socket, &report, &[]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn work(socket: &OwnedFd, order: &WorkerOrder, descriptors: Vec<OwnedFd>) -> WorkerReport {
    let mut descriptors = descriptors.into_iter();
    let opened = open(order, &mut descriptors);
    let _lock = descriptors.next();
    let (places, numbers) = match opened {
        Ok(opened) => opened,
        Err(error) => return cannot_begin(&error),
    };
    if let Err(why) = shut(&places) {
        return WorkerReport::Failed(plain(
            FailureReason::Worker,
            format!("the worker cannot be confined: {why}"),
        ));
    }
    let mut worker = TaskWorker::new(socket, &places, order, &numbers);
    worker
        .perform(&order.act)
        .unwrap_or_else(WorkerReport::Failed)
}

fn open(
    order: &WorkerOrder,
    descriptors: &mut impl Iterator<Item = OwnedFd>,
) -> Result<(Vec<WorkerPlace>, OwnedFd)> {
    confine::tie().map_err(Error::os("prctl"))?;
    confine::limit(order.quota.as_ref()).map_err(Error::os("setrlimit"))?;
    let mut places = Vec::new();
    for kind in &order.places {
        let place = WorkerPlace::take(kind, descriptors, &order.run, &places)?;
        places.push(place);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let numbers = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty());
    Ok((places, numbers.map_err(Error::os("open"))?))
}

fn shut(places: &[WorkerPlace]) -> std::result::Result<(), String> {
    let mut directories = Vec::new();
    for place in places {
        directories.extend(place.directories().map_err(|error| error.to_string())?);
    }
    confine::confine(&directories)
}
