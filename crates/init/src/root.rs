//! The root of a sandbox: a file system in memory, on which parts of the host are mounted read-only, and the home.
//!
//! The paths that are shown are cloned from the host's tree before anything is covered. Places in the new root are found without
//! following a link, for the scratch directory and the home are the occupant's.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{MountAttrFlags, MoveMountFlags, UnmountFlags};

use crate::error::{Step, StepFailure};
use crate::mounts::{attach_own, clone, file_system, place, write};
use crate::orders::{BindMount, BindSource, InitOrders, RootEntry};
use crate::proc::{self, ProcOwner};
use crate::sys::mount::{attr, set_attributes};
use crate::tmp::{TMP, TmpCover, below_tmp, cover_in_tmp};

/// The mount point of the new root until it is the root: a directory that every system has.
const MOUNT_POINT: &str = "/tmp";

/// Makes the root as ordered, and leaves the host's. Returns whose `/proc` is in it.
pub(crate) fn make(
    orders: &InitOrders,
    fds: &[OwnedFd],
) -> std::result::Result<ProcOwner, StepFailure> {
    let mut trees = Vec::with_capacity(orders.binds.len());
    for bind in &orders.binds {
        trees.push(
            clone_tree(bind, fds).map_err(|errno| failed(Step::Source, &bind.source, errno))?,
        );
    }
    let at_root = |errno| StepFailure::new(Step::Root, "tmpfs", errno);
    let size = orders.memory_files.to_string();
    let root = file_system(
        "tmpfs",
        &[("mode", "0755"), ("size", &size)],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .map_err(at_root)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&root, "", CWD, MOUNT_POINT, flags).map_err(at_root)?;
    fill_root(&root, orders)?;
    let shared = clone(root.as_fd(), "dev/shm", false)
        .map_err(|errno| StepFailure::new(Step::Mount, "/dev/shm", errno))?;

    let mut binds = orders.binds.iter().zip(&trees);
    for (bind, tree) in binds.by_ref().take_while(|(bind, _)| !bind.late) {
        mount(&root, bind, tree)?;
    }
    let proc = proc::mount(&root, orders.shares_proc)?;
    set_attributes(&root, attr::READ_ONLY | attr::NO_SUID, true)
        .map_err(|errno| StepFailure::new(Step::Root, "mount_setattr", errno))?;
    private_devices(&root, &shared)?;
    let mut covers = Vec::new();
    for (bind, tree) in orders.binds.iter().zip(&trees) {
        if bind.late {
            mount_late(&root, &covers, bind, tree)?;
        }
        if bind.target == Path::new(TMP) {
            covers = cover_in_tmp(&root, orders)?;
        }
    }
    leave_host_root(&root).map_err(|errno| StepFailure::new(Step::Pivot, "", errno))?;
    Ok(proc)
}

/// Checks that a root that somebody else has made by path has the home and all else there that the plan has descriptors
/// of: a path may have led elsewhere meanwhile.
pub(crate) fn verify(orders: &InitOrders, fds: &[OwnedFd]) -> std::result::Result<(), StepFailure> {
    for bind in &orders.binds {
        let BindSource::Verified(_, index) = &bind.source else {
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

fn failed(step: Step, source: &BindSource, errno: Errno) -> StepFailure {
    let about = match source {
        BindSource::Path(path) | BindSource::Verified(path, _) => path.display().to_string(),
        BindSource::Detached(_) => "a detached mount".to_owned(),
        BindSource::Empty => "an empty directory".to_owned(),
    };
    StepFailure::new(step, about, errno)
}

/// Clones what is to be bound, as a mount of its own that is nowhere yet.
fn clone_tree(bind: &BindMount, fds: &[OwnedFd]) -> Result<OwnedFd> {
    let given = |index: u32| fds.get(index as usize).ok_or(Errno::BADF);
    match &bind.source {
        BindSource::Path(path) => clone(CWD, path, true),
        BindSource::Empty => file_system(
            "tmpfs",
            &[("mode", "0555"), ("size", "4k")],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
        ),
        BindSource::Detached(index) => given(*index)?.try_clone().map_err(|_| Errno::MFILE),
        BindSource::Verified(path, index) => {
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

/// Makes what the root holds itself, and the places of what is mounted before it becomes read-only.
fn fill_root(root: &OwnedFd, orders: &InitOrders) -> std::result::Result<(), StepFailure> {
    fn failed(path: &Path) -> impl Fn(Errno) -> StepFailure {
        move |errno| StepFailure::new(Step::Root, path.display().to_string(), errno)
    }
    for entry in &orders.entries {
        match entry {
            RootEntry::Dir(path) => {
                rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755))
                    .map_err(failed(path))?;
            }
            RootEntry::File(path, content) => write(root, path, content).map_err(failed(path))?,
            RootEntry::Link(path, to) => {
                rustix::fs::symlinkat(to, root, path).map_err(failed(path))?
            }
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
        if !bind.late {
            make_own(root, &bind.target, bind.is_dir).map_err(failed(&bind.target))?;
        } else if !below_tmp(&bind.target) {
            place(root, &bind.target, bind.is_dir).map_err(failed(&bind.target))?;
        }
    }
    Ok(())
}

/// Makes a place for a mount where everything is of this process's making: no link of somebody else's is on the way.
fn make_own(root: &OwnedFd, path: &Path, is_dir: bool) -> Result<()> {
    let made = if is_dir {
        rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755))
    } else {
        write(root, path, b"")
    };
    match made {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

fn mount(root: &OwnedFd, bind: &BindMount, tree: &OwnedFd) -> std::result::Result<(), StepFailure> {
    prepare(bind, tree)
        .and_then(|()| attach_own(root, tree, &bind.target))
        .map_err(failed_at(bind))
}

/// Mounts at a place that may be the occupant's.
fn mount_late(
    root: &OwnedFd,
    covers: &[TmpCover],
    bind: &BindMount,
    tree: &OwnedFd,
) -> std::result::Result<(), StepFailure> {
    let covered = covers
        .iter()
        .find_map(|cover| cover.place(&bind.target, bind.is_dir));
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    prepare(bind, tree)
        .and_then(|()| covered.unwrap_or_else(|| place(root, &bind.target, bind.is_dir)))
        .and_then(|place| rustix::mount::move_mount(tree, "", &place, "", flags))
        .map_err(failed_at(bind))
}

fn prepare(bind: &BindMount, tree: &OwnedFd) -> Result<()> {
    match bind.attributes {
        0 => Ok(()),
        attributes => set_attributes(tree, attributes, true),
    }
}

fn failed_at(bind: &BindMount) -> impl Fn(Errno) -> StepFailure {
    let about = format!("/{}", bind.target.display());
    move |errno| StepFailure::new(Step::Mount, about.clone(), errno)
}

/// Mounts terminals of the sandbox's own, and its shared memory.
fn private_devices(root: &OwnedFd, shared: &OwnedFd) -> std::result::Result<(), StepFailure> {
    let failed = |path: &'static str| move |errno| StepFailure::new(Step::Mount, path, errno);
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

/// Makes the new root the root, and lets go of the host's. Where a filter refuses pivot_root(2), as Docker's does, the new
/// root is moved over the host's, which stays beneath, out of reach: without CAP_SYS_ADMIN nothing is unmounted, and the
/// way up ends at a root of chroot(2).
fn leave_host_root(root: &OwnedFd) -> Result<()> {
    rustix::process::fchdir(root)?;
    // With one and the same directory for both, the old root comes to lie on the new one; pivot_root(2).
    match rustix::process::pivot_root(".", ".") {
        Ok(()) => rustix::mount::unmount(".", UnmountFlags::DETACH)?,
        Err(Errno::PERM) => {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(root, "", CWD, "/", flags)?;
            rustix::process::chroot(".")?;
        }
        Err(errno) => return Err(errno),
    }
    rustix::process::chdir("/")
}
