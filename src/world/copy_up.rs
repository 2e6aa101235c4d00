//! Copying of files that have a name outside the store, so that an occupant's change stays in the store.
//!
//! A package manager links its cache into a project, so a file there may be the cache's as well. Before its first
//! change by a program of an executor such a file is replaced in the store by a copy: each of its names there moves to
//! the copy, by a record of its own as if a program had written a new file and renamed it onto the old one, and the
//! original lies in the trash. An undo takes it back from there, so that its names are links to the original again. In
//! a home mounted for another purpose, programs that no executor started change the file itself, with a notice.
//!
//! A search of the whole store finds the names (`link_index.rs`), once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::attr::set_times;
use super::open_state::OpenState;
use super::outside_names::SuspectFile;
use super::root::{Dir, Root, stat_fd};
use super::view::in_trash;
use super::walk::walk;
use super::{Caller, LocatedNode, OriginKind, RemovedNode, RenameMode, World};
use crate::error::{Error, Result};
use crate::journal::Op;
use crate::name::{Name, WorldPath};
use crate::world::keep::blocks::copy_range;
use crate::world::keep::versions::VersionGuard;
use crate::world::store::layout::TRASH;
use crate::world::trash::trash_entries::rename_noreplace;
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::meta::{Id, Meta};

/// The most bytes of a file's name in the name that its copy has for a moment.
const MAX_STEM_BYTES: usize = 160;

/// A copy that is ready to take a file's place in the store.
#[derive(Debug)]
pub struct StoreCopy<'a> {
    making: VersionGuard<'a>,
    meta: Meta,
    original: Meta,
    /// The names in the store, the requested one first.
    names: Vec<WorldPath>,
}

/// A name that has moved from a file to its copy.
#[derive(Debug)]
pub struct CopiedName {
    /// The name's directory.
    pub dir: Dir,
    /// The name in the directory.
    pub name: Vec<u8>,
    /// The former file.
    pub removed: RemovedNode,
}

impl World {
    /// Checks that a file has no name outside the store, if a program of an executor is about to change it. Does not
    /// search the store.
    ///
    /// # Errors
    /// [`Error::LinkedOutside`] if the file may have a name outside: [`World::copy_for_store`] determines that.
    pub(super) fn expect_no_outside_name(
        &self,
        located: &LocatedNode,
        open_state: &dyn OpenState,
        caller: Caller,
    ) -> Result<()> {
        let meta = located.node.meta();
        if meta.nlink < 2 || meta.is_dir() || caller.origin.kind == OriginKind::Undo {
            return Ok(());
        }
        if self.copies_up || caller.origin.kind != OriginKind::Process {
            return match self.links.names(meta.id) {
                Some(names) if self.count_names_of(meta.id, &names) >= u64::from(meta.nlink) => {
                    Ok(())
                }
                // The file had no other name when it was opened, and its writers must go on with the same file.
                _ if open_state.is_written() => Ok(()),
                _ => Err(Error::LinkedOutside),
            };
        }
        self.outside.add_suspect(meta.id, meta.nlink, &located.path);
        Ok(())
    }

    /// Returns the number of these names that lead to a file.
    fn count_names_of(&self, id: Id, names: &[WorldPath]) -> u64 {
        let Ok(root) = self.root.duplicate().map(Root::for_operator) else {
            return 0;
        };
        let is_it = |path: &&WorldPath| {
            let there = super::located::stat(&root, path);
            there.is_ok_and(|meta| meta.is_some_and(|meta| meta.id == id))
        };
        names.iter().filter(is_it).count() as u64
    }

    /// Searches the store for files with several names, unless that has been done. Directories that the owner has
    /// closed to itself are searched, too; another user's directory that cannot be read is skipped, and names there do
    /// not count.
    fn search_links(&self) -> Result<()> {
        let Some(_search) = self.links.begin() else {
            return Ok(());
        };
        let mut found = Vec::new();
        let state = self.state.id();
        let root = self.root.duplicate()?.for_operator();
        let searched = walk(&root, &WorldPath::root(), |step| {
            if step.is_dir {
                let listed = || root.read_dir(&root.dir(step.path)?);
                return Ok(step.id != state && !listed().is_err_and(|error| error.is_denial()));
            }
            if let Ok(meta) = step.dir.stat(step.name)
                && meta.nlink > 1
            {
                found.push((meta.id, step.path.clone()));
            }
            Ok(true)
        });
        self.links.end(searched.is_ok().then_some(found));
        searched
    }

    /// Returns a file's names in the store, and whether it has others.
    fn names_of(&self, located: &LocatedNode) -> Result<(Vec<WorldPath>, bool)> {
        self.search_links()?;
        let meta = located.node.stat()?;
        let mut names = self.links.names(meta.id).unwrap_or_default();
        names.retain(|path| self.count_names_of(meta.id, std::slice::from_ref(path)) == 1);
        let has_others = (names.len() as u64) < u64::from(meta.nlink);
        Ok((names, has_others))
    }

    /// Creates a copy of a file that has names outside the store; `None` if it has none.
    ///
    /// # Errors
    /// `EPERM` for anything but a regular file, and if the copy cannot belong to the file's owner; `EACCES` if the file
    /// cannot be read; [`Error::LinkedOutside`] if no name of it is left in the home; `ENOSPC` and any other error from
    /// the system calls. Nothing has changed then, and the file must not be changed.
    pub fn copy_for_store(&self, located: &LocatedNode) -> Result<Option<StoreCopy<'_>>> {
        let (mut names, has_others) = self.names_of(located)?;
        if !has_others {
            return Ok(None);
        }
        names.retain(|path| !in_trash(path));
        if located.removed || in_trash(&located.path) || names.is_empty() && !self.is_at(located) {
            return Err(Error::LinkedOutside);
        }
        names.retain(|path| *path != located.path);
        names.insert(0, located.path.clone());
        let original = *located.node.meta();
        if original.kind != FileType::RegularFile {
            return Err(Error::os("a name outside the store")(Errno::PERM));
        }
        let old = self.root.reopen_quietly(&located.node)?;
        let making = self.versions.reserve_version(0)?;
        let mode = original.permissions();
        let Some(file) = self.create_alike(&making, (located, old.as_fd()), OFlags::RDWR, mode)?
        else {
            return Err(Error::os("a name outside the store")(Errno::PERM));
        };
        if original.size > 0 && !self.versions.clone_into(&file, &old)? {
            copy_range(old.as_fd(), file.as_fd(), 0, original.size)?;
            rustix::fs::ftruncate(&file, original.size).map_err(Error::os("ftruncate"))?;
        }
        let times = SetAttrs {
            atime: SetTime::To(original.atime),
            mtime: SetTime::To(original.mtime),
            ..SetAttrs::default()
        };
        set_times(file.as_fd(), &times)?;
        self.versions.sync(&file)?;
        Ok(Some(StoreCopy {
            making,
            meta: stat_fd(file.as_fd())?,
            original,
            names,
        }))
    }

    fn is_at(&self, located: &LocatedNode) -> bool {
        let id = located.node.meta().id;
        self.count_names_of(id, std::slice::from_ref(&located.path)) == 1
    }

    /// Moves a file's names in the store to its copy. A further name that cannot move stays where it is, with a notice.
    ///
    /// # Errors
    /// Any error for the first name; nothing has changed then.
    pub fn put_copy(&self, copy: StoreCopy<'_>, caller: Caller) -> Result<Vec<CopiedName>> {
        let mut moved: Vec<CopiedName> = Vec::with_capacity(copy.names.len());
        for path in &copy.names {
            let at = moved.first().map(|first| (&first.dir, &first.name[..]));
            match self.move_name(path, &copy, at, caller) {
                Ok(name) => moved.push(name),
                Err(error) if moved.is_empty() => return Err(error),
                Err(error) => {
                    log::warn!("{path}: still a link to a file outside the store: {error}");
                    self.outside.note_left_behind(path);
                }
            }
        }
        if let Some(first) = copy.names.first() {
            self.notices
                .set("copied", self.outside.count_copied(first.clone()));
        }
        Ok(moved)
    }

    /// Moves one name to the copy, which lies in the directory of versions, or has the name `first` already.
    fn move_name(
        &self,
        path: &WorldPath,
        copy: &StoreCopy<'_>,
        first: Option<(&Dir, &[u8])>,
        caller: Caller,
    ) -> Result<CopiedName> {
        let (dir, name) = self.parent(path)?;
        let old = self.view.admit_for(&dir, name, caller)?;
        self.view.expect_changeable_for(path, false, caller)?;
        if old.meta.id != copy.original.id {
            return Err(Error::NotFound);
        }
        let names = self.names_lock.read();
        let before = stat_fd(dir.as_fd())?.mtime;
        drop(names);
        let stem = name.bytes().get(..MAX_STEM_BYTES).unwrap_or(name.bytes());
        let passing = [stem, passing_suffix(copy.meta.id).as_bytes()].concat();
        let passing = Name::new(&passing)?;
        match first {
            None => self.place_copy(copy, &dir, passing, caller)?,
            Some((of, name)) => {
                let file = self.locate(of, Name::new(name)?)?;
                self.link(&file, &dir, passing, caller)?;
            }
        }
        let outcome = self.rename(&dir, passing, &dir, name, RenameMode::Replace, caller);
        let removed = match outcome.map(|moved| moved.replaced) {
            Ok(Some(removed)) => removed,
            Ok(None) => return Err(Error::NotFound),
            Err(error) => {
                let _ = self.discard(&dir, passing, caller);
                return Err(error);
            }
        };
        if removed.id != copy.original.id {
            // Another file was put there behind the mount at this moment: it goes back.
            let trash = self.dir(&WorldPath::parse(TRASH)?)?;
            let entry = removed.entry.name()?;
            self.rename(&trash, entry, &dir, name, RenameMode::Replace, caller)?;
            return Err(Error::NotFound);
        }
        keep_time(&dir, before);
        Ok(CopiedName {
            dir,
            name: name.bytes().to_vec(),
            removed,
        })
    }

    /// Gives the copy its first name in the store.
    fn place_copy(
        &self,
        copy: &StoreCopy<'_>,
        dir: &Dir,
        name: Name<'_>,
        caller: Caller,
    ) -> Result<()> {
        let path = self.view.admit_vacant_for(dir, name, false, caller)?;
        let op = Op::Create {
            path,
            mode: copy.meta.permissions(),
            dropped: None,
        };
        let author = self.author(caller);
        let _names = self.names_lock.read();
        let pending = self.journal.begin(op, &[dir.dir_time()?], Some(&author))?;
        let version = copy.making.name();
        let from: &OwnedFd = self.versions.dir();
        let seq = pending.seq();
        let version = Name::new(version.as_bytes())?;
        pending.with_outcome(rename_noreplace(from, version, dir, name))?;
        let meta = dir.stat(name)?;
        self.journal.note_made(seq, &meta);
        self.journal.note_left(&meta);
        Ok(())
    }

    /// Changes a file in process. If the file has a name outside the store and must not, a copy takes its place first.
    ///
    /// # Errors
    /// As [`World::copy_for_store`] and [`World::put_copy`]; those of the change.
    pub fn on_own_file<T>(
        &self,
        located: &LocatedNode,
        caller: Caller,
        change: impl Fn(&LocatedNode) -> Result<T>,
    ) -> Result<T> {
        match change(located) {
            Err(Error::LinkedOutside) => {
                let Some(copy) = self.copy_for_store(located)? else {
                    return change(located);
                };
                self.put_copy(copy, caller)?;
                change(&self.find(&located.path)?)
            }
            done => done,
        }
    }

    /// Returns whether files are waiting for [`World::count_suspects`].
    pub fn has_suspects(&self) -> bool {
        self.outside.has_suspects()
    }

    /// Determines which of the files that were changed in place have names outside the store, and sets the notice. Slow
    /// at first; meant for a thread of its own.
    ///
    /// # Errors
    /// Any error from reading the store.
    pub fn count_suspects(&self) -> Result<()> {
        self.search_links()?;
        while let Some(SuspectFile { id, links, path }) = self.outside.next_suspect() {
            let names = self.links.names(id).unwrap_or_default();
            if self.count_names_of(id, &names) >= u64::from(links) {
                continue;
            }
            log::warn!(
                "{path} has a name outside the store: what is written here is written there"
            );
            self.notices
                .set("changed", self.outside.count_changed(path));
        }
        Ok(())
    }
}

/// Returns the end of the name that a copy has until it takes the original's.
fn passing_suffix(copy: Id) -> String {
    format!(".copy-{:x}", copy.1)
}

/// Removes the copy at a path, if it had not taken the original's name when the daemon died. Returns whether there was
/// such a copy.
pub(super) fn drop_passing(root: &Root, path: &WorldPath) -> Result<bool> {
    let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
        return Ok(false);
    };
    let Some(meta) = super::located::stat(root, path)? else {
        return Ok(false);
    };
    if !name.bytes().ends_with(passing_suffix(meta.id).as_bytes()) {
        return Ok(false);
    }
    let dir = root.dir(&parent)?;
    rustix::fs::unlinkat(&dir, name.bytes(), AtFlags::empty()).map_err(Error::os("unlinkat"))?;
    Ok(true)
}

/// Restores a directory's mtime, since no file in it was added or removed: one has only changed.
fn keep_time(dir: &Dir, mtime: super::Time) {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.sec,
            tv_nsec: i64::from(mtime.nsec),
        },
    };
    let _ = rustix::fs::utimensat(dir, c"", &times, AtFlags::EMPTY_PATH);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use crate::error::Error;
    use crate::name::{Name, WorldPath};
    use crate::world::{Caller, NoOpenState, Origin, OriginKind, RunId, SetAttrs, World};

    fn path(text: &str) -> WorldPath {
        WorldPath::parse(text.as_bytes()).unwrap()
    }

    fn program() -> Caller {
        Caller::myself().for_run(Origin::of_run(OriginKind::Program, RunId::random()))
    }

    /// A store with a file `f` that is a link to a file outside.
    fn lab() -> (tempfile::TempDir, World) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("s")).unwrap();
        fs::write(dir.path().join("outside"), "lib").unwrap();
        fs::hard_link(dir.path().join("outside"), dir.path().join("s/f")).unwrap();
        let (world, _) = World::open_offline(&dir.path().join("s")).unwrap();
        (dir, world)
    }

    #[test]
    fn copy_that_a_crash_left_unplaced_is_removed() {
        let (dir, world) = lab();
        let copy = world.copy_for_store(&world.find(&path("f")).unwrap());
        let copy = copy.unwrap().unwrap();
        let root = world.dir(&WorldPath::root()).unwrap();
        let name = format!("f{}", super::passing_suffix(copy.meta.id));
        let named = world.place_copy(&copy, &root, Name::new(name.as_bytes()).unwrap(), program());
        named.unwrap();
        assert!(dir.path().join("s").join(&name).exists());
        // The daemon dies.
        drop(copy);
        drop(world);
        let (_world, settled) = World::open_offline(&dir.path().join("s")).unwrap();
        assert!(!dir.path().join("s").join(&name).exists());
        let messages: Vec<String> = settled.iter().map(ToString::to_string).collect();
        assert!(
            messages.concat().contains("had not been done"),
            "{messages:?}"
        );
        assert_eq!(fs::read(dir.path().join("s/f")).unwrap(), b"lib");
    }

    #[test]
    fn occupants_file_of_a_like_name_survives_a_crash() {
        let (dir, world) = lab();
        let root = world.dir(&WorldPath::root()).unwrap();
        let name = Name::new(b"f.copy-1").unwrap();
        let flags = rustix::fs::OFlags::WRONLY;
        let made = world.create(&root, name, flags, 0o644, &NoOpenState, program());
        made.unwrap();
        drop(world);
        World::open_offline(&dir.path().join("s")).unwrap();
        assert!(dir.path().join("s/f.copy-1").exists());
    }

    #[test]
    fn operator_and_own_programs_are_not_asked_to_look_again() {
        let (dir, world) = lab();
        let change = SetAttrs {
            mode: Some(0o600),
            ..SetAttrs::default()
        };
        let set = |caller| {
            let located = world.find(&path("f")).unwrap();
            world.set_attr(&located, change, None, &NoOpenState, caller)
        };
        assert!(matches!(set(program()), Err(Error::LinkedOutside)));
        set(Caller::myself().for_undo()).unwrap();
        set(Caller::myself()).unwrap();
        assert!(world.has_suspects());
        world.count_suspects().unwrap();
        assert!(world.notices().all().concat().contains("/f was opened"));
        assert_eq!(fs::metadata(dir.path().join("outside")).unwrap().nlink(), 2);
    }

    #[test]
    fn file_that_cannot_be_copied_is_not_changed() {
        let (dir, world) = lab();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        fs::hard_link(&fifo, dir.path().join("s/p")).unwrap();
        let located = world.find(&path("p")).unwrap();
        let refused = world.copy_for_store(&located).unwrap_err();
        assert_eq!(refused.errno(), rustix::io::Errno::PERM);
    }
}
