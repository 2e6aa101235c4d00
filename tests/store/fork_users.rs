//! Forks and merges by an ordinary user, and by root for one. What a user may not read is named with what to do, and
//! nothing is left behind.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::fork::{beside, run, text};
use crate::common::tree::{contents, tree};
use crate::common::{binary, copy_program, describe, need_root, run_limited};

const USER: u32 = 65534;

/// A user's directory, and a program that the user can run.
struct User {
    dir: tempfile::TempDir,
}

impl User {
    fn new() -> User {
        let user = User {
            dir: tempfile::TempDir::with_prefix("trumanfs-").unwrap(),
        };
        fs::set_permissions(user.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(binary(), user.dir.path().join("trumanfs"));
        let program = fs::Permissions::from_mode(0o755);
        fs::set_permissions(user.dir.path().join("trumanfs"), program).unwrap();
        let home = user.dir.path().join("user");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(USER), Some(USER)).unwrap();
        user
    }

    fn at(&self, name: &str) -> PathBuf {
        let dir = fs::canonicalize(self.dir.path()).unwrap();
        dir.join("user").join(name)
    }

    fn runs(&self, program: &Path, args: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        let id = USER.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        command.arg(program).args(args).current_dir("/");
        run_limited(command, Duration::from_secs(60))
    }

    /// Runs trumanfs as the user, and returns what it says.
    #[track_caller]
    fn says(&self, code: i32, args: &[&str]) -> String {
        let output = self.runs(&self.dir.path().join("trumanfs"), args);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            describe(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    #[track_caller]
    fn sh(&self, line: &str) {
        let done = self.runs(Path::new("sh"), &["-ec", line]);
        assert!(done.status.success(), "{line}: {}", describe(&done));
    }

    /// A store of the user's that has never been mounted.
    fn store(&self) -> PathBuf {
        let store = self.at("store");
        self.sh(&format!(
            "mkdir -p {0}/shut {0}/d; cd {0}; echo a >a; echo in >shut/in; echo z >zero; echo r >d/r; chmod 400 d/r; chmod 500 d",
            text(&store)
        ));
        store
    }
}

/// A store that had never been mounted was refused, and what cannot be read gave `openat2 "zero": Permission denied`.
#[test]
fn an_ordinary_user_forks_and_merges() {
    need_root!("to become an ordinary user");
    let user = User::new();
    let store = user.store();
    let fork = user.at("fork");
    let (store_is, fork_is) = (text(&store), text(&fork));
    // What somebody else has closed is named; what the user has closed is no obstacle.
    let give = |path: &str, to: u32| {
        let (path, id) = (store.join(path), Some(to));
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, id, id).unwrap();
    };
    for path in ["zero", "shut"] {
        give(path, 0);
        let said = user.says(7, &["fork", "--copy", store_is, "fork"]);
        let named = format!("/{path}: user {USER} may not read it");
        assert!(
            said.contains(&named) && said.contains("chmod u+rX"),
            "{said}"
        );
        assert_eq!(beside(&store), ["store"]);
        give(path, USER);
    }
    let outside = user.dir.path().join("elsewhere");
    let said = user.says(7, &["fork", "--copy", store_is, text(&outside)]);
    assert!(said.contains("may make no directory there"), "{said}");

    user.sh(&format!("cd {store_is}; chmod 000 zero; chmod 300 shut"));
    user.says(0, &["fork", "--copy", store_is, "fork"]);
    assert_eq!(tree(&fork), tree(&store));
    user.sh(&format!(
        "chmod 600 {store_is}/zero {fork_is}/zero; chmod 700 {store_is}/shut {fork_is}/shut"
    ));
    let line =
        "echo b >>a; echo z >>zero; echo new >shut/new; echo kept >closed; echo gone >d/gone; true";
    user.says(0, &["exec", "--root", fork_is, "--", line]);
    user.sh(&format!("chmod 000 {fork_is}/closed"));
    let was = contents(&store);
    for path in ["zero", "shut"] {
        give(path, 0);
        let said = user.says(7, &["merge", store_is, fork_is]);
        assert!(said.contains(&format!("/{path}")), "{said}");
        assert!(said.contains("may not read it"), "{said}");
        give(path, USER);
    }
    assert_eq!(
        contents(&store),
        was,
        "a merge that was refused has changed something"
    );
    user.says(0, &["merge", store_is, fork_is]);
    assert_eq!(contents(&store), contents(&fork));
}

/// Its `.trumanfs` stayed root's, so that the user could neither mount it nor work in it.
#[test]
fn what_root_forks_for_a_user_is_the_users() {
    need_root!("root forks a user's store");
    let user = User::new();
    let store = user.store();
    let (fork, other) = (user.at("fork"), user.at("other"));
    user.says(
        0,
        &["exec", "--root", text(&store), "--", "echo b >b; rm b"],
    );
    run(0, &["fork", "--copy", text(&store), "fork"]);
    assert_eq!(tree(&fork), tree(&store));
    let mut waiting = vec![fork.clone()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            let owner = (meta.uid(), meta.gid());
            assert_eq!(owner, (USER, USER), "{}", entry.path().display());
            if meta.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    user.says(0, &["exec", "--root", text(&fork), "--", "echo c >c"]);
    user.says(0, &["merge", text(&store), text(&fork)]);
    assert_eq!(fs::read_to_string(store.join("c")).unwrap(), "c\n");
    // A fork of the fork, by the user.
    user.says(0, &["fork", "--copy", text(&fork), text(&other)]);
}
