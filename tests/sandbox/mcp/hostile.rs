//! A client that wants to break out, to break the server, or to break what others have.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{ERAS, Era, LIMIT, Server, text};
use crate::common::calls::{mkfifo, mknod};
use crate::common::{describe, need_mount, trumanfs};

/// All tools that take a path, with that path.
fn with(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_text_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "hostile"})),
        (
            "edit_file",
            json!({"path": path, "old_string": "a", "new_string": "b"}),
        ),
        ("list_directory", json!({"path": path})),
        ("move_file", json!({"source": path, "destination": "here"})),
        ("copy_file", json!({"source": path, "destination": "here"})),
        ("remove", json!({"path": path})),
    ]
}

/// What lies outside is absent, whether it is there or not, and no answer tells the two apart.
#[test]
fn nothing_outside_is_there_for_any_tool() {
    need_mount!();
    for more in [&[][..], &["--policy", "default"]] {
        // Not below /tmp: that is the session's own where real programs run.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (store, beside) = (dir.join("store"), dir.join("beside"));
        std::fs::create_dir_all(store.join("d")).unwrap();
        std::fs::create_dir(&beside).unwrap();
        std::fs::write(beside.join("secret"), "a secret\n").unwrap();
        symlink("/etc/passwd", store.join("link")).unwrap();
        symlink("..", store.join("up")).unwrap();
        let mut server = Server::start(Era::Sessions, &store, more);
        let outside = [
            "/etc/passwd".to_owned(),
            "/etc/nothing".to_owned(),
            "//etc//passwd".to_owned(),
            "../beside/secret".to_owned(),
            "d/../../beside/secret".to_owned(),
            beside.join("secret").display().to_string(),
            beside.join("nothing").display().to_string(),
            format!("{}/../beside/secret", store.display()),
            "/proc/self/environ".to_owned(),
            "/proc/1/root/etc/passwd".to_owned(),
            "link".to_owned(),
            "up/beside/secret".to_owned(),
            ".trumanfs/lock".to_owned(),
            ".trumanfs".to_owned(),
            ".trash/../../beside/secret".to_owned(),
            "~root/x".to_owned(),
        ];
        for path in &outside {
            for (tool, arguments) in with(path) {
                // A name that is free inside may be made there.
                let is_free = path == "~root/x" && tool == "write_file";
                if is_free {
                    continue;
                }
                let told = server.fails(tool, arguments.clone());
                let is_made = tool == "write_file" && matches!(&**path, "link" | ".trumanfs");
                assert!(
                    told == format!("{path}: No such file or directory") || is_made,
                    "{tool} {arguments}: {told}"
                );
            }
            server.fails("move_file", json!({"source": "d", "destination": path}));
            let found = server.call("search_files", json!({"pattern": "*", "path": path}));
            assert_eq!(found["isError"], true, "{path}: {found}");
            let found = server.call("grep", json!({"pattern": "secret|root", "path": path}));
            let said = text(&found);
            assert!(
                !said.contains("a secret") && !said.contains("root:x"),
                "{said}"
            );
        }
        assert_eq!(
            std::fs::read_to_string(beside.join("secret")).unwrap(),
            "a secret\n"
        );
        assert!(!beside.join("nothing").exists());
        server.finish();
    }
}

/// Nothing waits for them, either: a FIFO has no writer, a device no end.
#[test]
fn what_is_no_file_is_not_opened() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let at = |name: &str| store.path().join(name);
    std::fs::write(at("file"), "a\n").unwrap();
    symlink("file", at("link")).unwrap();
    let mut absent = vec!["link"];
    if rustix::process::geteuid().is_root() {
        // /dev/zero.
        mknod(at("device"), 0o020_666, 0x105).unwrap();
        absent.push("device");
    }
    mkfifo(at("fifo"), 0o666).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    for name in absent {
        for (tool, arguments) in with(name) {
            let told = server.fails(tool, arguments);
            let is_absent = told == format!("{name}: No such file or directory");
            // A hidden name is not free: what would be made under it cannot be.
            assert!(is_absent || tool == "write_file", "{tool} {name}: {told}");
        }
        let meta = std::fs::symlink_metadata(at(name)).unwrap().file_type();
        assert!(!meta.is_file() && !meta.is_dir(), "{name} was replaced");
    }
    for name in ["fifo", "socket"] {
        for (tool, arguments) in with(name) {
            match tool {
                "move_file" | "remove" => {}
                _ => drop(server.fails(tool, arguments)),
            }
        }
        let found = server.call("grep", json!({"pattern": ".", "path": name}));
        assert_eq!(found["structuredContent"]["stdout"], "", "{found}");
        let kind = |name: &str| std::fs::symlink_metadata(at(name)).unwrap().file_type();
        let was = kind(name);
        server.does("move_file", json!({"source": name, "destination": "moved"}));
        assert_eq!(kind("moved"), was);
        server.does("remove", json!({"path": "moved"}));
        server.does("undo", json!({}));
        server.does("undo", json!({}));
        assert_eq!(kind(name), was);
    }
    let (list, _) = server.does("list_directory", json!({}));
    assert_eq!(list, "[OTHER] fifo\n[FILE] file\n[OTHER] socket\n");
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "a\n");
    server.finish();
}

#[test]
fn any_name_that_linux_has_can_be_worked_with_and_no_other() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    let long = "ä".repeat(127);
    for name in [
        "two\nlines",
        "-rf",
        "--help",
        "(",
        "!",
        "*",
        " ",
        "a\tb",
        "\u{1b}[2J",
        "\u{202e}gnp.exe",
        "$(touch hacked)",
        "`touch hacked`",
        "; touch hacked",
        "'\"'",
        "\\",
        "{a,b}",
        &long,
    ] {
        server.does("write_file", json!({"path": name, "content": "a\n"}));
        server.does(
            "edit_file",
            json!({"path": name, "old_string": "a", "new_string": "b"}),
        );
        let (told, _) = server.does("read_text_file", json!({"path": name}));
        assert_eq!(told, "b\n", "{name:?}");
        let (told, _) = server.does("grep", json!({"pattern": "^b$", "path": name}));
        assert!(told.ends_with("b\n"), "{name:?}: {told}");
        let (told, _) = server.does("search_files", json!({"pattern": "*", "path": name}));
        assert!(told.contains(name), "{name:?}: {told}");
        server.does("copy_file", json!({"source": name, "destination": "other"}));
        server.does("remove", json!({"path": "other"}));
        // One line for each entry, whatever its name has.
        let (list, data) = server.does("list_directory", json!({}));
        assert_eq!(list.lines().count(), 1, "{list:?}");
        assert_eq!(data["entries"].as_array().unwrap().len(), 1, "{data}");
        // A path is no pattern.
        server.does("write_file", json!({"path": "by", "content": "x"}));
        let (_, removed) = server.does("bash", json!({"command": "rm -- *"}));
        let run = removed["run"].clone();
        server.does("undo", json!({"run": run, "path": name}));
        let (list, _) = server.does("list_directory", json!({}));
        assert_eq!(list.lines().count(), 1, "{name:?}: {list:?}");
        server.does("remove", json!({"path": name}));
        let (told, _) = server.does("undo", json!({}));
        assert!(told.contains("brought back"), "{told}");
        server.does("remove", json!({"path": name}));
    }
    for name in [
        "a\0b",
        "\0",
        "a/../\0",
        &"x".repeat(256),
        &"x/".repeat(3000),
        "",
    ] {
        for (tool, arguments) in with(name) {
            let told = server.fails(tool, arguments);
            assert!(!told.is_empty(), "{tool} {name:?}");
        }
    }
    let (list, _) = server.does("list_directory", json!({}));
    assert_eq!(list, "");
    server.finish();
}

#[test]
fn of_ten_thousand_sessions_the_latest_are_known() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Stateless, store.path(), &[]);
    let mut sessions = Vec::new();
    let mut memory = 0;
    for number in 0..10_000 {
        let (_, data) = server.does("bash", json!({"command": "X=1"}));
        sessions.push(data["session"].as_str().unwrap().to_owned());
        if number == 1000 {
            memory = server.status_field("VmRSS");
        }
        // A debug build takes its time.
        if cfg!(debug_assertions) && number == 2500 {
            break;
        }
    }
    let grown = server.status_field("VmRSS").saturating_sub(memory);
    assert!(grown < 16 << 10, "{grown} kB more");
    let count = sessions.len();
    for (at, is_known) in [
        (0, false),
        (count - 65, false),
        (count - 64, true),
        (count - 1, true),
    ] {
        let asked = json!({"command": "echo $X", "session": sessions[at]});
        match is_known {
            true => assert_eq!(server.does("bash", asked).0, "1\n", "{at} of {count}"),
            false => assert!(server.fails("bash", asked).contains("not known here")),
        }
    }
    for id in ["", "0", "../../etc", &"x".repeat(1 << 20), "\0", "last"] {
        server.fails("bash", json!({"command": "true", "session": id}));
        let uri = format!("trumanfs://session/{id}/diff");
        let answer = server.ask("resources/read", json!({"uri": uri}));
        assert!(answer["error"].is_object(), "{answer}");
    }
    server.finish();
}

/// Half of it is not taken back, and the answer that nobody waits for is in the history all the same.
#[test]
fn an_undo_that_was_cancelled_is_done_or_not_begun() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::create_dir(store.path().join("d")).unwrap();
    let count = 300;
    for n in 0..count {
        std::fs::write(store.path().join(format!("d/f{n}")), "x").unwrap();
    }
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    for pause in [0, 5, 20, 60, 150] {
        let (_, removed) = server.does("bash", json!({"command": "rm d/*"}));
        let run = removed["run"].clone();
        let id = server.begin("undo", json!({"run": run}));
        std::thread::sleep(Duration::from_millis(pause));
        server.cancel(id);
        // What still goes on ends, and the number of files is one of two.
        let until = Instant::now() + LIMIT;
        let mut before = None;
        let there = loop {
            let there = std::fs::read_dir(store.path().join("d")).unwrap().count();
            if before == Some(there) && (there == 0 || there == count) {
                break there;
            }
            assert!(Instant::now() < until, "{there} of {count} are there");
            before = Some(there);
            std::thread::sleep(Duration::from_millis(300));
        };
        let (history, _) = server.does("history", json!({"limit": 1}));
        if there == count {
            assert!(history.contains("undo"), "{history}");
        } else {
            server.does("undo", json!({"run": run}));
        }
        assert_eq!(
            std::fs::read_dir(store.path().join("d")).unwrap().count(),
            count
        );
    }
    server.finish();
    let check = trumanfs(&["fsck".as_ref(), store.path().as_os_str()]);
    assert!(check.status.success(), "{}", describe(&check));
}

#[test]
fn progress_is_told_by_the_token_that_was_given_and_to_nobody_else() {
    need_mount!();
    for era in ERAS {
        let dir = tempfile::tempdir().unwrap();
        let policy = dir.path().join("policy.yaml");
        std::fs::write(&policy, "sleep: {arguments: text}\n").unwrap();
        let store = dir.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let mut server = Server::start(era, &store, &["--policy", policy.to_str().unwrap()]);
        let tokens = [
            json!(7),
            json!("text"),
            json!(""),
            json!("7"),
            json!("x".repeat(1000)),
        ];
        let ids: Vec<u64> = tokens
            .iter()
            .map(|token| {
                let sleep = json!({"name": "bash", "arguments": {"command": "sleep 2.2"}, "_meta": {"progressToken": token}});
                let mut sleep = sleep;
                if era == Era::Sessions {
                    sleep["arguments"]["session"] = server
                        .does("bash", json!({"command": "true"}))
                        .1["session"]
                        .clone();
                }
                server.request("tools/call", sleep)
            })
            .collect();
        for id in ids {
            let answer = server.answer(id);
            assert_eq!(
                answer["result"]["structuredContent"]["return_code"], 0,
                "{answer}"
            );
        }
        let told = std::mem::take(&mut server.notifications);
        for token in &tokens {
            assert!(
                told.iter()
                    .any(|told| told["params"]["progressToken"] == *token),
                "{token}: {told:?}"
            );
        }
        // What is no token: an error, or a call of which nothing is told.
        for token in [json!({}), json!([1]), json!(null), json!(1.5), json!(true)] {
            let call = json!({"name": "bash", "arguments": {"command": "sleep 1.2"}, "_meta": {"progressToken": token}});
            let answer = server.ask("tools/call", call);
            assert!(
                answer["error"].is_object() || answer["result"].is_object(),
                "{answer}"
            );
        }
        assert_eq!(server.notifications, Vec::<Value>::new(), "{era:?}");
        server.finish();
    }
}

/// A list of edits that takes for ever kept everybody else from editing until it was through, also after it was cancelled.
#[test]
fn a_list_of_edits_that_was_cancelled_lets_others_edit() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    std::fs::write(store.path().join("big"), "ab".repeat(1 << 19)).unwrap();
    std::fs::write(store.path().join("small"), "a").unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &[]);
    // Each edit is short, all of them take minutes.
    let there_and_back: Vec<Value> = (0..10000)
        .flat_map(|_| [("a", "c"), ("c", "a")])
        .map(|(old, new)| json!({"oldText": old, "newText": new, "replace_all": true}))
        .collect();
    let id = server.begin("edit_file", json!({"path": "big", "edits": there_and_back}));
    std::thread::sleep(Duration::from_millis(500));
    server.cancel(id);
    let begun = Instant::now();
    server.does(
        "edit_file",
        json!({"path": "small", "old_string": "a", "new_string": "b"}),
    );
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    server.finish();
}

/// Files below a directory that somebody swaps for a link while tools work in it.
#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    need_mount!();
    let dir = tempfile::tempdir().unwrap();
    let (store, beside) = (dir.path().join("store"), dir.path().join("beside"));
    std::fs::create_dir_all(store.join("d")).unwrap();
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("f"), "a secret\n").unwrap();
    let mut server = Server::start(Era::Sessions, &store, &[]);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&store, &beside, &over));
        for _ in 0..100 {
            let read = server.call("read_text_file", json!({"path": "d/f"}));
            assert!(!text(&read).contains("secret"), "{read}");
            server.call("write_file", json!({"path": "d/f", "content": "hostile\n"}));
            server.call("remove", json!({"path": "d/f"}));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(
        std::fs::read_to_string(beside.join("f")).unwrap(),
        "a secret\n"
    );
    server.finish();
}

fn swap(store: &Path, beside: &Path, over: &std::sync::atomic::AtomicBool) {
    let (dir, away) = (store.join("d"), store.join("away"));
    while !over.load(std::sync::atomic::Ordering::Relaxed) {
        let _ = std::fs::rename(&dir, &away);
        let _ = symlink(beside, &dir);
        let _ = std::fs::remove_file(&dir);
        let _ = std::fs::rename(&away, &dir);
    }
}
