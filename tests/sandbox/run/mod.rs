//! `trumanfs run`: real programs in really mounted homes, under a policy, as runs that can be shown and taken back.
//!
//! As root, in a home of another user (`owners`), and as an ordinary user, for whom the whole binary runs once more.

mod agent;
mod agent_access;
mod agent_answers;
mod agent_config;
mod agent_fork;
mod agent_needs;
mod agent_patterns;
mod agent_power;
mod agent_secrets;
mod audit;
mod background;
mod bounds;
mod browser;
mod closed;
mod ends;
mod expire;
mod further_roots;
mod git_sessions;
mod held;
mod history;
mod history_place;
mod json;
mod killed;
mod links;
mod loads;
mod lookup;
mod metrics;
mod output;
mod outside_links;
mod owners;
mod package_tools;
mod pins;
mod place;
mod scratch;
mod set_ids;
mod turns;
mod unknown_writer;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Home, binary, describe, run_limited, trumanfs};

/// The time limit of one request.
const LIMIT: Duration = Duration::from_secs(60);

/// Programs that the tests run. What they are given is no path that the policy judges.
const POLICY: &str = r#"
sh: {flags: {-c: text, -ec: text}, arguments: text, default_timeout: 40, allow_env: [ASKED]}
python3: {flags: {-c: text}, default_timeout: 40}
git:
  subcommands:
    init: {flags: [-q]}
    add: {flags: [-A]}
    commit: {flags: {-q: false, -m: text}}
    status: {}
    checkout: {flags: [-q]}
  safe_env: {GIT_AUTHOR_NAME: a, GIT_AUTHOR_EMAIL: a@b, GIT_COMMITTER_NAME: a, GIT_COMMITTER_EMAIL: a@b}
"true": {}
"false": {}
cat: {arguments: path}
env: {safe_env: {SAFE: kept}}
pwd: {}
gone: {}
quiet: {suppress_success_output: true}
sleep: {default_timeout: 1, arguments: text}
looks: {read_only: true}
"#;

/// A mounted home and a policy.
pub(crate) struct Place {
    home: Home,
}

impl Place {
    pub(crate) fn mounted() -> Place {
        Place::with(&[])
    }

    /// Returns the mountpoint.
    pub(crate) fn home(&self) -> &Path {
        self.home.home()
    }

    fn with(options: &[&str]) -> Place {
        let home = Home::with(options);
        fs::write(home.base().join("policy.yaml"), POLICY).unwrap();
        Place { home }
    }

    fn policy(&self) -> PathBuf {
        self.home.base().join("policy.yaml")
    }

    /// `trumanfs run` with options, for words.
    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        command(self.home.home(), &self.policy(), options, words)
    }

    fn run(&self, options: &[&str], words: &[&str]) -> Output {
        run_limited(self.command(options, words), LIMIT)
    }

    /// Returns the output of a shell script, which must succeed.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        good(&self.run(&[], &["sh", "-ec", script]))
    }

    /// The outcome of a command, as JSON.
    #[track_caller]
    fn json(&self, options: &[&str], words: &[&str]) -> Value {
        let output = self.run(&[&["--json"], options].concat(), words);
        parsed(&output)
    }

    /// Puts a program into the home's `bin`, and returns nothing: the policy's base PATH has no directory of the home,
    /// so a script names it.
    fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.home.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// `trumanfs run` on a target.
fn command(target: &Path, policy: &Path, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("run").arg("--root").arg(target);
    command.arg("--policy").arg(policy).args(options);
    command.arg("--").args(words);
    command
}

/// Returns the output of a command, which must have succeeded.
#[track_caller]
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error.
fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one object on standard output.
#[track_caller]
fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", describe(output)))
}

/// The lines of a store's audit log.
#[track_caller]
fn audit(store: &Path) -> Vec<Value> {
    let text = fs::read_to_string(store.join(".trumanfs/audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// Starts a command with its streams in files, in a process group of its own.
fn begin(mut command: Command) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).process_group(0);
    command.spawn().unwrap()
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A store that nobody has mounted, and a policy. Whatever is mounted for it is below a directory of its own.
pub(crate) struct Store {
    _dir: tempfile::TempDir,
    base: PathBuf,
    store: PathBuf,
}

impl Store {
    fn new() -> Store {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::TempDir::with_prefix("trumanfs-run-").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let store = base.join("store");
        fs::create_dir(&store).unwrap();
        fs::write(base.join("policy.yaml"), POLICY).unwrap();
        Store {
            _dir: dir,
            base,
            store,
        }
    }

    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        command(&self.store, &self.base.join("policy.yaml"), options, words)
    }

    fn run(&self, options: &[&str], words: &[&str]) -> Output {
        run_limited(self.command(options, words), LIMIT)
    }

    /// True if the store is served, or its daemon is about to stop.
    fn is_mounted(&self) -> bool {
        let output = trumanfs(&[
            OsStr::new("status"),
            self.store.as_os_str(),
            OsStr::new("--json"),
        ]);
        // A daemon that is just ending gives no answer.
        match output.stdout.is_empty() {
            true => String::from_utf8_lossy(&output.stderr).contains("daemon"),
            false => parsed(&output)["mounted"] == true,
        }
    }

    /// Waits until nobody serves it any more.
    #[track_caller]
    fn is_left_alone(&self) {
        until("the store is unmounted", || !self.is_mounted());
    }

    /// Returns the number of sessions.
    fn sessions(&self) -> usize {
        fs::read_dir(self.store.join(".trumanfs/sessions")).map_or(0, Iterator::count)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.is_left_alone();
        }
    }
}
