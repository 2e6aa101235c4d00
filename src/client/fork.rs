//! Forking a store, and merging: where a fork lies, how it comes into being at once, and what it remembers.
//!
//! A fork is made in a directory beside its place (`.NAME.forking`), which is renamed when everything in it is whole.
//! So a fork that was killed has left either nothing at its place or all of it; what it left beside is cleared away by
//! the next attempt. The directory's lock tells an attempt that is under way from one that died.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::enclosing::named_directory;
use super::target::{Client, DirectorySite, site};
use crate::control::{ControlAnswer, ControlRequest};
use crate::daemon::expect_not_nested;
use crate::error::{Error, Result};
use crate::mounts::table;
use crate::name::{Name, escape};
use crate::operator::fork::{self, ForkCounts};
use crate::operator::merge::{self, MergeReport, MergeRequest};
use crate::operator::point::Operation;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::forked::{ForkMethod, ForkOrigin, forked_from};
use crate::world::store::inode_lists;
use crate::world::store::layout::{FORK, STATE, TRASH, unfinished_fork};
use crate::world::store::origin;
use crate::world::store::state::open_unlocked;
use crate::world::store::state_files;
use crate::world::{Caller, Root, World, WorldOptions, last_mounted_with, new_session_id};

/// The checkpoint that a fork begins with.
const FORK_CHECKPOINT: &str = "forked";

/// A fork that has been made.
#[derive(Debug, serde::Serialize)]
pub struct ForkReport {
    /// The fork's store, escaped.
    pub store: String,
    /// The origin's store, escaped.
    pub origin: String,
    /// The origin's newest record that it includes; absent where the origin has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<Operation>,
    /// The means by which the fork got its contents.
    pub means: ForkMethod,
    /// The counts of what the fork has.
    #[serde(flatten)]
    pub counts: ForkCounts,
    /// Notes on what the fork lacks or has otherwise than its origin, with the reason.
    pub notes: Vec<String>,
}

impl Client {
    /// As [`Client::open`]; a directory that nobody has mounted yet becomes a store first, as by mounting it.
    ///
    /// # Errors
    /// As [`Client::open`], and those of making its `.trumanfs`.
    pub fn open_or_begin(target: &Path) -> Result<Client> {
        let target = &*named_directory(target)?;
        let is_new = matches!(site(target)?, DirectorySite::Store)
            && open_unlocked(&Root::open_store(target)?.for_operator())?.is_none();
        if is_new {
            let (world, _) = World::open_offline(target)?;
            world.close();
        }
        Client::open(target)
    }

    /// Makes a second store with everything that this one has now. `name` is a path, or a name beside this store.
    ///
    /// # Errors
    /// [`Error::Conflict`] where something is at that place, or a fork is just being made there; [`Error::Refused`]
    /// where blocks cannot be shared, and for a place in a store or a home; [`Error::Missing`] where its directory is
    /// not there. Nothing is at the place then.
    pub fn fork(&self, name: &Path, means: ForkMethod) -> Result<ForkReport> {
        let place = ForkPlace::of(&self.path, name)?;
        let unfinished = UnfinishedFork::begin(&place)?;
        let origin = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let origin = escape(origin.as_os_str().as_bytes());
        // What programs have written counts as done.
        self.flush()?;
        self.seal();
        let point = fork::newest(&self.store)?;
        let identity = origin::store_id(self.store.state().as_fd())?;
        let at = point.as_ref().map(ToString::to_string);
        let mut note = ForkOrigin::now(origin.clone(), identity, at, means);
        let root = unfinished.root()?;
        let made = unfinished.state(&root).and_then(|state| {
            let file = note.begin(state.as_fd())?;
            let made = fork::make_fork(&self.store, point.as_ref(), &root, means)?;
            if !made.hidden.is_empty() {
                inode_lists::write_pinned(state.as_fd(), &made.hidden, root.id().0)?;
            }
            Ok((made, file))
        });
        let done = made.and_then(|(mut made, file)| {
            self.first_session(&root)?;
            state_files::give_to_owners_of(&root, self.store.root())?;
            made.finish(&root)?;
            note.finish(&file, root.as_fd())?;
            unfinished.move_into_place(&place)?;
            Ok(made)
        });
        let made = done.map_err(|error| {
            unfinished.delete_made(&place);
            place.is_full(error)
        })?;
        Ok(ForkReport {
            store: escape(place.path().as_os_str().as_bytes()),
            origin,
            point,
            means,
            counts: made.counts,
            notes: made.notes,
        })
    }

    /// Returns what this store remembers of its origin; `None` where it is no fork.
    ///
    /// # Errors
    /// As [`forked_from`].
    pub fn forked_from(&self) -> Result<Option<ForkOrigin>> {
        forked_from(self.store.state().as_fd())
    }

    /// Brings in what was changed in a fork of this store.
    ///
    /// # Errors
    /// As [`merge::perform`]; as [`Client::open`] where either store cannot be had.
    pub fn merge(&self, fork: &Client, request: &MergeRequest) -> Result<MergeReport> {
        // What programs have written counts as done.
        fork.flush()?;
        fork.seal();
        if request.dry_run {
            self.seal();
            return merge::perform(&self.store, request, None, Caller::myself());
        }
        self.make_change(
            &ControlRequest::Merge(request.clone()),
            |answer| match answer {
                ControlAnswer::Merged(report) => Some(*report),
                _ => None,
            },
            |store, backend| merge::perform(store, request, Some(backend), Caller::myself()),
        )
    }

    /// Begins the fork's own records, with what the origin was last mounted with, and a name for this moment.
    fn first_session(&self, root: &Root) -> Result<()> {
        let last = last_mounted_with(self.store.root())?;
        let options = WorldOptions::as_last_mounted(new_session_id(), last);
        let (world, _) = World::begin_session((root.duplicate()?, None), options)?;
        let noted = world.note_checkpoint(FORK_CHECKPOINT, Caller::myself());
        world.close();
        noted.map(drop)
    }
}

/// The place where a fork is made.
struct ForkPlace {
    /// The directory that it lies in.
    parent: PathBuf,
    dir: OwnedFd,
    name: Vec<u8>,
}

impl ForkPlace {
    fn of(store: &Path, name: &Path) -> Result<ForkPlace> {
        let mut parts = name.components();
        let is_name = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        );
        let whole = if is_name {
            let store = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
            store.parent().unwrap_or(&store).join(name)
        } else {
            std::path::absolute(name).map_err(|error| Error::io("getcwd", &error))?
        };
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(Error::usage(
                format!("{} cannot be the place of a fork", name.display()),
                "Give a name, for a directory beside the store, or the path of one that is not there yet.",
            ));
        };
        let parent = std::fs::canonicalize(parent).map_err(|error| Error::Missing {
            what: format!("{}: {}", parent.display(), crate::error::reason(&error)),
            remedy: "Give the path of a directory that is not there yet, in one that is."
                .to_owned(),
        })?;
        let place = parent.join(name);
        if std::fs::metadata(&parent).is_ok_and(|parent| table::holds(&parent)) {
            return Err(Error::refused(
                format!("{} lies in a home", place.display()),
                "What changes in it would be recorded twice. Give a place beside the store.",
            ));
        }
        if [STATE, TRASH].contains(&name.as_bytes()) {
            return Err(Error::refused(
                format!("{} cannot be the place of a fork", place.display()),
                "A store's own directories have the names .trumanfs and .trash. Choose another one.",
            ));
        }
        expect_not_nested(&place).map_err(|error| match error {
            Error::Refused { what, .. } => Error::refused(
                what,
                "What changes in it would be recorded twice. Give a place beside the store.",
            ),
            error => error,
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&parent, flags, Mode::empty()).map_err(Error::os("open"))?;
        let place = ForkPlace {
            parent,
            dir,
            name: name.as_bytes().to_vec(),
        };
        Name::new(&place.name)?;
        if place.is_taken() {
            Err(place.taken_error())
        } else {
            Ok(place)
        }
    }

    fn path(&self) -> PathBuf {
        self.parent
            .join(std::ffi::OsString::from_vec(self.name.clone()))
    }

    fn is_taken(&self) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statat(&self.dir, self.name.as_slice(), flags).is_ok()
    }

    fn taken_error(&self) -> Error {
        Error::Conflict {
            what: format!("{} is there already", self.path().display()),
            remedy: "Nothing was changed. Choose another name.".to_owned(),
        }
    }

    fn is_closed(&self) -> Error {
        let me = rustix::process::geteuid().as_raw();
        Error::System {
            what: format!(
                "{}: user {me} may make no directory there",
                self.parent.display()
            ),
            remedy: "A fork lies beside its store unless another place is given: give the path of one in a directory \
                     that this user may write to, on the same file system."
                .to_owned(),
        }
    }

    /// Names the disk that is full: it need not be the store's.
    fn is_full(&self, error: Error) -> Error {
        match error.errno() {
            Errno::NOSPC | Errno::DQUOT => Error::System {
                what: format!("{}: the disk is full, or a quota is used up", self.path().display()),
                remedy: "Nothing was made. A fork by --copy takes as much space as its store; give the path of a place on \
                         another disk, or make space (`trumanfs trash usage` of a store says what takes it)."
                    .to_owned(),
            },
            _ => error,
        }
    }

    fn unfinished_name(&self) -> Vec<u8> {
        unfinished_fork(&self.name)
    }
}

/// The directory that a fork is made in, locked. What it is can be told by the note in its `.trumanfs`.
struct UnfinishedFork {
    fd: OwnedFd,
}

impl UnfinishedFork {
    /// Makes the directory, or takes over the one that a killed attempt has left.
    fn begin(place: &ForkPlace) -> Result<UnfinishedFork> {
        let name = place.unfinished_name();
        let at = || {
            place
                .parent
                .join(std::ffi::OsString::from_vec(name.clone()))
        };
        match rustix::fs::mkdirat(&place.dir, name.as_slice(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Err(place.is_closed()),
            Err(errno) => {
                return Err(Error::os_on("mkdirat", || at().display().to_string())(
                    errno,
                ));
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let not_ours = || {
            Error::refused(
                format!("{} is there, and no unfinished fork", at().display()),
                "A fork is made in a directory of this name until it is whole. Move it away, or choose another name.",
            )
        };
        let fd = match open_beneath(place.dir.as_fd(), &name, flags, Mode::empty()) {
            // Another user's, a link, a file.
            Err(error) if !matches!(error.errno(), Errno::MFILE | Errno::NFILE) => {
                log::debug!("{}: {error}", at().display());
                return Err(not_ours());
            }
            opened => opened?,
        };
        let busy = || Error::Conflict {
            what: format!("a fork is just being made at {}", place.path().display()),
            remedy: "Wait for it, or choose another name.".to_owned(),
        };
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(busy()),
            locked => locked.map_err(Error::os("flock"))?,
        }
        // It may have become the fork, or gone, between opening it and its lock.
        let there = open_beneath(place.dir.as_fd(), &name, flags, Mode::empty());
        let is_it =
            there.and_then(|there| Ok(stat_fd(there.as_fd())?.id == stat_fd(fd.as_fd())?.id));
        if !matches!(is_it, Ok(true)) {
            return Err(busy());
        }
        let unfinished = UnfinishedFork { fd };
        if !unfinished.is_new_or_leftover()? {
            return Err(not_ours());
        }
        // A killed attempt may have given it to the owner of the origin already.
        let (me, group) = (rustix::process::geteuid(), rustix::process::getegid());
        if stat_fd(unfinished.fd.as_fd())?.uid != me.as_raw() {
            rustix::fs::fchown(&unfinished.fd, Some(me), Some(group)).map_err(|_| not_ours())?;
        }
        rustix::fs::fchmod(&unfinished.fd, Mode::RWXU).map_err(Error::os("fchmod"))?;
        fork::delete_entries(&unfinished.root()?)?;
        Ok(unfinished)
    }

    /// Returns whether the directory is new, or what an attempt has left.
    fn is_new_or_leftover(&self) -> Result<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let note = [STATE, FORK.as_bytes()].join(&b'/');
        if open_beneath(self.fd.as_fd(), &note, flags, Mode::empty()).is_ok() {
            return Ok(true);
        }
        let entries = rustix::fs::Dir::read_from(&self.fd).map_err(Error::os("getdents64"))?;
        let mut others = entries.filter(|entry| {
            let name = entry.as_ref().map(|entry| entry.file_name().to_bytes());
            !name.is_ok_and(|name| matches!(name, b"." | b"..") || name == STATE)
        });
        Ok(others.next().is_none())
    }

    fn root(&self) -> Result<Root> {
        Root::from_fd(rustix::io::fcntl_dupfd_cloexec(&self.fd, 0).map_err(Error::os("fcntl"))?)
    }

    /// Makes the fork's own directory.
    fn state(&self, root: &Root) -> Result<OwnedFd> {
        rustix::fs::mkdirat(root, STATE, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_beneath(root.as_fd(), STATE, flags, Mode::empty())
    }

    /// Puts the whole fork at its place, when everything in it is on the disk.
    fn move_into_place(&self, place: &ForkPlace) -> Result<()> {
        rustix::fs::syncfs(&self.fd).map_err(Error::os("syncfs"))?;
        let (from, to) = (place.unfinished_name(), place.name.as_slice());
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&place.dir, from.as_slice(), &place.dir, to, flags) {
            Err(Errno::EXIST) => Err(place.taken_error()),
            moved => moved.map_err(Error::os_on("renameat2", || {
                place.path().display().to_string()
            })),
        }
    }

    /// Deletes what was made. What cannot be deleted is cleared away by the next attempt.
    fn delete_made(&self, place: &ForkPlace) {
        let emptied = self.root().and_then(|root| fork::delete_entries(&root));
        let name = place.unfinished_name();
        if emptied.is_ok() {
            let _ = rustix::fs::unlinkat(&place.dir, name.as_slice(), AtFlags::REMOVEDIR);
        }
    }
}
