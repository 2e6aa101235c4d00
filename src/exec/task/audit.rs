//! Whether a ledger holds: each result signed, each chained to the one before, each success begun by an intent.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use super::config::Config;
use super::envelope::Envelope;
use super::key::PrivateKey;
use super::ledger::each_line;
use super::line::{Intent, Line, Stored};
use super::result::{Ending, NO_PREV, TaskResult};
use super::strict;
use super::trust::Trust;
use crate::error::Result;

/// How many problems are told.
const MOST: usize = 100;

/// What there is in a ledger.
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
    /// What does not hold, the first hundred.
    pub problems: Vec<String>,
}

/// Looks through the ledger of a configuration. Nothing is changed.
///
/// # Errors
/// Where the configuration or the ledger cannot be read.
pub fn verify_log(config: &Path) -> Result<LogReport> {
    let config = Config::load(config)?;
    let trust = Trust::load(&config.trust)?;
    let mut audit = Audit {
        key: PrivateKey::load(&config.key)?,
        trust,
        open: None,
        done: HashSet::new(),
        report: LogReport {
            head: NO_PREV.to_owned(),
            ..LogReport::default()
        },
    };
    each_line(&config.state_dir, |number, line, is_whole| {
        audit.report.lines = number;
        match Line::parse(line) {
            Ok(Line::Intent(intent)) if is_whole => audit.intent(number, intent),
            Ok(Line::Result(stored)) if is_whole => audit.result(number, &stored),
            Err(why) if is_whole => audit.problem(number, &why),
            _ => audit.problem(number, "it was cut off; the next start takes it away"),
        }
        Ok(())
    })?;
    audit.report.open = audit.open.map(|open| open.task_id);
    Ok(audit.report)
}

struct Audit {
    key: PrivateKey,
    trust: Trust,
    open: Option<Box<Intent>>,
    done: HashSet<String>,
    report: LogReport,
}

impl Audit {
    fn problem(&mut self, line: u64, what: &str) {
        if self.report.problems.len() < MOST {
            self.report.problems.push(format!("line {line}: {what}"));
        }
    }

    fn intent(&mut self, number: u64, intent: Box<Intent>) {
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

    fn result(&mut self, number: u64, stored: &Stored<'_>) {
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
        self.report.head = head;
        let success = matches!(result.ending, Ending::Success(_));
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
