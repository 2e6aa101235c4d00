//! The daemon's own directory in the store, `.trumanfs`: the lock, the sessions, and two small lists.
//!
//! Owns its layout. All state of a home is kept here and none elsewhere on the host. Descriptors are opened once,
//! while the process still has its own rights, so threads that act for an owner need no rights in here.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::fs::{Access, AtFlags, FallocateFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::name::Name;
use crate::world::root::{BENEATH, Root, open_beneath, stat_at, stat_fd};
use crate::world::store::holder::{StoreHolder, read_holder};
use crate::world::store::inode_lists::{self, parse_links, parse_pinned};
use crate::world::store::layout::{
    self, JOURNAL, LINKS, LOCK, LOG, PINNED, SESSIONS, STATE, VERSIONS,
};
use crate::world::store::lent_record::id_line;
use crate::world::store::lock;
use crate::world::store::notices::StoreFinding;
use crate::world::store::origin::{self, CopyOrigin};
use crate::world::store::place;
use crate::world::store::probe;
use crate::world::store::sessions;
use crate::world::store::state_files;
use trumanfs_types::meta::Id;

/// The space that a session's log has on a disk that gets full, in bytes.
const LOG_SPACE: u64 = 8 << 10;

/// The number of times that a directory is made again that was removed meanwhile.
const MAX_OPENINGS: u32 = 20;

/// The open and locked `.trumanfs` of a store.
#[derive(Debug)]
pub struct StateDir {
    fd: OwnedFd,
    id: Id,
    session: String,
    /// The previous holder of the lock.
    pub(in crate::world) before: Option<StoreHolder>,
    copied: Option<CopyOrigin>,
    /// True if this opening has created the directory.
    pub(in crate::world) is_new: bool,
    /// The number of nodes that the original's lists kept hidden.
    shown: usize,
    /// Kept open for its lock.
    pub(in crate::world) lock: File,
    /// The store's own directory, locked where the state lies elsewhere: others keep theirs in another place.
    project: Option<File>,
    links: Mutex<LinkCounts>,
    pub(in crate::world) pinned: Mutex<File>,
}

#[derive(Debug)]
struct LinkCounts {
    file: File,
    by_id: HashMap<Id, u32>,
}

/// Opens the directory without locking it; `None` if the store has none yet.
///
/// # Errors
/// [`Error::Refused`] if `.trumanfs` is not a directory of this store.
pub fn open_unlocked(root: &Root) -> Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = root.state_place();
    let open = || match rustix::fs::openat2(place, STATE, flags, Mode::empty(), BENEATH) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR | rustix::io::Errno::XDEV) => {
            Err(Error::refused(
                ".trumanfs in the store is not a directory of this store",
                "It is where the journal is kept. Move it away and mount again.",
            ))
        }
        Err(errno) => Err(Error::os("openat2")(errno)),
    };
    root.with_top_access(open)
}

/// Refuses a store that this user may not work on as an operator, before a system call fails with a bare denial. `at`
/// is the store's path.
///
/// # Errors
/// [`Error::System`] naming the store, the user, and the permitted users.
pub fn refuse_strangers(root: &Root, at: &std::path::Path) -> Result<()> {
    let may = Access::READ_OK | Access::EXEC_OK;
    let flags = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
    let denied = |dir: BorrowedFd<'_>, name: &[u8], may| {
        let look = || {
            let looked = rustix::fs::accessat(dir, name, may, flags);
            looked.map_err(Error::os("faccessat2"))
        };
        let looked = root.with_top_access(look);
        looked.is_err_and(|error| error.errno() == rustix::io::Errno::ACCESS)
    };
    let place = root.state_place();
    let (what, owner) = if denied(root.as_fd(), b".", Access::EXEC_OK) {
        ("this directory", stat_fd(root.as_fd())?.uid)
    } else {
        let name = Name::new(STATE)?;
        match root.with_top_access(|| stat_at(place, name)) {
            Ok(meta) if meta.is_dir() && denied(place, STATE, may) => ("its .trumanfs", meta.uid),
            _ => return Ok(()),
        }
    };
    let me = rustix::process::geteuid().as_raw();
    let who = match owner {
        0 => "root".to_owned(),
        owner if owner == me => format!("root, or user {me} with the mode 0700 again"),
        owner => format!("user {owner} or root"),
    };
    Err(Error::System {
        what: format!(
            "{}: user {me} may not look into {what}, which belongs to user {owner}",
            at.display()
        ),
        remedy: format!(
            "A store is for its owner and for root: run this as {who}. Others can work in its home where it is mounted for them \
             (`trumanfs mount --owner`, `--allow-other`)."
        ),
    })
}

impl StateDir {
    /// Opens and locks the directory, creating it if needed. A caller that already has the exclusive lock passes it
    /// in.
    ///
    /// # Errors
    /// [`Error::Refused`] naming the process that serves the store, or what its file system cannot do; any error from
    /// the system calls.
    pub fn open(root: &Root, holder: StoreHolder, mut located: Option<File>) -> Result<StateDir> {
        for _ in 0..MAX_OPENINGS {
            match StateDir::open_present(root, holder.clone(), located.take()) {
                Err(Error::NotFound) => {}
                opened => return opened,
            }
        }
        Err(Error::NotFound)
    }

    /// As [`StateDir::open`]; [`Error::NotFound`] if another process has removed the directory meanwhile, which had
    /// made it for nothing.
    fn open_present(
        root: &Root,
        mut holder: StoreHolder,
        located: Option<File>,
    ) -> Result<StateDir> {
        let state_place = root.state_place();
        let made = make(root)?;
        let fd = open_unlocked(root)?.ok_or(Error::NotFound)?;
        let meta = stat_fd(fd.as_fd())?;
        if !made {
            let me = rustix::process::geteuid().as_raw();
            state_files::expect_made_by(STATE, &meta, &[me])?;
        }
        let undo = |_: &Error| unmake(root, &fd, made);
        let project = lock_project(root, made).inspect_err(undo)?;
        let mut lock = lock::take_exclusive(fd.as_fd(), located)?;
        if !stat_at(state_place, Name::new(STATE)?).is_ok_and(|now| now.id == meta.id) {
            return Err(Error::NotFound);
        }
        if let Err(error) = probe::check_file_system(fd.as_fd(), made) {
            drop(lock);
            undo(&error);
            return Err(error);
        }
        let before = read_holder(&mut lock);
        // Where locks hold, the daemon that the text names serves the store that this one is a copy of.
        if probe::may_lose_locks(fd.as_fd()) {
            lock::refuse_unshared(before.as_ref(), |session| has_ended(fd.as_fd(), session))?;
        }
        holder.epoch = before.as_ref().map_or(1, |h| h.epoch.saturating_add(1));
        let last = before.as_ref().map(|holder| &*holder.session);
        holder.session = sessions::later_session_id(&fd, last, holder.session)?;
        let text = serde_json::to_string(&holder).unwrap_or_default();
        // Overwriting in place takes no space; the rest is then cut off.
        lock.rewind()
            .and_then(|()| lock.write_all(text.as_bytes()))
            .and_then(|()| lock.set_len(text.len() as u64))
            .map_err(|e| io(&e))?;

        match rustix::fs::mkdirat(&fd, SESSIONS, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(Error::os("mkdirat")(errno)),
        }
        let copied = origin::find_copy_origin(root, fd.as_fd(), last)?;
        // The original's inode numbers would hide other files here.
        let shown = if copied.as_ref().is_some_and(|copied| copied.is_fresh) {
            inode_lists::set_aside(fd.as_fd())?
        } else {
            0
        };
        let list = |name: &str| {
            let flags = OFlags::RDWR | OFlags::APPEND;
            state_files::open_or_make(fd.as_fd(), name.as_bytes(), flags)
        };
        let (links, id) = (list(LINKS)?, meta.id);
        let by_id = parse_links(
            &state_files::read(&links, LINKS, inode_lists::MAX_LIST_BYTES)?,
            id.0,
        );
        let pinned = list(PINNED)?;
        state_files::hide_from_git(fd.as_fd());
        let links = Mutex::new(LinkCounts { file: links, by_id });
        Ok(StateDir {
            fd,
            id,
            session: holder.session,
            before,
            copied,
            is_new: made,
            shown,
            lock,
            project,
            links,
            pinned: Mutex::new(pinned),
        })
    }

    /// Returns the session that holds the lock: the requested id, or a later one if that would not be the newest.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the session that held the lock before.
    pub fn previous_session(&self) -> Option<&str> {
        self.before.as_ref().map(|holder| &*holder.session)
    }

    /// Returns the newest session recorded in the original store, if this store is a copy.
    pub fn copied_session(&self) -> Option<&str> {
        self.copied.as_ref().map(|copied| copied.last.as_str())
    }

    /// Returns whether this is a copy in which no session has begun: the last session then says nothing about this
    /// store.
    pub fn is_fresh_copy(&self) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.is_fresh)
    }

    /// Returns the findings about records that no longer hold in a copy, on its first opening.
    pub(in crate::world) fn copy_findings(&self) -> Vec<StoreFinding> {
        let copied = self.copied.as_ref();
        copied.map_or_else(Vec::new, |copied| {
            copied.findings(self.shown, probe::is_fuse(self.fd.as_fd()))
        })
    }

    /// Returns the directory's identity.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Creates a new session's directory and journal. The journal is opened for appending, and for reading back what
    /// is to be sealed.
    ///
    /// # Errors
    /// `EEXIST` if a session has this id; any error from the system calls.
    pub fn new_session(&self, session: &str) -> Result<OwnedFd> {
        let sessions = self.dir(SESSIONS)?;
        rustix::fs::mkdirat(&sessions, session, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let path = layout::of_session(session, JOURNAL);
        let flags = OFlags::RDWR | OFlags::APPEND;
        state_files::make(self.fd.as_fd(), path.as_bytes(), flags, 0o600).map(OwnedFd::from)
    }

    /// Creates the daemon's log file in the directory of a new session.
    ///
    /// # Errors
    /// As [`StateDir::new_session`].
    pub fn new_log(&self, session: &str) -> Result<File> {
        let path = layout::of_session(session, LOG);
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let file = state_files::make(self.fd.as_fd(), path.as_bytes(), flags, 0o600)?;
        // So that a full disk can be told of. Not every file system can do it.
        let _ = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, LOG_SPACE);
        Ok(file)
    }

    /// Opens a directory below this one, following no link.
    pub(in crate::world) fn dir(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open_beneath(self.fd.as_fd(), path.as_bytes(), flags, Mode::empty())
    }

    /// Removes the directory of a session that has recorded nothing. A session that kept a content has a record, and
    /// stays.
    pub(in crate::world) fn forget_session(&self, session: &str) {
        use rustix::fs::{AtFlags, unlinkat};
        let dir = layout::session(session);
        let versions = layout::of_session(session, VERSIONS);
        let journal = layout::of_session(session, JOURNAL);
        let _ = unlinkat(&self.fd, layout::of_session(session, LOG), AtFlags::empty());
        // A session without a journal never began, so an interruption here leaves nothing to settle.
        let without = match unlinkat(&self.fd, versions, AtFlags::REMOVEDIR) {
            Err(rustix::io::Errno::NOENT) => Ok(()), // The session failed before this was made.
            taken => taken,
        };
        let _ = without
            .and_then(|()| unlinkat(&self.fd, journal, AtFlags::empty()))
            .and_then(|()| unlinkat(&self.fd, dir, AtFlags::REMOVEDIR));
    }

    /// Creates and opens the directory of a session's versions, owned by the user that acts on the store.
    ///
    /// # Errors
    /// Any error from the system calls.
    pub fn make_versions_dir(&self, session: &str, owner: Option<(u32, u32)>) -> Result<OwnedFd> {
        let above = self.dir(&layout::session(session))?;
        rustix::fs::mkdirat(&above, VERSIONS, Mode::RWXU).map_err(Error::os("mkdirat"))?;
        let dir = self.dir(&layout::of_session(session, VERSIONS))?;
        state_files::give_to(dir.as_fd(), owner)?;
        Ok(dir)
    }

    /// Returns how many of a file's hard links are in the trash.
    pub fn trashed_links(&self, id: Id) -> u32 {
        let counts = self.links.lock();
        if counts.by_id.is_empty() {
            0
        } else {
            counts.by_id.get(&id).copied().unwrap_or(0)
        }
    }

    /// Returns the number of hard links in the trash, by file.
    pub(in crate::world) fn all_trashed_links(&self) -> HashMap<Id, u32> {
        self.links.lock().by_id.clone()
    }

    /// Counts one more, or one less, of a file's hard links in the trash.
    pub fn count_link(&self, id: Id, is_added: bool) {
        let mut counts = self.links.lock();
        let count = counts.by_id.entry(id).or_default();
        *count = if is_added {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            counts.by_id.remove(&id);
        }
        let sign = if is_added { '+' } else { '-' };
        let line = format!("{sign}{}", id_line(id, self.id.0));
        // Only the link count in `stat` depends on it; a full disk must not keep a file from being removed.
        if let Err(error) = counts.file.write_all(line.as_bytes()) {
            log::warn!("cannot note a link in the trash: {error}");
        }
    }

    /// Keeps an inode hidden, in this session and later ones.
    ///
    /// # Errors
    /// Any error from `write(2)`; the move that would show the inode must then not be made.
    pub fn pin(&self, id: Id) -> Result<()> {
        let line = id_line(id, self.id.0);
        self.pinned
            .lock()
            .write_all(line.as_bytes())
            .map_err(|e| io(&e))
    }

    /// Stops hiding an inode that has been deleted: its number may be given to another file.
    pub fn unpin(&self, id: Id) {
        let line = format!("-{}", id_line(id, self.id.0));
        if let Err(error) = self.pinned.lock().write_all(line.as_bytes()) {
            log::warn!("cannot note that a hidden thing was deleted: {error}");
        }
    }

    /// Returns the inodes that earlier sessions kept hidden.
    ///
    /// # Errors
    /// Any error from `read(2)`.
    pub fn pinned(&self) -> Result<HashSet<Id>> {
        let mut file = self.pinned.lock();
        file.rewind().map_err(|e| io(&e))?;
        let text = state_files::read(&file, PINNED, inode_lists::MAX_LIST_BYTES)?;
        Ok(parse_pinned(&text, self.id.0))
    }

    /// Describes the process that has taken the lock from this one, if any.
    pub fn lock_lost_to(&self) -> Option<String> {
        lock::lost_to(&self.lock, &self.session)
    }

    /// Releases the lock. The file still names the last holder.
    pub fn close(&self) {
        lock::release(&self.lock);
        if let Some(project) = &self.project {
            lock::release(project);
        }
    }
}

/// Makes the directory if it is not there. Returns whether it was made.
fn make(root: &Root) -> Result<bool> {
    match rustix::fs::mkdirat(root.state_place(), STATE, Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Ok(false),
        Err(errno) => {
            let error = Error::os("mkdirat")(errno);
            Err(Error::refused(
                format!("cannot keep a journal in the store: {error}"),
                "The store must be writable for whoever mounts it, and have space left.",
            ))
        }
    }
}

/// Removes a directory that was `made` for nothing. On a network file system an open file keeps its name until it is
/// closed, so the lock is to be dropped first.
fn unmake(root: &Root, state: &OwnedFd, made: bool) {
    if !made {
        return;
    }
    let _ = rustix::fs::unlinkat(state, LOCK, AtFlags::empty());
    let _ = rustix::fs::unlinkat(root.state_place(), STATE, AtFlags::REMOVEDIR);
}

/// Locks the directory of a store whose state lies elsewhere, so that users with a place each exclude one another. A new
/// state in the store is refused while such a store is in use.
fn lock_project(root: &Root, is_new: bool) -> Result<Option<File>> {
    place::expect_one_mount(root)?;
    let is_elsewhere = root.has_state_elsewhere();
    if !is_elsewhere && !is_new {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(root, ".", flags, Mode::empty()).map_err(Error::os("openat"));
    // A user who may not read the directory has no lock there, as on file systems without such locks.
    let Ok(dir) = root.with_top_access(open) else {
        return Ok(None);
    };
    if is_elsewhere {
        return match lock::lock_directory(dir, lock::LOCK_TIMEOUT.into()) {
            Err(Error::Os { .. }) => Ok(None),
            locked => locked.map(Some),
        };
    }
    let dir = File::from(dir);
    let is_used = !lock::share(&dir).unwrap_or(true) && lock::is_held_by_another(&dir);
    lock::release(&dir);
    match is_used {
        true => Err(lock::busy_error(&dir, None, std::time::Duration::ZERO)),
        false => Ok(None),
    }
}

/// Returns whether a session has its last record, or none at all.
fn has_ended(state: BorrowedFd<'_>, session: &str) -> bool {
    let journal = sessions::open_journal(state, session);
    let tail = journal.and_then(|file| crate::journal::tail(&file));
    tail.ok()
        .flatten()
        .is_none_or(|tail| matches!(tail.record.op, crate::journal::Op::End { .. }))
}

impl AsFd for StateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(in crate::world) fn io(error: &std::io::Error) -> Error {
    Error::os("write")(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}
