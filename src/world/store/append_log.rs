//! Logs in the state directory that every process appends to, each line with one `write(2)`: so lines do not mix, and
//! no process waits.
//!
//! Owns the bound of such a log. A log that has become too long takes a second name, and the file of that name is gone:
//! so both take twice the length at most. A process that appends meanwhile writes to either file.
//!
//! Lock: `flock(2)` on the log, for the moment of its renaming; a process that does not get the lock leaves the
//! renaming to its holder.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::world::root::{Root, stat_fd};
use crate::world::store::layout::STATE;
use crate::world::store::state::open_unlocked;
use crate::world::store::state_files;

/// A log: its name below the state directory, the name of the log before it, and its maximum length.
#[derive(Debug, Clone, Copy)]
pub struct AppendLog {
    /// The name.
    pub name: &'static str,
    /// The name that the log takes when it has become too long.
    pub former: &'static str,
    /// The number of bytes up to which the log keeps its name.
    pub longest: u64,
}

impl AppendLog {
    /// Appends a line, given without its newline, to the log of a store. Returns whether it was written: a directory
    /// that never was a store stays none, and nothing is written to a state directory of another user, unless a daemon
    /// serves it, which has checked it.
    ///
    /// # Errors
    /// Any error from the system calls; [`Error::Refused`] if the log is not a plain file of this store.
    pub fn append(&self, store: &Root, line: &[u8], is_served: bool) -> Result<bool> {
        let Some(state) = open_unlocked(store)? else {
            return Ok(false);
        };
        let state = state.as_fd();
        let me = rustix::process::geteuid().as_raw();
        if !is_served && state_files::expect_made_by(STATE, &stat_fd(state)?, &[me]).is_err() {
            return Ok(false);
        }
        let flags = OFlags::RDWR | OFlags::APPEND;
        let mut file = state_files::open_or_make(state, self.name.as_bytes(), flags)?;
        if file.metadata().is_ok_and(|meta| meta.len() > self.longest)
            && self.put_aside(state, &file)?
        {
            file = state_files::open_or_make(state, self.name.as_bytes(), flags)?;
        }
        give_to_owner(state, &file);
        let line = [after(&file), line, b"\n"].concat();
        reserve(&file, line.len())?;
        file.write_all(&line)
            .map_err(|error| Error::io("write", &error))?;
        Ok(true)
    }

    /// Opens the existing files of a store's log for reading, the older one first.
    ///
    /// # Errors
    /// Any error from `openat2(2)`; [`Error::Refused`] if the log is not a plain file of this store.
    pub fn files(&self, store: &Root) -> Result<Vec<File>> {
        let Some(state) = open_unlocked(store)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for name in [self.former, self.name] {
            match state_files::open(state.as_fd(), name.as_bytes(), OFlags::RDONLY) {
                Err(Error::NotFound) => {}
                file => found.push(file?),
            }
        }
        Ok(found)
    }

    /// Gives the log its second name, unless another process does.
    fn put_aside(&self, state: BorrowedFd<'_>, file: &File) -> Result<bool> {
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        // Another process may have done so just before, and not have created the next log yet.
        let there = match state_files::open(state, self.name.as_bytes(), OFlags::RDONLY) {
            Err(Error::NotFound) => return Ok(true),
            there => there?,
        };
        if stat_fd(there.as_fd())?.id != stat_fd(file.as_fd())?.id {
            return Ok(true);
        }
        rustix::fs::renameat(state, self.name, state, self.former)
            .map_err(Error::os("renameat"))?;
        Ok(true)
    }
}

/// Reserves the space of a line, so that a full disk takes none of it rather than its first part: a kernel writes one
/// page after the other. Another process may take the space, and not every file system reserves any; then the next line
/// terminates the truncated one ([`after`]).
fn reserve(file: &File, length: usize) -> Result<()> {
    let end = file.metadata().map_or(0, |meta| meta.len());
    let keep = FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, keep, end, length as u64) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(Error::os("fallocate")(errno)),
        _ => Ok(()),
    }
}

/// Returns the prefix of a line: a newline if a full disk truncated the line before it.
fn after(file: &File) -> &'static [u8] {
    let mut last = [b'\n'];
    let length = file.metadata().map_or(0, |meta| meta.len());
    match length.checked_sub(1).map(|at| file.read_at(&mut last, at)) {
        Some(Ok(1)) if last != *b"\n" => b"\n",
        _ => b"",
    }
}

/// Gives a log that root has created to the owner of the state directory, who appends to it too. If that fails, the log
/// stays root's.
fn give_to_owner(state: BorrowedFd<'_>, file: &File) {
    let (Ok(owner), Ok(own)) = (stat_fd(state), stat_fd(file.as_fd())) else {
        return;
    };
    if own.uid != owner.uid && rustix::process::geteuid().is_root() {
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(owner.uid),
            rustix::fs::Gid::from_raw(owner.gid),
        );
        let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::fs;

    use super::*;

    const LOG: AppendLog = AppendLog {
        name: "log",
        former: "log.1",
        longest: 1000,
    };

    fn store() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let mut private = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.create(dir.path().join(".trumanfs")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn what_is_no_store_stays_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        assert!(!LOG.append(&root, b"a", false).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn lines_of_many_threads_are_whole_and_there_is_a_bound() {
        let (dir, root) = store();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let root = &root;
                scope.spawn(move || {
                    for n in 0..200 {
                        let line = format!("{thread} {n} {}", "x".repeat(50));
                        assert!(LOG.append(root, line.as_bytes(), false).unwrap());
                    }
                });
            }
        });
        let state = dir.path().join(".trumanfs");
        let mut files = 0;
        for entry in fs::read_dir(&state).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(text.len() < 1500, "{}", text.len());
            assert!(text.ends_with('\n'));
            for line in text.lines() {
                assert_eq!(line.rsplit(' ').next().unwrap(), "x".repeat(50), "{line}");
            }
            files += 1;
        }
        assert_eq!(files, 2);
    }

    #[test]
    fn what_somebody_else_has_prepared_is_left_alone() {
        let (dir, root) = store();
        let state = dir.path().join(".trumanfs");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&state, open).unwrap();
        assert!(!LOG.append(&root, b"a", false).unwrap());
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        assert!(LOG.append(&root, b"a", true).unwrap());
    }

    #[test]
    fn a_line_that_was_cut_off_is_ended_first() {
        let (dir, root) = store();
        let path = dir.path().join(".trumanfs/log");
        fs::write(&path, "{\"cut").unwrap();
        LOG.append(&root, b"whole", false).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "{\"cut\nwhole\n");
    }

    #[test]
    fn something_else_in_its_place_is_not_written_to() {
        let (dir, root) = store();
        let path = dir.path().join(".trumanfs/log");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(LOG.append(&root, b"a", false).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        fs::hard_link(dir.path().join("other"), &path).unwrap();
        assert!(LOG.append(&root, b"a", false).is_err());
        assert!(!dir.path().join("elsewhere").exists());
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"");
    }
}
