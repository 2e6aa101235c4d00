//! What a policy gives to the programs of a line: to each what `run` gives it, and nothing that another one has.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Home, describe, need_mount, need_tools, skip};
use crate::programs::{Place, need_sandbox};

/// Two shells: `dash` has the keys under test, `bash` has none of them.
pub(crate) fn place(keys: &str) -> Place {
    let shell = "flags: {-c: text}, arguments: text";
    Place::with(&format!(
        "dash: {{{shell}, {keys}}}\nbash: {{{shell}}}\nenv: {{{shell}}}\n"
    ))
}

/// Runs a line in a store that nobody has mounted, and in a home. `look` is given what came of it and the store.
pub(crate) fn through_both_doors(
    place: &Place,
    options: &[&str],
    line: &str,
    look: impl Fn(&Value, &Path),
) {
    let home = Home::mount();
    for (root, store) in [
        (&*place.store(), &*place.store()),
        (home.home(), home.store()),
    ] {
        let options = [&["--json"], options].concat();
        let output = place.exec_with(root, line, &options);
        let outcome: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}: {}", root.display(), describe(&output)));
        look(&outcome, store);
    }
}

/// Runs a line likewise, and checks what it writes to standard output.
pub(crate) fn prints(place: &Place, line: &str, printed: &str) {
    through_both_doors(place, &[], line, |outcome, root| {
        assert_eq!(
            outcome["stdout"],
            printed,
            "{}: {outcome:#}",
            root.display()
        );
    });
}

/// Says a word to each that connects; returns the port.
fn server(word: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| stream.write_all(word.as_bytes()));
        }
    });
    port
}

#[test]
fn each_program_of_a_line_has_its_own_network() {
    let port = server("said\n");
    let place = place(&format!(
        "network: {{allow: [good.test], host_ports: [{port}]}}"
    ));
    need_sandbox!(place);
    let ask = "getent hosts good.test || echo unknown";
    let connect = format!("bash -c 'cat </dev/tcp/127.0.0.1/{port}' 2>/dev/null || echo closed");
    // One after the other, side by side, and one in the surroundings of the other.
    for line in [
        format!("dash -c '{ask}'; bash -c '{ask}'"),
        format!("dash -c '{ask}' | bash -c 'cat; {ask}'"),
        format!("bash -c '{ask}' | dash -c 'cat >/tmp/b; {ask}; cat /tmp/b'"),
    ] {
        prints(&place, &line, "198.18.0.1      good.test\nunknown\n");
    }
    let connect = connect.replace('\'', "\"");
    prints(
        &place,
        &format!(
            "dash -c '{connect}'; bash -c '{connect}'; env | grep -ci _proxy; dash -c 'env | grep -ci _proxy'"
        ),
        "said\nclosed\n0\n9\n",
    );
    // Refusals are in the outcome and in the audit log, with the run.
    let line = "dash -c 'getent hosts evil.test || echo unknown' | cat";
    through_both_doors(&place, &[], line, |outcome, store| {
        assert_eq!(outcome["stdout"], "unknown\n", "{outcome:#}");
        assert_eq!(
            outcome["network_refusals"],
            serde_json::json!([
                "trumanfs: evil.test:53 is refused by network.allow: the policy allows good.test"
            ]),
            "{outcome:#}"
        );
        let audit = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap();
        let lines = audit
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let connections: Vec<Value> = lines.filter(|line| line["host"] == "evil.test").collect();
        assert_eq!(connections.len(), 1, "{audit}");
        assert_eq!(
            (&connections[0]["run"], &connections[0]["event"]),
            (&outcome["run"], &"connection_refused".into())
        );
    });
}

#[test]
fn a_line_s_network_can_be_narrowed() {
    let place = place("network: {allow: [good.test, other.test]}");
    need_sandbox!(place);
    let line = "dash -c 'getent hosts good.test; getent hosts other.test' | bash -c 'cat; getent hosts good.test'; echo done";
    for (net, printed) in [
        ("none", "done\n"),
        (
            "allow=other.test,bad.test",
            "198.18.0.1      other.test\ndone\n",
        ),
        ("allow=bad.test", "done\n"),
    ] {
        through_both_doors(&place, &["--net", net], line, |outcome, _| {
            assert_eq!(outcome["stdout"], printed, "{net}: {outcome:#}");
        });
    }
    // What means nothing is an error before anything begins.
    for net in ["allow=*", "allow=other.test,a..b", "allow=other.test:0"] {
        let line = "echo ran >made; dash -c 'echo ran'";
        let output = place.exec_with(&place.store(), line, &["--net", net]);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("--net") && said.contains("is no host"),
            "{said}"
        );
        assert!(!place.store().join("made").exists() && output.stdout.is_empty());
    }
}

#[test]
fn a_program_of_a_line_publishes_its_ports() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let place = place(&format!("network: {{publish: [{port}]}}"));
    need_sandbox!(place);
    if !Path::new("/usr/bin/python3").exists() {
        skip!("system-python", "there is no /usr/bin/python3");
    }
    let serve = format!(
        "import socket; s = socket.create_server((\"127.0.0.1\", {port})); c, _ = s.accept(); \
         print(c.recv(9).decode()); c.sendall(b\"answer\")"
    );
    let line = format!("dash -c '/usr/bin/python3 -c \"$1\"' serve '{serve}' | cat");
    let ask = move |end: Instant| {
        while Instant::now() < end {
            let answered =
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
                    stream.write_all(b"question")?;
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).map(|_| answer)
                });
            match answered {
                Ok(answer) if !answer.is_empty() => return answer,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        String::new()
    };
    let home = Home::mount();
    for root in [&place.store(), home.home()] {
        let asking = std::thread::spawn(move || ask(Instant::now() + Duration::from_secs(30)));
        let output = place.exec_with(root, &line, &[]);
        assert_eq!(output.stdout, b"question\n", "{}", describe(&output));
        assert_eq!(asking.join().unwrap(), "answer");
    }
}

#[test]
fn a_program_of_a_line_traces_only_where_the_policy_says_so() {
    let place = place("ptrace: true");
    need_sandbox!(place);
    if !Path::new("/usr/bin/python3").exists() {
        skip!("system-python", "there is no /usr/bin/python3");
    }
    // PTRACE_TRACEME.
    let trace = "import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))";
    let line = format!(
        "for_all='{trace}'; dash -c '/usr/bin/python3 -c \"$1\"' x \"$for_all\"; bash -c '/usr/bin/python3 -c \"$1\"' x \"$for_all\""
    );
    prints(&place, &line, "0\n-1\n");
}

#[test]
fn a_program_of_a_line_cannot_change_the_home_where_the_policy_says_so() {
    let place = place("read_only: true");
    need_sandbox!(place);
    let line = "bash -c 'echo by bash > f'; dash -c '(echo by dash > f) 2>/dev/null || echo kept; cat f' | bash -c 'cat > g'; cat g; \
                dash -c 'echo by the line' > h; dash -c 'echo > /tmp/x && cat h'";
    prints(&place, line, "kept\nby bash\nby the line\n");
}

#[test]
fn programs_of_a_line_in_a_home_that_is_read_only() {
    let place = place("read_only: true");
    need_sandbox!(place);
    let home = Home::with(&["--read-only"]);
    let output = place.exec_with(
        home.home(),
        "dash -c 'echo ran'; bash -c 'echo ran'; echo $?",
        &["--json"],
    );
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["stdout"], "ran\n126\n", "{outcome:#}");
    assert_eq!(
        outcome["stderr"],
        "bash: bash: blocked by bash.read_only: the home is mounted read-only, and bash does not say `read_only: true`\n"
    );
    assert_eq!(
        (&outcome["verdict"], &outcome["class"]),
        (&"deny".into(), &"home".into())
    );
}

#[test]
fn a_program_of_a_line_sees_what_is_bound_for_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "bound\n").unwrap();
    fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let place = place(&format!("bind_ro: [{}]", dir.path().display()));
    need_sandbox!(place);
    let file = dir.path().join("file");
    let look = format!("cat {} 2>/dev/null || echo absent", file.display());
    through_both_doors(
        &place,
        &[],
        &format!("dash -c '{look}'; bash -c '{look}'"),
        |outcome, _| {
            assert_eq!(outcome["stdout"], "bound\nabsent\n", "{outcome:#}");
            assert_eq!(
                outcome["bound"],
                serde_json::json!([dir.path()]),
                "{outcome:#}"
            );
        },
    );
}

#[test]
fn a_program_of_a_line_is_shown_with_the_tree_that_it_is_installed_in() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let top = fs::canonicalize(dir.path()).unwrap();
    let (tree, links) = (top.join("versions/1.2"), top.join("links/bin"));
    for dir in [&tree.join("bin"), &tree.join("lib"), &links] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(tree.join("lib/data"), "data\n").unwrap();
    crate::common::copy_program("/bin/cat", tree.join("bin/tool-1"));
    std::os::unix::fs::symlink(tree.join("bin/tool-1"), links.join("tool")).unwrap();
    let entry = "dash: {flags: {-c: text}, arguments: text}";
    let links = links.display();
    let place = Place::with(&format!(
        "{entry}\ntool: {{arguments: text, bind_ro: [{links}]}}\n"
    ));
    need_sandbox!(place);
    let data = tree.join("lib/data").display().to_string();
    let line = format!("tool {data}; dash -c 'cat {data} 2>/dev/null || echo absent'");
    prints(&place, &line, "data\nabsent\n");
}

#[test]
fn when_one_is_out_of_time_all_programs_of_the_line_end() {
    let place = Place::with(
        "dash: {flags: {-c: text}, arguments: text, default_timeout: 1, ptrace: true}\n\
         bash: {flags: {-c: text}, arguments: text}\n",
    );
    need_sandbox!(place);
    let began = Instant::now();
    let line =
        "bash -c 'sleep 40; echo not reached' | dash -c 'sleep 41'; bash -c 'echo not reached'";
    through_both_doors(&place, &[], line, |outcome, store| {
        let said = outcome["stderr"].as_str().unwrap();
        assert_eq!(outcome["stdout"], "", "{outcome:#}");
        // Which one it was, and not the one that was killed with it.
        let late = serde_json::json!(["dash -c 'sleep 41'"]);
        assert_eq!(outcome["timed_out"], late, "{outcome:#}");
        let audit = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap();
        let last: Value = serde_json::from_str(audit.lines().last().unwrap()).unwrap();
        assert_eq!(last["timed_out"], late, "{last:#}");
        assert!(
            said.contains(
                "dash: the time limit of 1 s is up: all programs of the line were killed\n"
            ),
            "{said}"
        );
    });
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(place.outside().exists());
}

#[test]
fn a_daemon_that_dies_during_a_line_is_named() {
    let place = place("read_only: true");
    need_sandbox!(place);
    need_mount!();
    let mut home = Home::mount();
    let root = home.home().to_owned();
    let line = "bash -c 'echo a >begun; sleep 1'; dash -c 'echo never'";
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| place.exec_with(&root, line, &["--json"]));
        let end = Instant::now() + Duration::from_secs(30);
        while !home.path("begun").exists() {
            assert!(Instant::now() < end, "it does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        home.kill_daemon_only();
        running.join().unwrap()
    });
    home.detach();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["return_code"], &outcome["status"]),
        (&Value::from(125), &Value::from("error")),
        "{outcome:#}"
    );
    let why = outcome["error_message"].as_str().unwrap();
    assert!(
        why.contains("daemon of the home ended") && why.contains("mount it again"),
        "{outcome:#}"
    );
    let ran = serde_json::json!(["bash -c 'echo a >begun; sleep 1'"]);
    assert_eq!(outcome["programs"], ran, "{outcome:#}");
}

/// A line went on, command by command, in a home that was gone: each said "Transport endpoint is not connected".
#[test]
fn a_daemon_that_dies_ends_the_line() {
    let place = place("default_timeout: 30");
    need_sandbox!(place);
    for line in [
        "dash -c 'echo x >begun; sleep 25'; echo later",
        "{ dash -c 'echo x >begun; sleep 25'; ls; } | cat; echo later || cat begun",
        "echo x >begun; dash -c 'while [ -f begun ]; do sleep 0.1; done' && ls; bash -c 'echo later'",
        // No program runs, and the commands need nothing of the home.
        "echo x >begun; cat; echo later",
    ] {
        let mut home = Home::mount();
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::File::create_new(dir.path().join(name)).unwrap();
        // Its end is what `cat` waits for: `wait` closes it.
        let mut child = place
            .command(home.home(), line, &[])
            .stdin(std::process::Stdio::piped())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !home.store().join("begun").exists() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{line}: it does not begin"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        home.kill_daemon_only();
        let killed = Instant::now();
        let code = child.wait().unwrap().code();
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        let (out, err) = (read("out"), read("err"));
        assert_eq!(code, Some(125), "{line}: {out:?} {err:?}");
        assert!(
            killed.elapsed() < Duration::from_secs(20),
            "{line}: it hangs"
        );
        assert_eq!(out, "", "{line}: {err}");
        assert!(
            err.contains("the daemon of the home ended") && err.contains("mount it again\n"),
            "{line}: {err}"
        );
        home.detach();
    }
}
