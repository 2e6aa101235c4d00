//! The search for the policy in force ([`locate`]), and an operator's trust in a store's own ([`trust`], [`distrust`]).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::PolicyError;
use super::file::{self, PolicyText};
use super::load::PolicyReport;
use super::schema::Policy;
use super::trust::TrustRecords;
use trumanfs_types::error::{Error, Result};

/// The variable that names a policy.
const VARIABLE: &str = "TRUMANFS_POLICY";

/// The policy of a machine.
const SYSTEM: &str = "/etc/trumanfs/policy.yaml";

/// The name of a store's own policy.
const OF_STORE: &str = "policy.yaml";

/// The origin of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A policy that is shipped with this program, by this name.
    Shipped(String),
    /// A file that somebody named, or the machine's.
    File(PathBuf),
    /// The file of a store, which an operator has trusted.
    Store {
        /// The store.
        store: PathBuf,
        /// The file.
        file: PathBuf,
    },
}

impl PolicySource {
    /// Returns the file; nothing for a shipped policy.
    pub fn file(&self) -> Option<&Path> {
        match self {
            PolicySource::Shipped(_) => None,
            PolicySource::File(file) | PolicySource::Store { file, .. } => Some(file),
        }
    }
}

impl std::fmt::Display for PolicySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PolicySource::Shipped(name) => write!(f, "the shipped policy `{name}`"),
            PolicySource::File(file) | PolicySource::Store { file, .. } => {
                write!(f, "{}", file.display())
            }
        }
    }
}

/// The places in which policies are looked for, in this order.
#[derive(Debug, Clone)]
pub(super) struct PolicySearch<'s> {
    /// The value of `--policy`.
    pub(super) flag: Option<&'s Path>,
    /// The value of [`VARIABLE`].
    pub(super) variable: Option<OsString>,
    /// The machine's file.
    pub(super) system: PathBuf,
    /// The store.
    pub(super) store: Option<&'s Path>,
    /// The user's trust records; `None` if there is no place for records.
    pub(super) trust: Option<TrustRecords>,
}

/// A policy that was found, and the text that it was read from.
pub(super) struct LocatedPolicy {
    pub(super) source: PolicySource,
    pub(super) policy: Policy,
    pub(super) text: Option<PolicyText>,
}

/// Finds the policy that is in force: what `--policy` names, then what `TRUMANFS_POLICY` names, then
/// `/etc/trumanfs/policy.yaml`, then a `policy.yaml` in the store that an operator has trusted as it is.
///
/// A name without a slash that a shipped policy has means that one. The first that is there counts: a broken one is an
/// error, and nothing else is looked for.
///
/// # Errors
/// The policy is broken, or there is none.
pub fn locate(flag: Option<&Path>, store: Option<&Path>) -> Result<(PolicySource, Policy)> {
    let search = PolicySearch::of_process(flag, store);
    let found = search.find()?;
    Ok((found.source, found.policy))
}

/// Finds every policy of this process and this machine, the one that is in force first, sound or not; nothing of stores.
pub fn of_machine() -> Vec<(String, Result<Policy>)> {
    PolicySearch::of_process(None, None).all()
}

impl<'s> PolicySearch<'s> {
    /// Finds every policy that is not a store's, the one that is in force first: what each is called, and itself.
    pub(super) fn all(&self) -> Vec<(String, Result<Policy>)> {
        let named = self.variable.as_deref().map(Path::new);
        let named = named.map(|name| {
            let called = format!("{} ({VARIABLE})", name.display());
            (called, by_name(name).map(|found| found.policy))
        });
        let system = match file::read_if_there(&self.system) {
            Ok(None) => None,
            Ok(Some(text)) => Some(sound(PolicySource::File(self.system.clone()), text)),
            Err(error) => Some(Err(broken(error))),
        };
        let system = system.map(|found| {
            let called = self.system.display().to_string();
            (called, found.map(|found| found.policy))
        });
        named.into_iter().chain(system).collect()
    }

    /// Returns where this process looks.
    pub(super) fn of_process(flag: Option<&'s Path>, store: Option<&'s Path>) -> PolicySearch<'s> {
        PolicySearch {
            flag,
            variable: std::env::var_os(VARIABLE).filter(|value| !value.is_empty()),
            system: PathBuf::from(SYSTEM),
            store,
            trust: TrustRecords::of_user().ok(),
        }
    }

    /// Finds the policy that is in force.
    pub(super) fn find(&self) -> Result<LocatedPolicy> {
        let named = self.flag.or(self.variable.as_deref().map(Path::new));
        if let Some(name) = named {
            return by_name(name);
        }
        if let Some(text) = file::read_if_there(&self.system).map_err(broken)? {
            return sound(PolicySource::File(self.system.clone()), text);
        }
        match self.store {
            Some(store) => self.of_store(store),
            None => Err(none(String::new())),
        }
    }

    fn of_store(&self, store: &Path) -> Result<LocatedPolicy> {
        let (store, text) = own_policy(store)?;
        let file = store.join(OF_STORE);
        let Some(text) = text else {
            return Err(none(String::new()));
        };
        let trusted = self.trust.as_ref().and_then(|trust| trust.find(&store));
        match trusted {
            Some(digest) if digest == text.digest() => {
                sound(PolicySource::Store { store, file }, text)
            }
            Some(_) => Err(none(format!(
                "{} has changed since it was trusted",
                file.display()
            ))),
            None => Err(none(format!(
                "{} counts only once it is trusted",
                file.display()
            ))),
        }
    }
}

/// Returns a store's real path, and its own policy where it has one.
fn own_policy(store: &Path) -> Result<(PathBuf, Option<PolicyText>)> {
    let real = store.canonicalize().map_err(|error| {
        let what = format!(
            "{}: {}",
            store.display(),
            trumanfs_types::error::reason(&error)
        );
        Error::Missing {
            what,
            remedy: "Give a store or a home.".to_owned(),
        }
    })?;
    let text = file::read_if_there(&real.join(OF_STORE)).map_err(broken)?;
    Ok((real, text))
}

fn by_name(name: &Path) -> Result<LocatedPolicy> {
    let shipped = name
        .to_str()
        .and_then(|name| Some((name, Policy::shipped_as(name)?)));
    if let Some((name, policy)) = shipped {
        return Ok(LocatedPolicy {
            source: PolicySource::Shipped(name.to_owned()),
            policy,
            text: None,
        });
    }
    sound(
        PolicySource::File(name.to_owned()),
        file::read(name).map_err(broken)?,
    )
}

fn sound(source: PolicySource, text: PolicyText) -> Result<LocatedPolicy> {
    let name = source.to_string();
    let examined = Policy::examine(&text.bytes, &name);
    match examined.policy {
        Some(policy) => Ok(LocatedPolicy {
            source,
            policy,
            text: Some(text),
        }),
        None => Err(problems(&examined)),
    }
}

/// The error of a policy with problems: all of them.
pub(super) fn problems(examined: &PolicyReport) -> Error {
    let all: Vec<String> = examined.problems.iter().map(ToString::to_string).collect();
    Error::usage(
        all.join("\n"),
        "Mend the policy; nothing runs by a broken one.",
    )
}

fn broken(problem: PolicyError) -> Error {
    Error::usage(
        problem.to_string(),
        "Mend the policy; nothing runs by a broken one.",
    )
}

fn none(why: String) -> Error {
    let what = match why.is_empty() {
        true => format!(
            "there is no policy: neither --policy nor {VARIABLE} names one, and {SYSTEM} is not there"
        ),
        false => format!("there is no policy: {why}"),
    };
    let remedy = "Name one: `--policy default` is the shipped one, `--policy FILE` your own. What a store brings along counts after `trumanfs policy trust STORE`.";
    Error::usage(what, remedy)
}

/// A store's own policy that an operator has just trusted.
#[derive(Debug, Clone)]
pub struct TrustedPolicy {
    /// The file.
    pub file: PathBuf,
    /// The SHA-256 of its text, in hexadecimal digits.
    pub digest: String,
    /// The policy that the file contains.
    pub policy: Policy,
}

/// Trusts a store's own policy as it is now. A broken one is not trusted.
///
/// # Errors
/// The store has none, it is broken, or the record cannot be written.
pub fn trust(store: &Path) -> Result<TrustedPolicy> {
    trust_by(&TrustRecords::of_user()?, store)
}

pub(super) fn trust_by(trust: &TrustRecords, store: &Path) -> Result<TrustedPolicy> {
    let (real, text) = own_policy(store)?;
    let file = real.join(OF_STORE);
    let Some(text) = text else {
        return Err(Error::Missing {
            what: format!("{}: there is no such file", file.display()),
            remedy: "A store's own policy is the file policy.yaml in its root.".to_owned(),
        });
    };
    let digest = text.digest();
    let found = sound(
        PolicySource::Store {
            store: real.clone(),
            file: file.clone(),
        },
        text,
    )?;
    trust.record(&real, &digest)?;
    Ok(TrustedPolicy {
        file,
        digest,
        policy: found.policy,
    })
}

/// Forgets that a store's own policy is trusted. Returns whether it was.
///
/// # Errors
/// The record cannot be removed.
pub fn distrust(store: &Path) -> Result<bool> {
    let real = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    TrustRecords::of_user()?.forget(&real)
}
