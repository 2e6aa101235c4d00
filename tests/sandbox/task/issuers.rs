//! The issuers of `examples/issuers`, in Python and in TypeScript: what they sign, the executor carries out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::host::{Host, Stream};
use crate::common::{COMMAND_LIMIT, describe, repository, run_limited};
use crate::need::skip;

/// A program that issues tasks, and its private key.
struct ExampleIssuer {
    program: Vec<PathBuf>,
    key: PathBuf,
}

impl ExampleIssuer {
    fn ask(&self, words: &[&str]) -> Value {
        let mut command = Command::new(&self.program[0]);
        command
            .args(&self.program[1..])
            .arg(words[0])
            .arg(&self.key);
        command.args(&words[1..]);
        let output = run_limited(command, COMMAND_LIMIT);
        assert!(output.status.success(), "{}", describe(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Has a task issued and carried out. Returns the reason of its failure, or `SUCCESS`.
    fn does(&self, host: &Host, stream: &mut Stream, capability: &str, paths: &[&str]) -> String {
        let base = host.base.to_str().unwrap();
        let words = [&["task", "files", base, capability], paths].concat();
        let answer = stream.ask(&self.ask(&words).to_string());
        let payload = host.read(&answer).to_payload().unwrap();
        let result: Value = serde_json::from_slice(&payload).unwrap();
        let reason = result["error"]["reason"].as_str();
        reason
            .unwrap_or_else(|| result["status"].as_str().unwrap())
            .to_owned()
    }
}

fn script(name: &str) -> PathBuf {
    repository().join("examples/issuers").join(name)
}

/// Issues tasks with a key that the issuer makes, and with one that trumanfs has made.
fn try_issuer(program: &[&Path]) {
    let host = Host::new();
    let (a, b, c) = (host.write("a", "x"), host.path("b"), host.path("c"));
    host.kernel.save(&host.dir.join("kernel.key")).unwrap();
    let issuer = |key: &str| ExampleIssuer {
        program: program.iter().map(|part| part.to_path_buf()).collect(),
        key: host.dir.join(key),
    };
    let (made, known) = (issuer("made.key"), issuer("kernel.key"));
    let entry = made.ask(&["key"]);
    assert_eq!(made.ask(&["key"])["keyid"], entry["keyid"]);
    assert_eq!(known.ask(&["key"])["keyid"], host.kernel.keyid());
    let mut stream = host.stream();
    assert_eq!(
        made.does(&host, &mut stream, "FILE_COPY", &[&a, &b]),
        "lease_untrusted"
    );
    let file = host.dir.join("trust.json");
    let mut trust: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    trust["keys"].as_array_mut().unwrap().push(entry);
    fs::write(&file, json!(trust).to_string()).unwrap();
    for issuer in [&made, &known] {
        let mut does =
            |capability, paths: &[&str]| issuer.does(&host, &mut stream, capability, paths);
        assert_eq!(does("FILE_COPY", &[&a, &b]), "SUCCESS");
        assert_eq!(does("FILE_COPY", &[&a, &b]), "exists");
        assert_eq!(does("FILE_MOVE", &[&b, &c]), "SUCCESS");
        assert_eq!(does("FILE_DELETE", &[&c]), "SUCCESS");
        assert_eq!(does("FILE_DELETE", &["/etc/passwd"]), "outside");
    }
    stream.end();
    let log = host.log();
    assert_eq!(
        (&log["problems"], &log["successes"]),
        (&json!([]), &json!(6))
    );
}

#[test]
fn an_issuer_in_python_signs_tasks() {
    let python = repository().join("target/pynacl/bin/python");
    if !python.exists() {
        skip!(
            "pynacl",
            "`tests/store/get_pynacl target/pynacl` has not been run, or not for this user"
        );
    }
    try_issuer(&[&python, &script("issuer.py")]);
}

#[test]
fn an_issuer_in_typescript_signs_tasks() {
    let flag = Path::new("--experimental-strip-types");
    let own = repository().join("target/package-tools/node_modules/node-linux/bin/node");
    let takes_types = |node: &Path| {
        let mut command = Command::new(node);
        command.arg(flag).arg("--version");
        node.exists() && run_limited(command, COMMAND_LIMIT).status.success()
    };
    let nodes = [own, PathBuf::from("/usr/bin/node")];
    let Some(node) = nodes.iter().find(|node| takes_types(node)) else {
        skip!("package-tools", "there is no Node that takes TypeScript");
    };
    try_issuer(&[node, flag, Path::new("--no-warnings"), &script("issuer.ts")]);
}
