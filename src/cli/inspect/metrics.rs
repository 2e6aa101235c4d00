//! `status --metrics`: counters, gauges and durations in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>), of a store or of all homes of this machine.

use std::fmt::{Display, Write};

use crate::client::MountStatus;
use crate::exec::totals::{AuditTotals, BOUNDS};

/// The known figures of a store.
pub(super) struct MetricsSource {
    /// The store, escaped.
    pub(super) store: String,
    /// Nothing where it is not mounted.
    pub(super) status: Option<MountStatus>,
    pub(super) totals: AuditTotals,
}

/// One number of a mounted home: its name, its kind, what it is, and where it comes from.
type StatusMetric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&MountStatus) -> u64,
);

const OF_STATUS: [StatusMetric; 8] = [
    (
        "trumanfs_known_inodes",
        "gauge",
        "Files and directories that the kernel knows.",
        |status| status.known as u64,
    ),
    ("trumanfs_open_files", "gauge", "Open files.", |status| {
        status.open as u64
    }),
    (
        "trumanfs_run_members",
        "gauge",
        "Threads and PID namespaces that belong to runs under way.",
        |status| status.members as u64,
    ),
    (
        "trumanfs_watched_directories",
        "gauge",
        "Directories watched for changes behind the mount.",
        |status| status.watched as u64,
    ),
    (
        "trumanfs_records_total",
        "counter",
        "Records of the session.",
        |status| status.records,
    ),
    (
        "trumanfs_trash_bytes",
        "gauge",
        "What the trash takes on disk.",
        |status| status.trash_bytes,
    ),
    (
        "trumanfs_versions_bytes",
        "gauge",
        "What former contents take on disk.",
        |status| status.kept_bytes,
    ),
    (
        "trumanfs_refused_writes_total",
        "counter",
        "Writes refused because former contents had reached their limit.",
        |status| status.refused,
    ),
];

/// Returns the metrics of stores.
pub(super) fn text(sources: &[MetricsSource]) -> String {
    let mut page = MetricsPage::default();
    page.family("trumanfs_mounted", "gauge", "Whether the store is mounted.");
    for source in sources {
        page.sample(
            "",
            &[("store", &source.store)],
            u8::from(source.status.is_some()),
        );
    }
    daemons(&mut page, sources);
    requests(&mut page, sources);
    durations(&mut page, sources);
    page.text
}

/// Metrics from the daemons' counters.
fn daemons(page: &mut MetricsPage, sources: &[MetricsSource]) {
    let mounted = || {
        let mounted = sources
            .iter()
            .filter_map(|one| Some((&one.store, one.status.as_ref()?)));
        mounted.collect::<Vec<_>>()
    };
    if mounted().is_empty() {
        return;
    }
    page.family(
        "trumanfs_session_start_time_seconds",
        "gauge",
        "When the session began, since 1970.",
    );
    for (store, status) in mounted() {
        let since = chrono::DateTime::parse_from_rfc3339(&status.since);
        page.sample(
            "",
            &[("store", store)],
            since.map_or(0, |since| since.timestamp()),
        );
    }
    page.family(
        "trumanfs_daemon_info",
        "gauge",
        "The daemon of a mounted store; always 1.",
    );
    for (store, status) in mounted() {
        let labels = [
            ("store", &**store),
            ("home", &status.home),
            ("version", &status.version),
        ];
        page.sample("", &labels, 1);
    }
    page.family(
        "trumanfs_fuse_requests_total",
        "counter",
        "Requests of the kernel in this session.",
    );
    for (store, status) in mounted() {
        for (name, count) in status.counters.as_object().into_iter().flatten() {
            page.sample(
                "",
                &[("store", store), ("request", name)],
                count.as_u64().unwrap_or(0),
            );
        }
    }
    for (name, kind, help, value) in OF_STATUS {
        page.family(name, kind, help);
        for (store, status) in mounted() {
            page.sample("", &[("store", store)], value(status));
        }
    }
}

/// Metrics of executors' requests.
fn requests(page: &mut MetricsPage, sources: &[MetricsSource]) {
    page.family(
        "trumanfs_requests_total",
        "counter",
        "Requests of executors, by how they ended and by what a policy said of them.",
    );
    for one in sources {
        for (sort, count) in &one.totals.requests {
            let labels = [
                ("store", &*one.store),
                ("kind", &*sort.kind),
                ("status", &*sort.status),
                ("verdict", &*sort.verdict),
            ];
            page.sample("", &labels, count);
        }
    }
    page.family(
        "trumanfs_security_events_total",
        "counter",
        "Events that an operator should look at.",
    );
    for one in sources {
        for ((event, severity), count) in &one.totals.events {
            let labels = [
                ("store", &*one.store),
                ("event", &**event),
                ("severity", &**severity),
            ];
            page.sample("", &labels, count);
        }
    }
    page.family(
        "trumanfs_limits_met_total",
        "counter",
        "Limits that programs met.",
    );
    for one in sources {
        for (limit, count) in &one.totals.limits {
            page.sample("", &[("store", &one.store), ("limit", limit)], count);
        }
    }
    page.family(
        "trumanfs_truncated_requests_total",
        "counter",
        "Requests whose output was cut.",
    );
    for one in sources {
        page.sample("", &[("store", &one.store)], one.totals.truncated);
    }
    page.family(
        "trumanfs_audit_unreadable_lines_total",
        "counter",
        "Lines of the audit log that cannot be understood.",
    );
    for one in sources {
        page.sample("", &[("store", &one.store)], one.totals.unreadable);
    }
}

fn durations(page: &mut MetricsPage, sources: &[MetricsSource]) {
    page.family(
        "trumanfs_request_duration_seconds",
        "histogram",
        "How long requests of executors took.",
    );
    for one in sources {
        for (kind, durations) in &one.totals.durations {
            let labels = [("store", &*one.store), ("kind", &**kind)];
            for (bound, within) in BOUNDS.into_iter().zip(durations.within) {
                let bound = seconds(bound);
                page.sample(
                    "_bucket",
                    &[&labels[..], &[("le", &bound)]].concat(),
                    within,
                );
            }
            page.sample(
                "_bucket",
                &[&labels[..], &[("le", "+Inf")]].concat(),
                durations.count,
            );
            page.sample("_sum", &labels, seconds(durations.sum_ms));
            page.sample("_count", &labels, durations.count);
        }
    }
}

/// Writes milliseconds as seconds.
#[allow(clippy::cast_precision_loss, reason = "2^53 ms are 285,000 years")]
fn seconds(ms: u64) -> String {
    (ms as f64 / 1000.0).to_string()
}

/// What is written. Samples belong to the family before them.
#[derive(Default)]
struct MetricsPage {
    text: String,
    name: &'static str,
}

impl MetricsPage {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let _ = writeln!(
            self.text,
            "{}{suffix}{{{}}} {value}",
            self.name,
            labels.join(",")
        );
    }
}

/// Writes a label's value: backslash, quote and line feed are escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
