//! Leases that count no more, although their time is not over: a list, signed by a kernel key.
//!
//! A list that cannot be read, is signed by nobody who counts, or is older than one seen before, is an error of the
//! configuration: without it nothing is carried out.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, PayloadType};
use super::key::{PrivateKey, PublicKey};
use super::quota::MAX_NUMBER;
use super::strict::{self, FormatError};
use super::trust::TrustedKeys;
use super::{clock, host_files};
use crate::error::Error;

/// The file in the state directory that remembers the newest list.
const SEEN: &str = "revocations-seen.json";

/// The time that a new list waits for the clock to pass the time of the one before.
const CLOCK_WAIT_LIMIT: Duration = Duration::from_secs(2);

/// The remedy, for an operator, of a list that does not count.
const REMEDY: &str = "Nothing is carried out without the list. A kernel key that is trusted now has to sign it: \
                      `trumanfs lease revoke --key K --revocations FILE …`.";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevocationsWire {
    v: u64,
    iss: String,
    iat: u64,
    lease_ids: BTreeSet<String>,
}

/// A list of revoked leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevocationList {
    /// The maker of the list, for people.
    pub iss: String,
    /// The time at which the list was made (Unix seconds): each list has a later time than the one before.
    pub iat: u64,
    /// The ids of the leases.
    pub lease_ids: BTreeSet<String>,
}

/// The newest list that was seen.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenList {
    iat: u64,
    sha256: String,
}

impl RevocationList {
    /// Returns whether a lease is revoked.
    pub fn has(&self, lease_id: &str) -> bool {
        self.lease_ids.contains(lease_id)
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// It is not as `docs/TASKS.md` says.
    pub fn parse(payload: &[u8]) -> Result<RevocationList, FormatError> {
        let wire: RevocationsWire = strict::read(payload, PayloadType::Revocations.limit())?;
        strict::check_version(wire.v)?;
        let revocations = RevocationList {
            iss: wire.iss,
            iat: wire.iat,
            lease_ids: wire.lease_ids,
        };
        revocations.check()?;
        Ok(revocations)
    }

    fn check(&self) -> Result<(), FormatError> {
        strict::check_id("iss", &self.iss)?;
        if self.iat > MAX_NUMBER {
            return Err(FormatError::new("iat is no time"));
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
    ) -> Result<RevocationList, FormatError> {
        let envelope = Envelope::parse(text)?;
        if envelope.verify(PayloadType::Revocations, keys).is_none() {
            return Err(FormatError::new(
                "no kernel key that is trusted now has signed this as a list of revocations",
            ));
        }
        RevocationList::parse(&envelope.payload)
    }

    /// Signs the list as a kernel.
    ///
    /// # Errors
    /// A member is out of its bounds, or the list is longer than one may be.
    pub fn sign(&self, key: &PrivateKey) -> Result<Envelope, FormatError> {
        self.check()?;
        let wire = RevocationsWire {
            v: 1,
            iss: self.iss.clone(),
            iat: self.iat,
            lease_ids: self.lease_ids.clone(),
        };
        let payload =
            serde_json::to_vec(&wire).map_err(|error| FormatError::new(error.to_string()))?;
        let envelope = Envelope::sign(PayloadType::Revocations, payload, key);
        let (length, limit) = (envelope.to_text().len(), PayloadType::Revocations.limit());
        match length > limit {
            true => Err(FormatError::new(format!(
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
        trust: &TrustedKeys,
        now: u64,
        skew_s: u64,
        state_dir: &Path,
    ) -> Result<RevocationList, Error> {
        let Some(file) = file else {
            return Ok(RevocationList::default());
        };
        let refused = |why: &dyn std::fmt::Display| {
            Error::refused(format!("{}: {why}", file.display()), REMEDY)
        };
        let text = host_files::read(file, PayloadType::Revocations.limit())?;
        let list =
            RevocationList::verify(&text, trust.kernel_keys(now)).map_err(|why| refused(&why))?;
        if list.iat > now.saturating_add(skew_s) {
            let why = format!("the list is from {}, and it is {now}", list.iat);
            return Err(refused(&why));
        }
        let place = state_dir.join(SEEN);
        let own = SeenList {
            iat: list.iat,
            sha256: strict::sha256(&text),
        };
        match SeenList::read(&place)? {
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

/// Forgets the newest list that was seen, where it is from a later time than now: a clock that was ahead had it seen.
///
/// # Errors
/// What was seen cannot be read or removed.
pub(super) fn forget_later(state_dir: &Path, now: u64) -> Result<(), Error> {
    let place = state_dir.join(SEEN);
    if SeenList::read(&place)?.is_some_and(|seen| seen.iat > now) {
        host_files::remove(&place);
    }
    Ok(())
}

/// Adds leases to the list in a file, or begins one, and puts it in the file's place in one step. Each list is from a
/// later time than the one before, and whoever else revokes at the same time waits. A list that is there must be signed
/// by this key or, where there is `trust`, by a kernel key that counts now: nobody's forgery is signed on.
///
/// # Errors
/// The list that is there is not so, an id is none, or the file cannot be replaced; it is then as it was.
pub fn revoke(
    file: &Path,
    key: &PrivateKey,
    trust: Option<&TrustedKeys>,
    iss: Option<&str>,
    lease_ids: &[String],
) -> Result<RevocationList, Error> {
    let _lock = host_files::lock_directory_of(file)?;
    let mut now = clock::now();
    let old = match host_files::read(file, PayloadType::Revocations.limit()) {
        Ok(text) => {
            let trusted = trust.into_iter().flat_map(|trust| trust.kernel_keys(now));
            let keys = trusted.chain([key.public()]);
            let list = RevocationList::verify(&text, keys).map_err(|why| {
                Error::refused(
                    format!("{}: {why}", file.display()),
                    "Name the keys that may have signed it with --trust, or move it away and name every lease anew.",
                )
            })?;
            Some(list)
        }
        Err(Error::Missing { .. }) => None,
        Err(error) => return Err(error),
    };
    let iss = iss.map(str::to_owned);
    if let Some(old) = &old {
        now = later_than(old.iat);
    }
    let mut list = match old {
        Some(old) => RevocationList {
            iss: iss.unwrap_or(old.iss),
            iat: now.max(old.iat.saturating_add(1)),
            lease_ids: old.lease_ids,
        },
        None => RevocationList {
            iss: iss.unwrap_or_else(|| key.keyid().to_owned()),
            iat: now,
            lease_ids: BTreeSet::new(),
        },
    };
    list.lease_ids.extend(lease_ids.iter().cloned());
    let signed = list.sign(key).map_err(|why| {
        Error::usage(
            why.to_string(),
            "A lease's id is in its payload, as `lease_id`.",
        )
    })?;
    host_files::replace(file, 0o644, format!("{}\n", signed.to_text()).as_bytes())?;
    Ok(list)
}

/// Waits until it is later than a time, so that many lists one after the other do not run ahead of the clock: executors take none
/// that is later than now. Whoever made a list with a clock that was ahead is not waited for.
fn later_than(time: u64) -> u64 {
    let end = Instant::now() + CLOCK_WAIT_LIMIT;
    loop {
        let now = clock::now();
        let is_near = time.saturating_sub(now) <= CLOCK_WAIT_LIMIT.as_secs();
        if now > time || !is_near || Instant::now() > end {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl SeenList {
    fn read(place: &Path) -> Result<Option<SeenList>, Error> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use std::fs;

    use serde_json::json;

    use super::super::trust::{SignerRole, TrustEntry};

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from_seed(&[seed; 32])
    }

    /// Trusts kernel 1 from 100 to 1000, and executor 2.
    fn trust() -> TrustedKeys {
        let (kernel, executor) = (key(1), key(2));
        let keys = [
            TrustEntry::new(kernel.public(), SignerRole::Kernel, 100, 1000),
            TrustEntry::new(executor.public(), SignerRole::Executor, 100, 1000),
        ];
        TrustedKeys::parse(json!({ "v": 1, "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn list(iat: u64, ids: &[&str]) -> RevocationList {
        RevocationList {
            iss: "planner".to_owned(),
            iat,
            lease_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("state")).unwrap();
            Place { dir }
        }

        fn file(&self) -> std::path::PathBuf {
            self.dir.path().join("revoked.json")
        }

        fn put(&self, text: &str) {
            fs::write(self.file(), text).unwrap();
        }

        fn load(&self, now: u64) -> Result<RevocationList, Error> {
            RevocationList::load(
                Some(&self.file()),
                &trust(),
                now,
                30,
                &self.dir.path().join("state"),
            )
        }
    }

    #[test]
    fn a_list_that_does_not_count_is_an_error() {
        let place = Place::new();
        assert_eq!(
            place.load(500).unwrap_err().kind(),
            crate::error::FailureKind::Missing
        );
        let good = list(500, &["a", "b"]).sign(&key(1)).unwrap().to_text();
        place.put(&good);
        assert_eq!(place.load(500).unwrap(), list(500, &["a", "b"]));
        let payload = Envelope::parse(good.as_bytes()).unwrap().payload;
        for (what, text) in [
            ("empty", String::new()),
            ("torn", good[..good.len() / 2].to_owned()),
            ("not signed", String::from_utf8(payload.clone()).unwrap()),
            ("by nobody", list(501, &[]).sign(&key(3)).unwrap().to_text()),
            (
                "by an executor",
                list(501, &[]).sign(&key(2)).unwrap().to_text(),
            ),
            (
                "a lease",
                Envelope::sign(PayloadType::Lease, payload, &key(1)).to_text(),
            ),
            (
                "from the future",
                list(531, &[]).sign(&key(1)).unwrap().to_text(),
            ),
        ] {
            place.put(&text);
            let error = place.load(500).unwrap_err();
            assert!(
                error.full_message().contains("revoked.json"),
                "{what}: {error}"
            );
        }
        place.put(&good);
        assert!(place.load(500).is_ok());
        // The key's time is over, or has not begun.
        assert!(place.load(1000).is_err());
        let none = RevocationList::load(None, &trust(), 500, 30, place.dir.path()).unwrap();
        assert_eq!(none, RevocationList::default());
    }

    /// Executors take no list that is later than now.
    #[test]
    fn many_lists_one_after_the_other_do_not_run_ahead_of_the_clock() {
        let place = Place::new();
        let mut last = 0;
        for id in ["a", "b", "c"] {
            let list = revoke(&place.file(), &key(1), None, None, &[id.to_owned()]).unwrap();
            assert!(list.iat > last && list.iat <= clock::now(), "{}", list.iat);
            last = list.iat;
        }
    }

    #[test]
    fn an_older_list_or_another_one_of_the_same_time_does_not_come_back() {
        let place = Place::new();
        let signed = |iat, ids: &[&str]| list(iat, ids).sign(&key(1)).unwrap().to_text();
        for (iat, ids, counts) in [
            (500, &["a"][..], true),
            (500, &["a"], true),
            (500, &[], false),
            (499, &["a"], false),
            (501, &["a", "b"], true),
            (500, &["a"], false),
            (501, &["a", "b"], true),
        ] {
            place.put(&signed(iat, ids));
            assert_eq!(place.load(600).is_ok(), counts, "{iat} {ids:?}");
        }
        // What was seen cannot be read: nobody knows whether this is the newest.
        place.put(&signed(502, &[]));
        fs::write(place.dir.path().join("state").join(SEEN), "{}").unwrap();
        assert!(place.load(600).unwrap_err().full_message().contains(SEEN));
    }

    #[test]
    fn a_list_is_strict() {
        let good = json!({ "v": 1, "iss": "planner", "iat": 1, "lease_ids": ["a"] });
        let parse = |value: &serde_json::Value| RevocationList::parse(value.to_string().as_bytes());
        assert_eq!(parse(&good), Ok(list(1, &["a"])));
        for member in ["v", "iss", "iat", "lease_ids"] {
            let mut stripped = good.clone();
            stripped.as_object_mut().unwrap().remove(member);
            assert!(parse(&stripped).is_err(), "{member}");
        }
        for (member, bad) in [
            ("v", json!(0)),
            ("iss", json!("")),
            ("iat", json!("1")),
            ("iat", json!(MAX_NUMBER + 1)),
            ("lease_ids", json!("a")),
            ("lease_ids", json!([""])),
            ("lease_ids", json!([1])),
            ("more", json!(1)),
        ] {
            let mut changed = good.clone();
            changed[member] = bad.clone();
            assert!(parse(&changed).is_err(), "{member}: {bad}");
        }
    }

    #[test]
    fn a_list_grows_and_nobodys_forgery_is_signed_on() {
        let place = Place::new();
        let add = |seed: u8, ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            revoke(&place.file(), &key(seed), None, None, &ids)
        };
        let first = add(1, &["a"]).unwrap();
        assert_eq!(first.iss, key(1).keyid());
        let second = add(1, &["b", "a"]).unwrap();
        assert!(
            second.iat > first.iat,
            "each list is later than the one before"
        );
        assert_eq!(second.lease_ids.len(), 2);
        let before = fs::read(place.file()).unwrap();
        assert!(
            add(2, &["c"]).is_err(),
            "another key signs on what it does not know"
        );
        assert!(add(1, &["not an id"]).is_err());
        place.put("{}");
        assert!(add(1, &["c"]).is_err());
        place.put(&String::from_utf8(before).unwrap());
        // With trust, a new kernel key goes on with the list of the old one.
        let now = clock::now();
        let old = key(1);
        let keys = [TrustEntry::new(
            old.public(),
            SignerRole::Kernel,
            0,
            now + 1000,
        )];
        let trust =
            TrustedKeys::parse(json!({ "v": 1, "keys": keys }).to_string().as_bytes()).unwrap();
        let third = revoke(
            &place.file(),
            &key(2),
            Some(&trust),
            Some("new"),
            &["c".to_owned()],
        )
        .unwrap();
        assert_eq!((third.iss.as_str(), third.lease_ids.len()), ("new", 3));
        let names = fs::read_dir(place.dir.path()).unwrap().count();
        assert_eq!(names, 2, "the list and the state directory");
    }

    #[test]
    fn two_who_revoke_at_once_lose_nothing() {
        let place = Place::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let file = place.file();
                scope.spawn(move || {
                    for number in 0..5 {
                        revoke(&file, &key(1), None, None, &[format!("{thread}-{number}")])
                            .unwrap();
                    }
                });
            }
        });
        let text = fs::read(place.file()).unwrap();
        let list = RevocationList::verify(&text, [key(1).public()]).unwrap();
        assert_eq!(list.lease_ids.len(), 20);
    }
}
