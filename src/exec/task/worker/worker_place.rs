//! The places that a worker works in, by the descriptors that came with its order.

use std::cell::OnceCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, OFlags};

use super::super::failure_reason::FailureReason;
use super::worker_failure::{StepResult, at, os, plain};
use super::worker_order::{PlaceKind, PlacePath};
use crate::client::{LiveRun, RunRegistry};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::root::stat_fd;
use crate::world::store::layout::STATE;
use crate::world::{Dir, Id, Meta, Node, Root, Run};

/// A place.
#[derive(Debug)]
pub(super) struct WorkerPlace {
    root: Root,
    /// The trash of its home, or the vault.
    pub(super) kept: Root,
    /// The further parts of a home; `None` for a plain directory.
    pub(super) home: Option<WorkerHome>,
}

/// The parts of a mounted home that a worker has besides its files.
#[derive(Debug)]
pub(super) struct WorkerHome {
    /// The run, as the daemon knows it.
    pub(super) run: Rc<LiveRun>,
    /// The directory of what is not whole yet.
    pub(super) staged: OwnedFd,
    /// The store, by its state directory.
    store: Id,
    /// The path of the place in the home.
    prefix: WorldPath,
}

impl WorkerHome {
    /// Returns a path of the place as one of the whole home.
    pub(super) fn path_of(&self, path: &WorldPath) -> WorldPath {
        let mut whole = self.prefix.clone();
        path.components().for_each(|name| whole.push(name));
        whole
    }
}

impl WorkerPlace {
    /// Makes one of its descriptors.
    ///
    /// # Errors
    /// [`Error::Refused`] where the daemon does not take the run; `EBADF` where descriptors are missing.
    pub(super) fn take(
        kind: &PlaceKind,
        descriptors: &mut impl Iterator<Item = OwnedFd>,
        run: &Run,
        others: &[WorkerPlace],
    ) -> Result<WorkerPlace> {
        let mut next = || {
            let missing = || Error::os("recvmsg")(rustix::io::Errno::BADF);
            descriptors.next().ok_or_else(missing)
        };
        let (root, kept) = (Root::from_fd(next()?)?, Root::from_fd(next()?)?);
        let home = match kind {
            PlaceKind::Plain => None,
            PlaceKind::Home { prefix } => {
                let state = next()?;
                let store = stat_fd(state.as_fd())?.id;
                let same = others.iter().filter_map(|place| place.home.as_ref());
                let same = same.into_iter().find(|home| home.store == store);
                Some(WorkerHome {
                    staged: next()?,
                    // A home has one run, whatever directories of it are bases.
                    run: match same {
                        Some(home) => home.run.clone(),
                        None => Rc::new(RunRegistry::from_state_dir(state).begin(run)?),
                    },
                    store,
                    prefix: prefix.clone(),
                })
            }
        };
        Ok(WorkerPlace { root, kept, home })
    }

    /// Returns copies of the descriptors of all directories that the worker may work in.
    ///
    /// # Errors
    /// Errors of `fcntl(2)`.
    pub(super) fn directories(&self) -> Result<Vec<OwnedFd>> {
        let staged = self.home.iter().map(|home| home.staged.as_fd());
        let all = [self.root.as_fd(), self.kept.as_fd()]
            .into_iter()
            .chain(staged);
        all.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(Error::os("fcntl")))
            .collect()
    }

    /// Returns the root of the place.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }
}

/// A name in a directory that is open.
#[derive(Debug)]
pub(super) struct EntrySlot<'s> {
    pub(super) root: &'s Root,
    pub(super) dir: Dir,
    name: Name<'s>,
    shown: &'s str,
    /// The directory, open for being waited for.
    syncable: OnceCell<OwnedFd>,
}

impl<'s> EntrySlot<'s> {
    /// Resolves the directory of a path.
    pub(super) fn of(
        root: &'s Root,
        path: &'s WorldPath,
        shown: &'s str,
    ) -> StepResult<EntrySlot<'s>> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(plain(
                FailureReason::IsDirectory,
                format!("{shown}: a base itself is no file"),
            ));
        };
        let dir = root.dir(&parent).map_err(|error| at(shown, &error))?;
        Ok(EntrySlot {
            root,
            dir,
            name,
            shown,
            syncable: OnceCell::new(),
        })
    }

    /// Resolves the directory of a spot.
    pub(super) fn in_place(
        place: &'s WorkerPlace,
        spot: &'s PlacePath,
    ) -> StepResult<EntrySlot<'s>> {
        // A home shows none. Below a plain base a store may lie that nobody has mounted.
        let is_state = |name: Name<'_>| name.bytes() == STATE;
        if place.home.is_none() && spot.path.components().any(is_state) {
            let shown = &spot.shown;
            return Err(plain(
                FailureReason::Protected,
                format!("{shown}: it lies in the state of a store"),
            ));
        }
        EntrySlot::of(place.root(), &spot.path, &spot.shown)
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &'s [u8] {
        self.name.bytes()
    }

    /// Returns the path as it was given.
    pub(super) fn shown(&self) -> &'s str {
        self.shown
    }

    /// Returns what stands here.
    pub(super) fn stat(&self) -> StepResult<Option<Meta>> {
        match self.dir.stat(self.name) {
            Ok(meta) => Ok(Some(meta)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(at(self.shown, &error)),
        }
    }

    /// Returns the regular file that stands here.
    pub(super) fn file(&self) -> StepResult<Node> {
        let node = self.dir.node(self.name);
        let node = node.map_err(|error| at(self.shown, &error))?;
        match node.meta().kind {
            FileType::RegularFile => Ok(node),
            kind => Err(plain(
                reason_of(kind),
                format!("{}: {} is no regular file", self.shown, noun(kind)),
            )),
        }
    }

    /// Fails where something stands here.
    pub(super) fn must_be_free(&self) -> StepResult<()> {
        match self.stat()? {
            None => Ok(()),
            Some(_) => Err(at(self.shown, &Error::Exists)),
        }
    }

    /// Opens a file for reading its content.
    pub(super) fn open(&self, node: &Node) -> StepResult<OwnedFd> {
        let quietly = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME;
        let opened = self.root.reopen(node, quietly);
        let opened = opened.or_else(|_| self.root.reopen(node, OFlags::RDONLY | OFlags::NONBLOCK));
        let file = opened.map_err(|error| at(self.shown, &error))?;
        let meta = stat_fd(file.as_fd()).map_err(|error| at(self.shown, &error))?;
        match meta.kind == FileType::RegularFile && meta.id == node.meta().id {
            true => Ok(file),
            false => Err(plain(
                FailureReason::Changed,
                format!("{}: another file has taken its place", self.shown),
            )),
        }
    }

    /// Opens the directory for [`EntrySlot::sync`], before anything is done in it: a change that could not be waited for is not made.
    pub(super) fn prepare_sync(&self) -> StepResult<()> {
        if self.syncable.get().is_none() {
            let opened = self.root.read_dir(&self.dir);
            let _ = self
                .syncable
                .set(opened.map_err(|error| at(self.shown, &error))?);
        }
        Ok(())
    }

    /// Waits until the entries of the directory are on disk.
    pub(super) fn sync_entries(&self) -> StepResult<()> {
        self.prepare_sync()?;
        match self.syncable.get() {
            Some(dir) => rustix::fs::fsync(dir).map_err(os(self.shown, "fsync")),
            None => Ok(()),
        }
    }

    /// Waits until the entries of the directory are on disk, and sees that the directory is still where it was.
    ///
    /// # Errors
    /// It is not: what was done in it is out of the base by now, and for settling to find out.
    pub(super) fn sync(&self) -> StepResult<()> {
        self.sync_entries()?;
        let is_there = self.root.dir(self.dir.path());
        match is_there.is_ok_and(|dir| dir.id() == self.dir.id()) {
            true => Ok(()),
            false => Err(plain(
                FailureReason::Changed,
                format!("{}: its directory was moved at this moment", self.shown),
            )),
        }
    }
}

/// Returns the reason why something of this type is no regular file.
fn reason_of(kind: FileType) -> FailureReason {
    match kind {
        FileType::Directory => FailureReason::IsDirectory,
        FileType::Symlink => FailureReason::Symlink,
        _ => FailureReason::NotRegular,
    }
}

fn noun(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}
