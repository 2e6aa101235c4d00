//! The past: the store's tree as it was at any point, with its contents, computed backwards from what is on the disk now.
//!
//! [`Past`] goes back from the newest record; [`Tree`] is what it arrives at. Nothing is stored for it: the journal says
//! what happened, the trash and the versions hold what was there, and everything else is still in its place.
//!
//! ```text
//! let mut past = Past::now(&store)?;
//! past.back_to(&point)?;
//! let node = past.tree().resolve(&path)?;      // Option<NodeId>
//! past.tree().content(node)?.reader();         // its bytes at that point
//! ```
//!
//! Works without a lock, also while the store is mounted; what changes meanwhile may then be seen on one side of the point
//! or the other.

mod disk;
mod records;
pub(in crate::operator) mod tree;

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;

pub(in crate::operator) use disk::disk_tree::NameSlot;
pub use disk::disk_tree::{DiskTree, NodeId, ROOT, Slot};
pub use disk::interner::NameId;
pub(in crate::operator) use disk::interner::{ByNumber, Interner};
pub use disk::node_set::NodeSet;
pub use records::reverse_records::ReverseRecords;
pub use tree::content::Content;
pub use tree::effect::{self, Effect};
pub use tree::layer;
pub use tree::missing::Missing;
pub use tree::past_tree::{Attributes, Tree};

use super::Store;
use super::point::Point;
use crate::error::Result;
use crate::journal::Record;
use crate::name::WorldPath;
use records::path_filter::PathFilter;

/// Which record: its session and its number.
pub type RecordId = (Arc<str>, u64);

/// What records have touched between two points.
#[derive(Debug, Clone, Default)]
pub struct Touched {
    /// Names, each with its directory.
    pub names: BTreeSet<Slot>,
    /// Things whose content or attributes were.
    pub nodes: HashSet<NodeId>,
}

/// The way back.
#[derive(Debug)]
pub struct Past<'a> {
    tree: Tree<'a>,
    records: ReverseRecords<'a>,
    /// The record that was read but lies before the point asked for.
    ahead: Option<(Arc<str>, Record)>,
    /// Which records are looked at, where not all are.
    path_filter: Option<PathFilter>,
    store: &'a Store,
    /// The session last found to be recorded here.
    trusted: Option<Arc<str>>,
}

impl<'a> Past<'a> {
    /// Starts at what is on the disk now.
    ///
    /// # Errors
    /// What listing the sessions says.
    pub fn now(store: &'a Store) -> Result<Past<'a>> {
        let records = ReverseRecords::open(store)?;
        Ok(Past {
            tree: Tree::now(Rc::new(DiskTree::new(store))),
            records,
            ahead: None,
            path_filter: None,
            store,
            trusted: None,
        })
    }

    /// As [`Past::now`], for a question that concerns one path: records that have nothing to do with it are passed over,
    /// and only what is at the path may be asked for. Where a directory is there now, all are looked at.
    /// Where one was there at the point, it is there, but not what was in it, and not its time: that is for [`Past::now`].
    ///
    /// The records are read here for the first time, as far back as the point, and the chain is checked.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; what the disk says.
    pub fn about(store: &'a Store, path: &WorldPath, until: Option<&Point>) -> Result<Past<'a>> {
        let mut past = Past::now(store)?;
        let there = past.tree.resolve(path)?;
        // In a copy, what concerns a path cannot be told by the inodes that records name.
        if path.is_root()
            || there.is_some_and(|node| past.tree.kind(node).is_dir())
            || store.copied()?.is_some()
        {
            return Ok(past);
        }
        let inode = there.and_then(|node| past.tree.ids(node));
        past.path_filter = PathFilter::of(store, path, inode, until)?;
        past.records = ReverseRecords::trusting(store)?;
        Ok(past)
    }

    /// Goes on with records that say what was done and nothing else: [`ReverseRecords::acts`].
    pub fn acts(self) -> Past<'a> {
        Past {
            records: self.records.acts(),
            ..self
        }
    }

    /// Returns whether no record is passed over.
    pub fn looks_at_all(&self) -> bool {
        self.path_filter.is_none()
    }

    /// Returns the tree at the point that was reached.
    pub fn tree(&self) -> &Tree<'a> {
        &self.tree
    }

    /// Ends the way, and keeps the tree at the point that was reached. It no longer knows things by their inode numbers.
    pub fn into_tree(mut self) -> Tree<'a> {
        self.tree.rest();
        self.tree
    }

    /// Goes back to a point, and returns what the records between have touched. A point that is later than the one
    /// reached changes nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::error::Error::Damaged) where a journal cannot be read; what the disk says.
    pub fn back_to(&mut self, point: &Point) -> Result<Touched> {
        let mut touched = Touched::default();
        let disk = self.tree.disk().clone();
        self.back_noting(point, |effect| touched.add(effect, &disk))?;
        Ok(touched)
    }

    /// Goes back to a point, and tells each effect that it takes back.
    ///
    /// # Errors
    /// As [`Past::back_to`].
    pub fn back_noting(&mut self, point: &Point, mut note: impl FnMut(&Effect)) -> Result<()> {
        while let Some((session, record)) =
            self.back_by_one(|session, seq| !point.includes(session, seq))?
        {
            for effect in self.tree.effects(&record, &session)? {
                note(&effect);
                let born = effect.born();
                self.tree.reverse(effect, (&session, &record));
                if let Some(node) = born {
                    self.tree.forget_unborn(node);
                }
            }
        }
        Ok(())
    }

    /// Reads the next older record if it is wanted; the tree stays where it is.
    ///
    /// # Errors
    /// As [`ReverseRecords::next_record`]; [`Error::Refused`](crate::error::Error::Refused) where it was recorded in the store that
    /// this one is a copy of.
    pub fn back_by_one(
        &mut self,
        wanted: impl Fn(&str, u64) -> bool,
    ) -> Result<Option<(Arc<str>, Record)>> {
        let next = match (self.ahead.take(), &self.path_filter) {
            (Some(next), _) => Some(next),
            (None, None) => self.records.next_record()?,
            // The one that is not wanted any more is read in any case: it ends the way.
            (None, Some(path_filter)) => self.records.next_of(|session, header| {
                path_filter.has(session, header.seq) || !wanted(session, header.seq)
            })?,
        };
        match next {
            Some((session, record)) if wanted(&session, record.seq) => {
                if self.trusted.as_ref() != Some(&session) {
                    if let Err(error) = self.store.trust(&session) {
                        self.ahead = Some((session, record));
                        return Err(error);
                    }
                    self.trusted = Some(session.clone());
                }
                Ok(Some((session, record)))
            }
            next => {
                self.ahead = next;
                Ok(None)
            }
        }
    }

    /// Gives access to the tree, for whoever takes records back one by one.
    pub fn tree_mut(&mut self) -> &mut Tree<'a> {
        &mut self.tree
    }
}

impl Touched {
    /// Adds what an effect touches.
    fn add(&mut self, effect: &Effect, disk: &DiskTree<'_>) {
        match effect {
            Effect::Name { dir, name, .. } => {
                self.names.insert((*dir, disk.text(*name)));
            }
            effect => self.nodes.extend(effect.within()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
