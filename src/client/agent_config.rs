//! The files with options of agents: the user's own, and the one of a project, as text.
//!
//! Owns where they lie and how they are opened. Everything in a project may be an occupant's: its file is opened from the
//! directory that was looked up, through no link, and only a regular file of a moderate size is read.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::target::{PinnedDir, store_behind};
use crate::error::{Error, Result, reason};
use crate::name::WorldPath;

/// The name of a project's file, in its root.
const PROJECT_FILE: &str = ".trumanfs.toml";

/// The path of the user's file in the directory of settings.
const USER_FILE: &str = "trumanfs/agent.toml";

/// The longest file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A file with options of agents.
#[derive(Debug)]
pub struct AgentConfig {
    /// Its path, as it is printed.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

impl AgentConfig {
    /// Reads the file of this process's user, if there is one. Who else can write it is for the caller to look at.
    ///
    /// # Errors
    /// [`Error::Refused`] for what is no regular file of text, or cannot be read.
    pub fn of_user() -> Result<Option<AgentConfig>> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let usual = || std::env::home_dir().map(|home| home.join(".config"));
        let dir = set.filter(absolute).or_else(usual).filter(absolute);
        let Some(path) = dir.map(|dir| dir.join(USER_FILE)) else {
            return Ok(None);
        };
        read_path(path)
    }

    /// Reads the file of the project at a path, if there is one: of a mounted home that of its store. `pinned` is the
    /// directory at that path.
    ///
    /// # Errors
    /// [`Error::Refused`] for what is no regular file of text, or cannot be read; as [`store_behind`].
    pub fn of_project(path: &Path, pinned: Option<&PinnedDir>) -> Result<Option<AgentConfig>> {
        let store = store_behind(path)?.map(|store| PinnedDir::open(&store));
        let store = store.transpose()?;
        let Some(dir) = store.as_ref().or(pinned) else {
            return Ok(None);
        };
        let shown = dir.path().join(PROJECT_FILE);
        // An agent may have closed the project, or the file, to the user that it runs as.
        let root = dir.root().duplicate()?.made_usable()?;
        let node = match root.node(&WorldPath::parse(PROJECT_FILE.as_bytes())?) {
            Ok(node) => node,
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(unreadable_error(&shown, &error.to_string())),
        };
        expect_file(&shown, node.meta().kind)?;
        let file = root.open_to_read(&node);
        let file = file.map_err(|error| unreadable_error(&shown, &error.to_string()))?;
        read(File::from(file), shown).map(Some)
    }
}

/// Opens a file by its path, and reads it if it is a regular one.
fn read_path(path: PathBuf) -> Result<Option<AgentConfig>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(CWD, &path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(unreadable_error(&path, &reason(&errno.into()))),
    };
    let stat = rustix::fs::fstat(&file).map_err(Error::os("fstat"))?;
    expect_file(&path, FileType::from_raw_mode(stat.st_mode))?;
    read(File::from(file), path).map(Some)
}

fn unreadable_error(path: &Path, why: &str) -> Error {
    let what = format!("{}: {why}", path.display());
    Error::refused(what, "Make it readable for you, or remove it.")
}

fn expect_file(path: &Path, kind: FileType) -> Result<()> {
    let why = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link, which is not followed here",
        _ => "not a regular file",
    };
    let what = format!("{}: {why}", path.display());
    Err(Error::refused(
        what,
        "Put the file itself there, or remove it.",
    ))
}

/// Reads a file of text.
fn read(file: File, path: PathBuf) -> Result<AgentConfig> {
    let refused = |why: &str, remedy: &str| {
        let what = format!("{}: {why}", path.display());
        Err(Error::refused(what, remedy))
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io("read", &error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let why = format!("longer than {MAX_FILE_BYTES} bytes");
        return refused(&why, "Shorten it, or remove it.");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(AgentConfig { path, text }),
        Err(_) => refused("not UTF-8", "Mend it, or remove it."),
    }
}
