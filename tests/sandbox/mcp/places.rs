//! Where a server works: a home that somebody has mounted, one that is read-only, a full disk, a store that another server has, too.

use std::ffi::CString;
use std::io::Write;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use super::server::{ERAS, Era, LIMIT, Mounted, Server};
use crate::common::{Home, binary, need_mount, need_root};

#[test]
fn two_servers_of_one_store_see_each_others_files_and_undo_their_own_runs() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut one = Server::start(Era::Sessions, store.path(), &["--shell", "bundled"]);
    let mut two = Server::start(Era::Stateless, store.path(), &["--shell", "bundled"]);
    let mounted = Mounted::of(store.path());
    let (_, wrote) = one.does("write_file", json!({"path": "a", "content": "one\n"}));
    let (told, _) = two.does("read_text_file", json!({"path": "a"}));
    assert_eq!(told, "one\n");
    let (_, edited) = two.does(
        "edit_file",
        json!({"path": "a", "old_string": "one", "new_string": "two"}),
    );
    let (told, _) = one.does("read_text_file", json!({"path": "a"}));
    assert_eq!(told, "two\n");
    // The other's runs are not there, by name or by turn.
    one.fails("undo", json!({"run": edited["run"]}));
    let strange = two.fails(
        "undo",
        json!({"run": wrote["run"], "session": edited["session"]}),
    );
    assert!(strange.contains("no run of this session"), "{strange}");
    let strange = two.fails(
        "bash",
        json!({"command": "true", "session": wrote["session"]}),
    );
    assert!(strange.contains("not known here"), "{strange}");
    // What the other has changed since is not overwritten.
    let conflict = one.fails("undo", json!({}));
    assert!(conflict.contains("conflict"), "{conflict}");
    assert_eq!(std::fs::read(store.path().join("a")).unwrap(), b"two\n");
    // The first one's end takes nothing from the second.
    one.finish();
    let (told, _) = two.does("undo", json!({"session": edited["session"]}));
    assert!(told.contains("took back"), "{told}");
    assert_eq!(std::fs::read(store.path().join("a")).unwrap(), b"one\n");
    assert!(mounted.is_there());
    two.finish();
    mounted.is_gone_within(Duration::from_secs(10));
}

#[test]
fn a_read_only_home_is_read_and_says_so_of_everything_else() {
    need_mount!();
    let home = Home::prepared(
        |store| std::fs::write(store.join("a"), "text\n").unwrap(),
        &["--read-only"],
    );
    for root in [home.home(), home.store()] {
        let mut server = Server::start(Era::Sessions, root, &[]);
        let (told, _) = server.does("read_text_file", json!({"path": "a"}));
        assert_eq!(told, "text\n");
        let (told, _) = server.does("bash", json!({"command": "cat a; ls; grep -c t a"}));
        assert_eq!(told, "text\na\n1\n");
        for (tool, arguments) in [
            ("write_file", json!({"path": "a", "content": "x"})),
            ("write_file", json!({"path": "new", "content": "x"})),
            (
                "edit_file",
                json!({"path": "a", "old_string": "t", "new_string": "x", "replace_all": true}),
            ),
            ("move_file", json!({"source": "a", "destination": "b"})),
            ("copy_file", json!({"source": "a", "destination": "b"})),
            ("remove", json!({"path": "a"})),
        ] {
            let told = server.fails(tool, arguments.clone());
            assert!(
                told.contains("Read-only file system"),
                "{tool} {arguments}: {told}"
            );
        }
        // A dry run changes nothing, so it can be had.
        server.does(
            "edit_file",
            json!({"path": "a", "old_string": "text", "new_string": "x", "dryRun": true}),
        );
        let (told, _) = server.does("history", json!({}));
        assert_eq!(told, "Nothing was changed in this session.\n");
        let told = server.fails("undo", json!({}));
        assert!(told.contains("nothing was changed"), "{told}");
        server.finish();
    }
    // A home that others have mounted stays mounted.
    assert_eq!(std::fs::read(home.path("a")).unwrap(), b"text\n");
}

#[test]
fn a_full_disk_is_said_and_room_that_comes_is_used() {
    need_mount!();
    need_root!("to mount a small tmpfs");
    let small = Small::new("size=24m");
    let at = small.0.path().canonicalize().unwrap();
    let store = at.join("store");
    std::fs::create_dir(&store).unwrap();
    let mut server = Server::start(Era::Sessions, &store, &[]);
    server.does("write_file", json!({"path": "a", "content": "before\n"}));
    let mut filler = std::fs::File::create(at.join("filler")).unwrap();
    while filler.write_all(&[1; 64 << 10]).is_ok() {}
    drop(filler);
    let large = "x".repeat(2 << 20);
    let told = server.fails("write_file", json!({"path": "new", "content": large}));
    assert!(told.contains("No space left on device"), "{told}");
    let told = server.fails("write_file", json!({"path": "a", "content": large}));
    assert!(told.contains("No space left on device"), "{told}");
    // It is as it was, or undo has it.
    if std::fs::read(store.join("a")).unwrap() != b"before\n" {
        std::fs::remove_file(at.join("filler")).unwrap();
        server.does("undo", json!({}));
    }
    assert_eq!(std::fs::read(store.join("a")).unwrap(), b"before\n");
    let _ = std::fs::remove_file(at.join("filler"));
    let until = Instant::now() + LIMIT;
    loop {
        let written = server.call("write_file", json!({"path": "a", "content": "after\n"}));
        if written["isError"] != true {
            break;
        }
        assert!(Instant::now() < until, "{written}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (told, _) = server.does("read_text_file", json!({"path": "a"}));
    assert_eq!(told, "after\n");
    server.finish();
    // Its daemon, and what other tests fork at this moment, may have it open a little longer.
    let until = Instant::now() + Duration::from_secs(10);
    while let Err(error) = unmount(&at, UnmountFlags::empty()) {
        assert!(
            Instant::now() < until,
            "{error}: something of the store is open"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A small file system; gone with this, whatever happens.
struct Small(tempfile::TempDir);

impl Small {
    fn new(options: &str) -> Small {
        let small = Small(tempfile::tempdir().unwrap());
        let options = CString::new(options).unwrap();
        let flags = MountFlags::empty();
        mount("tmpfs", small.0.path(), "tmpfs", flags, options.as_c_str()).unwrap();
        small
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn tools_that_are_not_offered_are_not_there() {
    need_mount!();
    for era in ERAS {
        let store = tempfile::tempdir().unwrap();
        let more = ["--tools", "read_text_file,history", "--tools", "grep"];
        let mut server = Server::start(era, store.path(), &more);
        let listed = server.ask("tools/list", json!({}))["result"]["tools"].clone();
        let listed = listed.as_array().unwrap().iter();
        let mut names: Vec<&str> = listed.map(|tool| tool["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["grep", "history", "read_text_file"]);
        server.does("grep", json!({"pattern": "x"}));
        for name in ["bash", "write_file", "undo", "run_git", "nothing"] {
            let call = json!({"name": name, "arguments": {"command": "touch a", "path": "a", "content": ""}});
            let answer = server.ask("tools/call", call);
            assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        }
        assert_eq!(
            std::fs::read_dir(store.path())
                .unwrap()
                .flatten()
                .filter(|entry| entry.file_name() == "a")
                .count(),
            0
        );
        server.finish();
        let wrong = std::process::Command::new(binary())
            .args(["serve", "mcp", "--tools", "grep,nothing", "--root"])
            .arg(store.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&wrong.stderr);
        assert!(
            !wrong.status.success() && said.contains("\"nothing\""),
            "{said}"
        );
        assert!(said.contains("read_text_file"), "{said}");
    }
}
