//! The directory of the user that programs and shells run as: below `/tmp`, so that what tools leave in their `HOME` is not
//! in the home.

use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::policy::OWN_DIR;
use super::program_home::ProgramHome;
use super::sandbox::{LaunchError, Step};

/// Makes the directory in the session's `/tmp`, where it is not there. On a full disk programs run without one.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_own_dir(programs: &ProgramHome) -> Result<(), LaunchError> {
    let scratch = programs.scratch();
    let scratch = scratch.map_err(|error| LaunchError::refused(Step::Source, error.to_string()))?;
    match rustix::fs::mkdirat(&scratch, Path::new(OWN_DIR), Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // Others who work there may have put something else in its place, which is theirs.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::openat(&scratch, OWN_DIR, flags, Mode::empty()) else {
        return Ok(());
    };
    let (uid, gid) = programs.owner();
    // Also one that somebody was killed over.
    if rustix::fs::fstat(&dir)?.st_uid == 0 && uid != 0 {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::fchown(&dir, uid, gid)?;
    }
    Ok(())
}
