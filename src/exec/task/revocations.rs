//! Leases that count no more, although their time is not over: a list, signed by a kernel key.
//!
//! A list that cannot be read, is signed by nobody who counts, or is older than one seen before, is an error of the
//! configuration: without it nothing is carried out.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, PayloadType};
use super::host_files;
use super::key::{PrivateKey, PublicKey};
use super::quota::LARGEST;
use super::strict::{self, Malformed};
use super::trust::Trust;
use crate::error::Error;

/// The file in the state directory that remembers the newest list.
const SEEN: &str = "revocations-seen.json";

/// What an operator does about a list that does not count.
const REMEDY: &str = "Nothing is carried out without the list. A kernel key that is trusted now has to sign it: \
                      `trumanfs lease revoke --key K --revocations FILE …`.";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u64,
    iss: String,
    iat: u64,
    lease_ids: BTreeSet<String>,
}

/// A list of revoked leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revocations {
    /// Who made the list, for people.
    pub iss: String,
    /// When it was made (Unix seconds): each list has a later time than the one before.
    pub iat: u64,
    /// The ids of the leases.
    pub lease_ids: BTreeSet<String>,
}

/// The newest list that was seen.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    iat: u64,
    sha256: String,
}

impl Revocations {
    /// Returns whether a lease is revoked.
    pub fn has(&self, lease_id: &str) -> bool {
        self.lease_ids.contains(lease_id)
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// It is not as `docs/TASKS.md` says.
    pub fn parse(payload: &[u8]) -> Result<Revocations, Malformed> {
        let wire: Wire = strict::read(payload, PayloadType::Revocations.limit())?;
        strict::check_version(wire.v)?;
        let revocations = Revocations {
            iss: wire.iss,
            iat: wire.iat,
            lease_ids: wire.lease_ids,
        };
        revocations.check()?;
        Ok(revocations)
    }

    fn check(&self) -> Result<(), Malformed> {
        strict::check_id("iss", &self.iss)?;
        if self.iat > LARGEST {
            return Err(Malformed::new("iat is no time"));
        }
        self.lease_ids
            .iter()
            .try_for_each(|id| strict::check_id("lease_ids", id))
    }

    /// Reads a list from its envelope.
    ///
    /// # Errors
    /// It is malformed, or none of these keys has signed it as such a list.
    pub fn verify<'k>(
        text: &[u8],
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Result<Revocations, Malformed> {
        let envelope = Envelope::parse(text)?;
        if envelope.verify(PayloadType::Revocations, keys).is_none() {
            return Err(Malformed::new(
                "no kernel key that is trusted now has signed this as a list of revocations",
            ));
        }
        Revocations::parse(&envelope.payload)
    }

    /// Signs the list as a kernel.
    ///
    /// # Errors
    /// A member is out of its bounds, or the list is longer than one may be.
    pub fn sign(&self, key: &PrivateKey) -> Result<Envelope, Malformed> {
        self.check()?;
        let wire = Wire {
            v: 1,
            iss: self.iss.clone(),
            iat: self.iat,
            lease_ids: self.lease_ids.clone(),
        };
        let payload =
            serde_json::to_vec(&wire).map_err(|error| Malformed::new(error.to_string()))?;
        let envelope = Envelope::sign(PayloadType::Revocations, payload, key);
        let (length, limit) = (envelope.to_text().len(), PayloadType::Revocations.limit());
        match length > limit {
            true => Err(Malformed::new(format!(
                "the list has {length} bytes, more than {limit}"
            ))),
            false => Ok(envelope),
        }
    }

    /// Reads the configured list, and remembers in the state directory that it was seen. Without a file none is
    /// revoked. The caller holds the state directory for itself.
    ///
    /// # Errors
    /// It is absent, malformed, not signed by a kernel key that counts now, older than a list that was seen, of the
    /// same time as one with other contents, or from a later time than now and `skew_s` seconds.
    pub fn load(
        file: Option<&Path>,
        trust: &Trust,
        now: u64,
        skew_s: u64,
        state_dir: &Path,
    ) -> Result<Revocations, Error> {
        let Some(file) = file else {
            return Ok(Revocations::default());
        };
        let refused = |why: &dyn std::fmt::Display| {
            Error::refused(format!("{}: {why}", file.display()), REMEDY)
        };
        let text = host_files::read(file, PayloadType::Revocations.limit())?;
        let list =
            Revocations::verify(&text, trust.kernel_keys(now)).map_err(|why| refused(&why))?;
        if list.iat > now.saturating_add(skew_s) {
            let why = format!("the list is from {}, and it is {now}", list.iat);
            return Err(refused(&why));
        }
        let place = state_dir.join(SEEN);
        let own = Seen {
            iat: list.iat,
            sha256: strict::sha256(&text),
        };
        match Seen::read(&place)? {
            Some(seen) if seen.iat > own.iat => {
                let why = format!(
                    "the list is from {}, and one from {} was seen",
                    own.iat, seen.iat
                );
                Err(refused(&why))
            }
            Some(seen) if seen.iat == own.iat && seen.sha256 != own.sha256 => {
                let why = format!("another list from the same time, {}, was seen", own.iat);
                Err(refused(&why))
            }
            Some(seen) if seen.iat == own.iat => Ok(list),
            _ => {
                let text = serde_json::to_vec(&own)
                    .map_err(|error| Error::Damaged(format!("{}: {error}", place.display())))?;
                host_files::replace(&place, 0o600, &text)?;
                Ok(list)
            }
        }
    }
}

impl Seen {
    fn read(place: &Path) -> Result<Option<Seen>, Error> {
        let text = match host_files::read(place, 4096) {
            Ok(text) => text,
            Err(Error::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let seen = strict::read(&text, 4096);
        seen.map(Some).map_err(|why| {
            Error::refused(
                format!("{}: {why}", place.display()),
                "It says which list of revocations was seen last. Make sure that the configured list is the newest, then \
                 remove this file.",
            )
        })
    }
}
