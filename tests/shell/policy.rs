//! `trumanfs policy`: what it prints and how it ends. What policies decide is tested beside the code.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{binary, describe};

const POLICY: &str =
    "git:\n  subcommands:\n    status: { flags: [-s], timeout: 20 }\nawk: { flags: [] }\n";

struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("p.yaml"), POLICY).unwrap();
        Desk { dir }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// Runs `trumanfs policy` where these files are. No policy of this machine or its environment has a say.
    fn policy(&self, words: &[&str], stdin: &str) -> (i32, String, String) {
        let mut command = Command::new(binary());
        command
            .current_dir(self.dir.path())
            .env_remove("TRUMANFS_POLICY");
        command.arg("policy").args(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end without reading.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output: Output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let code = output
            .status
            .code()
            .unwrap_or_else(|| panic!("{}", describe(&output)));
        (code, text(&output.stdout), text(&output.stderr))
    }
}

#[test]
fn check_ends_with_0_or_1_and_says_where() {
    let desk = Desk::new();
    let (code, out, _) = desk.policy(&["check", "p.yaml"], "");
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("p.yaml:4: awk: warning: `awk` can start any program"),
        "{out}"
    );
    assert!(out.contains("p.yaml: sound; allows awk git"), "{out}");
    desk.write("bad.yaml", "git:\n  subcomands: {}\n  default_timeout: x\n");
    let (code, out, _) = desk.policy(&["check", "bad.yaml"], "");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (1, 2), "{out}");
    assert!(
        lines[0].starts_with("bad.yaml:2: git.subcomands: unknown key"),
        "{out}"
    );
    assert!(
        lines[1].starts_with("bad.yaml:3: git.default_timeout: `x`"),
        "{out}"
    );
    let (code, out, _) = desk.policy(&["check", "bad.yaml", "--json"], "");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &found["ok"]), (1, &Value::Bool(false)));
    assert_eq!(found["problems"][0]["line"], 2);
    assert_eq!(found["problems"][0]["key"], "git.subcomands");
    let wrong = "a:\n  network:\n    host_ports: [53]\n    publish:\n      - 3000\n      - 3000\n      - 70000\n";
    desk.write("ports.yaml", wrong);
    let (code, out, _) = desk.policy(&["check", "ports.yaml"], "");
    let starts = [
        "ports.yaml:7: a.network.publish: 70000 ",
        "ports.yaml:3: a.network.host_ports: 53: ",
        "ports.yaml:6: a.network.publish: 3000: ",
    ];
    assert_eq!((code, out.lines().count()), (1, starts.len()), "{out}");
    for start in starts {
        assert!(
            out.lines().any(|line| line.starts_with(start)),
            "{start}: {out}"
        );
    }
    let (code, out, _) = desk.policy(&["check", "missing.yaml"], "");
    assert!(code == 1 && out.starts_with("missing.yaml: "), "{out}");
    for name in ["default", "development", "production"] {
        assert_eq!(desk.policy(&["check", name], "").0, 0, "{name}");
    }
}

#[test]
fn explain_ends_with_the_verdict() {
    let desk = Desk::new();
    let explain =
        |words: &[&str]| desk.policy(&[&["explain", "--policy", "p.yaml"], words].concat(), "");
    let (code, out, _) = explain(&["--", "git status -s"]);
    assert!(
        code == 0 && out.starts_with("allow: git.subcommands.status\n"),
        "{out}"
    );
    assert!(
        out.contains("  runs     git status -s\n") && out.contains("  time     20 s at most\n"),
        "{out}"
    );
    let (code, out, _) = explain(&["--", "git", "push"]);
    assert!(
        code == 1
            && out.starts_with("deny: git.subcommands (subcommand)\n")
            && out.contains("status"),
        "{out}"
    );
    let (code, out, _) = explain(&[
        "--json",
        "--env",
        "NO_COLOR=1",
        "--timeout",
        "5",
        "--cwd",
        "a",
        "--",
        "git status",
    ]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &found["verdict"], &found["class"]),
        (0, &Value::from("allow"), &Value::Null)
    );
    assert_eq!(
        (
            &found["timeout_s"],
            &found["env"]["NO_COLOR"],
            &found["cwd"]
        ),
        (&5.into(), &"1".into(), &"/home/agent/a".into())
    );
    let (code, out, _) = explain(&["--json", "--", "git status; id"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &found["verdict"], &found["class"], &found["rule"]),
        (1, &"deny".into(), &"words".into(), &"words.operator".into())
    );
    desk.write("bad.yaml", "git: 3\n");
    let (code, out, err) =
        desk.policy(&["explain", "--policy", "bad.yaml", "--", "git status"], "");
    assert!(
        code == 2 && out.is_empty() && err.contains("bad.yaml:1: git: "),
        "{err}"
    );
    let (code, _, err) = desk.policy(
        &[
            "explain",
            "--policy",
            "bad.yaml",
            "--json",
            "--",
            "git status",
        ],
        "",
    );
    let error: Value = serde_json::from_str(&err).unwrap();
    assert_eq!((code, &error["error"]["exit"]), (2, &2.into()), "{err}");
    assert_eq!(
        desk.policy(&["explain", "--policy", "p.yaml"], "").0,
        2,
        "no command"
    );
}

#[test]
fn explain_resolves_links_of_a_home() {
    let desk = Desk::new();
    let home = desk.dir.path().join("home");
    fs::create_dir_all(home.join("src")).unwrap();
    fs::write(home.join("src/a"), "").unwrap();
    desk.write("secret", "");
    std::os::unix::fs::symlink("../secret", home.join("link")).unwrap();
    let real = home.canonicalize().unwrap();
    let inside = format!("sort {}/src/a", real.display());
    let outside = format!(
        "sort {}/secret",
        desk.dir.path().canonicalize().unwrap().display()
    );
    for (cwd, line, code) in [
        ("", "sort src/a", 0),
        ("", inside.as_str(), 0),
        ("", "sort link", 1),
        ("", outside.as_str(), 1),
        ("src", "sort ../link", 1),
        ("src", "sort ../../secret", 1),
        ("src", "sort ../src/a", 0),
        ("..", "sort a", 1),
        ("/etc", "sort a", 1),
    ] {
        let (found, out, err) = desk.policy(
            &[
                "explain", "--policy", "default", "--root", "home", "--cwd", cwd, "--", line,
            ],
            "",
        );
        assert_eq!(found, code, "{cwd} {line}: {out}{err}");
    }
}

#[test]
fn a_batch_gets_an_answer_a_line() {
    let desk = Desk::new();
    let requests = [
        r#"{"id": 1, "command": "git status"}"#,
        r#"{"id": "two", "command": ["git", "status", "-x"], "cwd": "src"}"#,
        "no json",
        "",
        r#"{"id": 3, "command": "git status", "timeout": 0.5, "env": {"TZ": "UTC"}}"#,
        r#"{"id": 4, "command": "git status", "timeout": -1}"#,
        r#"{"id": 5, "command": "git status", "shell": true}"#,
        r#"{"id": 6, "command": 7}"#,
        r#"{"id": 7, "command": "git status", "env": {"LD_PRELOAD": "x"}}"#,
    ];
    let (code, out, err) = desk.policy(
        &["explain", "--policy", "p.yaml", "--batch"],
        &requests.join("\n"),
    );
    assert_eq!(code, 0, "{err}");
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found: Vec<(String, &str)> = answers
        .iter()
        .map(|answer| {
            (
                answer["id"].to_string(),
                answer["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("1", "allow"),
        ("\"two\"", "deny"),
        ("null", "deny"),
        ("3", "allow"),
        ("4", "deny"),
        ("5", "deny"),
        ("6", "deny"),
        ("7", "deny"),
    ];
    assert_eq!(
        found,
        expected.map(|(id, verdict)| (id.to_owned(), verdict)),
        "{out}"
    );
    assert_eq!(
        (&answers[3]["timeout_s"], &answers[3]["env"]["TZ"]),
        (&0.5.into(), &"UTC".into())
    );
    assert_eq!(answers[7]["class"], "environment");
}

#[test]
fn a_batch_that_cannot_be_read_says_what_could_not() {
    let desk = Desk::new();
    let script = "exec \"$0\" policy explain --policy p.yaml --batch <.";
    let mut command = Command::new("sh");
    command.current_dir(desk.dir.path());
    command.args(["-c", script]).arg(binary());
    let output = crate::common::run_limited(command, std::time::Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(7), "{}", describe(&output));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("standard input: Is a directory"),
        "{errors}"
    );
}
