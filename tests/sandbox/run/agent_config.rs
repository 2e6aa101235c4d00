//! Options of agents from files: the user's `agent.toml`, and the project's `.trumanfs.toml`, which can only narrow.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use super::{LIMIT, err, good};
use crate::common::tree::tree;
use crate::common::{binary, describe, need_mount, run_limited};

/// A user with settings, and a project.
struct ConfiguredUser {
    dir: tempfile::TempDir,
    project: PathBuf,
}

impl ConfiguredUser {
    fn new() -> ConfiguredUser {
        let dir = tempfile::TempDir::with_prefix("trumanfs-run-").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = dir.path().canonicalize().unwrap();
        let project = base.join("project");
        for name in ["user/.config/trumanfs", "project"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for (name, text) in [
            (".env", "KEY=secret\n"),
            ("Makefile", "all:\n"),
            ("f", "x\n"),
        ] {
            fs::write(project.join(name), text).unwrap();
        }
        ConfiguredUser { dir, project }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("user/.config/trumanfs/agent.toml")
    }

    fn project_file(&self) -> PathBuf {
        self.project.join(".trumanfs.toml")
    }

    /// Writes the user's file.
    fn set(&self, text: &str) -> &ConfiguredUser {
        fs::write(self.file(), text).unwrap();
        self
    }

    /// Writes the project's file.
    fn set_project(&self, text: &str) -> &ConfiguredUser {
        fs::write(self.project_file(), text).unwrap();
        self
    }

    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("agent").args(options).arg("--").args(words);
        command.current_dir(&self.project);
        command
            .env("HOME", self.path("user"))
            .env_remove("XDG_CONFIG_HOME");
        command.env("XDG_STATE_HOME", self.path("state"));
        for name in ["SSH_AUTH_SOCK", "ANTHROPIC_API_KEY"] {
            command.env_remove(name);
        }
        command
    }

    fn agent(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.command(options, &["sh", "-c", script]), LIMIT)
    }

    /// Explains an agent; that must succeed.
    #[track_caller]
    fn explain(&self, options: &[&str], words: &[&str]) -> String {
        let mut all = vec!["--explain"];
        all.extend(options);
        good(&run_limited(self.command(&all, words), LIMIT))
    }

    /// Checks that nothing starts, and that the reason has these words.
    #[track_caller]
    fn is_refused(&self, options: &[&str], wanted: &[&str]) {
        let before = tree(&self.project);
        for explained in [&[][..], &["--explain"]] {
            let options = [explained, options].concat();
            let output = self.agent(&options, "echo ran");
            assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
            assert!(output.stdout.is_empty(), "{}", describe(&output));
            for wanted in wanted {
                assert!(err(&output).contains(wanted), "{wanted}: {}", err(&output));
            }
        }
        assert_eq!(tree(&self.project), before);
        assert!(!self.project.join(".trumanfs").exists());
    }
}

/// Checks that an explanation has a row with this label, text and source?
#[track_caller]
fn assert_row(explanation: &str, label: &str, text: &str, source: &str) {
    let is_it = |line: &&str| {
        let line = line.trim();
        line.starts_with(label) && line.contains(text) && line.ends_with(&format!("[{source}]"))
    };
    let found = explanation.lines().find(is_it);
    assert!(
        found.is_some(),
        "{label}: {text} [{source}] is not in\n{explanation}"
    );
}

#[test]
fn user_file_sets_options_and_command_line_counts_before_it() {
    need_mount!();
    let user = ConfiguredUser::new();
    user.set("hide = [\".env\"]\nread-only = \"Makefile\"\nenv = [\"A=file\", \"B=file\"]\nnet = \"none\"\n");
    let script = "ls -A; echo $A $B; echo y 2>/dev/null >>Makefile || echo kept";
    let output = user.agent(&[], script);
    assert_eq!(
        good(&output),
        "Makefile\nf\nfile file\nkept\n",
        "{}",
        describe(&output)
    );
    // A list that is typed replaces the file's, but for patterns, which are added.
    let output = user.agent(&["--env", "A=typed", "--hide", "f"], "ls -A; echo $A $B");
    assert_eq!(good(&output), "Makefile\ntyped\n", "{}", describe(&output));
    let output = user.agent(&["--no-config"], "ls -A; echo $A $B");
    assert_eq!(
        good(&output),
        ".env\nMakefile\nf\n\n",
        "{}",
        describe(&output)
    );
    // XDG_CONFIG_HOME leads elsewhere.
    let mut command = user.command(&[], &["sh", "-c", "echo $A"]);
    command.env("XDG_CONFIG_HOME", user.path("other"));
    assert_eq!(good(&run_limited(command, LIMIT)), "\n");
    fs::create_dir_all(user.path("other/trumanfs")).unwrap();
    fs::write(
        user.path("other/trumanfs/agent.toml"),
        "env = \"A=other\"\n",
    )
    .unwrap();
    let mut command = user.command(&[], &["sh", "-c", "echo $A"]);
    command.env("XDG_CONFIG_HOME", user.path("other"));
    assert_eq!(good(&run_limited(command, LIMIT)), "other\n");
}

#[test]
fn profile_table_counts_for_its_agent_alone() {
    need_mount!();
    let user = ConfiguredUser::new();
    user.set(
        "env = \"A=all\"\nhide = \".env\"\ndiscard = true\n\
         [profile.claude]\nenv = \"A=claude\"\nhide = \"f\"\nkeep = true\nnet = \"none\"\n",
    );
    let script = "ls -A; echo $A; touch new";
    let output = user.agent(&[], script);
    assert_eq!(good(&output), "Makefile\nf\nall\n", "{}", describe(&output));
    assert!(!user.project.join("new").exists(), "it was discarded");
    let output = user.agent(&["--profile", "claude"], script);
    assert_eq!(good(&output), "Makefile\nclaude\n", "{}", describe(&output));
    assert!(user.project.join("new").exists());
    let text = user.explain(&["--profile", "claude"], &["sh"]);
    assert_row(&text, "rule", "no host", "agent.toml, profile.claude");
    assert_row(&text, "hidden", ".env", "agent.toml");
    assert_row(&text, "changes", "they stay", "agent.toml, profile.claude");
    // The end that is typed is meant.
    let text = user.explain(&["--keep"], &["sh"]);
    assert_row(&text, "changes", "they stay", "command line");
}

#[test]
fn options_that_belong_to_others_count_with_these() {
    let user = ConfiguredUser::new();
    user.set(
        "net = \"ask\"\nask-with = \"true\"\nask-timeout = 5\ntimeout = 600\nssh-agent = false\n\
         secret = [\"own:a.example=env:HOME\", \"other:b.example=cmd:touch ran\"]\n\
         only = [\"own GET /x\", \"anthropic POST /y\"]\ncdi-dir = \"/etc/cdi\"\n",
    );
    let text = user.explain(&[], &["sh"]);
    assert_row(
        &text,
        "rule",
        "a command, and you are asked, for 5 s",
        "agent.toml",
    );
    assert_row(
        &text,
        "secret",
        "own for a.example:443, from env:HOME",
        "agent.toml",
    );
    assert_row(&text, "requests", "GET /x", "agent.toml");
    assert_row(&text, "time", "after 600 s", "agent.toml");
    assert!(
        !text.contains("/y") && !user.project.join("ran").exists(),
        "{text}"
    );
    // Another network is not asked about; the limits of secrets stay with these.
    let options = ["--net", "none", "--secret", "anthropic=env:HOME"];
    let text = user.explain(&options, &["sh"]);
    assert_row(&text, "rule", "no host", "command line");
    assert_row(&text, "requests", "POST /y", "agent.toml");
    assert!(!text.contains("a.example"), "{text}");
}

#[test]
fn wrong_key_or_value_is_named_with_its_line() {
    let user = ConfiguredUser::new();
    for (text, wanted) in [
        (
            "\nnett = 1\n",
            &["line 2: nett: ", "no such option", "The keys are also, "][..],
        ),
        ("store = \"/x\"\n", &["line 1: store: ", "type --store"]),
        ("explain = true\n", &["explain: "]),
        (
            "net = [\"none\", \"nowhere\"]\n",
            &["line 1: net: ", "nowhere", "write it as none"],
        ),
        ("net = [[\"none\"]]\n", &["net: a list stands in the list"]),
        (
            "timeout = \"soon\"\n",
            &["timeout: ", "soon", "not a number of seconds"],
        ),
        ("timeout = [1]\n", &["timeout: it is a list, not one value"]),
        (
            "login = \"yes\"\n",
            &["login: it is a text, not true or false"],
        ),
        ("env = { A = 1 }\n", &["env: it is a table"]),
        ("toolchains = \"some\"\n", &["toolchains: ", "auto, none"]),
        (
            "bind-ro = \"here\"\n",
            &["bind-ro: here counts from the working directory"],
        ),
        ("secret = \"sk-value\"\n", &["secret: "]),
        (
            "only = \"GET /x\"\n",
            &["only: it does not say which secret"],
        ),
        ("keep = true\ndiscard = true\n", &["stands beside"]),
        ("profile = 1\n", &["profile: it holds tables"]),
        (
            "[profile]\nclaude = 1\n",
            &["line 1: profile: claude is a table"],
        ),
        (
            "[profile.other]\n\nhid = \"x\"\n",
            &["line 3: profile.other.hid: "],
        ),
        ("a = \n", &["line 1: ", "It is TOML"]),
        ("a = 1\na = 2\n", &["line 2: "]),
    ] {
        let file = user.file().display().to_string();
        let wanted = [&[file.as_str()], wanted].concat();
        user.set(text).is_refused(&[], &wanted);
    }
    let said = err(&user.set("secret = \"sk-value\"\n").agent(&[], "true"));
    assert!(!said.contains("sk-value"), "{said}");
    let output = user.agent(&["--no-config", "--explain"], "true");
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn user_file_that_others_can_write_is_refused() {
    let user = ConfiguredUser::new();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    user.set("net = \"none\"\n");
    set_mode(&user.file(), 0o666);
    user.is_refused(
        &[],
        &[
            "others could write it",
            "chmod go-w ",
            "agent.toml",
            "--no-config",
        ],
    );
    set_mode(&user.file(), 0o644);
    let dir = user.file().parent().unwrap().to_owned();
    set_mode(&dir, 0o777);
    user.is_refused(&[], &["others could write it", "chmod go-w ", "/trumanfs,"]);
    set_mode(&dir, 0o755);
    assert!(user.explain(&[], &["sh"]).contains("agent.toml"));
    if rustix::process::geteuid().is_root() {
        chown(user.file(), Some(12345), Some(12345)).unwrap();
        user.is_refused(&[], &["belongs to user 12345", "chown 0 "]);
        chown(user.file(), Some(0), Some(0)).unwrap();
    }
    // A link counts as what it leads to.
    fs::rename(user.file(), user.path("user/real.toml")).unwrap();
    symlink(user.path("user/real.toml"), user.file()).unwrap();
    assert!(user.explain(&[], &["sh"]).contains("no host"));
    set_mode(&user.path("user/real.toml"), 0o646);
    user.is_refused(&[], &["others could write it", "real.toml"]);
}

#[test]
fn user_file_where_the_agent_works_is_refused() {
    let user = ConfiguredUser::new();
    let also = user.path("also");
    fs::create_dir(&also).unwrap();
    fs::write(also.join("mine.toml"), "net = \"none\"\n").unwrap();
    symlink(also.join("mine.toml"), user.file()).unwrap();
    assert!(user.explain(&[], &["sh"]).contains("no host"));
    let options = ["--also", also.to_str().unwrap()];
    user.is_refused(
        &options,
        &["the agent could write it", "mine.toml", "--no-config"],
    );
    let settings = user.path("user/.config");
    user.is_refused(
        &["--store", settings.to_str().unwrap()],
        &["the agent could write it"],
    );
    fs::remove_file(user.file()).unwrap();
    fs::copy(also.join("mine.toml"), user.project.join("own.toml")).unwrap();
    symlink(user.project.join("own.toml"), user.file()).unwrap();
    user.is_refused(&[], &["the agent could write it", "own.toml"]);
    // Nor what the file itself names.
    fs::remove_file(user.file()).unwrap();
    user.set(&format!("also = \"{}\"\n", settings.display()));
    user.is_refused(&[], &["the agent could write it"]);
}

#[test]
fn user_file_that_an_agent_could_have_made_is_refused() {
    need_mount!();
    let user = ConfiguredUser::new();
    fs::remove_dir(user.file().parent().unwrap()).unwrap();
    let settings = user.path("user/.config");
    let script = "mkdir trumanfs; echo 'ask-with = \"touch ran\"' >trumanfs/agent.toml";
    let output = user.agent(&["--store", settings.to_str().unwrap()], script);
    good(&output);
    user.is_refused(&[], &["agent.toml", "lies in a store", "--no-config"]);
}

#[test]
fn project_file_narrows() {
    need_mount!();
    let user = ConfiguredUser::new();
    user.set("hide = [\"f\", \"!.env\"]\ntimeout = 50\nnet = \"all\"\n");
    user.set_project(
        "hide = [\".env\"]\nread-only = \"Makefile\"\ntimeout = 40.5\nnet = \"none\"\n",
    );
    let script = "ls -A; echo y 2>/dev/null >>Makefile || echo kept; cat /proc/net/route | wc -l";
    let output = user.agent(&[], script);
    assert_eq!(
        good(&output),
        ".trumanfs.toml\nMakefile\nkept\n1\n",
        "{}",
        describe(&output)
    );
    assert!(
        err(&output).contains("the agent has no network"),
        "{}",
        err(&output)
    );
    // Nothing that is typed widens it again.
    let options = [
        "--net",
        "github",
        "--timeout",
        "45",
        "--hide",
        "!*",
        "--no-config",
    ];
    let text = user.explain(&options, &["sh"]);
    assert_row(&text, "rule", "no host", ".trumanfs.toml");
    assert_row(&text, "time", "after 40.5 s", ".trumanfs.toml");
    let output = user.agent(&options, "ls -A");
    assert_eq!(
        good(&output),
        ".trumanfs.toml\nMakefile\nf\n",
        "{}",
        describe(&output)
    );
    // What is less already stays.
    let text = user.explain(&["--timeout", "3", "--net", "none"], &["sh"]);
    assert_row(&text, "time", "after 3 s", "command line");
    assert_row(&text, "rule", "no host", "command line");
    // An agent in a fork has no patterns, and they are not left out silently.
    let wanted = [
        "--hide, --read-only and --volatile cannot be used with --home fork",
        ".trumanfs.toml",
    ];
    let output = user.agent(&["--home", "fork", "--no-config"], "echo ran");
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    for wanted in wanted {
        assert!(err(&output).contains(wanted), "{}", err(&output));
    }
}

#[test]
fn project_file_is_that_of_the_store_below_a_home() {
    need_mount!();
    let user = ConfiguredUser::new();
    user.set_project("hide = [\".env\"]\n");
    // The agent is begun below the root; and another one beside it, in the home that it has mounted.
    fs::create_dir_all(user.project.join("below/.x")).unwrap();
    fs::create_dir(user.project.join(".git")).unwrap();
    let mut command = user.command(
        &[],
        &[
            "sh",
            "-c",
            "pwd; ls -A ..; echo 'hide=\"f\"' >../.trumanfs.toml",
        ],
    );
    command.current_dir(user.project.join("below"));
    let output = run_limited(command, LIMIT);
    let said = good(&output);
    assert!(
        said.contains("/below\n") && !said.contains(".env\n"),
        "{}",
        describe(&output)
    );
    // What it has written counts for the next one: it belongs to the project. Closing it to its user does not change that.
    let close = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    close(&user.project_file());
    close(&user.project);
    let store = user.project.to_str().unwrap();
    let mut command = user.command(&["--store", store], &["ls", "-A"]);
    command.current_dir(user.path("user"));
    let output = run_limited(command, LIMIT);
    let said = good(&output);
    assert!(
        said.contains(".env\n") && !said.contains("\nf\n"),
        "{}",
        describe(&output)
    );
    fs::set_permissions(&user.project, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn project_file_that_would_widen_is_refused() {
    let user = ConfiguredUser::new();
    user.set("hide = \"f\"\n");
    for key in [
        "also = \"/x\"",
        "ask = true",
        "ask-timeout = 1",
        "ask-with = \"touch /tmp/x\"",
        "bind-ro = \"/etc\"",
        "cache = \"npm\"",
        "cdi-dir = \"/x\"",
        "cwd = \".\"",
        "device = \"/dev/kvm\"",
        "discard = true",
        "env = \"A=1\"",
        "home = \"fork\"",
        "host-port = 80",
        "keep = true",
        "keep-state = \"x\"",
        "login = true",
        "only = \"x GET /\"",
        "profile = \"claude\"",
        "publish = 80",
        "sandbox = \"none\"",
        "secret = \"anthropic\"",
        "ssh-agent = true",
        "state = \"/x\"",
        "store = \"/x\"",
        "toolchains = \"none\"",
        "explain = true",
        "no-config = true",
        "unknown = 1",
        "[profile.claude]\nnet = \"none\"",
    ] {
        let word = key
            .split([' ', '.'])
            .next()
            .unwrap()
            .trim_start_matches('[');
        let wanted = [
            ".trumanfs.toml: line 1: ",
            word,
            "may only narrow",
            "belongs in your own agent.toml",
        ];
        user.set_project(key).is_refused(&[], &wanted);
    }
    for (text, wanted) in [
        ("net = \"all\"", "only have net = \"none\""),
        ("net = [\"none\", \"all\"]", "only have net = \"none\""),
        ("net = \"claude\"", "only have net = \"none\""),
        ("hide = [\"!f\"]", "take other patterns back"),
        ("hide = \" !f\"", "take other patterns back"),
        ("timeout = -1", "timeout"),
        ("timeout = nan", "timeout"),
    ] {
        user.set_project(text)
            .is_refused(&[], &[".trumanfs.toml: line 1: ", wanted]);
    }
}

#[test]
fn hostile_project_file_is_an_error() {
    let user = ConfiguredUser::new();
    let file = user.project_file();
    let replace = |make: &dyn Fn(&Path)| {
        let _ = fs::remove_file(&file);
        let _ = fs::remove_dir(&file);
        make(&file);
    };
    let write = |text: Vec<u8>| replace(&|file| fs::write(file, &text).unwrap());
    // Compared with how it was, the whole of it would be read.
    replace(&|file| fs::File::create(file).unwrap().set_len(100 << 20).unwrap());
    let said = err(&user.agent(&[], "echo ran"));
    assert!(said.contains("longer than 65536 bytes"), "{said}");
    replace(&|file| symlink("/etc/shadow", file).unwrap());
    user.is_refused(&[], &[".trumanfs.toml: a symbolic link"]);
    replace(&|file| fs::create_dir(file).unwrap());
    user.is_refused(&[], &[".trumanfs.toml: not a regular file"]);
    replace(&|file| {
        let path = CString::new(file.as_os_str().as_bytes()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            0o644.into(),
            0,
        )
        .unwrap();
    });
    user.is_refused(&[], &[".trumanfs.toml: not a regular file"]);
    write(b"hide = \"\xff\"\n".to_vec());
    user.is_refused(&[], &[".trumanfs.toml: not UTF-8"]);
    write([b"hide = ".to_vec(), vec![b'['; 60_000]].concat());
    user.is_refused(&[], &[".trumanfs.toml: line 1: "]);
    write([b"a".to_vec(), b".a".repeat(30_000), b"=1".to_vec()].concat());
    user.is_refused(&[], &[".trumanfs.toml: line 1: "]);
    write(format!("hide = \"{}\"", "*".repeat(60_000)).into_bytes());
    user.is_refused(&[], &["a pattern is longer than 512 bytes"]);
    write(format!("hide = [{}]", "\"a\",".repeat(10_000)).into_bytes());
    user.is_refused(&[], &["more than 256 patterns"]);
    write(b"hide = \"a{\"\n".to_vec());
    let output = user.agent(&[], "echo ran");
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    write(b"\"\\u001b[31m\" = 1\n".to_vec());
    assert!(!err(&user.agent(&[], "true")).contains('\u{1b}'));
}

#[test]
fn longest_patterns_of_a_project_cost_little() {
    need_mount!();
    let user = ConfiguredUser::new();
    let pattern = |number: usize| format!("{}{number}", "*a*?[a-z]".repeat(26));
    let patterns: Vec<String> = (0..250).map(pattern).collect();
    user.set_project(&format!("hide = {patterns:?}\n"));
    let name = "a".repeat(250);
    let start = Instant::now();
    let output = user.agent(&[], &format!("touch {name} && ls"));
    assert!(good(&output).contains(&name), "{}", describe(&output));
    assert!(start.elapsed() < LIMIT / 2, "{:?}", start.elapsed());
}

#[test]
fn explain_says_what_counts_and_does_nothing() {
    let user = ConfiguredUser::new();
    let also = user.path("also");
    fs::create_dir(&also).unwrap();
    user.set(&format!(
        "also = \"{}\"\ncache = \"npm\"\ntimeout = 60\n",
        also.display()
    ));
    user.set_project("hide = [\".env\"]\n");
    let before = (tree(&user.project), tree(&user.path("user")), tree(&also));
    let options = [
        "--explain",
        "--net",
        "claude,github",
        "--publish",
        "3000",
        "--secret",
        "gh:api.github.com=cmd:touch ran",
        "--only",
        "GET /user",
        "--env",
        "TOKEN=hidden-value",
        "--bind-ro",
        "/etc/hostname",
        "--ask-timeout",
        "9",
        "--net",
        "ask",
        "--ask-with",
        "touch ran",
    ];
    let mut command = user.command(&options, &["claude", "hello world"]);
    command.env("ANTHROPIC_API_KEY", "sk-hidden");
    let output = run_limited(command, LIMIT);
    let text = good(&output);
    for (label, said, source) in [
        ("profile", "claude", "default"),
        ("project", "/project", "default"),
        ("history", "/state/trumanfs/", "default"),
        ("also", "/also", "agent.toml"),
        ("home", "fuse", "default"),
        ("sandbox", "auto", "default"),
        ("hidden", ".env", ".trumanfs.toml"),
        ("files", "/etc/hostname", "command line"),
        ("caches", "~/.npm", "agent.toml"),
        ("variables", "TOKEN", "command line"),
        (
            "rule",
            "a command, and you are asked, for 9 s",
            "command line",
        ),
        ("published", "3000", "command line"),
        (
            "secret",
            "gh for api.github.com:443, from a command",
            "command line",
        ),
        ("requests", "GET /user", "command line"),
        ("time", "after 60 s", "agent.toml"),
        ("changes", "they stay", "default"),
    ] {
        assert_row(&text, label, said, source);
    }
    for wanted in [
        "'hello world'",
        "github: github.com",
        "claude: api.anthropic.com",
        "ANTHROPIC_API_KEY (set here)",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    assert!(
        !text.contains("hidden-value") && !text.contains("sk-hidden"),
        "{text}"
    );
    assert_eq!(
        before,
        (tree(&user.project), tree(&user.path("user")), tree(&also))
    );
    for made in [
        "state",
        "user/.cache",
        "project/.trumanfs",
        "also/.trumanfs",
        "project/ran",
    ] {
        assert!(!user.path(made).exists(), "{made}");
    }
}

#[test]
fn explain_fails_as_a_start_and_knows_a_store() {
    need_mount!();
    let user = ConfiguredUser::new();
    user.set_project("hide = [\".env\"]\n");
    user.is_refused(&["--env", "NOT_SET_ANYWHERE"], &["NOT_SET_ANYWHERE"]);
    user.is_refused(&["--home", "fork"], &["cannot be used with --home fork"]);
    user.is_refused(&["--store", "/nowhere/at/all"], &["/nowhere/at/all"]);
    user.is_refused(&["--also", "."], &["the agent works in "]);
    good(&user.agent(&[], "echo y >f"));
    let text = user.explain(&[], &["sh"]);
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("history"))
        .unwrap();
    let place = line.split_whitespace().nth(1).unwrap();
    let is_there = Path::new(place).join(".trumanfs").is_dir();
    assert!(is_there || line.contains("in the project"), "{text}");
    assert!(!line.contains("(new)"), "{text}");
    // A home of that store has the patterns of its last mount.
    let (store, home) = (user.project.to_str().unwrap(), user.path("home"));
    fs::create_dir(&home).unwrap();
    let trumanfs = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).env("HOME", user.path("user"));
        command.env("XDG_STATE_HOME", user.path("state"));
        good(&run_limited(command, LIMIT))
    };
    let home = home.to_str().unwrap();
    trumanfs(&["mount", store, home, "--hide", "f"]);
    let text = user.explain(&["--store", home], &["sh"]);
    assert_row(&text, "project", home, "command line");
    assert_row(&text, "home", "mounted already", "default");
    trumanfs(&["umount", home]);
    assert_row(&user.explain(&[], &["sh"]), "hidden", "f", "last mount");
}
