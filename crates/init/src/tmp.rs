//! Mounts below /tmp, the scratch directory that all sandboxes of a session share and that their programs fill.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::{Errno, Result};
use rustix::mount::{MountAttrFlags, MoveMountFlags};

use crate::error::{Step, StepFailure};
use crate::mounts::{file_system, open_place, place};
use crate::orders::InitOrders;
use crate::sys::mount::{attr, set_attributes};

/// The scratch directory.
pub(crate) const TMP: &str = "tmp";

/// Returns whether a path lies below /tmp, so that it can be made only once /tmp is mounted.
pub(crate) fn below_tmp(target: &Path) -> bool {
    target.starts_with(TMP) && target != Path::new(TMP)
}

/// A small file system of this sandbox's own on a directory below /tmp, with the places of the mounts that lie deeper.
pub(crate) struct TmpCover {
    path: PathBuf,
    root: OwnedFd,
}

impl TmpCover {
    /// Opens the place of a mount, if it lies here.
    pub(crate) fn place(&self, target: &Path, is_dir: bool) -> Option<Result<OwnedFd>> {
        let below = target.strip_prefix(&self.path).ok();
        let below = below.filter(|below| !below.as_os_str().is_empty());
        below.map(|below| place(&self.root, below, is_dir))
    }
}

/// Covers the first directory below /tmp on the way to each mount that lies deeper. Otherwise a program could move that
/// directory away, and with it what is mounted in other sandboxes of the session.
pub(crate) fn cover_in_tmp(
    root: &OwnedFd,
    orders: &InitOrders,
) -> std::result::Result<Vec<TmpCover>, StepFailure> {
    let mut firsts: Vec<PathBuf> = Vec::new();
    let below = || orders.binds.iter().filter(|b| below_tmp(&b.target));
    for bind in below() {
        let first: PathBuf = bind.target.iter().take(2).collect();
        if !firsts.contains(&first) && (bind.is_dir || bind.target != first) {
            firsts.push(first);
        }
    }
    let mut covers = Vec::new();
    for path in firsts {
        let failed = |errno| StepFailure::new(Step::Mount, format!("/{}", path.display()), errno);
        let dir = own_dir(root, &path).map_err(failed)?;
        if below().any(|bind| bind.target == path) {
            continue;
        }
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let root = file_system("tmpfs", &[("mode", "0755"), ("size", "64k")], attributes)
            .map_err(failed)?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&root, "", &dir, "", flags).map_err(failed)?;
        let cover = TmpCover {
            path: path.clone(),
            root,
        };
        let places = below().filter_map(|bind| cover.place(&bind.target, bind.is_dir));
        let places: Result<Vec<OwnedFd>> = places.collect();
        places.map_err(failed)?;
        set_attributes(&cover.root, attr::READ_ONLY, false).map_err(failed)?;
        covers.push(cover);
    }
    Ok(covers)
}

/// Opens a directory in /tmp whose name is the sandbox's, and makes it. What a program has put there goes: it is a file
/// or a link, and a directory is taken as it is.
fn own_dir(root: &OwnedFd, path: &Path) -> Result<OwnedFd> {
    // A program can put something there again at once, and gains nothing by it.
    for _ in 0..100 {
        match open_place(root, path) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => continue,
                    Err(errno) => return Err(errno),
                }
            }
            Err(Errno::LOOP) => {}
            Ok(found) if is_dir(&found)? => return Ok(found),
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
        match rustix::fs::unlinkat(root, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::LOOP)
}

fn is_dir(fd: &OwnedFd) -> Result<bool> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}
