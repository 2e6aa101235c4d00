//! The audit of a ledger: each result is signed and chained to the one before, each success was begun by an intent.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use super::config::ExecutorConfig;
use super::envelope::Envelope;
use super::head_witness::HeadWitness;
use super::key::PrivateKey;
use super::ledger::each_line;
use super::ledger_line::{LedgerLine, StoredResult, TaskIntent};
use super::result::{NO_PREV, TaskOutcome, TaskResult};
use super::strict;
use super::trust::TrustedKeys;
use crate::error::{Error, Result};

/// The largest number of problems in a report.
const MAX_FINDINGS: usize = 100;

/// The contents of a ledger, and its problems.
#[derive(Debug, Default, Serialize)]
pub struct LogReport {
    /// Its lines.
    pub lines: u64,
    /// The tasks that were begun.
    pub intents: u64,
    /// The results.
    pub results: u64,
    /// The results of tasks that were done.
    pub successes: u64,
    /// The task that was begun and has no result yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The SHA-256 of the newest result's payload: what a host compares with the last `prev` that it knows.
    pub head: String,
    /// The problems of the ledger, the first hundred.
    pub problems: Vec<String>,
}

/// Refuses a ledger without the result that somebody knows: it was rolled back, or is another one. `head`: the SHA-256 of that
/// result's payload.
///
/// # Errors
/// [`Error::Refused`] where no result has it; where the configuration or the ledger cannot be read.
pub fn expect_head(config: &Path, head: &str) -> Result<()> {
    let state_dir = ExecutorConfig::load(config)?.state_dir;
    let mut is_there = head == NO_PREV;
    let read = each_line(&state_dir, |_, line, is_whole| {
        if let (false, true, Ok(LedgerLine::Result(stored))) =
            (is_there, is_whole, LedgerLine::parse(line))
        {
            is_there = *stored.payload_sha256 == *head;
        }
        Ok(())
    });
    match read {
        Ok(()) | Err(Error::Missing { .. }) if is_there => Ok(()),
        Ok(()) | Err(Error::Missing { .. }) => Err(Error::refused(
            format!(
                "{}: no result in its log has the payload {head}: the log was rolled back, or is another executor's",
                state_dir.display()
            ),
            "Put the newest log back: an older one lets tasks be done again that were done.",
        )),
        Err(error) => Err(error),
    }
}

/// Looks through the ledger of a configuration. Nothing is changed. `expected`: the SHA-256 of a payload that one of its results must
/// have.
///
/// # Errors
/// Where the configuration or the ledger cannot be read.
pub fn verify_log(config: &Path, expected: Option<&str>) -> Result<LogReport> {
    let config = ExecutorConfig::load(config)?;
    let trust = TrustedKeys::load(&config.trust)?;
    let mut audit = LogAudit {
        key: PrivateKey::load(&config.key)?,
        trust,
        open: None,
        done: HashSet::new(),
        heads: HashSet::new(),
        report: LogReport {
            head: NO_PREV.to_owned(),
            ..LogReport::default()
        },
    };
    each_line(&config.state_dir, |number, line, is_whole| {
        audit.report.lines = number;
        match LedgerLine::parse(line) {
            Ok(LedgerLine::Intent(intent)) if is_whole => audit.intent(number, intent),
            Ok(LedgerLine::Result(stored)) if is_whole => audit.result(number, &stored),
            Err(why) if is_whole => audit.problem(number, &why),
            _ => audit.problem(number, "it was cut off; the next start takes it away"),
        }
        Ok(())
    })?;
    let noted = HeadWitness::look(&config.vault_dir, &config.state_dir)?;
    for (known, whence) in [
        (
            noted.as_ref().map(|noted| &*noted.sha256),
            "the vault's note",
        ),
        (expected, "--expect-head"),
    ] {
        if let Some(head) = known.filter(|head| *head != NO_PREV && !audit.heads.contains(*head)) {
            let lines = audit.report.lines;
            let what = format!(
                "the result {head} is not in the log, which {whence} has: it was rolled back"
            );
            audit.problem(lines, &what);
        }
    }
    audit.report.open = audit.open.map(|open| open.task_id);
    Ok(audit.report)
}

struct LogAudit {
    key: PrivateKey,
    trust: TrustedKeys,
    open: Option<Box<TaskIntent>>,
    done: HashSet<String>,
    /// The SHA-256 of each result's payload.
    heads: HashSet<String>,
    report: LogReport,
}

impl LogAudit {
    fn problem(&mut self, line: u64, what: &str) {
        if self.report.problems.len() < MAX_FINDINGS {
            self.report.problems.push(format!("line {line}: {what}"));
        }
    }

    fn intent(&mut self, number: u64, intent: Box<TaskIntent>) {
        match &self.open {
            Some(open) if open.run == intent.run => {}
            Some(open) => {
                let what = format!("task {} has no result", open.task_id);
                self.problem(number, &what);
                self.report.intents += 1;
            }
            None => self.report.intents += 1,
        }
        self.open = Some(intent);
    }

    fn result(&mut self, number: u64, stored: &StoredResult<'_>) {
        self.report.results += 1;
        let open = self.open.take();
        let keys = self.trust.executor_keys().chain([self.key.public()]);
        let text = stored.result.as_bytes();
        let result = match TaskResult::verify(text, keys) {
            Ok((result, _)) => result,
            Err(why) => return self.problem(number, &why.to_string()),
        };
        let payload = Envelope::parse(text).map(|envelope| envelope.payload);
        let head = strict::sha256(&payload.unwrap_or_default());
        if result.prev != self.report.head {
            self.problem(number, "the result before it is missing or another one");
        }
        self.heads.insert(head.clone());
        self.report.head = head;
        let success = matches!(result.ending, TaskOutcome::Success(_));
        let same = result.task_id == *stored.task_id
            && result.manifest_sha256 == *stored.manifest_sha256
            && self.report.head == *stored.payload_sha256
            && success == stored.success;
        if !same {
            self.problem(number, "it says something else than the result in it");
        }
        let begun = open.is_some_and(|open| open.task_id == result.task_id);
        if success {
            self.report.successes += 1;
            if !begun {
                self.problem(number, "a task was done that was not begun");
            }
            if !self.done.insert(result.task_id.clone()) {
                let what = format!("task {} was done before", result.task_id);
                self.problem(number, &what);
            }
        }
    }
}
