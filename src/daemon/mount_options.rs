//! Everything that was chosen for one mount, as it is sent to the daemon.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mountpoint::HomeMountFlags;
use crate::name::EscapedBytes;
use crate::world::{KeepOptions, SessionPatterns};

/// The options of one mount.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MountOptions {
    /// The store's path.
    #[serde(with = "any_bytes")]
    pub store: PathBuf,
    /// Device and inode of the directory that the store's path was looked up to, if it was.
    #[serde(default)]
    pub store_id: Option<(u64, u64)>,
    /// The directory that has the store's own directories, where that was made for a new store outside it.
    #[serde(default)]
    pub state: Option<EscapedBytes>,
    /// The home's path.
    #[serde(with = "any_bytes")]
    pub home: PathBuf,
    /// The mount options.
    pub mount: HomeMountFlags,
    /// The user that the home is for; this process's own if absent.
    pub owner: Option<String>,
    /// Patterns of hidden paths.
    pub hide: Vec<String>,
    /// Patterns of read-only paths.
    pub read_only: Vec<String>,
    /// Patterns of what can be made again, so that its removal and its former contents are not kept.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// Patterns for this session alone.
    #[serde(default)]
    pub session_patterns: SessionPatterns,
    /// True if symlinks that stay inside the store exist.
    pub symlinks_inside: bool,
    /// True if `.trash` is listed.
    pub list_trash: bool,
    /// The time that the kernel may cache entries and attributes.
    pub cache_ttl: Option<Duration>,
    /// True if extended attributes are supported.
    pub xattr: bool,
    /// True if each record is on disk before its act.
    pub durable: bool,
    /// Which former contents are kept.
    pub keep: KeepOptions,
    /// True if the workers may follow a caller to its processor.
    pub follow: bool,
    /// True if the kernel may access the store's files itself.
    pub passthrough: bool,
    /// True if the home ends with the last connection that holds it, and its directory with it.
    #[serde(default)]
    pub while_held: bool,
    /// True if the home shall be at no path, where that is possible, so that only sandboxes enter it. All symlinks exist
    /// then.
    #[serde(default)]
    pub only_in_sandboxes: bool,
}

/// JSON encoding of paths, which may be any bytes; JSON is UTF-8.
mod any_bytes {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::PathBuf;

    use serde::{Deserialize, Serialize};

    use crate::name::EscapedBytes;

    pub(super) fn serialize<S: serde::Serializer>(
        path: &std::path::Path,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        EscapedBytes(path.as_os_str().as_bytes().to_vec()).serialize(to)
    }

    pub(super) fn deserialize<'a, D: serde::Deserializer<'a>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        EscapedBytes::deserialize(from).map(|path| std::ffi::OsString::from_vec(path.0).into())
    }
}
