//! What a model is shown of the tools: few, short, with what does not work; and what a refusal says to do instead.

use serde_json::{Value, json};

use super::server::{ERAS, Era, LIMIT, Server, TOOLS};
use crate::common::need_mount;

/// The largest number of tools that are offered where nobody chooses, and of bytes of their list.
const MAX_TOOLS: usize = 12;
const MAX_BYTES: usize = 9 * 1024;

fn listed(server: &mut Server) -> Vec<Value> {
    let answer = server.ask("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array();
    tools.unwrap_or_else(|| panic!("{answer}")).clone()
}

/// A policy with so many programs of long names.
fn wide_policy(dir: &std::path::Path) -> String {
    let entries: Vec<String> = (0..300)
        .map(|n| format!("program-of-some-long-name-{n}: {{flags: [--one, --two]}}\n"))
        .collect();
    let file = dir.join("wide.yaml");
    std::fs::write(&file, entries.concat()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// 52 tools took 61 KB of a model's context.
#[test]
fn twelve_tools_in_nine_kibibytes_are_offered_with_and_without_a_policy() {
    need_mount!();
    let dir = tempfile::tempdir().unwrap();
    let wide = wide_policy(dir.path());
    for era in ERAS {
        for more in [
            &[][..],
            &["--shell", "bundled"],
            &["--policy", "default"],
            &["--policy", "development", "--net", "none"],
            &["--policy", "production"],
            &["--policy", &wide],
        ] {
            let store = tempfile::tempdir().unwrap();
            let mut server = Server::start_usual(era, store.path(), more);
            let answer = server.ask("tools/list", json!({}));
            let size = answer["result"].to_string().len();
            let tools = answer["result"]["tools"].as_array().unwrap();
            assert!(tools.len() <= MAX_TOOLS, "{more:?}: {} tools", tools.len());
            assert!(size <= MAX_BYTES, "{more:?}: {size} bytes");
            server.finish();
        }
    }
}

/// Says whether a schema has a key anywhere, other than as the name of a property.
fn has_key(schema: &Value, key: &str) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let below = properties.into_iter().flat_map(|all| all.values());
    schema.contains_key(key)
        || below
            .chain(schema.get("items"))
            .any(|below| has_key(below, key))
}

#[test]
fn schemas_have_nothing_that_a_model_need_not_read() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let offered = format!("{TOOLS},run_git");
    let more = ["--policy", "default", "--tools", &offered];
    let mut server = Server::start(Era::Sessions, store.path(), &more);
    let tools = listed(&mut server);
    assert_eq!(tools.len(), 15);
    for tool in &tools {
        for key in ["$schema", "title", "format", "default", "oneOf"] {
            assert!(!has_key(&tool["inputSchema"], key), "{key}: {tool}");
        }
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        assert!(
            properties
                .values()
                .all(|property| property["type"].is_string()),
            "{tool}"
        );
    }
    // A shape is there where an answer has more than a text.
    let shaped = tools.iter().filter(|tool| tool["outputSchema"].is_object());
    let mut shaped: Vec<&str> = shaped.map(|tool| tool["name"].as_str().unwrap()).collect();
    shaped.sort_unstable();
    let expected = [
        "bash",
        "bash_output",
        "history",
        "list_directory",
        "run_git",
        "undo",
    ];
    assert_eq!(shaped, expected);
    server.finish();
}

#[test]
fn programs_of_the_policy_are_named_where_lines_are_described() {
    need_mount!();
    let (dir, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, "git: {subcommands: {status: {}}}\nwc: {}\n").unwrap();
    let more = ["--policy", policy.to_str().unwrap()];
    let mut server = Server::start_usual(Era::Sessions, store.path(), &more);
    let description = |server: &mut Server| {
        let tools = listed(server);
        let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
        bash["description"].as_str().unwrap().to_owned()
    };
    let said = description(&mut server);
    assert!(
        said.contains("git wc") && said.contains("Not: loops"),
        "{said}"
    );
    // A tool that is there, and not offered, is called so.
    for (name, wanted) in [
        ("run_git", "`--tools`"),
        ("move_file", "`--tools`"),
        ("run_x", "no tool"),
    ] {
        let answer = server.ask("tools/call", json!({"name": name, "arguments": {}}));
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains(wanted), "{name}: {answer}");
    }
    // The policy may change.
    std::fs::write(&policy, "git: {subcommands: {status: {}}}\nsort: {}\n").unwrap();
    let until = std::time::Instant::now() + LIMIT;
    while !description(&mut server).contains("git sort") {
        assert!(std::time::Instant::now() < until, "it is listed as it was");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    server.finish();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start_usual(Era::Sessions, store.path(), &["--shell", "bash"]);
    let said = description(&mut server);
    assert!(
        said.contains("in bash") && said.contains("no network"),
        "{said}"
    );
    server.finish();
}

#[test]
fn a_refusal_of_the_bundled_shell_says_what_to_do_instead() {
    need_mount!();
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small.yaml");
    std::fs::write(&small, "wc: {}\n").unwrap();
    for (more, wanted) in [
        (&["--policy", "default"][..], "python3 FILE"),
        (
            &["--policy", small.to_str().unwrap()],
            "`--shell bash` instead of the policy",
        ),
        (&["--shell", "bundled"], "`--shell bash`"),
    ] {
        let store = tempfile::tempdir().unwrap();
        let mut server = Server::start_usual(Era::Sessions, store.path(), more);
        for line in [
            "for i in 1 2; do echo $i; done",
            "nosuchprogram",
            "echo $((1+1))",
        ] {
            let result = server.call("bash", json!({"command": line}));
            let said = super::server::text(&result);
            let notes = result["structuredContent"]["notes"].to_string();
            assert!(notes.contains("[instead: "), "{result}");
            assert!(
                said.contains("[instead: ") && said.contains(wanted),
                "{line}: {said}"
            );
        }
        // Nothing is said of what is no matter of the shell.
        for line in ["cat nothing", "echo 'command not found'", "echo ("] {
            let result = server.call("bash", json!({"command": line}));
            let said = super::server::text(&result);
            assert!(!said.contains("[instead"), "{line}: {said}");
        }
        server.finish();
    }
    // That is a way.
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start_usual(Era::Sessions, store.path(), &["--policy", "default"]);
    let script = "for i in range(2):\n    print(i)\n";
    server.does("write_file", json!({"path": "loop.py", "content": script}));
    let (said, _) = server.does("bash", json!({"command": "python3 loop.py"}));
    assert_eq!(said, "0\n1\n");
    server.finish();
}
