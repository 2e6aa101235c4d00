//! `trumanfs agent` in more than one directory: `--also`, and the git directory of a linked worktree, which comes along by
//! itself. What a run changed in all of them is one run, taken back and brought back together.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::{LIMIT, begin, err, good, until};
use crate::common::tree::tree;
use crate::common::{binary, describe, need_mount, need_tools, run_limited};

/// A repository with linked worktrees, and a state home beside it.
struct LinkedWorktrees {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

const COMMIT: &str = "echo agent >>README; git commit -qam agent";

impl LinkedWorktrees {
    /// A repository with `number` linked worktrees, `w1` and so on.
    fn new(number: usize) -> LinkedWorktrees {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = dir.path().canonicalize().unwrap();
        let made = LinkedWorktrees { _dir: dir, base };
        for name in ["state", "repo", "other"] {
            fs::create_dir(made.base.join(name)).unwrap();
        }
        let setup = "git init -q -b main .; seq 10 >README; git add -A; git commit -qm first";
        made.owner("repo", setup);
        for name in (1..=number).map(|number| format!("w{number}")) {
            made.owner("repo", &format!("git worktree add -q -b {name} ../{name}"));
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn with_settings(&self, mut command: Command, name: &str) -> Command {
        command.current_dir(self.path(name));
        command.env("XDG_STATE_HOME", self.path("state"));
        command.env("HOME", &self.base);
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
            command.env(name, "/dev/null");
        }
        for (name, value) in IDENTITY {
            command.env(name, value);
        }
        command
    }

    /// Runs a script as the owner, in a directory. Git writes no index anew that it only looks at.
    #[track_caller]
    fn owner(&self, name: &str, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).env("GIT_OPTIONAL_LOCKS", "0");
        good(&run_limited(self.with_settings(command, name), LIMIT))
    }

    fn trumanfs(&self, name: &str, args: &[&str]) -> Output {
        run_limited(self.command(name, args), LIMIT)
    }

    fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args);
        self.with_settings(command, name)
    }

    fn agent_command(&self, name: &str, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg("agent").args(options);
        for (name, value) in IDENTITY {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        command.args(["--", "sh", "-ec", script]);
        self.with_settings(command, name)
    }

    fn agent(&self, name: &str, options: &[&str], script: &str) -> Output {
        run_limited(self.agent_command(name, options, script), LIMIT)
    }

    /// Returns the words of `git fsck` and `git status` in a worktree, once it has looked at everything.
    #[track_caller]
    fn state(&self, name: &str) -> String {
        let script = "git fsck --full --strict --no-dangling 2>&1; git status --porcelain -b; git log --oneline --all; git ls-files -s; cat README";
        self.owner(name, script)
    }

    fn head(&self, name: &str) -> String {
        self.owner(
            name,
            "git rev-parse HEAD; git symbolic-ref HEAD; git ls-files -s",
        )
    }

    /// Everything but what git may write anew at any time.
    fn everything(&self, name: &str) -> String {
        let files = [tree(&self.path("repo")), tree(&self.path(name))];
        format!("{files:?}")
    }
}

const IDENTITY: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@b"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@b"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
];

/// The id of the run, as an agent says it at its end.
fn run_of(output: &Output) -> String {
    let said = err(output);
    let (_, rest) = said.split_once("--run ").unwrap();
    rest.chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

#[test]
fn commit_in_a_linked_worktree_is_undone_and_redone_in_both() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(2);
    let before = repo.state("w1");
    let output = repo.agent("w1", &[], COMMIT);
    good(&output);
    let run = run_of(&output);
    let after = repo.state("w1");
    assert!(before != after && after.contains("agent"), "{after}");
    let said = good(&repo.trumanfs("w1", &["undo", ".", "--run", "last"]));
    assert!(said.contains("repo/.git:"), "{said}");
    assert_eq!(repo.state("w1"), before);
    // As its owner's prompt does, which writes the index anew.
    repo.owner(
        "w1",
        "export GIT_OPTIONAL_LOCKS=1; touch README; git status",
    );
    good(&repo.trumanfs("w1", &["redo", "."]));
    assert_eq!(repo.state("w1"), after);
    // The other way round: by the git directory.
    good(&repo.trumanfs("w2", &["undo", "../repo/.git", "--run", &run]));
    assert_eq!(repo.state("w1"), before);
    for store in ["w1", "repo/.git"] {
        good(&repo.trumanfs(store, &["fsck", "."]));
        let log = good(&repo.trumanfs(store, &["log", ".", "--run", &run, "--json"]));
        assert!(log.contains("\"also\""), "{log}");
    }
    // The owner's own repository and the other worktree were of no concern.
    assert!(!repo.path("repo/.trumanfs").exists());
    assert!(repo.state("w2").contains("## w2\n"));
    let discarded = repo.agent("w1", &["--discard"], COMMIT);
    good(&discarded);
    assert_eq!(repo.state("w1"), before, "{}", describe(&discarded));
}

#[test]
fn conflict_in_one_directory_keeps_all_as_they_are() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(1);
    good(&repo.agent(
        "w1",
        &[],
        "echo agent >new; git add new; git commit -qm agent",
    ));
    repo.owner("w1", "echo mine >mine; git add mine; git commit -qm mine");
    let before = repo.everything("w1");
    for args in [
        ["undo", ".", "--run", "last"],
        ["undo", "../repo/.git", "--run", "last"],
    ] {
        let output = repo.trumanfs("w1", &args);
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        assert!(err(&output).contains("/refs/heads/w1"), "{}", err(&output));
        assert_eq!(repo.everything("w1"), before);
    }
    repo.state("w1");
}

/// An agent can write any `.git`: only a directory that names the worktree comes along.
#[test]
fn git_directory_that_does_not_name_the_worktree_stays_away() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(1);
    repo.owner(
        "other",
        "git init -q -b main .; git commit -q --allow-empty -m secret",
    );
    repo.owner("other", "git worktree add -q ../named");
    let aim = repo.path("other/.git/worktrees/named");
    good(&repo.agent(
        "w1",
        &[],
        &format!("echo 'gitdir: {}' >.git", aim.display()),
    ));
    let output = repo.agent(
        "w1",
        &[],
        "git log 2>&1 || true; ls -d ../other 2>&1 || true",
    );
    let said = good(&output);
    assert!(
        !said.contains("secret") && said.contains("not a git"),
        "{said}"
    );
    let hint = format!("--also {}", repo.path("other/.git").display());
    assert!(err(&output).contains(&hint), "{}", err(&output));
    // Whoever means it says so.
    let also = repo.path("other/.git");
    let output = repo.agent(
        "w1",
        &["--also", also.to_str().unwrap()],
        "git log --oneline",
    );
    assert!(good(&output).contains("secret"), "{}", describe(&output));
}

#[test]
fn further_directory_is_recorded_and_taken_back_with_the_run() {
    need_mount!();
    let repo = LinkedWorktrees::new(0);
    fs::write(repo.path("other/f"), "one\ntwo\n").unwrap();
    fs::create_dir(repo.path("project")).unwrap();
    fs::write(repo.path("other/.netrc"), "").unwrap();
    let other = repo.path("other");
    let also = ["--also", other.to_str().unwrap()];
    let script = format!(
        "echo new >n; echo three >>{}/f; ls -d /*/ | wc -l",
        other.display()
    );
    let output = repo.agent("project", &also, &script);
    good(&output);
    assert_eq!(
        fs::read_to_string(other.join("f")).unwrap(),
        "one\ntwo\nthree\n"
    );
    assert!(err(&output).contains(".netrc lies in"), "{}", err(&output));
    assert!(
        err(&output).contains(&format!("in {}:", other.display())),
        "{}",
        err(&output)
    );
    let dry = good(&repo.trumanfs("project", &["undo", ".", "--run", "last", "--dry-run"]));
    assert!(dry.contains("/n") && dry.contains("/f"), "{dry}");
    let shown = repo.trumanfs("project", &["diff", ".", "--run", "last"]);
    assert!(
        err(&shown).contains(other.to_str().unwrap()),
        "{}",
        describe(&shown)
    );
    let told = good(&repo.trumanfs("other", &["undo", ".", "--run", "last", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        told["also"][0]["store"],
        repo.path("project").to_str().unwrap()
    );
    assert_eq!(told["run"], told["also"][0]["run"]);
    assert!(!repo.path("project/n").exists());
    assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "one\ntwo\n");
    // A run that changed something in the other one alone.
    let script = format!("rm {}/f", other.display());
    let output = repo.agent("project", &["--discard", also[0], also[1]], &script);
    good(&output);
    assert!(other.join("f").exists(), "{}", describe(&output));
    // A store that is gone is named, and the rest is done.
    let script = format!("echo x >n; rm {}/f", other.display());
    good(&repo.agent("project", &also, &script));
    fs::remove_dir_all(&other).unwrap();
    let output = repo.trumanfs("project", &["undo", ".", "--run", "last"]);
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    assert!(
        err(&output).contains(other.to_str().unwrap()),
        "{}",
        describe(&output)
    );
    assert!(!repo.path("project/n").exists());
}

#[test]
fn directories_that_lie_in_each_other_are_refused() {
    need_mount!();
    let repo = LinkedWorktrees::new(0);
    fs::create_dir(repo.path("repo/inner")).unwrap();
    let base = repo.base.to_str().unwrap();
    let mut told = Vec::new();
    for also in [".", "inner", ".git", base] {
        let output = repo.agent("repo", &["--also", also], "true");
        told.push(format!("{also}: {}", describe(&output)));
        assert_eq!(output.status.code(), Some(123), "{told:?}");
        assert!(!repo.path("repo/inner/.trumanfs").exists());
    }
    let states = fs::read_dir(repo.path("state/trumanfs"));
    let states = states.into_iter().flatten().flatten();
    let states: Vec<_> = states
        .filter(|entry| entry.path().join(".trumanfs").exists())
        .collect();
    assert!(states.is_empty(), "{states:?} {told:?}");
}

/// Of a repository and its git directory one at a time is served.
#[test]
fn repository_and_its_git_directory_exclude_each_other() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(1);
    let wait = "touch ready; while [ ! -e end ]; do sleep 0.05; done";
    let mut outer = begin(repo.agent_command("repo", &["--timeout", "60"], wait));
    until("the agent begins", || repo.path("repo/ready").exists());
    let output = repo.agent("w1", &[], "git status 2>&1 || true");
    fs::write(repo.path("repo/end"), "").unwrap();
    assert!(outer.wait().unwrap().success());
    assert!(good(&output).contains("not a git"), "{}", describe(&output));
    assert!(
        err(&output).contains("git will not work"),
        "{}",
        err(&output)
    );
    let mut inner = begin(repo.agent_command("w1", &["--timeout", "60"], wait));
    until("the agent begins", || repo.path("w1/ready").exists());
    let output = repo.agent("repo", &[], "true");
    fs::write(repo.path("w1/end"), "").unwrap();
    assert!(inner.wait().unwrap().success());
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(
        err(&output).contains("repo/.git lies in"),
        "{}",
        err(&output)
    );
}

/// The common case: agents side by side, each in a worktree of its own.
#[test]
fn five_agents_in_five_worktrees_of_one_repository() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(5);
    let names: Vec<String> = (1..=5).map(|number| format!("w{number}")).collect();
    let before: Vec<String> = names.iter().map(|name| repo.head(name)).collect();
    let agents: Vec<Output> = std::thread::scope(|scope| {
        let repo = &repo;
        let running = names.iter().map(|name| {
            let script = format!(
                "for n in 1 2 3; do echo {name} $n >>README; echo $n >{name}; git add -A; git commit -qm \"$n\"; done; git status --porcelain"
            );
            scope.spawn(move || repo.agent(name, &[], &script))
        });
        let running: Vec<_> = running.collect();
        let ended = running.into_iter().map(|agent| agent.join().unwrap());
        ended.collect()
    });
    for (output, name) in agents.iter().zip(&names) {
        assert_eq!(good(output), "", "{}", describe(output));
        assert!(!err(output).contains("will not work"), "{}", err(output));
        let commits = repo.owner(
            name,
            "git fsck --full --strict --no-dangling; git status --porcelain; git rev-list --count HEAD",
        );
        assert_eq!(commits, "4\n");
    }
    // Each by itself, and the others stay as they are.
    for (number, name) in names.iter().enumerate() {
        // As its owner's prompt does: the index that the agent left is written anew.
        repo.owner(
            name,
            "export GIT_OPTIONAL_LOCKS=1; touch README; git status",
        );
        let output = repo.trumanfs(name, &["undo", ".", "--run", &run_of(&agents[number])]);
        good(&output);
        assert_eq!(repo.head(name), before[number]);
        let checks = "git fsck --full --strict --no-dangling; git status --porcelain";
        assert_eq!(repo.owner(name, checks), "", "{}", describe(&output));
        for other in &names[number + 1..] {
            let left = repo.owner(other, "git rev-list --count HEAD; git status --porcelain");
            assert_eq!(left, "4\n");
        }
    }
    good(&repo.trumanfs("repo/.git", &["fsck", "."]));
}

/// A worktree in the repository itself, whose owner has a history of it there: its git directory alone comes along.
#[test]
fn worktree_below_a_repository_that_is_a_store() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(1);
    repo.owner("repo", "git worktree add -q -b inner trees/inner");
    good(&repo.agent("repo/trees/inner", &[], COMMIT));
    assert!(repo.owner("repo/trees/inner", "git log").contains("agent"));
    let exec = ["exec", "--root", ".", "--", "touch made"];
    good(&repo.trumanfs("repo", &exec));
    assert!(repo.path("repo/.trumanfs").is_dir());
    let output = repo.agent("w1", &[], COMMIT);
    good(&output);
    assert!(!err(&output).contains("will not work"), "{}", err(&output));
    good(&repo.trumanfs("w1", &["undo", ".", "--run", "last"]));
    let left = "git rev-list --count HEAD; git status --porcelain";
    assert_eq!(repo.owner("w1", left), "1\n");
}

/// What git runs on the host is flagged there as it is below a `.git`.
#[test]
fn hooks_of_a_git_directory_are_flagged() {
    need_mount!();
    need_tools!("git");
    let repo = LinkedWorktrees::new(1);
    let script = "cd $(git rev-parse --git-common-dir); mkdir -p hooks; echo x >hooks/pre-commit; git config core.pager x";
    let output = repo.agent("w1", &[], script);
    good(&output);
    let said = err(&output);
    for path in ["/hooks/pre-commit", "/config"] {
        let line = said.lines().find(|line| line.contains(path)).unwrap();
        assert!(line.contains("runs on your machine"), "{said}");
    }
}

#[test]
fn review_of_one_directory_names_the_other_and_reject_takes_both_back() {
    need_mount!();
    let repo = LinkedWorktrees::new(0);
    fs::create_dir(repo.path("project")).unwrap();
    let other = repo.path("other");
    let also = ["--also", other.to_str().unwrap()];
    let script = format!("echo 1 >one; echo 2 >two; echo f >{}/f", other.display());
    let output = repo.agent("project", &also, &script);
    good(&output);
    let run = run_of(&output);
    let named = |args: &[&str]| {
        let output = repo.trumanfs("project", args);
        let wanted = format!("a part of the run lies in {}", other.display());
        assert!(err(&output).contains(&wanted), "{}", describe(&output));
        output.status.code()
    };
    assert_eq!(named(&["review", ".", "--run", &run]), Some(1));
    assert_eq!(named(&["accept", ".", &run, "one"]), Some(0));
    assert_eq!(named(&["reject", ".", &run, "two"]), Some(0));
    assert_eq!(
        named(&["undo", ".", "--run", &run, "--path", "two"]),
        Some(1)
    );
    let is_there = |name: &str| repo.path(name).exists();
    assert!(is_there("project/one") && !is_there("project/two") && is_there("other/f"));
    // Whole runs, and what was accepted stays.
    let script = format!("echo 3 >three; rm {}/f", other.display());
    let output = repo.agent("project", &also, &script);
    good(&output);
    good(&repo.trumanfs("other", &["reject", ".", "last"]));
    assert!(is_there("project/one") && !is_there("project/three") && is_there("other/f"));
}
