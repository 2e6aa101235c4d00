//! [`HomeContext`]: the home that an executor works in, the path shown for its root, and the audit log of its store.

use std::sync::Arc;

use super::home::Home;
use super::request::{Outcome, Request};
use trumanfs_types::name::WorldPath;
use trumanfs_types::origin::{OriginKind, RunId};

/// The audit log of a store. Each line is one request, or one event within a request.
pub trait AuditLog: Send + Sync {
    /// Writes the line of a request with its command and its working directory. Returns a warning for the operator if
    /// the line could not be written.
    fn write(&self, kind: OriginKind, asked: (&[u8], &[u8]), outcome: &Outcome) -> Option<String>;

    /// Writes a line about an event within a request: its kind, and its details. `event` is its name if an operator
    /// should look at it. Returns a warning for the operator if the line could not be written.
    fn write_event(
        &self,
        run: RunId,
        kind: &'static str,
        event: Option<&'static str>,
        what: &serde_json::Value,
    ) -> Option<String>;
}

/// A home as an executor works in it: its root may be a directory of the whole home. Clones share everything.
#[derive(Clone)]
pub struct HomeContext {
    home: Arc<dyn Home>,
    root: Arc<[u8]>,
    /// The path of the root in the whole home.
    prefix: WorldPath,
    audit: Option<Arc<dyn AuditLog>>,
}

impl HomeContext {
    /// Makes the context of a home. `root` is the absolute path shown for its root. Without an audit log, requests
    /// leave no line.
    pub fn new(home: Arc<dyn Home>, root: &[u8], audit: Option<Arc<dyn AuditLog>>) -> HomeContext {
        let end = root
            .iter()
            .rposition(|b| *b != b'/')
            .map_or(0, |last| last + 1);
        HomeContext {
            home,
            root: root.get(..end).unwrap_or_default().into(),
            prefix: WorldPath::root(),
            audit,
        }
    }

    /// Returns the same context with its root at this path of the whole home.
    pub fn with_prefix(self, prefix: WorldPath) -> HomeContext {
        HomeContext { prefix, ..self }
    }

    /// Returns the same context with another home.
    pub fn map_home(self, other: impl FnOnce(Arc<dyn Home>) -> Arc<dyn Home>) -> HomeContext {
        HomeContext {
            home: other(self.home.clone()),
            ..self
        }
    }

    /// Converts a path below the root into a path of the whole home.
    pub fn path_in_home(&self, path: &WorldPath) -> WorldPath {
        let joined = [self.prefix.bytes(), path.bytes()].join(&b'/');
        WorldPath::parse(&joined).unwrap_or_default()
    }

    /// Returns the home.
    pub fn home(&self) -> &Arc<dyn Home> {
        &self.home
    }

    /// Returns the path shown for the root: absolute, without a slash at the end (empty for `/`).
    pub fn root(&self) -> &Arc<[u8]> {
        &self.root
    }

    /// Returns the audit log, if any.
    pub fn audit_log(&self) -> Option<Arc<dyn AuditLog>> {
        self.audit.clone()
    }

    /// Writes the line of a request. Returns a warning for the operator if the line could not be written.
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
