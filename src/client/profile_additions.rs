//! Hosts that its owner has added to the profile of an agent: a file for each profile in the owner's state home, which the
//! next agent of that profile gets. No home shows that directory, so that no occupant writes there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::target::{Client, PinnedDir};
use crate::error::{Error, Result};
use crate::world::RunId;
use crate::world::root::stat_fd;
use crate::world::store::place::StateHome;
use trumanfs_types::meta::Meta;

/// The longest file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The name of the lock beside the files.
const LOCK: &str = ".lock";

/// The contents of such a file: a part of what `agents/*.json` has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileAdditions {
    /// Further hosts that an agent of the profile may reach.
    pub hosts: Vec<String>,
    /// Hosts that it may not reach, whatever is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// The file of a profile.
#[derive(Debug)]
pub struct AdditionsFile {
    home: StateHome,
    name: String,
}

impl Client {
    /// Returns the file of a profile, for the owner of this store. `name` is that of an agent ([`Client::agent_place`]).
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no state home.
    pub fn profile_additions(&self, name: &str) -> Result<AdditionsFile> {
        AdditionsFile::of_store(&stat_fd(self.root()?.as_fd())?, name)
    }
}

impl PinnedDir {
    /// Returns the file of a profile, for the owner of this directory, as [`Client::profile_additions`].
    ///
    /// # Errors
    /// As [`Client::profile_additions`].
    pub fn profile_additions(&self, name: &str) -> Result<AdditionsFile> {
        AdditionsFile::of_store(&stat_fd(self.root().as_fd())?, name)
    }
}

impl AdditionsFile {
    fn of_store(store: &Meta, name: &str) -> Result<AdditionsFile> {
        let home = StateHome::of_store(store).ok_or_else(|| {
            Error::refused(
                "there is no place for what is always allowed",
                "Set XDG_STATE_HOME to a directory of your own that can be written.",
            )
        })?;
        let name = format!("{name}.json");
        Ok(AdditionsFile { home, name })
    }

    /// Returns where the file is, or would be.
    pub fn path(&self) -> PathBuf {
        self.home.profiles_path().join(&self.name)
    }

    /// Reads the file; one that is not there adds nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] for one that is not understood; errors of reading it.
    pub fn read(&self) -> Result<ProfileAdditions> {
        match self.home.open_profiles() {
            // Nowhere is nothing, too.
            Err(Error::NotFound | Error::NotDirectory) => Ok(ProfileAdditions::default()),
            dir => self.read_in(&dir?),
        }
    }

    fn read_in(&self, dir: &OwnedFd) -> Result<ProfileAdditions> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(ProfileAdditions::default()),
            file => file.map_err(Error::os("openat"))?,
        };
        let mut text = String::new();
        let read = File::from(file)
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text);
        read.map_err(|error| Error::io("read", &error))?;
        serde_json::from_str(&text).map_err(|error| {
            Error::refused(
                format!("{}: {error}", self.path().display()),
                r#"It is JSON as in {"hosts": ["example.org:443"], "deny": []}: mend it, or remove it."#,
            )
        })
    }

    /// Adds a host to those that are allowed, or refused, and takes it from the others. Whoever reads the file meanwhile
    /// finds the old one or the new one.
    ///
    /// # Errors
    /// As [`AdditionsFile::read`], and errors of writing the file.
    pub fn add(&self, host: &str, is_allowed: bool) -> Result<()> {
        let dir = self.home.make_profiles()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let lock = rustix::fs::openat(&dir, LOCK, flags, mode).map_err(Error::os("openat"))?;
        self.home.give(&lock)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(Error::os("flock"))?;
        let mut additions = self.read_in(&dir)?;
        let ProfileAdditions { hosts, deny } = &mut additions;
        let (to, from) = if is_allowed {
            (hosts, deny)
        } else {
            (deny, hosts)
        };
        from.retain(|known| known != host);
        if !to.iter().any(|known| known == host) {
            to.push(host.to_owned());
        }
        let new = format!(".{}.{}", self.name, RunId::random());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, &new, flags, mode).map_err(Error::os("openat"))?;
        let mut file = File::from(file);
        let mut text = serde_json::to_string_pretty(&additions).unwrap_or_default();
        text.push('\n');
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        let put = written
            .map_err(|error| Error::io("write", &error))
            .and_then(|()| self.home.give(&file))
            .and_then(|()| {
                let put = rustix::fs::renameat(&dir, &new, &dir, &self.name);
                put.map_err(Error::os("renameat"))
            });
        put.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&dir, &new, AtFlags::empty());
        })
    }
}
