//! Results: what came of a task, signed by the executor. Failures are signed too.
//!
//! Owns the bytes that are signed: members in a fixed order, so that the same result always has the same bytes.

use serde::{Deserialize, Serialize};

use super::absolute_path::AbsolutePath;
use super::envelope::{Envelope, PayloadType};
use super::failure::TaskFailure;
use super::key::{PrivateKey, PublicKey};
use super::manifest::Capability;
use super::quota::MAX_NUMBER;
use super::strict::{self, FormatError};
use super::trust::TrustedKeys;

/// The `prev` of the first result of a log.
pub const NO_PREV: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The task was done.
    Success(TaskOutput),
    /// The task was not done, and nothing half done is left.
    Failed(TaskFailure),
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The task; empty where it could not be read.
    pub task_id: String,
    /// The capability; empty where it could not be read.
    pub capability_id: String,
    /// The outcome of the task.
    pub ending: TaskOutcome,
    /// The executor that carried out the task: the configured audience.
    pub executor: String,
    /// The time at which the task began (Unix seconds).
    pub started_at: u64,
    /// The time at which the task ended (Unix seconds).
    pub finished_at: u64,
    /// The SHA-256 of the manifest's bytes, or of the result to undo; empty where they could not be read.
    pub manifest_sha256: String,
    /// The lease; empty where it could not be read.
    pub lease_id: String,
    /// The SHA-256 of the payload of the result before; [`NO_PREV`] for the first.
    pub prev: String,
}

/// The output of a task that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskOutput {
    /// The task.
    pub task_id: String,
    /// The capability.
    pub capability_id: String,
    /// Which file.
    #[serde(deserialize_with = "strict::object")]
    pub result_summary: ResultSummary,
    /// The data by which the task can be taken back.
    #[serde(deserialize_with = "strict::object")]
    pub undo_metadata: UndoMetadata,
}

/// The file that something was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultSummary {
    /// Its path.
    pub source: AbsolutePath,
    /// Its new path, or the copy's; `null` where there is none.
    #[serde(deserialize_with = "strict::nullable")]
    pub destination: Option<AbsolutePath>,
    /// The SHA-256 of its content; `null` where it was too long to be read, and was moved or removed.
    #[serde(deserialize_with = "strict::nullable")]
    pub sha256: Option<String>,
    /// Its length, in bytes.
    pub size: u64,
}

/// The data that an undo needs.
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
    pub recovery: Option<RecoveryMetadata>,
    /// Of an undo: the task that it took back.
    #[serde(
        default,
        deserialize_with = "strict::if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub undoes: Option<String>,
}

/// The place where a removed file is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryMetadata {
    /// In what.
    pub kind: RecoveryKind,
    /// The name of its entry there.
    pub entry: String,
    /// The SHA-256 of its content; `null` where it was too long to be read.
    #[serde(deserialize_with = "strict::nullable")]
    pub sha256: Option<String>,
}

/// The kind of place that keeps removed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum RecoveryKind {
    /// The trash of a home.
    Trash,
    /// The executor's own directory.
    Vault,
}

impl From<RecoveryKind> for &'static str {
    fn from(keeper: RecoveryKind) -> &'static str {
        match keeper {
            RecoveryKind::Trash => "trash",
            RecoveryKind::Vault => "vault",
        }
    }
}

impl TryFrom<String> for RecoveryKind {
    type Error = FormatError;

    fn try_from(text: String) -> Result<RecoveryKind, FormatError> {
        match text.as_str() {
            "trash" => Ok(RecoveryKind::Trash),
            "vault" => Ok(RecoveryKind::Vault),
            _ => Err(FormatError::new(format!(
                "kind {text:?} is neither trash nor vault"
            ))),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultWire {
    v: u64,
    task_id: String,
    capability_id: String,
    status: String,
    #[serde(
        default,
        deserialize_with = "strict::object_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    output: Option<TaskOutput>,
    #[serde(
        default,
        deserialize_with = "strict::object_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    error: Option<TaskFailure>,
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
            TaskOutcome::Success(_) => "SUCCESS",
            TaskOutcome::Failed(_) => "FAILURE",
        }
    }

    /// Returns the exact bytes to sign.
    ///
    /// # Errors
    /// A member is not as [`TaskResult::parse`] wants it.
    pub fn to_payload(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let (output, error) = match &self.ending {
            TaskOutcome::Success(output) => (Some(output.clone()), None),
            TaskOutcome::Failed(failure) => (None, Some(failure.clone())),
        };
        let wire = ResultWire {
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
        serde_json::to_vec(&wire).map_err(|error| FormatError::new(error.to_string()))
    }

    /// Signs the result as an executor.
    ///
    /// # Errors
    /// As [`TaskResult::to_payload`].
    pub fn sign(&self, key: &PrivateKey) -> Result<Envelope, FormatError> {
        Ok(Envelope::sign(PayloadType::Result, self.to_payload()?, key))
    }

    /// Reads a payload. It says nothing of who signed it: [`TaskResult::verify`] does.
    ///
    /// # Errors
    /// It is not as `docs/TASKS.md` says.
    pub fn parse(payload: &[u8]) -> Result<TaskResult, FormatError> {
        let wire: ResultWire = strict::read(payload, PayloadType::Result.limit())?;
        strict::check_version(wire.v)?;
        let ending = match (wire.status.as_str(), wire.output, wire.error) {
            ("SUCCESS", Some(output), None) => TaskOutcome::Success(output),
            ("FAILURE", None, Some(failure)) => TaskOutcome::Failed(failure),
            ("SUCCESS" | "FAILURE", ..) => {
                return Err(FormatError::new(
                    "SUCCESS has an output and no error, FAILURE the other way round",
                ));
            }
            (other, ..) => {
                return Err(FormatError::new(format!(
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

    fn check(&self) -> Result<(), FormatError> {
        strict::check_id("executor", &self.executor)?;
        strict::check_sha256("prev", &self.prev)?;
        for time in [self.started_at, self.finished_at] {
            if time > MAX_NUMBER {
                return Err(FormatError::new(format!("{time} is no time")));
            }
        }
        let ids = [
            ("task_id", &self.task_id),
            ("capability_id", &self.capability_id),
            ("lease_id", &self.lease_id),
        ];
        // What a failed task could not read is empty; of one that was done, everything is known.
        let TaskOutcome::Success(output) = &self.ending else {
            self.check_reason()?;
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
            return Err(FormatError::new(
                "a capability that there is not has SUCCESS",
            ));
        }
        if output.task_id != self.task_id || output.capability_id != self.capability_id {
            return Err(FormatError::new(
                "the output is of another task or capability",
            ));
        }
        output.check()
    }

    /// Checks that the reason of a failure is one of its code.
    fn check_reason(&self) -> Result<(), FormatError> {
        match &self.ending {
            TaskOutcome::Failed(TaskFailure {
                code,
                reason: Some(reason),
                ..
            }) if !reason.fits(*code) => Err(FormatError::new(format!(
                "{} has the reason {}, which is of another code",
                code.as_str(),
                reason.as_str()
            ))),
            _ => Ok(()),
        }
    }

    /// Reads a result from its envelope, and returns whose it is.
    ///
    /// # Errors
    /// It is malformed, or none of these keys has signed it as a result.
    pub fn verify<'k>(
        text: &[u8],
        keys: impl IntoIterator<Item = &'k PublicKey>,
    ) -> Result<(TaskResult, &'k PublicKey), FormatError> {
        let envelope = Envelope::parse(text)?;
        let Some(key) = envelope.verify(PayloadType::Result, keys) else {
            return Err(FormatError::new(
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
        trust: &'k TrustedKeys,
    ) -> Result<(TaskResult, &'k PublicKey), FormatError> {
        let (result, key) = TaskResult::verify(text, trust.executor_keys())?;
        match trust.executor_key_counts_at(key, result.finished_at) {
            true => Ok((result, key)),
            false => Err(FormatError::new(format!(
                "it was finished at {}, outside the time of its key",
                result.finished_at
            ))),
        }
    }
}

impl TaskOutput {
    fn check(&self) -> Result<(), FormatError> {
        check_content("sha256", self.result_summary.sha256.as_deref())?;
        let undo = &self.undo_metadata;
        if let Some(undoes) = &undo.undoes {
            strict::check_id("undoes", undoes)?;
        }
        let Some(recovery) = &undo.recovery else {
            return Ok(());
        };
        if undo.original_path.is_some() {
            return Err(FormatError::new(
                "undo_metadata has both original_path and recovery",
            ));
        }
        let entry = &recovery.entry;
        if entry.is_empty() || entry.contains(['/', '\0']) || entry == "." || entry == ".." {
            return Err(FormatError::new("recovery.entry is no name"));
        }
        check_content("recovery.sha256", recovery.sha256.as_deref())
    }
}

/// Checks the digest of a content, if there is one.
fn check_content(member: &str, sha256: Option<&str>) -> Result<(), FormatError> {
    sha256.map_or(Ok(()), |sha256| strict::check_sha256(member, sha256))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use super::super::failure::FailureCode;
    use super::super::failure_reason::FailureReason;
    use super::super::trust::{SignerRole, TrustEntry};

    fn output() -> TaskOutput {
        let path = |text: &str| AbsolutePath::parse(text).unwrap();
        TaskOutput {
            task_id: "task-1".to_owned(),
            capability_id: "FILE_MOVE".to_owned(),
            result_summary: ResultSummary {
                source: path("/w/a"),
                destination: Some(path("/w/b")),
                sha256: Some("1".repeat(64)),
                size: 5,
            },
            undo_metadata: UndoMetadata {
                original_path: Some(path("/w/a")),
                ..UndoMetadata::default()
            },
        }
    }

    fn result() -> TaskResult {
        TaskResult {
            task_id: "task-1".to_owned(),
            capability_id: "FILE_MOVE".to_owned(),
            ending: TaskOutcome::Success(output()),
            executor: "files".to_owned(),
            started_at: 150,
            finished_at: 151,
            manifest_sha256: "2".repeat(64),
            lease_id: "lease-1".to_owned(),
            prev: NO_PREV.to_owned(),
        }
    }

    fn failure() -> TaskResult {
        TaskResult {
            ending: TaskOutcome::Failed(FailureReason::Missing.because("no such file")),
            ..result()
        }
    }

    fn value(result: &TaskResult) -> Value {
        serde_json::from_slice(&result.to_payload().unwrap()).unwrap()
    }

    fn parse(value: &Value) -> Result<TaskResult, FormatError> {
        TaskResult::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_result_has_exact_bytes_and_is_read_back() {
        let recovery = RecoveryMetadata {
            kind: RecoveryKind::Vault,
            entry: "20260116T101530.123456Z_a".to_owned(),
            sha256: Some("1".repeat(64)),
        };
        let deleted = {
            let mut output = output();
            output.capability_id = "FILE_DELETE".to_owned();
            output.result_summary.destination = None;
            output.undo_metadata = UndoMetadata {
                recovery: Some(recovery),
                undoes: Some("task-0".to_owned()),
                ..Default::default()
            };
            TaskResult {
                capability_id: "FILE_DELETE".to_owned(),
                ending: TaskOutcome::Success(output),
                ..result()
            }
        };
        let unread = TaskResult {
            task_id: String::new(),
            capability_id: String::new(),
            manifest_sha256: String::new(),
            lease_id: String::new(),
            ..failure()
        };
        for result in [result(), failure(), deleted, unread] {
            let payload = result.to_payload().unwrap();
            assert_eq!(TaskResult::parse(&payload), Ok(result.clone()));
            assert_eq!(
                TaskResult::parse(&payload).unwrap().to_payload(),
                Ok(payload)
            );
        }
        let text = String::from_utf8(result().to_payload().unwrap()).unwrap();
        let expected = format!(
            "{{\"v\":1,\"task_id\":\"task-1\",\"capability_id\":\"FILE_MOVE\",\"status\":\"SUCCESS\",\"output\":{{\"task_id\":\"task-1\",\
             \"capability_id\":\"FILE_MOVE\",\"result_summary\":{{\"source\":\"/w/a\",\"destination\":\"/w/b\",\"sha256\":\"{}\",\"size\":5}},\
             \"undo_metadata\":{{\"original_path\":\"/w/a\"}}}},\"executor\":\"files\",\"started_at\":150,\"finished_at\":151,\
             \"manifest_sha256\":\"{}\",\"lease_id\":\"lease-1\",\"prev\":\"{NO_PREV}\"}}",
            "1".repeat(64),
            "2".repeat(64)
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_result_is_strict() {
        for result in [result(), failure()] {
            for member in value(&result).as_object().unwrap().keys() {
                let mut stripped = value(&result);
                stripped.as_object_mut().unwrap().remove(member);
                assert!(parse(&stripped).is_err(), "{member}");
                let mut null = value(&result);
                null[member] = json!(null);
                assert!(parse(&null).is_err(), "{member}");
            }
        }
        let good = value(&result());
        for (pointer, bad) in [
            ("/v", json!(2)),
            ("/status", json!("FAILURE")),
            ("/status", json!("DONE")),
            ("/task_id", json!("task-2")),
            ("/task_id", json!("")),
            ("/lease_id", json!("")),
            ("/manifest_sha256", json!("")),
            ("/capability_id", json!("FILE_COPY")),
            ("/executor", json!("")),
            ("/prev", json!("0")),
            ("/started_at", json!(-1)),
            ("/finished_at", json!(1.5)),
            ("/finished_at", json!(MAX_NUMBER + 1)),
            ("/output/task_id", json!("task-2")),
            ("/output/result_summary/source", json!("a")),
            ("/output/result_summary/destination", json!("/w/../b")),
            ("/output/result_summary/sha256", json!("x")),
            ("/output/result_summary/size", json!("5")),
            ("/output/undo_metadata", json!([])),
            ("/output/undo_metadata/original_path", json!(null)),
            ("/output", json!(["task-1", "FILE_MOVE", {}, {}])),
        ] {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = bad.clone();
            assert!(parse(&changed).is_err(), "{pointer}: {bad}");
        }
        for (pointer, member, bad) in [
            ("", "more", json!(1)),
            (
                "",
                "error",
                json!({ "code": "EXECUTION_FAILED", "message": "x" }),
            ),
            ("/output", "more", json!(1)),
            ("/output/result_summary", "more", json!(1)),
            ("/output/undo_metadata", "more", json!(1)),
            ("/output/undo_metadata", "undoes", json!("")),
            (
                "/output/undo_metadata",
                "recovery",
                json!({ "kind": "vault", "entry": "a", "sha256": "1".repeat(64) }),
            ),
        ] {
            let mut changed = good.clone();
            changed.pointer_mut(pointer).unwrap()[member] = bad.clone();
            assert!(parse(&changed).is_err(), "{pointer}: {member}: {bad}");
        }
        for recovery in [
            json!({ "kind": "bin", "entry": "a", "sha256": "1".repeat(64) }),
            json!({ "kind": "vault", "entry": "a/b", "sha256": "1".repeat(64) }),
            json!({ "kind": "vault", "entry": "..", "sha256": "1".repeat(64) }),
            json!({ "kind": "vault", "entry": "", "sha256": "1".repeat(64) }),
            json!({ "kind": "vault", "entry": "a", "sha256": "1" }),
            json!({ "kind": "vault", "entry": "a" }),
            json!({ "kind": {"vault": null}, "entry": "a", "sha256": "1".repeat(64) }),
        ] {
            let mut changed = good.clone();
            changed["output"]["undo_metadata"] = json!({ "recovery": recovery });
            assert!(parse(&changed).is_err(), "{recovery}");
        }
    }

    #[test]
    fn codes_are_a_closed_set() {
        for code in FailureCode::ALL {
            let mut changed = value(&failure());
            changed["error"] = json!({ "code": code.as_str(), "message": "of an older release" });
            let TaskOutcome::Failed(failure) = parse(&changed).unwrap().ending else {
                panic!("no failure");
            };
            assert_eq!((failure.code, failure.reason), (code, None));
        }
        for reason in FailureReason::ALL {
            let mut changed = value(&failure());
            changed["error"] =
                json!({ "code": reason.code().as_str(), "reason": reason, "message": "" });
            assert!(parse(&changed).is_ok(), "{reason:?}");
            changed["error"]["code"] = json!("UNSUPPORTED_CAPABILITY");
            assert_eq!(
                parse(&changed).is_ok(),
                *reason == FailureReason::Capability,
                "{reason:?}"
            );
        }
        for bad in [
            json!("OTHER"),
            json!("Exists"),
            json!(null),
            json!({ "exists": null }),
            json!(1),
        ] {
            let mut changed = value(&failure());
            changed["error"]["reason"] = bad.clone();
            assert!(parse(&changed).is_err(), "{bad}");
        }
        for bad in [
            json!("OTHER"),
            json!("invalid_lease"),
            json!({ "INVALID_LEASE": null }),
            json!(1),
        ] {
            let mut changed = value(&failure());
            changed["error"]["code"] = bad.clone();
            assert!(parse(&changed).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_result_counts_by_its_key_and_its_time() {
        let [executor, kernel, other] = [1, 2, 3].map(|seed| PrivateKey::from_seed(&[seed; 32]));
        let keys = [
            TrustEntry::new(executor.public(), SignerRole::Executor, 100, 200),
            TrustEntry::new(kernel.public(), SignerRole::Kernel, 100, 200),
        ];
        let trust =
            TrustedKeys::parse(json!({ "v": 1, "keys": keys }).to_string().as_bytes()).unwrap();
        let at = |finished_at| TaskResult {
            finished_at,
            ..result()
        };
        let text = |result: &TaskResult, key| result.sign(key).unwrap().to_text();
        let verified = |text: &str| {
            TaskResult::verify_by_trust(text.as_bytes(), &trust).map(|(result, _)| result)
        };
        assert_eq!(verified(&text(&result(), &executor)), Ok(result()));
        assert_eq!(verified(&text(&failure(), &executor)), Ok(failure()));
        for (what, bad) in [
            ("by a kernel", text(&result(), &kernel)),
            ("by nobody", text(&result(), &other)),
            ("too early", text(&at(99), &executor)),
            ("too late", text(&at(200), &executor)),
            (
                "a lease",
                text(&result(), &executor).replace("result.v1", "lease.v1"),
            ),
            (
                "signed as a lease",
                Envelope::sign(
                    PayloadType::Lease,
                    result().to_payload().unwrap(),
                    &executor,
                )
                .to_text(),
            ),
        ] {
            assert!(verified(&bad).is_err(), "{what}");
        }
    }
}
