//! The logins of a user that an agent is lent: files of its profile, copied into the agent's own directory for one run, and
//! back at the end if the agent has refreshed them.
//!
//! What was lent stands in the mark of the run, so that the next start takes it back from a run that was killed. A login
//! of the agent's own is left alone. The user's file is replaced only while it is the one that was copied, whole, by a
//! JSON object.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::agents::{AgentPlace, directory};
use crate::error::{Error, Result};
use crate::world::RunId;
use crate::world::root::open_beneath;

/// The largest login, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A login that is lent to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LentLogin {
    /// The path from both home directories.
    pub(super) path: PathBuf,
    /// The digest of the file that was copied.
    digest: String,
}

/// News of a login that the user should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginNotice {
    /// The agent has a login of its own, which it uses.
    OwnLogin(PathBuf),
    /// The agent has refreshed it, and the user's file has the new one.
    Refreshed(PathBuf),
    /// The agent has changed it, and the user's file stays as it is, for this reason.
    NotTakenOver(PathBuf, &'static str),
    /// A login that could not be copied, or removed.
    Failed(PathBuf, Error),
}

impl AgentPlace {
    /// Copies logins from the home directory of its user. Returns how many there are, and what the user should hear.
    ///
    /// # Errors
    /// The mark of the run cannot be written.
    pub fn lend_logins(
        &self,
        user_home: &Path,
        paths: &[PathBuf],
    ) -> Result<(usize, Vec<LoginNotice>)> {
        self.with_marks_locked(|| self.lend(user_home, paths))
    }

    fn lend(&self, user_home: &Path, paths: &[PathBuf]) -> Result<(usize, Vec<LoginNotice>)> {
        let (mut lent, mut notices) = (Vec::new(), Vec::new());
        for path in paths {
            let Some(content) = read_login(CWD, &user_home.join(path)) else {
                continue;
            };
            let login = LentLogin {
                path: path.clone(),
                digest: digest_of(&content),
            };
            let is_there = parent_of(self.home().as_fd(), path, None)
                .is_ok_and(|(dir, name)| is_entry(&dir, &name));
            if is_there && !self.is_lent_elsewhere(path) {
                notices.push(LoginNotice::OwnLogin(path.clone()));
                continue;
            }
            lent.push((login, content, is_there));
        }
        let logins: Vec<&LentLogin> = lent.iter().map(|(login, ..)| login).collect();
        if !logins.is_empty() {
            // First the mark: a run that is killed from here on has its logins taken back.
            self.write_mark(&serde_json::to_vec(&logins).unwrap_or_default())?;
        }
        for (LentLogin { path, .. }, content, is_there) in &lent {
            if *is_there {
                continue; // another run of the same agent has it, perhaps a newer one
            }
            let copied = parent_of(self.home().as_fd(), path, Some(self.owner()))
                .and_then(|(dir, name)| write_new(&dir, &name, content));
            if let Err(error) = copied {
                notices.push(LoginNotice::Failed(path.clone(), error));
            }
        }
        Ok((lent.len() + notices.len(), notices))
    }

    /// Takes back what was lent to this run.
    pub fn return_logins(&self, user_home: &Path) -> Vec<LoginNotice> {
        let lent = lent_by(&self.read_mark());
        if lent.is_empty() {
            return Vec::new();
        }
        // The agent may have closed it.
        let _ = self.make_home_usable();
        let returned = self.with_marks_locked(|| {
            let returned = lent.iter().filter_map(|login| {
                let stays = self.is_lent_elsewhere(&login.path);
                return_login(self.home(), user_home, login, stays)
            });
            Ok(returned.collect())
        });
        returned.unwrap_or_default()
    }

    fn is_lent_elsewhere(&self, path: &Path) -> bool {
        let others = self.other_marks();
        others.iter().any(|mark| is_lent_by(mark, path))
    }
}

/// Returns whether the content of a mark names a login.
pub(super) fn is_lent_by(mark: &[u8], path: &Path) -> bool {
    lent_by(mark).iter().any(|login| login.path == path)
}

/// Returns the logins that the content of a mark names.
pub(super) fn lent_by(mark: &[u8]) -> Vec<LentLogin> {
    let lent: Vec<LentLogin> = serde_json::from_slice(mark).unwrap_or_default();
    let is_plain = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    lent.into_iter()
        .filter(|login| is_plain(&login.path))
        .collect()
}

/// Takes a login back: into the user's file, if it was refreshed, and away from the agent, unless it stays there for
/// another run.
pub(super) fn return_login(
    agent_home: &OwnedFd,
    user_home: &Path,
    login: &LentLogin,
    stays: bool,
) -> Option<LoginNotice> {
    let path = &login.path;
    let (dir, name) = parent_of(agent_home.as_fd(), path, None).ok()?;
    let content = read_login(dir.as_fd(), Path::new(&name));
    let mut notice = None;
    if let Some(content) = content.filter(|content| digest_of(content) != login.digest) {
        notice = match take_over(&user_home.join(path), login, &content) {
            Ok(None) => None,
            Ok(Some(notice)) => Some(notice),
            Err(error) => Some(LoginNotice::Failed(path.clone(), error)),
        };
    }
    // A refreshed login that the user's file did not take is still the only good one, but it is lent no longer.
    if !stays
        && let Err(errno) = rustix::fs::unlinkat(&dir, &name, AtFlags::empty())
        && errno != Errno::NOENT
    {
        return Some(LoginNotice::Failed(
            path.clone(),
            Error::os("unlinkat")(errno),
        ));
    }
    notice
}

/// Puts a refreshed login in the place of the user's.
fn take_over(file: &Path, login: &LentLogin, content: &[u8]) -> Result<Option<LoginNotice>> {
    let path = login.path.clone();
    let parsed = serde_json::from_slice::<serde_json::Value>(content);
    if !parsed.is_ok_and(|value| value.is_object()) {
        return Ok(Some(LoginNotice::NotTakenOver(
            path,
            "it is no JSON object",
        )));
    }
    // The user's file may be a link, and stays one.
    let file = std::fs::canonicalize(file).map_err(|error| Error::io("realpath", &error))?;
    let current = || read_login(CWD, &file).map(|current| digest_of(&current));
    let new = digest_of(content);
    match current() {
        Some(current) if current == new => return Ok(None),
        Some(current) if current == login.digest => {}
        _ => {
            let why = "yours has changed meanwhile";
            return Ok(Some(LoginNotice::NotTakenOver(path, why)));
        }
    }
    let name = format!("trumanfs-{}", RunId::random());
    let beside = file.with_file_name(format!(".{name}"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = file.parent().unwrap_or(Path::new("/"));
    let dir = rustix::fs::openat(CWD, parent, flags, Mode::empty()).map_err(Error::os("openat"))?;
    let moved = write_new(&dir, beside.file_name().unwrap_or_default(), content).and_then(|()| {
        if current().as_ref() != Some(&login.digest) {
            return Ok(LoginNotice::NotTakenOver(
                path,
                "yours has changed meanwhile",
            ));
        }
        rustix::fs::renameat(CWD, &beside, CWD, &file).map_err(Error::os("renameat"))?;
        Ok(LoginNotice::Refreshed(login.path.clone()))
    });
    if !matches!(moved, Ok(LoginNotice::Refreshed(_))) {
        let _ = rustix::fs::unlinkat(CWD, &beside, AtFlags::empty());
    }
    moved.map(Some)
}

fn digest_of(content: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(content))
}

/// Reads a file that is no larger than a login can be. In the agent's directory no link is followed.
fn read_login(dir: BorrowedFd<'_>, path: &Path) -> Option<Vec<u8>> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if !path.is_absolute() {
        flags |= OFlags::NOFOLLOW;
    }
    let file = File::from(rustix::fs::openat(dir, path, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    let mut content = Vec::new();
    let is_small = meta.is_file() && meta.len() <= MAX_BYTES;
    file.take(if is_small { MAX_BYTES } else { 0 })
        .read_to_end(&mut content)
        .ok()?;
    is_small.then_some(content)
}

/// Opens the directory of a path in an agent's own directory, through no link; makes it where an owner is given. Returns
/// the name there, too.
pub(super) fn parent_of(
    home: BorrowedFd<'_>,
    path: &Path,
    owner: Option<(u32, u32)>,
) -> Result<(OwnedFd, std::ffi::OsString)> {
    let name = path.file_name().ok_or(Error::NotFound)?.to_owned();
    let mut at = rustix::io::fcntl_dupfd_cloexec(home, 0).map_err(Error::os("fcntl"))?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(part) = part else {
            continue;
        };
        at = match owner {
            Some(owner) => directory(at.as_fd(), &part.to_string_lossy(), Some(owner))?,
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                open_beneath(at.as_fd(), part.as_bytes(), flags, Mode::empty())?
            }
        };
    }
    Ok((at, name))
}

fn is_entry(dir: &OwnedFd, name: &std::ffi::OsStr) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Writes a file that only its owner may read, and that was not there.
fn write_new(dir: &OwnedFd, name: &std::ffi::OsStr, content: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(Error::os("openat"))?;
    let mut file = File::from(file);
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|error| Error::io("write", &error))
}

/// Prepares the place of a file that is shown over one in an agent's own directory. Returns whether there is one now: a
/// link, or anything but a file, is left.
pub(super) fn prepare_place(home: &OwnedFd, path: &Path, owner: (u32, u32)) -> Result<bool> {
    let (dir, name) = parent_of(home.as_fd(), path, Some(owner))?;
    match rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
        Err(Errno::NOENT) => write_new(&dir, &name, b"").map(|()| true),
        Err(errno) => Err(Error::os("statat")(errno)),
    }
}

/// Removes the place of a file that was shown, unless the agent has one of its own there.
pub(super) fn remove_place(home: &OwnedFd, path: &Path) {
    let Ok((dir, name)) = parent_of(home.as_fd(), path, None) else {
        return;
    };
    let is_empty = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        stat.st_size == 0 && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
    });
    if is_empty {
        let _ = rustix::fs::unlinkat(&dir, &name, AtFlags::empty());
    }
}
