//! A trial of what homes need on this machine, for `doctor`: a home of an empty store is mounted as any other, used and
//! unmounted, and nothing of it stays.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::hold::{Hold, hold, unmounted};
use crate::error::{Error, Kind, Result};
use crate::mounts::unmount::unmount;
use crate::mounts::{diagnosis, table};

/// What helps where the temporary directory is no place for a store.
const OTHER_DIRECTORY: &str =
    "Set TMPDIR to a directory on a disk's file system that has space and that you may write to.";

/// What the trial found out about the home.
#[derive(Debug)]
pub struct TrialHome {
    /// The kernel read and wrote the store's files itself.
    pub passthrough: bool,
}

/// Returns the kernel's release.
///
/// # Errors
/// As [`diagnosis::check_kernel`].
pub fn try_kernel() -> Result<String> {
    diagnosis::check_kernel()?;
    Ok(diagnosis::kernel_release())
}

/// Opens /dev/fuse.
///
/// # Errors
/// As [`diagnosis::device_error`].
pub fn try_device() -> Result<()> {
    diagnosis::open_device()
        .map(drop)
        .map_err(diagnosis::device_error)
}

/// Mounts a home in the temporary directory, uses it and unmounts it.
///
/// # Errors
/// Those of making the store, of mounting, of what is done in the home, and of unmounting.
pub fn try_mount() -> Result<TrialHome> {
    let store = make_store()?;
    let tried = mount_store(&store).and_then(use_home);
    // The home, if it could not be unmounted, is not below the store.
    let removed = std::fs::remove_dir_all(&store);
    let tried = tried?;
    removed.map_err(|error| trial_error(&store, "removed", &error))?;
    Ok(tried)
}

fn make_store() -> Result<PathBuf> {
    loop {
        let mut id = [0_u8; 8];
        let _ = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
        let id = u64::from_ne_bytes(id);
        let store = std::env::temp_dir().join(format!("trumanfs-trial-{id:016x}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&store) {
            Ok(()) => return Ok(store),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(trial_error(&store, "made", &error)),
        }
    }
}

/// Mounts the store. A directory in somebody's home is part of that home, in which nothing is tried.
fn mount_store(store: &Path) -> Result<Hold> {
    if unmounted(store)?.is_none() {
        return Err(Error::refused(
            format!("{} lies in a mounted home", store.display()),
            "Set TMPDIR to a directory outside of homes.",
        ));
    }
    hold(store, None, &|_| Ok(())).map_err(|error| match error.kind() {
        // What the disk of the temporary directory cannot do says nothing of other disks.
        Kind::System => {
            let (what, _) = error.into_words();
            Error::refused(format!("{}: {what}", store.display()), OTHER_DIRECTORY)
        }
        _ => error,
    })
}

fn use_home(hold: Hold) -> Result<TrialHome> {
    let home = hold.mounted_at();
    let file = home.join("trial");
    let content = b"written in the home\n";
    std::fs::write(&file, content).map_err(|error| trial_error(&file, "written", &error))?;
    let read = std::fs::read(&file).map_err(|error| trial_error(&file, "read", &error))?;
    if read != content {
        let error = std::io::Error::from(ErrorKind::InvalidData);
        return Err(trial_error(&file, "read as it was written", &error));
    }
    let status = hold.client().status()?;
    let passthrough =
        status.is_some_and(|status| status.mechanisms.get("passthrough") == Some(&true.into()));
    drop(hold);
    if table::find(&home).is_some() {
        // The daemon could not unmount it, and has ended: the same attempt says why.
        unmount(&home, true)?;
    }
    Ok(TrialHome { passthrough })
}

fn trial_error(path: &Path, act: &str, error: &std::io::Error) -> Error {
    Error::refused(
        format!(
            "{} cannot be {act}: {}",
            path.display(),
            crate::error::reason(error)
        ),
        OTHER_DIRECTORY,
    )
}
