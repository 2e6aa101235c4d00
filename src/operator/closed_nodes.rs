//! Opens directories and files whose modes exclude their own owner, for the time of an operator's change.
//!
//! Root needs none of this. But an ordinary user who mounts a home is also the occupant's user, and a `chmod 000`
//! inside would keep that user from moving files in an undo. Only the owner can have set the mode, and so can change
//! it: for the time of the undo (`world/node_access.rs`). Modes that the undo itself sets remain; all others are
//! restored, by the next process that opens the store if this one is killed in between.
//!
//! Reading needs none of this (`world/node_access.rs`); only steps that change something do.

use std::collections::HashSet;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::name::{Name, WorldPath};
use crate::world::node_access::{PlannedGrant, READ_BITS};
use crate::world::store::layout::STATE;
use crate::world::{Id, Node, Root, World};

/// Carries out an act, and once more with everything accessible if nodes that exclude their own owner were in the way.
/// Returns the first outcome, if there was a second one, and the last.
pub(in crate::operator) fn retry_with_opened_nodes<T>(
    world: &World,
    was_denied: impl Fn(&Result<T>) -> bool,
    mut act: impl FnMut() -> Result<T>,
) -> (Option<Result<T>>, Result<T>) {
    let first = act();
    if !was_denied(&first) {
        return (None, first);
    }
    let opened = match OpenedNodes::open_all(world) {
        Ok(opened) => opened,
        Err(error) => return (Some(first), Err(error)),
    };
    let second = act();
    opened.close();
    (Some(first), second)
}

/// Nodes that excluded their owner and are accessible for now.
struct OpenedNodes {
    root: Root,
    nodes: HashSet<Id>,
}

impl OpenedNodes {
    /// Makes everything in the store accessible that excludes its owner. Files of other users stay as they are.
    ///
    /// # Errors
    /// Those of opening the root.
    fn open_all(world: &World) -> Result<OpenedNodes> {
        let root = world.root().duplicate()?.for_operator();
        let mut planned = Vec::new();
        walk(&root, Some(STATE), &mut |_, node| {
            planned.extend(PlannedGrant::of(node.as_fd()));
        })?;
        // On a full disk each is recorded by itself, as far as that is possible.
        if let Err(error) = root.lender().record_grants(&planned) {
            log::warn!("permission bits to be lent could not be recorded: {error}");
        }
        let mut nodes = HashSet::new();
        walk(&root, Some(STATE), &mut |path, node| match root
            .lender()
            .grant_bits(node.as_fd(), READ_BITS)
        {
            Ok(true) => drop(nodes.insert(node.meta().id)),
            Ok(false) => {}
            // The step that needs the node fails, and is reported.
            Err(errno) => log::debug!("{path} stays closed: {errno}"),
        })?;
        Ok(OpenedNodes { root, nodes })
    }

    /// Restores the modes, except where the act has set another one.
    fn close(self) {
        if self.nodes.is_empty() {
            return;
        }
        let mut there = Vec::new();
        let found = walk(&self.root, Some(STATE), &mut |path, node| {
            let id = node.meta().id;
            if self.nodes.contains(&id) {
                there.push((path.clone(), id));
            }
        });
        if let Err(error) = found {
            log::warn!("modes could not be restored: {error}");
        }
        // Nodes below a directory come before it.
        for (path, id) in there.into_iter().rev() {
            match self.root.node_expecting(&path, id) {
                Ok(node) => self.root.lender().restore_mode(node.as_fd()),
                Err(error) => log::warn!("{path}: its mode could not be restored: {error}"),
            }
        }
    }
}

/// Gives the directories and files of a tree back to their owner, to stay: a program that works there has closed them.
/// Returns the paths that stay closed.
///
/// # Errors
/// Those of opening the root.
pub fn make_usable(root: Root) -> Result<Vec<WorldPath>> {
    let root = root.for_operator();
    let mut left = Vec::new();
    walk(&root, None, &mut |path, node| {
        let wanted = match node.meta().kind {
            FileType::Directory => 0o700,
            FileType::RegularFile => 0o600,
            _ => return,
        };
        let mode = node.meta().permissions();
        if mode & wanted != wanted && root.chmod(node, mode | wanted).is_err() {
            left.push(path.clone());
        }
    })?;
    Ok(left)
}

/// Visits each node of a tree, a directory before its entries; `except` is a name in the root that is left out.
/// Unreadable nodes are passed over: the step that needs them reports them.
fn walk(
    root: &Root,
    except: Option<&[u8]>,
    visit: &mut dyn FnMut(&WorldPath, &Node),
) -> Result<()> {
    let top = WorldPath::root();
    visit(&top, &root.node(&top)?);
    let mut pending = vec![top];
    while let Some(path) = pending.pop() {
        let except = except.filter(|_| path.is_root());
        if let Err(error) = list(root, &path, except, visit, &mut pending) {
            log::debug!("{path} is passed over: {error}");
        }
    }
    Ok(())
}

fn list(
    root: &Root,
    path: &WorldPath,
    except: Option<&[u8]>,
    visit: &mut dyn FnMut(&WorldPath, &Node),
    pending: &mut Vec<WorldPath>,
) -> Result<()> {
    let dir = root.dir(path)?;
    let fd = root.read_dir(&dir)?;
    let mut visit = |name: Name<'_>| {
        if except == Some(name.bytes()) {
            return;
        }
        let Ok(node) = dir.node(name) else { return };
        let below = path.join(name);
        visit(&below, &node);
        if node.meta().is_dir() {
            pending.push(below);
        }
    };
    for entry in rustix::fs::Dir::new(fd).map_err(Error::os("getdents64"))? {
        let entry = entry.map_err(Error::os("getdents64"))?;
        // `.` and `..` are no names.
        if let Ok(name) = Name::new(entry.file_name().to_bytes()) {
            visit(name);
        }
    }
    if let Some(name) = root.unlisted_name(&dir) {
        visit(Name::new(name)?);
    }
    Ok(())
}
