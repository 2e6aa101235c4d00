//! Lines of the ledger: intents and results. Data only.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::absolute_path::AbsolutePath;
use super::worker::worker_order::{FoundFile, WorkerOutput};
use crate::name::EscapedBytes;
use crate::world::RunId;

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "UPPERCASE")]
pub(super) enum LedgerLine<'l> {
    /// A task begins; or a copy of it is whole, and is about to get its name.
    Intent(Box<TaskIntent>),
    /// A task has ended.
    #[serde(borrow)]
    Result(StoredResult<'l>),
}

impl<'l> LedgerLine<'l> {
    /// Reads one.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(super) fn parse(bytes: &'l [u8]) -> Result<LedgerLine<'l>, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Returns it without its end.
    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The key by which the uses of a lease are counted: its id, and of a lease for a list of manifests one for each manifest.
/// Data of the ledger; a blank, which no id has, stands before the manifest's digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LeaseUseKey(String);

impl LeaseUseKey {
    /// Returns that of a lease for one task.
    pub(super) fn of_lease(lease_id: &str) -> LeaseUseKey {
        LeaseUseKey(lease_id.to_owned())
    }

    /// Returns that of one manifest of a list.
    pub(super) fn of_manifest(lease_id: &str, sha256: &str) -> LeaseUseKey {
        LeaseUseKey(format!("{lease_id} {sha256}"))
    }

    /// Returns the whole key.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of the lease.
    pub(super) fn lease_id(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }
}

/// The intent of a task that is about to act: enough to find out afterwards whether the task acted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskIntent {
    /// The task.
    pub(super) task_id: String,
    /// The lease that it uses.
    pub(super) lease_id: LeaseUseKey,
    /// The SHA-256 of its manifest, or of the result that it undoes, in hex.
    pub(super) manifest_sha256: String,
    /// The run that its records carry.
    pub(super) run: RunId,
    /// The time at which the task began (Unix seconds).
    pub(super) started_at: u64,
    /// The deed of the task.
    pub(super) deed: TaskAction,
    /// The file as it was found.
    pub(super) found: FoundFile,
    /// The copy, once it is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<WorkerOutput>,
    /// The task that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undoes: Option<String>,
}

/// The deed of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum TaskAction {
    /// Moves a file.
    Move {
        /// From where.
        source: AbsolutePath,
        /// To where.
        destination: AbsolutePath,
    },
    /// Copies a file.
    Copy {
        /// From where.
        source: AbsolutePath,
        /// To where.
        destination: AbsolutePath,
    },
    /// Moves a file into the trash, or into the vault.
    Delete {
        /// From where.
        source: AbsolutePath,
    },
    /// Moves it back.
    Restore {
        /// The name of the file in the trash or the vault.
        entry: EscapedBytes,
        /// To where.
        destination: AbsolutePath,
    },
}

/// The result of a task, as the ledger stores it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredResult<'l> {
    /// The task.
    #[serde(borrow)]
    pub(super) task_id: Cow<'l, str>,
    /// The SHA-256 of its manifest, in hex.
    #[serde(borrow)]
    pub(super) manifest_sha256: Cow<'l, str>,
    /// The lease that it was tried with, as a [`LeaseUseKey`]; absent in what older releases wrote.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) lease_id: Option<Cow<'l, str>>,
    /// True if the result is final.
    pub(super) success: bool,
    /// The SHA-256 of the signed payload, in hex: the next result's `prev`.
    #[serde(borrow)]
    pub(super) payload_sha256: Cow<'l, str>,
    /// The envelope, byte for byte as it was answered.
    #[serde(borrow)]
    pub(super) result: Cow<'l, str>,
}
