//! The registry of mounts: one small file for each mount of this machine names its store, and is deleted with the
//! mount.
//!
//! A hint, not state: the home itself must not reveal its store (an occupant could ask), and the mount table does not
//! name it. A file left behind by a crash is recognised because its mount is gone. Readable by the operator only.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::name::{escape, unescape};

/// The entry of one mount.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct MountInfo {
    /// The store's path, escaped.
    store: String,
    /// The home's path, escaped.
    home: String,
    /// The daemon's process id.
    pub pid: u32,
}

impl MountInfo {
    /// Creates the entry for a mount of this process.
    pub fn new(store: &Path, home: &Path) -> MountInfo {
        use std::os::unix::ffi::OsStrExt;
        MountInfo {
            store: escape(store.as_os_str().as_bytes()),
            home: escape(home.as_os_str().as_bytes()),
            pid: std::process::id(),
        }
    }

    /// Returns the store's path.
    pub fn store(&self) -> PathBuf {
        path(&self.store)
    }

    /// Returns the home's path.
    pub fn home(&self) -> PathBuf {
        path(&self.home)
    }
}

fn path(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(
        unescape(text).unwrap_or_default(),
    ))
}

/// Returns the directories of root's and of a user's entries. The first is this process's own.
fn places() -> Vec<PathBuf> {
    let root = PathBuf::from("/run/trumanfs");
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return vec![root];
    }
    let own = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("trumanfs"),
        _ => std::env::temp_dir().join(format!("trumanfs-{}", uid.as_raw())),
    };
    vec![own, root]
}

/// Writes the entry of a mount.
///
/// # Errors
/// [`Error::Refused`] if others have access to the directory; any error from writing.
pub fn write(device: &str, entry: &MountInfo) -> Result<PathBuf> {
    let dir = places().into_iter().next().unwrap_or_default();
    let refused = |what: String| {
        Error::refused(
            format!("{}: {what}", dir.display()),
            "It must be a directory of yours alone.",
        )
    };
    match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(error.to_string())),
    }
    let meta = std::fs::symlink_metadata(&dir).map_err(|error| refused(error.to_string()))?;
    if !meta.is_dir()
        || meta.uid() != rustix::process::geteuid().as_raw()
        || meta.mode() & 0o022 != 0
    {
        return Err(refused("is not safe to use".to_owned()));
    }
    let file = dir.join(device);
    let _alone = alone(&dir);
    let _ = std::fs::remove_file(&file);
    let text = serde_json::to_string(entry).unwrap_or_default();
    let mut options = std::fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .and_then(|mut file| {
            use std::io::Write;
            file.write_all(text.as_bytes())
        });
    written.map_err(|error| refused(error.to_string()))?;
    Ok(file)
}

/// Removes the entry of a mount of this process. Its device number, and so the entry, may belong to another mount by
/// now.
pub fn remove(file: &Path) {
    let _alone = file.parent().and_then(alone);
    let entry = read(file);
    if entry.is_some_and(|entry| entry.pid == std::process::id()) {
        let _ = std::fs::remove_file(file);
    }
}

/// Locks the directory, so that others neither write nor remove entries until the lock is dropped.
fn alone(dir: &Path) -> Option<std::fs::File> {
    let dir = std::fs::File::open(dir).ok()?;
    rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(dir)
}

fn read(file: &Path) -> Option<MountInfo> {
    let text = std::fs::read_to_string(file).ok()?;
    serde_json::from_str(&text).ok()
}

/// Finds the entry of a mount by its device number, `major:minor`.
pub fn find(device: &str) -> Option<MountInfo> {
    places().into_iter().find_map(|dir| read(&dir.join(device)))
}

/// Returns the entries of all mounts that this user may read and whose daemon lives.
pub fn all() -> Vec<MountInfo> {
    let files = places()
        .into_iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten());
    files
        .filter_map(|file| read(&file.path()))
        .filter(|entry| {
            let pid = i32::try_from(entry.pid).ok();
            let pid = pid.and_then(rustix::process::Pid::from_raw);
            pid.is_some_and(|pid| {
                rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
            })
        })
        .collect()
}
