//! The stores behind homes: one small file for each mount of this machine, gone with the mount.
//!
//! A hint and no state: the home itself must not tell (an occupant could ask), and the store cannot be found from the
//! mount table, which does not name it. A file that is left behind by a crash is recognised by its mount being gone.
//! Readable by the operator only.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::diagnosis::in_user_namespace;
use trumanfs_types::error::{Error, Result, reason};
use trumanfs_types::name::{escape, unescape};

/// The facts about one mount.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct MountInfo {
    /// Where the store is, escaped.
    store: String,
    /// Where the home is, escaped.
    home: String,
    /// The daemon.
    pub pid: u32,
}

impl MountInfo {
    /// Describes a mount of this process.
    pub fn new(store: &Path, home: &Path) -> MountInfo {
        use std::os::unix::ffi::OsStrExt;
        MountInfo {
            store: escape(store.as_os_str().as_bytes()),
            home: escape(home.as_os_str().as_bytes()),
            pid: std::process::id(),
        }
    }

    /// Returns where the store is.
    pub fn store(&self) -> PathBuf {
        path(&self.store)
    }

    /// Returns whether its daemon lives.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok();
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// Returns where the home is.
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

/// Where root's entries are.
const OF_ROOT: &str = "/run/trumanfs";

/// Returns where this process's entries may be, the best place first: what holds them may be absent or read-only.
fn own_places() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let session = session.map(|dir| PathBuf::from(dir).join("trumanfs"));
    let temporary = std::env::temp_dir().join(format!("trumanfs-{}", uid.as_raw()));
    let of_root = uid.is_root().then(|| PathBuf::from(OF_ROOT));
    // The root of a user namespace is a user of the machine, whose runtime directory is theirs alone.
    let places = if in_user_namespace() {
        [session, of_root]
    } else {
        [of_root, session]
    };
    places.into_iter().flatten().chain([temporary]).collect()
}

/// Returns the directories whose entries this process believes: its own, and root's.
fn trusted_places() -> impl Iterator<Item = PathBuf> {
    let mut places = own_places();
    if !places.iter().any(|place| place == OF_ROOT) {
        places.push(PathBuf::from(OF_ROOT));
    }
    let own = rustix::process::geteuid().as_raw();
    places.into_iter().filter(move |place| {
        let meta = std::fs::symlink_metadata(place);
        meta.is_ok_and(|meta| is_safe(&meta, &[own, 0]))
    })
}

/// Returns whether only these users can put something into a directory.
fn is_safe(meta: &std::fs::Metadata, users: &[u32]) -> bool {
    meta.is_dir() && users.contains(&meta.uid()) && meta.mode() & 0o022 == 0
}

/// Makes and checks the directory of this process's entries: the first that can be had.
fn own_place() -> Result<PathBuf> {
    let mut first = None;
    for dir in own_places() {
        match make_place(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(first.unwrap_or(Error::NotFound))
}

fn make_place(dir: &Path) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Error::refused(
                format!("cannot make {}: {}", dir.display(), reason(&error)),
                "trumanfs notes there which store is behind a home: let the directory above it exist and be yours to write to, \
                 or set XDG_RUNTIME_DIR or TMPDIR to one that is.",
            ));
        }
    }
    let meta = std::fs::symlink_metadata(dir).map_err(|error| not_safe(dir, &error.to_string()))?;
    if !is_safe(&meta, &[rustix::process::geteuid().as_raw()]) {
        return Err(not_safe(dir, "is not safe to use"));
    }
    // What was made before may lie on a file system that is read-only by now.
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| not_safe(dir, &reason(&errno.into())))
}

fn not_safe(dir: &Path, what: &str) -> Error {
    Error::refused(
        format!("{}: {what}", dir.display()),
        "It must be a directory of yours alone.",
    )
}

/// Writes the entry of a mount.
///
/// # Errors
/// [`Error::Refused`] where the directory is not this user's alone; what writing says.
pub fn write(device: &str, entry: &MountInfo) -> Result<PathBuf> {
    let dir = own_place()?;
    let refused = |what: String| not_safe(&dir, &what);
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

/// The directory of homes that are mounted for a request, among the entries.
const TEMPORARY: &str = "homes";

/// Makes a directory for a home that is mounted for a request.
///
/// # Errors
/// As [`write()`].
pub fn temporary_home() -> Result<PathBuf> {
    let dir = own_place()?.join(TEMPORARY);
    let refused = |error: std::io::Error| not_safe(&dir, &error.to_string());
    let private = |dir: &Path| std::fs::DirBuilder::new().mode(0o700).create(dir);
    match private(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(refused(error));
        }
        _ => {}
    }
    loop {
        let mut id = [0_u8; 8];
        let _ = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
        let home = dir.join(format!("{:016x}", u64::from_ne_bytes(id)));
        match private(&home) {
            Ok(()) => return Ok(home),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(error)),
        }
    }
}

/// Returns whether a home was mounted for a request.
pub fn is_temporary(home: &Path) -> bool {
    let mut places = own_places().into_iter().chain([OF_ROOT.into()]);
    places.any(|place| home.parent() == Some(&place.join(TEMPORARY)))
}

/// Returns whether a path is that of a home that was mounted for a request of any user, and has not ended.
pub fn is_temporary_of_any(home: &Path) -> bool {
    home.parent().is_some_and(|dir| dir.ends_with(TEMPORARY)) && home.is_dir()
}

/// Takes the entry of a mount of this process away. The number of its device may be another mount's by now, and so the entry.
pub fn remove(file: &Path) {
    let _alone = file.parent().and_then(alone);
    let entry = read(file);
    if entry.is_some_and(|entry| entry.pid == std::process::id()) {
        let _ = std::fs::remove_file(file);
    }
}

/// Keeps others from writing or removing entries while it lives.
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
    trusted_places().find_map(|dir| read(&dir.join(device)))
}

/// Returns the entries of all mounts that this user may know of and whose daemon lives.
pub fn all() -> Vec<MountInfo> {
    entries().filter(MountInfo::is_alive).collect()
}

/// Returns the entries of homes that are at no path: only sandboxes enter them.
pub fn in_sandboxes() -> Vec<MountInfo> {
    let mounted = super::table::mounted();
    let mut homes = all();
    homes.retain(|entry| {
        let home = entry.home();
        is_temporary(&home) && !mounted.iter().any(|mounted| mounted.path == home)
    });
    homes
}

/// Returns where a store was mounted for requests, as far as there are entries of it; the daemons may be dead.
pub fn temporary_homes_of(store: &Path) -> Vec<PathBuf> {
    let of_store = entries().filter(|entry| entry.store() == store);
    let homes = of_store.map(|entry| entry.home());
    homes.filter(|home| is_temporary(home)).collect()
}

fn entries() -> impl Iterator<Item = MountInfo> {
    let files = trusted_places()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten();
    files.flatten().filter_map(|file| read(&file.path()))
}
