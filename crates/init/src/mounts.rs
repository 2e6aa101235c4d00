//! Mounts that are nowhere yet, and places for them in the root of a sandbox. Places are found without following a
//! link, for some are the occupant's.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};

/// Clones a mount, or a part of it, as one of its own.
pub(crate) fn clone(
    dir: impl AsFd,
    path: impl rustix::path::Arg,
    recursive: bool,
) -> Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    rustix::mount::open_tree(dir, path, flags)
}

/// Makes a file system of a kind, mounted nowhere yet.
pub(crate) fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Makes a file.
pub(crate) fn write(root: &OwnedFd, path: &Path, content: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, path, flags, Mode::from_raw_mode(0o644))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Opens a place in the root, without following a link.
pub(crate) fn open_place(dir: impl AsFd, path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat2(
        dir,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a place for a mount, and makes it and the directories above where they are not there.
pub(crate) fn place(root: &OwnedFd, path: &Path, is_dir: bool) -> Result<OwnedFd> {
    match open_place(root, path) {
        Err(Errno::NOENT) => {}
        found => return found,
    }
    let mut dir = open_place(root, Path::new("."))?;
    let mut names = path.iter().peekable();
    while let Some(name) = names.next() {
        let name = Path::new(name);
        dir = match open_place(&dir, name) {
            Err(Errno::NOENT) => {
                let made = if names.peek().is_some() || is_dir {
                    rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755))
                } else {
                    write(&dir, name, b"")
                };
                // Below /tmp, another sandbox of the session may make the same at this moment.
                match made {
                    Err(errno) if errno != Errno::EXIST => return Err(errno),
                    _ => open_place(&dir, name)?,
                }
            }
            found => found?,
        };
    }
    Ok(dir)
}

/// Mounts at a place of this process's own making.
pub(crate) fn attach_own(root: &OwnedFd, tree: impl AsFd, target: &Path) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", root, target, flags)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// All sandboxes of a session have one /tmp, and each makes the place of a home that lies below it.
    #[test]
    fn several_may_make_one_place_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir.path(), flags, Mode::empty()).unwrap();
        for round in 0..200 {
            let target = format!("tmp{round}/a/b");
            std::thread::scope(|scope| {
                let made: Vec<_> = (0..4)
                    .map(|_| {
                        let (root, target) = (&root, Path::new(&target).join("f"));
                        scope.spawn(move || place(root, &target, true).map(drop))
                    })
                    .collect();
                for one in made {
                    assert_eq!(one.join().unwrap(), Ok(()), "{target}");
                }
            });
        }
        // A link that somebody puts there is not followed.
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        assert_eq!(
            place(&root, Path::new("link/x"), true).map(drop),
            Err(Errno::LOOP)
        );
    }
}
