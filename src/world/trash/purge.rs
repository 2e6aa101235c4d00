//! Purging: the permanent deletion of trash entries and former contents, for operators only.
//!
//! No request of an occupant leads here; `quota.rs` deletes versions too, but only under `--keep-evict`, and
//! `volatile/erase.rs` what is volatile, in the same way. Each purge is recorded first, and the record is on the disk; then
//! an entry moves to `.trumanfs/purging`, out of reach of everybody in the home, and only then is its tree deleted
//! (`erase.rs`). If the daemon dies meanwhile, the next purge deletes the rest.
//!
//! Lock: one mutex, so that the trash is not counted while it is being deleted. It is held over system calls, and no
//! request of the home takes it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result};
use crate::journal::{Author, Op};
use crate::name::{EscapedBytes, Name, escape};
use crate::world::keep::chains::{VersionChains, VersionLink};
use crate::world::keep::evict::copy_inherited_ranges;
use crate::world::keep::version_files::versions_of;
use crate::world::root::{open_beneath, stat_at};
use crate::world::store::layout::{PURGING, map_name, version_name};
use crate::world::trash::erase::{ErasedName, erase};
use crate::world::{Caller, World};

/// The number of entries that one record names, which bounds a journal line.
const MAX_ENTRIES_PER_RECORD: usize = 200;

/// The result of a purge.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PurgeResult {
    /// The number of trash entries or versions that are gone.
    pub entries: u64,
    /// The number of names deleted with them.
    pub names: u64,
    /// The disk space freed, in bytes; a content with another hard link frees none.
    pub bytes: u64,
    /// The requested entries that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<EscapedBytes>,
    /// The reason for stopping before the end, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The entries that could not be deleted in full, and the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<(EscapedBytes, String)>,
}

impl PurgeResult {
    /// Adds the result of another purge.
    pub fn add(&mut self, other: PurgeResult) {
        self.entries += other.entries;
        self.names += other.names;
        self.bytes += other.bytes;
        self.missing.extend(other.missing);
        self.left.extend(other.left);
        self.stopped = self.stopped.take().or(other.stopped);
    }

    /// Returns the result up to an error, or the error itself if nothing was deleted.
    fn up_to_error(mut self, outcome: Result<()>) -> Result<PurgeResult> {
        match outcome {
            Err(error) if self.names == 0 => Err(error),
            outcome => {
                self.stopped = outcome.err().map(|error| error.to_string());
                Ok(self)
            }
        }
    }
}

impl World {
    /// Deletes trash entries permanently. `step` is called now and then with the number of bytes freed.
    ///
    /// # Errors
    /// Any error from the journal's `write(2)`, or from making the directory for it, if it comes first; later errors,
    /// and those of single entries, are in the result. Entries that no record names are then untouched.
    pub fn purge(
        &self,
        entries: &[EscapedBytes],
        caller: Caller,
        step: &mut dyn FnMut(u64),
    ) -> Result<PurgeResult> {
        self.gather_now();
        let _counting = self.trash.lock_counting();
        let mut purged = self.finish(step)?;
        let outcome = self.purge_into(&mut purged, entries, &self.author(caller), step);
        purged.up_to_error(outcome)
    }

    fn purge_into(
        &self,
        purged: &mut PurgeResult,
        entries: &[EscapedBytes],
        author: &Author,
        step: &mut dyn FnMut(u64),
    ) -> Result<()> {
        for some in entries.chunks(MAX_ENTRIES_PER_RECORD) {
            let trash = self.trash.open_anew(&self.root)?;
            let is_there = |entry: &&EscapedBytes| {
                Name::new(&entry.0).is_ok_and(|name| stat_at(trash.as_fd(), name).is_ok())
            };
            let (there, missing): (Vec<&EscapedBytes>, _) = some.iter().partition(is_there);
            purged.missing.extend(missing.into_iter().cloned());
            if there.is_empty() {
                continue;
            }
            let purging = self.open_purging_dir()?;
            let entries = there.iter().map(|entry| (*entry).clone()).collect();
            let op = Op::Purge {
                entries,
                volatile: Vec::new(),
                expired: None,
            };
            self.journal.note(op, Some(author))?;
            self.journal.sync()?;
            for entry in there {
                let claimed = Name::new(&entry.0).and_then(|name| {
                    self.move_lending_bits(trash.as_fd(), name, purging.as_fd(), name)?;
                    self.delete(&purging, name, purged, step)
                });
                match claimed {
                    Ok(()) => purged.entries += 1,
                    // Its owner took it back at this moment.
                    Err(Error::NotFound) => purged.missing.push(entry.clone()),
                    Err(error) => purged.left.push((entry.clone(), error.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Deletes versions (session and number) permanently.
    ///
    /// # Errors
    /// As [`World::purge`].
    pub fn evict(
        &self,
        versions: &[(String, u64)],
        caller: Caller,
        step: &mut dyn FnMut(u64),
    ) -> Result<PurgeResult> {
        let mut purged = PurgeResult::default();
        let outcome = self.evict_into(&mut purged, versions, &self.author(caller), step);
        purged.up_to_error(outcome)
    }

    fn evict_into(
        &self,
        purged: &mut PurgeResult,
        versions: &[(String, u64)],
        author: &Author,
        step: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let label = |(session, n): &(String, u64)| {
            EscapedBytes(format!("{session}/{}", version_name(*n)).into_bytes())
        };
        self.finalizer.finalize_now();
        let _working = self.finalizer.pause();
        let mut chains = if versions.is_empty() {
            VersionChains::default()
        } else {
            VersionChains::read(&self.state, None)?
        };
        for some in versions.chunks(MAX_ENTRIES_PER_RECORD) {
            let (there, missing): (Vec<_>, Vec<_>) =
                some.iter().partition(|version| self.has_version(version));
            purged.missing.extend(missing.into_iter().map(label));
            if there.is_empty() {
                continue;
            }
            // Ranges that other versions read through them are first copied.
            let mut going = Vec::new();
            for version in there {
                match self.detach_version(&mut chains, version) {
                    Ok(()) => going.push(version),
                    Err(error) => purged.left.push((label(version), error)),
                }
            }
            let versions: Vec<_> = going.iter().map(|version| (*version).clone()).collect();
            if versions.is_empty() {
                continue;
            }
            let volatile = Vec::new();
            self.journal
                .note(Op::Evict { versions, volatile }, Some(author))?;
            self.journal.sync()?;
            for version in going {
                let (session, n) = version;
                match self.delete_version(session, *n, purged, step) {
                    Ok(()) => purged.entries += 1,
                    Err(Error::NotFound) => purged.missing.push(label(version)),
                    Err(error) => purged.left.push((label(version), error.to_string())),
                }
            }
        }
        Ok(())
    }

    /// Makes other versions independent of one that is about to be deleted, or returns the reason why it must stay.
    fn detach_version(
        &self,
        chains: &mut VersionChains,
        (session, n): &(String, u64),
    ) -> std::result::Result<(), String> {
        let (own, pending) = (*session == self.session, self.finalizer.pending());
        if own && (self.versions.quota().is_live(*n) || !pending.may_evict(*n)) {
            return Err("is being written".to_owned());
        }
        let session: Arc<str> = session.as_str().into();
        if let Some(older) = chains.older(&session, *n) {
            let link = VersionLink {
                session: session.clone(),
                n: *n,
                first: false,
            };
            let added =
                copy_inherited_ranges(&self.state, older, &link, self.versions.is_durable(), None);
            let added = added.map_err(|error| {
                format!("an older content is read through it, and has no room for that: {error}")
            })?;
            self.versions.quota().add_used(added.unwrap_or(0));
        }
        chains.remove(&session, *n);
        if own {
            pending.note_evicted(*n);
        }
        Ok(())
    }

    fn has_version(&self, (session, n): &(String, u64)) -> bool {
        let dir = Name::new(session.as_bytes()).and_then(|_| versions_of(&self.state, session));
        let Ok(Some(dir)) = dir else {
            return false;
        };
        [version_name(*n), map_name(*n)].iter().any(|file| {
            Name::new(file.as_bytes()).is_ok_and(|name| stat_at(dir.as_fd(), name).is_ok())
        })
    }

    /// Deletes the remains of an interrupted purge, and returns the result.
    ///
    /// # Errors
    /// Any error from reading the directory.
    pub fn finish_purges(&self) -> Result<PurgeResult> {
        let _counting = self.trash.lock_counting();
        self.finish(&mut |_| {})
    }

    fn finish(&self, step: &mut dyn FnMut(u64)) -> Result<PurgeResult> {
        let mut purged = PurgeResult::default();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = self.state.as_fd();
        let purging = match open_beneath(state, PURGING.as_bytes(), flags, Mode::empty()) {
            Err(Error::NotFound) => return Ok(purged),
            purging => purging?,
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&purging).map_err(Error::os("getdents64"))? {
            let entry = entry.map_err(Error::os("getdents64"))?;
            names.push(entry.file_name().to_bytes().to_vec());
        }
        for bytes in names {
            let Ok(name) = Name::new(&bytes) else {
                continue; // `.` and `..`
            };
            if let Err(error) = self.delete(&purging, name, &mut purged, step) {
                log::warn!("{} cannot be deleted: {error}", escape(&bytes));
                purged.left.push((EscapedBytes(bytes), error.to_string()));
            }
        }
        Ok(purged)
    }

    /// Opens the directory of entries being deleted, creating it if needed.
    pub(in crate::world) fn open_purging_dir(&self) -> Result<OwnedFd> {
        match rustix::fs::mkdirat(&self.state, PURGING, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(Error::os("mkdirat")(errno)),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = self.state.as_fd();
        open_beneath(state, PURGING.as_bytes(), flags, Mode::empty())
    }

    /// Deletes an entry that lies in the directory of those that are being deleted.
    pub(in crate::world) fn delete(
        &self,
        purging: &OwnedFd,
        name: Name<'_>,
        purged: &mut PurgeResult,
        step: &mut dyn FnMut(u64),
    ) -> Result<()> {
        erase(&self.root, purging.as_fd(), name, &mut |gone| {
            self.uncount(gone);
            purged.names += 1;
            if gone.last {
                purged.bytes += gone.meta.blocks * 512;
                step(gone.meta.blocks * 512);
            }
        })
    }

    /// Removes a deleted name from the counts. Its inode number is still in use at this moment, so nothing new can be
    /// hidden or counted by mistake.
    fn uncount(&self, gone: &ErasedName<'_>) {
        let id = gone.meta.id;
        // Another name of it is outside, or in the trash as well.
        if gone.last {
            self.trash.subtract_bytes(gone.meta.blocks * 512);
        }
        if !gone.meta.is_dir() && self.state.trashed_links(id) > 0 {
            self.state.count_link(id, false);
        }
        if gone.last {
            while self.state.trashed_links(id) > 0 {
                self.state.count_link(id, false);
            }
            if self.view.unpin(id) {
                self.state.unpin(id);
            }
        }
    }

    fn delete_version(
        &self,
        session: &str,
        n: u64,
        purged: &mut PurgeResult,
        step: &mut dyn FnMut(u64),
    ) -> Result<()> {
        Name::new(session.as_bytes())?;
        let dir = versions_of(&self.state, session)?.ok_or(Error::NotFound)?;
        let file = version_name(n);
        let name = Name::new(file.as_bytes())?;
        match stat_at(dir.as_fd(), name) {
            Ok(meta) if meta.is_dir() => return Err(Error::IsDirectory),
            // A crash deleted it before its list.
            Err(Error::NotFound) => {
                return rustix::fs::unlinkat(&dir, map_name(n), AtFlags::empty())
                    .map_err(Error::os("unlinkat"));
            }
            found => found?,
        };
        erase(&self.root, dir.as_fd(), name, &mut |gone| {
            purged.names += 1;
            self.versions.quota().give_back(gone.meta.blocks * 512);
            if gone.last {
                purged.bytes += gone.meta.blocks * 512;
                step(gone.meta.blocks * 512);
            }
        })?;
        let _ = rustix::fs::unlinkat(&dir, map_name(n), AtFlags::empty());
        Ok(())
    }
}
