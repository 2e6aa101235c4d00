//! The directory of the user that programs and shells run as: below `/tmp`, so that what tools leave in their `HOME` is not
//! in the home.

use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use super::policy::OWN_DIR;
use super::program_home::ProgramHome;
use super::sandbox::{LaunchError, Step};

/// Makes the directory in the session's `/tmp`, where it is not there.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_own_dir(programs: &ProgramHome) -> Result<(), LaunchError> {
    let scratch = programs.scratch();
    let scratch = scratch.map_err(|error| LaunchError::refused(Step::Source, error.to_string()))?;
    match rustix::fs::mkdirat(&scratch, Path::new(OWN_DIR), Mode::RWXU) {
        Err(Errno::EXIST) => return Ok(()),
        made => made?,
    }
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = programs.owner();
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        rustix::fs::chownat(&scratch, OWN_DIR, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
