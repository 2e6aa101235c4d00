//! The place of a store's own directories where that is not the store: a directory for each store in the state home of
//! its owner, `$XDG_STATE_HOME/trumanfs/ID`.
//!
//! Owns how such a place is named, found, tried and made. ID is the inode number and the birth of the store's directory:
//! it stays when that is moved, and a copy has another one. Both lie on one mount, because what is removed or kept moves
//! between them by one `renameat2(2)`; a file system without births has no such places. A place is never removed here:
//! whoever has just found it would work in nothing. One that somebody else may have made is not believed.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::name::{EscapedBytes, Name, WorldPath};
use crate::sys::users;
use crate::world::RunId;
use crate::world::root::{HiddenDir, Root, StatePlace, stat_fd};
use crate::world::store::layout::{AGENT_FORKS, AGENTS, STATE, TRASH};
use crate::world::store::state_files::give_to;
use crate::world::trash::erase::erase;
use trumanfs_types::meta::Meta;

/// The directory of all states of a user, in the user's state home.
const DIRECTORY: &str = "trumanfs";
/// The file of a [`PlaceNote`], beside the store's own directories.
const NOTE: &str = "store.json";
/// The longest such file.
const MAX_NOTE_BYTES: u64 = 64 << 10;
/// The beginning of the name by which moves between store and place are tried.
const TRIED: &str = ".trumanfs-try-";
/// The mode of a place: whoever acts on the store must get to the trash.
const PLACE_MODE: u32 = 0o711;

/// The directory of what was added to profiles of agents, in the state home.
const PROFILES: &str = "profiles";
/// The beginning of the name of the directory of running agents, there too; the user follows.
const RUNNING: &str = "running";

const DIR_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The note in a place about its store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PlaceNote {
    /// The store's ID.
    pub id: String,
    /// The store's path when an agent last began there. A hint: the ID decides.
    pub path: EscapedBytes,
}

/// A directory of the user's for one kind of files (XDG Base Directory Specification).
struct XdgBase {
    variable: &'static str,
    /// Its usual place, below the user's home.
    usual: &'static str,
}

const STATE_BASE: XdgBase = XdgBase {
    variable: "XDG_STATE_HOME",
    usual: ".local/state",
};
const CACHE_BASE: XdgBase = XdgBase {
    variable: "XDG_CACHE_HOME",
    usual: ".cache",
};

/// The directory of all states of one user, or of all caches of their agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateHome {
    /// The path of the place, which may not exist yet.
    pub path: PathBuf,
    /// The user and the group that it belongs to, where that is not this process's user.
    owner: Option<(u32, u32)>,
}

impl StateHome {
    /// Returns that of this process's user.
    pub fn own() -> Option<StateHome> {
        StateHome::own_in(&STATE_BASE)
    }

    fn own_in(base: &XdgBase) -> Option<StateHome> {
        let set = std::env::var_os(base.variable).map(PathBuf::from);
        let set = set.filter(|dir| dir.is_absolute());
        let home = || std::env::var_os("HOME").map(PathBuf::from);
        let above = match set {
            Some(set) => set,
            None => home().filter(|home| home.is_absolute())?.join(base.usual),
        };
        let path = above.join(DIRECTORY);
        Some(StateHome { path, owner: None })
    }

    /// Returns that for a store: for root that of the store's owner.
    pub fn of_store(store: &Meta) -> Option<StateHome> {
        StateHome::of_store_in(&STATE_BASE, store)
    }

    fn of_store_in(base: &XdgBase, store: &Meta) -> Option<StateHome> {
        if !rustix::process::geteuid().is_root() || store.uid == 0 {
            return StateHome::own_in(base);
        }
        let owner = Some((store.uid, store.gid));
        let is_owners = |home: &StateHome| {
            let above = home.path.parent().unwrap_or(&home.path);
            let dir = rustix::fs::openat(CWD, above, DIR_FLAGS, Mode::empty());
            dir.is_ok_and(|dir| stat_fd(dir.as_fd()).is_ok_and(|meta| meta.uid == store.uid))
        };
        if let Some(home) = StateHome::own_in(base).filter(is_owners) {
            return Some(StateHome { owner, ..home });
        }
        let path = users::home(store.uid)?.join(base.usual).join(DIRECTORY);
        Some(StateHome { path, owner })
    }

    /// Returns the place of a store, if it has one here. One of another user, and one of another store, is none.
    fn place(&self, id: &str, store: &Meta) -> Option<StatePlace> {
        let path = self.path.join(id);
        let fd = rustix::fs::openat(CWD, &path, DIR_FLAGS, Mode::empty()).ok()?;
        let meta = stat_fd(fd.as_fd()).ok()?;
        let me = rustix::process::geteuid().as_raw();
        let is_safe = [me, store.uid].contains(&meta.uid) && meta.permissions() & 0o022 == 0;
        let is_of_store = read_note(&fd).is_some_and(|note| note.id == id);
        (is_safe && is_of_store && meta.id.0 == store.id.0).then_some(StatePlace { fd, path })
    }

    /// Returns all places here, with their notes.
    ///
    /// # Errors
    /// Those of reading the directory, if it is there.
    pub fn notes(&self) -> Result<Vec<(PathBuf, PlaceNote)>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = match rustix::fs::openat(CWD, &self.path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            dir => dir.map_err(Error::os("openat"))?,
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::new(dir).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let place = self.path.join(name);
            let opened = rustix::fs::openat(CWD, &place, DIR_FLAGS, Mode::empty());
            let note = opened.ok().and_then(|fd| read_note(&fd));
            let is_of_name = |note: &PlaceNote| OsStr::new(&note.id) == name;
            found.extend(note.filter(is_of_name).map(|note| (place, note)));
        }
        Ok(found)
    }

    /// Returns the path of the directory of what the owner's answers have added to profiles of agents. No home shows it.
    pub fn profiles_path(&self) -> PathBuf {
        self.path.join(PROFILES)
    }

    /// Opens that directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] where it is not there.
    pub fn open_profiles(&self) -> Result<OwnedFd> {
        let flags = DIR_FLAGS | OFlags::NOFOLLOW;
        rustix::fs::openat(CWD, self.profiles_path(), flags, Mode::empty())
            .map_err(Error::os("openat"))
    }

    /// Opens that directory, and makes it where it is not there.
    ///
    /// # Errors
    /// Errors of making it.
    pub fn make_profiles(&self) -> Result<OwnedFd> {
        self.make()?;
        let above = rustix::fs::openat(CWD, &self.path, DIR_FLAGS, Mode::empty())
            .map_err(Error::os("openat"))?;
        make_dir(&above, PROFILES.as_bytes(), 0o700, self.owner)
    }

    /// Gives a file to the user that this belongs to, if that is not this process's.
    ///
    /// # Errors
    /// As `fchownat(2)`.
    pub fn give(&self, file: impl AsFd) -> Result<()> {
        give_to(file.as_fd(), self.owner)
    }

    /// Makes the directory.
    fn make(&self) -> Result<()> {
        let refused = |error: std::io::Error| Error::io("mkdir", &error);
        let Some((uid, _)) = self.owner else {
            let mut dirs = std::fs::DirBuilder::new();
            let made = dirs.recursive(true).mode(0o700).create(&self.path);
            return made.map_err(refused);
        };
        // Another user's directory may hold links: none is followed on the way.
        let base = users::home(uid).filter(|home| self.path.starts_with(home));
        let base = base.as_deref().or(self.path.parent());
        let base = base.ok_or(Error::NotFound)?;
        let mut here =
            rustix::fs::openat(CWD, base, DIR_FLAGS, Mode::empty()).map_err(Error::os("openat"))?;
        for part in self.path.strip_prefix(base).unwrap_or(&self.path) {
            here = make_dir(&here, part.as_bytes(), 0o700, self.owner)?;
            if stat_fd(here.as_fd())?.uid != uid {
                return Err(Error::Invalid);
            }
        }
        Ok(())
    }
}

/// Opens a directory in another one through no link, and makes it if it is not there.
fn make_dir(above: &OwnedFd, name: &[u8], mode: u32, owner: Option<(u32, u32)>) -> Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(Error::os("mkdirat")(errno)),
    };
    let flags = DIR_FLAGS | OFlags::NOFOLLOW;
    let dir = rustix::fs::openat(above, name, flags, Mode::empty()).map_err(Error::os("openat"))?;
    if made {
        // The umask may have closed it.
        crate::sys::fd::chmod(dir.as_fd(), mode).map_err(Error::os("fchmodat2"))?;
        give_to(dir.as_fd(), owner)?;
    }
    Ok(dir)
}

/// Returns the ID of a store; `None` where its file system keeps no birth.
pub fn id_of(store: &Meta) -> Option<String> {
    (store.born != 0).then(|| format!("{:x}-{:x}", store.id.1, store.born))
}

fn read_note(place: &OwnedFd) -> Option<PlaceNote> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place, NOTE, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    let mut file = std::fs::File::from(file).take(MAX_NOTE_BYTES);
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Writes the note anew; a reader finds the old one or the new one.
fn write_note(place: &OwnedFd, note: &PlaceNote, owner: Option<(u32, u32)>) -> Result<()> {
    if read_note(place).as_ref() == Some(note) {
        return Ok(());
    }
    let new = format!("{NOTE}.{}", RunId::random());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place, &new, flags, Mode::RUSR | Mode::WUSR);
    let mut file = std::fs::File::from(file.map_err(Error::os("openat"))?);
    let text = serde_json::to_string(note).unwrap_or_default();
    let written = file.write_all(text.as_bytes());
    let put = written
        .map_err(|error| Error::io("write", &error))
        .and_then(|()| give_to(file.as_fd(), owner))
        .and_then(|()| {
            rustix::fs::renameat(place, &new, place, NOTE).map_err(Error::os("renameat"))
        });
    put.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(place, &new, AtFlags::empty());
    })
}

fn has_entry(dir: impl AsFd, name: &[u8]) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

impl Root {
    /// Opens a store, with its own directories where they are: in it, else in its owner's state home.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub fn open_store(path: &Path) -> Result<Root> {
        Root::open(path)?.with_known_place(path)
    }

    /// Returns the root with its store's own directories where they are. `at` is the store's path.
    ///
    /// # Errors
    /// Any error from the system calls on the root.
    pub fn with_known_place(self, at: &Path) -> Result<Root> {
        let store = stat_fd(self.as_fd())?;
        let Some(home) = StateHome::of_store(&store) else {
            return Ok(self);
        };
        let hidden = hidden_in(&home, at);
        let root = self.hiding(hidden);
        if has_entry(&root, STATE) {
            return Ok(root);
        }
        let place = id_of(&store).and_then(|id| home.place(&id, &store));
        match place.filter(|place| has_entry(&place.fd, STATE)) {
            Some(place) => root.with_state_in(Arc::new(place)),
            None => Ok(root),
        }
    }

    /// Returns the root with its own directories in a place that [`Root::with_new_place`] has made.
    ///
    /// # Errors
    /// Any error from the system calls on the root; `ENOENT` if the place is not this store's.
    pub fn with_place_at(self, place: &Path) -> Result<Root> {
        let store = stat_fd(self.as_fd())?;
        let (above, id) = (place.parent(), id_of(&store));
        let (Some(above), Some(id)) = (above, id) else {
            return Err(Error::NotFound);
        };
        let home = StateHome {
            path: above.to_owned(),
            owner: None,
        };
        let found = home.place(&id, &store).ok_or(Error::NotFound)?;
        self.with_state_in(Arc::new(found))
    }

    /// Returns the root of a directory that is to become a store, with a place in its owner's state home if it can have
    /// one, or in the directory `named`, where the state home gets a link to it. One that is a store already keeps its
    /// place.
    ///
    /// # Errors
    /// Any error from the system calls on the root; [`Error::Refused`] if the named directory cannot have it.
    pub fn with_new_place(self, at: &Path, named: Option<&Path>) -> Result<Root> {
        let store = stat_fd(self.as_fd())?;
        let (home, id) = (StateHome::of_store(&store), id_of(&store));
        let (Some(home), Some(id)) = (home, id) else {
            return match named {
                Some(named) => Err(unfit_error(
                    named,
                    "a state home and births of files are needed",
                )),
                None => Ok(self),
            };
        };
        let has_own = || [STATE, TRASH].iter().any(|name| has_entry(&self, name));
        let is_store = self.elsewhere.is_some() || has_own();
        if let Some(named) = named.filter(|_| is_store) {
            return Err(unfit_error(
                named,
                "this is a store already, and its state stays where it is",
            ));
        }
        if self.elsewhere.is_none() && is_store {
            return Ok(self);
        }
        let at = std::fs::canonicalize(at).unwrap_or_else(|_| at.to_owned());
        let path = EscapedBytes(at.as_os_str().as_bytes().to_vec());
        let note = PlaceNote { id, path };
        if let Some(place) = &self.elsewhere {
            // The project may have been moved since.
            let _ = write_note(&place.fd, &note, home.owner);
            return Ok(self);
        }
        if let Some(named) = named {
            let made = make_named_place(named, &home, &note, (&self, &store), &at);
            let made = made.map_err(|error| unfit_error(named, &error.to_string()))?;
            return self.with_state_in(Arc::new(made));
        }
        // A directory for states in the store itself would be in the way of `git clean` there, and more.
        if home.path.starts_with(&at) {
            return Ok(self);
        }
        match make_place(&home, &note, &self, &store) {
            Ok(place) => self.with_state_in(Arc::new(place)),
            Err(error) => {
                log::debug!("the state of {} lies in it: {error}", at.display());
                Ok(self)
            }
        }
    }
}

/// Refuses to work on a store by another mount than the one that its place was tried from: nothing could be moved
/// between the two.
///
/// # Errors
/// [`Error::Refused`] naming the place.
pub(in crate::world) fn expect_one_mount(root: &Root) -> Result<()> {
    let mount_of = |dir: &dyn AsFd| {
        let flags = AtFlags::EMPTY_PATH;
        let found = rustix::fs::statx(dir.as_fd(), c"", flags, StatxFlags::MNT_ID).ok()?;
        let has_it = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        has_it.then_some(found.stx_mnt_id)
    };
    let Some(place) = &root.elsewhere else {
        return Ok(());
    };
    match (mount_of(root), mount_of(&place.fd)) {
        (Some(store), Some(state)) if store != state => Err(Error::refused(
            format!(
                "the store's state, {}, lies on another mount than this path of it",
                place.path.display()
            ),
            "Nothing can be moved between the two. Give the store by the path that it was used by before.",
        )),
        _ => Ok(()),
    }
}

/// Returns the directory of agents' own directories for a store, in the state home of the store's owner. It is made if
/// it is not there.
///
/// # Errors
/// [`Error::NotFound`] where there is no state home, or the store has no ID; what making the directories says.
pub fn agent_homes(store: &Meta) -> Result<OwnedFd> {
    let home = StateHome::of_store(store).ok_or(Error::NotFound)?;
    let id = id_of(store).ok_or(Error::NotFound)?;
    home.make()?;
    let above = rustix::fs::openat(CWD, &home.path, DIR_FLAGS, Mode::empty())
        .map_err(Error::os("openat"))?;
    let agents = make_dir(&above, AGENTS.as_bytes(), 0o700, home.owner)?;
    make_dir(&agents, id.as_bytes(), 0o700, home.owner)
}

/// The directory, in the state home of a store's owner, of the forks of stores that agents work in.
#[derive(Debug)]
pub struct AgentForks {
    /// The directory.
    pub dir: OwnedFd,
    /// Its path.
    pub path: PathBuf,
    /// The ID of the store: the names of its forks begin with it.
    pub id: String,
    /// The user and the group that a directory there belongs to, where that is not this process's user.
    pub owner: Option<(u32, u32)>,
}

/// Opens the directory of the forks that agents work in. It is made if it is not there.
///
/// # Errors
/// As [`agent_homes`].
pub fn agent_forks(store: &Meta) -> Result<AgentForks> {
    let home = StateHome::of_store(store).ok_or(Error::NotFound)?;
    home.make()?;
    let above = rustix::fs::openat(CWD, &home.path, DIR_FLAGS, Mode::empty())
        .map_err(Error::os("openat"))?;
    make_dir(&above, AGENT_FORKS.as_bytes(), 0o700, home.owner)?;
    known_agent_forks(store).ok_or(Error::NotFound)
}

/// Opens the directory of the sockets of this user's running agents, with its path. It is made if it is not there. Each
/// user has one of their own: root may have another user's state home.
///
/// # Errors
/// [`Error::NotFound`] where there is no state home; [`Error::Invalid`] where others can open the directory, or it is not
/// this user's; what making the directories says.
pub fn running_agents() -> Result<(OwnedFd, PathBuf)> {
    let me = rustix::process::geteuid();
    let mut home = StateHome::own().ok_or(Error::NotFound)?;
    let mut above = home.path.ancestors();
    let above = above.find_map(|dir| rustix::fs::openat(CWD, dir, DIR_FLAGS, Mode::empty()).ok());
    if let Some(above) = above.filter(|_| me.is_root()) {
        // What root makes in another user's state home is that user's.
        let meta = stat_fd(above.as_fd())?;
        home.owner = (meta.uid != 0).then_some((meta.uid, meta.gid));
    }
    home.make()?;
    let me = me.as_raw();
    let name = format!("{RUNNING}.{me}");
    let above = rustix::fs::openat(CWD, &home.path, DIR_FLAGS, Mode::empty())
        .map_err(Error::os("openat"))?;
    let dir = make_dir(&above, name.as_bytes(), 0o700, None)?;
    let meta = stat_fd(dir.as_fd())?;
    if meta.uid != me || meta.permissions() & 0o077 != 0 {
        return Err(Error::Invalid);
    }
    Ok((dir, home.path.join(name)))
}

/// Opens the directory of the forks that agents work in, if it is there.
#[must_use]
pub fn known_agent_forks(store: &Meta) -> Option<AgentForks> {
    let home = StateHome::of_store(store)?;
    let path = home.path.join(AGENT_FORKS);
    let dir = rustix::fs::openat(CWD, &path, DIR_FLAGS | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    Some(AgentForks {
        dir,
        path,
        id: id_of(store)?,
        owner: home.owner,
    })
}

/// Opens a cache of the agents of a name, in the cache home of the store's owner: all that work for that user share it. It
/// is made if it is not there.
///
/// # Errors
/// [`Error::NotFound`] where there is no cache home; [`Error::Invalid`] where that lies in one of the stores, whose changes
/// are all recorded; what making the directories says.
pub fn agent_cache(
    (store, stores): (&Meta, &[&Path]),
    agent: &str,
    cache: &str,
) -> Result<OwnedFd> {
    let home = StateHome::of_store_in(&CACHE_BASE, store).ok_or(Error::NotFound)?;
    let mut above = home.path.ancestors();
    let above = above.find_map(|dir| std::fs::canonicalize(dir).ok());
    let above = above.ok_or(Error::NotFound)?;
    for at in stores {
        let at = std::fs::canonicalize(at).map_err(|error| Error::io("realpath", &error))?;
        if above.starts_with(&at) {
            return Err(Error::Invalid);
        }
    }
    home.make()?;
    let above = rustix::fs::openat(CWD, &home.path, DIR_FLAGS, Mode::empty())
        .map_err(Error::os("openat"))?;
    let mut names = [AGENTS, agent, cache].into_iter();
    let dir = names.try_fold(above, |above, name| {
        make_dir(&above, name.as_bytes(), 0o700, home.owner)
    })?;
    // An agent may have closed it.
    if stat_fd(dir.as_fd())?.permissions() & 0o700 != 0o700 {
        crate::sys::fd::chmod(dir.as_fd(), 0o700).map_err(Error::os("fchmodat2"))?;
    }
    Ok(dir)
}

/// Moves the state that lies in a store into a place in its owner's state home, under the store's lock. Returns where it
/// is.
///
/// # Errors
/// [`Error::Refused`] where nothing can be moved there by one rename, or something lies there.
pub(in crate::world) fn take_state(root: &Root, at: &Path) -> Result<PathBuf> {
    let refused = |what: String| Error::refused(what, "Its state stays where it is.");
    let store = stat_fd(root.as_fd())?;
    let (home, id) = (StateHome::of_store(&store), id_of(&store));
    let (Some(home), Some(id)) = (home, id) else {
        return Err(refused("there is no state home for this store".to_owned()));
    };
    let at = std::fs::canonicalize(at).unwrap_or_else(|_| at.to_owned());
    if home.path.starts_with(&at) {
        return Err(refused(format!(
            "{} lies in the store",
            home.path.display()
        )));
    }
    let path = EscapedBytes(at.as_os_str().as_bytes().to_vec());
    let place = make_place(&home, &PlaceNote { id, path }, root, &store).map_err(|error| {
        refused(format!(
            "nothing can be moved to {}: {error}",
            home.path.display()
        ))
    })?;
    let how = RenameFlags::NOREPLACE;
    let put = |name: &[u8]| rustix::fs::renameat_with(root, name, &place.fd, name, how);
    match put(TRASH) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(Error::os("renameat2")(errno)),
    }
    put(STATE).map_err(|errno| {
        let _ = rustix::fs::renameat_with(&place.fd, TRASH, root, TRASH, how);
        Error::os("renameat2")(errno)
    })?;
    Ok(place.path)
}

/// Removes an empty place, and the agents' own directories for the store of this ID. `store` has the owner.
///
/// # Errors
/// Any error from the system calls, but that something is not there.
pub fn forget(place: Option<&Path>, id: Option<&str>, store: &Meta) -> Result<()> {
    let there = |done: Result<()>| match done {
        Err(Error::NotFound) => Ok(()),
        done => done,
    };
    if let Some(place) = place {
        let unlink = |path: &Path, flags| {
            rustix::fs::unlinkat(CWD, path, flags).map_err(Error::os("unlinkat"))
        };
        let whole = std::fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        there(unlink(&whole.join(NOTE), AtFlags::empty()))?;
        there(unlink(&whole, AtFlags::REMOVEDIR))?;
        // Of one in a directory that was named.
        if let (Some(home), Some(id)) = (StateHome::of_store(store), id) {
            let _ = unlink(&home.path.join(id), AtFlags::empty());
        }
    }
    let (Some(home), Some(id)) = (StateHome::of_store(store), id) else {
        return Ok(());
    };
    let Ok(agents) = Root::open(&home.path.join(AGENTS)) else {
        return Ok(());
    };
    let agents = agents.for_operator();
    there(erase(
        &agents,
        agents.as_fd(),
        Name::new(id.as_bytes())?,
        &mut |_| {},
    ))
}

fn unfit_error(named: &Path, why: &str) -> Error {
    Error::refused(
        format!(
            "{}: the state of this store cannot lie there: {why}",
            named.display()
        ),
        "Name a directory on the mount that the store lies on, outside the store.",
    )
}

/// Makes a store's place in a directory that was named, and a link to it in the state home, by which it is found.
fn make_named_place(
    named: &Path,
    home: &StateHome,
    note: &PlaceNote,
    (root, store): (&Root, &Meta),
    at: &Path,
) -> Result<StatePlace> {
    let io = |error: std::io::Error| Error::io("realpath", &error);
    if std::path::absolute(named).map_err(io)?.starts_with(at) {
        return Err(Error::Invalid);
    }
    std::fs::create_dir_all(named).map_err(io)?;
    let path = std::fs::canonicalize(named).map_err(io)?;
    if path.starts_with(at) {
        return Err(Error::Invalid);
    }
    home.make()?;
    let there = StateHome {
        path,
        owner: home.owner,
    };
    let place = make_place(&there, note, root, store)?;
    let link = home.path.join(&note.id);
    // An agent that could not start leaves a place with no state.
    let _ = rustix::fs::unlinkat(CWD, link.join(NOTE), AtFlags::empty());
    let _ = rustix::fs::unlinkat(CWD, &link, AtFlags::REMOVEDIR);
    let _ = rustix::fs::unlinkat(CWD, &link, AtFlags::empty());
    let linked = rustix::fs::symlinkat(&place.path, CWD, &link);
    linked.map_err(Error::os("symlinkat"))?;
    write_note(&place.fd, note, home.owner)?;
    Ok(place)
}

/// Makes a store's place, if things can be moved there and back.
fn make_place(home: &StateHome, note: &PlaceNote, root: &Root, store: &Meta) -> Result<StatePlace> {
    home.make()?;
    let above = rustix::fs::openat(CWD, &home.path, DIR_FLAGS, Mode::empty())
        .map_err(Error::os("openat"))?;
    if stat_fd(above.as_fd())?.id.0 != store.id.0 {
        return Err(Error::os("renameat2")(Errno::XDEV));
    }
    let was_there = has_entry(&above, note.id.as_bytes());
    let place = make_dir(&above, note.id.as_bytes(), PLACE_MODE, home.owner)?;
    let tried = try_moves(root, &place).and_then(|()| write_note(&place, note, home.owner));
    if tried.is_err() && !was_there {
        let _ = rustix::fs::unlinkat(&above, note.id.as_bytes(), AtFlags::REMOVEDIR);
    }
    tried?;
    home.place(&note.id, store).ok_or(Error::NotFound)
}

/// Moves a new file from a place to the store and back.
fn try_moves(root: &Root, place: &OwnedFd) -> Result<()> {
    let name = format!("{TRIED}{}", RunId::random());
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(place, &name, FileType::RegularFile, mode, 0)
        .map_err(Error::os("mknodat"))?;
    let moved = rustix::fs::renameat_with(place, &name, root, &name, RenameFlags::NOREPLACE);
    let back = moved.and_then(|()| {
        let back = rustix::fs::renameat_with(root, &name, place, &name, RenameFlags::NOREPLACE);
        back.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(root, &name, AtFlags::empty());
        })
    });
    let _ = rustix::fs::unlinkat(place, &name, AtFlags::empty());
    back.map_err(Error::os("renameat2"))
}

/// Makes the state home of a store's owner where it would lie in the store, before an occupant comes in: one who made it
/// there would write what the owner's agents are allowed. A store that cannot be written has no such occupant.
pub fn make_enclosed_state_home(store: &Path) {
    let opened = rustix::fs::openat(CWD, store, DIR_FLAGS, Mode::empty());
    let meta = opened.ok().and_then(|dir| stat_fd(dir.as_fd()).ok());
    let home = meta.and_then(|meta| StateHome::of_store(&meta));
    let (Some(home), Ok(store)) = (home, std::fs::canonicalize(store)) else {
        return;
    };
    let mut above = home.path.ancestors();
    let above = above.find_map(|dir| std::fs::canonicalize(dir).ok());
    if above.is_some_and(|above| above.starts_with(store)) && !home.path.is_dir() {
        let _ = home.make();
    }
}

/// Returns the directory of states, if it lies in a store: no home shows it.
fn hidden_in(home: &StateHome, store: &Path) -> Option<HiddenDir> {
    let whole = std::fs::canonicalize(&home.path).ok()?;
    let store = std::fs::canonicalize(store).ok()?;
    let below = whole.strip_prefix(store).ok()?;
    let path = WorldPath::parse(below.as_os_str().as_bytes()).ok()?;
    let dir = rustix::fs::openat(CWD, &whole, DIR_FLAGS, Mode::empty()).ok()?;
    let id = stat_fd(dir.as_fd()).ok()?.id;
    (!path.is_root()).then_some(HiddenDir { id, path })
}
