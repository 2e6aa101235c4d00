//! Records outside the scope of a review that changed the same names and contents.

use std::collections::HashMap;
use std::sync::Arc;

use crate::operator::past::{NodeId, RecordEffect, RecordId};

/// The latest record outside the scope, by node.
#[derive(Debug, Default)]
pub(super) struct OtherChanges {
    latest: HashMap<NodeId, RecordId>,
    session: Option<Arc<str>>,
}

impl OtherChanges {
    /// Notes an effect of a record, the newest first.
    pub(super) fn note(&mut self, (session, seq): (&str, u64), effect: &RecordEffect) {
        let session = match self.session.take().filter(|known| **known == *session) {
            Some(known) => known,
            None => Arc::from(session),
        };
        for node in content_nodes(effect).into_iter().flatten() {
            let latest = self.latest.entry(node);
            latest.or_insert_with(|| (session.clone(), seq));
        }
        self.session = Some(session);
    }

    /// Returns the latest record that changed the content or the place of a node.
    pub(super) fn latest(&self, node: NodeId) -> Option<&RecordId> {
        self.latest.get(&node)
    }
}

/// Returns the nodes whose content, or place, an effect is about.
pub(super) fn content_nodes(effect: &RecordEffect) -> [Option<NodeId>; 2] {
    match effect {
        RecordEffect::Name { before, after, .. } => [*before, *after],
        RecordEffect::Born(node) | RecordEffect::Content { node, .. } => [Some(*node), None],
        _ => [None, None],
    }
}
