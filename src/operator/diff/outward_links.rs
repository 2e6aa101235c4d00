//! Symbolic links that lead out of the project where the host's kernel resolves them, as it does for whatever its owner
//! does there.
//!
//! Owns what "out" means: a target is followed name by name through the links in the tree, and nothing is opened by it.
//! `.trumanfs` is out, too. A link below a directory that was moved counts if it led nowhere outside before.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use super::Diff;
use crate::error::Result;
use crate::name::{Name, WorldPath};
use crate::operator::past::{NodeId, PastTree};
use crate::world::store::layout::STATE;

/// The number of links that are followed for one, as by Linux.
const MAX_LINKS: usize = 40;

/// The links of one tree.
struct LinkResolver<'t, 'a> {
    tree: &'t PastTree<'a>,
    /// The project's path on the host; unknown if it is empty.
    top: Vec<u8>,
}

impl Diff<'_> {
    /// Returns whether a difference brings a link that leads out, by its place in the order.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(super) fn leads_out(&self, number: usize, path: &WorldPath) -> Result<bool> {
        let [before, after] = self.nth_nodes(number);
        let Some(after) = after else {
            return Ok(false);
        };
        match self.after.kind(after) {
            kind if kind.is_symlink() => self.links(&self.after).leads_out(path, after),
            kind if kind.is_dir() && before.is_some() => {
                let from = self.nth_names(number).and_then(|(from, _)| from);
                from.map_or(Ok(false), |from| {
                    self.has_reaimed_link(after, (&from, path))
                })
            }
            _ => Ok(false),
        }
    }

    /// Returns whether a directory that was moved has a link that leads out from there, and did not before.
    fn has_reaimed_link(&self, dir: NodeId, (from, to): (&WorldPath, &WorldPath)) -> Result<bool> {
        let (earlier, now) = (self.links(&self.before), self.links(&self.after));
        let mut left = vec![(dir, from.clone(), to.clone())];
        while let Some((dir, from, to)) = left.pop() {
            let entries = match self.after.children(dir) {
                // What nobody could look at may lead anywhere.
                Err(error) if error.is_denial() => return Ok(true),
                entries => entries?,
            };
            for (name, node) in entries {
                let name = Name::new(&name)?;
                let (from, to) = (from.join(name), to.join(name));
                let kind = self.after.kind(node);
                if kind.is_dir() {
                    left.push((node, from, to));
                } else if kind.is_symlink() && now.leads_out(&to, node)? {
                    let was_there = self.before.resolve(&from)?;
                    let led_out = was_there.is_some_and(|was| {
                        self.before.kind(was).is_symlink()
                            && earlier.leads_out(&from, was).unwrap_or(false)
                    });
                    if !led_out {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn links<'t>(&'t self, tree: &'t PastTree<'t>) -> LinkResolver<'t, 't> {
        let root = tree.disk().store().root();
        let path = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsFd::as_fd(root).as_raw_fd()
        );
        let top = rustix::fs::readlink(path, Vec::new());
        LinkResolver {
            tree,
            top: top.map(std::ffi::CString::into_bytes).unwrap_or_default(),
        }
    }
}

impl LinkResolver<'_, '_> {
    /// Returns whether the link at a path leads out. One whose target cannot be read does.
    fn leads_out(&self, path: &WorldPath, link: NodeId) -> Result<bool> {
        let mut at: Vec<Vec<u8>> = Vec::new();
        let dir = path.parent().unwrap_or_default();
        at.extend(dir.components().map(|name| name.bytes().to_vec()));
        let mut left = VecDeque::new();
        if !self.follow(link, &mut at, &mut left) {
            return Ok(true);
        }
        let mut links = 1;
        while let Some(part) = left.pop_front() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    if at.pop().is_none() {
                        return Ok(true);
                    }
                    continue;
                }
                _ => at.push(part),
            }
            if at.first().is_some_and(|first| first == STATE) {
                return Ok(true);
            }
            let Some(node) = self.node(&at)? else {
                continue;
            };
            if self.tree.kind(node).is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(false);
                }
                at.pop();
                if !self.follow(node, &mut at, &mut left) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Puts the target of a link before what is left of a way. Returns false if it leads out at once.
    fn follow(&self, link: NodeId, at: &mut Vec<Vec<u8>>, left: &mut VecDeque<Vec<u8>>) -> bool {
        let Ok(target) = self.tree.target(link) else {
            return false;
        };
        let mut target = target.as_slice();
        if target.starts_with(b"/") {
            let below = target.strip_prefix(self.top.as_slice());
            match below.filter(|below| below.is_empty() || below.starts_with(b"/")) {
                Some(below) if !self.top.is_empty() => target = below,
                _ => return false,
            }
            at.clear();
        }
        for part in target.split(|byte| *byte == b'/').rev() {
            left.push_front(part.to_vec());
        }
        true
    }

    fn node(&self, at: &[Vec<u8>]) -> Result<Option<NodeId>> {
        match WorldPath::parse(&at.join(&b'/')) {
            Ok(path) => match self.tree.resolve(&path) {
                // Its owner's tools do not get further there, either.
                Err(error) if error.is_denial() => Ok(None),
                found => found,
            },
            Err(_) => Ok(None),
        }
    }
}
