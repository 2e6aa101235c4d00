//! What an occupant closed to an operator who is no more than its owner: directories that cannot be entered, files that cannot be read.
//!
//! Root is kept out of nothing. But an ordinary user who mounts a home is the occupant's own user, and `chmod 000` keeps that user
//! from planning an undo, or from moving what lies there. Only the owner can close a thing, and so open it: for the time of the
//! undo, unrecorded. What the undo gives another mode keeps that; all else is closed again. Should the process be killed in
//! between, it stays open to its owner.

use std::collections::HashSet;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use crate::error::Result;
use crate::journal::Ids;
use crate::name::{Name, WorldPath};
use crate::world::view::STATE;
use crate::world::{Node, World, root};

/// How many things are opened at most; each is held by a descriptor.
const MOST: usize = 400;

/// What was closed to its owner and is open for now.
#[derive(Debug)]
pub(super) struct Opened<'w> {
    world: &'w World,
    /// Each with its permission bits, and those that it has meanwhile.
    closed: Vec<(Node, u32, u32)>,
}

impl<'w> Opened<'w> {
    /// Opens everything in the store that is closed to its owner. What belongs to others stays as it is.
    ///
    /// # Errors
    /// What opening the root says.
    pub(super) fn all(world: &'w World) -> Result<Opened<'w>> {
        let closed = Vec::new();
        let mut opened = Opened { world, closed };
        let top = WorldPath::root();
        opened.open(world.root().node(&top)?);
        let mut pending = vec![top];
        while let Some(path) = pending.pop() {
            // What cannot be looked at all the same is named when the undo comes to it.
            let _ = opened.below(&path, &mut pending);
        }
        Ok(opened)
    }

    fn below(&mut self, path: &WorldPath, pending: &mut Vec<WorldPath>) -> Result<()> {
        let dir = self.world.root().dir(path)?;
        let fd = self.world.root().read_dir(&dir)?;
        for entry in
            rustix::fs::Dir::read_from(&fd).map_err(crate::error::Error::os("getdents64"))?
        {
            let Ok(entry) = entry else { break };
            let Ok(name) = Name::new(entry.file_name().to_bytes()) else {
                continue; // `.` and `..`
            };
            let Ok(node) = dir.node(name) else { continue };
            let is_dir = node.meta().is_dir();
            if path.is_root() && name.bytes() == STATE {
                continue;
            }
            self.open(node);
            if is_dir {
                pending.push(path.join(name));
            }
        }
        Ok(())
    }

    fn open(&mut self, node: Node) {
        let wanted = match node.meta().kind {
            FileType::Directory => 0o700,
            FileType::RegularFile => 0o400,
            _ => return,
        };
        let mode = node.meta().permissions();
        if mode & wanted != wanted
            && self.closed.len() < MOST
            && self.world.root().chmod(&node, mode | wanted).is_ok()
        {
            self.closed.push((node, mode, mode | wanted));
        }
    }

    /// Closes what was closed, but for the things whose mode the undo was to set.
    pub(super) fn close(self, set: &HashSet<Ids>) {
        for (node, mode, wide) in self.closed.iter().rev() {
            let id = node.meta().id;
            let as_opened = root::stat_fd(node.as_fd()).is_ok_and(|now| now.permissions() == *wide);
            if as_opened && !set.contains(&[id.0, id.1]) {
                let _ = self.world.root().chmod(node, *mode);
            }
        }
    }
}
