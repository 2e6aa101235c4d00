//! [`Place`]: where an executor works. A home, what its root is called, and the audit log of its store.

use std::sync::Arc;

use super::audit::Audit;
use super::home::Home;
use super::request::{Outcome, Request};
use crate::name::WorldPath;
use crate::world::OriginKind;

/// Where an executor works. Clones are the same place.
#[derive(Clone)]
pub struct Place {
    home: Arc<dyn Home>,
    root: Arc<[u8]>,
    /// Where the root lies in the whole home.
    prefix: WorldPath,
    audit: Option<Arc<Audit>>,
}

impl Place {
    /// Makes a place of a home. `root` is what its root is called, an absolute path. Without an audit log nothing is
    /// written to one.
    pub fn new(home: Arc<dyn Home>, root: &[u8], audit: Option<Audit>) -> Place {
        let end = root
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |last| last + 1);
        Place {
            home,
            root: root.get(..end).unwrap_or_default().into(),
            prefix: WorldPath::root(),
            audit: audit.map(Arc::new),
        }
    }

    /// Returns the same place, known to lie in a home at this path.
    pub(super) fn at(self, prefix: WorldPath) -> Place {
        Place { prefix, ..self }
    }

    /// Returns the same place with another home.
    pub(super) fn with(self, other: impl FnOnce(Arc<dyn Home>) -> Arc<dyn Home>) -> Place {
        Place {
            home: other(self.home.clone()),
            ..self
        }
    }

    /// Returns a path from the root as one in the whole home.
    pub fn in_home(&self, path: &WorldPath) -> WorldPath {
        let joined = [self.prefix.bytes(), path.bytes()].join(&b'/');
        WorldPath::parse(&joined).unwrap_or_default()
    }

    /// Returns the home.
    pub fn home(&self) -> &Arc<dyn Home> {
        &self.home
    }

    /// Returns what the root is called, absolute, without a slash at the end (empty for `/`).
    pub fn root(&self) -> &Arc<[u8]> {
        &self.root
    }

    /// Returns the audit log, where there is one.
    pub(super) fn audit_log(&self) -> Option<Arc<Audit>> {
        self.audit.clone()
    }

    /// Writes the line of a request. Returns what an operator should know where that was not possible.
    pub(super) fn audit(
        &self,
        kind: OriginKind,
        request: &Request,
        cwd: &[u8],
        outcome: &Outcome,
    ) -> Option<String> {
        let audit = self.audit.as_ref()?;
        audit.write(kind, (&request.command, cwd), outcome)
    }
}
