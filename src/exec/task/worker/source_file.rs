//! A file that was found: whether it is still what it was, and moving it in one step that replaces nothing.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::super::failure_reason::FailureReason;
use super::source_guard::SourceGuard;
use super::worker_failure::{WorkerFailure, at, os, plain};
use super::worker_place::EntrySlot;
use crate::world::root::stat_fd;
use crate::world::{Meta, Node};

/// A regular file that was found, open.
pub(super) struct SourceFile<'w> {
    pub(super) slot: EntrySlot<'w>,
    pub(super) node: Node,
    pub(super) file: OwnedFd,
    pub(super) in_home: bool,
}

impl SourceFile<'_> {
    pub(super) fn meta(&self) -> &Meta {
        self.node.meta()
    }

    /// Sees to it that the file stays as it is while it is copied.
    pub(super) fn guard(&self) -> Result<SourceGuard<'_>, WorkerFailure> {
        SourceGuard::take(self.file.as_fd(), self.slot.shown())
    }
}

/// Fails where a file was written to since it was opened, as far as its times tell.
pub(super) fn unchanged(source: &SourceFile<'_>, verb: &str) -> Result<(), WorkerFailure> {
    let (shown, was) = (source.slot.shown(), source.meta());
    let now = stat_fd(source.file.as_fd()).map_err(|error| at(shown, &error))?;
    // Whoever sets the mtime back moves the ctime. In a home that moves by itself when data is written back.
    let touched = !source.in_home && now.ctime != was.ctime;
    match (now.size, now.mtime) == (was.size, was.mtime) && !touched {
        true => Ok(()),
        false => Err(plain(
            FailureReason::Changed,
            format!("{shown}: it was changed while it was {verb}"),
        )),
    }
}

pub(super) fn no_vault(source: &SourceFile<'_>) -> WorkerFailure {
    plain(
        FailureReason::OtherFileSystem,
        format!(
            "{}: the vault is on another file system, and nothing is removed without being kept",
            source.slot.shown()
        ),
    )
}

/// Why a file was not moved.
pub(super) enum MoveFailure {
    OtherFileSystem,
    Failed(WorkerFailure),
}

/// Moves a file to a name where nothing is, and sees that it was that file.
pub(super) fn shift(source: &SourceFile<'_>, to: &EntrySlot<'_>) -> Result<(), MoveFailure> {
    let rename = |from: &EntrySlot<'_>, to: &EntrySlot<'_>| {
        let replace_nothing = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&from.dir, from.name(), &to.dir, to.name(), replace_nothing)
    };
    match rename(&source.slot, to) {
        Ok(()) => {}
        Err(Errno::XDEV) => return Err(MoveFailure::OtherFileSystem),
        Err(errno @ (Errno::NOENT | Errno::ACCESS | Errno::PERM)) => {
            return Err(MoveFailure::Failed(os(source.slot.shown(), "renameat2")(
                errno,
            )));
        }
        Err(errno) => return Err(MoveFailure::Failed(os(to.shown(), "renameat2")(errno))),
    }
    let arrived = to.stat().map_err(MoveFailure::Failed)?;
    if arrived.is_some_and(|meta| meta.id.1 == source.meta().id.1) {
        return Ok(());
    }
    let back = rename(to, &source.slot);
    let shown = source.slot.shown();
    Err(MoveFailure::Failed(plain(
        FailureReason::Changed,
        match back {
            Ok(()) => {
                format!("{shown}: another file took its place at this moment, and is there again")
            }
            Err(_) => format!(
                "{shown}: another file took its place at this moment, and lies at {} now",
                to.shown()
            ),
        },
    )))
}
