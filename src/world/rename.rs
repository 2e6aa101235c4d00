//! Renames, exchanges, and moves out of the trash.
//!
//! Replacing is a removal: the two nodes change places in one step, then the replaced one moves from the old name into
//! the trash. The new name is never vacant, and at every moment both nodes have a name.

use std::os::fd::AsFd;

use rustix::fs::RenameFlags;

use super::attr::set_times;
use super::remove::RemovedNode;
use super::root::{Dir, Node};
use super::view::{VisibleEntry, in_trash};
use super::{Caller, World};
use crate::error::{Error, Result};
use crate::journal::{DirTime, Op, ReplacedFile};
use crate::name::{EscapedBytes, Name, WorldPath, quoted};
use crate::world::store::layout::TRASH;
use crate::world::trash::trash_entries::rename_noreplace;
use trumanfs_types::attrs::{SetAttrs, SetTime};
use trumanfs_types::meta::{Id, Meta};

/// The treatment of an existing node at the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// The existing node moves into the trash.
    Replace,
    /// The existing node stays, and the rename fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// The existing node takes the old name (`RENAME_EXCHANGE`).
    Exchange,
}

/// The result of a rename.
#[derive(Debug, Clone)]
pub struct RenameResult {
    /// The moved inode.
    pub id: Id,
    /// The inode from the new name, if the two were exchanged.
    pub exchanged: Option<Id>,
    /// The node from the new name, if it was moved to the trash.
    pub replaced: Option<RemovedNode>,
    /// True if a directory is among these nodes.
    pub directory: bool,
}

impl World {
    /// Moves an entry.
    ///
    /// # Errors
    /// `ENOENT`; `EEXIST` with [`RenameMode::NoReplace`]; `EISDIR`, `ENOTDIR`, `ENOTEMPTY` if the node at the new name
    /// cannot be replaced; `EROFS` into the trash; any error from `renameat2(2)`. Both nodes are whole after any
    /// failure.
    pub fn rename(
        &self,
        dir: &Dir,
        name: Name<'_>,
        new_dir: &Dir,
        new_name: Name<'_>,
        how: RenameMode,
        caller: Caller,
    ) -> Result<RenameResult> {
        let mut names = Some(self.names_lock.read());
        let found = self.view.admit_for(dir, name, caller)?;
        let from_trash = in_trash(&found.path());
        if from_trash {
            // An occupant takes something back by moving it out of the trash; the trash itself stays.
            if found.path().bytes() == TRASH || how == RenameMode::Exchange {
                return Err(Error::ReadOnly);
            }
            let to = new_dir.path().join(new_name);
            self.view
                .expect_changeable_for(&to, found.meta.is_dir(), caller)?;
        } else {
            let is_dir = found.meta.is_dir();
            self.view
                .expect_changeable_for(&found.path(), is_dir, caller)?;
        }
        self.view
            .admit_vacant_for(new_dir, new_name, found.meta.is_dir(), caller)?;
        if !self.may_lead_from(&found, new_dir, caller)? {
            return Err(Error::NotOffered);
        }
        if found.meta.is_dir() && !from_trash {
            // The tree may be deep, and no inode takes a directory's place, so the lock is not needed.
            names = None;
            self.before_moving(&found, caller)?;
        }
        let names = names.unwrap_or_else(|| self.names_lock.read());
        let target = match self.view.admit_for(new_dir, new_name, caller) {
            Ok(target) => Some(target),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        let (from, to) = (found.path(), new_dir.path().join(new_name));
        let moved = match (target, how) {
            (Some(_), RenameMode::NoReplace) => Err(Error::Exists),
            (None, RenameMode::Exchange) => Err(Error::NotFound),
            // Moving a directory into itself or onto its parent: the kernel's own answers. A kernel stops both before
            // they reach a mounted home.
            _ if to != from && from.contains(&to) => Err(Error::Invalid),
            (_, RenameMode::Exchange) if to != from && to.contains(&from) => Err(Error::Invalid),
            _ if to != from && to.contains(&from) => Err(Error::NotEmpty),
            // Two names of one file: rename(2) does nothing and succeeds.
            (Some(target), RenameMode::Replace) if target.meta.id == found.meta.id => {
                Ok(RenameResult {
                    id: found.meta.id,
                    exchanged: None,
                    replaced: None,
                    directory: false,
                })
            }
            (Some(target), RenameMode::Exchange)
                if !self.may_lead_from(&target, dir, caller)? =>
            {
                Err(Error::NotOffered)
            }
            (Some(target), RenameMode::Exchange) => self.exchange(&found, &target, caller),
            (Some(target), RenameMode::Replace) => self.replace(&found, &target, caller),
            (None, _) => self.move_plainly(&found, new_dir, new_name, caller),
        }?;
        drop(names);
        self.left_indexes.note_rename(new_dir, new_name, &moved);
        if from_trash {
            self.count_departure(&found, &new_dir.path().join(new_name))?;
        }
        Ok(moved)
    }

    fn move_plainly(
        &self,
        found: &VisibleEntry<'_>,
        dir: &Dir,
        name: Name<'_>,
        caller: Caller,
    ) -> Result<RenameResult> {
        let op = move_op(found, dir.path().join(name), None);
        let pending =
            self.journal
                .begin(op, &found.dir.dir_times(dir)?, Some(&self.author(caller)))?;
        let act = rename_noreplace(found.dir, found.name, dir, name).and_then(|()| {
            let arrived = dir.stat(name)?;
            if arrived.id == found.meta.id {
                return Ok(());
            }
            // Somebody put another node there behind the mount at this moment.
            rename_noreplace(dir, name, found.dir, found.name)?;
            Err(Error::NotFound)
        });
        let seq = pending.seq();
        match pending.with_outcome(act) {
            Ok(()) => {
                self.journal.note_moved(seq, &found.meta);
                self.note_volatile_move(found, (dir, name));
                self.links
                    .note_move(|| (found.path(), dir.path().join(name)));
                Ok(RenameResult {
                    id: found.meta.id,
                    exchanged: None,
                    replaced: None,
                    directory: found.meta.is_dir(),
                })
            }
            Err(Error::Exists) => Err(self.view.taken_error(dir, name)),
            Err(error) => Err(error),
        }
    }

    fn exchange(
        &self,
        found: &VisibleEntry<'_>,
        target: &VisibleEntry<'_>,
        caller: Caller,
    ) -> Result<RenameResult> {
        self.view
            .expect_changeable_for(&target.path(), target.meta.is_dir(), caller)?;
        if target.meta.is_dir() {
            self.before_moving(target, caller)?;
        }
        let op = Op::Exchange {
            path: found.path(),
            to: target.path(),
            ids: World::ids(found.meta.id),
            other: World::ids(target.meta.id),
        };
        let at = times_before_swap(found, target)?;
        let pending = self.journal.begin(op, &at, Some(&self.author(caller)))?;
        let seq = pending.seq();
        pending.with_outcome(exchange_names(found, target))?;
        self.journal.note_moved(seq, &found.meta);
        self.journal.note_moved(seq, &target.meta);
        self.note_volatile_move(found, (target.dir, target.name));
        self.note_volatile_move(target, (found.dir, found.name));
        self.links.note_exchange(|| (found.path(), target.path()));
        Ok(RenameResult {
            id: found.meta.id,
            exchanged: Some(target.meta.id),
            replaced: None,
            directory: found.meta.is_dir() || target.meta.is_dir(),
        })
    }

    fn replace(
        &self,
        found: &VisibleEntry<'_>,
        target: &VisibleEntry<'_>,
        caller: Caller,
    ) -> Result<RenameResult> {
        match (found.meta.is_dir(), target.meta.is_dir()) {
            (true, true) => self.expect_empty(target, caller)?,
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            (false, false) => {}
        }
        let trash = self.trash.dir(&self.root)?;
        let author = self.author(caller);
        self.sync_entry_before_loss(target, false)?;
        loop {
            let entry = self.trash.new_entry_name(target.name);
            let replaced = ReplacedFile {
                ids: World::ids(target.meta.id),
                trash: EscapedBytes(entry.bytes().to_vec()),
            };
            let op = move_op(found, target.path(), Some(replaced));
            let at = times_before_swap(found, target)?;
            let volatility = self.volatility_at(&target.path(), &target.meta);
            let pending = self.journal.begin(op, &at, Some(&author))?;
            let act = exchange_names(found, target).and_then(|()| {
                // The replaced node now has the old name.
                let replaced = VisibleEntry {
                    dir: found.dir,
                    name: found.name,
                    meta: target.meta,
                };
                self.move_verified(&replaced, &trash, &entry)
                    .inspect_err(|_| {
                        if let Err(error) = exchange_names(found, target) {
                            log::error!("a failed rename could not be taken back: {error}");
                        }
                    })
            });
            let seq = pending.seq();
            match pending.with_outcome(act) {
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.journal.note_moved(seq, &found.meta);
                    self.count_arrival(&target.meta);
                    self.note_volatile_move(found, (target.dir, target.name));
                    self.note_volatile_removal(volatility, (target, &entry), &author);
                    let replaced = RemovedNode {
                        id: target.meta.id,
                        directory: target.meta.is_dir(),
                        entry,
                        gathered: Vec::new(),
                    };
                    let entry = replaced.path()?;
                    self.links.note_move(|| (target.path(), entry));
                    self.links.note_move(|| (found.path(), target.path()));
                    return Ok(RenameResult {
                        id: found.meta.id,
                        exchanged: None,
                        replaced: Some(replaced),
                        directory: found.meta.is_dir(),
                    });
                }
            }
        }
    }

    /// Prepares a directory's move: nodes that a pattern hides must stay hidden at the new place, and a protected node
    /// cannot move away from under its pattern.
    pub(super) fn before_moving(&self, found: &VisibleEntry<'_>, caller: Caller) -> Result<()> {
        if self.view.holds_hidden_dir(&found.path()) {
            return Err(Error::os("renameat2")(rustix::io::Errno::BUSY));
        }
        if !self.view.depends_on_place() {
            return Ok(());
        }
        self.expect_nothing_protected(&found.path(), caller)?;
        let mut pinned = false;
        self.walk(&found.path(), |step| {
            let hidden = self.view.hides(step.path, step.is_dir);
            if hidden {
                self.state.pin(step.id)?;
                self.view.pin(step.id);
                pinned = true;
            }
            // Everything in a hidden directory is hidden with it.
            Ok(!hidden)
        })?;
        if pinned {
            self.state.sync_pinned()
        } else {
            Ok(())
        }
    }

    /// Returns whether a pattern makes anything below a directory read-only.
    pub(super) fn holds_protected(&self, dir: &WorldPath) -> Result<bool> {
        let mut holds = false;
        self.walk(dir, |step| {
            holds |= self.view.protects(step.path, step.is_dir);
            Ok(!holds)
        })?;
        Ok(holds)
    }

    /// Counts a node that has left the trash.
    fn count_departure(&self, found: &VisibleEntry<'_>, to: &WorldPath) -> Result<()> {
        let mut bytes = self.bytes_in_trash(&found.meta);
        if found.meta.is_dir() {
            self.walk(to, |step| {
                bytes += step
                    .dir
                    .stat(step.name)
                    .map_or(0, |meta| self.bytes_in_trash(&meta));
                // Only names that were removed one by one, and then gathered, have been counted.
                if !step.is_dir && self.state.trashed_links(step.id) > 0 {
                    self.state.count_link(step.id, false);
                }
                Ok(true)
            })?;
        } else if found.meta.nlink > 1 {
            self.state.count_link(found.meta.id, false);
        }
        self.trash.subtract_bytes(bytes);
        Ok(())
    }
}

fn move_op(found: &VisibleEntry<'_>, to: WorldPath, replaced: Option<ReplacedFile>) -> Op {
    let (path, ids) = (found.path(), World::ids(found.meta.id));
    if in_trash(&path) {
        Op::Restore {
            path,
            to,
            ids,
            replaced,
        }
    } else {
        Op::Rename {
            path,
            to,
            ids,
            replaced,
        }
    }
}

/// Returns the directories' times for the record of an exchange of two names: of the directories that hold the names,
/// and of those whose times [`swap`] restores, since a kill may come before that.
fn times_before_swap(one: &VisibleEntry<'_>, other: &VisibleEntry<'_>) -> Result<Vec<DirTime>> {
    let mut at = one.dir.dir_times(other.dir)?.to_vec();
    let moved = [one, other].into_iter();
    let moved = moved.filter(|moved| gets_another_parent(moved, (one, other)));
    at.extend(moved.map(|moved| {
        let Meta { mtime, id, .. } = moved.meta;
        (mtime.sec, mtime.nsec, id.1)
    }));
    Ok(at)
}

fn gets_another_parent(
    moved: &VisibleEntry<'_>,
    (one, other): (&VisibleEntry<'_>, &VisibleEntry<'_>),
) -> bool {
    moved.meta.is_dir() && one.dir.id() != other.dir.id()
}

/// Exchanges two names. Directories keep their times: xfs sets those of directories that get another parent so.
fn exchange_names(one: &VisibleEntry<'_>, other: &VisibleEntry<'_>) -> Result<()> {
    let held = |of: &VisibleEntry<'_>| {
        if gets_another_parent(of, (one, other)) {
            of.dir.node(of.name).map(Some)
        } else {
            Ok(None)
        }
    };
    let held = [held(one)?, held(other)?];
    rustix::fs::renameat_with(
        one.dir,
        one.name.bytes(),
        other.dir,
        other.name.bytes(),
        RenameFlags::EXCHANGE,
    )
    .map_err(Error::os_on("renameat2", || {
        format!(
            "{} ⇄ {}",
            quoted(one.name.bytes()),
            quoted(other.name.bytes())
        )
    }))?;
    held.iter().flatten().for_each(keep_time);
    Ok(())
}

/// Restores the mtime that a directory had when it was opened, after a move. Only the owner can.
fn keep_time(dir: &Node) {
    let was = dir.meta().mtime;
    if dir.stat().is_ok_and(|now| now.mtime != was) {
        let change = SetAttrs {
            mtime: SetTime::To(was),
            ..SetAttrs::default()
        };
        if let Err(error) = set_times(dir.as_fd(), &change) {
            log::warn!("the time of a moved directory is that of its move: {error}");
        }
    }
}
