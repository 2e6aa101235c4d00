//! Many calls at once: nothing is lost, each is a run of its own, and each can be taken back by itself.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::server::{ERAS, Era, Server};
use crate::common::need_mount;

const CALLS: usize = 40;

fn content(store: &Path, name: &str) -> String {
    std::fs::read_to_string(store.join(name)).unwrap_or_default()
}

/// Waits for calls that must all succeed. Returns the run of each.
fn runs(server: &mut Server, calls: Vec<u64>) -> Vec<String> {
    let answers = calls
        .into_iter()
        .map(|id| server.answer(id)["result"].clone());
    let runs: Vec<String> = answers
        .map(|result| {
            assert_ne!(result["isError"], true, "{result}");
            let run = result["structuredContent"]["run"].as_str();
            run.unwrap_or_else(|| panic!("{result}")).to_owned()
        })
        .collect();
    let different: BTreeSet<&String> = runs.iter().collect();
    assert_eq!(different.len(), runs.len(), "{runs:?}");
    runs
}

/// The runs of a session, the newest first.
fn history(server: &mut Server, session: &Value) -> Vec<String> {
    let arguments = json!({"limit": 200, "session": session});
    let (_, data) = server.does("history", arguments);
    let runs = data["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run"].as_str().unwrap().to_owned())
        .collect()
}

/// The history was in the order in which calls ended, and the last one's undo met a conflict.
#[test]
fn forty_edits_of_one_file_at_once_are_all_there_and_can_each_be_taken_back() {
    need_mount!();
    for era in ERAS {
        let store = tempfile::tempdir().unwrap();
        let line = |n: usize, word: &str| format!("{n:02} {word}\n");
        let before: String = (0..CALLS).map(|n| line(n, "old")).collect();
        std::fs::write(store.path().join("one"), &before).unwrap();
        let mut server = Server::start_usual(era, store.path(), &[]);
        let (_, first) = server.does("read_text_file", json!({"path": "one"}));
        let session = &first["session"];
        let calls = (0..CALLS)
            .map(|n| {
                let (old, new) = (line(n, "old"), line(n, "new"));
                let edit = json!({"path": "one", "old_string": old, "new_string": new, "session": session});
                server.begin("edit_file", edit)
            })
            .collect();
        let runs = runs(&mut server, calls);
        let after: String = (0..CALLS).map(|n| line(n, "new")).collect();
        assert_eq!(content(store.path(), "one"), after);
        let newest = history(&mut server, session);
        assert_eq!(
            newest.iter().collect::<BTreeSet<_>>(),
            runs.iter().collect()
        );
        // Each undo takes back the line of its run, and no other.
        let mut expected: Vec<String> = (0..CALLS).map(|n| line(n, "new")).collect();
        for run in &newest {
            server.does("undo", json!({"run": run, "session": session}));
            let number = runs.iter().position(|known| known == run).unwrap();
            expected[number] = line(number, "old");
            assert_eq!(content(store.path(), "one"), expected.concat());
        }
        assert_eq!(content(store.path(), "one"), before);
        server.finish();
    }
}

#[test]
fn forty_edits_of_forty_files_at_once_are_taken_back_in_any_order() {
    need_mount!();
    for era in ERAS {
        let store = tempfile::tempdir().unwrap();
        let name = |n: usize| format!("f{n}");
        for n in 0..CALLS {
            std::fs::write(store.path().join(name(n)), format!("a{n}\nb\n")).unwrap();
        }
        let mut server = Server::start_usual(era, store.path(), &[]);
        let (_, first) = server.does("list_directory", json!({}));
        let session = &first["session"];
        let calls = (0..CALLS)
            .map(|n| {
                let edit = json!({"path": name(n), "old_string": "b", "new_string": n.to_string(), "session": session});
                server.begin("edit_file", edit)
            })
            .collect();
        let runs = runs(&mut server, calls);
        let edited = |n: usize| format!("a{n}\n{n}\n");
        for n in 0..CALLS {
            assert_eq!(content(store.path(), &name(n)), edited(n));
        }
        // 7 and 40 have no divisor in common.
        for n in (0..CALLS).map(|n| n * 7 % CALLS) {
            server.does("undo", json!({"run": runs[n], "session": session}));
            assert_eq!(content(store.path(), &name(n)), format!("a{n}\nb\n"));
        }
        server.finish();
    }
}

#[test]
fn forty_lines_at_once_in_several_sessions_are_all_there_and_can_each_be_taken_back() {
    need_mount!();
    const SESSIONS: usize = 8;
    for shell in ["bundled", "bash"] {
        let store = tempfile::tempdir().unwrap();
        let more = ["--shell", shell];
        let mut server = Server::start_usual(Era::Stateless, store.path(), &more);
        let sessions: Vec<Value> = (0..SESSIONS)
            .map(|_| server.does("bash", json!({"command": "true"})).1["session"].clone())
            .collect();
        let calls = (0..CALLS)
            .map(|n| {
                let of = n % SESSIONS;
                let line = format!("echo {n} >> log{of}; echo {n} > f{n}; X=$X.{n}; echo $X");
                server.begin("bash", json!({"command": line, "session": sessions[of]}))
            })
            .collect();
        let runs = runs(&mut server, calls);
        for (of, session) in sessions.iter().enumerate() {
            // Lines of a session run in turn, in some order.
            let log = content(store.path(), &format!("log{of}"));
            let order: Vec<usize> = log.lines().map(|n| n.parse().unwrap()).collect();
            let sorted: BTreeSet<usize> = order.iter().copied().collect();
            assert_eq!(
                sorted,
                (of..CALLS).step_by(SESSIONS).collect(),
                "{shell}: {log}"
            );
            let (said, _) = server.does("bash", json!({"command": "echo $X", "session": session}));
            let words: String = order.iter().map(|n| format!(".{n}")).collect();
            assert_eq!(said, format!("{words}\n"), "{shell}");
            // Its history has its own runs, the newest first, and each undo is exact.
            let newest = history(&mut server, session);
            let expected = order.iter().rev().map(|n| runs[*n].clone());
            assert_eq!(newest, expected.collect::<Vec<_>>(), "{shell}");
            for (left, number) in (0..order.len()).rev().zip(order.iter().rev()) {
                server.does("undo", json!({"run": runs[*number], "session": session}));
                let rest: String = order[..left].iter().map(|n| format!("{n}\n")).collect();
                assert_eq!(content(store.path(), &format!("log{of}")), rest, "{shell}");
                assert!(
                    !store.path().join(format!("f{number}")).exists(),
                    "{shell}: f{number}"
                );
            }
        }
        server.finish();
    }
}
