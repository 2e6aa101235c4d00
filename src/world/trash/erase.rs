//! Permanent deletion of a tree, by descriptors: an operator's purge deletes what an occupant made.
//!
//! `purge.rs` calls it on a tree that it has already moved out of everybody's reach, a fork on its own unfinished
//! store. Every step takes a directory's descriptor and one name, opened beneath it: no link is followed and no other
//! file system entered (`openat2`, `root.rs`). One directory is open at a time, and the way up is verified by device
//! and inode, so a tree may have any depth; memory holds only the names of the directories still to be deleted. Holds
//! no locks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::name::{Name, quoted};
use crate::world::root::{Node, Root, open_beneath, stat_fd};
use trumanfs_types::meta::{Id, Meta};

/// A name that has been deleted. Its inode is still open, so the inode number cannot have been reused.
#[derive(Debug)]
pub struct ErasedName<'a> {
    /// The attributes just before the deletion.
    pub meta: &'a Meta,
    /// True if it was the last name: the content is gone.
    pub last: bool,
}

/// A directory being emptied.
struct EraseLevel {
    id: Id,
    name: Vec<u8>,
    /// The subdirectories still to be deleted.
    waiting: Vec<Vec<u8>>,
    /// The first error of an entry that could not be deleted.
    left: Option<Error>,
}

/// Deletes an entry of a directory with everything in it. `gone` is called with each name.
///
/// # Errors
/// The error of the first name that could not be deleted (immutable, a mount point). Everything else has been deleted
/// all the same. `ENOENT` if the entry is missing.
pub fn erase(
    root: &Root,
    dir: BorrowedFd<'_>,
    name: Name<'_>,
    gone: &mut dyn FnMut(&ErasedName<'_>),
) -> Result<()> {
    let node = open(dir, name)?;
    if !node.meta().is_dir() {
        return unlink(dir, name, &node, gone);
    }
    let (mut here, top) = enter(root, &node, name, gone)?;
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        if let Some(next) = level.waiting.pop() {
            let entered = Name::new(&next).and_then(|name| {
                let node = open(here.as_fd(), name)?;
                enter(root, &node, name, gone)
            });
            match entered {
                Ok((fd, level)) => {
                    here = fd;
                    levels.push(level);
                }
                // The directory was removed behind the mount.
                Err(Error::NotFound) => {}
                Err(error) => level.left = level.left.take().or(Some(error)),
            }
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let outer = match levels.last() {
            Some(outer) => Some(climb(&here, outer.id)?),
            None => None,
        };
        let parent = outer.as_ref().map_or(dir, AsFd::as_fd);
        let outcome = match done.left {
            Some(error) => Err(error),
            None => Name::new(&done.name).and_then(|name| remove_dir(parent, name, &here, gone)),
        };
        match (outcome, levels.last_mut()) {
            (Ok(()), _) => {}
            (Err(error), Some(outer)) => outer.left = outer.left.take().or(Some(error)),
            (Err(error), None) => return Err(error),
        }
        match outer {
            Some(fd) => here = fd,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Opens a directory, deletes all its entries except directories, and lists the directories.
fn enter(
    root: &Root,
    node: &Node,
    name: Name<'_>,
    gone: &mut dyn FnMut(&ErasedName<'_>),
) -> Result<(OwnedFd, EraseLevel)> {
    let meta = node.meta();
    if meta.permissions() & 0o700 != 0o700 {
        // Only the owner can change the mode, and only the owner needs to; the calls below show whether it was enough.
        let _ = root.chmod(node, meta.permissions() | 0o700);
    }
    let here = root.reopen(node, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut level = EraseLevel {
        id: meta.id,
        name: name.bytes().to_vec(),
        waiting: Vec::new(),
        left: None,
    };
    // All names are read before the first is deleted: a listing is undefined while its directory changes.
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&here).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_bytes().to_vec());
        }
    }
    for bytes in names {
        let deleted = Name::new(&bytes).and_then(|name| {
            let node = open(here.as_fd(), name)?;
            if node.meta().is_dir() {
                return Ok(false);
            }
            unlink(here.as_fd(), name, &node, gone).map(|()| true)
        });
        match deleted {
            Ok(true) | Err(Error::NotFound) => {}
            Ok(false) => level.waiting.push(bytes),
            Err(error) => level.left = level.left.take().or(Some(error)),
        }
    }
    Ok((here, level))
}

fn open(dir: BorrowedFd<'_>, name: Name<'_>) -> Result<Node> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_beneath(dir, name.bytes(), flags, Mode::empty()).and_then(Node::from_fd) {
        // Either it is missing, or another file system is mounted on it, which must not be touched.
        Err(Error::NotFound)
            if rustix::fs::statat(dir, name.bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok() =>
        {
            Err(Error::CrossDevice)
        }
        node => node,
    }
}

fn unlink(
    dir: BorrowedFd<'_>,
    name: Name<'_>,
    node: &Node,
    gone: &mut dyn FnMut(&ErasedName<'_>),
) -> Result<()> {
    rustix::fs::unlinkat(dir, name.bytes(), AtFlags::empty())
        .map_err(Error::os_on("unlinkat", || quoted(name.bytes())))?;
    gone(&ErasedName {
        meta: node.meta(),
        last: node.stat()?.nlink == 0,
    });
    Ok(())
}

fn remove_dir(
    parent: BorrowedFd<'_>,
    name: Name<'_>,
    located: &OwnedFd,
    gone: &mut dyn FnMut(&ErasedName<'_>),
) -> Result<()> {
    let meta = stat_fd(located.as_fd())?;
    rustix::fs::unlinkat(parent, name.bytes(), AtFlags::REMOVEDIR)
        .map_err(Error::os_on("unlinkat", || quoted(name.bytes())))?;
    gone(&ErasedName {
        meta: &meta,
        last: true,
    });
    Ok(())
}

/// Goes up to the directory that this one was entered from.
fn climb(from: &OwnedFd, expected: Id) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let up = rustix::fs::openat(from, "..", flags, Mode::empty()).map_err(Error::os("openat"))?;
    if stat_fd(up.as_fd())?.id == expected {
        Ok(up)
    } else {
        // Directories are being moved behind the mount; the rest stays for the next purge.
        Err(Error::NotFound)
    }
}
