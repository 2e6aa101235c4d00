//! What each tool does.

use serde_json::json;

use super::server::{ERAS, Era, Server, TOOLS};
use crate::common::{binary, describe, need_mount, need_root, trumanfs};

#[test]
fn files_are_written_edited_found_removed_and_brought_back() {
    need_mount!();
    for era in ERAS {
        let store = tempfile::tempdir().unwrap();
        let mut server = Server::start(era, store.path(), &[]);
        let (_, wrote) = server.does(
            "write_file",
            json!({"path": "a/b.txt", "content": "one\ntwo\nthree\n"}),
        );
        assert_eq!(wrote["created"], true, "{wrote}");
        let session = wrote["session"].clone();
        let (diff, edited) = server.does(
            "edit_file",
            json!({"path": "a/b.txt", "old_string": "two", "new_string": "2", "session": session}),
        );
        assert_eq!(diff, "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
        assert_eq!(edited["replaced"], 1);
        let twice = server.fails(
            "edit_file",
            json!({"path": "a/b.txt", "edits": [{"oldText": "e", "newText": "E"}]}),
        );
        assert!(twice.contains("3 times"), "{twice}");
        let (last, _) = server.does("read_text_file", json!({"path": "a/b.txt", "tail": 1}));
        assert_eq!(last, "three\n");
        let (found, _) = server.does("grep", json!({"pattern": "^t.*e$"}));
        assert_eq!(found, "./a/b.txt:3:three\n");
        let (found, _) = server.does("search_files", json!({"pattern": "*.txt"}));
        assert_eq!(found, "./a/b.txt\n");
        let (removed, data) = server.does("remove", json!({"path": "a", "session": session}));
        assert!(
            removed.contains(".trash/") && removed.contains("undo"),
            "{removed}"
        );
        let entry = store.path().join(data["trash"].as_str().unwrap());
        assert!(entry.join("b.txt").exists(), "{}", entry.display());
        let (history, _) = server.does("history", json!({"session": session}));
        assert!(history.contains("remove a\n    D /a\n"), "{history}");
        let (undone, _) = server.does("undo", json!({"session": session}));
        assert!(undone.contains("brought back /a"), "{undone}");
        let (text, _) = server.does("read_text_file", json!({"path": "a/b.txt"}));
        assert_eq!(text, "one\n2\nthree\n");
        // Nothing outside exists.
        let outside = server.fails("read_text_file", json!({"path": "/etc/passwd"}));
        assert_eq!(outside, "/etc/passwd: No such file or directory");
        server.finish();
    }
}

#[test]
fn a_session_keeps_its_directory_and_its_variables_and_sees_its_own_runs_only() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Stateless, store.path(), &[]);
    let (_, first) = server.does(
        "bash",
        json!({"command": "mkdir d; cd d; X=5; echo x > mine"}),
    );
    let session = first["session"].clone();
    let (told, _) = server.does(
        "bash",
        json!({"command": "pwd; echo $X", "session": session}),
    );
    assert_eq!(
        told,
        format!("{}/d\n5\n", store.path().canonicalize().unwrap().display())
    );
    // Without a session, it is another one.
    let (told, other) = server.does("bash", json!({"command": "echo $X; ls"}));
    assert_eq!(told, "\nd\n");
    assert_ne!(other["session"], session);
    let (history, _) = server.does("history", json!({"session": other["session"]}));
    assert_eq!(history, "Nothing was changed in this session.\n");
    let run = first["run"].clone();
    let none = server.fails("undo", json!({"session": other["session"], "run": run}));
    assert!(none.contains("no run of this session"), "{none}");
    server.does("undo", json!({"session": session, "run": run}));
    assert!(!store.path().join("d").exists());
    let unknown = server.fails("bash", json!({"command": "true", "session": "nobody"}));
    assert!(unknown.contains("not known here"), "{unknown}");
    server.finish();
}

#[test]
fn each_program_of_the_policy_is_a_tool_that_says_what_it_takes() {
    need_mount!();
    for era in ERAS {
        let (dir, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let policy = dir.path().join("policy.yaml");
        std::fs::write(
            &policy,
            "git: {subcommands: {init: {flags: [-q]}, status: {}}}\ncat: {}\ng++: {flags: []}\n\
             wc: {read_only: true}\nfetch: {network: {allow: [example.org]}, subcommands: {look: {read_only: true}}}\n",
        )
        .unwrap();
        let programs = ["git", "cat", "g__", "wc", "fetch"].map(|name| format!("run_{name}"));
        let offered = format!("{TOOLS},{}", programs.join(","));
        let more = ["--policy", policy.to_str().unwrap(), "--tools", &offered];
        let mut server = Server::start(era, store.path(), &more);
        let tools = server.ask("tools/list", json!({}))["result"]["tools"].clone();
        let tool = |name: &str| {
            let found = tools
                .as_array()
                .unwrap()
                .iter()
                .find(|tool| tool["name"] == name);
            found.unwrap_or_else(|| panic!("{name}: {tools}")).clone()
        };
        let git = tool("run_git");
        let said = git["description"].as_str().unwrap();
        assert!(said.contains("init (-q), status."), "{said}");
        assert_eq!(tool("bash")["annotations"]["openWorldHint"], true);
        assert_eq!(tool("grep")["annotations"]["readOnlyHint"], true);
        // What the policy sees to, however the program is called.
        for (name, is_read_only, has_network) in [
            ("run_wc", true, false),
            ("run_cat", false, false),
            ("run_git", false, false),
            ("run_fetch", false, true),
        ] {
            let hints = tool(name)["annotations"].clone();
            assert_eq!(hints["readOnlyHint"], is_read_only, "{name}: {hints}");
            assert_eq!(hints["destructiveHint"], !is_read_only, "{name}: {hints}");
            assert_eq!(hints["openWorldHint"], has_network, "{name}: {hints}");
        }
        // Clients take letters, digits, `_` and `-`.
        tool("run_g__");
        let (_, made) = server.does("run_git", json!({"args": ["init", "-q"]}));
        assert_eq!(made["changed"], true, "{made}");
        let (said, _) = server.does("run_cat", json!({"stdin": "what it reads\n"}));
        assert_eq!(said, "what it reads\n");
        // A policy that says something else from now on is listed as it is now.
        let changed = std::fs::read_to_string(&policy).unwrap();
        std::fs::write(&policy, changed.replace("wc: {read_only: true}", "wc: {}")).unwrap();
        let until = std::time::Instant::now() + super::server::LIMIT;
        loop {
            let tools = server.ask("tools/list", json!({}))["result"]["tools"].clone();
            let mut listed = tools.as_array().unwrap().iter();
            let wc = listed.find(|tool| tool["name"] == "run_wc").unwrap();
            if wc["annotations"]["readOnlyHint"] == false {
                break;
            }
            assert!(std::time::Instant::now() < until, "{wc}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let refused = server.fails("run_git", json!({"args": ["push"]}));
        assert!(refused.contains("git.subcommands"), "{refused}");
        let session = made["session"].clone();
        server.does("undo", json!({"session": session}));
        assert!(!store.path().join(".git").exists());
        server.finish();
    }
}

/// Only its owner gets into a home: `exec --policy` and the server said of each file that it was not there.
#[test]
fn a_store_of_another_user_is_refused_with_what_to_do() {
    need_mount!();
    need_root!("to own a store of another user");
    let store = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(store.path(), Some(1234), Some(1234)).unwrap();
    let root = store.path().to_str().unwrap();
    for words in [
        &["serve", "mcp", "--root", root][..],
        &["serve", "mcp", "--root", root, "--policy", "default"],
        &["exec", "--root", root, "--policy", "default", "ls"],
    ] {
        let output = std::process::Command::new(binary())
            .args(words)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {said}");
        assert!(
            said.contains("a home for user 1234 alone") && said.contains("setpriv"),
            "{words:?}: {said}"
        );
    }
}

/// Where nothing can be mounted, the server has the store for itself, and an undo in it waited in vain.
#[test]
fn where_nothing_can_be_mounted_a_store_is_worked_in_all_the_same() {
    need_mount!();
    need_root!("to take /dev/fuse away in a mount namespace");
    let store = tempfile::tempdir().unwrap();
    let without = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount --bind /dev/null /dev/fuse && exec \"$@\"",
        "sh",
    ];
    let mut server = Server::start_by(&without, Era::Sessions, store.path(), &[]);
    server.does("write_file", json!({"path": "a", "content": "x\n"}));
    let (removed, data) = server.does("remove", json!({"path": "a"}));
    assert!(removed.contains(".trash/"), "{removed}");
    let (history, _) = server.does("history", json!({}));
    assert!(history.contains("remove a"), "{history}");
    let undo = server.fails("undo", json!({}));
    assert!(undo.contains("when the server has ended"), "{undo}");
    server.finish();
    let run = data["run"].as_str().unwrap();
    let undo = trumanfs(&[
        "undo".as_ref(),
        store.path().as_os_str(),
        "--run".as_ref(),
        run.as_ref(),
    ]);
    assert!(undo.status.success(), "{}", describe(&undo));
    assert_eq!(std::fs::read(store.path().join("a")).unwrap(), b"x\n");
}

/// Calls said "Transport endpoint is not connected" until the server was started anew.
#[test]
fn a_home_whose_daemon_was_killed_is_opened_anew() {
    need_mount!();
    for more in [&[][..], &["--policy", "default"]] {
        let store = tempfile::tempdir().unwrap();
        let mut server = Server::start(Era::Sessions, store.path(), more);
        server.does("bash", json!({"command": "mkdir d; cd d; echo x > a"}));
        let status = trumanfs(&[
            "status".as_ref(),
            store.path().as_os_str(),
            "--json".as_ref(),
        ]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let daemon = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
        let daemon = rustix::process::Pid::from_raw(daemon).unwrap();
        rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
        // The directory stays, and so do the runs.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let answer = server.call("bash", json!({"command": "cat a"}));
            if answer["structuredContent"]["stdout"] == "x\n" {
                break;
            }
            assert!(std::time::Instant::now() < until, "{answer}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        server.does("remove", json!({"path": "a"}));
        server.does("undo", json!({}));
        server.does("undo", json!({}));
        assert!(!store.path().join("d").exists());
        server.finish();
        let left = trumanfs(&["status".as_ref(), store.path().as_os_str()]);
        assert!(!left.status.success(), "{}", describe(&left));
    }
}
