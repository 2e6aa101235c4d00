//! All checks before a home is mounted, so that a refusal has a remedy and nothing has been touched.

use std::path::{Path, PathBuf};

use super::MountOptions;
use super::atime::AccessTimeSetting;
use super::user_homes::expect_not_nested;
use crate::error::{Error, FailureKind, Result};
use crate::mounts::{diagnosis, table};
use crate::sys::users::{self, UserEntry};

/// The results of the checks.
#[derive(Debug)]
pub struct PreflightResult {
    /// The store's absolute path.
    pub store: PathBuf,
    /// The home's absolute path.
    pub home: PathBuf,
    /// The user that the home is for, if it is not this process's own.
    pub owner: Option<UserEntry>,
    /// The store's setting of access times.
    pub access: AccessTimeSetting,
}

impl PreflightResult {
    /// Returns the user and the group whom the home is for.
    pub fn ids(&self) -> (u32, u32) {
        match &self.owner {
            Some(owner) => (owner.uid, owner.gid),
            None => (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        }
    }
}

/// Checks the options of a mount.
///
/// # Errors
/// [`Error::Refused`] naming the problem and its remedy.
pub fn check(wanted: &MountOptions) -> Result<PreflightResult> {
    if let Some(dead) = table::find(&wanted.home) {
        return Err(if table::has_died(&dead.path) {
            table::dead(&dead.path)
        } else {
            table::already_mounted(&dead.path)
        });
    }
    let store = directory(&wanted.store, "the store")?;
    let home = directory(&wanted.home, "the home")?;
    expect_not_nested(&store)?;
    if is_within(&home, &store)? {
        return Err(Error::refused(
            format!(
                "the home {} lies in the store {}",
                home.display(),
                store.display()
            ),
            "Every look at the home would go through the home again. Use a directory elsewhere.",
        ));
    }
    if is_within(&store, &home)? {
        return Err(Error::refused(
            format!(
                "the store {} lies in the home {}",
                store.display(),
                home.display()
            ),
            "The mounted home would cover its own store. Use a directory elsewhere.",
        ));
    }
    diagnosis::check_kernel()?;
    diagnosis::open_device().map_err(diagnosis::device_error)?;
    let access = AccessTimeSetting::of_store(&store)?;
    wanted.mount.access.check(access, &store)?;
    Ok(PreflightResult {
        owner: owner(wanted)?,
        access,
        store,
        home,
    })
}

fn directory(path: &Path, what: &str) -> Result<PathBuf> {
    let shown = path.display();
    let absolute = std::fs::canonicalize(path).map_err(|error| {
        if table::is_dead(&error) {
            return table::dead(path);
        }
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "Make the directory first.",
            std::io::ErrorKind::PermissionDenied => "You may not look into a directory on the way.",
            _ => "",
        };
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FailureKind::Missing,
            _ => FailureKind::Refused,
        };
        kind.error(
            format!("{what} {shown}: {}", plain_reason(&error)),
            remedy.to_owned(),
        )
    })?;
    match std::fs::metadata(&absolute) {
        Ok(meta) if meta.is_dir() => Ok(absolute),
        Ok(_) => Err(Error::refused(
            format!("{what} {shown} is not a directory"),
            "Give a directory.",
        )),
        Err(error) if table::is_dead(&error) => Err(table::dead(path)),
        Err(error) => Err(Error::refused(
            format!("{what} {shown}: {}", plain_reason(&error)),
            "",
        )),
    }
}

fn plain_reason(error: &std::io::Error) -> String {
    Error::os("")(rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
        .to_string()
        .trim_start_matches(": ")
        .to_owned()
}

/// Returns whether a directory is another one or lies below it. Compares device and inode, so that bind mounts do not
/// hide it.
fn is_within(inner: &Path, outer: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| {
        std::fs::metadata(path)
            .map(|meta| (meta.dev(), meta.ino()))
            .ok()
    };
    let outer = id(outer);
    Ok(inner.ancestors().any(|dir| id(dir) == outer))
}

fn owner(wanted: &MountOptions) -> Result<Option<UserEntry>> {
    let Some(name) = &wanted.owner else {
        return Ok(None);
    };
    if wanted.mount.allow_other {
        return Err(Error::usage(
            "--owner and --allow-other exclude each other",
            "With --owner one user gets in and acts as themselves; with --allow-other everybody does.",
        ));
    }
    let user = users::find(name).ok_or_else(|| Error::Missing {
        what: format!("--owner {name}: no such user"),
        remedy: "Give a user's name or number.".to_owned(),
    })?;
    let me = rustix::process::geteuid();
    if user.uid == me.as_raw() {
        return Ok(None);
    }
    if !me.is_root() {
        return Err(Error::refused(
            "--owner: only root can mount a home for another user",
            "Mount it as that user.",
        ));
    }
    Ok(Some(user))
}
