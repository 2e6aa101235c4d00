//! The daemon's own directory in the store, `.trumanfs`: the lock, the sessions, and two small lists.
//!
//! Owns its layout. All state of a home lies here, nothing is kept per host. Descriptors are opened once, while the
//! process still has its own rights, so that threads that act for an owner need none in here.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::inode_lists::{self, LINKS, PINNED, parse_links, parse_pinned};
use super::lock;
use super::meta::Id;
use super::origin::{self, Copied};
use super::own;
use super::probe;
use super::root::{BENEATH, Root, open_beneath, stat_fd};
use super::sessions;
use super::settled::Settled;
use super::view::STATE;
use crate::error::{Error, Result};

/// The file whose lock says that the store is being served.
pub const LOCK: &str = "lock";
/// The socket on which a daemon takes operators' wishes.
pub const SOCKET: &str = "control.sock";
/// The directory of sessions.
pub const SESSIONS: &str = "sessions";

/// How long the lock's text can be: a path, escaped, and little else.
const LONGEST_LOCK: u64 = 64 << 10;

/// Returns what tells one run of the machine from the next (random(4)).
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

/// Who serves a store: what a second mount is told, and how `status` finds the daemon.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Holder {
    /// The machine.
    pub host: String,
    /// The machine's boot id: a pid means nothing after another boot.
    pub boot: String,
    /// The process.
    pub pid: u32,
    /// The session.
    pub session: String,
    /// Where the home is, escaped; absent for work on an unmounted store.
    pub home: Option<String>,
    /// Since when, RFC 3339.
    pub since: String,
    /// How often this store has been locked.
    #[serde(default)]
    pub epoch: u64,
    /// Whether former contents and records are on the disk before what they are of is destroyed.
    #[serde(default)]
    pub durable: bool,
}

impl Holder {
    /// Describes this process.
    pub fn this_process(session: &str, home: Option<String>) -> Holder {
        Holder {
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            boot: boot_id(),
            pid: std::process::id(),
            session: session.to_owned(),
            home,
            since: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            epoch: 0,
            durable: false,
        }
    }
}

/// The open `.trumanfs` of a store, locked.
#[derive(Debug)]
pub struct StateDir {
    fd: OwnedFd,
    id: Id,
    session: String,
    /// Who held the lock before.
    pub(super) before: Option<Holder>,
    copied: Option<Copied>,
    /// How many things were kept hidden by lists that are those of the original.
    shown: usize,
    /// Held for its lock.
    pub(super) lock: File,
    links: Mutex<Counts>,
    pub(super) pinned: Mutex<File>,
}

#[derive(Debug)]
struct Counts {
    file: File,
    by_id: HashMap<Id, u32>,
}

/// Opens the directory without locking; `None` where the store has none yet.
///
/// # Errors
/// [`Error::Refused`] where `.trumanfs` is not a directory of this store.
pub fn open_unlocked(root: &Root) -> Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, STATE, flags, Mode::empty(), BENEATH) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR | rustix::io::Errno::XDEV) => {
            Err(Error::refused(
                ".trumanfs in the store is not a directory of this store",
                "It is where the journal is kept. Move it away and mount again.",
            ))
        }
        Err(errno) => Err(Error::os("openat2")(errno)),
    }
}

/// Reads who serves, or last served, a store; `None` where nobody ever has.
///
/// # Errors
/// What `open(2)` and `read(2)` say.
pub fn holder(state: BorrowedFd<'_>) -> Result<Option<Holder>> {
    match own::open(state, LOCK.as_bytes(), OFlags::RDONLY) {
        Err(Error::NotFound) => Ok(None),
        file => Ok(read_holder(&mut file?)),
    }
}

pub(super) fn read_holder(file: &mut File) -> Option<Holder> {
    file.rewind().ok()?;
    let text = own::read(file, LOCK, LONGEST_LOCK).ok()?;
    // What follows was left by somebody with more to say, who was interrupted.
    let mut holders = serde_json::Deserializer::from_str(&text).into_iter();
    holders.next()?.ok()
}

impl StateDir {
    /// Opens and locks the directory, making it where it is missing. Who has the lock alone already gives it.
    ///
    /// # Errors
    /// [`Error::Refused`] naming who already serves the store, or what its file system cannot do; what the system calls say.
    pub fn open(root: &Root, mut holder: Holder, located: Option<File>) -> Result<StateDir> {
        let made = match rustix::fs::mkdirat(root, STATE, Mode::RWXU) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(errno) => {
                let error = Error::os("mkdirat")(errno);
                return Err(Error::refused(
                    format!("cannot keep a journal in the store: {error}"),
                    "The store must be writable for whoever mounts it, and have space left.",
                ));
            }
        };
        let fd = open_unlocked(root)?.ok_or(Error::NotFound)?;
        let meta = stat_fd(fd.as_fd())?;
        if !made {
            let me = rustix::process::geteuid().as_raw();
            own::made_by(STATE, &meta, &[me])?;
        }
        let mut lock = lock::taken(fd.as_fd(), located)?;
        if let Err(error) = probe::fit(fd.as_fd(), made) {
            // Nothing half-made stays on ground that is refused. Over a network an open file keeps a name until it is closed.
            if made {
                drop(lock);
                let _ = rustix::fs::unlinkat(&fd, LOCK, AtFlags::empty());
                let _ = rustix::fs::unlinkat(root, STATE, AtFlags::REMOVEDIR);
            }
            return Err(error);
        }
        let before = read_holder(&mut lock);
        holder.epoch = before.as_ref().map_or(1, |h| h.epoch.saturating_add(1));
        let last = before.as_ref().map(|holder| &*holder.session);
        holder.session = sessions::following(&fd, last, holder.session)?;
        let text = serde_json::to_string(&holder).unwrap_or_default();
        // Over what is there, which takes no space; then what is left of it is cut off.
        lock.rewind()
            .and_then(|()| lock.write_all(text.as_bytes()))
            .and_then(|()| lock.set_len(text.len() as u64))
            .map_err(|e| io(&e))?;

        match rustix::fs::mkdirat(&fd, SESSIONS, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(Error::os("mkdirat")(errno)),
        }
        let copied = origin::copied(root, fd.as_fd(), last)?;
        // Inodes of the original would hide other things here.
        let shown = match copied.as_ref().is_some_and(|copied| copied.is_fresh) {
            true => inode_lists::set_aside(fd.as_fd())?,
            false => 0,
        };
        let list = |name: &str| {
            let flags = OFlags::RDWR | OFlags::APPEND;
            own::open_or_make(fd.as_fd(), name.as_bytes(), flags)
        };
        let (links, id) = (list(LINKS)?, meta.id);
        let by_id = parse_links(&own::read(&links, LINKS, inode_lists::LONGEST)?, id.0);
        let pinned = list(PINNED)?;
        own::not_for_git(fd.as_fd());
        let links = Mutex::new(Counts { file: links, by_id });
        Ok(StateDir {
            fd,
            id,
            session: holder.session,
            before,
            copied,
            shown,
            lock,
            links,
            pinned: Mutex::new(pinned),
        })
    }

    /// Returns the session that holds the lock: the one that was asked for, unless that would not be the newest.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the session that held the lock before.
    pub fn before(&self) -> Option<&str> {
        self.before.as_ref().map(|holder| &*holder.session)
    }

    /// Returns the newest session that was recorded in another store, where this is a copy of that.
    pub fn copied(&self) -> Option<&str> {
        self.copied.as_ref().map(|copied| copied.last.as_str())
    }

    /// Returns whether it is a copy in which no session has begun yet: then the last one says nothing of what is here.
    pub fn is_fresh_copy(&self) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.is_fresh)
    }

    /// Says to whoever opens a copy for the first time what does not hold in it.
    pub(super) fn tell_of_copy(&self) -> Vec<Settled> {
        let copied = self.copied.as_ref();
        copied.map_or_else(Vec::new, |copied| copied.told(self.shown))
    }

    /// Returns which directory it is.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Makes the directory of a new session and its journal, and opens the journal for appending, and for reading what is
    /// to be sealed.
    ///
    /// # Errors
    /// `EEXIST` where there is a session of this id; what the system calls say.
    pub fn new_session(&self, session: &str) -> Result<OwnedFd> {
        let sessions = self.dir(SESSIONS)?;
        rustix::fs::mkdirat(&sessions, session, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let path = format!("{SESSIONS}/{session}/{}", crate::journal::FILE);
        let flags = OFlags::RDWR | OFlags::APPEND;
        own::make(self.fd.as_fd(), path.as_bytes(), flags, 0o600).map(OwnedFd::from)
    }

    /// Makes the file for the daemon's own messages in the directory of a new session.
    ///
    /// # Errors
    /// As [`StateDir::new_session`].
    pub fn new_log(&self, session: &str) -> Result<File> {
        let path = format!("{SESSIONS}/{session}/daemon.log");
        let flags = OFlags::WRONLY | OFlags::APPEND;
        own::make(self.fd.as_fd(), path.as_bytes(), flags, 0o600)
    }

    /// Opens a directory below this one, through no link.
    fn dir(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_beneath(self.fd.as_fd(), path.as_bytes(), flags, Mode::empty())
    }

    /// Takes the directory of a session away that has recorded nothing. What kept a content is not one of those, and stays.
    pub(super) fn forget_session(&self, session: &str) {
        use rustix::fs::{AtFlags, unlinkat};
        let dir = format!("{SESSIONS}/{session}");
        let versions = format!("{dir}/{}", super::versions::VERSIONS);
        let journal = format!("{dir}/{}", crate::journal::FILE);
        // A session without a journal is one that never began: wherever this stops, what is left says so.
        let without = match unlinkat(&self.fd, versions, AtFlags::REMOVEDIR) {
            Err(rustix::io::Errno::NOENT) => Ok(()), // It did not come to that.
            taken => taken,
        };
        let _ = without
            .and_then(|()| unlinkat(&self.fd, journal, AtFlags::empty()))
            .and_then(|()| unlinkat(&self.fd, dir, AtFlags::REMOVEDIR));
    }

    /// Makes the directory of a session's versions, for whoever acts on the store, and opens it.
    ///
    /// # Errors
    /// What the system calls say.
    pub fn versions(&self, session: &str, owner: Option<(u32, u32)>) -> Result<OwnedFd> {
        let (path, name) = (format!("{SESSIONS}/{session}"), super::versions::VERSIONS);
        let above = self.dir(&path)?;
        rustix::fs::mkdirat(&above, name, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let dir = self.dir(&format!("{path}/{name}"))?;
        if let Some((uid, gid)) = owner {
            let (uid, gid) = (
                rustix::fs::Uid::from_raw(uid),
                rustix::fs::Gid::from_raw(gid),
            );
            let flags = rustix::fs::AtFlags::EMPTY_PATH;
            rustix::fs::chownat(&dir, "", Some(uid), Some(gid), flags)
                .map_err(Error::os("chownat"))?;
        }
        Ok(dir)
    }

    /// Returns how many of a file's hard links lie in the trash.
    pub fn trashed_links(&self, id: Id) -> u32 {
        let counts = self.links.lock();
        if counts.by_id.is_empty() {
            0
        } else {
            counts.by_id.get(&id).copied().unwrap_or(0)
        }
    }

    /// Notes that one more, or one less, of a file's hard links lies in the trash.
    pub fn count_link(&self, id: Id, came: bool) {
        let mut counts = self.links.lock();
        let count = counts.by_id.entry(id).or_default();
        *count = if came {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            counts.by_id.remove(&id);
        }
        let sign = if came { '+' } else { '-' };
        let line = format!("{sign}{}", inode_lists::line(id, self.id.0));
        // Only a number that `stat` shows depends on it; a full disk must not keep a file from being removed.
        if let Err(error) = counts.file.write_all(line.as_bytes()) {
            log::warn!("cannot note a link in the trash: {error}");
        }
    }

    /// Keeps something hidden, in this session and later ones.
    ///
    /// # Errors
    /// What `write(2)` says; then the move that would show it must not be made.
    pub fn pin(&self, id: Id) -> Result<()> {
        let line = inode_lists::line(id, self.id.0);
        self.pinned
            .lock()
            .write_all(line.as_bytes())
            .map_err(|e| io(&e))
    }

    /// Keeps something hidden no longer: it has been deleted, and its inode number may come to mean another thing.
    pub fn unpin(&self, id: Id) {
        let line = format!("-{}", inode_lists::line(id, self.id.0));
        if let Err(error) = self.pinned.lock().write_all(line.as_bytes()) {
            log::warn!("cannot note that a hidden thing was deleted: {error}");
        }
    }

    /// Returns what earlier sessions kept hidden.
    ///
    /// # Errors
    /// What `read(2)` says.
    pub fn pinned(&self) -> Result<HashSet<Id>> {
        let mut file = self.pinned.lock();
        file.rewind().map_err(|e| io(&e))?;
        let text = own::read(&file, PINNED, inode_lists::LONGEST)?;
        Ok(parse_pinned(&text, self.id.0))
    }

    /// Lets the lock go and leaves a word on who held it last.
    pub fn close(&self) {
        lock::let_go(&self.lock);
    }
}

impl AsFd for StateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn io(error: &std::io::Error) -> Error {
    Error::os("write")(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}
