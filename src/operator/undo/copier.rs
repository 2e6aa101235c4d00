//! Copies files and directories of a past tree into a store, through the world.
//!
//! Owns the making of each kind of node with its content and attributes, for a restore and for a merge.

use std::collections::HashMap;
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags};

use super::change_backend::ChangeBackend;
use super::steps::put_xattr_if_allowed;
use crate::error::{Error, Result};
use crate::name::{Name, WorldPath, escape};
use crate::operator::past::{FullAttributes, NodeId, PastContent, PastTree};
use crate::world::{Caller, Dir, LocatedNode, NoOpenState, SetAttrs, SetTime, Time, check_set_gid};

/// Copies nodes of a past tree into a store.
pub(in crate::operator) struct PastCopier<'t, 'a, 'h> {
    pub(super) tree: &'t PastTree<'a>,
    pub(super) backend: &'h dyn ChangeBackend,
    pub(super) caller: Caller,
    /// Files with several links that have already been copied.
    known: HashMap<NodeId, WorldPath>,
    /// The path of the current copy.
    pub(super) at: WorldPath,
    /// The number of files and directories that were made, or got a content or attributes.
    pub(super) made: u64,
    notes: Vec<String>,
}

impl<'t, 'a, 'h> PastCopier<'t, 'a, 'h> {
    /// Makes a copier that has made nothing yet.
    pub(in crate::operator) fn new(
        tree: &'t PastTree<'a>,
        backend: &'h dyn ChangeBackend,
        caller: Caller,
    ) -> PastCopier<'t, 'a, 'h> {
        PastCopier {
            tree,
            backend,
            caller,
            known: HashMap::new(),
            at: WorldPath::root(),
            made: 0,
            notes: Vec::new(),
        }
    }

    /// Returns the nodes that could not be made as they were, with reasons.
    pub(in crate::operator) fn notes(self) -> Vec<String> {
        self.notes
    }

    /// Opens a content, and notes its lost part.
    pub(super) fn open_content(
        &mut self,
        node: NodeId,
        dir: &Dir,
        name: Name<'_>,
    ) -> Result<PastContent> {
        let content = self.tree.content(node)?;
        let missing = content.missing_part();
        let note = missing.map(|missing| format!("{}: {missing}", dir.path().join(name)));
        self.notes.extend(note);
        Ok(content)
    }

    /// Makes a node, and everything below it, at a free name.
    ///
    /// # Errors
    /// Those of the past and of the world.
    pub(in crate::operator) fn copy_node(
        &mut self,
        node: NodeId,
        dir: &Dir,
        name: Name<'_>,
    ) -> Result<()> {
        let world = self.backend.world();
        self.at = dir.path().join(name);
        let looks = self.tree.full_attributes(node)?;
        let meta = looks.meta;
        let caller = self.caller;
        match meta.kind {
            FileType::Directory => {
                world.mkdir(dir, name, meta.mode | 0o700, caller)?;
                self.made += 1;
                self.backend.note_new_entry(dir, name);
                let path = dir.path().join(name);
                for (name, child) in self.tree.children(node)? {
                    let inside = world.root().dir(&path)?;
                    let name = Name::new(&name)?;
                    match self.copy_node(child, &inside, name) {
                        Ok(()) => {}
                        Err(Error::Missing { what, .. } | Error::Damaged(what)) => {
                            self.notes.push(format!("{}: {what}", path.join(name)));
                        }
                        Err(Error::NotOffered) => self.notes.push(format!(
                            "{}: what it is cannot be made in this home",
                            path.join(name)
                        )),
                        Err(error) => return Err(error),
                    }
                }
            }
            FileType::RegularFile => {
                if let Some(first) = self.known.get(&node) {
                    let (dir_of, name_of) = world.parent(first)?;
                    let located = world.locate(&dir_of, name_of)?;
                    world.link(&located, dir, name, caller)?;
                    self.made += 1;
                    self.backend.note_new_entry(dir, name);
                    return Ok(());
                }
                let content = self.open_content(node, dir, name)?;
                let flags = OFlags::RDWR | OFlags::EXCL;
                let made = world.create(dir, name, flags, meta.mode, &NoOpenState, caller)?;
                self.made += 1;
                content.copy_to(made.file.as_fd())?;
                world.note_left(&made.file);
                self.backend.note_new_entry(dir, name);
                self.known.insert(node, dir.path().join(name));
            }
            FileType::Symlink => {
                world.symlink(dir, name, &self.tree.target(node)?, caller)?;
                self.made += 1;
                self.backend.note_new_entry(dir, name);
                return Ok(());
            }
            kind => {
                let mode = kind.as_raw_mode() | meta.mode;
                world.mknod(dir, name, mode, caller)?;
                self.made += 1;
                self.backend.note_new_entry(dir, name);
            }
        }
        self.copy_attributes(&looks, dir, name)
    }

    /// Gives the node at a name the attributes that a node of the past had.
    ///
    /// # Errors
    /// Those of the world.
    pub(in crate::operator) fn copy_attributes(
        &mut self,
        then: &FullAttributes,
        dir: &Dir,
        name: Name<'_>,
    ) -> Result<()> {
        let world = self.backend.world();
        let meta = then.meta;
        let located: LocatedNode = world.locate(dir, name)?;
        let now = located.node.meta();
        let owner = SetAttrs {
            uid: (now.uid != meta.uid).then_some(meta.uid),
            gid: (now.gid != meta.gid).then_some(meta.gid),
            ..SetAttrs::default()
        };
        // Changing the owner drops a capability, and setting an ACL changes the mode: hence this order.
        let owned = owner == SetAttrs::default();
        if !owned {
            self.backend.set_attr(&located, owner, self.caller)?;
        }
        let mut labelled = false;
        if let Some(then) = &then.xattrs {
            let now = crate::world::xattrs(located.node.as_fd())?;
            let mut names: Vec<_> = then.keys().chain(now.keys()).collect();
            names.sort_unstable();
            names.dedup();
            names.retain(|name| then.get(*name) != now.get(*name));
            for name in names {
                let value = then.get(name).map(Vec::as_slice);
                if put_xattr_if_allowed(world, &located, (name, value), self.caller)? {
                    labelled = true;
                } else {
                    self.notes.push(format!(
                        "{}: the attribute {} could not be set",
                        located.path,
                        escape(name)
                    ));
                }
            }
        }
        let change = SetAttrs {
            mode: (now.permissions() != meta.mode || !owned || labelled).then_some(meta.mode),
            mtime: SetTime::To(Time {
                sec: meta.mtime.0,
                nsec: meta.mtime.1,
            }),
            ..SetAttrs::default()
        };
        let now = self.backend.set_attr(&located, change, self.caller)?;
        if let Err(error) = check_set_gid(&change, &now) {
            self.notes
                .push(format!("{}: {}", located.path, error.full_message()));
        }
        Ok(())
    }
}
