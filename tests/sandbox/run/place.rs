//! `trumanfs agent` without `--store`: which directory becomes the store, where the agent begins, and what a store in a
//! user's home directory means for the projects below it. `history_place.rs` has where the history lies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{LIMIT, err, good};
use crate::common::{binary, describe, need_mount, run_limited};

/// A user's home directory with a project in it, which is a git repository.
struct UserHome {
    dir: tempfile::TempDir,
}

impl UserHome {
    fn new() -> UserHome {
        let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
        let made = UserHome { dir };
        fs::create_dir_all(made.path("project/.git")).unwrap();
        fs::create_dir_all(made.path("project/package/src")).unwrap();
        fs::create_dir_all(made.path("other/deep")).unwrap();
        made
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(below)
    }

    /// Runs a script in an agent that is called in a directory.
    fn agent(&self, here: &Path, options: &[&str], script: &str) -> Output {
        let mut command = Command::new(binary());
        command
            .arg("agent")
            .args(options)
            .args(["--", "sh", "-c", script]);
        command.current_dir(here).env("HOME", self.path(""));
        run_limited(command, LIMIT)
    }

    fn is_store(&self, below: &str) -> bool {
        self.path(below).join(".trumanfs").exists()
    }
}

#[test]
fn agent_takes_the_repository_and_begins_where_it_was_called() {
    need_mount!();
    let user = UserHome::new();
    let here = user.path("project/package/src");
    let said = good(&user.agent(&here, &[], "pwd; echo new >made"));
    assert_eq!(said.trim_end(), here.to_str().unwrap());
    assert!(user.is_store("project") && here.join("made").exists());
    // The store is found from anywhere in it, also where another repository lies between.
    fs::create_dir(user.path("project/package/.git")).unwrap();
    let said = good(&user.agent(&here, &["--cwd", "package"], "pwd; ls -d /*/ | wc -l"));
    let package = user.path("project/package");
    assert!(
        said.starts_with(&format!("{}\n", package.display())),
        "{said}"
    );
    assert!(!user.is_store("project/package") && !user.is_store("project/package/src"));
    // No repository: the directory itself.
    good(&user.agent(&user.path("other/deep"), &[], "touch made"));
    assert!(user.is_store("other/deep") && !user.is_store("other"));
}

#[test]
fn wide_directories_are_to_be_named() {
    need_mount!();
    let user = UserHome::new();
    let refused = |here: &Path, what: &str| {
        let output = user.agent(here, &[], "true");
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        let said = err(&output);
        assert!(said.contains(what) && said.contains("--store"), "{said}");
    };
    refused(&user.path(""), "is more than a project");
    refused(Path::new("/"), "is more than a project");
    assert!(!user.is_store(""));
    good(&user.agent(&user.path("other/deep"), &[], "touch made"));
    refused(&user.path("other"), "has a store in it");
    assert!(!user.is_store("other"));
}

/// Every project below was refused from then on: it lay in a store.
#[test]
fn store_in_the_home_directory_leaves_projects_below_alone() {
    need_mount!();
    let user = UserHome::new();
    let home = user.path("");
    let named = ["--store", home.to_str().unwrap()];
    assert!(!user.agent(&home, &named, "exit 3").status.success());
    assert!(user.is_store(""));
    let here = user.path("project/package");
    good(&user.agent(&here, &[], "echo new >made"));
    assert!(user.is_store("project"));
    // While the one around it is mounted, they would be in each other's way.
    let script = format!(
        "echo ready >{0}/ready; while [ ! -e {0}/end ]; do sleep 0.05; done",
        home.display()
    );
    let mut command = Command::new(binary());
    command
        .arg("agent")
        .args(named)
        .args(["--", "sh", "-c", &script]);
    command.env("HOME", &home);
    let mut outer = super::begin(command);
    super::until("the agent begins", || home.join("ready").exists());
    let output = user.agent(&here, &[], "true");
    fs::write(home.join("end"), "").unwrap();
    assert!(outer.wait().unwrap().success());
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    assert!(
        err(&output).contains("lies in the store"),
        "{}",
        err(&output)
    );
}
