//! Runs in a mounted home: who belongs to one, and what its records say. An executor is played by this process, and by
//! children; the daemon, its control socket and the home are real.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Barrier;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use trumanfs::client::{Client, RunRegistry};
use trumanfs::name::{EscapedBytes, WorldPath};
use trumanfs::world::{OriginKind, Run, RunId};

use crate::common::{Home, child, describe, need_mount, skip, trumanfs};

/// An executor's connection to the daemon.
struct Executor {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Executor {
    fn connect(home: &Home) -> Executor {
        let stream = UnixStream::connect(home.store().join(".trumanfs/control.sock")).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Executor { stream, answers }
    }

    fn ask(&mut self, mut request: Value) -> Value {
        request["verb"] = json!("run");
        writeln!(self.stream, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    #[track_caller]
    fn done(&mut self, request: Value) {
        let answer = self.ask(request.clone());
        assert_eq!(answer, json!("done"), "{request}");
    }

    #[track_caller]
    fn refused(&mut self, request: Value) -> String {
        let answer = self.ask(request.clone());
        let what = answer["failed"]["what"].as_str();
        what.unwrap_or_else(|| panic!("{request} was not refused: {answer}"))
            .to_owned()
    }

    #[track_caller]
    fn begin(&mut self, id: &str, kind: &str, command: &str, threads: &[u32]) {
        self.done(begin(id, kind, command, threads));
    }

    #[track_caller]
    fn end(&mut self, id: &str) {
        let answer = self.ask(json!({"act": "end", "id": id}));
        assert!(answer["runended"]["recorded"].is_boolean(), "{answer}");
    }
}

fn begin(id: &str, kind: &str, command: &str, threads: &[u32]) -> Value {
    let command = command.replace('\\', "\\\\");
    json!({"act": "begin", "id": id, "kind": kind, "command": command, "cwd": "/", "threads": threads})
}

/// An id that this test gives away.
fn id(number: u32) -> String {
    format!("{number:08}test")
}

fn tid() -> u32 {
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    tid.unsigned_abs()
}

/// Which run each changed path belongs to, by the journal; absent for no run.
fn runs_of(home: &Home) -> BTreeMap<String, Option<String>> {
    let of = |record: &Value| {
        let path = record["path"].as_str()?.to_owned();
        Some((path, record["origin"]["run"].as_str().map(str::to_owned)))
    };
    home.journal().iter().filter_map(of).collect()
}

fn run_records(home: &Home) -> Vec<Value> {
    let mut all = home.journal();
    all.retain(|record| record["op"] == "run");
    all
}

#[test]
fn what_a_registered_thread_does_is_the_runs_and_nothing_else_is() {
    need_mount!();
    let home = Home::mount();
    let mut executor = Executor::connect(&home);
    fs::write(home.path("before"), "x").unwrap();
    executor.begin(&id(1), "shell", "echo 'ä\\n' > a; rm before", &[tid()]);
    fs::write(home.path("a"), "x").unwrap();
    fs::remove_file(home.path("before")).unwrap();
    // Another thread of the same process, and another process, belong to nobody.
    std::thread::scope(|threads| {
        threads.spawn(|| fs::write(home.path("thread"), "x").unwrap());
    });
    home.sh("echo x > process");
    executor.done(json!({"act": "leave", "id": id(1), "threads": [tid()]}));
    fs::write(home.path("left"), "x").unwrap();
    executor.done(json!({"act": "join", "id": id(1), "threads": [tid()]}));
    fs::write(home.path("joined"), "x").unwrap();
    executor.end(&id(1));
    fs::write(home.path("after"), "x").unwrap();
    let runs = runs_of(&home);
    for (path, of) in &runs {
        let expected = matches!(path.as_str(), "/a" | "/joined" | "/before").then(|| id(1));
        assert_eq!(*of, expected, "{path}");
    }
    assert!(runs.len() >= 7, "{runs:?}");
    // One record of the run, just before its first change, with what was asked for.
    let records = home.journal();
    let at = records
        .iter()
        .position(|record| record["op"] == "run")
        .unwrap();
    let run = &records[at];
    assert_eq!(run["origin"], json!({"kind": "shell", "run": id(1)}));
    assert_eq!(run["command"], "echo 'ä\\\\n' > a; rm before");
    assert_eq!(run["cwd"], "/");
    assert_eq!(records[at + 1]["path"], "/a");
    assert_eq!(run_records(&home).len(), 1);
}

#[test]
fn a_run_that_changes_nothing_leaves_no_record() {
    need_mount!();
    let home = Home::mount();
    fs::write(home.path("a"), "x").unwrap();
    let before = home.journal().len();
    let mut executor = Executor::connect(&home);
    executor.begin(&id(1), "tool", "read a", &[tid()]);
    fs::read(home.path("a")).unwrap();
    fs::read_dir(home.home()).unwrap().count();
    executor.end(&id(1));
    assert_eq!(home.journal().len(), before);
}

#[test]
fn fifty_threads_with_a_run_each_do_not_mix() {
    need_mount!();
    const THREADS: u32 = 50;
    const FILES: u32 = 20;
    let home = Home::mount();
    let all = Barrier::new(THREADS as usize);
    std::thread::scope(|threads| {
        for number in 0..THREADS {
            let (home, all) = (&home, &all);
            threads.spawn(move || {
                let mut executor = Executor::connect(home);
                executor.begin(&id(number), "tool", &format!("call {number}"), &[tid()]);
                all.wait();
                for file in 0..FILES {
                    let path = home.path(format!("{number}-{file}"));
                    fs::write(&path, "x").unwrap();
                    fs::rename(&path, home.path(format!("{number}-{file}.moved"))).unwrap();
                    if file % 2 == 0 {
                        fs::remove_file(home.path(format!("{number}-{file}.moved"))).unwrap();
                    }
                }
                executor.end(&id(number));
            });
        }
    });
    let mut seen = BTreeSet::new();
    for (path, run) in runs_of(&home) {
        let number: u32 = path[1..].split('-').next().unwrap().parse().unwrap();
        assert_eq!(run, Some(id(number)), "{path}");
        seen.insert(number);
    }
    assert_eq!(seen.len(), THREADS as usize);
    // Each run is told once, before its first change.
    let mut told = BTreeSet::new();
    for record in home.journal() {
        let Some(run) = record["origin"]["run"].as_str() else {
            continue;
        };
        match record["op"] == "run" {
            true => assert!(told.insert(run.to_owned()), "{run} twice"),
            false => assert!(told.contains(run), "{record}"),
        }
    }
    assert_eq!(told.len(), THREADS as usize);
}

#[test]
fn one_connection_carries_several_runs_at_once() {
    need_mount!();
    let home = Home::mount();
    let mut executor = Executor::connect(&home);
    let (main, ready) = (tid(), Barrier::new(2));
    std::thread::scope(|threads| {
        let (number, told) = std::sync::mpsc::channel();
        let (home, ready) = (&home, &ready);
        threads.spawn(move || {
            number.send(tid()).unwrap();
            ready.wait();
            fs::create_dir(home.path("other")).unwrap();
        });
        let other = told.recv().unwrap();
        executor.begin(&id(1), "task", "one", &[main]);
        executor.begin(&id(2), "tool", "two", &[other]);
        ready.wait();
        fs::create_dir(home.path("main")).unwrap();
    });
    let runs = runs_of(&home);
    assert_eq!(runs["/main"], Some(id(1)));
    assert_eq!(runs["/other"], Some(id(2)));
}

#[test]
fn an_executor_that_is_killed_leaves_no_run() {
    need_mount!();
    let home = Home::mount();
    let child = child::spawn(|| {
        let mut executor = Executor::connect(&home);
        executor.begin(&id(1), "shell", "loops", &[tid()]);
        fs::write(home.path("by the run"), "x").unwrap();
        loop {
            std::thread::park();
        }
    });
    let began = std::time::Instant::now();
    while !home.store().join("by the run").exists() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(home.status().unwrap()["members"], 1);
    let pid = rustix::process::Pid::from_raw(child.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(child.join().is_err());
    while home.status().unwrap()["members"] != 0 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
    }
    fs::write(home.path("after"), "x").unwrap();
    let runs = runs_of(&home);
    assert_eq!(runs["/by the run"], Some(id(1)));
    assert_eq!(runs["/after"], None);
    // Its id is not given to another run.
    let mut executor = Executor::connect(&home);
    let what = executor.refused(begin(&id(1), "shell", "again", &[tid()]));
    assert!(what.contains(&id(1)), "{what}");
}

/// The executor's thread ends without a word, and its number is another process's.
#[test]
fn a_thread_id_that_comes_round_again_is_not_the_runs() {
    need_mount!();
    let home = Home::mount();
    let mut executor = Executor::connect(&home);
    let (number, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        number.send(tid()).unwrap();
        let _ = ended.recv();
    });
    let gone = told.recv().unwrap();
    executor.begin(&id(1), "tool", "forgets its thread", &[gone]);
    drop(end);
    thread.join().unwrap();
    // The kernel gives the next process the number after this one.
    for attempt in 0..200 {
        if fs::write("/proc/sys/kernel/ns_last_pid", (gone - 1).to_string()).is_err() {
            skip!("root", "/proc/sys/kernel/ns_last_pid cannot be written");
        }
        let path = home.path(format!("{attempt}"));
        let mut made = Command::new("mkdir").arg(&path).spawn().unwrap();
        let pid = made.id();
        made.wait().unwrap();
        if pid == gone {
            let runs = runs_of(&home);
            assert_eq!(runs[&format!("/{attempt}")], None);
            return;
        }
    }
    skip!("chance", "others were always given thread {gone} first");
}

/// A program's processes, by their PID namespace, whatever they are called.
#[test]
fn real_programs_belong_to_the_run_of_their_namespace() {
    need_mount!();
    let home = Home::mount();
    let script = "read go; mkdir d; cp /etc/passwd d/a; mv d/a d/b; sh -c 'rm d/b; touch d/c' & wait; \
                  unshare --pid --fork sh -c 'touch d/deeper'; exec rmdir --ignore-fail-on-non-empty d";
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "sh", "-euc", script]);
        command.current_dir(home.home()).stdin(Stdio::piped());
        command.spawn()
    };
    let Ok(mut program) = unshare() else {
        skip!("tools", "there is no unshare(1)");
    };
    let inside = first_child(program.id());
    let mut executor = Executor::connect(&home);
    executor.begin(&id(7), "program", "sh -euc …", &[]);
    executor.done(json!({"act": "namespace", "id": id(7), "process": inside}));
    fs::write(home.path("beside"), "x").unwrap();
    writeln!(program.stdin.take().unwrap(), "go").unwrap();
    let status = program.wait().unwrap();
    assert!(status.success(), "{status}");
    fs::write(home.path("after"), "x").unwrap();
    executor.end(&id(7));
    let records = home.journal();
    let of_run = |record: &&Value| record["origin"]["run"] == json!(id(7));
    let comms: BTreeSet<&str> = records
        .iter()
        .filter(of_run)
        .filter_map(|record| record["actor"]["comm"].as_str())
        .collect();
    for comm in ["mkdir", "cp", "mv", "rm", "touch"] {
        assert!(comms.contains(comm), "{comms:?}");
    }
    let runs = runs_of(&home);
    for (path, run) in &runs {
        let inside = *path == "/d" || path.starts_with("/d/");
        assert_eq!(run.is_some(), inside, "{path}");
    }
    assert_eq!(
        runs["/d/deeper"],
        Some(id(7)),
        "of a namespace in the namespace"
    );
}

/// Waits until a process has a child, and returns its number.
fn first_child(pid: u32) -> u32 {
    let began = std::time::Instant::now();
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let first = children.unwrap_or_default();
        if let Some(first) = first.split_whitespace().next() {
            return first.parse().unwrap();
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
    }
}

#[test]
fn nobody_registers_what_is_not_theirs() {
    need_mount!();
    let home = Home::mount();
    let mut executor = Executor::connect(&home);
    // Threads of others, and none at all.
    for thread in [1, 0, home.daemon_pid(), u32::MAX] {
        let what = executor.refused(begin(&id(1), "shell", "x", &[thread]));
        assert!(what.contains(&thread.to_string()), "{what}");
    }
    // A run that could not begin is none.
    executor.refused(json!({"act": "join", "id": id(1), "threads": [tid()]}));
    executor.refused(json!({"act": "end", "id": id(1)}));
    // What gives rights, and what is no executor.
    executor.refused(begin(&id(2), "undo", "x", &[tid()]));
    executor.refused(begin(&id(2), "process", "x", &[tid()]));
    executor.begin(&id(3), "program", "x", &[]);
    // The daemon's own namespace, and that of the executor.
    for process in [1, home.daemon_pid(), std::process::id()] {
        executor.refused(json!({"act": "namespace", "id": id(3), "process": process}));
    }
    // Another connection's run, and another run's thread.
    executor.done(json!({"act": "join", "id": id(3), "threads": [tid()]}));
    let mut other = Executor::connect(&home);
    other.refused(json!({"act": "join", "id": id(3), "threads": [tid()]}));
    other.refused(json!({"act": "leave", "id": id(3), "threads": [tid()]}));
    other.refused(json!({"act": "end", "id": id(3)}));
    other.refused(begin(&id(3), "shell", "x", &[]));
    other.refused(begin(&id(4), "shell", "x", &[tid()]));
    fs::write(home.path("a"), "x").unwrap();
    assert_eq!(runs_of(&home)["/a"], Some(id(3)));
    // An occupant finds no socket, and another user is not answered.
    for name in [".trumanfs", ".trumanfs/control.sock"] {
        assert!(!home.path(name).exists());
    }
    let path = home.store().join(".trumanfs/control.sock");
    let reached = child::as_user(65534, 65534, &[], || {
        let stream = UnixStream::connect(&path);
        stream
            .map(|_| String::new())
            .map_err(|error| error.to_string())
    });
    assert!(reached.is_err());
}

/// With the page cache's writing back the kernel names nobody: a write is the doing of whoever opened the file.
#[test]
fn what_is_written_back_late_is_the_runs() {
    need_mount!();
    let home = Home::prepared(
        |store| fs::write(store.join("big"), vec![b'x'; 3 << 20]).unwrap(),
        &["--no-passthrough"],
    );
    let mut executor = Executor::connect(&home);
    executor.begin(&id(1), "shell", "patch big", &[tid()]);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(home.path("big"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"new", 4096).unwrap();
    drop(file);
    executor.end(&id(1));
    rustix::fs::syncfs(fs::File::open(home.home()).unwrap()).unwrap();
    // (The time is written back besides, by whoever has the inode written: perhaps by the kernel, for another's sync(2).)
    let records = home.journal();
    let write = records.iter().find(|record| record["op"] == "write");
    assert_eq!(write.unwrap()["origin"]["run"], id(1), "{records:?}");
}

fn shell(line: &str) -> Run {
    Run {
        id: RunId::random(),
        kind: OriginKind::Shell,
        command: EscapedBytes(line.as_bytes().to_vec()),
        cwd: WorldPath::root(),
        also: Vec::new(),
    }
}

#[test]
fn an_executor_registers_through_the_client() {
    need_mount!();
    let mut home = Home::mount();
    let runs = RunRegistry::new(&Client::open(home.home()).unwrap()).unwrap();
    let run = shell("a | b");
    let write = |name: &str| fs::write(home.path(name), "x").unwrap();
    let live = runs.begin(&run).unwrap();
    assert_eq!(live.id(), run.id);
    write("main");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            write("before");
            let member = live.join().unwrap();
            write("member");
            drop(member);
            write("left");
        });
    });
    assert!(runs.begin(&run).is_err());
    drop(live);
    write("after");
    let of = runs_of(&home);
    let id = Some(run.id.to_string());
    for (path, expected) in [
        ("/main", &id),
        ("/member", &id),
        ("/before", &None),
        ("/left", &None),
        ("/after", &None),
    ] {
        assert_eq!(of[path], *expected, "{path}");
    }
    // Another daemon serves the store now.
    home.remount();
    let run = shell("later");
    let live = runs.begin(&run).unwrap();
    fs::write(home.path("later"), "x").unwrap();
    drop(live);
    assert_eq!(runs_of(&home)["/later"], Some(run.id.to_string()));
    home.umount();
    assert!(runs.begin(&shell("not mounted")).is_err());
}

/// Runs the binary and expects an exit code; returns what it printed, standard error after it.
#[track_caller]
fn tells(code: i32, args: &[&str]) -> String {
    let output = trumanfs(args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        describe(&output)
    );
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_run_is_shown_and_taken_back_whole_and_an_undo_is_one() {
    need_mount!();
    let mut home = Home::prepared(
        |store| {
            fs::write(store.join("kept"), "old").unwrap();
            fs::write(store.join("gone"), "old").unwrap();
        },
        &[],
    );
    let store = home.store().to_str().unwrap().to_owned();
    let runs = RunRegistry::new(&Client::open(home.home()).unwrap()).unwrap();
    let (one, two) = (shell("one > kept; rm gone"), shell("two > kept"));
    let live = runs.begin(&one).unwrap();
    fs::write(home.path("kept"), "one").unwrap();
    fs::write(home.path("made"), "one").unwrap();
    fs::remove_file(home.path("gone")).unwrap();
    drop(live);
    fs::write(home.path("by nobody"), "x").unwrap();
    let live = runs.begin(&two).unwrap();
    fs::write(home.path("kept"), "two").unwrap();
    drop(live);
    let (first, second) = (one.id.to_string(), two.id.to_string());
    let read = |name: &str| fs::read_to_string(home.path(name)).ok();

    let told = tells(0, &["log", &store, "--run", &first]);
    assert!(
        told.contains("$ one > kept; rm gone") && told.contains("/gone"),
        "{told}"
    );
    assert!(
        told.contains(&format!("shell {first}")) && !told.contains("by nobody"),
        "{told}"
    );
    let told = tells(0, &["log", &store, "--run", &first, "--json"]);
    assert_eq!(told.lines().count(), 4, "{told}");
    for line in told.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["origin"], json!({"kind": "shell", "run": first}));
    }
    let told = tells(1, &["diff", &store, "--run", &first]);
    let mut lines: Vec<&str> = told
        .lines()
        .map(|line| line.split("  ").nth(1).unwrap())
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/gone", "/kept", "/made"], "{told}");
    let told = tells(0, &["log", &store]);
    assert!(told.contains("$ two > kept"), "{told}");

    // A later run has changed the same file: it is named, and nothing is done.
    let told = tells(4, &["undo", &store, "--run", &first]);
    assert!(
        told.contains(&second) && told.contains("two > kept"),
        "{told}"
    );
    assert_eq!(read("gone"), None);
    let told = tells(3, &["undo", &store, "--run", "zzzzzzzzzzzz"]);
    assert!(
        told.contains("zzzzzzzzzzzz") && told.contains("log --op run"),
        "{told}"
    );
    tells(3, &["log", &store, "--run", "zzzz"]);
    tells(2, &["undo", &store, "--run", "last", "--session", "last"]);

    // The newest first, then the other by a beginning of its id.
    tells(0, &["undo", &store, "--run", "last"]);
    assert_eq!(read("kept").unwrap(), "one");
    let told = tells(0, &["undo", &store, "--run", &first[..6], "--json"]);
    let undo: Value = serde_json::from_str(&told).unwrap();
    let told = tells(0, &["log", &store, "--op", "undo"]);
    assert!(told.contains(&format!("undo --run {first}")), "{told}");
    assert_eq!(undo["operations"], 3);
    assert_eq!(
        (read("kept").unwrap(), read("gone").unwrap()),
        ("old".into(), "old".into())
    );
    assert_eq!(read("made"), None);
    assert!(read("by nobody").is_some());
    // Once more is the same as once, but for the time of a directory in which others worked meanwhile.
    let told = trumanfs(&["undo", &store, "--run", &first]);
    assert!(
        matches!(told.status.code(), Some(0 | 1)),
        "{}",
        describe(&told)
    );
    assert_eq!(
        (read("kept").unwrap(), read("gone").unwrap()),
        ("old".into(), "old".into())
    );

    // An undo is a run; `redo` and the undo of it are the same, and both can be taken back.
    let of_undo = undo["run"].as_str().unwrap().to_owned();
    tells(0, &["undo", &store, "--run", &of_undo]);
    assert_eq!(read("made").unwrap(), "one");
    tells(0, &["undo", &store, "--run", &first]);
    assert_eq!(read("made"), None);
    tells(0, &["redo", &store]);
    assert_eq!(read("made").unwrap(), "one");
    // All of it goes where nothing is mounted, too.
    drop(runs);
    home.umount();
    let told = tells(0, &["undo", &store, "--run", &first]);
    assert!(told.contains("removed /made"), "{told}");
    assert!(!home.store().join("made").exists());
    let told = tells(0, &["report", &store, "--run", &first, "--html", "-"]);
    assert!(
        told.contains("one &gt; kept; rm gone") && !told.contains("by nobody"),
        "{told}"
    );
    tells(0, &["session", "show", &store]);
    tells(0, &["fsck", &store]);
}

/// Makes of a journal what a release without runs would have written: no seals, and a change of an undo names the undo's record in
/// its actor.
fn as_of_schema_2(journal: &std::path::Path) {
    let (mut text, mut prev, mut undo) = (String::new(), "0".repeat(64), 0);
    for line in fs::read_to_string(journal).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["op"] == "seal" {
            continue;
        }
        let mut line = line.replacen("\"v\":6", "\"v\":2", 1);
        if let Some(from) = line.find(",\"origin\":{") {
            let to = from + line[from..].find('}').unwrap() + 1;
            line.replace_range(from..to, "");
            if record["op"] == "undo" {
                undo = record["seq"].as_u64().unwrap();
            } else {
                // `from` is just behind the actor.
                line.insert_str(from - 1, &format!(",\"undo\":{undo}"));
            }
        }
        let at = line.rfind(",\"prev\":\"").unwrap() + 9;
        line.truncate(at);
        line += &format!("{prev}\"}}");
        let digest = Sha256::digest(line.as_bytes());
        prev = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&line);
        text.push('\n');
    }
    fs::write(journal, text).unwrap();
}

#[test]
fn an_undo_in_a_journal_without_runs_is_known_and_redone() {
    need_mount!();
    let mut home = Home::mount();
    let store = home.store().to_str().unwrap().to_owned();
    home.sh("echo a > a; echo b > b; rm a");
    tells(0, &["undo", &store, "--program", "rm"]);
    assert!(home.path("a").exists());
    home.umount();
    let sessions = fs::read_dir(home.store().join(".trumanfs/sessions")).unwrap();
    for session in sessions {
        as_of_schema_2(&session.unwrap().path().join("journal.jsonl"));
    }
    let records = home.journal();
    let of_undo = |record: &&Value| record["actor"]["undo"].is_u64();
    assert!(records.iter().any(|record| of_undo(&record)), "{records:?}");
    let told = tells(0, &["redo", &store]);
    assert!(told.contains("undo --program rm"), "{told}");
    assert!(!home.store().join("a").exists());
    tells(3, &["redo", &store]);
    // Neither does it count as what a program did.
    tells(3, &["undo", &store, "--program", "trumanfs", "--dry-run"]);
}
