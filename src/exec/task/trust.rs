//! The trusted keys: `trust.json`, the public keys of kernels and executors, each with its role and the time in which
//! it counts.
//!
//! `active` keys may sign. A `retired` one signs no more: no lease of a retired kernel key counts, while results that a
//! retired executor key signed in its time stay valid. A key that somebody else may have is taken out of the file, not
//! retired, for its holder can write any time into a result.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::host_files;
use super::key::PublicKey;
use super::strict::{self, FormatError};
use crate::error::Error;

/// The maximum length of a trust file, in bytes.
const MAX_TRUST_BYTES: usize = 256 << 10;

/// The largest number of keys in a trust file.
const MOST_KEYS: usize = 256;

/// The role of a key: the purpose of its signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum SignerRole {
    /// The key signs leases and lists of revoked ones.
    Kernel,
    /// The key signs results.
    Executor,
}

impl From<SignerRole> for &'static str {
    fn from(role: SignerRole) -> &'static str {
        match role {
            SignerRole::Kernel => "kernel",
            SignerRole::Executor => "executor",
        }
    }
}

impl TryFrom<String> for SignerRole {
    type Error = FormatError;

    fn try_from(text: String) -> Result<SignerRole, FormatError> {
        match text.as_str() {
            "kernel" => Ok(SignerRole::Kernel),
            "executor" => Ok(SignerRole::Executor),
            _ => Err(FormatError::new(format!(
                "role {text:?} is neither kernel nor executor"
            ))),
        }
    }
}

/// The state of a key, which decides if the key may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum KeyState {
    /// The key may sign.
    Active,
    /// The key signs no more; what it signed as an executor stays valid.
    Retired,
}

impl From<KeyState> for &'static str {
    fn from(state: KeyState) -> &'static str {
        match state {
            KeyState::Active => "active",
            KeyState::Retired => "retired",
        }
    }
}

impl TryFrom<String> for KeyState {
    type Error = FormatError;

    fn try_from(text: String) -> Result<KeyState, FormatError> {
        match text.as_str() {
            "active" => Ok(KeyState::Active),
            "retired" => Ok(KeyState::Retired),
            _ => Err(FormatError::new(format!(
                "state {text:?} is neither active nor retired"
            ))),
        }
    }
}

/// An entry of the file, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustEntry {
    /// The SHA-256 of the key's 32 bytes.
    pub keyid: String,
    /// The role of the key: the purpose of its signatures.
    pub role: SignerRole,
    /// The key, as SPKI in PEM.
    pub public_key: String,
    /// The first second in which it counts (Unix).
    pub not_before: u64,
    /// The first second in which it counts no more (Unix).
    pub not_after: u64,
    /// The state of the key: `active` if it may sign.
    pub state: KeyState,
}

impl TrustEntry {
    /// Returns the entry of a key that may sign in this time.
    pub fn new(key: &PublicKey, role: SignerRole, not_before: u64, not_after: u64) -> TrustEntry {
        TrustEntry {
            keyid: key.keyid().to_owned(),
            role,
            public_key: key.to_pem(),
            not_before,
            not_after,
            state: KeyState::Active,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    v: u64,
    #[serde(deserialize_with = "strict::objects")]
    keys: Vec<TrustEntry>,
}

/// A trusted key.
#[derive(Debug, Clone)]
pub struct TrustedKey {
    /// The key.
    pub key: PublicKey,
    /// The role of the key: the purpose of its signatures.
    pub role: SignerRole,
    /// The state of the key: [`KeyState::Active`] if it may sign.
    pub state: KeyState,
    not_before: u64,
    not_after: u64,
}

impl TrustedKey {
    /// Returns whether a time lies in the key's.
    pub fn is_valid_at(&self, time: u64) -> bool {
        (self.not_before..self.not_after).contains(&time)
    }
}

/// The trusted keys.
#[derive(Debug, Clone)]
pub struct TrustedKeys {
    keys: Vec<TrustedKey>,
}

impl TrustedKeys {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// It is not as `docs/TASKS.md` says, an id does not fit its key, or a key stands twice.
    pub fn parse(text: &[u8]) -> Result<TrustedKeys, FormatError> {
        let wire: TrustFile = strict::read(text, MAX_TRUST_BYTES)?;
        strict::check_version(wire.v)?;
        if wire.keys.len() > MOST_KEYS {
            let count = wire.keys.len();
            return Err(FormatError::new(format!(
                "{count} keys, more than {MOST_KEYS}"
            )));
        }
        let mut keys: Vec<TrustedKey> = Vec::with_capacity(wire.keys.len());
        for (index, entry) in wire.keys.into_iter().enumerate() {
            let number = format!("keys[{index}]");
            let key = PublicKey::from_pem(&entry.public_key).map_err(|why| why.of(&number))?;
            if key.keyid() != entry.keyid {
                return Err(FormatError::new(format!(
                    "keyid {:?} is not of this key, whose id is {}",
                    entry.keyid,
                    key.keyid()
                ))
                .of(&number));
            }
            if keys.iter().any(|known| known.key == key) {
                return Err(FormatError::new("the key stands twice").of(&number));
            }
            if entry.not_before >= entry.not_after {
                return Err(FormatError::new("not_after is not after not_before").of(&number));
            }
            keys.push(TrustedKey {
                key,
                role: entry.role,
                state: entry.state,
                not_before: entry.not_before,
                not_after: entry.not_after,
            });
        }
        Ok(TrustedKeys { keys })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or [`TrustedKeys::parse`] does not accept it.
    pub fn load(path: &Path) -> Result<TrustedKeys, Error> {
        let text = host_files::read(path, MAX_TRUST_BYTES)?;
        TrustedKeys::parse(&text).map_err(|why| {
            Error::refused(
                format!("{}: {why}", path.display()),
                "`trumanfs key new` prints the entry of a key.",
            )
        })
    }

    /// Returns the keys that may sign leases now.
    pub fn kernel_keys(&self, now: u64) -> impl Iterator<Item = &PublicKey> {
        let counts = move |key: &&TrustedKey| {
            key.role == SignerRole::Kernel && key.state == KeyState::Active && key.is_valid_at(now)
        };
        self.keys.iter().filter(counts).map(|key| &key.key)
    }

    /// Returns the keys of executors, also those that sign no more: whether a result is valid depends on its time
    /// ([`TrustedKeys::executor_key_counts_at`]).
    pub fn executor_keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys
            .iter()
            .filter(|key| key.role == SignerRole::Executor)
            .map(|key| &key.key)
    }

    /// Returns why this key may not sign the result of a task that is under way between these times; `None` where it may.
    pub fn why_not_signed(&self, key: &PublicKey, from: u64, until: u64) -> Option<String> {
        let known = self.keys.iter().find(|known| known.key == *key);
        match known.filter(|known| known.role == SignerRole::Executor) {
            None => Some("it is no executor's key".to_owned()),
            Some(known) if known.state == KeyState::Retired => {
                Some("the key is retired".to_owned())
            }
            Some(known) if from < known.not_before => Some(format!(
                "the key counts from {} on, and it is {from}",
                known.not_before
            )),
            Some(known) if !known.is_valid_at(until) => Some(format!(
                "the key counts until {}, and a task that begins now may last until {until}",
                known.not_after
            )),
            Some(_) => None,
        }
    }

    /// Returns whether a result that this executor key has signed is valid, where it was finished then.
    pub fn executor_key_counts_at(&self, key: &PublicKey, finished_at: u64) -> bool {
        let mut own = self.keys.iter().filter(|known| known.key == *key);
        own.any(|known| known.role == SignerRole::Executor && known.is_valid_at(finished_at))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use super::super::key::PrivateKey;

    fn entry(seed: u8, role: SignerRole) -> Value {
        let key = PrivateKey::from_seed(&[seed; 32]);
        serde_json::to_value(TrustEntry::new(key.public(), role, 100, 200)).unwrap()
    }

    fn parse(keys: Value) -> Result<TrustedKeys, FormatError> {
        TrustedKeys::parse(json!({ "v": 1, "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_kernel_key_counts_while_it_is_active_and_in_its_time() {
        let mut retired = entry(2, SignerRole::Kernel);
        retired["state"] = json!("retired");
        let trust = parse(json!([
            entry(1, SignerRole::Kernel),
            retired,
            entry(3, SignerRole::Executor)
        ]))
        .unwrap();
        for (now, count) in [(0, 0), (99, 0), (100, 1), (199, 1), (200, 0), (u64::MAX, 0)] {
            assert_eq!(trust.kernel_keys(now).count(), count, "{now}");
        }
        let own = PrivateKey::from_seed(&[1; 32]);
        assert_eq!(trust.kernel_keys(150).next(), Some(own.public()));
    }

    #[test]
    fn an_executor_key_counts_for_what_was_finished_in_its_time_also_when_retired() {
        let mut retired = entry(2, SignerRole::Executor);
        retired["state"] = json!("retired");
        let trust = parse(json!([entry(1, SignerRole::Kernel), retired])).unwrap();
        let [kernel, executor] = [1, 2].map(|seed| PrivateKey::from_seed(&[seed; 32]));
        assert_eq!(
            trust.executor_keys().collect::<Vec<_>>(),
            [executor.public()]
        );
        for (time, counts) in [(99, false), (100, true), (199, true), (200, false)] {
            assert_eq!(
                trust.executor_key_counts_at(executor.public(), time),
                counts,
                "{time}"
            );
            assert!(!trust.executor_key_counts_at(kernel.public(), time));
        }
    }

    #[test]
    fn a_list_of_keys_is_strict() {
        assert!(parse(json!([])).is_ok());
        let good = entry(1, SignerRole::Kernel);
        let with = |member: &str, value: Value| {
            let mut entry = good.clone();
            entry[member] = value;
            entry
        };
        let without = |member: &str| {
            let mut entry = good.clone();
            entry.as_object_mut().unwrap().remove(member);
            entry
        };
        let other = entry(2, SignerRole::Kernel);
        for (what, keys) in [
            (
                "keyid of another",
                json!([with("keyid", other["keyid"].clone())]),
            ),
            (
                "keyid in capitals",
                json!([with(
                    "keyid",
                    json!(good["keyid"].as_str().unwrap().to_uppercase())
                )]),
            ),
            (
                "key of another",
                json!([with("public_key", other["public_key"].clone())]),
            ),
            ("no key", json!([with("public_key", json!("x"))])),
            ("role", json!([with("role", json!("admin"))])),
            (
                "role as object",
                json!([with("role", json!({"kernel": null}))]),
            ),
            ("state", json!([with("state", json!("Active"))])),
            ("time", json!([with("not_before", json!("100"))])),
            ("negative", json!([with("not_before", json!(-1))])),
            ("no time", json!([with("not_after", json!(100))])),
            ("null", json!([with("not_after", json!(null))])),
            ("unknown", json!([with("x", json!(1))])),
            ("twice", json!([good, good])),
            ("both roles", json!([good, entry(1, SignerRole::Executor)])),
            ("array", json!([[1, 2, 3, 4, 5, 6]])),
            ("object", json!({})),
        ] {
            assert!(parse(keys).is_err(), "{what}");
        }
        for member in [
            "keyid",
            "role",
            "public_key",
            "not_before",
            "not_after",
            "state",
        ] {
            assert!(parse(json!([without(member)])).is_err(), "{member}");
        }
        for text in [
            r#"{"keys":[]}"#,
            r#"{"v":2,"keys":[]}"#,
            r#"{"v":1}"#,
            r#"{"v":1,"keys":[],"x":0}"#,
            "[1,[]]",
        ] {
            assert!(TrustedKeys::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
