//! Totals of an audit log: how many requests there were, how they ended, how long they took.
//!
//! The log is bounded, so what stands in it begins anew from time to time: the totals are those of the lines that are
//! there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::audit::LOG;
use crate::error::{Error, Result};
use crate::world::Root;

/// The upper bounds of durations that are counted together, in milliseconds.
pub const BOUNDS: [u64; 12] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 120_000, 600_000,
];

/// The properties that requests share that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestClass {
    /// The executor: `shell`, `program`.
    pub kind: String,
    /// The status that the requests ended with.
    pub status: String,
    /// The verdict of a policy about the requests; empty if no policy was asked.
    pub verdict: String,
}

/// The distribution of the durations of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// The number of requests that took no longer than each of [`BOUNDS`].
    pub within: [u64; BOUNDS.len()],
    /// The number of requests.
    pub count: u64,
    /// The sum of the durations of all requests, in milliseconds.
    pub sum_ms: u64,
}

impl DurationHistogram {
    fn take(&mut self, ms: u64) {
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        for (within, bound) in self.within.iter_mut().zip(BOUNDS) {
            *within += u64::from(ms <= bound);
        }
    }
}

/// The totals of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditTotals {
    /// The number of requests of each class.
    pub requests: BTreeMap<RequestClass, u64>,
    /// The durations of requests, by executor.
    pub durations: BTreeMap<String, DurationHistogram>,
    /// The number of events that an operator should look at, by name and severity.
    pub events: BTreeMap<(String, String), u64>,
    /// The number of times that each limit was met, by the limit's name.
    pub limits: BTreeMap<String, u64>,
    /// The number of requests whose output was cut.
    pub truncated: u64,
    /// The number of lines that cannot be understood.
    pub unreadable: u64,
}

/// The fields of a line that are counted. A line that is not about a request has no status.
#[derive(Deserialize)]
struct CountedLine {
    kind: Option<String>,
    status: Option<String>,
    verdict: Option<String>,
    duration_ms: Option<u64>,
    event: Option<String>,
    severity: Option<String>,
    limit: Option<String>,
    #[serde(default)]
    truncated_stdout: bool,
    #[serde(default)]
    truncated_stderr: bool,
}

impl AuditTotals {
    /// Reads the audit log of a store. There may be none yet.
    ///
    /// # Errors
    /// Errors of `open(2)` and `read(2)`; [`Error::Refused`] where something else stands in the log's place.
    pub fn read(store: &Path) -> Result<AuditTotals> {
        let mut totals = AuditTotals::default();
        for file in LOG.files(&Root::open_store(store)?)? {
            let mut reader = BufReader::new(file);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = reader.read_until(b'\n', &mut line);
                if read.map_err(|error| Error::io("read", &error))? == 0 {
                    break;
                }
                totals.take(&line);
            }
        }
        Ok(totals)
    }

    fn take(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<CountedLine>(line) else {
            self.unreadable += 1;
            return;
        };
        if let Some(event) = line.event {
            let severity = line.severity.unwrap_or_default();
            *self.events.entry((event, severity)).or_default() += 1;
        }
        let (Some(kind), Some(status)) = (line.kind, line.status) else {
            return;
        };
        if let Some(limit) = line.limit {
            *self.limits.entry(limit).or_default() += 1;
        }
        self.truncated += u64::from(line.truncated_stdout || line.truncated_stderr);
        let durations = self.durations.entry(kind.clone()).or_default();
        durations.take(line.duration_ms.unwrap_or(0));
        let sort = RequestClass {
            kind,
            status,
            verdict: line.verdict.unwrap_or_default(),
        };
        *self.requests.entry(sort).or_default() += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_sort() {
        let mut totals = AuditTotals::default();
        for line in [
            r#"{"kind":"program","status":"success","verdict":"allow","duration_ms":5,"truncated_stdout":true}"#,
            r#"{"kind":"program","status":"success","verdict":"allow","duration_ms":700000}"#,
            r#"{"kind":"program","status":"blocked","verdict":"deny","duration_ms":0,"event":"command_blocked","severity":"HIGH"}"#,
            r#"{"kind":"shell","status":"failed","duration_ms":60}"#,
            r#"{"kind":"network","event":"connection_refused","severity":"MEDIUM"}"#,
            "{\"kind\":\"pro",
        ] {
            totals.take(line.as_bytes());
        }
        let sort = |kind: &str, status: &str, verdict: &str| RequestClass {
            kind: kind.to_owned(),
            status: status.to_owned(),
            verdict: verdict.to_owned(),
        };
        assert_eq!(totals.requests[&sort("program", "success", "allow")], 2);
        assert_eq!(totals.requests[&sort("shell", "failed", "")], 1);
        assert_eq!(totals.requests.values().sum::<u64>(), 4);
        let programs = &totals.durations["program"];
        assert_eq!((programs.count, programs.sum_ms), (3, 700_005));
        assert_eq!(programs.within, [2; BOUNDS.len()]);
        assert_eq!(totals.durations["shell"].within[..5], [0, 0, 0, 0, 1]);
        assert_eq!(totals.events.len(), 2);
        assert_eq!((totals.truncated, totals.unreadable), (1, 1));
    }
}
