//! Opens, for the time of an undo, the directories that the operator has no permission for: whose modes exclude their
//! own owner. (A file is opened by itself when its content is needed: `world/lent_bits.rs`.)
//!
//! Root needs none of this. But an ordinary user who mounts a home is also the occupant's user, and a `chmod 000`
//! inside would keep that user from planning an undo or from moving files. Only the owner can have set the mode, and
//! so can change it: for the time of the undo, unrecorded. Modes that the undo itself sets remain; all others are
//! restored. If the process is killed in between, the files stay accessible to their owner.

use std::collections::HashSet;
use std::os::fd::AsFd;

use crate::error::Result;
use crate::journal::Ids;
use crate::name::{Name, WorldPath};
use crate::world::layout::STATE;
use crate::world::{Node, World, root};

/// How many nodes are opened at most; each takes a descriptor.
const MOST: usize = 400;

/// Nodes that excluded their owner and are accessible for now.
#[derive(Debug)]
pub(super) struct Opened<'w> {
    world: &'w World,
    /// Each node with its permission bits and the temporary ones.
    closed: Vec<(Node, u32, u32)>,
}

impl<'w> Opened<'w> {
    /// Makes everything in the store accessible that excludes its owner. Files of other users stay as they are.
    ///
    /// # Errors
    /// Those of opening the root.
    pub(super) fn all(world: &'w World) -> Result<Opened<'w>> {
        let closed = Vec::new();
        let mut opened = Opened { world, closed };
        let top = WorldPath::root();
        opened.open(world.root().node(&top)?);
        let mut pending = vec![top];
        while let Some(path) = pending.pop() {
            // What still cannot be read is reported when the undo gets to it.
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
            let is_state = path.is_root() && name.bytes() == STATE;
            if node.meta().is_dir() && !is_state {
                self.open(node);
                pending.push(path.join(name));
            }
        }
        Ok(())
    }

    fn open(&mut self, node: Node) {
        let wanted = 0o700;
        let mode = node.meta().permissions();
        if mode & wanted != wanted
            && self.closed.len() < MOST
            && self.world.root().chmod(&node, mode | wanted).is_ok()
        {
            self.closed.push((node, mode, mode | wanted));
        }
    }

    /// Restores the modes, except on nodes whose mode the undo was to set.
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
