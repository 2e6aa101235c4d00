//! Leases: the permission to do one task, signed by a kernel key. Each check of the order in `docs/TASKS.md` that
//! concerns the lease is a function of its own here, pure, and touches no file.

use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use super::absolute_path::AbsolutePath;
use super::envelope::{Envelope, PayloadType};
use super::failure::TaskFailure;
use super::failure_reason::FailureReason;
use super::key::{PrivateKey, PublicKey};
use super::manifest::Capability;
use super::quota::{MAX_NUMBER, TaskQuota};
use super::revocations::RevocationList;
use super::strict::{self, FormatError};
use crate::error::Error;

/// The largest number of capabilities, or of bases, that a lease may name.
const MAX_ENTRIES: usize = 64;

/// The largest `max_uses` of a lease.
const MOST_USES: u64 = 1_000_000;

/// The payload of a lease. Its members stand in this order in what `lease issue` writes; a reader takes any order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The format: 1.
    pub v: u64,
    /// Which lease it is; what a list of revoked ones names, and uses are counted by.
    pub lease_id: String,
    /// The issuer of the lease, for people.
    pub iss: String,
    /// The executor that it is for.
    pub aud: String,
    /// The task that it is for.
    pub task_id: String,
    /// The SHA-256 of what is to be carried out: the manifest's exact bytes, or those of the result to undo.
    pub manifest_sha256: String,
    /// The ids of the capabilities that the task may use.
    pub capabilities: Vec<String>,
    /// The directories below which all paths of the task lie.
    pub bases: Vec<AbsolutePath>,
    /// The time at which the lease was issued (Unix seconds).
    pub iat: u64,
    /// The first second in which it is valid (Unix).
    pub nbf: u64,
    /// The first second in which it is valid no more (Unix).
    pub exp: u64,
    /// The number of times that the lease may be used.
    pub max_uses: u64,
    /// The limits of what the task may use.
    #[serde(deserialize_with = "strict::object")]
    pub quota: TaskQuota,
}

impl Lease {
    /// Returns a new id: 128 random bits in hexadecimal digits.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn new_id() -> Result<String, Error> {
        let mut bytes = [0; 16];
        let got =
            getrandom(&mut bytes[..], GetRandomFlags::empty()).map_err(Error::os("getrandom"))?;
        match got == bytes.len() {
            true => Ok(format!("{:032x}", u128::from_be_bytes(bytes))),
            false => Err(Error::Damaged(
                "getrandom returned too few bytes".to_owned(),
            )),
        }
    }

    /// Reads a payload. It says nothing of who signed it: [`Lease::verify`] does.
    ///
    /// # Errors
    /// It is not strict JSON, a member is missing, unknown, of the wrong type, or out of its bounds.
    pub fn parse(payload: &[u8]) -> Result<Lease, FormatError> {
        let lease: Lease = strict::read(payload, PayloadType::Lease.limit())?;
        lease.check()?;
        Ok(lease)
    }

    /// Checks the bounds of each member.
    ///
    /// # Errors
    /// One is out of them.
    pub fn check(&self) -> Result<(), FormatError> {
        strict::check_version(self.v)?;
        strict::check_id("lease_id", &self.lease_id)?;
        strict::check_id("iss", &self.iss)?;
        strict::check_id("aud", &self.aud)?;
        strict::check_id("task_id", &self.task_id)?;
        strict::check_sha256("manifest_sha256", &self.manifest_sha256)?;
        let several = |member: &str, count: usize| match (1..=MAX_ENTRIES).contains(&count) {
            true => Ok(()),
            false => Err(FormatError::new(format!(
                "{count} {member}, not 1 to {MAX_ENTRIES}"
            ))),
        };
        several("capabilities", self.capabilities.len())?;
        several("bases", self.bases.len())?;
        for capability in &self.capabilities {
            strict::check_id("capabilities", capability)?;
        }
        for (member, time) in [("iat", self.iat), ("nbf", self.nbf), ("exp", self.exp)] {
            if time > MAX_NUMBER {
                return Err(FormatError::new(format!(
                    "{member} is {time}, which is no time"
                )));
            }
        }
        if self.exp <= self.nbf || self.exp <= self.iat {
            return Err(FormatError::new("exp is not after nbf and iat"));
        }
        if !(1..=MOST_USES).contains(&self.max_uses) {
            return Err(FormatError::new(format!(
                "max_uses is {}, not 1 to {MOST_USES}",
                self.max_uses
            )));
        }
        self.quota.check()
    }

    /// Returns the exact bytes to sign.
    ///
    /// # Errors
    /// A member is out of its bounds.
    pub fn to_payload(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        serde_json::to_vec(self).map_err(|error| FormatError::new(error.to_string()))
    }

    /// Issues the lease: signs it as a kernel.
    ///
    /// # Errors
    /// A member is out of its bounds, or the envelope is longer than one may be.
    pub fn issue(&self, key: &PrivateKey) -> Result<Envelope, FormatError> {
        let envelope = Envelope::sign(PayloadType::Lease, self.to_payload()?, key);
        let (length, limit) = (envelope.to_text().len(), PayloadType::Lease.limit());
        match length > limit {
            true => Err(FormatError::new(format!(
                "the lease has {length} bytes, more than {limit}"
            ))),
            false => Ok(envelope),
        }
    }

    /// Reads a lease from its envelope: steps "bounds and strictness" and "signature".
    ///
    /// # Errors
    /// INVALID_LEASE: the envelope or the payload is malformed, or none of these keys has signed it as a lease.
    pub fn verify<'k>(
        text: &[u8],
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Result<Lease, TaskFailure> {
        let envelope = Envelope::parse(text).map_err(|why| {
            FailureReason::LeaseMalformed.because(format!("the lease is malformed: {why}"))
        })?;
        if envelope.verify(PayloadType::Lease, keys).is_none() {
            return Err(FailureReason::LeaseUntrusted
                .because("no kernel key that is trusted now has signed this as a lease"));
        }
        Lease::parse(&envelope.payload).map_err(|why| {
            FailureReason::LeaseMalformed.because(format!("the lease is malformed: {why}"))
        })
    }

    /// Step "audience".
    ///
    /// # Errors
    /// INVALID_LEASE: it is for another executor.
    pub fn check_audience(&self, audience: &str) -> Result<(), TaskFailure> {
        match self.aud == audience {
            true => Ok(()),
            false => Err(FailureReason::LeaseAudience.because("the lease is for another executor")),
        }
    }

    /// Step "task". For an undo, whose id is in the lease alone, there is nothing to compare.
    ///
    /// # Errors
    /// INVALID_LEASE: it is for another task.
    pub fn check_task(&self, task_id: &str) -> Result<(), TaskFailure> {
        match self.task_id == task_id {
            true => Ok(()),
            false => Err(FailureReason::LeaseMismatch.because("the lease is for another task")),
        }
    }

    /// Step "manifest digest".
    ///
    /// # Errors
    /// INVALID_LEASE: it is for another text.
    pub fn check_digest(&self, sha256: &str) -> Result<(), TaskFailure> {
        match self.manifest_sha256 == sha256 {
            true => Ok(()),
            false => Err(FailureReason::LeaseMismatch
                .because("the lease is for a manifest with another digest")),
        }
    }

    /// Step "time". Skew loosens `iat` and `nbf` only.
    ///
    /// # Errors
    /// LEASE_EXPIRED: `exp` has come. INVALID_LEASE: it lasts longer than `max_lease_s` from the earlier of `iat` and
    /// `nbf`, or is not valid yet.
    pub fn check_time(&self, now: u64, skew_s: u64, max_lease_s: u64) -> Result<(), TaskFailure> {
        let begin = self.iat.min(self.nbf);
        let lifetime = self.exp.saturating_sub(begin);
        if lifetime > max_lease_s {
            return Err(FailureReason::LeaseTooLong.because(format!(
                "the lease lasts {lifetime} s, and here at most {max_lease_s} s"
            )));
        }
        if now >= self.exp {
            return Err(FailureReason::LeaseExpired.because(format!(
                "the lease expired at {}, and it is {now}",
                self.exp
            )));
        }
        let latest = now.saturating_add(skew_s);
        if self.iat > latest || self.nbf > latest {
            return Err(FailureReason::LeaseEarly.because(format!(
                "the lease is not valid before {}, and it is {now}",
                self.iat.max(self.nbf)
            )));
        }
        Ok(())
    }

    /// Step "revocation".
    ///
    /// # Errors
    /// INVALID_LEASE: it is revoked.
    pub fn check_revocation(&self, revocations: &RevocationList) -> Result<(), TaskFailure> {
        match revocations.has(&self.lease_id) {
            false => Ok(()),
            true => Err(FailureReason::LeaseRevoked.because("the lease is revoked")),
        }
    }

    /// Step "uses"; `used` is how often it was used before.
    ///
    /// # Errors
    /// INVALID_LEASE: it is used up.
    pub fn check_uses(&self, used: u64) -> Result<(), TaskFailure> {
        match used < self.max_uses {
            true => Ok(()),
            false => Err(FailureReason::LeaseUsedUp.because(format!(
                "the lease is used up: {used} of {} uses",
                self.max_uses
            ))),
        }
    }

    /// Step "capability".
    ///
    /// # Errors
    /// UNSUPPORTED_CAPABILITY: there is none of this id. INVALID_LEASE: the lease does not have it.
    pub fn check_capability(&self, id: &str) -> Result<Capability, TaskFailure> {
        let Some(capability) = Capability::parse(id) else {
            return Err(FailureReason::Capability
                .because(format!("{id:?} is not FILE_MOVE, FILE_COPY or FILE_DELETE")));
        };
        match self.capabilities.iter().any(|leased| leased == id) {
            true => Ok(capability),
            false => Err(FailureReason::LeaseCapability
                .because(format!("the lease does not have {capability}"))),
        }
    }

    /// Step "paths", as far as it needs no file system: the path lies below a base that the configuration and the
    /// lease have.
    ///
    /// # Errors
    /// EXECUTION_FAILED: it does not.
    pub fn check_path(
        &self,
        path: &AbsolutePath,
        configured: &[PathBuf],
    ) -> Result<(), TaskFailure> {
        let below = |base: &Path| path.below(base).is_some();
        let is_leased = self.bases.iter().any(|base| below(base.as_path()));
        match is_leased && configured.iter().any(|base| below(base)) {
            true => Ok(()),
            false => Err(FailureReason::Outside
                .because("a path does not lie below a base that the lease has")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use super::super::failure::FailureCode;
    use super::super::tests::lease;

    fn value() -> Value {
        serde_json::to_value(lease()).unwrap()
    }

    fn parse(value: &Value) -> Result<Lease, FormatError> {
        Lease::parse(value.to_string().as_bytes())
    }

    fn code(checked: Result<(), TaskFailure>) -> Option<FailureCode> {
        checked.err().map(|failure| failure.code)
    }

    #[test]
    fn a_lease_is_strict() {
        assert_eq!(parse(&value()), Ok(lease()));
        for member in value().as_object().unwrap().keys() {
            let mut stripped = value();
            stripped.as_object_mut().unwrap().remove(member);
            assert!(parse(&stripped).is_err(), "{member}");
            let mut null = value();
            null[member] = json!(null);
            assert!(parse(&null).is_err(), "{member}");
        }
        let many = |item: &str| vec![item.to_owned(); MAX_ENTRIES + 1];
        for (member, bad) in [
            ("v", json!(2)),
            ("v", json!("1")),
            ("lease_id", json!("")),
            ("lease_id", json!("a b")),
            ("iss", json!("ä")),
            ("aud", json!(["files"])),
            ("task_id", json!("")),
            ("manifest_sha256", json!("A".repeat(64))),
            ("manifest_sha256", json!("a".repeat(63))),
            ("capabilities", json!([])),
            ("capabilities", json!("FILE_MOVE")),
            ("capabilities", json!([1])),
            ("capabilities", json!(many("FILE_MOVE"))),
            ("bases", json!([])),
            ("bases", json!(["/"])),
            ("bases", json!(["work"])),
            ("bases", json!(["/work/../etc"])),
            ("bases", json!(many("/work"))),
            ("iat", json!("100")),
            ("iat", json!(1e2)),
            ("nbf", json!(-1)),
            ("nbf", json!(200)),
            ("iat", json!(200)),
            ("exp", json!(100)),
            ("exp", json!(MAX_NUMBER + 1)),
            ("max_uses", json!(0)),
            ("max_uses", json!(MOST_USES + 1)),
            ("quota", json!([1, 1, 1, 1, 1])),
            ("quota", json!({})),
            ("more", json!(1)),
        ] {
            let mut changed = value();
            changed[member] = bad.clone();
            assert!(parse(&changed).is_err(), "{member}: {bad}");
        }
        let twice = value().to_string().replacen('{', "{\"aud\":\"other\",", 1);
        assert!(Lease::parse(twice.as_bytes()).is_err());
    }

    #[test]
    fn who_it_is_for_is_compared() {
        let lease = lease();
        assert_eq!(code(lease.check_audience("files")), None);
        assert_eq!(
            code(lease.check_audience("file")),
            Some(FailureCode::InvalidLease)
        );
        assert_eq!(code(lease.check_task("task-1")), None);
        assert_eq!(
            code(lease.check_task("task-2")),
            Some(FailureCode::InvalidLease)
        );
        assert_eq!(code(lease.check_digest(&"0".repeat(64))), None);
        assert_eq!(
            code(lease.check_digest(&"1".repeat(64))),
            Some(FailureCode::InvalidLease)
        );
    }

    #[test]
    fn time_is_loosened_at_the_beginning_only() {
        let check = |iat, nbf, exp, now| {
            let lease = Lease {
                iat,
                nbf,
                exp,
                ..lease()
            };
            code(lease.check_time(now, 30, 100))
        };
        let (late, bad) = (
            Some(FailureCode::LeaseExpired),
            Some(FailureCode::InvalidLease),
        );
        for (iat, nbf, exp, now, expected) in [
            (100, 100, 200, 100, None),
            (100, 100, 200, 199, None),
            (100, 100, 200, 200, late),
            (100, 100, 200, 201, late),
            (100, 100, 200, u64::MAX, late),
            (100, 100, 200, 70, None),
            (100, 100, 200, 69, bad),
            (100, 100, 200, 0, bad),
            // Issued ahead, and valid from before it was issued.
            (100, 150, 200, 120, None),
            (100, 150, 200, 119, bad),
            (150, 100, 200, 119, bad),
            (150, 100, 200, 120, None),
            // 101 seconds from the earlier of the two.
            (100, 100, 201, 150, bad),
            (100, 150, 201, 150, bad),
            (150, 100, 201, 150, bad),
            (0, 0, MAX_NUMBER, 150, bad),
        ] {
            assert_eq!(
                check(iat, nbf, exp, now),
                expected,
                "{iat} {nbf} {exp} at {now}"
            );
        }
    }

    #[test]
    fn uses_and_revocations_count() {
        let lease = Lease {
            max_uses: 2,
            ..lease()
        };
        assert_eq!(code(lease.check_uses(0)), None);
        assert_eq!(code(lease.check_uses(1)), None);
        assert_eq!(code(lease.check_uses(2)), Some(FailureCode::InvalidLease));
        assert_eq!(
            code(lease.check_uses(u64::MAX)),
            Some(FailureCode::InvalidLease)
        );
        let mut list = RevocationList::default();
        assert_eq!(code(lease.check_revocation(&list)), None);
        list.lease_ids.insert("lease-10".to_owned());
        assert_eq!(code(lease.check_revocation(&list)), None);
        list.lease_ids.insert("lease-1".to_owned());
        assert_eq!(
            code(lease.check_revocation(&list)),
            Some(FailureCode::InvalidLease)
        );
    }

    #[test]
    fn an_unknown_capability_is_told_before_one_that_is_not_leased() {
        let lease = Lease {
            capabilities: vec!["FILE_MOVE".to_owned(), "FILE_CHMOD".to_owned()],
            ..lease()
        };
        assert_eq!(
            lease.check_capability("FILE_MOVE"),
            Ok(Capability::FileMove)
        );
        for (id, expected) in [
            ("FILE_DELETE", FailureCode::InvalidLease),
            ("FILE_CHMOD", FailureCode::UnsupportedCapability),
            ("FILE_LINK", FailureCode::UnsupportedCapability),
            ("file_move", FailureCode::UnsupportedCapability),
        ] {
            assert_eq!(
                lease.check_capability(id).unwrap_err().code,
                expected,
                "{id}"
            );
        }
    }

    #[test]
    fn a_path_lies_below_a_base_of_both() {
        let path = |text: &str| AbsolutePath::parse(text).unwrap();
        let lease = Lease {
            bases: vec![path("/work/a"), path("/srv"), path("/none")],
            ..lease()
        };
        let configured = [
            PathBuf::from("/work"),
            PathBuf::from("/srv/deep"),
            PathBuf::from("/own"),
        ];
        for (text, allowed) in [
            ("/work/a/f", true),
            ("/work/a/b/f", true),
            ("/srv/deep/f", true),
            ("/work/f", false),
            ("/work/ab", false),
            ("/work/a", false),
            ("/srv/f", false),
            ("/own/f", false),
            ("/none/f", false),
            ("/etc/passwd", false),
        ] {
            let failed = lease.check_path(&path(text), &configured);
            assert_eq!(failed.is_ok(), allowed, "{text}");
            // Nothing of what was asked for is repeated.
            if let Err(failure) = failed {
                assert_eq!(failure.code, FailureCode::ExecutionFailed);
                assert!(!failure.message.contains(text));
            }
        }
    }

    #[test]
    fn what_is_no_lease_by_a_trusted_key_is_an_invalid_one() {
        let key = PrivateKey::from_seed(&[1; 32]);
        let signed = |kind, payload: &[u8]| Envelope::sign(kind, payload.to_vec(), &key).to_text();
        let payload = lease().to_payload().unwrap();
        let good = signed(PayloadType::Lease, &payload);
        assert_eq!(Lease::verify(good.as_bytes(), [key.public()]), Ok(lease()));
        for (what, text) in [
            ("a result", signed(PayloadType::Result, &payload)),
            ("a list", signed(PayloadType::Revocations, &payload)),
            ("signed, but no lease", signed(PayloadType::Lease, b"{}")),
            ("nothing", String::new()),
            (
                "the payload alone",
                String::from_utf8(payload.clone()).unwrap(),
            ),
            (
                "a type rewritten",
                signed(PayloadType::Result, &payload).replace("result.v1", "lease.v1"),
            ),
        ] {
            let failure = Lease::verify(text.as_bytes(), [key.public()]).unwrap_err();
            assert_eq!(failure.code, FailureCode::InvalidLease, "{what}");
        }
        assert!(Lease::verify(good.as_bytes(), []).is_err());
        let wrong = Lease {
            max_uses: 0,
            ..lease()
        };
        assert!(wrong.issue(&key).is_err());
        assert_ne!(Lease::new_id().unwrap(), Lease::new_id().unwrap());
    }
}
