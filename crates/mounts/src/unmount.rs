//! Unmounting a home: by `umount2(2)` as root, else by `fusermount3`.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::diagnosis::{FailedStep, find_obstacle};
use super::table::{find, not_mounted};
use trumanfs_types::error::{Error, Result, reason};

/// The time that unmounting waits for a home in use: a reader of /proc, such as `ps` or the daemon itself, that looks at
/// a program which has just ended holds what the program had open for that moment.
const UNMOUNT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Unmounts a home. `lazy` takes it out of sight at once, although it is in use; else it may be in use for a moment.
///
/// # Errors
/// [`Error::Refused`] where it is in use or nothing is mounted.
pub fn unmount(home: &Path, lazy: bool) -> Result<()> {
    let end = std::time::Instant::now() + UNMOUNT_TIMEOUT;
    loop {
        match unmount_once(home, lazy)? {
            UnmountOutcome::Done => return Ok(()),
            UnmountOutcome::InUse if std::time::Instant::now() < end => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            UnmountOutcome::InUse => {
                return Err(Error::refused(
                    format!("{} is in use", home.display()),
                    "Leave it with every shell and program (`fuser -vm` on it lists them), or use --lazy.",
                ));
            }
        }
    }
}

/// The outcome of an attempt to unmount.
enum UnmountOutcome {
    Done,
    InUse,
}

fn unmount_once(home: &Path, lazy: bool) -> Result<UnmountOutcome> {
    if rustix::process::geteuid().is_root() {
        let flags = if lazy {
            UnmountFlags::DETACH
        } else {
            UnmountFlags::NOFOLLOW
        };
        return match rustix::mount::unmount(home, flags) {
            Ok(()) => Ok(UnmountOutcome::Done),
            Err(Errno::BUSY) => Ok(UnmountOutcome::InUse),
            Err(Errno::INVAL) => Err(not_mounted(home)),
            Err(errno) => Err(Error::refused(
                format!(
                    "cannot unmount {}: {}",
                    home.display(),
                    Error::os("umount2")(errno)
                ),
                "Only root and whoever mounted a home may unmount it.",
            )),
        };
    }
    let flag = if lazy { "-uz" } else { "-u" };
    let output = Command::new("fusermount3")
        .arg(flag)
        .arg("--")
        .arg(home)
        .stdin(Stdio::null())
        .output();
    let failed = |step: FailedStep<'_>, what: &str| {
        let what = format!("cannot unmount {}: {what}", home.display());
        Err(find_obstacle(step).error(what))
    };
    match output {
        Ok(output) if output.status.success() => Ok(UnmountOutcome::Done),
        Ok(_) if find(home).is_none() => Err(not_mounted(home)),
        Ok(output) => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            match complaint.contains("busy") {
                true => Ok(UnmountOutcome::InUse),
                false => failed(FailedStep::HelperUnmount(&complaint), complaint.trim()),
            }
        }
        Err(error) => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let what = format!("fusermount3: {}", reason(&error));
            failed(FailedStep::HelperStart(errno), &what)
        }
    }
}
