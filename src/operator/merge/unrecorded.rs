//! Finds files that were edited in a fork's directory outside its home: no record names such an edit.
//!
//! A fork remembers, by the clock of its files, when making it began and when it was done. Whatever has changed since
//! by the kernel's own mark (the time of the last change of the inode, which no program can set) and by no record was
//! edited outside the home. The content before the edit is known only from the origin, and there for certain only of a
//! file that, by the same mark, has not changed since the fork was begun: that file is the base. An edit of any other
//! file is a conflict. Files removed outside the home are reported, and stay in the origin.

use std::collections::HashMap;

use rustix::fs::FileType;

use super::contents::{TreeNode, is_same};
use crate::error::{Error, Result};
use crate::journal::FileTime;
use crate::name::{Name, WorldPath};
use crate::operator::Store;
use crate::operator::past::{NodeId, Past, PastTree, ROOT, UnknownWriterOf};
use crate::operator::point::{Operation, Point};
use crate::world::store::forked::ForkOrigin;
use crate::world::store::layout::{STATE, TRASH};
use crate::world::view::in_trash;
use crate::world::{Meta, Time};

/// A node of the fork that was edited outside its home.
#[derive(Debug)]
pub(super) struct UnrecordedEdit {
    /// The path in the fork now.
    pub(super) path: WorldPath,
    pub(super) node: NodeId,
    /// The origin's side of the node.
    pub(super) base: EditBase,
    /// True if the content differs from the origin's of then, as far as the origin's records show.
    pub(super) content: bool,
    /// True if the permission bits differ.
    pub(super) mode: bool,
}

/// Something that the fork had when it was made, and that went away there without a record.
#[derive(Debug)]
pub(super) struct UnrecordedRemoval {
    /// The path when the fork was made.
    pub(super) was: WorldPath,
    /// The path in the origin now.
    pub(super) at: WorldPath,
}

/// The changes of a fork that no record names, with the origin that they are compared with.
pub(super) struct UnrecordedChanges<'c, 'a> {
    /// The origin as it was when the fork was made; `None` where that is not known.
    pub(super) origin: Option<&'c OriginAtFork<'a>>,
    pub(super) edits: &'c [UnrecordedEdit],
    /// The removals, where they are merged.
    pub(super) removals: Option<&'c [UnrecordedRemoval]>,
}

/// The origin's node for a path that the fork had when it was made.
#[derive(Debug)]
pub(super) enum EditBase {
    /// The origin had nothing there then.
    Absent,
    /// The origin had this node, and has it no more. No node: it went away without a record.
    Gone(Option<NodeId>),
    /// The origin still has the node.
    There {
        /// The node.
        then: NodeId,
        /// The path of the node now.
        at: WorldPath,
        /// True if the content is certainly as it was.
        is_same: bool,
        /// The permission bits that it had, where they are certain.
        mode: Option<u32>,
    },
}

/// The origin as it was when the fork was made, as far as that is known.
#[derive(Debug)]
pub(super) struct OriginAtFork<'a> {
    then: PastTree<'a>,
    began: FileTime,
    done: FileTime,
    /// The time from which on changes may have records that have not been read.
    until: FileTime,
    /// The present paths at which an unknown writer has changed, made or removed something since.
    unknown: HashMap<WorldPath, UnknownWriterOf>,
}

impl<'a> OriginAtFork<'a> {
    /// Goes back to the point that a fork was made of; `None` where the fork has no time of its making. `until`: the
    /// result of [`now_passed`] before the fork's records were read.
    ///
    /// # Errors
    /// [`Error::Damaged`] where a journal cannot be read; those of reading the disk.
    pub(super) fn of(
        store: &'a Store,
        fork: &ForkOrigin,
        until: FileTime,
    ) -> Result<Option<OriginAtFork<'a>>> {
        let (Some(began), Some(done)) = (fork.began, fork.done) else {
            return Ok(None);
        };
        let point = match &fork.point {
            Some(point) => Operation::try_from(point.clone())
                .map_err(|_| Error::Damaged(format!("the fork's point {point} means nothing")))?,
            None => Operation::start_of(""),
        };
        let mut past = Past::now(store)?;
        past.back_to(&Point::After(point))?;
        let then = past.into_tree();
        let disk = then.disk();
        let mut unknown = HashMap::new();
        for (node, who) in then.unknown_writes() {
            unknown.extend(disk.path(node).map(|path| (path, who)));
        }
        for ((dir, name), who) in then.unknown_removals() {
            let path = disk.path(dir).and_then(|mut path| {
                disk.push(&mut path, name)?;
                Some(path)
            });
            unknown.extend(path.map(|path| (path, who)));
        }
        Ok(Some(OriginAtFork {
            then,
            began,
            done,
            until,
            unknown,
        }))
    }

    /// Returns the unknown writer who has changed, made or removed what is at a present path of the origin, or a directory
    /// above it, since the fork was made.
    pub(super) fn unknown_writer(&self, path: &WorldPath) -> Option<UnknownWriterOf> {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if let Some(who) = self.unknown.get(&path) {
                return Some(*who);
            }
            at = path.parent();
        }
        None
    }

    /// Returns the origin's side of a path of the fork as it was made.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn side_of(&self, path: &WorldPath) -> Result<EditBase> {
        let Some(node) = self.then.resolve(path)? else {
            return Ok(EditBase::Absent);
        };
        let disk = self.then.disk();
        let Some(at) = disk.path(node).filter(|at| !in_trash(at)) else {
            return Ok(EditBase::Gone(Some(node)));
        };
        match disk.stat(node) {
            Err(Error::NotFound) => Ok(EditBase::Gone(Some(node))),
            Err(error) => Err(error),
            Ok(meta) => {
                let since = self.then.difference(node);
                // A link never leads elsewhere as long as it lives.
                let is_link = meta.kind == FileType::Symlink && self.is_older(&meta);
                let is_still = !is_since(meta.ctime, self.began) && since.is_none();
                Ok(EditBase::There {
                    then: node,
                    at,
                    is_same: is_still || is_link || self.is_put_back(node)?,
                    mode: match since.and_then(|since| since.mode) {
                        None if is_still => Some(meta.permissions()),
                        recorded => recorded,
                    },
                })
            }
        }
    }

    /// Returns the path that a node of the origin had when the fork was made.
    pub(super) fn path_at_fork(&self, then: NodeId) -> Option<WorldPath> {
        self.then.path(then)
    }

    /// Returns the kind of a node of the origin when the fork was made.
    pub(super) fn kind_at_fork(&self, then: NodeId) -> FileType {
        self.then.kind(then)
    }

    /// Returns the paths of what the origin had in a directory when the fork was made, but for its own directories.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn entries_at_fork(&self, dir: &WorldPath) -> Result<Vec<WorldPath>> {
        let Some(node) = self.then.resolve(dir)? else {
            return Ok(Vec::new());
        };
        let names = self.then.children(node)?;
        let names = names.keys().map(|name| Ok(dir.join(Name::new(name)?)));
        names.collect()
    }

    /// Returns whether the node that the origin had at a path when the fork was made is at another path now: the same
    /// inode, whatever its content is now.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn has_moved(&self, from: &WorldPath, to: &WorldPath) -> Result<bool> {
        let node = self.then.resolve(from)?;
        Ok(from != to && node.is_some_and(|node| self.then.disk().path(node).as_ref() == Some(to)))
    }

    /// Returns whether a time in the fork is one at which its users may have edited it.
    fn is_edit(&self, time: Time) -> bool {
        is_since(time, self.done) && !is_since(time, self.until)
    }

    /// Returns whether an inode is older than the fork, as far as the file system has times of birth.
    fn is_older(&self, meta: &Meta) -> bool {
        meta.born < nanoseconds(self.began)
    }

    /// Returns whether an inode of the fork came with the fork, as far as the file system has times of birth.
    fn came_along(&self, meta: &Meta) -> bool {
        (nanoseconds(self.began)..nanoseconds(self.done)).contains(&meta.born)
    }

    /// Returns whether the name of an inode is older than the fork. A file may have been linked or moved there since, which
    /// shows in its time of change alone.
    fn is_older_name(&self, meta: &Meta) -> bool {
        let is_since = |time| is_since(time, self.began);
        self.is_older(meta) && (meta.is_dir() || !is_since(meta.ctime) || is_since(meta.mtime))
    }

    /// Returns whether a content was changed through the home, and is again what it was, as after an undo.
    fn is_put_back(&self, node: NodeId) -> Result<bool> {
        let Some(since) = self.then.difference(node) else {
            return Ok(false);
        };
        let was_untouched = since.mtime.is_some_and(|time| time < self.began);
        if since.content.is_none() || !was_untouched {
            return Ok(false);
        }
        let now = PastTree::now(self.then.disk().clone());
        self.had_content(node, (&now, node))
    }

    /// Returns whether the content that the fork's records have as the base of a node may itself have been edited
    /// outside the home.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn distrusts(&self, base: &PastTree<'_>, node: NodeId) -> Result<bool> {
        let then = base.difference(node);
        let recorded = then.and_then(|then| then.mtime);
        let time = match recorded {
            Some(time) => time,
            None if then.is_some_and(|then| then.content.is_some()) => return Ok(false),
            None => match base.meta(node) {
                Err(Error::Missing { .. }) => return Ok(false),
                meta => meta?.mtime,
            },
        };
        if time < self.done {
            return Ok(false);
        }
        // A time in the future came along from the origin, and touching a file is not an edit.
        let there = base.path(node).map(|path| self.then.resolve(&path));
        Ok(match there.transpose()?.flatten() {
            Some(there) => !self.had_content(there, (base, node))?,
            None => true,
        })
    }

    /// Returns whether the origin had this very content.
    fn had_content(&self, then: NodeId, (tree, node): (&PastTree<'_>, NodeId)) -> Result<bool> {
        if self.then.kind(then) != tree.kind(node) {
            return Ok(false);
        }
        match is_equal((&self.then, then), (tree, node)) {
            Err(Error::Missing { .. } | Error::Damaged(_)) => Ok(false),
            is_it => is_it,
        }
    }

    /// Finds the edits of a fork, outer directories first, and the removed paths. `base` is the fork as it was made, as
    /// far as records tell, and `now` as it is.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn find_edits(
        &self,
        base: &PastTree<'_>,
        now: &PastTree<'_>,
    ) -> Result<(Vec<UnrecordedEdit>, Vec<UnrecordedRemoval>)> {
        let found = self.search_edits(base, now, true)?;
        if found.1.is_empty() {
            return Ok(found);
        }
        // What came with the fork may have been moved there beside its home, too.
        self.search_edits(base, now, false)
    }

    /// As [`OriginAtFork::find_edits`]. `keep_names`: true if what came with the fork has the name that it came with, or
    /// one from a record.
    fn search_edits(
        &self,
        base: &PastTree<'_>,
        now: &PastTree<'_>,
        keep_names: bool,
    ) -> Result<(Vec<UnrecordedEdit>, Vec<UnrecordedRemoval>)> {
        let mut walk = EditSearch {
            origin: self,
            base,
            now,
            keep_names,
            edits: Vec::new(),
            removed: Vec::new(),
            waiting: vec![(ROOT, WorldPath::root(), Some(WorldPath::root()), false)],
        };
        while let Some(dir) = walk.waiting.pop() {
            walk.dir(&dir)
                .map_err(|error| error.of_reading(|| format!("{} in the fork", dir.1)))?;
        }
        walk.edits.sort_by(|one, other| one.path.cmp(&other.path));
        walk.removed.sort_by(|one, other| one.at.cmp(&other.at));
        Ok((walk.edits, walk.removed))
    }
}

/// Returns whether two nodes of one kind have the same content.
pub(super) fn is_equal(one: TreeNode<'_, '_>, other: TreeNode<'_, '_>) -> Result<bool> {
    match one.0.kind(one.1) {
        FileType::RegularFile => is_same(one, other),
        FileType::Symlink => Ok(one.0.target(one.1)? == other.0.target(other.1)?),
        _ => Ok(true),
    }
}

/// A directory: its node, its path, its path in the fork as that was made, and whether it was made outside the home.
type PendingDir = (NodeId, WorldPath, Option<WorldPath>, bool);

/// The search of a fork for unrecorded edits, directory by directory.
struct EditSearch<'w, 'o, 't> {
    origin: &'w OriginAtFork<'o>,
    base: &'w PastTree<'t>,
    now: &'w PastTree<'t>,
    keep_names: bool,
    edits: Vec<UnrecordedEdit>,
    removed: Vec<UnrecordedRemoval>,
    waiting: Vec<PendingDir>,
}

impl EditSearch<'_, '_, '_> {
    fn dir(&mut self, (dir, path, was, is_new): &PendingDir) -> Result<()> {
        for (bytes, node) in self.now.children(*dir)? {
            if path.is_root() && (*bytes == *TRASH || *bytes == *STATE) {
                continue;
            }
            let meta = match self.now.disk().stat(node) {
                Err(Error::NotFound) => continue,
                meta => meta?,
            };
            let name = Name::new(&bytes)?;
            let inner = path.join(name);
            // The path when the fork was made; a node that records made since had none.
            let before = match was {
                Some(was) if self.base.lookup(*dir, &bytes)? == Some(node) => Some(was.join(name)),
                _ => self.base.path(node),
            };
            let mut inner_is_new = false;
            if let Some(before) = &before
                && (*is_new || self.origin.is_edit(meta.ctime))
                && self.is_untouched(node)
            {
                let base = match self.origin.side_of(before)? {
                    // The origin had it then, and lost it without a record.
                    EditBase::Absent if self.keep_names && self.origin.came_along(&meta) => {
                        EditBase::Gone(None)
                    }
                    base => base,
                };
                inner_is_new = meta.is_dir()
                    && match &base {
                        EditBase::Absent => true,
                        EditBase::There { then, .. } => !self.origin.then.kind(*then).is_dir(),
                        EditBase::Gone(_) => false,
                    };
                if inner_is_new || !meta.is_dir() {
                    self.add_edit(inner.clone(), (node, &meta), base)?;
                }
            }
            if meta.is_dir() {
                self.waiting
                    .push((node, inner, before, *is_new || inner_is_new));
            }
        }
        let meta = self.now.disk().stat(*dir)?;
        match was {
            // The time of change, because a program can set the other one.
            Some(was) if !is_new && self.origin.is_edit(meta.ctime) => self.removed_from(*dir, was),
            _ => Ok(()),
        }
    }

    fn add_edit(
        &mut self,
        path: WorldPath,
        (node, meta): (NodeId, &Meta),
        base: EditBase,
    ) -> Result<()> {
        let (content, mode) = match &base {
            EditBase::Absent => (true, false),
            // A move or a link is no edit.
            EditBase::Gone(None) => (self.origin.is_edit(meta.mtime), false),
            EditBase::Gone(Some(then)) => {
                (!self.origin.had_content(*then, (self.now, node))?, false)
            }
            EditBase::There { then, .. } => (
                !self.origin.had_content(*then, (self.now, node))?,
                self.now.kind(node) != FileType::Symlink
                    && self.base.meta(node)?.mode != self.origin.then.meta(*then)?.mode,
            ),
        };
        if content || mode {
            self.edits.push(UnrecordedEdit {
                path,
                node,
                base,
                content,
                mode,
            });
        }
        Ok(())
    }

    fn is_untouched(&self, node: NodeId) -> bool {
        let touched = self.base.difference(node);
        touched.is_none_or(|touched| touched.content.is_none())
    }

    /// Notes the entries of a directory that the origin had and still has, and that the fork lacks without a record.
    fn removed_from(&mut self, dir: NodeId, was: &WorldPath) -> Result<()> {
        let then = &self.origin.then;
        let Some(there) = then.resolve(was)? else {
            return Ok(());
        };
        if !then.kind(there).is_dir() {
            return Ok(());
        }
        for (bytes, node) in then.children(there)? {
            let is_kept = matches!(
                then.kind(node),
                FileType::RegularFile | FileType::Directory | FileType::Symlink
            );
            let is_ours = was.is_root() && (*bytes == *TRASH || *bytes == *STATE);
            if is_ours || !is_kept || self.base.lookup(dir, &bytes)?.is_some() {
                continue;
            }
            let disk = then.disk();
            let (Some(at), Ok(meta)) = (disk.path(node), disk.stat(node)) else {
                continue;
            };
            // A user may have made it in the origin since, outside the home.
            if !in_trash(&at) && self.origin.is_older_name(&meta) {
                let was = was.join(Name::new(&bytes)?);
                self.removed.push(UnrecordedRemoval { was, at });
            }
        }
        Ok(())
    }
}

/// Returns a time that all former changes of files are before, and all later ones not. The clock that the kernel marks
/// files with goes in steps of up to ten milliseconds: this function waits for it.
pub(super) fn now_passed() -> FileTime {
    const STEP: std::time::Duration = std::time::Duration::from_millis(11);
    let now = std::time::SystemTime::now();
    std::thread::sleep(STEP);
    let since = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    (since.as_secs().cast_signed(), since.subsec_nanos())
}

fn nanoseconds((sec, nsec): FileTime) -> u64 {
    sec.cast_unsigned() * 1_000_000_000 + u64::from(nsec)
}

/// Returns whether a time of a file is not before another one. Where a file system keeps whole seconds, the second
/// counts.
fn is_since(time: Time, than: FileTime) -> bool {
    match time.nsec {
        0 => time.sec >= than.0,
        nsec => (time.sec, nsec) >= than,
    }
}
