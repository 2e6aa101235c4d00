//! Results: what came of a task, signed by the executor. Failures are signed too.
//!
//! Owns the bytes that are signed: members in a fixed order, so that the same result always has the same bytes.

use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, PayloadType};
use super::failure::Failure;
use super::key::{PrivateKey, PublicKey};
use super::manifest::Capability;
use super::path::AbsolutePath;
use super::quota::LARGEST;
use super::strict::{self, Malformed};
use super::trust::Trust;

/// The `prev` of the first result of a log.
pub const NO_PREV: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was done.
    Success(Output),
    /// It was not, and nothing half done is left.
    Failed(Failure),
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The task; empty where it could not be read.
    pub task_id: String,
    /// The capability; empty where it could not be read.
    pub capability_id: String,
    /// How it ended.
    pub ending: Ending,
    /// Who carried it out: the configured audience.
    pub executor: String,
    /// When it began (Unix seconds).
    pub started_at: u64,
    /// When it ended (Unix seconds).
    pub finished_at: u64,
    /// The SHA-256 of the manifest's bytes, or of the result to undo; empty where they could not be read.
    pub manifest_sha256: String,
    /// The lease; empty where it could not be read.
    pub lease_id: String,
    /// The SHA-256 of the payload of the result before; [`NO_PREV`] for the first.
    pub prev: String,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The task.
    pub task_id: String,
    /// The capability.
    pub capability_id: String,
    /// Which file.
    #[serde(deserialize_with = "strict::object")]
    pub result_summary: Summary,
    /// How it can be taken back.
    #[serde(deserialize_with = "strict::object")]
    pub undo_metadata: UndoMetadata,
}

/// The file that something was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Its path.
    pub source: AbsolutePath,
    /// Its new path, or the copy's; `null` where there is none.
    #[serde(deserialize_with = "strict::nullable")]
    pub destination: Option<AbsolutePath>,
    /// The SHA-256 of its content.
    pub sha256: String,
    /// Its length, in bytes.
    pub size: u64,
}

/// What an undo needs to know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoMetadata {
    /// Of a move: where the file was.
    #[serde(
        default,
        deserialize_with = "strict::if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub original_path: Option<AbsolutePath>,
    /// Of a removal: where the file is kept.
    #[serde(
        default,
        deserialize_with = "strict::object_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub recovery: Option<Recovery>,
    /// Of an undo: the task that it took back.
    #[serde(
        default,
        deserialize_with = "strict::if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub undoes: Option<String>,
}

/// Where a removed file is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// In what.
    pub kind: Keeper,
    /// The name of its entry there.
    pub entry: String,
    /// The SHA-256 of its content.
    pub sha256: String,
}

/// What keeps removed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Keeper {
    /// The trash of a home.
    Trash,
    /// The executor's own directory.
    Vault,
}

impl From<Keeper> for &'static str {
    fn from(keeper: Keeper) -> &'static str {
        match keeper {
            Keeper::Trash => "trash",
            Keeper::Vault => "vault",
        }
    }
}

impl TryFrom<String> for Keeper {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Keeper, Malformed> {
        match text.as_str() {
            "trash" => Ok(Keeper::Trash),
            "vault" => Ok(Keeper::Vault),
            _ => Err(Malformed::new(format!(
                "kind {text:?} is neither trash nor vault"
            ))),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u64,
    task_id: String,
    capability_id: String,
    status: String,
    #[serde(
        default,
        deserialize_with = "strict::object_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    output: Option<Output>,
    #[serde(
        default,
        deserialize_with = "strict::object_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    error: Option<Failure>,
    executor: String,
    started_at: u64,
    finished_at: u64,
    manifest_sha256: String,
    lease_id: String,
    prev: String,
}

impl TaskResult {
    /// Returns the word for how it ended.
    pub fn status(&self) -> &'static str {
        match self.ending {
            Ending::Success(_) => "SUCCESS",
            Ending::Failed(_) => "FAILURE",
        }
    }

    /// Returns the exact bytes to sign.
    ///
    /// # Errors
    /// A member is not as [`TaskResult::parse`] wants it.
    pub fn to_payload(&self) -> Result<Vec<u8>, Malformed> {
        self.check()?;
        let (output, error) = match &self.ending {
            Ending::Success(output) => (Some(output.clone()), None),
            Ending::Failed(failure) => (None, Some(failure.clone())),
        };
        let wire = Wire {
            v: 1,
            task_id: self.task_id.clone(),
            capability_id: self.capability_id.clone(),
            status: self.status().to_owned(),
            output,
            error,
            executor: self.executor.clone(),
            started_at: self.started_at,
            finished_at: self.finished_at,
            manifest_sha256: self.manifest_sha256.clone(),
            lease_id: self.lease_id.clone(),
            prev: self.prev.clone(),
        };
        serde_json::to_vec(&wire).map_err(|error| Malformed::new(error.to_string()))
    }

    /// Signs the result as an executor.
    ///
    /// # Errors
    /// As [`TaskResult::to_payload`].
    pub fn sign(&self, key: &PrivateKey) -> Result<Envelope, Malformed> {
        Ok(Envelope::sign(PayloadType::Result, self.to_payload()?, key))
    }

    /// Reads a payload. It says nothing of who signed it: [`TaskResult::verify`] does.
    ///
    /// # Errors
    /// It is not as `docs/TASKS.md` says.
    pub fn parse(payload: &[u8]) -> Result<TaskResult, Malformed> {
        let wire: Wire = strict::read(payload, PayloadType::Result.limit())?;
        strict::check_version(wire.v)?;
        let ending = match (wire.status.as_str(), wire.output, wire.error) {
            ("SUCCESS", Some(output), None) => Ending::Success(output),
            ("FAILURE", None, Some(failure)) => Ending::Failed(failure),
            ("SUCCESS" | "FAILURE", ..) => {
                return Err(Malformed::new(
                    "SUCCESS has an output and no error, FAILURE the other way round",
                ));
            }
            (other, ..) => {
                return Err(Malformed::new(format!(
                    "status {other:?} is neither SUCCESS nor FAILURE"
                )));
            }
        };
        let result = TaskResult {
            task_id: wire.task_id,
            capability_id: wire.capability_id,
            ending,
            executor: wire.executor,
            started_at: wire.started_at,
            finished_at: wire.finished_at,
            manifest_sha256: wire.manifest_sha256,
            lease_id: wire.lease_id,
            prev: wire.prev,
        };
        result.check()?;
        Ok(result)
    }

    fn check(&self) -> Result<(), Malformed> {
        strict::check_id("executor", &self.executor)?;
        strict::check_sha256("prev", &self.prev)?;
        for time in [self.started_at, self.finished_at] {
            if time > LARGEST {
                return Err(Malformed::new(format!("{time} is no time")));
            }
        }
        let ids = [
            ("task_id", &self.task_id),
            ("capability_id", &self.capability_id),
            ("lease_id", &self.lease_id),
        ];
        // What a failed task could not read is empty; of one that was done, everything is known.
        let Ending::Success(output) = &self.ending else {
            for (member, id) in ids.into_iter().filter(|(_, id)| !id.is_empty()) {
                strict::check_id(member, id)?;
            }
            return match self.manifest_sha256.is_empty() {
                true => Ok(()),
                false => strict::check_sha256("manifest_sha256", &self.manifest_sha256),
            };
        };
        for (member, id) in ids {
            strict::check_id(member, id)?;
        }
        strict::check_sha256("manifest_sha256", &self.manifest_sha256)?;
        if Capability::parse(&self.capability_id).is_none() {
            return Err(Malformed::new("a capability that there is not has SUCCESS"));
        }
        if output.task_id != self.task_id || output.capability_id != self.capability_id {
            return Err(Malformed::new(
                "the output is of another task or capability",
            ));
        }
        output.check()
    }

    /// Reads a result from its envelope, and returns whose it is.
    ///
    /// # Errors
    /// It is malformed, or none of these keys has signed it as a result.
    pub fn verify<'k>(
        text: &[u8],
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Result<(TaskResult, &'k PublicKey), Malformed> {
        let envelope = Envelope::parse(text)?;
        let Some(key) = envelope.verify(PayloadType::Result, keys) else {
            return Err(Malformed::new(
                "none of the executor keys has signed this as a result",
            ));
        };
        Ok((TaskResult::parse(&envelope.payload)?, key))
    }

    /// As [`TaskResult::verify`], by the trusted keys: also one that is retired, for a result that was finished in its
    /// time.
    ///
    /// # Errors
    /// As [`TaskResult::verify`], or it was finished outside the key's time.
    pub fn verify_by_trust<'k>(
        text: &[u8],
        trust: &'k Trust,
    ) -> Result<(TaskResult, &'k PublicKey), Malformed> {
        let (result, key) = TaskResult::verify(text, trust.executor_keys())?;
        match trust.executor_key_counts_at(key, result.finished_at) {
            true => Ok((result, key)),
            false => Err(Malformed::new(format!(
                "it was finished at {}, outside the time of its key",
                result.finished_at
            ))),
        }
    }
}

impl Output {
    fn check(&self) -> Result<(), Malformed> {
        strict::check_sha256("sha256", &self.result_summary.sha256)?;
        let undo = &self.undo_metadata;
        if let Some(undoes) = &undo.undoes {
            strict::check_id("undoes", undoes)?;
        }
        let Some(recovery) = &undo.recovery else {
            return Ok(());
        };
        if undo.original_path.is_some() {
            return Err(Malformed::new(
                "undo_metadata has both original_path and recovery",
            ));
        }
        let entry = &recovery.entry;
        if entry.is_empty() || entry.contains(['/', '\0']) || entry == "." || entry == ".." {
            return Err(Malformed::new("recovery.entry is no name"));
        }
        strict::check_sha256("recovery.sha256", &recovery.sha256)
    }
}
