//! [`Place`]: where an executor works. A home, what its root is called, and the audit log of its store.

use std::sync::Arc;

use super::home::Home;
use super::request::{Outcome, Request};
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::{OriginKind, RunId};

/// The audit log of a store. Each line is one request, or something that happened in one.
pub trait AuditLog: Send + Sync {
    /// Writes the line of a request with its command and its working directory. Returns what an operator should know where
    /// that was not possible.
    fn write(&self, kind: OriginKind, asked: (&[u8], &[u8]), outcome: &Outcome) -> Option<String>;

    /// Writes a line about something that happened in a request: its kind, and what it was. `event` is its name where an
    /// operator should look at it. Returns what an operator should know where that was not possible.
    fn happened(
        &self,
        run: RunId,
        kind: &'static str,
        event: Option<&'static str>,
        what: &serde_json::Value,
    ) -> Option<String>;
}

/// Where an executor works. Clones are the same place.
#[derive(Clone)]
pub struct Place {
    home: Arc<dyn Home>,
    root: Arc<[u8]>,
    /// Where the root lies in the whole home.
    prefix: WorldPath,
    audit: Option<Arc<dyn AuditLog>>,
}

impl Place {
    /// Makes a place of a home. `root` is what its root is called, an absolute path. Without an audit log nothing is
    /// written to one.
    pub fn new(home: Arc<dyn Home>, root: &[u8], audit: Option<Arc<dyn AuditLog>>) -> Place {
        let end = root
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |last| last + 1);
        Place {
            home,
            root: root.get(..end).unwrap_or_default().into(),
            prefix: WorldPath::root(),
            audit,
        }
    }

    /// Returns the same place, known to lie in a home at this path.
    pub fn at(self, prefix: WorldPath) -> Place {
        Place { prefix, ..self }
    }

    /// Returns the same place with another home.
    pub fn with(self, other: impl FnOnce(Arc<dyn Home>) -> Arc<dyn Home>) -> Place {
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
    pub fn audit_log(&self) -> Option<Arc<dyn AuditLog>> {
        self.audit.clone()
    }

    /// Writes the line of a request. Returns what an operator should know where that was not possible.
    pub fn audit(
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
