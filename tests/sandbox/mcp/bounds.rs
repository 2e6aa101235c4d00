//! What goes on at once is bounded, whatever a client sends, and whether it reads or not.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{ERAS, Era, LIMIT, Server, text};
use crate::common::need_mount;

/// How many requests go on at once.
const AT_ONCE: usize = 128;
/// The code of the refusal.
const BUSY: i64 = -32000;

/// A store beside a policy that lets lines sleep.
struct Place {
    _dir: tempfile::TempDir,
    store: PathBuf,
    policy: String,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, "sleep: {arguments: text}\n").unwrap();
    Place {
        store,
        policy: policy.to_str().unwrap().to_owned(),
        _dir: dir,
    }
}

impl Place {
    fn start(&self, era: Era) -> Server {
        Server::start(era, &self.store, &["--policy", &self.policy])
    }
}

/// Begins a line that sleeps, in a session of its own: whoever asks for that session waits. Returns its request and the session.
fn asleep(server: &mut Server) -> (u64, Value) {
    let (_, first) = server.does("bash", json!({"command": "true"}));
    let session = first["session"].clone();
    let sleeps = server.begin(
        "bash",
        json!({"command": "echo x > begun; sleep 600", "session": session}),
    );
    let until = Instant::now() + LIMIT;
    loop {
        let begun = server.call("read_text_file", json!({"path": "begun"}));
        if text(&begun) == "x\n" {
            return (sleeps, session);
        }
        assert!(Instant::now() < until, "the line does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All messages that come until nothing has come for so long.
fn all(server: &mut Server, quiet: Duration) -> Vec<Value> {
    std::iter::from_fn(|| server.message(quiet)).collect()
}

#[test]
fn fifty_at_once_are_answered_and_more_than_a_server_takes_are_refused() {
    need_mount!();
    for era in ERAS {
        let place = place();
        let mut server = place.start(era);
        let asked: Vec<(u64, usize)> = (0..50)
            .map(|n| {
                let line = format!("echo {n} > f{n}; cat f{n}");
                (server.begin("bash", json!({"command": line})), n)
            })
            .collect();
        for (id, n) in asked {
            let answer = server.answer(id);
            assert_eq!(
                answer["result"]["structuredContent"]["stdout"],
                format!("{n}\n"),
                "{answer}"
            );
        }
        // One sleeps, the others wait for its session: all slots are taken for as long as it sleeps.
        let (sleeps, session) = asleep(&mut server);
        let asked: Vec<u64> = (0..200)
            .map(|n| {
                let line = format!("echo {n}");
                server.begin("bash", json!({"command": line, "session": session}))
            })
            .collect();
        let refused: BTreeSet<u64> = (0..asked.len() - (AT_ONCE - 1))
            .map(|_| {
                let answer = server.message(LIMIT).expect("a refusal");
                assert_eq!(answer["error"]["code"], BUSY, "{answer}");
                answer["id"].as_u64().unwrap()
            })
            .collect();
        assert_eq!(refused, asked[AT_ONCE - 1..].iter().copied().collect());
        // Nothing else can be asked meanwhile, and who says so again is told so again.
        let more = server.ask("tools/call", json!({"name": "history", "arguments": {}}));
        assert_eq!(more["error"]["code"], BUSY, "{more}");
        server.cancel(sleeps);
        let mut answered = BTreeSet::new();
        for message in all(&mut server, Duration::from_secs(3)) {
            let id = message["id"].as_u64();
            let id = id.unwrap_or_else(|| panic!("nobody asked: {message}"));
            let n = asked.iter().position(|asked| *asked == id);
            let n = n.unwrap_or_else(|| panic!("nobody waits for it: {message}"));
            assert_eq!(
                message["result"]["structuredContent"]["stdout"],
                format!("{n}\n"),
                "{message}"
            );
            assert!(answered.insert(id), "answered twice: {message}");
        }
        assert_eq!(answered, asked[..AT_ONCE - 1].iter().copied().collect());
        // The same id twice.
        let (sleeps, session) = asleep(&mut server);
        let waits = json!({"command": "echo once", "session": session});
        let id = server.begin("bash", waits);
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let twice = server.answer(id);
        assert_eq!(twice["error"]["code"], -32600, "{twice}");
        server.cancel(sleeps);
        let once = server.answer(id);
        assert_eq!(once["result"]["structuredContent"]["stdout"], "once\n");
        server.finish();
    }
}

/// Each left a thread behind that nobody counted, up to the runtime's bound, and behind that a queue without any.
#[test]
fn calls_that_were_taken_back_count_until_they_have_ended() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    let files: Vec<String> = (0..500).map(|n| format!("f{n}")).collect();
    let (_, made) = server.does(
        "bash",
        json!({"command": format!("touch {}", files.join(" "))}),
    );
    // What has begun to be planned is planned to its end.
    let undo = json!({"run": made["run"], "dryRun": true});
    let mut asked: Vec<u64> = (0..AT_ONCE)
        .map(|_| server.begin("undo", undo.clone()))
        .collect();
    // They have been handed on by now.
    let until = Instant::now() + LIMIT;
    while server.status_field("Threads") < 40 {
        assert!(Instant::now() < until, "they do not begin");
    }
    for id in asked.drain(..) {
        server.cancel(id);
    }
    let asked: BTreeSet<u64> = (0..300)
        .map(|_| server.begin("undo", undo.clone()))
        .collect();
    // A call may have ended before it was taken back: its answer comes first.
    let is_late = |message: &Value| !asked.contains(&message["id"].as_u64().unwrap());
    let mut refused = server.message(LIMIT).unwrap();
    while is_late(&refused) {
        refused = server.message(LIMIT).unwrap();
    }
    assert_eq!(refused["error"]["code"], BUSY, "{refused}");
    // They end, and then there is room.
    let until = Instant::now() + LIMIT;
    loop {
        let call = json!({"name": "bash", "arguments": {"command": "echo well"}});
        let answer = server.ask("tools/call", call);
        if answer["result"]["structuredContent"]["stdout"] == "well\n" {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
    server.finish();
}

/// 128 messages of 16 MiB could wait.
#[test]
fn what_requests_hold_together_is_bounded() {
    need_mount!();
    let place = place();
    let mut server = place.start(Era::Sessions);
    let (sleeps, session) = asleep(&mut server);
    // They sleep too: once the first line has become a job, the next one has the session.
    let line = format!("sleep 600 #{}", "x".repeat(7 << 20));
    let asked: Vec<u64> = (0..11)
        .map(|_| server.begin("bash", json!({"command": line, "session": session})))
        .collect();
    // The last one is refused, and those before it have been read then.
    let mut refused = Vec::new();
    while refused.last() != asked.last() {
        let message = server.message(LIMIT).unwrap();
        if let Some(code) = message["error"]["code"].as_i64() {
            assert_eq!(code, BUSY, "{message}");
            refused.push(message["id"].as_u64().unwrap());
        }
    }
    assert!((2..=5).contains(&refused.len()), "{refused:?} of {asked:?}");
    server.does("read_text_file", json!({"path": "begun"}));
    let memory = server.status_field("VmHWM") >> 10;
    assert!(memory < 400, "{memory} MiB");
    for id in asked.into_iter().chain([sleeps]) {
        server.cancel(id);
    }
    let next = json!({"command": "echo let in", "session": session});
    assert_eq!(server.does("bash", next).0, "let in\n");
    server.finish();
}

/// A session could hold 256 MiB, and there are 64.
#[test]
fn the_variables_of_a_session_are_bounded() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("big"), "x".repeat(3 << 20)).unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &["--shell", "bundled"]);
    let (told, _) = server.does("bash", json!({"command": "A=1; B=$(cat big); C=3"}));
    assert!(told.contains("forgotten: the variable B;"), "{told}");
    let (told, _) = server.does(
        "bash",
        json!({"command": "echo $A,$B,$C; D=$(head -c 900000 big)"}),
    );
    assert_eq!(told, "1,,3\n");
    let (told, _) = server.does("bash", json!({"command": "echo $D | wc -c"}));
    assert_eq!(told, "900001\n");
    let large = server.fails("bash", json!({"command": "X=$(cat big big big big big big big big big big big big big big big big big big big big big big); Y=$X"}));
    assert!(large.contains("more than 64 MiB"), "{large}");
    server.finish();
}

/// Each run was looked for from the newest record on, twice.
#[test]
fn the_history_of_many_runs_is_one_way_back() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    let mut runs = Vec::new();
    for run in 0..20 {
        let files: Vec<String> = (0..100).map(|n| format!("f{run}_{n}")).collect();
        let (_, data) = server.does(
            "bash",
            json!({"command": format!("touch {}", files.join(" "))}),
        );
        runs.push(data["run"].clone());
    }
    let before = server.has_read();
    let (told, data) = server.does("history", json!({}));
    let read = server.has_read() - before;
    let listed = data["runs"].as_array().unwrap();
    let named: Vec<Value> = listed.iter().map(|run| run["run"].clone()).rev().collect();
    assert_eq!(named, runs, "{told}");
    for (number, run) in listed.iter().enumerate() {
        assert_eq!(run["changed"], 100);
        assert_eq!(run["changes"][0], format!("A /f{}_0", 19 - number));
    }
    let journal = |entry: std::fs::DirEntry| {
        std::fs::metadata(entry.path().join("journal.jsonl")).map_or(0, |meta| meta.len())
    };
    let sessions = std::fs::read_dir(store.path().join(".trumanfs/sessions")).unwrap();
    let length: u64 = sessions.map(|entry| journal(entry.unwrap())).sum();
    assert!(read < 8 * length, "{read} bytes of journals of {length}");
    // More than there are to ask for.
    let (_, data) = server.does("history", json!({"limit": 1_000_000}));
    assert_eq!(data["runs"].as_array().unwrap().len(), 20);
    // Each undo takes the last one back that has not been.
    for run in 0..3 {
        let (_, data) = server.does("undo", json!({}));
        assert_eq!(data["undone"], runs[19 - run]);
    }
    // The resource says the same, the oldest first.
    let session = data["session"].as_str().unwrap();
    let uri = format!("trumanfs://session/{session}/log");
    let log = server.ask("resources/read", json!({"uri": uri}));
    let log = log["result"]["contents"][0]["text"].as_str().unwrap();
    let (first, last) = (log.find("A /f0_0\n"), log.find("D /f17_99\n"));
    assert!(first.is_some() && first < last, "{log}");
    server.finish();
}

/// A short text that stands in a file a million times, and a long one for it.
#[test]
fn an_edit_does_not_grow_without_bound() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("a"), "a".repeat(1 << 20)).unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    let long = "b".repeat(1 << 20);
    let large = server.fails(
        "edit_file",
        json!({"path": "a", "old_string": "a", "new_string": long, "replace_all": true}),
    );
    assert!(large.contains("larger than 16 MiB"), "{large}");
    // What leaves is bounded like any other text, also where it has a shape.
    let result = server.call(
        "edit_file",
        json!({"path": "a", "old_string": "a", "new_string": "b", "replace_all": true}),
    );
    let diff = result["structuredContent"]["diff"].as_str().unwrap();
    assert!(diff.len() < 50_000, "{} bytes of difference", diff.len());
    assert!(diff.contains("bytes left out]"));
    server.finish();
}
