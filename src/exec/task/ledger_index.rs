//! The index of a ledger: the tasks that have a final result, the uses of each lease, and the task that is open.

use std::collections::HashMap;

use super::head_witness::LogHead;
use super::ledger_line::{LeaseUseKey, LedgerLine, TaskAction, TaskIntent};
use super::result::NO_PREV;
use super::worker::worker_order::FileStamp;

/// A task that the ledger knows.
#[derive(Debug, Clone)]
pub(super) struct KnownTask {
    /// The SHA-256 of the manifest that the id belongs to.
    pub(super) manifest_sha256: Box<str>,
    /// The line of the task's final result: its byte offset and its length in bytes.
    pub(super) result: Option<(u64, u64)>,
}

/// The uses of a lease that the ledger knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeaseUse {
    /// The number of tries of a task with the lease.
    pub(super) tries: u64,
    /// The line of the newest result that a try with the lease came to: its byte offset and its length in bytes.
    pub(super) last: Option<(u64, u64)>,
}

/// The index of all tasks and leases in a ledger.
#[derive(Debug, Default)]
pub(super) struct LedgerIndex {
    tasks: HashMap<Box<str>, KnownTask>,
    leases: HashMap<Box<str>, LeaseUse>,
    /// The files of tasks that moved or removed them without reading them.
    unread: HashMap<Box<str>, FileStamp>,
    open: Option<Box<TaskIntent>>,
    head: Option<Box<str>>,
    results: u64,
    /// The end of the log as it was noted elsewhere, until it is reached.
    expected: Option<LogHead>,
}

impl LedgerIndex {
    /// Takes note of a line that lies at this byte.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(super) fn note(&mut self, line: &[u8], at: u64) -> Result<(), String> {
        match LedgerLine::parse(line)? {
            LedgerLine::Intent(intent) => {
                let is_same = self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.run == intent.run);
                if !is_same {
                    let lease = intent.lease_id.as_str().into();
                    self.leases.entry(lease).or_default().tries += 1;
                    let known = || KnownTask {
                        manifest_sha256: intent.manifest_sha256.as_str().into(),
                        result: None,
                    };
                    let task = intent.task_id.as_str();
                    self.tasks.entry(task.into()).or_insert_with(known);
                    let is_copy = matches!(intent.deed, TaskAction::Copy { .. });
                    if !is_copy && intent.found.sha256.is_none() {
                        self.unread.insert(task.into(), intent.found.stamp);
                    }
                }
                self.open = Some(intent);
            }
            LedgerLine::Result(stored) => {
                let was_begun = self.open.take().is_some();
                if let Some(lease) = &stored.lease_id {
                    let lease = self.leases.entry(lease.as_ref().into()).or_default();
                    // What was begun was counted then.
                    lease.tries += u64::from(!was_begun);
                    lease.last = Some((at, line.len() as u64));
                }
                self.head = Some(stored.payload_sha256.as_ref().into());
                self.results += 1;
                self.reach();
                let known = |result| KnownTask {
                    manifest_sha256: stored.manifest_sha256.as_ref().into(),
                    result,
                };
                let task = stored.task_id.as_ref().into();
                match stored.success {
                    true => drop(
                        self.tasks
                            .insert(task, known(Some((at, line.len() as u64)))),
                    ),
                    // The id belongs to this manifest, which may be tried again.
                    false => drop(self.tasks.entry(task).or_insert_with(|| known(None))),
                }
            }
        }
        Ok(())
    }

    /// Returns what is known of a task.
    pub(super) fn task(&self, id: &str) -> Option<&KnownTask> {
        self.tasks.get(id)
    }

    /// Returns what is known of a lease.
    pub(super) fn lease(&self, key: &LeaseUseKey) -> LeaseUse {
        self.leases.get(key.as_str()).copied().unwrap_or_default()
    }

    /// Returns the file of a task that moved or removed it without reading it.
    pub(super) fn unread(&self, task: &str) -> Option<FileStamp> {
        self.unread.get(task).copied()
    }

    /// Takes note of where the log has been, as it was noted elsewhere.
    pub(super) fn expect(&mut self, head: LogHead) {
        // What lies behind what was read was seen when it was read.
        if head.results >= self.results {
            self.expected = Some(head);
            self.reach();
        }
    }

    /// Returns where the log should be and is not.
    pub(super) fn unreached(&self) -> Option<&LogHead> {
        self.expected.as_ref()
    }

    fn reach(&mut self) {
        let here = self.log_head();
        if self.expected.as_ref() == Some(&here) {
            self.expected = None;
        }
    }

    /// Returns the end of the log.
    pub(super) fn log_head(&self) -> LogHead {
        LogHead {
            results: self.results,
            sha256: self.head().to_owned(),
        }
    }

    /// Returns the task that was begun and has no result.
    pub(super) fn open(&self) -> Option<&TaskIntent> {
        self.open.as_deref()
    }

    /// Returns the SHA-256 of the newest result's payload, in hex.
    pub(super) fn head(&self) -> &str {
        self.head.as_deref().unwrap_or(NO_PREV)
    }
}
