//! Finds out whether the fork had a content of the origin before.
//!
//! After a merge the origin has the fork's content of that time. When the fork goes on, that content is no conflict,
//! although it is not the content that the fork began with: the fork's later changes started from it. The fork's own
//! versions show this, so nothing about a merge has to be remembered, and a merge that was undone leaves no trace here.

use crate::error::{Error, Result};
use crate::name::WorldPath;
use crate::operator::Store;
use crate::operator::past::{DirSlot, NodeId, Past, PastTree, RecordEffect};
use crate::operator::point::Point;

use super::contents::is_same;

/// A content of the origin that may be an earlier one of the fork.
#[derive(Debug, Clone)]
pub(super) struct DoubtfulContent {
    /// The origin's file.
    pub(super) ours: NodeId,
    /// The path in the fork now.
    pub(super) path: WorldPath,
}

/// The search for an earlier content of the fork, on the way back through its records.
struct ContentSearch {
    slot: Option<DirSlot>,
    node: Option<NodeId>,
    found: bool,
}

/// Returns, for each content in doubt, whether the fork had it at some time since `start`.
///
/// # Errors
/// Those of reading the fork's past and the origin.
pub(super) fn had_before(
    fork: &Store,
    start: &Point,
    ours: &PastTree<'_>,
    doubts: &[DoubtfulContent],
) -> Result<Vec<bool>> {
    if doubts.is_empty() {
        return Ok(Vec::new());
    }
    let mut past = Past::now(fork)?;
    let mut searches = Vec::new();
    for doubt in doubts {
        let node = past.tree().resolve(&doubt.path)?;
        searches.push(ContentSearch {
            slot: node.and_then(|node| past.tree().slot(node)),
            node,
            found: false,
        });
    }
    while let Some((session, record)) =
        past.back_by_one(|session, seq| !start.includes(session, seq))?
    {
        let effects = past.tree_mut().effects(&record, &session)?;
        let mut touched = vec![false; searches.len()];
        for effect in effects {
            for (search, touched) in searches.iter_mut().zip(&mut touched) {
                match &effect {
                    RecordEffect::Content { node, .. } if Some(*node) == search.node => {
                        *touched = true
                    }
                    RecordEffect::Name {
                        dir, name, before, ..
                    } if search.slot.as_ref().is_some_and(|(d, text)| {
                        d == dir && *text == past.tree().disk().text(*name)
                    }) =>
                    {
                        search.node = *before;
                        *touched = true;
                    }
                    _ => {}
                }
            }
            past.tree_mut().reverse(effect, (&session, &record));
        }
        for ((search, touched), doubt) in searches.iter_mut().zip(touched).zip(doubts) {
            if let (true, false, Some(node)) = (touched, search.found, search.node) {
                search.found = match is_same((past.tree(), node), (ours, doubt.ours)) {
                    Err(Error::Missing { .. } | Error::Damaged(_) | Error::IsDirectory) => false,
                    same => same?,
                };
            }
        }
    }
    Ok(searches.iter().map(|search| search.found).collect())
}
