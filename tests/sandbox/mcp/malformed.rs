//! What no client should send: each of it is answered with an error, and the next line counts.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{ERAS, Era, Server};
use crate::common::need_mount;

/// Lines that are answered with an error, and that of each the error's code has to be one of these.
fn lines() -> Vec<(Vec<u8>, &'static [i64])> {
    const PARSE: &[i64] = &[-32700];
    const REQUEST: &[i64] = &[-32600];
    let mut lines: Vec<(Vec<u8>, &[i64])> = Vec::new();
    for text in [
        "{",
        "}",
        "]",
        "nonsense",
        "{\"a\":}",
        "{\"jsonrpc\":\"2.0\",\"id\":1",
        "\"",
        "[1,",
        "nul",
        "{'a': 1}",
        "\u{1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} and more",
        "{\"a\":\"\\ud800\"}",
        "01",
        "1e",
        "+1",
        "<html>",
        "GET / HTTP/1.1",
        "Content-Length: 20",
    ] {
        lines.push((text.into(), PARSE));
    }
    lines.push((b"\xff\xfe{}".to_vec(), PARSE));
    lines.push((
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}".to_vec(),
        PARSE,
    ));
    lines.push((b"{\"a\":\"\0\"}".to_vec(), PARSE));
    lines.push(("[".repeat(50_000).into_bytes(), PARSE));
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}1{}}}",
        "{\"a\":".repeat(5000),
        "}".repeat(5000)
    );
    lines.push((deep.into_bytes(), PARSE));
    for value in [
        json!(null),
        json!(true),
        json!(1),
        json!("text"),
        json!([]),
        json!({}),
        json!([1, 2]),
        json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
        json!({"id": 1, "method": "ping"}),
        json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
        json!({"jsonrpc": 2.0, "id": 1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
        json!({"jsonrpc": "2.0", "id": 1, "method": null}),
        json!({"jsonrpc": "2.0", "id": 1, "method": {}}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": true, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": [], "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0"}),
        json!({"jsonrpc": "2.0", "method": 5}),
    ] {
        lines.push((value.to_string().into_bytes(), REQUEST));
    }
    lines.push((format!("\"{}\"", "x".repeat(9 << 20)).into_bytes(), REQUEST));
    lines
}

/// Requests that are as JSON-RPC has them, and not as the protocol does.
fn requests() -> Vec<(&'static str, Value)> {
    let mut requests = vec![
        ("", json!({})),
        ("tools", json!({})),
        ("tools/nothing", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        ("logging/setLevel", json!({"level": "debug"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}),
        ),
        ("tasks/get", json!({"taskId": "x"})),
        ("sampling/createMessage", json!({})),
        ("roots/list", json!({})),
        ("notifications/cancelled", json!({"requestId": 1})),
        ("resources/read", json!({})),
        ("resources/read", json!({"uri": 5})),
        ("resources/read", json!({"uri": ""})),
        ("resources/read", json!({"uri": "trumanfs://session/x/log"})),
        (
            "resources/read",
            json!({"uri": "trumanfs://session/../../etc/passwd"}),
        ),
        (
            "resources/subscribe",
            json!({"uri": "trumanfs://session/x/log"}),
        ),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": null})),
        ("tools/call", json!({"name": ""})),
        ("tools/call", json!({"name": "no such tool"})),
        ("tools/call", json!({"name": "bash", "arguments": []})),
        ("tools/call", json!({"name": "bash", "arguments": "ls"})),
        ("tools/call", json!({"name": "bash", "arguments": 5})),
    ];
    for name in [
        "../bash",
        "BASH",
        "bash ",
        "bash\0",
        "run_",
        "run_bash",
        "initialize",
    ] {
        requests.push(("tools/call", json!({"name": name, "arguments": {}})));
    }
    requests
}

/// Arguments of tools that are not as their schemas have them: the tool says so.
fn arguments() -> Vec<(&'static str, Value)> {
    let wrong = [
        json!(null),
        json!(5),
        json!([]),
        json!({}),
        json!(true),
        json!(1.5),
    ];
    let mut calls = Vec::new();
    for (tool, name, rest) in [
        ("bash", "command", json!({})),
        ("bash", "timeout", json!({"command": "true"})),
        ("read_text_file", "path", json!({})),
        ("read_text_file", "head", json!({"path": "a"})),
        ("write_file", "content", json!({"path": "a"})),
        ("write_file", "path", json!({"content": "a"})),
        ("edit_file", "edits", json!({"path": "a"})),
        (
            "edit_file",
            "path",
            json!({"old_string": "a", "new_string": "b"}),
        ),
        ("list_directory", "path", json!({})),
        ("search_files", "pattern", json!({})),
        ("grep", "pattern", json!({})),
        ("grep", "output_mode", json!({"pattern": "a"})),
        ("move_file", "source", json!({"destination": "a"})),
        ("copy_file", "destination", json!({"source": "a"})),
        ("remove", "path", json!({})),
        ("history", "limit", json!({})),
        ("undo", "run", json!({})),
        ("bash_output", "job", json!({})),
        ("bash_kill", "job", json!({})),
    ] {
        for value in &wrong {
            // These are as they should be.
            let is_right = matches!(
                (tool, name, value),
                ("bash", "timeout", Value::Number(_))
                    | ("read_text_file", "head", _)
                    | ("history", "limit", Value::Number(_))
                    | ("undo", "run", Value::Null)
            ) || (name == "timeout" && value.is_null());
            if !is_right {
                let mut arguments = rest.clone();
                arguments[name] = value.clone();
                calls.push((tool, arguments));
            }
        }
    }
    calls.extend([
        ("bash", json!({"command": "true", "timeout": -1})),
        ("bash", json!({"command": "true", "timeout": 120_000})),
        ("bash", json!({"command": "true", "more": 1})),
        ("bash", json!({"command": "true", "session": 5})),
        (
            "bash",
            json!({"command": "true", "session": "x".repeat(100_000)}),
        ),
        ("edit_file", json!({"path": "a", "old_string": "x"})),
        (
            "edit_file",
            json!({"path": "a", "edits": [], "old_string": "x", "new_string": "y"}),
        ),
        (
            "edit_file",
            json!({"path": "a", "edits": [{"oldText": "x"}]}),
        ),
        ("edit_file", json!({"path": "a", "edits": []})),
        ("read_text_file", json!({"path": "a", "head": 1, "tail": 1})),
        ("read_text_file", json!({"path": ""})),
        ("read_text_file", json!({"path": "a\0b"})),
        ("read_text_file", json!({"path": "x".repeat(10_000)})),
        ("write_file", json!({"path": "..", "content": ""})),
        (
            "write_file",
            json!({"path": ".trumanfs/lock", "content": ""}),
        ),
        ("remove", json!({"path": "/"})),
        ("remove", json!({"path": "."})),
        ("grep", json!({"pattern": "("})),
        ("search_files", json!({"pattern": "*", "path": "/etc"})),
        ("undo", json!({"run": "last"})),
    ]);
    calls
}

#[test]
fn two_hundred_malformed_requests_end_nothing() {
    need_mount!();
    let mut count = 0;
    for era in ERAS {
        let store = tempfile::tempdir().unwrap();
        let mut server = Server::start(era, store.path(), &[]);
        let is_well = |server: &mut Server| {
            let (text, _) = server.does("bash", json!({"command": "echo well"}));
            assert_eq!(text, "well\n");
        };
        is_well(&mut server);
        for (line, codes) in lines() {
            server.send_line(&line);
            let answer = server.message(Duration::from_secs(20));
            let shown = String::from_utf8_lossy(&line[..line.len().min(100)]).into_owned();
            let answer = answer.unwrap_or_else(|| panic!("{era:?}: {shown}: no answer"));
            let code = answer["error"]["code"].as_i64().unwrap_or_default();
            assert!(codes.contains(&code), "{era:?}: {shown}: {answer}");
            count += 1;
        }
        is_well(&mut server);
        for (method, params) in requests() {
            let answer = server.ask(method, params.clone());
            assert!(
                answer["error"]["code"].is_i64(),
                "{era:?}: {method} {params}: {answer}"
            );
            count += 1;
        }
        is_well(&mut server);
        for (tool, arguments) in arguments() {
            let told = server.fails(tool, arguments.clone());
            assert!(!told.is_empty(), "{era:?}: {tool} {arguments}");
            count += 1;
        }
        // What asks for no answer gets none.
        for notification in [
            json!({"jsonrpc": "2.0", "method": "notifications/nothing"}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "x"}}),
        ] {
            server.send(&notification);
            count += 1;
        }
        is_well(&mut server);
        assert_eq!(server.notifications, Vec::<Value>::new());
        server.finish();
    }
    assert!(count >= 400, "{count}");
}

/// A caller waits for the answer with its id, so what cannot be read has it where it can be.
#[test]
fn an_unreadable_request_is_answered_with_its_id() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(ERAS[0], store.path(), &[]);
    let long = "x".repeat(9 << 20);
    let head = "\"jsonrpc\":\"2.0\",\"method\":\"tools/call\"";
    let call = |text: &str| {
        format!(
            "\"params\":{{\"name\":\"bash\",\"arguments\":{{\"id\":99,\"command\":\"{text}\"}}}}"
        )
    };
    for (line, id, code) in [
        (
            format!("{{{head},\"id\":71,{}}}", call("echo \\ud83d")),
            json!(71),
            -32700,
        ),
        (
            format!(
                "{{\"id\":\"a\\u0041\\\"b\",{head},{}}}",
                call("\\udc00\\ud800 x")
            ),
            json!("aA\"b"),
            -32700,
        ),
        (
            format!("{{{head},{},\"id\":72}}", call("echo \\ud83d")),
            json!(72),
            -32700,
        ),
        (
            format!(" {{ \"id\" : 73 , {head},{} }} and more", call("x")),
            json!(73),
            -32700,
        ),
        (
            format!("{{{head},\"id\":74,{}}}", call(&long)),
            json!(74),
            -32600,
        ),
        (
            format!("{{\"id\":\"big\",{head},{}}}", call(&long)),
            json!("big"),
            -32600,
        ),
        (
            format!("{{{head},{},\"id\":75}}", call(&long)),
            json!(75),
            -32600,
        ),
        (
            format!(
                "{{{head},\"id\":76,\"params\":{{\"a\":[{}1]}}}}",
                "1,".repeat(200_000)
            ),
            json!(76),
            -32602,
        ),
        (
            format!(
                "{{{head},\"id\":77,\"params\":{}1{}}}",
                "{\"a\":".repeat(5000),
                "}".repeat(5000)
            ),
            json!(77),
            -32700,
        ),
        // No id can be read, or it is none.
        (
            format!("{{{head},\"id\":1.5,{}}}", call("\\ud83d")),
            json!(null),
            -32700,
        ),
        (
            format!("{{{head},\"id\":\"\\ud83d\",{}}}", call("x")),
            json!(null),
            -32700,
        ),
        (
            format!("{{{head},\"id\":1,\"id\":2,{}}}", call("\\ud83d")),
            json!(null),
            -32700,
        ),
        (
            format!("{{\"params\":{{\"id\":78,\"x\":\"\\ud83d\"}},{head}}}"),
            json!(null),
            -32700,
        ),
        (
            format!("[{{\"id\":79,{head},{}}}]", call("\\ud83d")),
            json!(null),
            -32700,
        ),
    ] {
        server.send_line(line.as_bytes());
        let answer = server.message(Duration::from_secs(20)).unwrap();
        let shown = &line[..line.len().min(100)];
        assert_eq!(answer["id"], id, "{shown}: {answer}");
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    }
    let (text, _) = server.does("bash", json!({"command": "echo well"}));
    assert_eq!(text, "well\n");
    server.finish();
}

/// Before a client has said which era it speaks, too.
#[test]
fn a_client_that_begins_with_nonsense_is_served_all_the_same() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start_silent(Era::Sessions, store.path(), &[]);
    for line in [
        "nonsense",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":4}}",
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"initialize\",\"params\":{\"protocolVersion\":5}}",
    ] {
        server.send_line(line.as_bytes());
    }
    for _ in 0..3 {
        let answer = server.message(Duration::from_secs(20)).unwrap();
        assert!(answer["error"]["code"].is_i64(), "{answer}");
    }
    for version in ["2024-11-05", "1999-01-01", "2025-06-18"] {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = server.ask("initialize", params);
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
    }
    let (text, _) = server.does("bash", json!({"command": "echo well"}));
    assert_eq!(text, "well\n");
    server.finish();
}
