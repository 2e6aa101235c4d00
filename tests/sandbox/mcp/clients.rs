//! Clients that are not ours: the official SDKs for Python and for TypeScript, and the inspector. And the published schema.
//!
//! `tests/sandbox/mcp/get_clients target/mcp-clients` gets them, as CI does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{ERAS, Era, Server, TOOLS};
use crate::common::{binary, describe, need_mount, repository, run_limited, skip};

const POLICY: &str = "
git: {subcommands: {init: {flags: [-q]}, status: {flags: [--short]}}}
pytest: {flags: [-q]}
sleep: {arguments: text}
";

/// Where the clients are, if somebody has got them, and this user may run them.
fn clients() -> Option<PathBuf> {
    let place = repository().join("target/mcp-clients");
    let mut python = Command::new(place.join("python/bin/python"));
    let runs = python.args(["-c", "import mcp"]).output();
    let inspector = place.join("node_modules/.bin/mcp-inspector");
    let schema = place.join("schema/2026-07-28.json");
    (inspector.exists() && schema.exists() && runs.is_ok_and(|output| output.status.success()))
        .then_some(place)
}

macro_rules! need_clients {
    () => {
        match clients() {
            Some(place) => place,
            None => skip!(
                "mcp-clients",
                "`tests/sandbox/mcp/get_clients target/mcp-clients` has not been run, or not for this user"
            ),
        }
    };
}

fn script(name: &str) -> PathBuf {
    repository().join("tests/sandbox/mcp").join(name)
}

/// A store in which git has begun, with its policy beside it.
fn store(dir: &Path) -> PathBuf {
    let store = dir.join("store");
    fs::create_dir(&store).unwrap();
    fs::write(dir.join("store.policy"), POLICY).unwrap();
    let mut git = Command::new("git");
    git.args(["init", "-q"]).arg(&store);
    assert!(git.status().unwrap().success());
    store
}

#[test]
fn the_sdk_for_python_works_in_a_home() {
    need_mount!();
    let clients = need_clients!();
    for era in ["sessions", "stateless"] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let mut client = Command::new(clients.join("python/bin/python"));
        client
            .arg(script("client.py"))
            .arg(era)
            .arg(binary())
            .arg(&store);
        let output = run_limited(client, Duration::from_secs(120));
        assert!(output.status.success(), "{era}: {}", describe(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "all of it\n");
    }
}

#[test]
fn the_sdk_for_typescript_works_in_a_home() {
    need_mount!();
    let clients = need_clients!();
    for era in ["sessions", "stateless"] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let mut client = Command::new("node");
        client.arg(script("client.mjs")).arg(era).arg(binary());
        client.arg(&store).arg(&clients);
        let output = run_limited(client, Duration::from_secs(120));
        assert!(output.status.success(), "{era}: {}", describe(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "all of it\n");
    }
}

#[test]
fn both_sdks_work_with_lines_in_a_real_shell() {
    need_mount!();
    let clients = need_clients!();
    for era in ["sessions", "stateless"] {
        for name in ["shell_client.py", "shell_client.mjs"] {
            let store = tempfile::tempdir().unwrap();
            let mut client = match name.ends_with(".py") {
                true => Command::new(clients.join("python/bin/python")),
                false => Command::new("node"),
            };
            client.arg(script(name)).arg(era).arg(binary());
            client.arg(store.path());
            if name.ends_with(".mjs") {
                client.arg(&clients);
            }
            let output = run_limited(client, Duration::from_secs(120));
            assert!(
                output.status.success(),
                "{name}, {era}: {}",
                describe(&output)
            );
            assert_eq!(String::from_utf8_lossy(&output.stdout), "all of it\n");
        }
    }
}

#[test]
fn the_inspector_works_in_a_home() {
    need_mount!();
    let clients = need_clients!();
    for era in ["legacy", "modern"] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        fs::write(store.join("a.txt"), "one\ntwo\n").unwrap();
        let ask = |words: &[&str]| -> Value {
            let mut inspector = Command::new(clients.join("node_modules/.bin/mcp-inspector"));
            inspector.arg("--cli").arg(binary());
            inspector.args(["serve", "mcp", "--root"]).arg(&store);
            inspector
                .arg("--policy")
                .arg(dir.path().join("store.policy"));
            inspector.args(["--tools", &format!("{TOOLS},run_git,run_pytest")]);
            inspector
                .args(["--protocol-era", era, "--method"])
                .args(words);
            // Its own files do not go into anybody's home.
            inspector.env("HOME", dir.path()).stdin(Stdio::null());
            let output = run_limited(inspector, Duration::from_secs(60));
            assert!(
                output.status.success(),
                "{era}: {words:?}: {}",
                describe(&output)
            );
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let call = |tool: &str, arguments: &[&str]| -> Value {
            let mut words = vec!["tools/call", "--tool-name", tool];
            for argument in arguments {
                words.extend(["--tool-arg", argument]);
            }
            ask(&words)
        };
        let tools = ask(&["tools/list", "--strict"]);
        assert!(tools["tools"].as_array().unwrap().len() > 15, "{tools}");
        let edited = call(
            "edit_file",
            &["path=a.txt", "old_string=two", "new_string=zwei"],
        );
        assert!(
            edited["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("+zwei"),
            "{edited}"
        );
        assert_eq!(
            fs::read_to_string(store.join("a.txt")).unwrap(),
            "one\nzwei\n"
        );
        let status = call("run_git", &["args=[\"status\", \"--short\"]"]);
        assert_eq!(
            status["structuredContent"]["stdout"], "?? a.txt\n",
            "{status}"
        );
        let removed = call("remove", &["path=a.txt"]);
        assert!(
            removed["structuredContent"]["trash"].is_string(),
            "{removed}"
        );
        assert!(!store.join("a.txt").exists());
    }
}

/// Asks for everything that a server answers, rightly and wrongly, and returns what came: what was asked for, and the message.
fn everything(era: Era, root: &Path) -> Vec<Value> {
    let policy = root.with_extension("policy");
    let tools = format!("{TOOLS},run_git");
    let policy = policy.to_str().unwrap();
    let more = ["--policy", policy, "--tools", &tools, "--max-tokens", "500"];
    let mut server = Server::start(era, root, &more);
    let mut seen = Vec::new();
    if let Some(opened) = server.opened.clone() {
        seen.push(json!({"method": "initialize", "message": opened}));
    }
    let mut ask = |method: &str, params: Value| {
        let tool = params["name"].clone();
        let message = server.ask(method, params);
        seen.push(json!({"method": method, "tool": tool, "message": message}));
        message
    };
    if era == Era::Stateless {
        ask("server/discover", json!({}));
    } else {
        ask("ping", json!({}));
    }
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    ask("tools/list", json!({}));
    ask("resources/list", json!({}));
    ask("resources/templates/list", json!({}));
    let first = ask(
        "tools/call",
        call("write_file", json!({"path": "a", "content": "x\n"})),
    );
    let session = first["result"]["structuredContent"]["session"].clone();
    for (tool, arguments) in [
        ("bash", json!({"command": "ls; nothing; cat a"})),
        ("bash", json!({"command": "while true"})),
        ("read_text_file", json!({"path": "a"})),
        (
            "edit_file",
            json!({"path": "a", "old_string": "x", "new_string": "y"}),
        ),
        ("list_directory", json!({})),
        ("search_files", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "y"})),
        ("copy_file", json!({"source": "a", "destination": "b"})),
        ("move_file", json!({"source": "b", "destination": "c"})),
        ("remove", json!({"path": "c"})),
        ("history", json!({})),
        ("undo", json!({})),
        ("bash_output", json!({"job": "none"})),
        ("run_git", json!({"args": ["status"]})),
        ("bash", json!({"no": "such argument"})),
        ("nothing", json!({})),
    ] {
        let mut arguments = arguments;
        arguments["session"] = session.clone();
        ask("tools/call", call(tool, arguments));
    }
    let big = json!({"path": "big", "content": "line\n".repeat(2000), "session": session});
    ask("tools/call", call("write_file", big));
    let long = json!({"command": "cat big", "session": session});
    let long = ask("tools/call", call("bash", long));
    let long = &long["result"]["content"];
    let uri = long[1]["uri"].as_str().unwrap_or_else(|| panic!("{long}"));
    ask("resources/read", json!({"uri": uri}));
    ask("resources/list", json!({}));
    let uri = format!("trumanfs://session/{}/diff", session.as_str().unwrap());
    let read = ask("resources/read", json!({"uri": uri}));
    let kind = &read["result"]["contents"][0]["mimeType"];
    assert_eq!(kind, "text/x-diff", "{read}");
    ask("resources/read", json!({"uri": "file:///etc/passwd"}));
    ask("tools/call", json!({"name": 5}));
    ask("prompts/list", json!({}));
    ask("no/such/method", json!({}));
    let slow = json!({
        "name": "bash",
        "arguments": {"command": "sleep 2.2"},
        "_meta": {"progressToken": "t"},
    });
    ask("tools/call", slow);
    let told = std::mem::take(&mut server.notifications);
    assert!(!told.is_empty(), "no progress was told");
    seen.extend(
        told.into_iter()
            .map(|message| json!({"method": null, "message": message})),
    );
    server.finish();
    seen
}

/// Messages that differ from seen ones in a single place, with the definition that must refuse each: a check that passes everything
/// would pass the seen ones as well.
fn spoiled(seen: &[Value]) -> Vec<Value> {
    let one = |found: &dyn Fn(&Value) -> bool| seen.iter().find(|line| found(line)).unwrap();
    let called = one(&|line| line["message"]["result"]["content"].is_array());
    let listed = one(&|line| line["message"]["result"]["tools"].is_array());
    let read = one(&|line| line["message"]["result"]["contents"].is_array());
    let refused = one(&|line| line["message"]["error"].is_object());
    let told = one(&|line| line["method"].is_null());
    let spoil = |(line, place, value, refused): (&Value, &str, Value, &str)| {
        let mut line = line.clone();
        *line["message"].pointer_mut(place).unwrap() = value;
        line["refused"] = json!(refused);
        line
    };
    let no_type = json!("no type");
    [
        (called, "/result/content/0/text", json!(5), "CallToolResult"),
        (
            listed,
            "/result/tools/0/name",
            json!(null),
            "ListToolsResult",
        ),
        (
            listed,
            "/result/tools/0/inputSchema/type",
            no_type,
            "ListToolsResult",
        ),
        (
            read,
            "/result/contents/0/uri",
            json!("no uri"),
            "ReadResourceResult",
        ),
        (refused, "/error/code", json!("-32601"), "JSONRPCMessage"),
        (
            told,
            "/params/progress",
            json!("half"),
            "ServerNotification",
        ),
    ]
    .map(spoil)
    .to_vec()
}

#[test]
fn each_message_is_as_the_published_schema_has_it() {
    need_mount!();
    let clients = need_clients!();
    for era in ERAS {
        let dir = tempfile::tempdir().unwrap();
        let seen = everything(era, &store(dir.path()));
        let spoiled = spoiled(&seen);
        let lines = seen.iter().chain(&spoiled);
        let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
        let file = dir.path().join("seen");
        fs::write(&file, lines.concat()).unwrap();
        let schema = match era {
            Era::Sessions => "schema/2025-11-25.json",
            Era::Stateless => "schema/2026-07-28.json",
        };
        let mut python = Command::new(clients.join("python/bin/python"));
        python.arg(script("schema.py")).arg(clients.join(schema));
        python.arg(&file);
        let output = run_limited(python, Duration::from_secs(60));
        assert!(output.status.success(), "{era:?}: {}", describe(&output));
        let count: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(count["refused"], spoiled.len(), "{count}");
        let sum = ["result", "error", "notification"].map(|kind| count[kind].as_u64().unwrap_or(0));
        assert_eq!(sum.iter().sum::<u64>(), seen.len() as u64, "{count}");
        assert!(sum.iter().all(|count| *count > 0), "{count}");
    }
}
