//! Requests as a stream has them: one line of JSON each, with a manifest, or the result of a task to take back, as text and
//! a lease as an object.

use serde::Deserialize;
use serde_json::Value;

use super::envelope::PayloadType;
use super::manifest;
use super::strict::{self, FormatError};

/// The maximum length of a line, in bytes: a manifest whose every byte is escaped, and a lease.
pub const MAX_REQUEST_BYTES: usize = 6 * manifest::MAX_MANIFEST_BYTES + 64 * 1024;

/// The subject of a request, which its lease has the digest of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamSubject {
    /// The exact text of the manifest to carry out.
    Manifest(Vec<u8>),
    /// The exact text of the result of the task to take back.
    Undo(Vec<u8>),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRequest {
    /// The manifest, or the result to undo.
    pub subject: StreamSubject,
    /// The envelope of the lease; empty where there is none.
    pub lease: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamRequestWire {
    #[serde(default, deserialize_with = "strict::if_there")]
    manifest: Option<String>,
    #[serde(default, deserialize_with = "strict::if_there")]
    undo: Option<String>,
    #[serde(default)]
    lease: Value,
}

impl StreamRequest {
    /// Reads one.
    ///
    /// # Errors
    /// It is too long, not strict JSON, has other members, or not exactly one of `manifest` and `undo`.
    pub fn parse(text: &[u8]) -> Result<StreamRequest, FormatError> {
        debug_assert!(PayloadType::Lease.limit() <= MAX_REQUEST_BYTES);
        let wire: StreamRequestWire = strict::read(text, MAX_REQUEST_BYTES)?;
        let lease = match wire.lease {
            Value::Null => Vec::new(),
            // What is signed are the bytes of its payload, which stay as they are.
            lease => serde_json::to_vec(&lease).unwrap_or_default(),
        };
        let subject = match (wire.manifest, wire.undo) {
            (Some(manifest), None) => StreamSubject::Manifest(manifest.into_bytes()),
            (None, Some(result)) => StreamSubject::Undo(result.into_bytes()),
            _ => return Err(FormatError::new("it has not one of manifest and undo")),
        };
        Ok(StreamRequest { subject, lease })
    }
}
