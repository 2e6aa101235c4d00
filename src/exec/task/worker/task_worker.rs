//! The operation of a worker, in steps of which its supervisor takes note.
//!
//! Owns the order: look, tell, wait, act in one step that replaces nothing, see that the right file was moved, wait until
//! it is on disk. What fails is put back; a copy has no name before it is whole.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::failpoint;
use super::super::failure_reason::FailureReason;
use super::channel::{receive_bytes, send};
use super::content_hash::hash;
use super::copy::{CopyBudget, CopySource, fill};
use super::source_file::{MoveFailure, SourceFile, no_vault, shift, unchanged};
use super::source_guard::SourceGuard;
use super::worker_failure::{WorkerFailure, at, late, os, plain};
use super::worker_order::{
    ExpectedFile, FileStamp, FoundFile, GO, PlacePath, WorkerAction, WorkerOrder, WorkerOutput,
    WorkerReport,
};
use super::worker_place::{EntrySlot, WorkerPlace};
use crate::error::Error;
use crate::name::{EscapedBytes, WorldPath};
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::TRASH;

/// A worker with its places open, and nothing else left to it.
pub(super) struct TaskWorker<'w> {
    socket: &'w OwnedFd,
    places: &'w [WorkerPlace],
    /// The name of a copy that is not whole yet, or of a file that is put aside.
    name: String,
    budget: CopyBudget,
    expected: &'w ExpectedFile,
    /// The SHA-256 of the content, once it is known.
    content: Option<String>,
    /// The longest file whose content is read, in bytes.
    longest: Option<u64>,
    /// `/proc/self/fd`, by which a file without a name gets one.
    numbers: &'w OwnedFd,
}

impl<'w> TaskWorker<'w> {
    /// Makes one.
    pub(super) fn new(
        socket: &'w OwnedFd,
        places: &'w [WorkerPlace],
        order: &'w WorkerOrder,
        numbers: &'w OwnedFd,
    ) -> TaskWorker<'w> {
        TaskWorker {
            socket,
            places,
            name: order.name.clone(),
            budget: CopyBudget(order.quota.as_ref().map(|quota| quota.io_bytes)),
            expected: &order.expected,
            content: order.expected.sha256.clone(),
            longest: order.quota.as_ref().map(|quota| quota.file_bytes),
            numbers,
        }
    }

    /// Does what was ordered. Returns what to say last.
    pub(super) fn perform(&mut self, act: &'w WorkerAction) -> Result<WorkerReport, WorkerFailure> {
        match act {
            WorkerAction::Move { from, to } => self.rename(from, to).map(WorkerReport::Done),
            WorkerAction::Copy { from, to } => {
                let (source, to) = self.prepare(from, to)?;
                let guard = source.guard()?;
                self.tell_found(&source, None)?;
                self.copy(&source, guard, &to).map(WorkerReport::Done)
            }
            WorkerAction::Delete { from } => self.delete(from).map(WorkerReport::Done),
            WorkerAction::Restore { entry, to } => self.restore(entry, to).map(WorkerReport::Done),
            WorkerAction::Look { at } => self.look(EntrySlot::in_place(self.place(at.place)?, at)),
            WorkerAction::LookKept { place, entry } => {
                let path = WorldPath::parse(&entry.0).map_err(|error| at("the entry", &error))?;
                self.look(EntrySlot::of(
                    &self.place(*place)?.kept,
                    &path,
                    "what was kept",
                ))
            }
            WorkerAction::Sweep { place } => self.sweep(*place),
        }
    }

    fn place(&self, number: usize) -> Result<&'w WorkerPlace, WorkerFailure> {
        let missing = || {
            plain(
                FailureReason::Worker,
                "the order names a place that it does not have",
            )
        };
        self.places.get(number).ok_or_else(missing)
    }

    fn tell(&self, report: &WorkerReport) -> Result<(), WorkerFailure> {
        let gone = |_| plain(FailureReason::Worker, "the supervisor is gone");
        send(self.socket, report, &[]).map_err(gone)?;
        match receive_bytes(self.socket).map_err(gone)? {
            Some((word, _)) if word == GO => Ok(()),
            _ => Err(plain(FailureReason::Worker, "the supervisor is gone")),
        }
    }

    /// Opens the regular file at a path, and checks that it is the one that is meant.
    fn source(
        &self,
        place: &'w WorkerPlace,
        spot: &'w PlacePath,
    ) -> Result<SourceFile<'w>, WorkerFailure> {
        let slot = EntrySlot::in_place(place, spot)?;
        let node = slot.file()?;
        self.expected
            .check(&FileStamp::of(node.meta()), slot.shown())?;
        slot.prepare_sync()?;
        let file = slot.open(&node)?;
        Ok(SourceFile {
            slot,
            node,
            file,
            in_home: place.home.is_some(),
        })
    }

    /// Finds the file and its destination.
    fn prepare(
        &self,
        from: &'w PlacePath,
        to: &'w PlacePath,
    ) -> Result<
        (
            SourceFile<'w>,
            (&'w WorkerPlace, EntrySlot<'w>, &'w WorldPath),
        ),
        WorkerFailure,
    > {
        let source = self.source(self.place(from.place)?, from)?;
        let place = self.place(to.place)?;
        let slot = EntrySlot::in_place(place, to)?;
        slot.must_be_free()?;
        slot.prepare_sync()?;
        Ok((source, (place, slot, &to.path)))
    }

    /// Has the supervisor take note of what was found, and sees that it is still that.
    fn tell_found(
        &self,
        source: &SourceFile<'_>,
        made: Option<&WorkerOutput>,
    ) -> Result<(), WorkerFailure> {
        self.tell(&WorkerReport::Found(FoundFile {
            stamp: FileStamp::of(source.meta()),
            sha256: made.and_then(|made| made.sha256.clone()),
        }))?;
        // A copy's content is read later.
        unchanged(source, if made.is_some() { "read" } else { "copied" })
    }

    /// Returns what the content of a file is, if that is what it must be. A file that is longer than the quota's `file_bytes` is
    /// not read, unless its content must be a certain one.
    fn made(&self, file: &OwnedFd, shown: &str) -> Result<WorkerOutput, WorkerFailure> {
        let stat = || stat_fd(file.as_fd()).map_err(|error| at(shown, &error));
        let length = stat()?.size;
        let is_read = self.content.is_some() || self.longest.is_none_or(|most| length <= most);
        let sha256 = match is_read {
            true => Some(hash(file.as_fd(), shown)?),
            false => None,
        };
        if self.content.is_some() && self.content != sha256 {
            return Err(plain(
                FailureReason::Changed,
                format!("{shown}: its content has changed since"),
            ));
        }
        let meta = stat()?;
        Ok(WorkerOutput {
            stamp: FileStamp::of(&meta),
            sha256,
        })
    }

    fn rename(
        &mut self,
        from: &'w PlacePath,
        to: &'w PlacePath,
    ) -> Result<WorkerOutput, WorkerFailure> {
        self.must_not_be_trash(from)?;
        let (source, destination) = self.prepare(from, to)?;
        let made = self.made(&source.file, source.slot.shown())?;
        self.tell_found(&source, Some(&made))?;
        match shift(&source, &destination.1) {
            Ok(()) => {
                failpoint::reach_in_worker("after_act");
                source.slot.sync().map_err(late)?;
                destination.1.sync().map_err(late)?;
                Ok(made)
            }
            Err(MoveFailure::OtherFileSystem) => {
                let place = self.place(from.place)?;
                if place.home.is_none() && place.kept.id().0 != source.meta().id.0 {
                    return Err(no_vault(&source));
                }
                let guard = source.guard()?;
                self.content = made.sha256;
                let copied = self.copy(&source, guard, &destination)?;
                guard.check().map_err(late)?;
                unchanged(&source, "copied").map_err(late)?;
                self.remove(place, &source).map_err(late)?;
                failpoint::reach_in_worker("after_backup");
                Ok(copied)
            }
            Err(MoveFailure::Failed(why)) => Err(why),
        }
    }

    /// Makes a whole copy without a name, and then gives it one.
    fn copy(
        &mut self,
        source: &SourceFile<'_>,
        guard: SourceGuard<'_>,
        (place, to, path): &(&'w WorkerPlace, EntrySlot<'w>, &'w WorldPath),
    ) -> Result<WorkerOutput, WorkerFailure> {
        let file = match &place.home {
            Some(home) => self.make_staged(&home.staged, to.shown())?,
            None => make_unnamed(to)?,
        };
        let from = CopySource {
            file: &source.file,
            meta: source.meta(),
            shown: source.slot.shown(),
            guard,
        };
        fill(&from, &file, &mut self.budget)?;
        guard.check()?;
        let made = self.made(&file, from.shown)?;
        guard.check_copy(&made)?;
        unchanged(source, "copied")?;
        self.tell(&WorkerReport::Made(made.clone()))?;
        match &place.home {
            Some(home) => {
                let adopted = home.run.adopt(&self.name, &home.path_of(path));
                adopted.map_err(|error| {
                    let why = at(to.shown(), &error);
                    match error {
                        // The daemon went away meanwhile.
                        Error::Partly { .. } => late(why),
                        _ => why,
                    }
                })?;
            }
            None => self.link(&file, to)?,
        }
        failpoint::reach_in_worker("after_act");
        to.sync().map_err(late)?;
        Ok(made)
    }

    /// Fails where a file lies in the trash of a home: what is moved out of it is restored, and cannot be moved back there.
    fn must_not_be_trash(&self, spot: &PlacePath) -> Result<(), WorkerFailure> {
        let home = &self.place(spot.place)?.home;
        let path = home.as_ref().map(|home| home.path_of(&spot.path));
        let first = path.as_ref().and_then(|path| path.components().next());
        match first.is_some_and(|name| name.bytes() == TRASH) {
            true => Err(plain(
                FailureReason::Protected,
                format!(
                    "{}: it lies in the trash, and a move out of there could not be taken back; undo what removed it, or copy it",
                    spot.shown
                ),
            )),
            false => Ok(()),
        }
    }

    fn make_staged(&self, staged: &OwnedFd, shown: &str) -> Result<OwnedFd, WorkerFailure> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let made = open_beneath(staged.as_fd(), self.name.as_bytes(), flags, mode);
        made.map_err(|error| at(shown, &error))
    }

    fn link(&self, file: &OwnedFd, to: &EntrySlot<'_>) -> Result<(), WorkerFailure> {
        use std::os::fd::AsRawFd;
        let number = file.as_raw_fd().to_string();
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(self.numbers, &number, &to.dir, to.name(), follow)
            .map_err(os(to.shown(), "linkat"))
    }

    fn delete(&mut self, from: &'w PlacePath) -> Result<WorkerOutput, WorkerFailure> {
        let place = self.place(from.place)?;
        let source = self.source(place, from)?;
        let made = self.made(&source.file, source.slot.shown())?;
        self.tell_found(&source, Some(&made))?;
        self.remove(place, &source)?;
        Ok(made)
    }

    /// Moves a file into the trash of its home, or into the vault.
    fn remove(&self, place: &'w WorkerPlace, source: &SourceFile<'_>) -> Result<(), WorkerFailure> {
        let slot = &source.slot;
        if place.home.is_some() {
            // The name may have come to mean another file by now; the supervisor sees which one lies in the trash.
            rustix::fs::unlinkat(&slot.dir, slot.name(), AtFlags::empty())
                .map_err(os(slot.shown(), "unlinkat"))?;
            failpoint::reach_in_worker("after_act");
            return slot.sync().map_err(late);
        }
        let path = WorldPath::parse(self.name.as_bytes()).map_err(|error| at("vault", &error))?;
        let vault = EntrySlot::of(&place.kept, &path, "the vault")?;
        vault.prepare_sync()?;
        match shift(source, &vault) {
            Ok(()) => {
                failpoint::reach_in_worker("after_backup");
                vault.sync().map_err(late)?;
                slot.sync().map_err(late)
            }
            Err(MoveFailure::OtherFileSystem) => Err(no_vault(source)),
            Err(MoveFailure::Failed(why)) => Err(why),
        }
    }

    /// Moves what was removed back.
    fn restore(
        &mut self,
        entry: &'w EscapedBytes,
        to: &'w PlacePath,
    ) -> Result<WorkerOutput, WorkerFailure> {
        let place = self.place(to.place)?;
        let shown = match place.home {
            Some(_) => "the entry of the trash",
            None => "the entry of the vault",
        };
        let path = WorldPath::parse(&entry.0).map_err(|error| at(shown, &error))?;
        let to = EntrySlot::in_place(place, to)?;
        let node = EntrySlot::of(&place.kept, &path, shown)?;
        let file = node.open(&node.file()?)?;
        let source = SourceFile {
            node: node.file()?,
            slot: EntrySlot::of(&place.kept, &path, shown)?,
            file,
            in_home: place.home.is_some(),
        };
        self.expected.check(&FileStamp::of(source.meta()), shown)?;
        to.must_be_free()?;
        to.prepare_sync()?;
        source.slot.prepare_sync()?;
        let made = self.made(&source.file, shown)?;
        self.tell_found(&source, Some(&made))?;
        match shift(&source, &to) {
            Ok(()) => {
                failpoint::reach_in_worker("after_act");
                to.sync().map_err(late)?;
                source.slot.sync().map_err(late)?;
                Ok(made)
            }
            Err(MoveFailure::OtherFileSystem) => Err(plain(
                FailureReason::OtherFileSystem,
                format!("{}: {shown} is on another file system", to.shown()),
            )),
            Err(MoveFailure::Failed(why)) => Err(why),
        }
    }

    fn look(
        &self,
        slot: Result<EntrySlot<'_>, WorkerFailure>,
    ) -> Result<WorkerReport, WorkerFailure> {
        // Its directory may be gone, too.
        let Ok(slot) = slot else {
            return Ok(WorkerReport::Nothing);
        };
        let found = slot.stat()?;
        // What is settled by this is answered for, also after a power cut. A directory that cannot be read is not opened for that.
        if slot.prepare_sync().is_ok() {
            slot.sync_entries()?;
        }
        match found {
            // Its content is not read: it may be anybody's, and of any length.
            Some(meta) if meta.kind == FileType::RegularFile => {
                Ok(WorkerReport::There(FoundFile {
                    stamp: FileStamp::of(&meta),
                    sha256: None,
                }))
            }
            _ => Ok(WorkerReport::Nothing),
        }
    }

    fn sweep(&self, number: usize) -> Result<WorkerReport, WorkerFailure> {
        if let Some(home) = &self.place(number)?.home {
            match rustix::fs::unlinkat(&home.staged, &self.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    return Err(os("a copy that did not become whole", "unlinkat")(errno));
                }
            }
        }
        Ok(WorkerReport::Nothing)
    }
}

/// Makes a file without a name in a directory.
fn make_unnamed(to: &EntrySlot<'_>) -> Result<OwnedFd, WorkerFailure> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&to.dir, ".", flags, Mode::RUSR | Mode::WUSR);
    made.map_err(|errno| match errno {
        Errno::OPNOTSUPP | Errno::ISDIR => plain(FailureReason::Unsupported, format!(
            "{}: its file system makes no files without a name (O_TMPFILE), and no half copy may be seen",
            to.shown()
        )),
        errno => os(to.shown(), "open")(errno),
    })
}

/// Says that a worker cannot begin.
pub(super) fn cannot_begin(error: &Error) -> WorkerReport {
    WorkerReport::Failed(plain(FailureReason::of(error), error.full_message()))
}
