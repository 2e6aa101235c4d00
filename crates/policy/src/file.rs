//! Policy files on the host's disk, which an operator names by path: the only place of this room that takes one.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open as open_at, stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::error::PolicyError;
use super::load::PolicyReport;
use super::schema::Policy;
use super::yaml::LONGEST;
use trumanfs_types::error::{Error, Result, reason};

/// Opens the directory that paths are resolved in.
pub(super) fn directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_at(path, flags, Mode::empty()).map_err(|errno| {
        let what = format!("{}: {}", path.display(), reason(&errno.into()));
        Error::Missing {
            what,
            remedy: "Give a home, or a directory that stands for one.".to_owned(),
        }
    })
}

/// The attributes that tell two states of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    fn of(stat: &Stat) -> FileStamp {
        FileStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns whether the file changed so lately that it may change once more without a trace: the clock of a file
    /// system goes in steps.
    pub(super) fn is_fresh(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        now.saturating_sub(self.changed.0) < 2
    }
}

/// A policy file as it was read.
pub(super) struct PolicyText {
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: FileStamp,
}

impl PolicyText {
    /// Returns the SHA-256 of the text, in hexadecimal digits.
    pub(super) fn digest(&self) -> String {
        let digest = Sha256::digest(&self.bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the stamp of a file, where it is there.
pub(super) fn stamp(path: &Path) -> Option<FileStamp> {
    stat(path).ok().map(|stat| FileStamp::of(&stat))
}

/// Reads a policy file.
///
/// # Errors
/// The file cannot be read, or is no regular file.
pub(super) fn read(path: &Path) -> std::result::Result<PolicyText, PolicyError> {
    read_if_there(path)?
        .ok_or_else(|| PolicyError::whole(&path.display().to_string(), "there is no such file"))
}

/// As [`read`]; nothing where no file is there.
pub(super) fn read_if_there(path: &Path) -> std::result::Result<Option<PolicyText>, PolicyError> {
    let name = path.display().to_string();
    // A FIFO would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let failed = |errno: Errno| {
        let why = reason(&errno.into());
        PolicyError::whole(&name, format!("the file cannot be read: {why}"))
    };
    let file = match open_at(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => file.map_err(failed)?,
    };
    let stat = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PolicyError::whole(&name, "this is no regular file"));
    }
    let mut bytes = Vec::new();
    let most = LONGEST as u64 + 1;
    let read = File::from(file).take(most).read_to_end(&mut bytes);
    read.map_err(|error| {
        let why = reason(&error);
        PolicyError::whole(&name, format!("the file cannot be read: {why}"))
    })?;
    let stamp = FileStamp::of(&stat);
    Ok(Some(PolicyText { bytes, stamp }))
}

/// Reads the policy that a name stands for, a shipped one or a file, and says all that is to say of it.
pub fn open(name: &Path) -> PolicyReport {
    let shipped = name.to_str().and_then(Policy::examine_shipped);
    if let Some(examined) = shipped {
        return examined;
    }
    match read(name) {
        Ok(text) => Policy::examine(&text.bytes, &name.display().to_string()),
        Err(problem) => PolicyReport {
            policy: None,
            problems: vec![problem],
            warnings: Vec::new(),
        },
    }
}

/// The others besides the operator that can change a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileExposure {
    /// Programs that run by it: it lies in the home or the store.
    Home(PathBuf),
    /// Other users, by the owner or the mode of this path: what lets them, in words.
    Users(PathBuf, String),
}

/// Returns who besides root, this user and `owner` can change the file that a path leads to, or where it leads: from within
/// one of `homes`, or by the modes of the file and of the directories above it.
pub fn exposure(file: &Path, homes: &[&Path], owner: Option<u32>) -> Option<FileExposure> {
    let real = file.canonicalize().ok()?;
    let named = std::path::absolute(file).ok()?;
    let is_in = |home: &&Path| {
        let real_home = home.canonicalize();
        real_home.is_ok_and(|home| real.starts_with(&home) || named.starts_with(home))
    };
    if homes.iter().any(is_in) {
        return Some(FileExposure::Home(real));
    }
    [&real, &named]
        .into_iter()
        .find_map(|path| users_of(path, owner))
}

/// Returns what lets other users change a file.
fn users_of(file: &Path, owner: Option<u32>) -> Option<FileExposure> {
    let is_trusted =
        |uid: u32| uid == 0 || uid == rustix::process::geteuid().as_raw() || Some(uid) == owner;
    for (number, path) in file.ancestors().enumerate() {
        let Ok(found) = stat(path) else { continue };
        let mode = Mode::from_raw_mode(found.st_mode);
        // In a directory like /tmp, nobody removes what others made.
        let is_shared = number > 0 && mode.contains(Mode::SVTX);
        let shown = path.display();
        let why = match () {
            () if !is_trusted(found.st_uid) => format!("{shown} belongs to user {}", found.st_uid),
            () if is_shared => continue,
            () if mode.contains(Mode::WOTH) => format!("{shown} can be written by everybody"),
            () if mode.contains(Mode::WGRP)
                && found.st_gid != 0
                && found.st_gid != found.st_uid =>
            {
                format!("{shown} can be written by group {}", found.st_gid)
            }
            () => continue,
        };
        return Some(FileExposure::Users(path.to_owned(), why));
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn exposed_policy_files_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let home = top.join("home");
        for name in ["home/sub", "safe", "open", "sticky"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        let put = |name: &str, mode: u32| {
            let path = top.join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let set = |name: &str, mode| {
            std::fs::set_permissions(top.join(name), Permissions::from_mode(mode)).unwrap();
        };
        set("open", 0o777);
        set("sticky", 0o1777);
        let found = |path: &Path| exposure(path, &[&home], None);
        for safe in [put("safe/a", 0o644), put("sticky/a", 0o600)] {
            assert_eq!(found(&safe), None, "{}", safe.display());
        }
        for users in [
            put("safe/b", 0o646),
            put("open/a", 0o644),
            put("sticky/b", 0o666),
        ] {
            let exposure = found(&users);
            assert!(
                matches!(exposure, Some(FileExposure::Users(..))),
                "{}: {exposure:?}",
                users.display()
            );
        }
        let inside = put("home/sub/p", 0o644);
        symlink(&inside, top.join("safe/link")).unwrap();
        symlink(top.join("safe/a"), home.join("out")).unwrap();
        symlink(top.join("safe/a"), top.join("open/link")).unwrap();
        for within in [
            inside.clone(),
            top.join("safe/link"),
            home.join("out"),
            top.join("safe/../home/sub/p"),
        ] {
            let exposure = found(&within);
            assert!(
                matches!(exposure, Some(FileExposure::Home(_))),
                "{}: {exposure:?}",
                within.display()
            );
        }
        assert!(matches!(
            found(&top.join("open/link")),
            Some(FileExposure::Users(..))
        ));
        assert_eq!(found(&top.join("absent")), None);
    }
}
