//! What an answer leaves out: a tool and a resource read the rest, within bounds.

use serde_json::{Value, json};

use super::server::{ERAS, Era, Server, text};
use crate::common::need_mount;

/// Reads a resource. Returns its text and what is said of it.
fn read(server: &mut Server, uri: &str) -> Option<(String, Value)> {
    let answer = server.ask("resources/read", json!({"uri": uri}));
    let contents = &answer["result"]["contents"][0];
    let text = contents["text"].as_str()?;
    Some((text.to_owned(), contents["_meta"].clone()))
}

#[test]
fn the_rest_of_a_long_output_is_read_by_a_tool_and_as_a_resource() {
    need_mount!();
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    for era in ERAS {
        for shell in ["bundled", "bash"] {
            let store = tempfile::tempdir().unwrap();
            std::fs::write(store.path().join("big"), &lines).unwrap();
            let more = ["--shell", shell, "--max-tokens", "500"];
            let mut server = Server::start_usual(era, store.path(), &more);
            let result = server.call("bash", json!({"command": "cat big; cat big nothing >&2"}));
            let data = &result["structuredContent"];
            let said = text(&result);
            assert!(said.starts_with("line 0\nline 1\n"), "{said}");
            let stdout = data["stdout"].as_str().unwrap();
            assert!(
                stdout.ends_with("\nline 19999\n") && stdout.len() < 2200,
                "{stdout}"
            );
            assert_eq!(data["truncated_stdout"], true, "{data}");
            assert_eq!(data["notes"].as_array().unwrap().len(), 2, "{data}");
            assert!(
                data["bound"].is_null() && data["limits"].is_null(),
                "{data}"
            );
            let (session, run) = (
                data["session"].as_str().unwrap(),
                data["run"].as_str().unwrap(),
            );
            let uri = format!("trumanfs://session/{session}/output/{run}");
            for (number, stream) in [(1, "stdout"), (2, "stderr")] {
                let link = &result["content"][number];
                assert_eq!(link["type"], "resource_link", "{result}");
                assert_eq!(link["uri"], format!("{uri}/{stream}"));
                let size = link["size"].as_u64().unwrap();
                assert!(size >= lines.len() as u64, "{link}");
                assert!(
                    said.contains(&format!("the resource {uri}/{stream}]")),
                    "{said}"
                );
            }
            // By the resource, in parts that name the next one.
            let (mut whole, mut parts) = (String::new(), 0);
            while whole.len() < lines.len() {
                let name = format!("{uri}/stdout?offset={}", whole.len());
                let (part, meta) = read(&mut server, &name).unwrap();
                assert!(
                    !part.is_empty() && part.len() <= 2000,
                    "{} bytes",
                    part.len()
                );
                whole.push_str(&part);
                assert_eq!(meta["next_offset"], whole.len());
                assert_eq!(meta["total"], lines.len());
                parts += 1;
            }
            assert!(whole == lines && parts >= lines.len() / 2000);
            let (part, _) = read(&mut server, &format!("{uri}?offset=5&limit=3")).unwrap();
            assert_eq!(part, "0\nl");
            // By the tool, from where the answer was cut.
            let offset = said.split("\"offset\": ").nth(1).unwrap();
            let offset: usize = offset.split(['}', ',']).next().unwrap().parse().unwrap();
            let (part, of_part) = server.does("bash_output", json!({"job": run, "offset": offset}));
            let shown = of_part["stdout"].as_str().unwrap();
            assert!(
                lines[offset..].starts_with(shown) && shown.len() > 1000,
                "{part}"
            );
            assert_eq!(of_part["next_offset"], offset + shown.len());
            assert!(part.contains("go on with \"offset\""), "{part}");
            let end = json!({"job": run, "offset": lines.len() - 4, "stream": "stdout"});
            assert!(
                server
                    .does("bash_output", end)
                    .0
                    .starts_with("999\n[bytes ")
            );
            let beyond = json!({"job": run, "offset": 1_u64 << 40});
            assert_eq!(server.does("bash_output", beyond).1["stdout"], "");
            let stderr = json!({"job": run, "offset": lines.len(), "stream": "stderr"});
            let (part, _) = server.does("bash_output", stderr);
            assert!(part.contains("nothing: No such file"), "{part}");
            // It is listed, and its template.
            let listed = server.ask("resources/list", json!({}))["result"].to_string();
            assert!(listed.contains(&format!("{uri}/stderr")), "{listed}");
            let templates = server.ask("resources/templates/list", json!({}));
            let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
            let wanted = "trumanfs://session/{session}/output/{run}/{stream}{?offset,limit}";
            assert_eq!(template, wanted, "{templates}");
            // What has no such name is not there.
            let (_, other) = server.does("bash", json!({"command": "true", "session": session}));
            let short = other["run"].as_str().unwrap();
            for name in [
                format!("trumanfs://session/{session}/output/{short}"),
                format!("trumanfs://session/x/output/{run}"),
                format!("{uri}/stdin"),
                format!("{uri}/stdout/more"),
                format!("{uri}?offset=-1"),
                format!("{uri}?offset=99999999999999999999999"),
                format!("{uri}?path=/etc/passwd"),
                format!("trumanfs://session/{session}/output/"),
                format!("trumanfs://session/{session}/input/{run}"),
            ] {
                assert!(read(&mut server, &name).is_none(), "{name}");
            }
            let none = server.fails("bash_output", json!({"job": short, "offset": 0}));
            assert!(none.contains("no output is kept"), "{none}");
            server.finish();
        }
    }
}

#[test]
fn searches_and_programs_keep_what_is_left_out_as_well() {
    need_mount!();
    let (dir, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, "seq: {arguments: text}\n").unwrap();
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(store.path().join("big"), lines).unwrap();
    let more = ["--policy", policy.to_str().unwrap(), "--max-tokens", "500"];
    let more = [
        &more[..],
        &["--tools", "grep,bash_output,run_seq,read_text_file"],
    ]
    .concat();
    let mut server = Server::start(Era::Sessions, store.path(), &more);
    for (tool, arguments, end) in [
        ("grep", json!({"pattern": "line"}), "./big:5000:line 4999\n"),
        ("run_seq", json!({"args": ["9000"]}), "9000\n"),
    ] {
        let result = server.call(tool, arguments);
        let link = &result["content"][1];
        let size = link["size"].as_u64().unwrap_or_else(|| panic!("{result}"));
        let offset = size - end.len() as u64;
        let uri = format!("{}?offset={offset}", link["uri"].as_str().unwrap());
        assert_eq!(read(&mut server, &uri).unwrap().0, end);
        let run = result["structuredContent"]["run"].clone();
        let (said, _) = server.does("bash_output", json!({"job": run, "offset": offset}));
        assert!(
            said.starts_with(end) && said.contains(": the end]"),
            "{said}"
        );
    }
    // A file is read on by its lines.
    let (said, _) = server.does("read_text_file", json!({"path": "big"}));
    assert!(said.contains("offset and limit"), "{said}");
    server.finish();
}

/// A client of before links in answers is told by the text alone.
#[test]
fn links_are_for_clients_that_know_them() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("big"), "line\n".repeat(1000)).unwrap();
    let more = ["--shell", "bundled", "--max-tokens", "100"];
    let mut server = Server::start_silent(Era::Sessions, store.path(), &more);
    let params = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}});
    let opened = server.ask("initialize", params);
    assert_eq!(
        opened["result"]["protocolVersion"], "2025-03-26",
        "{opened}"
    );
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let result = server.call("bash", json!({"command": "cat big"}));
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    assert!(text(&result).contains("bash_output"), "{result}");
    server.finish();
}

/// What is kept is bounded: 16 MiB of a stream, 64 MiB of all, the oldest dropped first.
#[test]
fn kept_outputs_do_not_grow_without_bound() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("big"), "x".repeat(20 << 20)).unwrap();
    let mut server = Server::start_usual(Era::Sessions, store.path(), &["--shell", "bundled"]);
    let mut runs = Vec::new();
    for _ in 0..8 {
        let (said, data) = server.does("bash", json!({"command": "cat big"}));
        assert!(said.contains("its first 16 MiB are kept"), "{}", said.len());
        runs.push(data["run"].clone());
    }
    let memory = server.status_field("VmHWM") >> 10;
    assert!(memory < 250, "{memory} MiB");
    let first = server.fails("bash_output", json!({"job": runs[0], "offset": 0}));
    assert!(first.contains("newer outputs"), "{first}");
    let last = json!({"job": runs[7], "offset": (16 << 20) - 10});
    let (_, data) = server.does("bash_output", last);
    assert_eq!(data["stdout"], "x".repeat(10));
    let beyond = json!({"job": runs[7], "offset": 16 << 20});
    let (said, _) = server.does("bash_output", beyond);
    assert!(said.contains("only the first 16 MiB"), "{said}");
    // Nothing of it lies in the store.
    let (found, _) = server.does("bash", json!({"command": "ls -A"}));
    assert_eq!(
        found,
        ".trash\n.trumanfs\nbig\n"
            .replace(".trumanfs\n", "")
            .replace(".trash\n", "")
    );
    server.finish();
}
