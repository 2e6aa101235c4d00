//! Lines of a server in a real bash: what lasts from line to line, what is lost and said, and what belongs to which run.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Era, LIMIT, Mounted, Server};
use crate::common::{need_mount, need_root, trumanfs};

/// A store, and a server whose lines run in bash.
pub(super) struct ShellBench {
    pub(super) server: Server,
    pub(super) store: tempfile::TempDir,
}

impl ShellBench {
    pub(super) fn new() -> ShellBench {
        let store = tempfile::tempdir().unwrap();
        let more = ["--shell", "bash"];
        ShellBench {
            server: Server::start(Era::Sessions, store.path(), &more),
            store,
        }
    }

    /// Runs a line. Returns its text and its data.
    pub(super) fn line(&mut self, line: &str) -> (String, Value) {
        let result = self.server.call("bash", json!({"command": line}));
        let text = super::server::text(&result);
        (text, result["structuredContent"].clone())
    }

    /// Runs a line. Returns what it has written to standard output.
    pub(super) fn out(&mut self, line: &str) -> String {
        let (text, data) = self.line(line);
        let out = data["stdout"].as_str();
        out.unwrap_or_else(|| panic!("{line}: {text}")).to_owned()
    }

    /// Runs a line whose shell must be a new one. Returns the warning.
    pub(super) fn in_new_shell(&mut self, line: &str, out: &str) -> String {
        let (text, data) = self.line(line);
        assert_eq!(data["stdout"], out, "{line}: {text}");
        let warnings = data["warnings"].as_array().cloned().unwrap_or_default();
        let said = |warning: &Value| warning.as_str().unwrap().starts_with("a new shell");
        let warning = warnings.into_iter().find(said);
        let warning = warning.unwrap_or_else(|| panic!("{line}: no new shell: {text}"));
        warning.as_str().unwrap().to_owned()
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.store.path().join(name)).unwrap_or_default()
    }

    /// Waits until a file of the store holds this.
    pub(super) fn wait_for(&self, name: &str, content: &str) {
        let end = Instant::now() + LIMIT;
        while self.read(name) != content {
            assert!(Instant::now() < end, "{name}: {:?}", self.read(name));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn what_a_line_leaves_in_its_shell_lasts() {
    need_mount!();
    let mut bench = ShellBench::new();
    bench.out("x=5; f() { echo \"in $1 $x\"; }; set -f; alias a=b; mkdir d; cd d; readonly r=1");
    assert_eq!(
        bench.out("f y; echo $x *; echo $- | tr -cd f; echo; basename \"$PWD\""),
        "in y 5\n5 *\nf\nd\n"
    );
    let (_, data) = bench.line("false");
    assert_eq!(
        (&data["return_code"], &data["status"]),
        (&1.into(), &"failed".into())
    );
    assert_eq!(bench.out("echo $?"), "1\n");
    assert_eq!(bench.out("echo $?"), "0\n");
    // A line that is no line of the shell changes nothing in it.
    for (wrong, said) in [
        ("echo 'open", "unexpected EOF"),
        ("if true; then echo x", "unexpected end of file"),
        ("fi; echo x", "unexpected token"),
        ("done) }", "unexpected token"),
    ] {
        let (text, data) = bench.line(wrong);
        assert_eq!(data["return_code"], 2, "{wrong}: {text}");
        assert!(text.contains(said), "{wrong}: {text}");
    }
    assert_eq!(
        bench.out("echo $x; break; continue; return 2>/dev/null; echo on"),
        "5\non\n"
    );
    let (_, data) = bench.line("cd /tmp");
    assert_eq!(data["cwd"], "/tmp");
    assert_eq!(
        bench.out("pwd; cd - >/dev/null; basename \"$PWD\""),
        "/tmp\nd\n"
    );
    bench.server.finish();
}

#[test]
fn end_of_a_shell_is_told_by_the_next_line() {
    need_mount!();
    let mut bench = ShellBench::new();
    bench.out("mkdir d; cd d; x=5");
    for (line, code, why) in [
        ("exit 3", 3, "it exited with code 3"),
        ("exec true", 0, "it exited with code 0"),
        ("set -e; false; echo not here", 1, "it exited with code 1"),
        ("kill -9 $$", 137, "signal 9 ended the shell"),
        ("set -u; echo $nothing", 1, "it exited with code 1"),
    ] {
        let (text, data) = bench.line(line);
        assert_eq!(data["return_code"], code, "{line}: {text}");
        let warning = bench.in_new_shell("echo \"x=$x\"; basename \"$PWD\"; x=6", "x=\nd\n");
        assert!(warning.contains(why), "{line}: {warning}");
        // Once.
        let (_, data) = bench.line("true");
        assert_eq!(data["warnings"], Value::Null);
    }
    // Where its directory is gone, it begins in the root.
    bench.out("rmdir ../d");
    bench.line("exit");
    let (text, data) = bench.line("pwd");
    assert_eq!(data["cwd"], bench.store.path().to_str().unwrap());
    assert!(text.contains("d is not there any more"), "{text}");
    bench.server.finish();
}

#[test]
fn line_that_outlives_its_time_is_ended_with_its_shell() {
    need_mount!();
    let mut bench = ShellBench::new();
    bench.out("x=5");
    for line in [
        "echo begun > begun; sleep 1000; echo late > late",
        "while true; do :; done",
        "trap '' INT TERM HUP; sleep 1000 | sleep 1000",
        "kill -STOP $$; echo late > late",
    ] {
        let call = json!({"command": line, "timeout": 2});
        let result = bench.server.call("bash", call);
        let data = &result["structuredContent"];
        assert_eq!(
            (&data["status"], &data["return_code"]),
            (&"timeout".into(), &124.into()),
            "{line}: {result}"
        );
        let warning = bench.in_new_shell("echo x=$x; jobs", "x=\n");
        assert!(warning.contains("the time of a line was up"), "{warning}");
    }
    assert_eq!(bench.read("begun"), "begun\n");
    assert_eq!(bench.read("late"), "");
    // So is one that is taken back.
    let id = bench
        .server
        .begin("bash", json!({"command": "touch comes; sleep 1000"}));
    let end = Instant::now() + LIMIT;
    while !bench.store.path().join("comes").exists() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.server.cancel(id);
    let warning = bench.in_new_shell("echo here", "here\n");
    assert!(warning.contains("a line was cancelled"), "{warning}");
    bench.server.finish();
}

#[test]
fn each_line_is_a_run_that_is_undone_whole() {
    need_mount!();
    let mut bench = ShellBench::new();
    let (_, one) = bench.line("for i in 1 2 3; do echo one > f$i; done");
    let (_, two) = bench.line("sed -i s/one/two/ f1 f2; rm f3; mkdir d; printf new > d/g");
    let (_, none) = bench.line("cat f1; ls | wc -l");
    assert_eq!(
        (&one["changed"], &none["changed"]),
        (&true.into(), &false.into())
    );
    let (told, _) = bench.server.does("history", json!({}));
    assert!(told.contains("sed -i") && !told.contains("wc -l"), "{told}");
    let (told, _) = bench.server.does("undo", json!({"run": two["run"]}));
    assert!(told.contains("took back"), "{told}");
    let names = |store: &Path| {
        let mut names: Vec<String> = std::fs::read_dir(store)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(bench.store.path()), ["f1", "f2", "f3"]);
    assert_eq!(bench.read("f1") + &bench.read("f3"), "one\none\n");
    // The shell goes on beside that.
    assert_eq!(bench.out("cat f1"), "one\n");
    bench.server.does("undo", json!({"run": one["run"]}));
    assert_eq!(names(bench.store.path()), [""; 0]);
    bench.server.finish();
}

#[test]
fn background_processes_go_on_and_belong_to_the_line_that_runs_then() {
    need_mount!();
    let mut bench = ShellBench::new();
    // Its output is that of its own line, also while others run.
    let (text, first) = bench
        .line("(until [ -e go ]; do sleep 0.02; done; echo of first; echo x > late) & echo begun");
    assert_eq!(first["stdout"], "begun\n", "{text}");
    assert_eq!(first["changed"], false, "{text}");
    let job = first["job"]
        .as_str()
        .unwrap_or_else(|| panic!("no job: {text}"));
    assert!(text.contains("background processes go on"), "{text}");
    bench
        .server
        .does("write_file", json!({"path": "go", "content": ""}));
    bench.wait_for("late", "x\n");
    let (told, _) = bench
        .server
        .does("bash_output", json!({"job": job, "wait": 5}));
    assert!(
        told.contains("of first") && told.contains("background"),
        "{told}"
    );
    // What it changed between two lines belongs to the line before.
    let (told, history) = bench.server.does("history", json!({}));
    assert!(told.contains("A /late"), "{told}");
    assert!(
        history["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["run"] == first["run"]),
        "{history}"
    );
    bench.server.does("undo", json!({"run": first["run"]}));
    assert!(!bench.store.path().join("late").exists());
    // While a line runs, to that.
    bench.out("(until [ -e go2 ]; do sleep 0.02; done; echo y > later) >/dev/null 2>&1 &");
    let (_, second) = bench.line("touch go2; until [ -s later ]; do sleep 0.02; done");
    bench.server.does("undo", json!({"run": second["run"]}));
    assert!(!bench.store.path().join("later").exists());
    assert!(!bench.store.path().join("go2").exists());
    // A server goes on over many lines, and ends with the session's shell.
    bench.out("python3 -m http.server 8123 >server.log 2>&1 & echo $! > pid");
    let fetch = "python3 -c 'import urllib.request as u, time\nfor i in range(200):\n  try: print(u.urlopen(\"http://127.0.0.1:8123/pid\").status); break\n  except OSError: time.sleep(0.05)'";
    assert_eq!(bench.out(fetch), "200\n");
    assert_eq!(bench.out("kill -0 $(cat pid) && echo lives"), "lives\n");
    bench.line("exit");
    let warning = bench.in_new_shell("kill -0 $(cat pid) 2>/dev/null || echo gone", "gone\n");
    assert!(warning.contains("background processes"), "{warning}");
    bench.server.finish();
}

/// A run ends where the next one begins, with no moment in between: what works in the background always works for one.
#[test]
fn change_between_two_lines_belongs_to_a_run() {
    need_mount!();
    let mut bench = ShellBench::new();
    bench.out("(i=0; until [ -e stop ]; do : > f$i; i=$((i + 1)); done; echo $i > made) >/dev/null 2>&1 &");
    for _ in 0..100 {
        bench.out("true");
    }
    bench.out("touch stop; until [ -s made ]; do sleep 0.02; done");
    let made: usize = bench.read("made").trim().parse().unwrap();
    bench.server.finish();
    let log = trumanfs(&[
        "log".as_ref(),
        "--json".as_ref(),
        bench.store.path().as_os_str(),
    ]);
    let log = String::from_utf8(log.stdout).unwrap();
    let created = log
        .lines()
        .filter(|line| line.contains("\"op\":\"create\""));
    let (in_runs, outside): (Vec<&str>, Vec<&str>) =
        created.partition(|line| line.contains("\"run\":"));
    assert!(in_runs.len() >= made, "{made}: {}", in_runs.len());
    assert_eq!(outside, Vec::<&str>::new(), "of {made}");
}

#[test]
fn sessions_have_shells_of_their_own() {
    need_mount!();
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Stateless, store.path(), &["--shell", "bash"]);
    let mut sessions = Vec::new();
    for number in 0..6 {
        let (_, data) = server.does("bash", json!({"command": format!("x={number}")}));
        sessions.push(data["session"].clone());
    }
    // All at once.
    let calls: Vec<u64> = sessions
        .iter()
        .map(|session| {
            let line = "sleep 0.2; echo $x >> all; echo $x";
            server.begin("bash", json!({"command": line, "session": session}))
        })
        .collect();
    for (number, id) in calls.into_iter().enumerate() {
        let answer = server.answer(id);
        let out = &answer["result"]["structuredContent"]["stdout"];
        assert_eq!(out, &format!("{number}\n"), "{answer}");
    }
    let all = std::fs::read_to_string(store.path().join("all")).unwrap();
    assert_eq!(all.lines().count(), 6);
    // One that ends takes nothing from the others.
    server.call("bash", json!({"command": "exit", "session": sessions[0]}));
    let (told, _) = server.does(
        "bash",
        json!({"command": "echo $x", "session": sessions[1]}),
    );
    assert_eq!(told, "1\n");
    server.finish();
}

/// The daemon is killed while a session has a shell: the home is mounted anew, with a new shell.
#[test]
fn home_that_went_away_is_opened_anew() {
    need_mount!();
    let mut bench = ShellBench::new();
    bench.out("x=5; echo kept > f");
    Mounted::of(bench.store.path()).kill();
    let end = Instant::now() + LIMIT;
    loop {
        let (text, data) = bench.line("cat f; echo x=$x");
        if data["stdout"] == "kept\nx=\n" {
            break;
        }
        assert!(Instant::now() < end, "{text}");
    }
    bench.server.finish();
}

/// bwrap makes no sandbox in a home of root's: without a word about the shell, the bundled one takes its place.
#[test]
fn bundled_shell_runs_lines_where_no_sandbox_can_be_made() {
    need_mount!();
    need_root!("for a home in which bwrap makes no sandbox");
    let store = tempfile::tempdir().unwrap();
    let mut server = Server::start(Era::Sessions, store.path(), &["--sandbox", "bwrap"]);
    let tools = server.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
    assert!(
        bash["description"]
            .as_str()
            .unwrap()
            .contains("a small shell"),
        "{bash}"
    );
    assert_eq!(
        server.does("bash", json!({"command": "echo here"})).0,
        "here\n"
    );
    let refused = server.fails("bash", json!({"command": "for i in 1; do echo $i; done"}));
    assert!(refused.contains("loops"), "{refused}");
    server.finish();
    // Who asks for it by name is told that there is none.
    let mut command = std::process::Command::new(crate::common::binary());
    command.args([
        "serve",
        "mcp",
        "--shell",
        "bash",
        "--sandbox",
        "bwrap",
        "--root",
    ]);
    command.arg(store.path()).stdin(std::process::Stdio::null());
    let output = crate::common::run_limited(command, LIMIT);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--shell bundled"));
}
