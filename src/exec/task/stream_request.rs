//! Requests as a stream has them: one line of JSON each, with a manifest as text and a lease as an object.

use serde::Deserialize;
use serde_json::Value;

use super::envelope::PayloadType;
use super::manifest;
use super::strict::{self, FormatError};

/// The maximum length of a line, in bytes: a manifest whose every byte is escaped, and a lease.
pub const MAX_REQUEST_BYTES: usize = 6 * manifest::MAX_MANIFEST_BYTES + 64 * 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRequest {
    /// The exact text of the manifest.
    pub manifest: Vec<u8>,
    /// The envelope of the lease; empty where there is none.
    pub lease: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamRequestWire {
    manifest: String,
    #[serde(default)]
    lease: Value,
}

impl StreamRequest {
    /// Reads one.
    ///
    /// # Errors
    /// It is too long, not strict JSON, or has other members.
    pub fn parse(text: &[u8]) -> Result<StreamRequest, FormatError> {
        debug_assert!(PayloadType::Lease.limit() <= MAX_REQUEST_BYTES);
        let wire: StreamRequestWire = strict::read(text, MAX_REQUEST_BYTES)?;
        let lease = match wire.lease {
            Value::Null => Vec::new(),
            // What is signed are the bytes of its payload, which stay as they are.
            lease => serde_json::to_vec(&lease).unwrap_or_default(),
        };
        Ok(StreamRequest {
            manifest: wire.manifest.into_bytes(),
            lease,
        })
    }
}
