//! Policies where programs run: what `explain` says there, and when a store's own policy counts.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{Home, describe, need_mount, need_tools, run_limited, skip, trumanfs};
use crate::programs::{Place, need_sandbox};

#[test]
fn explain_says_of_tmp_what_run_does() {
    let place = Place::with("dash: {flags: {-c: text}}\ncat: {arguments: path}\n");
    need_sandbox!(place);
    let policy = place.outside().join("policy.yaml");
    let allows = |verb: &[&str], root: &Path, word: &str| {
        let mut command = Command::new(crate::common::binary());
        command.args(verb).arg("--root").arg(root);
        command
            .arg("--policy")
            .arg(&policy)
            .args(["--", "cat", word]);
        let output = run_limited(command, Duration::from_secs(60));
        match (verb, output.status.code()) {
            (["run"], Some(125)) | (["policy", ..], Some(1)) => false,
            (["run"], Some(0 | 1)) | (["policy", ..], Some(0)) => true,
            _ => panic!("{word}: {}", describe(&output)),
        }
    };
    let home = Home::mount();
    // Unmounted; mounted, before any program; mounted, with something in /tmp.
    for (root, has_dir) in [
        (&*place.store(), false),
        (home.home(), false),
        (home.home(), true),
    ] {
        if has_dir {
            let made = place.exec_with(root, "dash -c 'mkdir /tmp/dir'", &[]);
            assert!(made.status.success(), "{}", describe(&made));
        }
        for (word, allowed) in [
            ("/tmp/new", true),
            ("/tmp", true),
            ("/tmp/dir/new", has_dir),
            ("/tmp/none/new", false),
            ("/tmp/../etc/passwd", false),
        ] {
            // First, for a run begins the session's /tmp.
            let explained = allows(&["policy", "explain"], root, word);
            assert_eq!(explained, allowed, "explain {word} {has_dir}");
            assert_eq!(
                allows(&["run"], root, word),
                allowed,
                "run {word} {has_dir}"
            );
        }
    }
}

const OWN: &str = "dash: {flags: {-c: text}, arguments: text}\n";

/// Where an operator keeps records of trust, for a test alone.
struct Operator {
    state: tempfile::TempDir,
}

impl Operator {
    fn new() -> Operator {
        Operator {
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn records(&self) -> Vec<PathBuf> {
        let dir = fs::read_dir(self.state.path().join("trumanfs/trusted"));
        dir.into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// Runs trumanfs with no policy of this machine. Root's records lie in /var/lib, which is another directory here.
    fn trumanfs<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        let mut command = match rustix::process::geteuid().is_root() {
            false => Command::new(crate::common::binary()),
            true => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-c"]);
                command.arg("mount --bind \"$1\" /var/lib && shift && exec \"$@\"");
                command.arg("sh").arg(self.state.path());
                command.arg(crate::common::binary());
                command
            }
        };
        command
            .args(args)
            .env_remove("TRUMANFS_POLICY")
            .env("XDG_STATE_HOME", self.state.path());
        run_limited(command, Duration::from_secs(60))
    }

    /// Makes a store: a directory in which something has been recorded.
    fn make_store(&self, dir: &Path) {
        fs::create_dir(dir).unwrap();
        let words = ["exec", "--root", dir.to_str().unwrap(), "--", "touch made"];
        let output = self.trumanfs(&words);
        assert!(output.status.success(), "{}", describe(&output));
    }

    fn trust(&self, target: &Path, options: &[&str]) -> Output {
        let words = ["policy", "trust"].iter().chain(options).map(OsStr::new);
        self.trumanfs(&words.chain([target.as_os_str()]).collect::<Vec<_>>())
    }

    /// Returns what a script prints that `run` runs under the store's own policy; nothing where no policy is in force.
    fn run(&self, root: &Path, script: &str) -> Option<String> {
        let words = ["run", "--root"].map(OsStr::new).into_iter();
        let words = words.chain([root.as_os_str()]);
        let words = words.chain(["--", "dash", "-c", script].map(OsStr::new));
        let output = self.trumanfs(&words.collect::<Vec<_>>());
        match output.status.code() {
            Some(0) => Some(String::from_utf8(output.stdout).unwrap()),
            Some(125) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains("polic"), "{said}");
                None
            }
            _ => panic!("{}", describe(&output)),
        }
    }
}

macro_rules! need_own_policy {
    () => {
        need_sandbox!(Place::with(OWN));
        if Path::new("/etc/trumanfs/policy.yaml").exists() {
            skip!(
                "no-policy",
                "this machine has a policy, which counts before that of a store"
            );
        }
    };
}

#[test]
fn a_store_s_policy_counts_only_as_it_was_trusted() {
    need_own_policy!();
    let operator = Operator::new();
    let dir = tempfile::tempdir().unwrap();
    let home = Home::mount();
    let store = dir.path().join("store");
    operator.make_store(&store);
    for (root, below) in [
        (store.as_path(), store.as_path()),
        (home.home(), home.store()),
    ] {
        let before = operator.records().len();
        let policy = root.join("policy.yaml");
        fs::write(&policy, OWN).unwrap();
        assert_eq!(operator.run(root, "echo ran"), None, "not trusted yet");
        let trusted = operator.trust(root, &[]);
        let said = String::from_utf8_lossy(&trusted.stdout);
        assert!(
            trusted.status.success() && said.contains("allows dash"),
            "{}",
            describe(&trusted)
        );
        assert_eq!(operator.run(root, "echo ran").as_deref(), Some("ran\n"));
        // The record lies outside the store, and says which one it is for.
        let records = operator.records();
        assert_eq!(records.len(), before + 1);
        assert!(records.iter().all(|record| !record.starts_with(below)));
        // Whoever changes the file, it is not what was trusted.
        let more = "echo 'env: {}' >> policy.yaml; echo changed";
        assert_eq!(operator.run(root, more).as_deref(), Some("changed\n"));
        assert_eq!(operator.run(root, "echo ran"), None, "changed by a program");
        fs::write(&policy, OWN).unwrap();
        assert_eq!(
            operator.run(root, "echo ran").as_deref(),
            Some("ran\n"),
            "as it was trusted"
        );
        fs::write(&policy, format!("{OWN}cat: {{}}\n")).unwrap();
        assert_eq!(
            operator.run(root, "echo ran"),
            None,
            "changed by somebody else"
        );
        assert!(operator.trust(root, &[]).status.success());
        assert_eq!(operator.run(root, "echo ran").as_deref(), Some("ran\n"));
        assert_eq!(operator.records().len(), before + 1);
    }
    // What was trusted is forgotten, once.
    assert_eq!(operator.trust(&store, &["--forget"]).status.code(), Some(0));
    assert_eq!(operator.run(&store, "echo ran"), None, "forgotten");
    assert_eq!(operator.trust(&store, &["--forget"]).status.code(), Some(1));
    assert_eq!(
        operator.run(home.home(), "echo ran").as_deref(),
        Some("ran\n"),
        "another store"
    );
}

#[test]
fn a_copy_of_a_store_brings_no_policy() {
    need_own_policy!();
    let operator = Operator::new();
    let dir = tempfile::tempdir().unwrap();
    let [store, copy, moved] = ["store", "copy", "moved"].map(|name| dir.path().join(name));
    operator.make_store(&store);
    fs::write(store.join("policy.yaml"), OWN).unwrap();
    assert!(operator.trust(&store, &[]).status.success());
    assert_eq!(operator.run(&store, "echo ran").as_deref(), Some("ran\n"));
    let copied = run_limited(
        {
            let mut cp = Command::new("cp");
            cp.arg("-a").arg(&store).arg(&copy);
            cp
        },
        Duration::from_secs(60),
    );
    assert!(copied.status.success(), "{}", describe(&copied));
    assert_eq!(operator.run(&copy, "echo ran"), None, "a copy");
    fs::rename(&store, &moved).unwrap();
    assert_eq!(operator.run(&moved, "echo ran"), None, "moved");
    // In its place, the copy is what the operator has read there.
    fs::rename(&copy, &store).unwrap();
    assert_eq!(operator.run(&store, "echo ran").as_deref(), Some("ran\n"));
}

/// What runs by a policy must not be able to change it.
#[test]
fn a_policy_that_others_can_change_is_not_used_silently() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("policy.yaml"), "\"true\": {}\n").unwrap();
    fs::write(dir.path().join("safe.yaml"), "\"true\": {}\n").unwrap();
    std::os::unix::fs::symlink(store.join("policy.yaml"), dir.path().join("link.yaml")).unwrap();
    let said = |policy: &Path| {
        let words: [&std::ffi::OsStr; 7] = [
            "exec".as_ref(),
            "--root".as_ref(),
            store.as_os_str(),
            "--policy".as_ref(),
            policy.as_os_str(),
            "--".as_ref(),
            "echo well".as_ref(),
        ];
        let output = trumanfs(&words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    need_mount!();
    let safe = dir.path().join("safe.yaml");
    assert_eq!(said(&safe), ("well\n".to_owned(), String::new()));
    for within in [store.join("policy.yaml"), dir.path().join("link.yaml")] {
        let (out, err) = said(&within);
        assert!(
            out.is_empty() && err.contains("programs that run by it can change it"),
            "{out}{err}"
        );
    }
    fs::set_permissions(&safe, fs::Permissions::from_mode(0o666)).unwrap();
    let (out, err) = said(&safe);
    assert_eq!(out, "well\n");
    assert!(
        err.contains("other users can change this policy") && err.contains("safe.yaml"),
        "{err}"
    );
}
