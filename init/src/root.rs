//! The root of a sandbox: a file system in memory, on which parts of the host are mounted read-only, and the home.
//!
//! What is shown is cloned from the host's tree before anything is covered. Places in the new root are found without
//! following a link, for the scratch directory and the home are the occupant's.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use crate::error::{Failed, Step};
use crate::orders::{Bind, Entry, Orders, Source};
use crate::sys::mount::{attr, set_attributes};

/// Where the new root is put until it is the root: a directory that every system has.
const PLACE: &str = "/tmp";

/// Makes the root as ordered, and leaves the host's.
pub(crate) fn make(orders: &Orders, fds: &[OwnedFd]) -> std::result::Result<(), Failed> {
    let mut trees = Vec::with_capacity(orders.binds.len());
    for bind in &orders.binds {
        trees.push(tree(bind, fds).map_err(|errno| failed(Step::Source, &bind.source, errno))?);
    }
    let at_root = |errno| Failed::new(Step::Root, "tmpfs", errno);
    let size = orders.memory_files.to_string();
    let root = file_system(
        "tmpfs",
        &[("mode", "0755"), ("size", &size)],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .map_err(at_root)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&root, "", CWD, PLACE, flags).map_err(at_root)?;
    fill(&root, orders)?;
    let shared = clone(root.as_fd(), "dev/shm", false)
        .map_err(|errno| Failed::new(Step::Mount, "/dev/shm", errno))?;

    let mut binds = orders.binds.iter().zip(&trees);
    for (bind, tree) in binds.by_ref().take_while(|(bind, _)| !bind.late) {
        mount(&root, bind, tree)?;
    }
    proc(&root)?;
    set_attributes(&root, attr::READ_ONLY | attr::NO_SUID, true)
        .map_err(|errno| Failed::new(Step::Root, "mount_setattr", errno))?;
    private_devices(&root, &shared)?;
    for (bind, tree) in orders
        .binds
        .iter()
        .zip(&trees)
        .filter(|(bind, _)| bind.late)
    {
        mount(&root, bind, tree)?;
    }
    leave(&root).map_err(|errno| Failed::new(Step::Pivot, "", errno))
}

/// Checks that a root that somebody else has made by path has the home and all else there that the plan has descriptors
/// of: a path may have led elsewhere meanwhile.
pub(crate) fn verify(orders: &Orders, fds: &[OwnedFd]) -> std::result::Result<(), Failed> {
    for bind in &orders.binds {
        let Source::Verified(_, index) = &bind.source else {
            continue;
        };
        let given = fds.get(*index as usize).ok_or(Errno::BADF);
        let target = Path::new("/").join(&bind.target);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = rustix::fs::openat(CWD, target, flags, Mode::empty());
        match found.and_then(|found| Ok(identity(found)? == identity(given?)?)) {
            Ok(true) => {}
            Ok(false) => return Err(failed(Step::Source, &bind.source, Errno::STALE)),
            Err(errno) => return Err(failed(Step::Source, &bind.source, errno)),
        }
    }
    Ok(())
}

fn failed(step: Step, source: &Source, errno: Errno) -> Failed {
    let about = match source {
        Source::Path(path) | Source::Verified(path, _) => path.display().to_string(),
        Source::Detached(_) => "a detached mount".to_owned(),
    };
    Failed::new(step, about, errno)
}

/// Clones what is to be bound, as a mount of its own that is nowhere yet.
fn tree(bind: &Bind, fds: &[OwnedFd]) -> Result<OwnedFd> {
    let given = |index: u32| fds.get(index as usize).ok_or(Errno::BADF);
    match &bind.source {
        Source::Path(path) => clone(CWD, path, true),
        Source::Detached(index) => given(*index)?.try_clone().map_err(|_| Errno::MFILE),
        Source::Verified(path, index) => {
            let found = clone(CWD, path, true)?;
            if identity(&found)? == identity(given(*index)?)? {
                Ok(found)
            } else {
                Err(Errno::STALE)
            }
        }
    }
}

/// The device and the inode, as the kernel knows them: a file system that hangs is not asked.
fn identity(fd: impl AsFd) -> Result<(u32, u32, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, "", flags, StatxFlags::INO)?;
    Ok((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino))
}

fn clone(dir: impl AsFd, path: impl rustix::path::Arg, recursive: bool) -> Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    rustix::mount::open_tree(dir, path, flags)
}

/// Makes a file system of a kind, mounted nowhere yet.
fn file_system(
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

/// Makes what the root holds itself, and the places of what is mounted before it becomes read-only.
fn fill(root: &OwnedFd, orders: &Orders) -> std::result::Result<(), Failed> {
    fn failed(path: &Path) -> impl Fn(Errno) -> Failed {
        move |errno| Failed::new(Step::Root, path.display().to_string(), errno)
    }
    for entry in &orders.entries {
        match entry {
            Entry::Dir(path) => {
                rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755))
                    .map_err(failed(path))?;
            }
            Entry::File(path, content) => write(root, path, content).map_err(failed(path))?,
            Entry::Link(path, to) => rustix::fs::symlinkat(to, root, path).map_err(failed(path))?,
        }
    }
    // Everybody's, as on a host; there is one user only.
    rustix::fs::chmodat(
        root,
        "dev/shm",
        Mode::from_raw_mode(0o1777),
        AtFlags::empty(),
    )
    .map_err(failed(Path::new("dev/shm")))?;
    for bind in &orders.binds {
        match bind.late {
            false => make_own(root, &bind.target, bind.is_dir).map_err(failed(&bind.target))?,
            true if below_tmp(&bind.target) => {}
            true => {
                place(root, &bind.target, bind.is_dir).map_err(failed(&bind.target))?;
            }
        }
    }
    Ok(())
}

/// Makes a place for a mount where everything is of this process's making: no link of somebody else's is on the way.
fn make_own(root: &OwnedFd, path: &Path, is_dir: bool) -> Result<()> {
    let made = match is_dir {
        true => rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755)),
        false => write(root, path, b""),
    };
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Whether a place lies in what is mounted at /tmp, and so can be made later only.
fn below_tmp(target: &Path) -> bool {
    target.starts_with("tmp") && target != Path::new("tmp")
}

fn write(root: &OwnedFd, path: &Path, content: &[u8]) -> Result<()> {
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
fn open_place(dir: impl AsFd, path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat2(
        dir,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a place for a mount, and makes it and the directories above where they are not there.
fn place(root: &OwnedFd, path: &Path, is_dir: bool) -> Result<OwnedFd> {
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
                let made = match names.peek().is_some() || is_dir {
                    true => rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)),
                    false => write(&dir, name, b""),
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
fn attach_own(root: &OwnedFd, tree: impl AsFd, target: &Path) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", root, target, flags)
}

/// Mounts at a place that may be the occupant's.
fn attach(root: &OwnedFd, tree: impl AsFd, target: &Path, is_dir: bool) -> Result<()> {
    let place = place(root, target, is_dir)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", &place, "", flags)
}

fn mount(root: &OwnedFd, bind: &Bind, tree: &OwnedFd) -> std::result::Result<(), Failed> {
    let failed = |errno| Failed::new(Step::Mount, format!("/{}", bind.target.display()), errno);
    if bind.attributes != 0 {
        set_attributes(tree, bind.attributes, true).map_err(failed)?;
    }
    match bind.late {
        false => attach_own(root, tree, &bind.target).map_err(failed),
        true => attach(root, tree, &bind.target, bind.is_dir).map_err(failed),
    }
}

/// Mounts this PID namespace's /proc, all of it read-only: much in it belongs to root without asking for a capability,
/// and a home's owner may be root.
fn proc(root: &OwnedFd) -> std::result::Result<(), Failed> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    file_system("proc", &[], attributes)
        .and_then(|proc| attach_own(root, &proc, Path::new("proc")))
        .map_err(|errno| Failed::new(Step::Proc, "", errno))
}

/// Mounts terminals of the sandbox's own, and its shared memory.
fn private_devices(root: &OwnedFd, shared: &OwnedFd) -> std::result::Result<(), Failed> {
    let failed = |path: &'static str| move |errno| Failed::new(Step::Mount, path, errno);
    attach_own(root, shared, Path::new("dev/shm")).map_err(failed("/dev/shm"))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    file_system(
        "devpts",
        &[("ptmxmode", "0666"), ("mode", "0620")],
        attributes,
    )
    .and_then(|pts| attach_own(root, &pts, Path::new("dev/pts")))
    .map_err(failed("/dev/pts"))
}

/// Makes the new root the root, and lets go of the host's.
fn leave(root: &OwnedFd) -> Result<()> {
    rustix::process::fchdir(root)?;
    // With one and the same directory for both, the old root comes to lie on the new one; pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
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
