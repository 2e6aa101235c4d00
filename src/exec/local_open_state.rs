//! [`LocalOpenState`]: whether a file of an unmounted store is open in this process, by a redirection around a command, by another stage
//! of its pipeline. Nobody else has one open, for a store is locked.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::OFlags;

use crate::world::{Id, OpenState};

/// True if a file was open in this process just before this process opens it again. Writes through the other
/// descriptors are not seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalOpenState(bool);

impl LocalOpenState {
    /// Looks through this process's descriptors (proc_pid_fd(5)). Where they cannot be had, the file is taken for open: what is open
    /// is copied before it is emptied, which costs more and loses nothing.
    pub(super) fn find(file: Id) -> LocalOpenState {
        let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
            return LocalOpenState(true);
        };
        LocalOpenState(descriptors.flatten().any(|descriptor| {
            // The one that the directory is read with, or that another thread has just closed.
            let Ok(meta) = fs::metadata(descriptor.path()) else {
                return false;
            };
            Id(meta.dev(), meta.ino()) == file && !only_names(&descriptor.file_name())
        }))
    }
}

impl OpenState for LocalOpenState {
    fn is_open(&self) -> bool {
        self.0
    }
}

/// Returns whether a descriptor only names a file (`O_PATH`): nothing is written or read through it.
fn only_names(descriptor: &std::ffi::OsStr) -> bool {
    let info = fs::read_to_string(std::path::Path::new("/proc/self/fdinfo").join(descriptor));
    let flags = info.ok().and_then(|info| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        u32::from_str_radix(flags?.trim(), 8).ok()
    });
    flags.is_some_and(|flags| flags & OFlags::PATH.bits() != 0)
}
