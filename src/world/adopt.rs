//! Adoption of files that an executor writes beside the home: one step gives each its name in the home.
//!
//! Owns the directory of unfinished files, `.trumanfs/staged`. Those files do not exist for the occupant. An executor
//! that is killed leaves them there, and removes them when it settles its open tasks.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::root::{Dir, open_beneath, stat_at, stat_fd};
use super::{Caller, FileOwnership, World};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::Name;
use crate::world::store::layout::STAGED;
use crate::world::store::state_files::expect_made_by;
use crate::world::trash::trash_entries::rename_noreplace;
use trumanfs_types::meta::Meta;

/// Opens the directory of unfinished files in the state directory of a store, creating it if needed.
///
/// # Errors
/// Any error from `mkdir(2)` and `openat2(2)`; [`Error::Refused`] if another user created the directory.
pub fn open_staging_dir(state: impl AsFd) -> Result<OwnedFd> {
    match rustix::fs::mkdirat(&state, STAGED, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(Error::os("mkdirat")(errno)),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = open_beneath(state.as_fd(), STAGED.as_bytes(), flags, Mode::empty())?;
    let owner = stat_fd(state.as_fd())?.uid;
    let own = rustix::process::geteuid().as_raw();
    expect_made_by(STAGED.as_bytes(), &stat_fd(dir.as_fd())?, &[own, owner, 0])?;
    Ok(dir)
}

impl World {
    /// Gives a file that an executor has written beside the home a free name in the home. The file gets the owner that
    /// a new file there would have.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT` at a hidden name, and if no file of this name was written; `EINVAL` if it is not a regular
    /// file or has another name; `EROFS`; any error from `renameat2(2)`. On failure the file stays where it was
    /// written.
    pub fn adopt(
        &self,
        written: Name<'_>,
        dir: &Dir,
        name: Name<'_>,
        caller: Caller,
    ) -> Result<Meta> {
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        let staged = open_staging_dir(&self.state)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open_beneath(staged.as_fd(), written.bytes(), flags, Mode::empty())?;
        let meta = stat_fd(file.as_fd())?;
        if meta.kind != FileType::RegularFile || meta.nlink != 1 {
            return Err(Error::Invalid);
        }
        // Checked first, to write no record of an act that would fail.
        if dir.stat(name).is_ok() {
            return Err(self.view.taken_error(dir, name));
        }
        let owner = match self.identity {
            FileOwnership::Caller => (caller.uid, caller.gid),
            FileOwnership::Thread => {
                let state = stat_fd(self.state.as_fd())?;
                (state.uid, state.gid)
            }
        };
        if (meta.uid, meta.gid) != owner {
            let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            rustix::fs::chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
                .map_err(Error::os("fchownat"))?;
        }
        let op = Op::Create {
            path,
            mode: meta.permissions(),
            dropped: None,
        };
        let author = self.author(caller);
        let _names = self.names_lock.read();
        let pending = self.journal.begin(op, &[dir.dir_time()?], Some(&author))?;
        let moved = rename_noreplace(&staged, written, dir, name).and_then(|()| {
            let arrived = stat_at(dir.as_fd(), name)?;
            if arrived.id == meta.id {
                return Ok(arrived);
            }
            // Another file was put there behind the mount at this moment: it goes back.
            rename_noreplace(dir, name, &staged, written)?;
            Err(Error::NotFound)
        });
        match pending.with_outcome(moved) {
            Err(Error::Exists) => Err(self.view.taken_error(dir, name)),
            settled => settled,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::open_staging_dir;
    use crate::error::Error;
    use crate::name::{Name, WorldPath};
    use crate::world::{Caller, Root, World};

    fn lab() -> (tempfile::TempDir, World) {
        let dir = tempfile::tempdir().unwrap();
        let (world, _) = World::open_offline(dir.path()).unwrap();
        (dir, world)
    }

    #[test]
    fn a_file_comes_into_the_home_whole_and_replaces_nothing() {
        let (dir, world) = lab();
        open_staging_dir(world.state().as_fd()).unwrap();
        let written = dir.path().join(".trumanfs/staged/w");
        fs::write(&written, "whole").unwrap();
        let root = world.dir(&WorldPath::root()).unwrap();
        let (w, name) = (Name::new(b"w").unwrap(), Name::new(b"f").unwrap());
        world.adopt(w, &root, name, Caller::myself()).unwrap();
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"whole");
        assert!(!written.exists());
        fs::write(&written, "other").unwrap();
        let second = world.adopt(w, &root, name, Caller::myself());
        assert!(matches!(second, Err(Error::Exists)), "{second:?}");
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"whole");
        assert!(written.exists());
        let trash = Name::new(b".trumanfs").unwrap();
        let hidden = world.adopt(w, &root, trash, Caller::myself());
        assert!(matches!(hidden, Err(Error::NotFound)), "{hidden:?}");
    }

    #[test]
    fn what_is_no_plain_file_of_its_own_is_not_taken() {
        let (dir, world) = lab();
        open_staging_dir(world.state().as_fd()).unwrap();
        let place = dir.path().join(".trumanfs/staged");
        fs::create_dir(place.join("d")).unwrap();
        fs::write(dir.path().join("mine"), "").unwrap();
        fs::hard_link(dir.path().join("mine"), place.join("l")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.join("s")).unwrap();
        let root = world.dir(&WorldPath::root()).unwrap();
        for bad in ["d", "l", "s", "absent"] {
            let bad = Name::new(bad.as_bytes()).unwrap();
            let f = Name::new(b"f").unwrap();
            assert!(world.adopt(bad, &root, f, Caller::myself()).is_err());
        }
        assert!(!dir.path().join("f").exists());
        let _ = Root::open(dir.path()).unwrap();
    }
}
