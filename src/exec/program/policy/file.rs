//! Policy files on the host's disk, which an operator names by path: the only place of this room that takes one.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open as open_at};

use super::error::PolicyError;
use super::load::Examined;
use super::schema::Policy;
use super::yaml::LONGEST;
use crate::error::{Error, Result, reason};

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

/// Reads a policy file.
///
/// # Errors
/// It cannot be read, or is no regular file.
pub(super) fn read(path: &Path) -> std::result::Result<Vec<u8>, PolicyError> {
    let name = path.display().to_string();
    // A FIFO would be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let failed = |errno: rustix::io::Errno| {
        let why = reason(&errno.into());
        PolicyError::whole(&name, format!("the file cannot be read: {why}"))
    };
    let file = open_at(path, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(PolicyError::whole(&name, "this is no regular file"));
    }
    let mut text = Vec::new();
    let most = LONGEST as u64 + 1;
    match File::from(file).take(most).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let why = reason(&error);
            Err(PolicyError::whole(
                &name,
                format!("the file cannot be read: {why}"),
            ))
        }
    }
}

/// Reads the policy file at a path, and says all that is to say of it.
pub fn open(path: &Path) -> Examined {
    match read(path) {
        Ok(text) => Policy::examine(&text, &path.display().to_string()),
        Err(problem) => Examined {
            policy: None,
            problems: vec![problem],
            warnings: Vec::new(),
        },
    }
}
