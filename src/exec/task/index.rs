//! What the lines of a ledger come to: which tasks have a final result, how often a lease was used, what is open.

use std::collections::HashMap;

use super::line::{Deed, Intent, Line};
use super::result::NO_PREV;
use super::worker::order::Stamp;

/// What is known of a task.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The SHA-256 of the manifest that the id belongs to.
    pub(super) manifest_sha256: Box<str>,
    /// Where the line of its final result lies, and how long it is.
    pub(super) result: Option<(u64, u64)>,
}

/// What is known of all of them.
#[derive(Debug, Default)]
pub(super) struct Index {
    tasks: HashMap<Box<str>, Known>,
    uses: HashMap<Box<str>, u64>,
    /// The files of tasks that moved or removed them without reading them.
    unread: HashMap<Box<str>, Stamp>,
    open: Option<Box<Intent>>,
    head: Option<Box<str>>,
}

impl Index {
    /// Takes note of a line that lies at this byte.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(super) fn note(&mut self, line: &[u8], at: u64) -> Result<(), String> {
        match Line::parse(line)? {
            Line::Intent(intent) => {
                let is_same = self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.run == intent.run);
                if !is_same {
                    *self
                        .uses
                        .entry(intent.lease_id.as_str().into())
                        .or_default() += 1;
                    let known = || Known {
                        manifest_sha256: intent.manifest_sha256.as_str().into(),
                        result: None,
                    };
                    let task = intent.task_id.as_str();
                    self.tasks.entry(task.into()).or_insert_with(known);
                    let is_copy = matches!(intent.deed, Deed::Copy { .. });
                    if !is_copy && intent.found.sha256.is_none() {
                        self.unread.insert(task.into(), intent.found.stamp);
                    }
                }
                self.open = Some(intent);
            }
            Line::Result(stored) => {
                self.open = None;
                self.head = Some(stored.payload_sha256.as_ref().into());
                let known = |result| Known {
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
    pub(super) fn task(&self, id: &str) -> Option<&Known> {
        self.tasks.get(id)
    }

    /// Returns how often a lease was used.
    pub(super) fn uses(&self, lease: &str) -> u64 {
        self.uses.get(lease).copied().unwrap_or_default()
    }

    /// Returns the file of a task that moved or removed it without reading it.
    pub(super) fn unread(&self, task: &str) -> Option<Stamp> {
        self.unread.get(task).copied()
    }

    /// Returns the task that was begun and has no result.
    pub(super) fn open(&self) -> Option<&Intent> {
        self.open.as_deref()
    }

    /// Returns the SHA-256 of the newest result's payload, in hex.
    pub(super) fn head(&self) -> &str {
        self.head.as_deref().unwrap_or(NO_PREV)
    }
}
