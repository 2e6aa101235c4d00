//! A trial of what homes need on this machine, for `doctor`: a home of an empty store is mounted as any other, used and
//! unmounted, and nothing of it stays.

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hold::{HeldFor, HomeHold, hold, unmounted_store};
use super::target::Client;
use crate::error::{Error, FailureKind, Result};
use crate::mounts::unmount::unmount;
use crate::mounts::{diagnosis, table};
use crate::world::SessionPatterns;

/// The remedy if the temporary directory is no place for a store.
const OTHER_DIRECTORY: &str =
    "Set TMPDIR to a directory on a disk's file system that has space and that you may write to.";

/// The beginning of the name of each trial's store.
const STORE_PREFIX: &str = "trumanfs-trial-";

/// The longest time from making a trial's store to mounting it.
const MAX_TRIAL_TIME: Duration = Duration::from_secs(60);

/// The findings of the trial about the home.
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

/// Mounts a home in the temporary directory, for those who enter it, uses it and unmounts it.
///
/// # Errors
/// Those of making the store, of mounting, of what is done in the home, and of unmounting.
pub fn try_mount(entered: HeldFor) -> Result<TrialHome> {
    clear_leftovers(&std::env::temp_dir());
    let store = make_store()?;
    let tried = mount_store(&store, entered).and_then(use_home);
    // The home, if it could not be unmounted, is not below the store.
    let removed = std::fs::remove_dir_all(&store);
    let tried = tried?;
    removed.map_err(|error| trial_error(&store, "removed", &error))?;
    Ok(tried)
}

/// Removes the stores of this user's trials that were killed, as far as they can be removed.
fn clear_leftovers(dir: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix(STORE_PREFIX));
        let is_name =
            id.is_some_and(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(meta) = entry.metadata().ok().filter(|_| is_name) else {
            continue;
        };
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        let is_over = age.is_some_and(|age| age > MAX_TRIAL_TIME);
        // A disk that hangs may keep a trial for longer.
        let is_served = Client::open(&entry.path())
            .is_ok_and(|client| client.store.is_served().unwrap_or(true));
        if meta.is_dir() && meta.uid() == me && is_over && !is_served {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn make_store() -> Result<PathBuf> {
    loop {
        let mut id = [0_u8; 8];
        let _ = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
        let id = u64::from_ne_bytes(id);
        let store = std::env::temp_dir().join(format!("{STORE_PREFIX}{id:016x}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&store) {
            Ok(()) => return Ok(store),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(trial_error(&store, "made", &error)),
        }
    }
}

/// Mounts the store. A directory in somebody's home is part of that home, in which nothing is tried.
fn mount_store(store: &Path, entered: HeldFor) -> Result<HomeHold> {
    if unmounted_store(store)?.is_none() {
        return Err(Error::refused(
            format!("{} lies in a mounted home", store.display()),
            "Set TMPDIR to a directory outside of homes.",
        ));
    }
    hold(store, None, (entered, &SessionPatterns::default()), &|_| {
        Ok(())
    })
    .map_err(|error| match error.kind() {
        // What the disk of the temporary directory cannot do says nothing of other disks.
        FailureKind::System => {
            let (what, _) = error.into_words();
            Error::refused(format!("{}: {what}", store.display()), OTHER_DIRECTORY)
        }
        _ => error,
    })
}

fn use_home(hold: HomeHold) -> Result<TrialHome> {
    let home = hold.mounted_at();
    let root = hold.open_home()?;
    let file = PathBuf::from(format!("/proc/self/fd/{}/trial", root.as_raw_fd()));
    let content = b"written in the home\n";
    std::fs::write(&file, content)
        .map_err(|error| trial_error(&home.join("trial"), "written", &error))?;
    let read =
        std::fs::read(&file).map_err(|error| trial_error(&home.join("trial"), "read", &error))?;
    if read != content {
        let error = std::io::Error::from(ErrorKind::InvalidData);
        return Err(trial_error(
            &home.join("trial"),
            "read as it was written",
            &error,
        ));
    }
    let status = hold.client().status()?;
    let passthrough =
        status.is_some_and(|status| status.mechanisms.get("passthrough") == Some(&true.into()));
    drop((root, hold));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{File, create_dir};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn stores_of_killed_trials_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, age| {
            let path = dir.path().join(name);
            create_dir(&path).unwrap();
            std::fs::write(path.join("trial"), "x").unwrap();
            File::open(&path)
                .unwrap()
                .set_modified(SystemTime::now() - age)
                .unwrap();
            path
        };
        let hour = Duration::from_secs(3600);
        let killed = make("trumanfs-trial-0123456789abcdef", hour);
        let others = [
            make("trumanfs-trial-0123456789abcdee", Duration::ZERO),
            make("trumanfs-trial-mine", hour),
            make("trumanfs-trial-0123456789abcdef.d", hour),
        ];
        let elsewhere = make("elsewhere", hour);
        let link = dir.path().join("trumanfs-trial-0123456789abcded");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        clear_leftovers(dir.path());
        assert!(!killed.exists());
        assert!(others.iter().all(|other| other.join("trial").exists()));
        assert!(elsewhere.join("trial").exists());
    }
}
