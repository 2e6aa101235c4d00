//! Holding a home: it stays mounted while a request uses it. An unmounted store is mounted for that.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};

use super::connect::{DaemonConnection, is_silence};
use super::target::{Client, DirectorySite, PinnedDir, findable, site};
use crate::control::{ControlAnswer, ControlRequest, HeldHomeInfo};
use crate::daemon::{self, MountOptions};
use crate::error::{Error, FailureKind, Result};
use crate::mounts::unmount::unmount;
use crate::mounts::{registry, table};
use crate::name::EscapedBytes;
use crate::world::root::{open_beneath, stat_fd};
use crate::world::store::layout::SCRATCH;
use crate::world::store::state::refuse_strangers;
use crate::world::{
    KeepOptions, Root, SessionPatterns, WorldOptions, last_mounted_with, new_session_id,
};

/// The time to wait for a home that is being unmounted, and for an answer of a daemon.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(10);
/// The time that a daemon that was killed may take to end.
const KILLED_END_LIMIT: Duration = Duration::from_secs(2);
/// The number of times that a refused mount is tried again at once.
const MAX_MOUNT_ATTEMPTS: u32 = 3;
/// The number of times that a store's state may vanish while it is opened.
const MAX_VANISHED_STATES: u32 = 50;
/// The pause between two attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// The programs that enter a home that is mounted for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldFor {
    /// This process and its children, by a path.
    Host,
    /// Programs without namespaces, by the mountpoint, which they see as well as the store.
    Programs,
    /// Sandboxes, which take a mount as a descriptor, so that no path of the host leads there. Where this user may have
    /// no mount namespace, it is mounted at a path nevertheless.
    Sandboxes,
}

/// A home that stays mounted while this lives.
#[derive(Debug)]
pub struct HomeHold {
    /// The daemon counts the home as held until this ends.
    connection: DaemonConnection,
    held: HeldHomeInfo,
    /// The path by which the occupant knows the home.
    path: PathBuf,
    scratch: OwnedFd,
    client: Client,
    /// True if the store was mounted for as long as somebody holds it.
    is_temporary: bool,
}

impl Drop for HomeHold {
    /// Releases the home. If it was mounted for this and has no other holder, waits until the store is unlocked.
    fn drop(&mut self) {
        if !self.is_temporary {
            return;
        }
        if self.is_lost() {
            let home = self.mounted_at();
            // The kernel closes a killed daemon's socket and its connection to the mount one after the other.
            let end = Instant::now() + KILLED_END_LIMIT;
            while table::find(&home).is_some() && !table::has_died(&home) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
            return unmount_dead_home(&home);
        }
        self.connection.finish();
        let store = &self.client.store;
        let home = self.mounted_at();
        let end = Instant::now() + UNMOUNT_LIMIT;
        let is_there = || match self.held.only_in_sandboxes {
            true => home.exists(),
            false => table::find(&home).is_some(),
        };
        while !is_there()
            && store.served_by().is_ok_and(|holder| holder.is_some())
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl HomeHold {
    /// Returns the store behind the home.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether the home is at no path: only sandboxes enter it.
    pub fn only_in_sandboxes(&self) -> bool {
        self.held.only_in_sandboxes
    }

    /// Opens the home's root. If the home is at no path, this is a mount of its own that is nowhere yet, for one sandbox.
    ///
    /// # Errors
    /// Errors of the daemon and of open(2).
    pub fn open_home(&self) -> Result<OwnedFd> {
        if self.held.only_in_sandboxes {
            return self.client.take_tree();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, self.mounted_at(), flags, Mode::empty()).map_err(Error::os("open"))
    }

    /// Returns where the home is mounted; of a home at no path, a directory that exists as long.
    pub fn mounted_at(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.held.home.0.clone()))
    }

    /// Returns the home's path as programs in it see it: the mountpoint, or the store's path if the home was mounted
    /// for this.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user and the group that the home is for.
    pub fn owner(&self) -> (u32, u32) {
        (self.held.uid, self.held.gid)
    }

    /// Returns whether nothing in the home can be changed.
    pub fn is_read_only(&self) -> bool {
        self.held.read_only
    }

    /// Returns the session's scratch directory: `/tmp` for what runs in the home.
    pub fn scratch(&self) -> &OwnedFd {
        &self.scratch
    }

    /// Returns the path of that directory outside a sandbox.
    pub fn scratch_path(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.scratch.as_raw_fd());
        std::fs::read_link(link).unwrap_or_else(|_| "/tmp".into())
    }

    /// Makes the mountpoint the path by which programs know the home.
    ///
    /// # Errors
    /// [`Error::Refused`] for a home that is at no path.
    fn enter_at_mountpoint(&mut self) -> Result<()> {
        if self.held.only_in_sandboxes {
            return Err(Error::refused(
                format!(
                    "{}: its home is at no path: only agents in sandboxes get there",
                    self.path.display()
                ),
                "Wait until they have ended, or add --home fork.",
            ));
        }
        if !self.is_temporary {
            return Err(Error::refused(
                format!("{} is mounted for others, too", self.path.display()),
                "Unmount it first: without a sandbox, every process in the home would count as the agent.",
            ));
        }
        self.path = self.mounted_at();
        Ok(())
    }

    /// Checks that these patterns are in force.
    ///
    /// # Errors
    /// [`Error::Refused`] with those that are not.
    fn expect_patterns(&self, wanted: &SessionPatterns) -> Result<()> {
        let known = &self.held.patterns;
        let hide = wanted.hide.iter().filter(|one| !known.hide.contains(one));
        let hide = hide.map(|one| format!("--hide {one}"));
        let read_only = wanted.read_only.iter();
        let read_only = read_only.filter(|one| !known.read_only.contains(one));
        let read_only = read_only.map(|one| format!("--read-only {one}"));
        let volatile = wanted.volatile.iter();
        let volatile = volatile.filter(|one| !known.volatile.contains(one));
        let volatile = volatile.map(|one| format!("--volatile {one}"));
        let missing: Vec<String> = hide.chain(read_only).chain(volatile).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::refused(
            format!(
                "{} is mounted already, without {}",
                self.path.display(),
                missing.join(" ")
            ),
            "Unmount it, or end what works there, and start this again.",
        ))
    }

    /// Returns whether the daemon is gone, and the home with it.
    pub fn is_lost(&self) -> bool {
        self.connection.has_ended()
    }
}

/// Holds the home behind a TARGET. An unmounted store is mounted, with the options of its last mount, until its last
/// holder is gone. `pinned` is the directory that TARGET must still be; `fits` is asked before anything is mounted,
/// with the path by which the home will be known. The home has these patterns besides.
///
/// # Errors
/// Those of [`Client::open`] and of mounting; [`Error::Refused`] where the daemon cannot be asked, where TARGET is
/// another directory by now, and where the home is mounted already without one of the patterns.
pub fn hold(
    target: &Path,
    pinned: Option<&PinnedDir>,
    (entered, patterns): (HeldFor, &SessionPatterns),
    fits: &dyn Fn(&Path) -> Result<()>,
) -> Result<HomeHold> {
    let target = &*findable(target);
    let end = Instant::now() + UNMOUNT_LIMIT;
    let (mut attempts, mut vanished) = (0, 0);
    let mut own = None;
    loop {
        let held = match site_unless_served(target)? {
            DirectorySite::Home => {
                if let Some(pinned) = pinned {
                    Root::open_expecting(target, pinned.root().id())?;
                }
                Client::open(target).and_then(|client| client.hold())
            }
            DirectorySite::Store => {
                let dir = match (pinned, &mut own) {
                    (Some(pinned), _) => pinned,
                    (None, Some(own)) => own,
                    (None, own) => own.insert(PinnedDir::open(target)?),
                };
                match served_client(dir)? {
                    Some(client) => client.hold(),
                    None => match fits(&held_home_path(target))
                        .and_then(|()| mount(target, dir, (entered, patterns)))
                    {
                        // Another request has mounted it meanwhile.
                        Err(_) if served_client(dir)?.is_some() => continue,
                        // Or had, and its home has ended since: what refuses it for another reason does so again.
                        Err(error)
                            if error.kind() == FailureKind::Refused
                                && attempts < MAX_MOUNT_ATTEMPTS =>
                        {
                            attempts += 1;
                            continue;
                        }
                        mounted => mounted.and_then(|()| dir.client()?.hold()),
                    },
                }
            }
        };
        match held {
            // Another one's home is ending, or two of us have tried to mount the store.
            Err(error) if error.kind() == FailureKind::Conflict && Instant::now() < end => {
                std::thread::sleep(ATTEMPT_PAUSE);
            }
            // An agent that could not start has just removed the state that it had made.
            Err(error)
                if error.kind() == FailureKind::Missing && vanished < MAX_VANISHED_STATES =>
            {
                vanished += 1;
                std::thread::sleep(ATTEMPT_PAUSE);
            }
            held => {
                let mut held = held?;
                held.expect_patterns(patterns)?;
                if entered == HeldFor::Programs {
                    held.enter_at_mountpoint()?;
                }
                return Ok(held);
            }
        }
    }
}

/// Returns the path, without links, of a directory that is an unmounted store or may become a store.
///
/// # Errors
/// As [`site`].
pub fn unmounted_store(target: &Path) -> Result<Option<PathBuf>> {
    let is_free = site_unless_served(target)? == DirectorySite::Store
        && served_client(&PinnedDir::open(target)?)?.is_none();
    let path = || std::fs::canonicalize(target).map_err(|error| Error::io("realpath", &error));
    is_free.then(path).transpose()
}

/// As [`site`], but does not touch a home that a daemon serves: if that daemon hangs, so would this process.
pub(super) fn site_unless_served(target: &Path) -> Result<DirectorySite> {
    let has_daemon = || {
        let client = Client::open(target);
        client.is_ok_and(|client| DaemonConnection::open(client.store.state()).is_ok())
    };
    if table::find(target).is_some() && has_daemon() {
        Ok(DirectorySite::Home)
    } else {
        site(target)
    }
}

/// Returns the path by which a home of a store is known.
pub(super) fn known_path(store: &Path, home: PathBuf) -> PathBuf {
    match registry::is_temporary(&home) {
        true => held_home_path(store),
        false => home,
    }
}

/// Returns the path by which the home of a store is known that is mounted for a request.
pub(super) fn held_home_path(store: &Path) -> PathBuf {
    std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned())
}

/// Returns the store in a directory, if a daemon serves it.
pub(super) fn served_client(dir: &PinnedDir) -> Result<Option<Client>> {
    let Ok(client) = dir.client() else {
        return Ok(None);
    };
    Ok(client.store.served_by()?.map(|_| client))
}

impl Client {
    /// Holds the home of this store, which is mounted.
    fn hold(self) -> Result<HomeHold> {
        let mut connection =
            DaemonConnection::open_within(self.store.state(), UNMOUNT_LIMIT).map_err(as_ending)?;
        let answer = connection.ask(&ControlRequest::Hold);
        let held = match answer {
            Err(error) if is_silence(&error) => return Err(error),
            Err(error) if connection.is_lost() => return Err(as_ending(error)),
            Err(error) => return Err(error),
            Ok(ControlAnswer::Held(held)) => held,
            _ => return Err(Error::refused("the daemon answers another question", "")),
        };
        // A daemon of a user's can only serve that user: whatever it says, nothing is done there with more rights.
        let daemon = connection.daemon_user()?;
        if rustix::process::geteuid().is_root() && daemon != 0 && daemon != held.uid {
            return Err(Error::refused(
                format!(
                    "the daemon that serves {} runs as user {daemon}, and says that its home is for user {}",
                    self.path.display(),
                    held.uid
                ),
                "That is no daemon of trumanfs. Look what listens at .trumanfs/control.sock there.",
            ));
        }
        let scratch = self.open_scratch()?;
        let home = PathBuf::from(std::ffi::OsString::from_vec(held.home.0.clone()));
        let is_temporary = registry::is_temporary(&home);
        let path = known_path(&self.path, home);
        Ok(HomeHold {
            connection,
            held,
            path,
            scratch,
            client: self,
            is_temporary,
        })
    }
}

impl Client {
    /// Has the daemon hand over a mount of a home that is at no path.
    pub(super) fn take_tree(&self) -> Result<OwnedFd> {
        let tree = DaemonConnection::open_within(self.store.state(), UNMOUNT_LIMIT)?.take_tree()?;
        // Until it is asked for, the root belongs to user 0 (fuse_get_root_inode). In a user namespace that may have no
        // such user, and then nothing can be made there (HAS_UNMAPPED_ID). A home of another user is closed to root, and
        // in none.
        let _ = stat_fd(tree.as_fd());
        Ok(tree)
    }

    /// Opens the scratch directory of the session that has this store mounted. Nothing: it is not mounted, or no
    /// program has run in the session yet.
    ///
    /// # Errors
    /// Those of finding out who has the store, and of opening.
    pub fn scratch(&self) -> Result<Option<OwnedFd>> {
        if self.store.served_by()?.is_none() {
            return Ok(None);
        }
        match self.open_scratch() {
            Ok(scratch) => Ok(Some(scratch)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_scratch(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = self.store.state();
        open_beneath(state.as_fd(), SCRATCH.as_bytes(), flags, Mode::empty())
    }
}

/// Takes away the dead mount of a daemon that was killed: nobody else knows where it is.
fn unmount_dead_home(home: &Path) {
    if table::find(home).is_some() && table::has_died(home) {
        // This process may still have it open.
        let _ = unmount(home, true);
    }
    let _ = std::fs::remove_dir(home);
}

/// Makes an [`Error::Conflict`] of a daemon that does not answer: it may be ending, so another attempt may succeed.
fn as_ending(error: Error) -> Error {
    let (what, remedy) = error.into_words();
    Error::Conflict { what, remedy }
}

/// Mounts a store for as long as somebody holds it, for the store's owner.
fn mount(
    store: &Path,
    dir: &PinnedDir,
    (entered, patterns): (HeldFor, &SessionPatterns),
) -> Result<()> {
    let store = std::path::absolute(store).map_err(|error| Error::io("getcwd", &error))?;
    // What somebody left behind who was killed together with the daemon.
    for home in registry::temporary_homes_of(&held_home_path(&store)) {
        unmount_dead_home(&home);
    }
    let root = dir.root().duplicate_for_changes()?;
    refuse_strangers(&root, &store)?;
    let (id, owner) = (root.id(), stat_fd(root.as_fd())?.uid);
    let state = root
        .state_path()
        .map(|path| EscapedBytes(path.as_os_str().as_bytes().to_vec()));
    let is_root = rustix::process::geteuid().is_root();
    let options = WorldOptions::as_last_mounted(new_session_id(), last_mounted_with(&root)?);
    // A daemon that finds a closed directory open grants itself nothing, and must not lose the way when this one closes
    // it.
    drop(root);
    // Nothing but the daemon's start may fail from here on: it would stay.
    let home = registry::temporary_home()?;
    let wanted = MountOptions {
        store,
        store_id: Some((id.0, id.1)),
        state,
        home: home.clone(),
        owner: (is_root && owner != 0).then(|| owner.to_string()),
        hide: options.view.hide,
        read_only: options.view.read_only,
        volatile: options.volatile,
        session_patterns: patterns.clone(),
        symlinks_inside: options.view.symlinks == crate::world::SymlinkPolicy::Inside,
        list_trash: options.view.list_trash,
        durable: options.durable,
        keep: KeepOptions { ..options.keep },
        follow: true,
        passthrough: true,
        while_held: true,
        only_in_sandboxes: entered == HeldFor::Sandboxes,
        ..MountOptions::default()
    };
    daemon::start(&wanted).map(drop).inspect_err(|_| {
        let _ = std::fs::remove_dir(&home);
    })
}
