//! The program of a sandbox's first process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use super::error::{LaunchError, Step};

/// The program that `build.rs` has built for this; empty where it could not.
static CARRIED_INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/trumanfs-init"));

/// True if this program itself can be the first process of a sandbox.
static THIS_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Says that this program, started with [`INIT`](super::INIT), is the first process of a sandbox.
pub fn allow_this_program() {
    THIS_PROGRAM.store(true, Ordering::Relaxed);
}

/// A file with the program, made when it is needed for the first time.
#[derive(Debug, Default)]
pub(super) struct InitImage(OnceLock<OwnedFd>);

impl InitImage {
    /// A file of this program, which can be the first process as well, and takes longer to load.
    ///
    /// # Errors
    /// [`Step::Init`] if it cannot be opened.
    pub(super) fn of(path: &Path) -> Result<Self, LaunchError> {
        open(path).map(|file| Self(OnceLock::from(file)))
    }

    /// The file: what this program carries, else this program itself.
    ///
    /// # Errors
    /// As [`InitImage::of`]; also if this program cannot be it.
    pub(super) fn file(&self) -> Result<BorrowedFd<'_>, LaunchError> {
        if let Some(file) = self.0.get() {
            return Ok(file.as_fd());
        }
        let made = match in_memory() {
            Some(file) => file,
            None if THIS_PROGRAM.load(Ordering::Relaxed) => open(Path::new("/proc/self/exe"))?,
            None => {
                let reason = "it would be this program, which does not call trumanfs::helper::run";
                return Err(LaunchError::refused(Step::Init, reason));
            }
        };
        // Another thread may have been faster: its file is the same.
        Ok(self.0.get_or_init(|| made).as_fd())
    }
}

fn open(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| LaunchError::new(Step::Init, path.display().to_string(), errno))
}

/// Returns a file in memory with the program that is carried, which nobody can change. Nothing if there is none, or if
/// this machine makes no such file that can be executed (the sysctl `vm.memfd_noexec`).
fn in_memory() -> Option<OwnedFd> {
    if CARRIED_INIT.is_empty() {
        return None;
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = rustix::fs::memfd_create("trumanfs-init", flags | MemfdFlags::EXEC);
    let file = match made {
        // Kernels before 6.3 do not know the last flag, and execute every such file.
        Err(Errno::INVAL) => rustix::fs::memfd_create("trumanfs-init", flags),
        made => made,
    }
    .ok()?;
    let mut rest = CARRIED_INIT;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).ok()?;
        rest = rest.get(written..)?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).ok()?;
    Some(file)
}
