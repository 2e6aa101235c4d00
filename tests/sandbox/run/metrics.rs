//! `trumanfs status --metrics`, read as strictly as Prometheus does, and more so.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use super::{Place, Store, good};
use crate::common::{need_mount, trumanfs};

type Labels = BTreeMap<String, String>;

/// A page, understood: each family's kind, and each sample.
#[derive(Default)]
struct Page {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<(String, Labels), f64>,
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Reads `{name="value",…}`, and returns what follows.
fn labels(text: &str) -> (Labels, &str) {
    let mut found = Labels::new();
    let mut rest = text.strip_prefix('{').expect("labels");
    loop {
        let (name, after) = rest.split_once("=\"").expect(rest);
        assert!(is_name(name), "{name}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("an open quote") {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(
            found.insert(name.to_owned(), value).is_none(),
            "{name} twice: {text}"
        );
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", more) => return (found, more),
            _ => panic!("{text}"),
        }
    }
}

fn read(text: &str) -> Page {
    assert!(text.ends_with('\n') && !text.contains("\n\n") && !text.contains('\r'));
    let mut page = Page::default();
    let (mut family, mut helped) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(is_name(name) && name.starts_with("trumanfs_") && !words.is_empty());
            assert!(
                helped.insert(name.to_owned()),
                "{name}: a family is in one piece"
            );
            name.clone_into(&mut family);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            page.kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let at = line.find('{').expect(line);
            let (name, (labels, value)) = (&line[..at], labels(&line[at..]));
            let suffix = name.strip_prefix(&family).expect(line);
            let is_histogram = page.kinds[&family] == "histogram";
            assert_eq!(
                ["_bucket", "_sum", "_count"].contains(&suffix),
                is_histogram,
                "{line}"
            );
            assert!(is_histogram || suffix.is_empty(), "{line}");
            let value: f64 = value.strip_prefix(' ').unwrap().parse().unwrap();
            assert!(value.is_finite() && value >= 0.0, "{line}");
            let known = page.samples.insert((name.to_owned(), labels), value);
            assert!(known.is_none(), "twice: {line}");
        }
    }
    histograms_add_up(&page);
    page
}

fn histograms_add_up(page: &Page) {
    for ((name, labels), count) in &page.samples {
        let Some(family) = name.strip_suffix("_count") else {
            continue;
        };
        let mut buckets: Vec<(f64, f64)> = page
            .samples
            .iter()
            .filter(|((other, of), _)| {
                let mut of = of.clone();
                *other == format!("{family}_bucket") && of.remove("le").is_some() && of == *labels
            })
            .map(|((_, of), value)| (of["le"].parse().unwrap(), *value))
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(
            buckets.len() > 5 && buckets.is_sorted_by(|a, b| a.1 <= b.1),
            "{buckets:?}"
        );
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)));
        assert!(
            page.samples
                .contains_key(&(format!("{family}_sum"), labels.clone()))
        );
    }
}

impl Page {
    /// The sum of all samples of a name with these labels.
    fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        let fits = |labels: &Labels| {
            wanted
                .iter()
                .all(|(name, value)| labels.get(*name).is_some_and(|v| v == value))
        };
        let of = self
            .samples
            .iter()
            .filter(|((n, labels), _)| n == name && fits(labels));
        of.map(|(_, value)| value).sum()
    }
}

fn metrics(target: &[&OsStr]) -> Page {
    let args = [&[OsStr::new("status"), OsStr::new("--metrics")], target].concat();
    let output = trumanfs(&args);
    let page = read(&good(&output));
    // Where Prometheus' own checker is, it has its say.
    if let Some(promtool) = crate::common::tool("promtool") {
        use std::io::Write;
        let mut check = std::process::Command::new(promtool);
        check
            .args(["check", "metrics"])
            .stdin(std::process::Stdio::piped());
        let mut child = check.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(&output.stdout)
            .unwrap();
        assert!(child.wait().unwrap().success());
    }
    page
}

#[test]
fn a_mounted_home_counts_what_was_asked_for() {
    need_mount!();
    let place = Place::mounted();
    for words in [
        &["true"][..],
        &["true"],
        &["false"],
        &["rm", "x"],
        &["sh", "-c", "exit 2"],
        &["gone"],
    ] {
        place.run(&[], words);
    }
    place.run(&["--timeout", "0.3"], &["sleep", "30"]);
    trumanfs(&[
        "exec",
        "--root",
        place.home.home().to_str().unwrap(),
        "--",
        "ls",
    ]);
    let page = metrics(&[place.home.store().as_os_str()]);
    let requests = |wanted: &[(&str, &str)]| page.sum("trumanfs_requests_total", wanted);
    let program = ("kind", "program");
    assert_eq!(requests(&[program]), 7.0);
    assert_eq!(
        requests(&[program, ("status", "success"), ("verdict", "allow")]),
        2.0
    );
    assert_eq!(requests(&[program, ("status", "failed")]), 2.0);
    assert_eq!(
        requests(&[program, ("status", "blocked"), ("verdict", "deny")]),
        1.0
    );
    assert_eq!(requests(&[program, ("status", "timeout")]), 1.0);
    assert_eq!(requests(&[program, ("status", "error")]), 1.0);
    assert_eq!(requests(&[("kind", "shell"), ("verdict", "")]), 1.0);
    assert_eq!(
        page.sum("trumanfs_request_duration_seconds_count", &[program]),
        7.0
    );
    let sum = page.sum("trumanfs_request_duration_seconds_sum", &[program]);
    assert!((0.3..60.0).contains(&sum), "{sum}");
    let events = [("event", "command_blocked"), ("severity", "HIGH")];
    assert_eq!(page.sum("trumanfs_security_events_total", &events), 1.0);
    assert_eq!(page.sum("trumanfs_mounted", &[]), 1.0);
    assert!(page.sum("trumanfs_fuse_requests_total", &[]) > 0.0);
    let home = place.home.home().to_str().unwrap();
    assert_eq!(page.sum("trumanfs_daemon_info", &[("home", home)]), 1.0);
    // It is among all homes, which may be other tests'.
    let all = metrics(&[]);
    let store = place.home.store().to_str().unwrap();
    assert_eq!(all.sum("trumanfs_mounted", &[("store", store)]), 1.0);
    assert_eq!(all.sum("trumanfs_requests_total", &[("store", store)]), 8.0);
}

#[test]
fn a_store_that_is_not_mounted_has_its_totals() {
    need_mount!();
    let store = Store::new();
    let path = store.store.as_os_str();
    good(&store.run(&[], &["true"]));
    store.is_left_alone();
    let page = metrics(&[path]);
    assert_eq!(page.sum("trumanfs_mounted", &[]), 0.0);
    assert_eq!(
        page.sum(
            "trumanfs_requests_total",
            &[("store", path.to_str().unwrap())]
        ),
        1.0
    );
    let indirect = store.store.join("../store");
    assert_eq!(metrics(&[indirect.as_os_str()]).samples, page.samples);
    assert!(!page.kinds.contains_key("trumanfs_fuse_requests_total"));
    // A line that a full disk has cut off counts as what it is.
    let log = store.store.join(".trumanfs/audit.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, format!("{text}{{\"v\":1,\"ki")).unwrap();
    assert_eq!(
        metrics(&[path]).sum("trumanfs_audit_unreadable_lines_total", &[]),
        1.0
    );
    // The part of the log that was put aside is counted, too.
    std::fs::rename(&log, store.store.join(".trumanfs/audit.1.jsonl")).unwrap();
    good(&store.run(&[], &["true"]));
    assert_eq!(metrics(&[path]).sum("trumanfs_requests_total", &[]), 2.0);
}

/// Whatever the store is called, its name is a label's value.
#[test]
fn a_name_that_is_none_for_a_label() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("a\"b\\c\nd");
    std::fs::create_dir(&store).unwrap();
    let made = ["exec", "--root"].map(OsStr::new);
    let line = ["--", "touch a"].map(OsStr::new);
    good(&trumanfs(
        &[&made[..], &[store.as_os_str()], &line].concat(),
    ));
    let page = metrics(&[store.as_os_str()]);
    assert_eq!(page.sum("trumanfs_mounted", &[]), 0.0);
    let (_, labels) = page.samples.keys().next().unwrap();
    assert!(labels["store"].contains("a\"b"), "{labels:?}");
}
