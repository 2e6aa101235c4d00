//! Leases for a list of manifests: a planner signs once for many tasks, each of which is done once, in any order.
//!
//! Owns the list. Each manifest's digest is signed; for one of them the lease counts as an ordinary one with a single use,
//! and goes through the same checks. A list undoes nothing: the id of an undo stands in its lease alone.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::absolute_path::AbsolutePath;
use super::envelope::{Envelope, PayloadType};
use super::failure::TaskFailure;
use super::failure_reason::FailureReason;
use super::key::{PrivateKey, PublicKey};
use super::lease::Lease;
use super::quota::TaskQuota;
use super::strict::{self, FormatError};

/// The largest number of manifests of a list.
pub const MAX_MANIFESTS: usize = 512;

/// The payload of a lease for a list of manifests. Its members stand in this order in what `lease issue` writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchLease {
    /// The format: 1.
    pub v: u64,
    /// Which lease it is; a list of revoked ones names it, and with it all its manifests.
    pub lease_id: String,
    /// The issuer of the lease, for people.
    pub iss: String,
    /// The executor that it is for.
    pub aud: String,
    /// The SHA-256 of the exact bytes of each manifest, each once.
    pub manifests: Vec<String>,
    /// The ids of the capabilities that each task may use.
    pub capabilities: Vec<String>,
    /// The directories below which all paths of each task lie.
    pub bases: Vec<AbsolutePath>,
    /// The time at which the lease was issued (Unix seconds).
    pub iat: u64,
    /// The first second in which it is valid (Unix).
    pub nbf: u64,
    /// The first second in which it is valid no more (Unix).
    pub exp: u64,
    /// The limits of what each task may use.
    #[serde(deserialize_with = "strict::object")]
    pub quota: TaskQuota,
}

impl BatchLease {
    /// Reads a payload. It says nothing of who signed it: [`LeaseGrant::verify`] does.
    ///
    /// # Errors
    /// It is not strict JSON, a member is missing, unknown, of the wrong type, or out of its bounds.
    pub fn parse(payload: &[u8]) -> Result<BatchLease, FormatError> {
        let lease: BatchLease = strict::read(payload, PayloadType::BatchLease.limit())?;
        lease.check()?;
        Ok(lease)
    }

    /// Checks the bounds of each member.
    ///
    /// # Errors
    /// One is out of them, or a manifest stands in the list twice.
    pub fn check(&self) -> Result<(), FormatError> {
        let count = self.manifests.len();
        if !(1..=MAX_MANIFESTS).contains(&count) {
            return Err(FormatError::new(format!(
                "{count} manifests, not 1 to {MAX_MANIFESTS}"
            )));
        }
        let mut known = HashSet::with_capacity(count);
        for sha256 in &self.manifests {
            strict::check_sha256("manifests", sha256)?;
            if !known.insert(sha256) {
                return Err(FormatError::new(format!("manifests has {sha256} twice")));
            }
        }
        self.single("task", "0".repeat(64)).check()
    }

    /// Issues the lease: signs it as a kernel.
    ///
    /// # Errors
    /// A member is out of its bounds, or the envelope is longer than one may be.
    pub fn issue(&self, key: &PrivateKey) -> Result<Envelope, FormatError> {
        self.check()?;
        let payload = serde_json::to_vec(self);
        let payload = payload.map_err(|error| FormatError::new(error.to_string()))?;
        let envelope = Envelope::sign(PayloadType::BatchLease, payload, key);
        let (length, limit) = (envelope.to_text().len(), PayloadType::BatchLease.limit());
        match length > limit {
            true => Err(FormatError::new(format!(
                "the lease has {length} bytes, more than {limit}"
            ))),
            false => Ok(envelope),
        }
    }

    /// Returns the lease of one manifest, by its task and digest.
    ///
    /// # Errors
    /// INVALID_LEASE: the list does not have it.
    pub fn for_manifest(&self, task_id: &str, sha256: &str) -> Result<Lease, TaskFailure> {
        match self.manifests.iter().any(|listed| listed == sha256) {
            true => Ok(self.single(task_id, sha256.to_owned())),
            false => Err(FailureReason::LeaseMismatch
                .because("the lease has no manifest with this digest in its list")),
        }
    }

    fn single(&self, task_id: &str, manifest_sha256: String) -> Lease {
        Lease {
            v: self.v,
            lease_id: self.lease_id.clone(),
            iss: self.iss.clone(),
            aud: self.aud.clone(),
            task_id: task_id.to_owned(),
            manifest_sha256,
            capabilities: self.capabilities.clone(),
            bases: self.bases.clone(),
            iat: self.iat,
            nbf: self.nbf,
            exp: self.exp,
            max_uses: 1,
            quota: self.quota,
        }
    }
}

/// A lease as a kernel signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseGrant {
    /// For one manifest, or for the undo of one result.
    Single(Lease),
    /// For a list of manifests.
    Batch(BatchLease),
}

impl LeaseGrant {
    /// Reads a lease from its envelope: steps "bounds and strictness" and "signature".
    ///
    /// # Errors
    /// INVALID_LEASE: the envelope or the payload is malformed, or none of these keys has signed it as a lease.
    pub fn verify<'k>(
        text: &[u8],
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Result<LeaseGrant, TaskFailure> {
        let malformed = |why: FormatError| {
            FailureReason::LeaseMalformed.because(format!("the lease is malformed: {why}"))
        };
        let envelope = Envelope::parse(text).map_err(malformed)?;
        if envelope.payload_type != PayloadType::BatchLease {
            return Lease::verify(text, keys).map(LeaseGrant::Single);
        }
        if envelope.verify(PayloadType::BatchLease, keys).is_none() {
            return Err(FailureReason::LeaseUntrusted
                .because("no kernel key that is trusted now has signed this as a lease"));
        }
        let lease = BatchLease::parse(&envelope.payload).map_err(malformed)?;
        Ok(LeaseGrant::Batch(lease))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use super::super::tests::lease;

    fn batch(count: usize) -> BatchLease {
        let lease = lease();
        BatchLease {
            v: 1,
            lease_id: lease.lease_id,
            iss: lease.iss,
            aud: lease.aud,
            manifests: (0..count).map(|number| format!("{number:064x}")).collect(),
            capabilities: lease.capabilities,
            bases: lease.bases,
            iat: lease.iat,
            nbf: lease.nbf,
            exp: lease.exp,
            quota: lease.quota,
        }
    }

    fn parse(value: &Value) -> Result<BatchLease, FormatError> {
        BatchLease::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_list_is_strict_and_bounded() {
        let key = PrivateKey::from_seed(&[1; 32]);
        for count in [1, 2, MAX_MANIFESTS] {
            let text = batch(count).issue(&key).unwrap().to_text();
            let read = LeaseGrant::verify(text.as_bytes(), [key.public()]);
            assert_eq!(read, Ok(LeaseGrant::Batch(batch(count))));
        }
        assert!(batch(0).issue(&key).is_err());
        assert!(batch(MAX_MANIFESTS + 1).issue(&key).is_err());
        let good = serde_json::to_value(batch(2)).unwrap();
        for member in good.as_object().unwrap().keys() {
            let mut stripped = good.clone();
            stripped.as_object_mut().unwrap().remove(member);
            assert!(parse(&stripped).is_err(), "{member}");
        }
        let digest = "a".repeat(64);
        for (member, bad) in [
            ("manifests", json!([])),
            ("manifests", json!([digest, digest])),
            ("manifests", json!([digest.to_uppercase()])),
            ("manifests", json!([1])),
            ("manifests", json!(digest)),
            ("manifests", json!({ digest.as_str(): 1 })),
            ("capabilities", json!([])),
            ("bases", json!(["/"])),
            ("exp", json!(100)),
            ("v", json!(2)),
            ("max_uses", json!(1)),
            ("task_id", json!("t")),
            ("manifest_sha256", json!(digest)),
        ] {
            let mut changed = good.clone();
            changed[member] = bad.clone();
            assert!(parse(&changed).is_err(), "{member}: {bad}");
        }
    }

    #[test]
    fn a_list_and_a_lease_are_never_taken_for_each_other() {
        let key = PrivateKey::from_seed(&[1; 32]);
        let list = serde_json::to_vec(&batch(1)).unwrap();
        let single = lease().to_payload().unwrap();
        for (kind, payload) in [
            (PayloadType::Lease, list.clone()),
            (PayloadType::BatchLease, single.clone()),
            (PayloadType::Result, list.clone()),
        ] {
            let text = Envelope::sign(kind, payload, &key).to_text();
            let read = LeaseGrant::verify(text.as_bytes(), [key.public()]);
            assert!(read.is_err(), "{text}");
        }
        // Signed as one, sent as the other.
        let (a, b) = (
            PayloadType::BatchLease.as_str(),
            PayloadType::Lease.as_str(),
        );
        let text = Envelope::sign(PayloadType::BatchLease, single, &key).to_text();
        let read = LeaseGrant::verify(text.replace(a, b).as_bytes(), [key.public()]);
        assert!(read.is_err());
        let text = Envelope::sign(PayloadType::Lease, list, &key).to_text();
        let read = LeaseGrant::verify(text.replace(b, a).as_bytes(), [key.public()]);
        assert!(read.is_err());
    }

    #[test]
    fn a_manifest_has_its_lease_by_its_digest() {
        let list = batch(3);
        let single = list.for_manifest("t", &list.manifests[2]).unwrap();
        assert_eq!((single.task_id.as_str(), single.max_uses), ("t", 1));
        assert_eq!(single.manifest_sha256, list.manifests[2]);
        let other = list.for_manifest("t", &"f".repeat(64)).unwrap_err();
        assert_eq!(other.reason, Some(FailureReason::LeaseMismatch));
    }
}
