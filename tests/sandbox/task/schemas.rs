//! The JSON Schemas in `docs/schemas`: real documents are valid by them, and they agree with the readers about changed ones.
//!
//! The check here knows the keywords that the schemas use, and fails on any other; Python's jsonschema, where it is
//! installed, looks at the same documents.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use regex_automata::meta::Regex;
use serde_json::{Map, Value, json};
use trumanfs::exec::task::batch_lease::{BatchLease, MAX_MANIFESTS};
use trumanfs::exec::task::envelope::Envelope;
use trumanfs::exec::task::failure_reason::FailureReason;
use trumanfs::exec::task::lease::Lease;
use trumanfs::exec::task::manifest::{Capability, Manifest, TaskInputs};
use trumanfs::exec::task::result::TaskResult;
use trumanfs::exec::task::stream_request::StreamRequest;

use super::host::Host;
use crate::common::{COMMAND_LIMIT, describe, repository, run_limited};
use crate::need::skip;

/// A schema of `docs/schemas`.
pub(super) struct Schema {
    root: Value,
    patterns: RefCell<HashMap<String, Regex>>,
}

impl Schema {
    pub(super) fn read(name: &str) -> Schema {
        let file = repository().join("docs/schemas").join(name);
        let text = fs::read_to_string(file).unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        assert!(root["$schema"].as_str().unwrap().contains("2020-12"));
        Schema {
            root,
            patterns: RefCell::default(),
        }
    }

    pub(super) fn allows(&self, value: &Value) -> bool {
        self.fits(&self.root, value)
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let schema = schema.as_object().unwrap();
        schema
            .iter()
            .all(|(keyword, rule)| self.obeys(schema, keyword, rule, value))
    }

    fn obeys(&self, schema: &Map<String, Value>, word: &str, rule: &Value, value: &Value) -> bool {
        let each = |rules: &Value| -> usize {
            let rules = rules.as_array().unwrap();
            rules.iter().filter(|rule| self.fits(rule, value)).count()
        };
        let items = value.as_array();
        let count = |least: bool| {
            let limit = usize::try_from(rule.as_u64().unwrap()).unwrap();
            items.is_none_or(|items| {
                if least {
                    items.len() >= limit
                } else {
                    items.len() <= limit
                }
            })
        };
        match word {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let at = rule.as_str().unwrap().strip_prefix('#').unwrap();
                self.fits(self.root.pointer(at).unwrap(), value)
            }
            "oneOf" => each(rule) == 1,
            "anyOf" => each(rule) > 0,
            "not" => !self.fits(rule, value),
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "null" => value.is_null(),
                "integer" => value.is_u64() || value.is_i64(),
                other => panic!("type {other}"),
            },
            "minimum" => value
                .as_i64()
                .is_none_or(|number| number >= rule.as_i64().unwrap()),
            "maximum" => value
                .as_u64()
                .is_none_or(|number| number <= rule.as_u64().unwrap()),
            "maxLength" => {
                let limit = usize::try_from(rule.as_u64().unwrap()).unwrap();
                value
                    .as_str()
                    .is_none_or(|text| text.chars().count() <= limit)
            }
            "pattern" => {
                let text = rule.as_str().unwrap();
                let mut patterns = self.patterns.borrow_mut();
                let made = || Regex::new(text).unwrap();
                let pattern = patterns.entry(text.to_owned()).or_insert_with(made);
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "items" => items.is_none_or(|items| items.iter().all(|item| self.fits(rule, item))),
            "minItems" => count(true),
            "maxItems" => count(false),
            "uniqueItems" => items
                .is_none_or(|items| (1..items.len()).all(|at| !items[..at].contains(&items[at]))),
            "required" => value.as_object().is_none_or(|members| {
                let mut names = rule.as_array().unwrap().iter();
                names.all(|name| members.contains_key(name.as_str().unwrap()))
            }),
            "properties" => value.as_object().is_none_or(|members| {
                let rules = rule.as_object().unwrap();
                let mut known = rules.iter();
                known.all(|(name, rule)| {
                    members.get(name).is_none_or(|value| self.fits(rule, value))
                })
            }),
            "additionalProperties" => {
                assert_eq!(rule, &json!(false));
                let known = schema["properties"].as_object().unwrap();
                value
                    .as_object()
                    .is_none_or(|members| members.keys().all(|name| known.contains_key(name)))
            }
            other => panic!("this check does not know {other}"),
        }
    }
}

/// Returns the pointers to all members and items below a value.
fn places(value: &Value, at: &str, into: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, value)| (at.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{at}/{name}");
        places(child, &path, into);
        into.push(path);
    }
}

/// Returns documents that differ from a good one in one place.
fn changed(good: &Value) -> Vec<(String, Value)> {
    let (mut paths, mut all) = (Vec::new(), Vec::new());
    places(good, "", &mut paths);
    for path in &paths {
        let others = [
            json!(null),
            json!(true),
            json!(-1),
            json!(""),
            json!("a b"),
            json!([]),
            json!({}),
            json!("/w/../a"),
            json!(1_u64 << 60),
            json!("x".repeat(5000)),
        ];
        for other in others {
            let mut document = good.clone();
            *document.pointer_mut(path).unwrap() = other.clone();
            all.push((format!("{path} = {:.40}", other.to_string()), document));
        }
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut document = good.clone();
        if let Some(Value::Object(members)) = document.pointer_mut(parent) {
            members.remove(name);
            all.push((format!("without {path}"), document));
        }
    }
    for path in paths.iter().map(String::as_str).chain([""]) {
        let mut document = good.clone();
        if let Some(Value::Object(members)) = document.pointer_mut(path) {
            members.insert("more".to_owned(), json!(1));
            all.push((format!("{path} and more"), document));
        }
    }
    all
}

/// Fails where the schema and the reader do not agree about a good document, or one that differs from it in one place.
fn agree(name: &str, good: &[Value], reads: impl Fn(&[u8]) -> bool) {
    let schema = Schema::read(name);
    for good in good {
        assert!(schema.allows(good), "{name}: {good}");
        assert!(reads(good.to_string().as_bytes()), "{name}: {good}");
        for (what, document) in changed(good) {
            // The id of a result stands in its output again, which no schema can say.
            if what.contains("/task_id = \"/w") && name == "result.json" {
                continue;
            }
            let read = reads(document.to_string().as_bytes());
            assert_eq!(
                schema.allows(&document),
                read,
                "{name}: {what}: {document:.400}"
            );
        }
    }
}

fn payload(envelope: &str) -> Value {
    let envelope = Envelope::parse(envelope.trim_end().as_bytes()).unwrap();
    serde_json::from_slice(&envelope.payload).unwrap()
}

/// The documents of real tasks, each with the schema that it belongs to.
struct RealDocuments {
    manifests: Vec<Value>,
    leases: Vec<Value>,
    results: Vec<Value>,
    requests: Vec<Value>,
    answers: Vec<Value>,
}

impl RealDocuments {
    fn make(host: &Host) -> RealDocuments {
        let (a, b, c) = (host.write("a", "x"), host.path("b"), host.path("c"));
        let mut documents = RealDocuments {
            manifests: Vec::new(),
            leases: Vec::new(),
            results: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
        };
        let (mut stream, mut move_answer) = (host.stream(), String::new());
        for (id, capability, paths) in [
            ("move", "FILE_MOVE", vec![&*a, &b]),
            ("copy", "FILE_COPY", vec![&b, &c]),
            ("gone", "FILE_COPY", vec![&a, &c]),
            ("remove", "FILE_DELETE", vec![&c]),
        ] {
            let manifest = host.manifest(id, capability, &paths);
            let lease = host.sign(&host.lease(id, &manifest));
            let line = host.line(&manifest, &lease);
            let answer = stream.ask(&line);
            documents
                .manifests
                .push(serde_json::from_slice(&manifest).unwrap());
            documents
                .leases
                .push(payload(std::str::from_utf8(&lease).unwrap()));
            documents
                .requests
                .push(serde_json::from_str(&line).unwrap());
            documents.results.push(payload(&answer));
            documents
                .answers
                .push(serde_json::from_str(&answer).unwrap());
            if id == "move" {
                move_answer = answer;
                documents.results.push(payload(&stream.ask("no request")));
            }
        }
        let line = host.undo_line("back", &move_answer);
        let answer = stream.ask(&line);
        documents
            .requests
            .push(serde_json::from_str(&line).unwrap());
        documents.results.push(payload(&answer));
        stream.end();
        documents
    }
}

#[test]
fn schemas_agree_with_the_readers() {
    let host = Host::new();
    let documents = RealDocuments::make(&host);
    agree("manifest.json", &documents.manifests, |text| {
        let Ok(manifest) = Manifest::parse(text) else {
            return false;
        };
        let Some(capability) = Capability::parse(&manifest.capability_id) else {
            return false;
        };
        let may =
            capability != Capability::FileDelete || manifest.constraints.reversible == Some(true);
        may && TaskInputs::read(capability, &manifest.inputs).is_ok()
    });
    agree("lease.json", &documents.leases[..1], |text| {
        Lease::parse(text).is_ok()
    });
    let mut list = documents.leases[0].clone();
    let members = list.as_object_mut().unwrap();
    for member in ["task_id", "manifest_sha256", "max_uses"] {
        members.remove(member);
    }
    list["manifests"] = json!(["0".repeat(64), "1".repeat(64)]);
    agree("batch-lease.json", &[list.clone()], |text| {
        BatchLease::parse(text).is_ok()
    });
    for count in [1, MAX_MANIFESTS, MAX_MANIFESTS + 1] {
        let digests = (0..count).map(|number| format!("{number:064x}"));
        list["manifests"] = digests.collect();
        let read = BatchLease::parse(list.to_string().as_bytes()).is_ok();
        assert_eq!(
            Schema::read("batch-lease.json").allows(&list),
            read,
            "{count}"
        );
    }
    list["manifests"] = json!(["0".repeat(64), "0".repeat(64)]);
    assert!(!Schema::read("batch-lease.json").allows(&list));
    agree("result.json", &documents.results, |text| {
        TaskResult::parse(text).is_ok()
    });
    agree("stream-answer.json", &documents.answers[..1], |text| {
        Envelope::parse(text)
            .is_ok_and(|envelope| envelope.payload_type.as_str().contains("result"))
    });
    // A lease in a line is read later, so that what is wrong with it is answered under the ids of its task.
    let schema = Schema::read("stream-request.json");
    for request in &documents.requests {
        assert!(schema.allows(request), "{request}");
        assert!(StreamRequest::parse(request.to_string().as_bytes()).is_ok());
    }
    for bad in [
        json!({}),
        json!({"manifest": {}, "lease": {}}),
        json!({"manifest": "{}", "lease": {}, "more": 1}),
        json!({"undo": {}, "lease": documents.requests[0]["lease"]}),
        json!({"undo": "{}", "manifest": "{}", "lease": documents.requests[0]["lease"]}),
        json!([]),
    ] {
        assert!(!schema.allows(&bad), "{bad}");
    }
}

#[test]
fn schema_of_results_lists_every_reason() {
    let schema = Schema::read("result.json");
    let failure = |code: &str, reason: &str| {
        json!({"v": 1, "task_id": "t", "capability_id": "", "status": "FAILURE",
            "error": {"code": code, "reason": reason, "message": ""}, "executor": "files", "started_at": 1, "finished_at": 1,
            "manifest_sha256": "", "lease_id": "", "prev": "0".repeat(64)})
    };
    for reason in FailureReason::ALL {
        let result = failure(reason.code().as_str(), reason.as_str());
        assert!(schema.allows(&result), "{result}");
        for other in FailureReason::ALL {
            let result = failure(other.code().as_str(), reason.as_str());
            assert_eq!(
                schema.allows(&result),
                reason.fits(other.code()),
                "{result}"
            );
        }
    }
    assert!(!schema.allows(&failure("EXECUTION_FAILED", "other")));
}

#[test]
fn jsonschema_finds_real_documents_valid() {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", "import jsonschema; jsonschema.Draft202012Validator"]);
    if !run_limited(command, COMMAND_LIMIT).status.success() {
        skip!("jsonschema", "python3 has no jsonschema");
    }
    let host = Host::new();
    let documents = RealDocuments::make(&host);
    let all = json!({
        "manifest.json": documents.manifests, "lease.json": documents.leases, "result.json": documents.results,
        "stream-request.json": documents.requests, "stream-answer.json": documents.answers,
    });
    let file = host.dir.join("documents.json");
    fs::write(&file, all.to_string()).unwrap();
    let script = "
import json, pathlib, sys
from jsonschema import Draft202012Validator as Validator
for name, documents in json.load(open(sys.argv[2])).items():
    schema = json.loads((pathlib.Path(sys.argv[1]) / name).read_text())
    Validator.check_schema(schema)
    assert documents
    for document in documents:
        Validator(schema).validate(document)
        assert not Validator(schema).is_valid([document]) and not Validator(schema).is_valid({**document, 'more': 1})
";
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c", script])
        .arg(repository().join("docs/schemas"))
        .arg(file);
    let output = run_limited(command, COMMAND_LIMIT);
    assert!(output.status.success(), "{}", describe(&output));
}
