//! Lines and scripts as agents type them (`corpus/`), through `exec --shell bash` and through a server, beside plain `bash -c` in a
//! copy of the same directory: output, errors, status and all that is in the directory afterwards are the same, but for what
//! docs/semantics/programs.md lists.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regex_automata::meta::Regex;
use serde_json::json;

use super::server::{Era, Server};
use crate::common::{binary, need_mount, need_tools, repository, run_limited};

const LIMIT: Duration = Duration::from_secs(60);

/// Records of which a session gives something else, by a part of each, and the difference that the documentation lists.
const LISTED: [(&str, &str); 4] = [
    (
        "${v:?must be set}",
        "1 in place of 127 where a variable is not set",
    ),
    (
        "\"$undefined_var\"",
        "1 in place of 127 where a variable is not set",
    ),
    ("never closed", "the number of a line in an error"),
    ("ERR at line $LINENO", "the number of a line"),
];

/// What came of a record: standard output, errors, status, the directory, and what git says of it.
#[derive(Debug, PartialEq, Eq)]
struct RecordOutcome {
    stdout: String,
    stderr: String,
    status: i64,
    tree: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    git: String,
}

fn records(file: &str) -> Vec<String> {
    let path = repository().join("tests/sandbox/mcp/corpus").join(file);
    let text = fs::read_to_string(path).unwrap();
    let text = text.strip_suffix('\n').unwrap_or(&text);
    text.split("\n%%\n").map(str::to_owned).collect()
}

/// Returns the variables that lines have in a sandbox, for plain bash.
fn plain_bash(dir: &Path) -> Command {
    let mut command = Command::new("bash");
    command.env_clear().current_dir(dir).stdin(Stdio::null());
    for (name, value) in [
        ("HOME", "/tmp/.home"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("SHELL", "/bin/bash"),
    ] {
        command.env(name, value);
    }
    command.args(["--noprofile", "--norc"]);
    command
}

fn tree(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(top).unwrap().to_owned();
            // Of git's own files, times and the order of entries are in the bytes.
            if below == Path::new(".git") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            if meta.is_dir() {
                pending.push(path);
            }
            // Links have no mode of their own.
            let mode = if meta.is_symlink() {
                0o120_000
            } else {
                meta.mode() & 0o170_777
            };
            found.insert(below, (mode, content));
        }
    }
    found
}

fn git(dir: &Path) -> String {
    let mut command = plain_bash(dir);
    command
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    command.args(["-c", "git log --all --format='%H %D %s'; git stash list --format=%s; git status --porcelain | sort"]);
    let said = run_limited(command, LIMIT);
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Compares the results of all records, in threads; each takes the next.
struct Corpus<'a> {
    records: &'a [String],
    fixture: &'a Path,
    plain: &'a Path,
    store: &'a Path,
    next: AtomicUsize,
    /// Beginnings of bash's own messages.
    prefixes: Regex,
    differences: Mutex<Vec<String>>,
}

impl Corpus<'_> {
    /// Makes a fresh copy of the fixture.
    fn copy(&self, to: &Path) {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.fixture).arg(to);
        assert!(run_limited(copy, LIMIT).status.success());
    }

    fn result(&self, record: &str, dir: &Path, said: (String, String, i64)) -> RecordOutcome {
        let (stdout, stderr, status) = said;
        let own = dir.to_str().unwrap();
        let place = |text: String| text.replace(own, "DIR");
        let mut tree = tree(dir);
        for (_, content) in tree.values_mut() {
            if let Ok(text) = std::str::from_utf8(content) {
                *content = text.replace(own, "DIR").into_bytes();
            }
        }
        let stderr = place(stderr);
        let lines = stderr.lines().map(|line| {
            let found = self.prefixes.find(line);
            found.map_or(line.to_owned(), |found| {
                format!("bash: {}", &line[found.end()..])
            })
        });
        RecordOutcome {
            stdout: place(stdout),
            stderr: lines.collect::<Vec<_>>().join("\n"),
            status,
            tree,
            git: if record.contains("git") {
                git(dir)
            } else {
                String::new()
            },
        }
    }

    fn plain(&self, number: usize, record: &str) -> RecordOutcome {
        let dir = self.plain.join(number.to_string());
        self.copy(&dir);
        let mut command = plain_bash(&dir);
        command.args(["-c", "--", record]);
        let output = run_limited(command, LIMIT);
        let status = std::os::unix::process::ExitStatusExt::signal(&output.status);
        let status = status.map_or(output.status.code().unwrap_or(-1), |signal| 128 + signal);
        self.result(
            record,
            &dir,
            (text(&output.stdout), text(&output.stderr), status.into()),
        )
    }

    fn alone(&self, number: usize, record: &str) -> RecordOutcome {
        let name = format!("e{number}");
        let dir = self.store.join(&name);
        self.copy(&dir);
        let mut command = Command::new(binary());
        command.args([
            "exec",
            "--shell",
            "bash",
            "--max-lines",
            "0",
            "--max-bytes",
            "0",
            "--cwd",
            &name,
            "--root",
        ]);
        command
            .arg(self.store)
            .args(["--", record])
            .stdin(Stdio::null());
        // So that toolchains of whoever runs the tests are not seen.
        command
            .env("HOME", "/nonexistent")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let output = run_limited(command, LIMIT);
        let status = output.status.code().unwrap_or(-1).into();
        // What trumanfs says besides has its name before it.
        let stderr = text(&output.stderr);
        let stderr: Vec<&str> = stderr
            .lines()
            .filter(|line| !line.starts_with("trumanfs: "))
            .collect();
        self.result(
            record,
            &dir,
            (text(&output.stdout), stderr.join("\n"), status),
        )
    }

    fn in_session(&self, server: &mut Server, number: usize, record: &str) -> RecordOutcome {
        let name = format!("s{number}");
        let dir = self.store.join(&name);
        self.copy(&dir);
        let (_, began) = server.does("bash", json!({"command": format!("cd {name}")}));
        let session = &began["session"];
        let call = json!({"command": record, "session": session});
        let told = server.call("bash", call)["structuredContent"].clone();
        // What the line has told to be done at the end of its shell.
        server.call("bash", json!({"command": "exit", "session": session}));
        let said = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let stderr = said("stderr");
        let ended = said("error_message");
        let stderr: Vec<&str> = stderr
            .lines()
            .filter(|line| ended.is_empty() || *line != ended)
            .collect();
        let status = told["return_code"].as_i64().unwrap_or(-1);
        self.result(record, &dir, (said("stdout"), stderr.join("\n"), status))
    }

    fn compare(&self, number: usize, way: &str, got: &RecordOutcome, wanted: &RecordOutcome) {
        if got == wanted {
            return;
        }
        let record = &self.records[number];
        let mut told = format!("{way} {number}: {record}\n");
        if (&got.stdout, &got.stderr, got.status) != (&wanted.stdout, &wanted.stderr, wanted.status)
        {
            told += &format!(
                "  got    {:?} {:?} {}\n",
                got.stdout, got.stderr, got.status
            );
            told += &format!(
                "  wanted {:?} {:?} {}\n",
                wanted.stdout, wanted.stderr, wanted.status
            );
        }
        for (path, node) in &got.tree {
            if wanted.tree.get(path) != Some(node) {
                told += &format!("  other: {}\n", path.display());
            }
        }
        for path in wanted
            .tree
            .keys()
            .filter(|path| !got.tree.contains_key(*path))
        {
            told += &format!("  absent: {}\n", path.display());
        }
        if got.git != wanted.git {
            told += &format!("  git: {:?}\n  not  {:?}\n", got.git, wanted.git);
        }
        self.differences.lock().unwrap().push(told);
    }

    fn work(&self) {
        let more = ["--shell", "bash", "--max-tokens", "1000000"];
        let env: Vec<&OsStr> = [
            "env",
            "HOME=/nonexistent",
            "PATH=/usr/local/bin:/usr/bin:/bin",
        ]
        .map(OsStr::new)
        .into();
        let by: Vec<&str> = env.iter().map(|word| word.to_str().unwrap()).collect();
        let mut server = Server::start_by(&by, Era::Stateless, self.store, &more);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(record) = self.records.get(number) else {
                break;
            };
            let wanted = self.plain(number, record);
            self.compare(number, "exec", &self.alone(number, record), &wanted);
            // What a trap on EXIT prints comes when the shell ends, and is nobody's.
            let mut got = self.in_session(&mut server, number, record);
            if record.contains("EXIT") {
                got.stdout.clone_from(&wanted.stdout);
                got.stderr.clone_from(&wanted.stderr);
            }
            if !LISTED.iter().any(|(text, _)| record.contains(text)) {
                self.compare(number, "session", &got, &wanted);
            }
        }
        server.finish();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn compare_all(file: &str, count: usize) {
    let records = records(file);
    assert_eq!(records.len(), count);
    let base = tempfile::tempdir().unwrap();
    let dirs = ["fixture", "plain", "store"].map(|name| base.path().join(name));
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
    }
    let [fixture, plain, store] = &dirs;
    let mut make = plain_bash(fixture);
    make.arg(repository().join("tests/sandbox/mcp/corpus/fixture.sh"));
    let made = run_limited(make, LIMIT);
    assert!(made.status.success(), "{}", crate::common::describe(&made));
    let corpus = Corpus {
        records: &records,
        fixture,
        plain,
        store,
        next: AtomicUsize::new(0),
        prefixes: Regex::new(r"^(bash|main|environment): ((-c|eval): )?(line [0-9]+: )?").unwrap(),
        differences: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| corpus.work());
        }
    });
    let differences = corpus.differences.into_inner().unwrap();
    assert!(
        differences.is_empty(),
        "{} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn lines_do_what_they_do_in_plain_bash() {
    need_mount!();
    need_tools!("git", "python3", "perl", "gcc", "make");
    compare_all("lines.txt", 300);
}

#[test]
fn scripts_do_what_they_do_in_plain_bash() {
    need_mount!();
    need_tools!("git", "python3", "perl", "gcc", "make");
    compare_all("scripts.txt", 40);
}
