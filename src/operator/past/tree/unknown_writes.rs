//! Files that an unknown writer changed directly in the store, while a run worked there that no wall kept from it.
//!
//! Owns what a reader makes of the states that seals have of such files. A mark is met on the way back, at the point at
//! which the change was found, and stays with the file: all that is older was changed by somebody who may have been
//! the run's program, and who is not to be taken for the owner. What came after the mark is not touched by it.

use std::collections::HashMap;
use std::fmt;

use crate::error::Result;
use crate::journal::{LeftState, RunId, UnknownWriter};
use crate::name::WorldPath;
use crate::operator::past::disk::interner::NumberHash;
use crate::operator::past::disk::node_id::{NameSlot, NodeId, ROOT};
use crate::operator::past::tree::past_tree::PastTree;

/// An unknown writer, by the run during which a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownWriterOf(pub RunId);

impl fmt::Display for UnknownWriterOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an unknown writer, during run {}", self.0)
    }
}

/// The marks of an unknown writer that were met on the way to a point.
#[derive(Debug, Clone, Default)]
pub(super) struct UnknownWriteMarks {
    /// The files that were changed or made, each with the newest such run.
    nodes: HashMap<NodeId, RunId, NumberHash>,
    /// The names at which something was removed.
    gone: HashMap<NameSlot, RunId, NumberHash>,
}

impl PastTree<'_> {
    /// Marks the files of states that an unknown writer left. The tree is at the point at which they were found.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(in crate::operator::past) fn note_unknown_writes(
        &mut self,
        states: impl Iterator<Item = LeftState>,
    ) -> Result<()> {
        for state in states {
            let Some(by) = &state.by else { continue };
            if by.gone {
                self.note_gone(by)?;
                continue;
            }
            // By its name first: an editor may have saved it anew.
            let node = match self.resolve(&by.file)? {
                None => self.by_ids(state.ids).filter(|node| {
                    let there = self.disk.stat(*node);
                    there.is_ok_and(|there| there.born == state.born)
                }),
                there => there,
            };
            if let Some(node) = node {
                self.unknown.nodes.entry(node).or_insert(by.during);
            }
        }
        Ok(())
    }

    /// Marks the first name of a path that is not there.
    fn note_gone(&mut self, by: &UnknownWriter) -> Result<()> {
        let mut dir = ROOT;
        for name in by.file.components() {
            let name = self.disk.name_id(name.bytes());
            match self.lookup_id(dir, name)? {
                Some(node) => dir = node,
                None => {
                    self.unknown.gone.entry((dir, name)).or_insert(by.during);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the unknown writer who changed or made a file since the point reached.
    pub fn unknown_writer(&self, node: NodeId) -> Option<UnknownWriterOf> {
        self.unknown.nodes.get(&node).copied().map(UnknownWriterOf)
    }

    /// Returns the unknown writer who removed what had a name, since the point reached.
    pub(in crate::operator) fn unknown_remover(&self, place: NameSlot) -> Option<UnknownWriterOf> {
        self.unknown.gone.get(&place).copied().map(UnknownWriterOf)
    }

    /// Returns the unknown writer who removed what a path means at the point reached, or a directory above it, since then.
    ///
    /// # Errors
    /// Those of reading the disk.
    pub(in crate::operator) fn unknown_remover_of(
        &self,
        path: &WorldPath,
    ) -> Result<Option<UnknownWriterOf>> {
        let mut dir = ROOT;
        for name in path.components() {
            let name = self.disk.name_id(name.bytes());
            if let Some(who) = self.unknown_remover((dir, name)) {
                return Ok(Some(who));
            }
            match self.lookup_id(dir, name)? {
                Some(node) => dir = node,
                None => break,
            }
        }
        Ok(None)
    }

    /// Iterates over the files that an unknown writer changed or made since the point reached.
    pub(in crate::operator) fn unknown_writes(
        &self,
    ) -> impl Iterator<Item = (NodeId, UnknownWriterOf)> {
        let marks = self.unknown.nodes.iter();
        marks.map(|(node, run)| (*node, UnknownWriterOf(*run)))
    }

    /// Iterates over the names at which an unknown writer removed something since the point reached.
    pub(in crate::operator) fn unknown_removals(
        &self,
    ) -> impl Iterator<Item = (NameSlot, UnknownWriterOf)> {
        let marks = self.unknown.gone.iter();
        marks.map(|(place, run)| (*place, UnknownWriterOf(*run)))
    }
}
