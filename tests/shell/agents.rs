//! Agents that are real: Claude Code, Codex, Gemini CLI and opencode, from npm, whose model is `hooks/model.py`; and Python, as an agent that runs lines
//! by `$SHELL`.
//!
//! `tests/shell/hooks/get_agents target/agents` gets them, as CI does: some 1.2 GB.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Home, binary, describe, need_mount, repository, run_limited, skip, trumanfs};

/// Returns the path of an agent, where it is there.
fn agent(name: &str) -> Option<PathBuf> {
    let path = repository()
        .join("target/agents/node_modules/.bin")
        .join(name);
    path.exists().then_some(path)
}

/// Returns from the test where an agent is not there.
macro_rules! need_agent {
    ($name:literal) => {
        match agent($name) {
            Some(path) => path,
            None => skip!(
                "agents",
                "`tests/shell/hooks/get_agents target/agents` has not been run"
            ),
        }
    };
}

/// A model that makes these calls.
struct Model {
    dir: tempfile::TempDir,
    port: String,
    child: Child,
    /// It ends when this is closed.
    stdin: Option<ChildStdin>,
}

impl Model {
    fn start(calls: &Value) -> Model {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("calls.json"), calls.to_string()).unwrap();
        let mut child = Command::new("python3")
            .arg(repository().join("tests/shell/hooks/model.py"))
            .args([
                dir.path().join("calls.json"),
                dir.path().join("requests.jsonl"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut port).unwrap();
        Model {
            dir,
            port: port.trim().to_owned(),
            stdin: child.stdin.take(),
            child,
        }
    }

    /// Makes the command that starts an agent, with a home directory of its own.
    fn command(&self, agent: &Path, cwd: &Path) -> Command {
        let mut command = Command::new(agent);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env("CLAUDE_CODE_TMPDIR", self.dir.path())
            .env(
                "ANTHROPIC_BASE_URL",
                format!("http://127.0.0.1:{}", self.port),
            )
            .env("ANTHROPIC_API_KEY", "none")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("MODEL_KEY", "none")
            .current_dir(cwd)
            .stdin(Stdio::null());
        command
    }

    /// Runs Claude Code with these settings.
    fn claude(&self, agent: &Path, cwd: &Path, settings: &Value, words: &[&str]) -> Output {
        let mut command = self.command(agent, cwd);
        command.args(["-p", "go", "--settings", &settings.to_string()]);
        command.args(words);
        run_limited(command, Duration::from_secs(90))
    }

    /// Runs Codex with these hooks.
    fn codex(&self, agent: &Path, cwd: &Path, hooks: &Value) -> Output {
        self.codex_with(agent, cwd, hooks, "")
    }

    /// Runs Codex with a server for `home`.
    fn codex_with_server(&self, agent: &Path, cwd: &Path, args: &[&str]) -> Output {
        let server = format!(
            "[mcp_servers.home]\ncommand = \"{}\"\nargs = {}\ndefault_tools_approval_mode = \"approve\"\n",
            binary(),
            json!(args)
        );
        self.codex_with(agent, cwd, &json!({}), &server)
    }

    fn codex_with(&self, agent: &Path, cwd: &Path, hooks: &Value, more: &str) -> Output {
        let dir = self.dir.path().join(".codex");
        fs::create_dir_all(&dir).unwrap();
        let config = format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"script\"\n[model_providers.script]\nname = \"script\"\n\
             base_url = \"http://127.0.0.1:{}/v1\"\nwire_api = \"responses\"\nenv_key = \"MODEL_KEY\"\n{more}",
            self.port
        );
        fs::write(dir.join("config.toml"), config).unwrap();
        fs::write(dir.join("hooks.json"), hooks.to_string()).unwrap();
        let mut command = self.command(agent, cwd);
        command.args([
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            "go",
        ]);
        run_limited(command, Duration::from_secs(90))
    }

    /// Returns what the agent told its model of each call.
    fn results(&self) -> Vec<String> {
        let requests = fs::read_to_string(self.dir.path().join("requests.jsonl")).unwrap();
        let asked = |line: &str| serde_json::from_str::<Value>(line).unwrap()["asked"].clone();
        let text = |value: &Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        let most = |asked: Value| -> Vec<String> {
            let parts = asked["messages"].as_array().into_iter().flatten();
            let parts =
                parts.flat_map(|message| message["content"].as_array().into_iter().flatten());
            let claude = parts.filter(|part| part["type"] == "tool_result");
            let items = asked["input"].as_array().into_iter().flatten();
            let codex = items.filter(|item| !item["output"].is_null());
            claude
                .map(|part| text(&part["content"]))
                .chain(codex.map(|item| text(&item["output"])))
                .collect()
        };
        let all = requests.lines().map(asked).map(most);
        all.max_by_key(Vec::len).unwrap_or_default()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Hooks as the documents have them.
fn hooks(command: &str) -> Value {
    let guarded = format!("{command} || {{ echo 'the hook failed' >&2; exit 2; }}");
    let hook = json!({"type": "command", "command": guarded, "timeout": 30});
    json!({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})
}

fn hook_at(home: &Home, words: &str) -> Value {
    hooks(&format!(
        "{} hook {words} --root {}",
        binary(),
        home.home().display()
    ))
}

/// With the permission to use all tools: it is the hook that decides.
fn allowing(mut settings: Value) -> Value {
    settings["permissions"] = json!({"allow": ["Read", "Write", "Edit", "Glob", "Grep"]});
    settings
}

fn has(text: &str, part: &str) -> bool {
    assert!(text.contains(part), "{part:?} is not in {text:?}");
    true
}

#[test]
fn claude_code_does_what_the_hook_says() {
    need_mount!();
    let claude = need_agent!("claude");
    let home = Home::mount();
    fs::write(home.path("there.txt"), "old\n").unwrap();
    let there = home.path("there.txt");
    let model = Model::start(&json!([
        {"name": "Bash", "input": {"command": "echo 'it'\"'\"'s' > a.txt; cat a.txt; ls /etc", "description": "x"}},
        {"name": "Read", "input": {"file_path": there}},
        {"name": "Edit", "input": {"file_path": there, "old_string": "old", "new_string": "new"}},
        {"name": "Read", "input": {"file_path": "/etc/passwd"}},
        {"name": "Glob", "input": {"pattern": "/etc/*.conf"}},
        {"name": "Grep", "input": {"pattern": "x", "path": "~"}},
        {"name": "Glob", "input": {"pattern": "*.txt"}},
        {"name": "Bash", "input": {"command": "while true; do ls; done", "description": "x"}},
    ]));
    let settings = allowing(hook_at(&home, "claude-code --allow"));
    let tools = ["--tools", "Bash,Read,Edit,Glob,Grep"];
    let output = model.claude(&claude, home.home(), &settings, &tools);
    let results = model.results();
    assert_eq!(results.len(), 8, "{results:#?} {}", describe(&output));
    assert!(has(&results[0], "it's\n") && has(&results[0], "ls: /etc: No such file or directory"));
    assert!(has(&results[1], "old") && has(&results[2], "has been updated"));
    for (result, path) in results[3..6]
        .iter()
        .zip(["/etc/passwd", "/etc/*.conf", "~"])
    {
        assert_eq!(result, &format!("{path}: No such file or directory"));
    }
    assert!(has(&results[6], "a.txt"));
    assert_eq!(results[7], "bash: while: loops are not supported");
    assert_eq!(fs::read(there).unwrap(), b"new\n");
    // The line is a run that can be taken back.
    let log = trumanfs(&["log".as_ref(), home.store().as_os_str()]);
    assert!(has(&String::from_utf8_lossy(&log.stdout), "$ echo 'it'"));
}

/// The calls of an attack that worked: Claude Code trims the paths of its tools.
#[test]
fn claude_code_finds_nothing_outside_behind_blanks() {
    need_mount!();
    let claude = need_agent!("claude");
    let home = Home::mount();
    fs::write(home.path("there.txt"), "old\n").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret.txt"), "root:secret\n").unwrap();
    let outside = elsewhere.path().to_str().unwrap();
    let around = [
        (" ", outside, ""),
        ("\t", outside, "\n"),
        ("\u{a0}", outside, ""),
        ("\u{feff}", outside, ""),
        ("", outside, "\u{2028}"),
        (" ", "~", ""),
        ("", "..", " "),
    ];
    let mut calls = Vec::new();
    for (before, dir, after) in around {
        let path = format!("{before}{dir}{after}");
        let file = |name: &str| format!("{before}{dir}/{name}{after}");
        calls.push(json!({"name": "Grep", "input": {"pattern": "root:", "path": path, "output_mode": "content"}}));
        calls.push(json!({"name": "Glob", "input": {"pattern": "*.txt", "path": path}}));
        calls.push(json!({"name": "Read", "input": {"file_path": file("secret.txt")}}));
        calls.push(
            json!({"name": "Write", "input": {"file_path": file("new.txt"), "content": "x"}}),
        );
    }
    calls.push(json!({"name": "Grep", "input": {"pattern": "old", "path": " there.txt", "output_mode": "content"}}));
    let model = Model::start(&json!(calls));
    let settings = allowing(hook_at(&home, "claude-code --allow"));
    let tools = ["--tools", "Read,Write,Glob,Grep"];
    let output = model.claude(&claude, home.home(), &settings, &tools);
    let results = model.results();
    assert_eq!(
        results.len(),
        calls.len(),
        "{results:#?} {}",
        describe(&output)
    );
    for (call, result) in calls.iter().zip(&results[..around.len() * 4]) {
        assert!(has(result, ": No such file or directory"), "{call}");
        assert!(
            !result.contains("secret\n") && !result.contains("root:secret"),
            "{call}: {result}"
        );
    }
    assert!(has(results.last().unwrap(), "old"));
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
}

/// Nobody is there who could be asked, so what has to be asked about is not done.
#[test]
fn claude_code_asks_a_person_about_a_rewritten_line() {
    need_mount!();
    let claude = need_agent!("claude");
    for (mode, words, is_removed) in [
        ("default", "claude-code", false),
        ("plan", "claude-code --allow", false),
        ("dontAsk", "claude-code", false),
        ("acceptEdits", "claude-code", true),
        ("default", "claude-code --allow", true),
    ] {
        let home = Home::mount();
        fs::write(home.path("there.txt"), "old\n").unwrap();
        let model = Model::start(&json!([
            {"name": "Bash", "input": {"command": "cat there.txt", "description": "x"}},
            {"name": "Bash", "input": {"command": "rm there.txt", "description": "x"}},
        ]));
        let settings = hook_at(&home, words);
        model.claude(
            &claude,
            home.home(),
            &settings,
            &["--permission-mode", mode],
        );
        let results = model.results();
        assert_eq!(results[0], "old", "{mode} {words}: {results:#?}");
        assert_eq!(
            !home.path("there.txt").exists(),
            is_removed,
            "{mode} {words}: {results:#?}"
        );
    }
}

#[test]
fn codex_does_what_the_hook_says() {
    need_mount!();
    let codex = need_agent!("codex");
    let home = Home::mount();
    fs::write(home.path("there.txt"), "old\n").unwrap();
    let patch = |heading: &str| format!("*** Begin Patch\n{heading}\n*** End Patch");
    let model = Model::start(&json!([
        {"name": "exec_command", "input": {"cmd": "echo 'it'\"'\"'s' > a.txt; cat a.txt; ls /etc"}},
        {"name": "exec_command", "input": {"cmd": "cat /etc/hostname", "workdir": "/etc", "shell": "/bin/sh", "tty": true}},
        {"name": "apply_patch", "input": patch("*** Update File: there.txt\n@@\n-old\n+new")},
        {"name": "apply_patch", "input": patch("*** Add File: ../out.txt\n+x")},
        {"name": "view_image", "input": {"path": "/etc/passwd"}},
        {"name": "exec_command", "input": {"cmd": "while true; do ls; done"}},
    ]));
    let output = model.codex(&codex, home.home(), &hook_at(&home, "codex"));
    let results = model.results();
    assert_eq!(results.len(), 6, "{results:#?} {}", describe(&output));
    assert!(has(&results[0], "it's\n") && has(&results[0], "ls: /etc: No such file or directory"));
    assert!(has(
        &results[1],
        "cat: /etc/hostname: No such file or directory"
    ));
    assert!(has(&results[2], "Success"));
    assert!(has(&results[3], "../out.txt: No such file or directory"));
    assert!(has(&results[4], "/etc/passwd: No such file or directory"));
    assert!(has(&results[5], "bash: while: loops are not supported"));
    assert_eq!(fs::read(home.path("there.txt")).unwrap(), b"new\n");
}

/// What the documents add to a hook's command makes of its failure a denial, by either agent.
#[test]
fn a_hook_that_fails_blocks_the_call() {
    need_mount!();
    let (claude, codex) = (need_agent!("claude"), need_agent!("codex"));
    for failing in ["/nowhere/trumanfs hook", "sh -c 'kill -9 $$'"] {
        let home = Home::mount();
        let line = json!("echo escaped > a.txt");
        let model = Model::start(
            &json!([{"name": "Bash", "input": {"command": line, "description": "x"}}]),
        );
        let mut settings = hooks(failing);
        settings["permissions"] = json!({"allow": ["Bash"]});
        model.claude(&claude, home.home(), &settings, &[]);
        assert!(has(&model.results()[0], "the hook failed"));
        let model = Model::start(&json!([{"name": "exec_command", "input": {"cmd": line}}]));
        model.codex(&codex, home.home(), &hooks(failing));
        assert!(has(&model.results()[0], "the hook failed"));
        assert!(!home.path("a.txt").exists(), "{failing}");
    }
}

/// The tools of the server, and no others.
#[test]
fn claude_code_works_by_the_servers_tools_alone() {
    need_mount!();
    let claude = need_agent!("claude");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("there.txt"), "old\n").unwrap();
    let model = Model::start(&json!([
        {"name": "mcp__home__bash", "input": {"command": "cat there.txt; ls /etc"}},
        {"name": "mcp__home__remove", "input": {"path": "there.txt"}},
        {"name": "Bash", "input": {"command": "id", "description": "x"}},
        {"name": "mcp__home__undo", "input": {}},
    ]));
    let words = [
        "serve",
        "mcp",
        "--shell",
        "bundled",
        "--root",
        dir.path().to_str().unwrap(),
    ];
    let server = json!({"mcpServers": {"home": {"command": binary(), "args": words}}});
    let server = server.to_string();
    let words = [
        "--mcp-config",
        &server,
        "--tools",
        "",
        "--allowedTools",
        "mcp__home",
    ];
    let output = model.claude(&claude, dir.path(), &json!({}), &words);
    let results = model.results();
    assert_eq!(results.len(), 4, "{results:#?} {}", describe(&output));
    assert!(has(&results[0], "old") && has(&results[0], "No such file or directory"));
    assert!(has(&results[1], ".trash/"));
    assert!(has(&results[2], "No such tool available: Bash"));
    assert_eq!(
        fs::read(dir.path().join("there.txt")).unwrap(),
        b"old\n",
        "{results:#?}"
    );
}

/// Both agents type lines of bash for a server, which keeps their shell from line to line.
#[test]
fn both_agents_work_with_lines_in_a_real_shell() {
    need_mount!();
    let (claude, codex) = (need_agent!("claude"), need_agent!("codex"));
    let lines = [
        "for i in 1 2 3; do echo $i; done > f; total() { awk '{ s += $1 } END { print s }' f; }; x=kept",
        "total; echo $x; python3 - <<'E'\nprint(open('f').read().split())\nE",
        "rm f; cat /home/*/.ssh/id_rsa; echo gone",
    ];
    for is_claude in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let call = |name: &str, input: Value| match is_claude {
            true => json!({"name": format!("mcp__home__{name}"), "input": input}),
            false => json!({"name": name, "namespace": "mcp__home", "input": input}),
        };
        let mut calls: Vec<Value> = lines
            .iter()
            .map(|line| call("bash", json!({"command": line})))
            .collect();
        calls.push(call("undo", json!({})));
        let model = Model::start(&json!(calls));
        let root = dir.path().to_str().unwrap();
        let args = ["serve", "mcp", "--shell", "bash", "--root", root];
        let output = if is_claude {
            let server =
                json!({"mcpServers": {"home": {"command": binary(), "args": args}}}).to_string();
            let words = [
                "--mcp-config",
                &server,
                "--tools",
                "",
                "--allowedTools",
                "mcp__home",
            ];
            model.claude(&claude, dir.path(), &json!({}), &words)
        } else {
            model.codex_with_server(&codex, dir.path(), &args)
        };
        let results = model.results();
        assert_eq!(results.len(), 4, "{results:#?} {}", describe(&output));
        assert!(has(&results[1], "kept") && has(&results[1], "'1', '2', '3'"));
        assert!(has(&results[2], "No such file or directory") && has(&results[2], "gone"));
        assert_eq!(
            fs::read(dir.path().join("f")).unwrap(),
            b"1\n2\n3\n",
            "{results:#?}"
        );
    }
}

/// Runs a program in `trumanfs agent`; none where no sandbox can be made.
fn in_agent(store: &Path, words: &[&str]) -> Option<Output> {
    let run = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["agent", "--keep"]).args(words);
        command.current_dir(store).stdin(Stdio::null());
        run_limited(command, Duration::from_secs(120))
    };
    let can = run(&["--net", "none", "--", "true"]).status.success();
    can.then(|| run(words))
}

/// The whole agent in a sandbox: nothing of it has been set up.
#[test]
fn claude_code_works_in_a_sandbox() {
    need_mount!();
    let claude = need_agent!("claude");
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("there.txt"), "old\n").unwrap();
    fs::write(dir.path().join("secret.txt"), "secret\n").unwrap();
    let secret = dir.path().join("secret.txt");
    let there = store.join("there.txt");
    let line = format!(
        "for i in 1 2; do echo $i > f$i; done; cat {}; rm -r f1",
        secret.display()
    );
    let model = Model::start(&json!([
        {"name": "Bash", "input": {"command": line, "description": "x"}},
        {"name": "Read", "input": {"file_path": secret}},
        {"name": "Read", "input": {"file_path": there}},
        {"name": "Edit", "input": {"file_path": there, "old_string": "old", "new_string": "new"}},
    ]));
    let url = format!("ANTHROPIC_BASE_URL=http://127.0.0.1:{}", model.port);
    let (net, agents) = (
        format!("allow=127.0.0.1:{}", model.port),
        repository().join("target/agents"),
    );
    let words = [
        &[
            "--profile",
            "claude",
            "--net",
            &net,
            "--env",
            &url,
            "--env",
            "ANTHROPIC_API_KEY=none",
        ][..],
        &[
            "--bind-ro",
            agents.to_str().unwrap(),
            "--",
            claude.to_str().unwrap(),
        ],
        &["-p", "go", "--permission-mode", "bypassPermissions"],
    ];
    let Some(output) = in_agent(&store, &words.concat()) else {
        skip!("sandbox", "no sandbox can be made here");
    };
    let results = model.results();
    assert_eq!(results.len(), 4, "{results:#?} {}", describe(&output));
    assert!(has(&results[0], "No such file or directory") && !results[0].contains("secret\n"));
    assert!(has(&results[1], "File does not exist"));
    assert!(has(&results[3], "has been updated"));
    assert_eq!(fs::read(&there).unwrap(), b"new\n");
    assert!(store.join("f2").exists() && !store.join("f1").exists());
    // All of it is one run, and can be taken back.
    let undone = trumanfs(&[
        "undo".as_ref(),
        store.as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(&there).unwrap(), b"old\n");
    assert!(!store.join("f2").exists());
}

/// An agent whose lines go through `$SHELL`, in a sandbox: Python, told to run them so.
const SCRIPTED: &str = r#"
import os, subprocess
for line in ["echo new > made.txt; cat there.txt; pwd; ls /etc", "rm there.txt", "python3 -c 1", "ls"]:
    ran = subprocess.run(line, shell=True, executable=os.environ["SHELL"], capture_output=True, text=True)
    print(line, ran.returncode, ran.stdout, ran.stderr, sep="|")
"#;

#[test]
fn an_agent_works_by_its_shell_in_a_sandbox() {
    need_mount!();
    if !Path::new("/usr/bin/python3").exists() {
        skip!("system-python", "there is no /usr/bin/python3");
    }
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().canonicalize().unwrap().join("project");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("there.txt"), "old\n").unwrap();
    let shell = repository().join("agents/home-shell");
    let shell = shell.to_str().unwrap();
    let env = [
        format!("SHELL={shell}"),
        format!("TRUMANFS={}", binary()),
        format!("TRUMANFS_ROOT={}", store.display()),
    ];
    let words = [
        &["--net", "none", "--bind-ro", binary(), "--bind-ro", shell][..],
        &["--env", &env[0], "--env", &env[1], "--env", &env[2]],
        &["--", "/usr/bin/python3", "-c", SCRIPTED],
    ];
    let Some(output) = in_agent(&store, &words.concat()) else {
        skip!("sandbox", "no sandbox can be made here");
    };
    let expected = format!(
        "echo new > made.txt; cat there.txt; pwd; ls /etc|2|old\n{}\n|ls: /etc: No such file or directory\n\n\
         rm there.txt|0||\npython3 -c 1|127||bash: python3: command not found\n\nls|0|made.txt\n|\n",
        store.display()
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        expected,
        "{}",
        describe(&output)
    );
    // The run is the agent's; what it removed lies in the trash.
    let trash = fs::read_dir(store.join(".trash")).unwrap();
    let removed = trash.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().ends_with("_there.txt")
    });
    assert_eq!(removed.count(), 1);
    let undone = trumanfs(&[
        "undo".as_ref(),
        store.as_os_str(),
        "--session".as_ref(),
        "last".as_ref(),
    ]);
    assert!(undone.status.success(), "{}", describe(&undone));
    assert_eq!(fs::read(store.join("there.txt")).unwrap(), b"old\n");
}

/// Three prompts to agents that nobody has told of turns, the last one in a run of its own; the second one is taken back.
#[test]
fn prompts_of_real_agents_are_turns() {
    need_mount!();
    let (claude, codex) = (need_agent!("claude"), need_agent!("codex"));
    let lines = [
        "echo one > a; echo x > b",
        "echo two >> a; rm b",
        "echo three > c",
    ];
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    let script = |call: &dyn Fn(&str) -> Value| -> Value {
        let calls = lines.iter().flat_map(|line| [call(line), Value::Null]);
        calls.collect::<Vec<Value>>().into()
    };
    let of_claude = |line: &str| call("Bash", json!({"command": line, "description": "x"}));
    let of_codex = |line: &str| call("exec_command", json!({"cmd": line}));
    let id = "3f2f6e0e-1111-4222-8333-444455556666";
    for (name, program, script) in [
        ("claude", &claude, script(&of_claude)),
        ("codex", &codex, script(&of_codex)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&store).unwrap();
        let model = Model::start(&script);
        let url = format!("http://127.0.0.1:{}", model.port);
        let agents = repository().join("target/agents");
        let run = |number: usize, prompt: &str| {
            let provider =
                |key: &str, value: &str| format!("model_providers.script.{key}=\"{value}\"");
            let (net, env) = (
                format!("allow=127.0.0.1:{}", model.port),
                format!("ANTHROPIC_BASE_URL={url}"),
            );
            let settings = [
                "model=\"gpt-5.5\"".to_owned(),
                "model_provider=\"script\"".to_owned(),
                provider("name", "script"),
                provider("base_url", &format!("{url}/v1")),
                provider("wire_api", "responses"),
                provider("env_key", "MODEL_KEY"),
            ];
            let mut words = vec!["--profile", name, "--net", &net, "--env", &env];
            words.extend(["--env", "ANTHROPIC_API_KEY=none", "--env", "MODEL_KEY=none"]);
            words.extend([
                "--bind-ro",
                agents.to_str().unwrap(),
                "--",
                program.to_str().unwrap(),
            ]);
            if name == "claude" {
                let which = if number == 0 {
                    "--session-id"
                } else {
                    "--resume"
                };
                words.extend([
                    "-p",
                    prompt,
                    which,
                    id,
                    "--permission-mode",
                    "bypassPermissions",
                ]);
            } else {
                words.push("exec");
                words.extend(settings.iter().flat_map(|setting| ["-c", setting.as_str()]));
                words.push("--skip-git-repo-check");
                words.extend(
                    (number > 0)
                        .then_some(["resume", "--last"])
                        .into_iter()
                        .flatten(),
                );
                words.push(prompt);
            }
            in_agent(&store, &words)
        };
        for (number, prompt) in ["make it\nquickly", "change it", "go on"]
            .iter()
            .enumerate()
        {
            let Some(output) = run(number, prompt) else {
                skip!("sandbox", "no sandbox can be made here");
            };
            assert!(output.status.success(), "{name}: {}", describe(&output));
        }
        let verb = |words: &[&str]| {
            let target = store.to_str().unwrap();
            let (verb, more) = words.split_first().unwrap();
            trumanfs(&[&[*verb, target][..], more].concat())
        };
        let log = verb(&["log"]);
        let log = String::from_utf8_lossy(&log.stdout);
        for turn in ["turn 1: make it  (", "turn 2: change it", "turn 3: go on"] {
            assert!(log.contains(turn), "{name}: {turn}: {log}");
        }
        let undone = verb(&["undo", "--turn", "2"]);
        assert!(undone.status.success(), "{name}: {}", describe(&undone));
        let text = |file: &str| fs::read_to_string(store.join(file)).unwrap_or_default();
        assert_eq!(
            [text("a"), text("b"), text("c")],
            ["one\n", "x\n", "three\n"],
            "{name}"
        );
    }
}

/// Two prompts to agents of another kind, the second one in a run of its own.
#[test]
fn prompts_of_gemini_and_opencode_are_turns() {
    need_mount!();
    let (gemini, opencode) = (need_agent!("gemini"), need_agent!("opencode"));
    let gemini_settings = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#;
    let agents = repository().join("target/agents");
    for (name, program, tool) in [
        ("gemini", &gemini, "run_shell_command"),
        ("opencode", &opencode, "bash"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&store).unwrap();
        let line = "echo one > a; echo x > b";
        let model = Model::start(&json!([
            {"name": tool, "input": {"command": line, "description": "x"}},
        ]));
        let url = format!("http://127.0.0.1:{}", model.port);
        let provider = json!({"options": {"baseURL": format!("{url}/v1"), "apiKey": "none"}});
        let settings =
            json!({"model": "anthropic/claude-sonnet-4-5", "provider": {"anthropic": provider}});
        let env = [
            format!("GOOGLE_GEMINI_BASE_URL={url}"),
            "GEMINI_API_KEY=none".to_owned(),
            format!("OPENCODE_CONFIG_CONTENT={settings}"),
        ];
        let net = format!("allow=127.0.0.1:{}", model.port);
        let program = program.to_str().unwrap();
        for (number, prompt) in ["make it", "change it"].iter().enumerate() {
            let go_on = |option: &'static str| if number > 0 { option } else { "" };
            let script = match name {
                "gemini" => format!(
                    "mkdir -p ~/.gemini; echo '{gemini_settings}' > ~/.gemini/settings.json; \
                     exec {program} -p '{prompt}' --yolo --skip-trust -m gemini-2.5-pro {}",
                    go_on("--resume latest")
                ),
                _ => format!("exec {program} run {} '{prompt}'", go_on("-c")),
            };
            let mut words = vec!["--profile", name, "--net", &net];
            words.extend(env.iter().flat_map(|one| ["--env", one.as_str()]));
            words.extend(["--bind-ro", agents.to_str().unwrap()]);
            words.extend(["--", "bash", "-c", &script]);
            let Some(output) = in_agent(&store, &words) else {
                skip!("sandbox", "no sandbox can be made here");
            };
            assert!(output.status.success(), "{name}: {}", describe(&output));
        }
        let target = store.to_str().unwrap();
        let log = trumanfs(&["log", target]);
        let log = String::from_utf8_lossy(&log.stdout);
        for turn in ["turn 1: ", "make it", "turn 2: ", "change it"] {
            assert!(log.contains(turn), "{name}: {turn}: {log}");
        }
        let undone = trumanfs(&["undo", target, "--to-turn", "1"]);
        assert!(undone.status.success(), "{name}: {}", describe(&undone));
        assert!(!store.join("a").exists() && !store.join("b").exists());
    }
}
