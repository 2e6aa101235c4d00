//! Policies of stores that an operator trusts: a record for each store, with the digest of the file, outside all
//! stores. A store that is copied or cloned brings its files along, and must not bring its own rules.

use std::fs::{DirBuilder, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use trumanfs_types::error::{Error, Result};
use trumanfs_types::name::escape;

/// The records of one user.
#[derive(Debug, Clone)]
pub(super) struct TrustRecords {
    dir: PathBuf,
}

/// A record: this store's policy may be used while its text has this digest.
#[derive(Debug, Serialize, Deserialize)]
struct TrustRecord {
    /// The store's path, escaped.
    store: String,
    /// The SHA-256 of the file.
    sha256: String,
    /// When it was trusted (RFC 3339).
    time: String,
}

impl TrustRecords {
    /// Returns this user's records: below /var/lib for root, below XDG_STATE_HOME for others.
    ///
    /// # Errors
    /// There is no directory for them.
    pub(super) fn of_user() -> Result<TrustRecords> {
        if rustix::process::geteuid().is_root() {
            return Ok(TrustRecords::at(Path::new("/var/lib")));
        }
        let absolute = |name: &str| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        let none = || {
            let what =
                "there is no place for records of trust: neither XDG_STATE_HOME nor HOME is set";
            Error::refused(what, "Set one of them to a directory of yours.")
        };
        state.map(|state| TrustRecords::at(&state)).ok_or_else(none)
    }

    /// Returns the records below a directory.
    pub(super) fn at(state: &Path) -> TrustRecords {
        TrustRecords {
            dir: state.join("trumanfs/trusted"),
        }
    }

    fn file(&self, store: &Path) -> PathBuf {
        let digest = Sha256::digest(store.as_os_str().as_bytes());
        let name: String = digest
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.dir.join(format!("{name}.json"))
    }

    /// Returns the digest that is trusted for a store. A record that cannot be read is none.
    pub(super) fn find(&self, store: &Path) -> Option<String> {
        let text = std::fs::read(self.file(store)).ok()?;
        let record: TrustRecord = serde_json::from_slice(&text).ok()?;
        (record.store == escape(store.as_os_str().as_bytes())).then_some(record.sha256)
    }

    /// Records that a store's policy is trusted while it has this digest.
    ///
    /// # Errors
    /// The record cannot be written, or would lie in the store.
    pub(super) fn record(&self, store: &Path, sha256: &str) -> Result<()> {
        if self.dir.starts_with(store) {
            let what = format!(
                "{} would lie in the store, where its occupant could write it",
                self.dir.display()
            );
            return Err(Error::refused(
                what,
                "Set XDG_STATE_HOME to a directory outside the store.",
            ));
        }
        let record = TrustRecord {
            store: escape(store.as_os_str().as_bytes()),
            sha256: sha256.to_owned(),
            time: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        };
        let text =
            serde_json::to_vec(&record).map_err(|error| Error::Damaged(error.to_string()))?;
        let failed = |call: &'static str| {
            let dir = self.dir.display().to_string();
            move |error: std::io::Error| Error::System {
                what: format!("{dir}: {call}: {}", trumanfs_types::error::reason(&error)),
                remedy: "The record of trust was not written; nothing has changed.".to_owned(),
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(failed("mkdir"))?;
        let file = self.file(store);
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let write = || {
            let mut out = std::fs::File::create(&new)?;
            out.set_permissions(Permissions::from_mode(0o600))?;
            out.write_all(&text)?;
            out.sync_all()?;
            std::fs::rename(&new, &file)
        };
        write().map_err(failed("write"))
    }

    /// Forgets that a store's policy is trusted. Returns whether it was.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub(super) fn forget(&self, store: &Path) -> Result<bool> {
        match std::fs::remove_file(self.file(store)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("unlink", &error)),
        }
    }
}
