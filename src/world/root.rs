//! Capabilities on the store: [`Root`], [`Dir`] and [`Node`], and the only place where a path becomes a descriptor.
//!
//! The store is opened once, by [`Root::open`]. Every later step starts at the root's descriptor and goes down with
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)`, so neither `..`, a link,
//! a magic link nor a mount can lead out. A directory is resolved anew for every operation, unless the caller has just
//! used it ([`Dir::duplicate`]), so no number of known files can use up the descriptors. The result is then checked by
//! device and inode against what was expected.
//!
//! This file does not decide what the occupant may see; `view.rs` does. It holds no locks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use super::beneath::{BENEATH, open_beneath, stat_at, stat_fd};
use super::node_access::{BitGrant, BitLender, NodeAccess};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::world::store::layout::{TRASH, is_own_name};
use trumanfs_types::meta::{Id, Meta};

/// The longest path that one `openat2` is given; deeper ones are resolved in several steps (`PATH_MAX` is 4096).
const MAX_OPEN_PATH: usize = 3800;

/// The store: the descriptor from which every path is resolved.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    /// The directory in which the store's own directories lie, where that is not the store itself.
    pub(super) elsewhere: Option<Arc<StatePlace>>,
    /// The directory of states of stores, where that lies in the store.
    pub(super) hidden: Option<Arc<HiddenDir>>,
    /// `/proc/self/fd`, for reopening a node that an `O_PATH` descriptor has verified. Opened once, so that a later
    /// mount over `/proc` cannot redirect it.
    proc_fd: OwnedFd,
    id: Id,
    reach: NodeAccess,
    pub(super) lender: Arc<BitLender>,
    /// The grant that lets this process into the store's directory if its owner has closed it to itself.
    pub(super) usable: Option<Arc<BitGrant<OwnedFd>>>,
}

/// A directory that has a store's own directories, and is not the store.
#[derive(Debug)]
pub struct StatePlace {
    pub(super) fd: OwnedFd,
    pub(super) path: std::path::PathBuf,
}

/// A directory that exists in no home although it lies in the store: there are the states of stores.
#[derive(Debug, Clone)]
pub struct HiddenDir {
    /// Its identity.
    pub id: Id,
    /// The path at which it lies.
    pub path: WorldPath,
}

/// A directory below the root, open for one operation.
#[derive(Debug)]
pub struct Dir {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) path: WorldPath,
    pub(super) id: Id,
    pub(super) reach: NodeAccess,
    /// As of the root, in the root itself.
    pub(super) elsewhere: Option<Arc<StatePlace>>,
}

/// A verified node below the root (an `O_PATH` descriptor), open for one operation.
#[derive(Debug)]
pub struct Node {
    fd: OwnedFd,
    meta: Meta,
}

impl Root {
    /// Opens the store. Only this function uses a path of the host.
    ///
    /// # Errors
    /// Any error from `open(2)`; `ENOTDIR` if the path is not a directory.
    pub fn open(path: &std::path::Path) -> Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(Error::os("open"))?;
        Root::from_fd(fd)
    }

    /// Returns the root of a store whose own directories lie in another directory, on the same mount.
    ///
    /// # Errors
    /// Any error from `fcntl(2)`.
    pub fn with_state_in(self, place: Arc<StatePlace>) -> Result<Root> {
        let dup_fd =
            |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(Error::os("fcntl"));
        let lender = BitLender::new(dup_fd(&self.fd)?, dup_fd(&place.fd)?, self.id);
        Ok(Root {
            elsewhere: Some(place),
            lender: Arc::new(lender),
            ..self
        })
    }

    /// Returns the directory in which `.trumanfs` and `.trash` lie: the store's own, or another one.
    pub fn state_place(&self) -> BorrowedFd<'_> {
        self.elsewhere
            .as_ref()
            .map_or(self.fd.as_fd(), |place| place.fd.as_fd())
    }

    /// Returns the path of the directory in which the store's own directories lie, if that is not the store.
    pub fn state_path(&self) -> Option<&std::path::Path> {
        self.elsewhere.as_ref().map(|place| place.path.as_path())
    }

    /// Returns whether the store's own directories lie elsewhere.
    pub fn has_state_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Returns the root of a store in which a directory is hidden.
    #[must_use]
    pub fn hiding(self, hidden: Option<HiddenDir>) -> Root {
        let hidden = hidden.map(Arc::new);
        Root { hidden, ..self }
    }

    /// Returns the name in a directory that reading its entries does not find.
    pub fn unlisted_name(&self, dir: &Dir) -> Option<&'static [u8]> {
        dir.elsewhere.as_ref().map(|_| TRASH)
    }

    /// Creates a root from the descriptor of a directory.
    ///
    /// # Errors
    /// Any error from `statx(2)`; [`Error::Refused`] if /proc is not mounted.
    pub fn from_fd(fd: OwnedFd) -> Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc_fd = rustix::fs::open("/proc/self/fd", flags, Mode::empty()).map_err(|_| {
            Error::refused(
                "/proc is not mounted",
                "Mount it: trumanfs opens files again by way of it.",
            )
        })?;
        let id = stat_fd(fd.as_fd())?.id;
        let dup_fd = || rustix::io::fcntl_dupfd_cloexec(&fd, 0).map_err(Error::os("fcntl"));
        let (top, state_in) = (dup_fd()?, dup_fd()?);
        Ok(Root {
            fd,
            elsewhere: None,
            hidden: None,
            proc_fd,
            id,
            reach: NodeAccess::Permitted,
            lender: Arc::new(BitLender::new(top, state_in, id)),
            usable: None,
        })
    }

    /// Returns the lender of permission bits in the store.
    pub fn lender(&self) -> &BitLender {
        &self.lender
    }

    /// Returns the root with an operator's access to nodes that this user has closed to itself.
    #[must_use]
    pub fn for_operator(self) -> Root {
        let reach = NodeAccess::Owned(self.lender.clone());
        Root { reach, ..self }
    }

    /// Returns whether this root has an operator's access.
    pub(super) fn is_for_operator(&self) -> bool {
        matches!(self.reach, NodeAccess::Owned(_))
    }

    /// Duplicates the root, without its path.
    ///
    /// # Errors
    /// Any error from `fcntl(2)`.
    pub fn duplicate(&self) -> Result<Root> {
        let dup_fd = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 0);
        Ok(Root {
            fd: dup_fd(&self.fd).map_err(Error::os("fcntl"))?,
            elsewhere: self.elsewhere.clone(),
            hidden: self.hidden.clone(),
            proc_fd: dup_fd(&self.proc_fd).map_err(Error::os("fcntl"))?,
            id: self.id,
            reach: self.reach.clone(),
            lender: self.lender.clone(),
            usable: self.usable.clone(),
        })
    }

    /// Carries out a call that may need permission bits of the root, with the root's access.
    ///
    /// # Errors
    /// As `act`.
    pub fn with_top_access<T>(&self, act: impl Fn() -> Result<T>) -> Result<T> {
        self.reach.with_access(self.fd.as_fd(), act)
    }

    /// Carries out a call that may need permission bits of a node, with the root's access.
    ///
    /// # Errors
    /// As `act`.
    pub fn with_access<T>(&self, node: &Node, act: impl Fn() -> Result<T>) -> Result<T> {
        self.reach.with_access(node.fd.as_fd(), act)
    }

    /// Returns the identity of the store's directory.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Resolves a directory.
    ///
    /// # Errors
    /// `ENOENT` if it is absent, outside, behind a link or on another file system; `ENOTDIR`; `EACCES` if the owner of
    /// the home may not search a directory on the way.
    pub fn dir(&self, path: &WorldPath) -> Result<Dir> {
        let fd = self.descend(
            path.bytes(),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        )?;
        let meta = stat_fd(fd.as_fd())?;
        Ok(Dir {
            fd: Arc::new(fd),
            path: path.clone(),
            id: meta.id,
            reach: self.reach.clone(),
            elsewhere: self.elsewhere.clone().filter(|_| path.is_root()),
        })
    }

    /// Resolves a directory that must have this identity.
    ///
    /// # Errors
    /// As [`Root::dir`], and `ENOENT` if something else has taken its place.
    pub fn dir_expecting(&self, path: &WorldPath, id: Id) -> Result<Dir> {
        let dir = self.dir(path)?;
        if dir.id == id {
            Ok(dir)
        } else {
            Err(Error::NotFound)
        }
    }

    /// Resolves a node of any kind. A symlink is returned itself, not followed.
    ///
    /// # Errors
    /// As [`Root::dir`].
    pub fn node(&self, path: &WorldPath) -> Result<Node> {
        Node::from_fd(self.descend(
            path.bytes(),
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        )?)
    }

    /// Resolves a node of any kind that must have this identity. A symlink is returned itself, not followed.
    ///
    /// # Errors
    /// As [`Root::dir_expecting`].
    pub fn node_expecting(&self, path: &WorldPath, id: Id) -> Result<Node> {
        let node = self.node(path)?;
        if node.meta.id == id {
            Ok(node)
        } else {
            Err(Error::NotFound)
        }
    }

    /// Reopens a verified [`Node`] for reading or writing.
    ///
    /// The kernel checks permissions again. Only regular files and directories are opened this way: a FIFO would block
    /// the daemon, and opening a device would act on it.
    ///
    /// # Errors
    /// Any error from `open(2)`; `EINVAL` for anything but a regular file or a directory.
    pub fn reopen(&self, node: &Node, flags: OFlags) -> Result<OwnedFd> {
        if !node.meta.is_dir() && node.meta.kind != rustix::fs::FileType::RegularFile {
            return Err(Error::Invalid);
        }
        self.with_access(node, || self.reopen_fd(node.fd.as_fd(), flags))
    }

    /// Opens a node for reading, without updating its access time where that is allowed.
    ///
    /// # Errors
    /// As [`Root::reopen`].
    pub fn reopen_quietly(&self, node: &Node) -> Result<OwnedFd> {
        let quietly = self.reopen(node, OFlags::RDONLY | OFlags::NOATIME);
        quietly.or_else(|_| self.reopen(node, OFlags::RDONLY))
    }

    /// Returns the `/proc/self/fd` path of a node, for the calls that take no `AT_EMPTY_PATH`.
    pub fn by_proc(&self, node: &Node) -> (BorrowedFd<'_>, String) {
        use std::os::fd::AsRawFd;
        (self.proc_fd.as_fd(), node.fd.as_raw_fd().to_string())
    }

    /// Sets the permission bits of a verified [`Node`].
    ///
    /// # Errors
    /// Any error from `fchmodat2(2)`.
    pub fn chmod(&self, node: &Node, mode: u32) -> Result<()> {
        let mode = mode & 0o7777;
        self.lender.forget_grant(node.meta.id);
        crate::sys::fd::chmod(node.fd.as_fd(), mode).map_err(Error::os("fchmodat2"))
    }

    fn reopen_fd(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        use std::os::fd::AsRawFd;
        let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::openat(
            &self.proc_fd,
            fd.as_raw_fd().to_string(),
            flags,
            Mode::empty(),
        )
        .map_err(Error::os("open"))
    }

    /// Opens a directory for reading its entries.
    ///
    /// # Errors
    /// Any error from `open(2)`.
    pub fn read_dir(&self, dir: &Dir) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let own = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir.fd, ".", own, Mode::empty()) {
            // The name "." needs search permission on the directory; reading it does not.
            Err(Errno::ACCESS) => {
                let reopen = || self.reopen_fd(dir.fd.as_fd(), flags);
                self.reach.with_access(dir.fd.as_fd(), reopen)
            }
            opened => opened.map_err(Error::os("open")),
        }
    }

    fn descend(&self, path: &[u8], last: OFlags) -> Result<OwnedFd> {
        match self.descend_at_once(path, last) {
            Err(error) if self.reach.may_open(&error) => self.descend_by_component(path, last),
            found => found,
        }
    }

    /// Resolves a path component by component, through directories that are closed to their owner.
    fn descend_by_component(&self, path: &[u8], last: OFlags) -> Result<OwnedFd> {
        let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |from: BorrowedFd<'_>, name: &[u8], flags| {
            let open = || open_beneath(from, name, flags, Mode::empty());
            self.reach.with_access(from, open)
        };
        let (dirs, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => path.split_at(at),
            None => (&[][..], path),
        };
        let mut here = open(self.start_of(path), b".", above)?;
        for dir in dirs
            .split(|byte| *byte == b'/')
            .filter(|dir| !dir.is_empty())
        {
            here = open(here.as_fd(), dir, above)?;
        }
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let name = if name.is_empty() { &b"."[..] } else { name };
        open(here.as_fd(), name, last)
    }

    fn descend_at_once(&self, path: &[u8], last: OFlags) -> Result<OwnedFd> {
        let start = self.start_of(path);
        let mut rest = if path.is_empty() { &b"."[..] } else { path };
        let mut located: Option<OwnedFd> = None;
        while rest.len() > MAX_OPEN_PATH {
            let window = rest.get(..MAX_OPEN_PATH).unwrap_or(rest);
            let cut = window
                .iter()
                .rposition(|b| *b == b'/')
                .ok_or(Error::NameTooLong)?;
            let step = rest.get(..cut).unwrap_or_default();
            rest = rest.get(cut + 1..).unwrap_or_default();
            let from = located.as_ref().map_or(start, |fd| fd.as_fd());
            located = Some(open_beneath(
                from,
                step,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?);
        }
        let from = located.as_ref().map_or(start, |fd| fd.as_fd());
        open_beneath(from, rest, last, Mode::empty())
    }

    /// Returns the directory from which a path is resolved.
    fn start_of(&self, path: &[u8]) -> BorrowedFd<'_> {
        let first = path.split(|byte| *byte == b'/').next();
        match &self.elsewhere {
            Some(place) if first.is_some_and(is_own_name) => place.fd.as_fd(),
            _ => self.fd.as_fd(),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Returns the directory's path.
    pub fn path(&self) -> &WorldPath {
        &self.path
    }

    /// Returns the directory's identity.
    pub fn id(&self) -> Id {
        self.id
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Node {
    /// Wraps a descriptor and reads its attributes.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn from_fd(fd: OwnedFd) -> Result<Node> {
        let meta = stat_fd(fd.as_fd())?;
        if meta.mount_root && meta.kind != rustix::fs::FileType::Directory {
            // A file is bind-mounted over this one; openat2 itself refuses only directories of this kind.
            return Err(Error::NotFound);
        }
        Ok(Node { fd, meta })
    }

    /// Returns the attributes as they were when the node was resolved.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the current attributes.
    ///
    /// # Errors
    /// Any error from `statx(2)`.
    pub fn stat(&self) -> Result<Meta> {
        stat_fd(self.fd.as_fd())
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
