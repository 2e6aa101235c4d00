//! Tests of the grammar of points, operations and ranges.
#![allow(clippy::indexing_slicing)]

use std::fs::{self, File};
use std::path::Path;

use super::*;
use crate::journal::Journal;
use crate::name::WorldPath;

const FIRST: &str = "20260116T101530.123456Z-0a1b";
const SECOND: &str = "20260116T112233.000000Z-9999";
const THIRD: &str = "20260301T080000.000000Z-abcd";

/// Makes a store whose sessions have these records, written now.
fn store(sessions: &[(&str, &[Op])]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    for (id, ops) in sessions {
        let at = dir.path().join(".trumanfs/sessions").join(id);
        fs::create_dir_all(&at).unwrap();
        let file = File::options()
            .append(true)
            .create(true)
            .open(at.join("journal.jsonl"))
            .unwrap();
        let journal = Journal::new(file.into(), None, false, 9);
        for op in *ops {
            journal.note(op.clone(), None).unwrap();
        }
    }
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

fn made(path: &str) -> Op {
    Op::Mkdir {
        path: WorldPath::parse(path.as_bytes()).unwrap(),
        mode: 0o755,
    }
}

fn named(name: &str) -> Op {
    Op::Checkpoint {
        name: name.to_owned(),
        mark: None,
    }
}

fn after(session: &str, seq: u64) -> Point {
    Point::After(Operation {
        session: session.to_owned(),
        seq,
    })
}

#[test]
fn points_can_be_named_in_each_way() {
    let ops = [
        made("/a"),
        named("before tests"),
        made("/b"),
        named("20260301x"),
    ];
    let (_dir, store) = store(&[(FIRST, &ops), (SECOND, &ops[..2]), (THIRD, &ops[..1])]);
    for (text, expected) in [
        ("now", Point::Now),
        ("last", after(THIRD, 0)),
        (THIRD, after(THIRD, 0)),
        ("20260301", after(THIRD, 0)),
        ("20260301T", after(THIRD, 0)),
        ("20260301T08:1", after(THIRD, 1)),
        ("20260116T10:3", after(FIRST, 3)),
        ("20260116T10:0", after(FIRST, 0)),
        ("last:1", after(THIRD, 1)),
        ("1", after(THIRD, 1)),
        ("0", after(THIRD, 0)),
        ("before tests", after(SECOND, 2)),
        ("20260301x", after(FIRST, 4)),
    ] {
        assert_eq!(point(&store, text).unwrap(), expected, "{text}");
    }
}

#[test]
fn ambiguous_name_is_refused_with_candidates() {
    let (_dir, store) = store(&[(FIRST, &[]), (SECOND, &[]), (THIRD, &[])]);
    for text in ["20260116", "20260116T1"] {
        let Err(Error::Refused { what, .. }) = point(&store, text) else {
            panic!("{text} is not unique");
        };
        assert!(
            what.contains(FIRST) && what.contains(SECOND) && !what.contains(THIRD),
            "{what}"
        );
    }
    assert_eq!(session(&store, "20260116T10").unwrap(), FIRST);
    assert_eq!(session(&store, "last").unwrap(), THIRD);
}

#[test]
fn missing_point_is_an_error_that_names_it() {
    let (_dir, store) = store(&[(FIRST, &[made("/a")])]);
    for text in [
        "7",
        // Short numbers can only be operations.
        "2026",
        "last:2",
        "20260116:9",
        "someday",
        "",
        "20270101",
        "2027:1",
    ] {
        let found = point(&store, text);
        assert!(
            matches!(found, Err(Error::Missing { .. })),
            "{text:?}: {found:?}"
        );
    }
    assert!(matches!(session(&store, "x"), Err(Error::Missing { .. })));
    assert!(matches!(session(&store, ""), Err(Error::Missing { .. })));
}

#[test]
fn operation_is_parsed_from_a_number() {
    let (_dir, store) = store(&[(FIRST, &[made("/a")]), (SECOND, &[made("/b")])]);
    let expected = Operation {
        session: SECOND.to_owned(),
        seq: 1,
    };
    for text in ["1", "last:1", "20260116T112:1"] {
        assert_eq!(operation(&store, text).unwrap(), expected);
    }
    for text in ["0", "last", "now", "-1h", "1-2"] {
        assert!(
            matches!(operation(&store, text), Err(Error::Usage { .. })),
            "{text}"
        );
    }
    assert!(matches!(operation(&store, "2"), Err(Error::Missing { .. })));
}

#[test]
fn ranges_have_defaults_and_a_direction() {
    let (_dir, store) = store(&[(FIRST, &[made("/a"), made("/b")]), (SECOND, &[made("/c")])]);
    assert_eq!(range(&store, "..").unwrap(), (after(SECOND, 0), Point::Now));
    assert_eq!(
        range(&store, "20260116T10:1..1").unwrap(),
        (after(FIRST, 1), after(SECOND, 1))
    );
    assert_eq!(
        range(&store, "1..").unwrap(),
        (after(SECOND, 1), Point::Now)
    );
    for text in ["now..last", "1..0", "last"] {
        assert!(
            matches!(range(&store, text), Err(Error::Usage { .. })),
            "{text}"
        );
    }
}

/// Writes a journal whose records have the given times.
fn timed(dir: &Path, id: &str, times: &[&str]) {
    let at = dir.join(".trumanfs/sessions").join(id);
    fs::create_dir_all(&at).unwrap();
    let line = |(i, time): (usize, &&str)| {
        format!(
            "{{\"v\":1,\"seq\":{},\"time\":\"{time}\",\"op\":\"end\",\"prev\":\"{}\"}}\n",
            i + 1,
            "0".repeat(64)
        )
    };
    let text: String = times.iter().enumerate().map(line).collect();
    fs::write(at.join("journal.jsonl"), text).unwrap();
}

#[test]
fn time_means_the_last_record_not_later() {
    let dir = tempfile::tempdir().unwrap();
    let times: Vec<String> = (0..50)
        .map(|i| format!("2026-01-16T10:{i:02}:00.000000Z"))
        .collect();
    let times: Vec<&str> = times.iter().map(String::as_str).collect();
    timed(dir.path(), FIRST, &times);
    timed(dir.path(), SECOND, &["2026-01-16T12:00:00.000000Z"]);
    fs::create_dir_all(dir.path().join(".trumanfs/sessions").join(THIRD)).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let now = DateTime::parse_from_rfc3339("2026-01-16T13:00:00Z")
        .unwrap()
        .to_utc();
    for minute in 0..50 {
        let expected = after(FIRST, minute + 1);
        for second in [0, 59] {
            let text = format!("2026-01-16 10:{minute:02}:{second:02}");
            assert_eq!(point_at(&store, &text, now).unwrap(), expected, "{text}");
        }
    }
    for (text, expected) in [
        ("2026-01-16 11:59", after(FIRST, 50)),
        ("2026-01-16T13:00:00+01:00", after(SECOND, 1)),
        ("-59m", after(SECOND, 1)),
        ("-61m", after(FIRST, 50)),
        ("-0s", after(SECOND, 1)),
        ("2026-01-15", after(FIRST, 0)),
        ("-52w", after(FIRST, 0)),
        ("2026-01-17", after(SECOND, 1)),
    ] {
        assert_eq!(point_at(&store, text, now).unwrap(), expected, "{text}");
    }
}

#[test]
fn checkpoint_names_with_another_meaning_are_refused() {
    for name in [
        "",
        "now",
        "last",
        "12",
        "-1h",
        "2026-01-16",
        "a..b",
        "a:1",
        "20260116T1",
        "+x",
    ] {
        assert!(is_taken(name), "{name}");
    }
    for name in ["green", "before the merge", "v1.2", "2026", "step-3"]
        .iter()
        .filter(|n| **n != "2026")
    {
        assert!(!is_taken(name), "{name}");
    }
}

#[test]
fn points_are_in_order() {
    assert!(after(FIRST, 9) < after(SECOND, 0) && after(SECOND, 0) < after(SECOND, 1));
    assert!(after(THIRD, 9) < Point::Now);
    assert!(after(SECOND, 1).includes(FIRST, 99) && after(SECOND, 1).includes(SECOND, 1));
    assert!(!after(SECOND, 1).includes(SECOND, 2) && !after(SECOND, 1).includes(THIRD, 1));
}

#[test]
fn last_session_is_the_last_mounted_one() {
    let begin = |home: Option<&str>| Op::Begin {
        session: String::new(),
        version: String::new(),
        host: String::new(),
        boot: String::new(),
        home: home.map(|home| crate::name::EscapedBytes(home.as_bytes().to_vec())),
        store: None,
        after: None,
        copied: None,
        mounted: None,
    };
    let (_dir, store) = store(&[
        (FIRST, &[begin(Some("/home")), made("/a")]),
        (SECOND, &[begin(None), made("/b")]),
    ]);
    assert_eq!(session(&store, "last").unwrap(), FIRST);
    assert_eq!(operation(&store, "2").unwrap().session, FIRST);
}
