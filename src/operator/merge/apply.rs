//! Carries out a merge, step by step, through the world.
//!
//! Each step is recorded as part of the merge's run and loses nothing: replaced nodes go to the trash, replaced
//! contents to the versions. After a merge that stopped half-way, the next merge finds the merged part in place.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};

use super::steps::{
    FileFingerprint, FillContent, FillStep, MergePlan, NameStep, path_after_moves, path_below,
};
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::operator::past::{NodeId, PastTree};
use crate::operator::undo::edit::PlainText;
use crate::operator::undo::{ChangeBackend, FormerBytes, PastCopier, put_xattr_if_allowed};
use crate::world::keep::replace::NewContent;
use crate::world::{Caller, Dir, Id, LocatedNode, Meta, RenameMode, SetAttrs, xattrs};

/// Carries out the steps of a merge.
pub(super) struct MergeStepRunner<'t, 'a, 'h> {
    theirs: &'t PastTree<'a>,
    seen: &'t HashMap<WorldPath, FileFingerprint>,
    /// The inodes that the merge itself has written to: they may have several names.
    written: HashSet<Id>,
    backend: &'h dyn ChangeBackend,
    caller: Caller,
    copier: PastCopier<'t, 'a, 'h>,
    /// The path of the current step.
    pub(super) at: WorldPath,
    pub(super) done: u64,
}

impl<'t, 'a, 'h> MergeStepRunner<'t, 'a, 'h> {
    pub(super) fn new(
        theirs: &'t PastTree<'a>,
        seen: &'t HashMap<WorldPath, FileFingerprint>,
        backend: &'h dyn ChangeBackend,
        caller: Caller,
    ) -> MergeStepRunner<'t, 'a, 'h> {
        MergeStepRunner {
            theirs,
            seen,
            written: HashSet::new(),
            backend,
            caller,
            copier: PastCopier::new(theirs, backend, caller),
            at: WorldPath::root(),
            done: 0,
        }
    }

    /// Returns the nodes that could not be made as the fork has them, with reasons.
    pub(super) fn notes(self) -> Vec<String> {
        self.copier.notes()
    }

    /// Carries out a plan.
    ///
    /// # Errors
    /// The first error; [`MergeStepRunner::at`] has the path.
    pub(super) fn run(&mut self, plan: &MergePlan) -> Result<()> {
        for (path, seen) in &plan.removals {
            self.discard(path, Some(*seen))?;
        }
        self.names(plan)?;
        // A file may be made at the path of a removed directory.
        for path in &plan.dirs {
            self.discard(&path_after_moves(&plan.names, path), None)?;
        }
        for (path, filling) in &plan.fillings {
            self.fill_place(path, filling)?;
        }
        // Making an entry in a directory changes the directory's time.
        for (path, naming) in plan.names.iter().rev() {
            if let NameStep::Mkdir(node) = naming {
                let looks = self.theirs.full_attributes(*node)?;
                self.at_path(path, |steps, dir, name| {
                    steps.copier.copy_attributes(&looks, dir, name)
                })?;
            }
        }
        Ok(())
    }

    /// Makes and moves names, outer ones first. A move waits for a node in its way that is to move, too; two that wait
    /// for each other are exchanged in one step.
    fn names(&mut self, plan: &MergePlan) -> Result<()> {
        let mut done: Vec<(&WorldPath, &WorldPath)> = Vec::new();
        let mut waiting: Vec<&(WorldPath, NameStep)> = plan.names.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for (i, name) in waiting.iter().enumerate() {
                let (path, naming) = *name;
                let from = match naming {
                    NameStep::Mkdir(_) => None,
                    NameStep::Move(from) => Some(from),
                };
                let mut others = waiting
                    .get(i + 1..)
                    .unwrap_or_default()
                    .iter()
                    .chain(&later);
                let is_taken = others
                    .any(|(_, other)| matches!(other, NameStep::Move(other) if other == path));
                if is_taken {
                    later.push(*name);
                    continue;
                }
                self.name(path, naming, &done)?;
                done.extend(from.map(|from| (from, path)));
            }
            if later.len() == before {
                let Some((path, NameStep::Move(from))) = later.pop() else {
                    return Err(Error::Exists);
                };
                self.rename(from, path, RenameMode::Exchange)?;
                later.retain(|(other, naming)| {
                    !matches!(naming, NameStep::Move(was) if was == path && other == from)
                });
            }
            waiting = later;
        }
        Ok(())
    }

    fn name(
        &mut self,
        path: &WorldPath,
        naming: &NameStep,
        done: &[(&WorldPath, &WorldPath)],
    ) -> Result<()> {
        match naming {
            NameStep::Mkdir(node) => {
                let mode = self.theirs.meta(*node)?.mode;
                self.done += 1;
                self.at_path(path, |steps, dir, name| {
                    let world = steps.backend.world();
                    world.mkdir(dir, name, mode | 0o700, steps.caller)?;
                    steps.backend.note_new_entry(dir, name);
                    Ok(())
                })
            }
            NameStep::Move(from) => {
                let mut now = from.clone();
                for (was, is) in done {
                    now = if was.contains(&now) {
                        path_below(&now, was, is).unwrap_or(now)
                    } else {
                        now
                    };
                }
                self.rename(&now, path, RenameMode::NoReplace)
            }
        }
    }

    fn rename(&mut self, from: &WorldPath, to: &WorldPath, how: RenameMode) -> Result<()> {
        self.at = to.clone();
        let (dir, name) = self.backend.world().parent(from)?;
        let (new_dir, new_name) = self.backend.world().parent(to)?;
        self.backend
            .rename((&dir, name), (&new_dir, new_name), how, self.caller)?;
        self.done += 1;
        Ok(())
    }

    fn discard(&mut self, path: &WorldPath, seen: Option<FileFingerprint>) -> Result<()> {
        self.at_path(path, |steps, dir, name| {
            let located = steps.backend.world().locate(dir, name)?;
            check(seen, located.node.meta())?;
            steps.backend.discard(dir, name, steps.caller).map(drop)
        })?;
        self.done += 1;
        Ok(())
    }

    fn fill_place(&mut self, path: &WorldPath, filling: &FillStep) -> Result<()> {
        if path.is_root() {
            // The root is no entry of a directory, and only its attributes can change.
            self.at = path.clone();
            let node = self.backend.world().root().node(path)?;
            let located = LocatedNode {
                node,
                path: path.clone(),
                removed: false,
            };
            self.set_attributes(filling, &located)?;
            self.done += 1;
            return Ok(());
        }
        self.at_path(path, |steps, dir, name| match filling {
            FillStep::Make(node) => steps.copier.copy_node(*node, dir, name),
            FillStep::Replace(node) => {
                steps.backend.discard(dir, name, steps.caller)?;
                steps.copier.copy_node(*node, dir, name)
            }
            FillStep::Content(new) => steps.put_content_at(new, dir, name),
            filling => {
                let located = steps.backend.world().locate(dir, name)?;
                steps.set_attributes(filling, &located)
            }
        })?;
        self.done += 1;
        Ok(())
    }

    fn put_content_at(&mut self, new: &FillContent, dir: &Dir, name: Name<'_>) -> Result<()> {
        let located = self.backend.world().locate(dir, name)?;
        let seen = self.seen_of(&located);
        self.written.insert(located.node.meta().id);
        let put = |content: &dyn NewContent| {
            let merged = MergedContent {
                content,
                located: &located,
                seen,
            };
            let put = self.backend.put_content(&located, &merged, self.caller);
            put.map(drop)
        };
        check(seen, located.node.meta())?;
        match new {
            FillContent::Text(text) => put(&PlainText(text)),
            FillContent::Theirs(node) => put(&FormerBytes(&self.theirs.content(*node)?)),
        }
    }

    /// Returns the fingerprint that a file had when the plan was made, unless the merge has written to the file since.
    fn seen_of(&self, located: &LocatedNode) -> Option<FileFingerprint> {
        let is_written = self.written.contains(&located.node.meta().id);
        self.seen.get(&self.at).filter(|_| !is_written).copied()
    }

    fn set_attributes(&mut self, filling: &FillStep, located: &LocatedNode) -> Result<()> {
        let world = self.backend.world();
        let theirs = |node: NodeId| self.theirs.meta(node);
        let change = match filling {
            FillStep::Mode(node) => SetAttrs {
                mode: Some(theirs(*node)?.mode),
                ..SetAttrs::default()
            },
            FillStep::Owner(node) => {
                let meta = theirs(*node)?;
                SetAttrs {
                    uid: Some(meta.uid),
                    gid: Some(meta.gid),
                    ..SetAttrs::default()
                }
            }
            FillStep::Xattrs(node) => {
                let (then, now) = (self.theirs.xattrs(*node)?, xattrs(located.node.as_fd())?);
                for label in then
                    .keys()
                    .chain(now.keys().filter(|k| !then.contains_key(*k)))
                {
                    let value = then.get(label).map(Vec::as_slice);
                    put_xattr_if_allowed(world, located, (label, value), self.caller)?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.backend
            .set_attr(located, change, self.caller)
            .map(drop)
    }

    fn at_path(
        &mut self,
        path: &WorldPath,
        act: impl FnOnce(&mut Self, &Dir, Name<'_>) -> Result<()>,
    ) -> Result<()> {
        self.at = path.clone();
        let (dir, name) = self.backend.world().parent(path)?;
        act(self, &dir, name)
    }
}

/// A content of the fork for a file of the origin.
struct MergedContent<'m> {
    content: &'m dyn NewContent,
    located: &'m LocatedNode,
    seen: Option<FileFingerprint>,
}

impl NewContent for MergedContent<'_> {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn write_to(&self, file: BorrowedFd<'_>) -> Result<()> {
        self.content.write_to(file)
    }

    fn check(&self, _old: BorrowedFd<'_>) -> Result<()> {
        check(self.seen, &self.located.node.stat()?)
    }
}

/// Checks that a file about to be replaced or removed is as it was when the plan was made.
fn check(seen: Option<FileFingerprint>, now: &Meta) -> Result<()> {
    if seen.is_none_or(|seen| seen == FileFingerprint::of(now)) {
        Ok(())
    } else {
        Err(Error::Conflict {
            what: "it was changed while the merge was made".to_owned(),
            remedy: "It is left as it is; the same merge again looks at it anew.".to_owned(),
        })
    }
}
