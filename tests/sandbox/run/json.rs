//! The fields of an outcome, against `docs/JSON.md` and against what the specification names.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::Place;
use crate::common::{need_mount, repository};

/// The fields of an object of `docs/JSON.md`: each one's kind, which ends in `?` where the field may be missing.
fn documented(object: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(repository().join("docs/JSON.md")).unwrap();
    let section = text
        .split("\n### ")
        .find(|section| section.lines().next() == Some(object))
        .unwrap_or_else(|| panic!("docs/JSON.md has no {object}"));
    let mut fields = BTreeMap::new();
    for line in section.lines().filter_map(|line| line.strip_prefix("    ")) {
        let declared = line.split(" // ").next().unwrap();
        let (names, kind) = declared.split_once(": ").unwrap();
        for name in names.split(", ") {
            let (name, kind) = match name.strip_suffix('?') {
                Some(name) => (name, format!("{kind}?")),
                None => (name, kind.to_owned()),
            };
            fields.insert(name.to_owned(), kind);
        }
    }
    fields
}

fn fits(kind: &str, value: &Value) -> bool {
    match kind.trim_end_matches('?') {
        "text" => value.is_string(),
        "number" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "list" | "held host[]" | "refused host[]" => value.is_array(),
        kind => panic!("docs/JSON.md: {kind}"),
    }
}

/// Checks that an object has the fields of the page, and no others.
#[track_caller]
pub(super) fn is_as_documented(object: &str, value: &Value) {
    let fields = documented(object);
    let value = value.as_object().unwrap();
    for (name, value) in value {
        let kind = fields
            .get(name)
            .unwrap_or_else(|| panic!("{object}: {name} is not documented"));
        assert!(fits(kind, value), "{object}: {name} is {value}, not {kind}");
    }
    for (name, kind) in &fields {
        assert!(
            kind.ends_with('?') || value.contains_key(name),
            "{object}: no {name}"
        );
    }
}

/// An object with a key twice is read by some programs as having the first, by others as having the last.
fn keys_are_unique(text: &str) {
    struct Strict;
    impl<'de> serde::de::Visitor<'de> for Strict {
        type Value = ();
        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut seen = std::collections::BTreeSet::new();
            while let Some((key, _)) = map.next_entry::<String, Value>()? {
                if !seen.insert(key.clone()) {
                    return Err(serde::de::Error::custom(format!("{key} stands twice")));
                }
            }
            Ok(())
        }
    }
    use serde::Deserializer;
    let mut reader = serde_json::Deserializer::from_str(text);
    if let Err(error) = reader.deserialize_map(Strict) {
        panic!("{error}: {text}");
    }
}

/// The names of the specification (`run`, and what else the executors have in common, besides).
const SPECIFIED: &[&str] = &[
    "status",
    "return_code",
    "stdout",
    "stderr",
    "command",
    "working_directory",
    "duration_ms",
    "truncated_stdout",
    "truncated_stderr",
    "suppress_success_output",
];

#[test]
fn outcomes_and_audit_lines_are_as_documented() {
    need_mount!();
    let place = Place::mounted();
    let mut ended = Vec::new();
    for (options, words) in [
        (&[][..], &["true"][..]),
        (&[], &["sh", "-c", "echo x; echo y >file; exit 3"]),
        (&[], &["rm", "x"]),
        (&["--cwd", "/etc"], &["true"]),
        (&["--env", "X=y"], &["true"]),
        (&[], &["sleep", "5"]),
        (&[], &["gone"]),
        (
            &["--max-bytes", "3"],
            &[
                "sh",
                "-c",
                "echo long enough; echo \"$0 \\\" \\\\ \u{1b}[0m \u{fffe}\"",
            ],
        ),
    ] {
        let output = place.run(&[&["--json"], options].concat(), words);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        keys_are_unique(&text);
        let outcome: Value = serde_json::from_str(&text).unwrap();
        is_as_documented("run", &outcome);
        for name in SPECIFIED {
            assert!(outcome.get(name).is_some(), "{name}: {outcome}");
        }
        assert_eq!(
            output.status.code(),
            outcome["return_code"]
                .as_i64()
                .and_then(|c| c.try_into().ok())
        );
        ended.push(outcome);
    }
    let text = fs::read_to_string(place.home.store().join(".trumanfs/audit.jsonl")).unwrap();
    assert_eq!(text.lines().count(), ended.len());
    for (line, outcome) in text.lines().zip(&ended) {
        keys_are_unique(line);
        let line: Value = serde_json::from_str(line).unwrap();
        is_as_documented("audit line", &line);
        for name in [
            "run",
            "status",
            "return_code",
            "verdict",
            "rule",
            "argv",
            "command",
            "error_message",
        ] {
            assert_eq!(line.get(name), outcome.get(name), "{name}: {line}");
        }
        assert_eq!(line["cwd"], outcome["working_directory"], "{line}");
        let is_refused = outcome["status"] == "blocked";
        assert_eq!(line.get("event").is_some(), is_refused, "{line}");
        assert_eq!(line["verdict"], if is_refused { "deny" } else { "allow" });
    }
}
