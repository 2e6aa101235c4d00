//! Copies a single node of a past tree into another directory, with its attributes.
//!
//! Owns how a single file, link, FIFO or socket gets there, and what a directory gets in the end. A file that no record
//! has changed since the point is opened where it lies; any other one is put together by the past. Everything goes by
//! descriptor and one name, through no link.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath, escape};
use crate::operator::past::{FullAttributes, NodeAttributes, NodeId, PastTree};
use crate::world::root::{Dir, Root, open_beneath, stat_fd};
use crate::world::store::forked::ForkMethod;
use crate::world::{Id, Meta, copy_range, xattrs};

/// The numbers of nodes made, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct ForkCounts {
    /// Files, each counted once for each of its names.
    pub files: u64,
    /// Directories, the store's own left out.
    pub directories: u64,
    /// Symlinks, FIFOs and sockets.
    pub others: u64,
    /// Files that share no blocks with the origin's: they were copied.
    pub copied: u64,
}

/// Makes files, directories and special files in another directory.
#[derive(Debug)]
pub(super) struct ForkCopier<'t> {
    /// The directory that becomes a store.
    pub(super) to: &'t Root,
    pub(super) means: ForkMethod,
    pub(super) counts: ForkCounts,
    /// The things that could not be made, with reasons.
    pub(super) notes: Vec<String>,
    /// The first name of each file that has several.
    pub(super) links: HashMap<NodeId, WorldPath>,
    /// The inodes that are hidden in the origin wherever they go.
    hidden: HashSet<Id>,
    /// The inodes that were made of hidden ones.
    pub(super) hidden_here: Vec<Id>,
    /// True once the file systems have shared blocks.
    shares: bool,
}

impl<'t> ForkCopier<'t> {
    pub(super) fn new(to: &'t Root, means: ForkMethod, hidden: HashSet<Id>) -> ForkCopier<'t> {
        ForkCopier {
            to,
            means,
            counts: ForkCounts::default(),
            notes: Vec::new(),
            links: HashMap::new(),
            hidden,
            hidden_here: Vec::new(),
            shares: false,
        }
    }

    /// Makes a node that is not a directory. `source` is its directory, if that lies where the tree has it.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Missing`] where the node has gone meanwhile; [`Error::Refused`] where blocks
    /// cannot be shared; those of the system calls.
    pub(super) fn copy_leaf(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        source: Option<BorrowedFd<'_>>,
        (dir, name): (&Dir, Name<'_>),
    ) -> Result<()> {
        match tree.kind(node) {
            FileType::RegularFile => self.copy_file((tree, node), source, (dir, name))?,
            FileType::Symlink => {
                let target = tree.target(node)?;
                rustix::fs::symlinkat(target, dir, name.bytes())
                    .map_err(Error::os_on("symlinkat", || path_text(dir, name)))?;
                self.without_content((tree, node), (dir, name))?;
            }
            kind @ (FileType::Fifo | FileType::Socket) => {
                rustix::fs::mknodat(dir, name.bytes(), kind, Mode::RUSR | Mode::WUSR, 0)
                    .map_err(Error::os_on("mknodat", || path_text(dir, name)))?;
                self.without_content((tree, node), (dir, name))?;
            }
            // Records name the node, but it was not found.
            FileType::Unknown => return Err(Error::NotFound),
            // Device nodes do not exist in a home, whoever made them.
            _ => {
                let path = dir.path().join(name);
                self.notes.push(format!("{path}: a device node, left out"));
                return Ok(());
            }
        }
        self.note_hidden((tree, node), (dir, name))
    }

    /// Notes the copy of a node that is hidden wherever it goes: the copy has to stay hidden, too.
    pub(super) fn note_hidden(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        (dir, name): (&Dir, Name<'_>),
    ) -> Result<()> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        let ids = tree.ids(node);
        if ids.is_some_and(|ids| self.hidden.contains(&Id(ids[0], ids[1]))) {
            self.hidden_here.push(dir.stat(name)?.id);
        }
        Ok(())
    }

    fn copy_file(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        source: Option<BorrowedFd<'_>>,
        (dir, name): (&Dir, Name<'_>),
    ) -> Result<()> {
        if let Some(first) = self.links.get(&node) {
            let known = self.to.node(first)?;
            let (proc, number) = self.to.by_proc(&known);
            let flags = AtFlags::SYMLINK_FOLLOW;
            self.counts.files += 1;
            return rustix::fs::linkat(proc, number.as_str(), dir, name.bytes(), flags)
                .map_err(Error::os_on("linkat", || path_text(dir, name)));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let there = source
            .filter(|_| tree.difference(node).is_none())
            .and_then(|source| in_place((tree, node), source, name).transpose())
            .transpose()?;
        let (made, several) = match there {
            Some((from, meta)) => {
                let made = open_beneath(dir.as_fd(), name.bytes(), flags, mode)?;
                self.copy_content(&from, &made, meta.size)?;
                let looks = FullAttributes {
                    meta: attributes(&meta),
                    xattrs: Some(xattrs(from.as_fd())?),
                };
                self.set_attributes(&made, &looks, &dir.path().join(name))?;
                (made, meta.nlink > 1)
            }
            None => {
                let looks = tree.full_attributes(node)?;
                let content = tree.content(node)?;
                let lost = content.missing_part();
                let lost = lost.map(|lost| format!("{}: {lost}", dir.path().join(name)));
                self.notes.extend(lost);
                let made = open_beneath(dir.as_fd(), name.bytes(), flags, mode)?;
                content.copy_to(made.as_fd())?;
                self.set_attributes(&made, &looks, &dir.path().join(name))?;
                (made, true)
            }
        };
        drop(made);
        self.counts.files += 1;
        if several {
            self.links.insert(node, dir.path().join(name));
        }
        Ok(())
    }

    /// Copies the content of a file into an empty file.
    fn copy_content(&mut self, from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        if self.means == ForkMethod::Cloned {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => {
                    self.shares = true;
                    return Ok(());
                }
                // Single files cannot be cloned: a swap file, one whose data are checked in another way (btrfs).
                Err(Errno::INVAL | Errno::TXTBSY | Errno::OPNOTSUPP | Errno::XDEV)
                    if self.shares => {}
                Err(
                    Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::XDEV | Errno::INVAL,
                ) => {
                    return Err(Error::refused(
                        "the fork's files cannot share their blocks with the origin's: either this file system cannot (ext4, tmpfs), \
                         or the fork would lie on another one",
                        "Nothing was made. Fork beside a store on xfs or btrfs, or say --copy: that reads and writes every byte.",
                    ));
                }
                Err(errno) => return Err(Error::os("ioctl(FICLONE)")(errno)),
            }
        }
        self.counts.copied += 1;
        // First the size: xfs reserves space behind the end of what grows, and would fill the next hole with it.
        rustix::fs::ftruncate(to, size).map_err(Error::os("ftruncate"))?;
        copy_range(from.as_fd(), to.as_fd(), 0, size)
    }

    /// Sets the attributes of a node without content.
    fn without_content(
        &mut self,
        (tree, node): (&PastTree<'_>, NodeId),
        (dir, name): (&Dir, Name<'_>),
    ) -> Result<()> {
        self.counts.others += 1;
        let meta = tree.meta(node)?;
        let made = dir.stat(name)?;
        if (made.uid, made.gid) != (meta.uid, meta.gid) {
            let (uid, gid) = owner(&meta);
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            match rustix::fs::chownat(dir, name.bytes(), uid, gid, flags) {
                Err(Errno::PERM) => self.note_owner(&dir.path().join(name)),
                set => set.map_err(Error::os_on("fchownat", || path_text(dir, name)))?,
            }
        }
        if meta.kind != FileType::Symlink {
            self.to.chmod(&dir.node(name)?, meta.mode)?;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(dir, name.bytes(), &times(&meta), flags)
            .map_err(Error::os_on("utimensat", || path_text(dir, name)))
    }

    /// Sets the attributes of an open file or directory. Changing the owner drops a capability, and setting an ACL
    /// changes the mode: hence the order.
    pub(super) fn set_attributes(
        &mut self,
        made: &OwnedFd,
        then: &FullAttributes,
        at: &WorldPath,
    ) -> Result<()> {
        let (now, meta) = (stat_fd(made.as_fd())?, &then.meta);
        if (now.uid, now.gid) != (meta.uid, meta.gid) {
            let (uid, gid) = owner(meta);
            match rustix::fs::fchown(made, uid, gid) {
                Err(Errno::PERM) => self.note_owner(at),
                set => set.map_err(Error::os_on("fchown", || at.to_string()))?,
            }
        }
        for (label, value) in then.xattrs.iter().flatten() {
            let label_name = label.as_slice();
            match rustix::fs::fsetxattr(made, label_name, value, XattrFlags::empty()) {
                Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => self.notes.push(format!(
                    "{at}: the attribute {} could not be set",
                    escape(label)
                )),
                set => set.map_err(Error::os_on("fsetxattr", || at.to_string()))?,
            }
        }
        let mode = Mode::from_raw_mode(meta.mode & 0o7777);
        rustix::fs::fchmod(made, mode).map_err(Error::os_on("fchmod", || at.to_string()))?;
        rustix::fs::futimens(made, &times(meta))
            .map_err(Error::os_on("futimens", || at.to_string()))
    }

    fn note_owner(&mut self, at: &WorldPath) {
        self.notes
            .push(format!("{at}: only root can keep its owner and group"));
    }
}

/// Opens a file that lies where the tree has it; `None` if another node lies there.
fn in_place(
    (tree, node): (&PastTree<'_>, NodeId),
    dir: BorrowedFd<'_>,
    name: Name<'_>,
) -> Result<Option<(OwnedFd, Meta)>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open_beneath(dir, name.bytes(), flags, Mode::empty()) {
        Err(Error::NotFound) => return Ok(None),
        // The file's mode excludes its own owner: it is opened by its path.
        Err(error) if error.is_denial() => return Ok(None),
        Err(Error::Os { call, errno, .. }) => {
            return Err(Error::os_on(call, || crate::name::quoted(name.bytes()))(
                errno,
            ));
        }
        opened => opened?,
    };
    let meta = stat_fd(file.as_fd())?;
    let is_it = tree.ids(node) == Some([meta.id.0, meta.id.1]);
    Ok((is_it && meta.kind == FileType::RegularFile).then_some((file, meta)))
}

fn attributes(meta: &Meta) -> NodeAttributes {
    NodeAttributes {
        kind: meta.kind,
        mode: meta.permissions(),
        uid: meta.uid,
        gid: meta.gid,
        size: meta.size,
        mtime: (meta.mtime.sec, meta.mtime.nsec),
    }
}

fn owner(meta: &NodeAttributes) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
}

fn times(meta: &NodeAttributes) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: meta.mtime.0,
            tv_nsec: i64::from(meta.mtime.1),
        },
    }
}

fn path_text(dir: &Dir, name: Name<'_>) -> String {
    dir.path().join(name).to_string()
}
