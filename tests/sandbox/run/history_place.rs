//! The place of the history of an agent's project: in the state home of the project's owner, out of the way of what cleans,
//! packs and copies projects; else in the project. Verbs find it by the project.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{LIMIT, begin, err, good, until};
use crate::common::{binary, describe, need_mount, need_root, need_tools, run_limited};

/// A project, and a state home beside it.
struct AgentProject {
    dir: tempfile::TempDir,
    state: PathBuf,
    path: PathBuf,
}

impl AgentProject {
    fn new() -> AgentProject {
        let dir = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
        let base = dir.path().canonicalize().unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        let (state, path) = (base.join("state"), base.join("project"));
        fs::create_dir(&state).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("f"), "one\ntwo\n").unwrap();
        AgentProject { dir, state, path }
    }

    fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).current_dir(&self.path);
        command.env("XDG_STATE_HOME", &self.state);
        command.env("HOME", self.base());
        command
    }

    fn trumanfs(&self, args: &[&str]) -> Output {
        run_limited(self.command(args), LIMIT)
    }

    fn agent(&self, script: &str) -> Output {
        self.trumanfs(&["agent", "--", "sh", "-c", script])
    }

    /// The states in the state home.
    fn places(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.state.join("trumanfs"));
        let paths = found
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.join(".trumanfs").exists())
            .collect()
    }

    fn has_own_state(&self) -> bool {
        [".trumanfs", ".trash"]
            .iter()
            .any(|name| self.path.join(name).exists())
    }
}

fn shell(dir: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(dir);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_EMAIL",
    ] {
        command.env(name, "a@b");
    }
    run_limited(command, LIMIT)
}

/// Row 8: the owner's `git clean -fdx` took the history away.
#[test]
fn cleaning_packing_and_copying_a_project_leaves_its_history_alone() {
    need_mount!();
    need_tools!("git", "tar");
    let project = AgentProject::new();
    let init = "git init -q; echo build >.gitignore; mkdir build; echo x >build/out; git add -A; git commit -qm a";
    good(&shell(&project.path, init));
    let names = ["f", ".gitignore", "build/out"];
    let files = || names.map(|name| fs::read_to_string(project.path.join(name)).unwrap());
    let before = files();
    good(&project.agent("echo three >>f; rm -r .gitignore build"));
    assert!(!project.has_own_state());
    assert_eq!(project.places().len(), 1);
    let listed =
        "git status --porcelain --ignored; tar c . | tar t; find .; cp -a . ../copy; find ../copy";
    let listed = good(&shell(&project.path, listed));
    assert!(
        !listed.contains(".trumanfs") && !listed.contains(".trash"),
        "{listed}"
    );
    good(&shell(&project.path, "git clean -ffdxq"));
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert_eq!(files(), before);
    good(&project.trumanfs(&["fsck", "."]));
    // `git clean` removes a file of the agent's, whose record stays.
    good(&project.agent("echo new >made"));
    good(&shell(&project.path, "git clean -ffdxq"));
    assert!(!project.path.join("made").exists());
    good(&project.trumanfs(&["log", ".", "--run", "last"]));
}

#[test]
fn home_is_as_with_a_history_in_the_project() {
    need_mount!();
    let project = AgentProject::new();
    let script = "ls -a; rm f; ls .trash; mkdir .trumanfs 2>&1; stat -c %h .; touch .trash/x 2>&1; cat .trash/*_f";
    let said = good(&project.agent(&format!("{script}; true")));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], [".", "..", "f"], "{said}");
    assert!(lines[3].ends_with("_f"), "{said}");
    assert!(
        said.contains("No such file") && said.contains("Read-only"),
        "{said}"
    );
    assert!(said.ends_with("one\ntwo\n"), "{said}");
    // Taken back by the agent itself, and by its owner.
    good(&project.agent("mv .trash/*_f back; rm back"));
    let back = project.trumanfs(&["undo", ".", "--session", "all"]);
    assert!(back.status.success(), "{}", describe(&back));
    assert_eq!(
        fs::read_to_string(project.path.join("f")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(fs::read_dir(&project.path).unwrap().count(), 1);
}

#[test]
fn project_is_known_after_it_moved_and_a_copy_is_another() {
    need_mount!();
    let mut project = AgentProject::new();
    good(&project.agent("echo three >>f"));
    let moved = project.base().join("moved");
    fs::rename(&project.path, &moved).unwrap();
    project.path = moved;
    good(&shell(&project.base(), "cp -a moved copy"));
    let copy = project.base().join("copy");
    let log = project.trumanfs(&["log", copy.to_str().unwrap()]);
    assert!(err(&log).contains("is not a store"), "{}", describe(&log));
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert_eq!(
        fs::read_to_string(project.path.join("f")).unwrap(),
        "one\ntwo\n"
    );
    good(&project.trumanfs(&[
        "agent",
        "--store",
        copy.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "rm f",
    ]));
    assert_eq!(project.places().len(), 2);
    // A home that is mounted by hand finds it, too.
    let home = project.base().join("home");
    fs::create_dir(&home).unwrap();
    let (at, home) = (project.path.to_str().unwrap(), home.to_str().unwrap());
    good(&project.trumanfs(&["mount", at, home]));
    fs::remove_file(Path::new(home).join("f")).unwrap();
    good(&project.trumanfs(&["undo", home, "--session", "last"]));
    good(&project.trumanfs(&["umount", home]));
    assert!(project.path.join("f").exists() && !project.has_own_state());
}

#[test]
fn history_lies_in_the_project_where_it_did_and_where_nothing_else_can_be() {
    need_mount!();
    let mut project = AgentProject::new();
    // A store that has its state in the project keeps it there.
    good(&project.trumanfs(&["exec", "--root", ".", "--", "touch old"]));
    good(&project.agent("touch new"));
    assert!(project.has_own_state() && project.places().is_empty());
    // The state home lies on another file system, in the project, or cannot be made.
    let shm = Path::new("/dev/shm");
    let other = tempfile::TempDir::with_prefix_in("trumanfs-", shm).ok();
    let is_other = shm.metadata().map(|meta| meta.dev()).ok()
        != project.base().metadata().map(|meta| meta.dev()).ok();
    let other = other
        .as_ref()
        .filter(|_| is_other)
        .map(|dir| dir.path().to_owned());
    let file = project.base().join("file");
    fs::write(&file, "").unwrap();
    let homes = [Some(file), other].into_iter().flatten();
    for (n, state) in homes.enumerate() {
        project.state = state;
        project.path = project.base().join(format!("p{n}"));
        fs::create_dir(&project.path).unwrap();
        good(&project.agent("touch new"));
        assert!(project.has_own_state(), "{}", project.state.display());
    }
    project.path = project.base().join("within");
    project.state = project.path.join("state");
    fs::create_dir_all(&project.state).unwrap();
    good(&project.agent("touch new"));
    assert!(project.has_own_state());
}

/// Two users have a state home each, so that the store's own lock does not keep them apart.
#[test]
fn state_homes_exclude_each_other() {
    need_mount!();
    let mut project = AgentProject::new();
    let gate = project.path.join("end");
    let mut first = begin(project.command(&[
        "agent",
        "--",
        "sh",
        "-c",
        "touch begun; while [ ! -e end ]; do sleep 0.05; done",
    ]));
    until("the agent begins", || project.path.join("begun").exists());
    project.state = project.base().join("other");
    let refused = project.agent("true");
    let mount = project.base().join("home");
    fs::create_dir(&mount).unwrap();
    let mounted = project.trumanfs(&["mount", ".", mount.to_str().unwrap()]);
    fs::write(gate, "").unwrap();
    assert!(first.wait().unwrap().success());
    assert_eq!(refused.status.code(), Some(123), "{}", describe(&refused));
    assert!(
        err(&refused).contains("is working on the store"),
        "{}",
        err(&refused)
    );
    assert!(
        !mounted.status.success() && !project.has_own_state(),
        "{}",
        describe(&mounted)
    );
    good(&project.agent("true"));
}

/// An agent that fails does not remove the directory that another one is about to use.
#[test]
fn agents_that_begin_at_once_in_a_new_project() {
    need_mount!();
    for round in 0..3 {
        let project = AgentProject::new();
        let run = |program: &'static str| {
            let project = &project;
            move || project.trumanfs(&["agent", "--", program])
        };
        let outputs = std::thread::scope(|scope| {
            let runs = ["true", "no-such-program", "true", "no-such-program"];
            let threads: Vec<_> = runs.map(|program| scope.spawn(run(program))).into();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        for (n, output) in outputs.iter().enumerate() {
            let wanted = if n % 2 == 0 { 0 } else { 127 };
            assert_eq!(
                output.status.code(),
                Some(wanted),
                "{round}: {}",
                describe(output)
            );
        }
        assert!(!project.has_own_state());
    }
    let project = AgentProject::new();
    assert_eq!(
        project
            .trumanfs(&["agent", "--", "no-such-program"])
            .status
            .code(),
        Some(127)
    );
    assert!(!project.has_own_state() && project.places().is_empty());
}

/// The states of other projects, and the agents' logins.
#[test]
fn no_home_shows_the_state_home() {
    need_mount!();
    let mut project = AgentProject::new();
    good(&project.agent("touch new"));
    let place = project.places().remove(0);
    let bound = project.trumanfs(&["agent", "--bind-ro", place.to_str().unwrap(), "--", "true"]);
    assert!(
        err(&bound).contains("it would show"),
        "{}",
        describe(&bound)
    );
    // A home around it, and around a store with its own state.
    let inner = project.base().join("inner");
    fs::create_dir(&inner).unwrap();
    good(&project.trumanfs(&["exec", "--root", inner.to_str().unwrap(), "--", "touch a"]));
    let base = project.base();
    project.path = base.clone();
    let named = ["agent", "--store", base.to_str().unwrap(), "--", "sh", "-c"];
    let script = "ls -a state inner inner/.trumanfs; ls state/trumanfs 2>&1; mv state other 2>&1; rmdir state 2>&1; rm -rf state 2>&1; mkdir state/trumanfs 2>&1; find . -name .trumanfs; true";
    let output = project.trumanfs(&[&named[..], &[script]].concat());
    let said = good(&output);
    assert!(
        !said.contains(place.file_name().unwrap().to_str().unwrap()),
        "{said}"
    );
    assert_eq!(said.matches("busy").count(), 3, "{said}");
    assert!(!said.contains("sessions"), "{said}");
    assert!(place.join(".trumanfs").exists());
}

#[test]
fn state_lies_where_it_was_named() {
    need_mount!();
    let project = AgentProject::new();
    let named = project.base().join("named");
    let at = named.to_str().unwrap();
    good(&project.trumanfs(&["agent", "--state", at, "--", "sh", "-c", "rm f"]));
    assert_eq!(fs::read_dir(&named).unwrap().count(), 1);
    assert!(!project.has_own_state());
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert!(project.path.join("f").exists());
    good(&project.agent("rm f"));
    assert!(good(&project.trumanfs(&["stores"])).contains("project"));
    // The state stays where it is, and cannot lie in the store.
    for state in [at, "sub"] {
        let output = project.trumanfs(&["agent", "--state", state, "--", "true"]);
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    }
    good(&project.trumanfs(&["stores", "forget", "."]));
    assert_eq!(fs::read_dir(&named).unwrap().count(), 0);
    assert!(project.places().is_empty());
    let output = project.trumanfs(&["agent", "--state", "sub", "--", "true"]);
    assert!(!project.path.join("sub").exists());
    assert!(
        err(&output).contains("cannot lie there"),
        "{}",
        describe(&output)
    );
}

#[test]
fn login_lies_in_the_state_home() {
    need_mount!();
    let mut project = AgentProject::new();
    let agent = ["agent", "--keep-state", "login", "--", "sh", "-c"];
    good(&project.trumanfs(&[&agent[..], &["echo secret >~/login"]].concat()));
    let agents = project.state.join("trumanfs/agents");
    let id = fs::read_dir(&agents).unwrap().next().unwrap().unwrap();
    assert_eq!(
        fs::read_to_string(id.path().join("sh/login")).unwrap(),
        "secret\n"
    );
    assert_eq!(
        good(&project.trumanfs(&[&agent[..], &["cat ~/login"]].concat())),
        "secret\n"
    );
    // Also where the history is in the project; and it stays where an earlier release has put it.
    project.path = project.base().join("old");
    let known = project.path.join(".trumanfs/agents/sh");
    fs::create_dir(&project.path).unwrap();
    good(&project.trumanfs(&["exec", "--root", ".", "--", "touch old"]));
    good(&project.trumanfs(&[&agent[..], &["echo other >~/login"]].concat()));
    assert!(!known.exists());
    assert_eq!(fs::read_dir(&agents).unwrap().count(), 2);
}

/// Root's state of another user's project belongs to that user.
#[test]
fn state_belongs_to_the_owner_of_the_project() {
    need_mount!();
    need_root!("to work on another user's project");
    use std::os::unix::fs::chown;
    let project = AgentProject::new();
    for path in [&project.state, &project.path, &project.path.join("f")] {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    good(&project.agent("rm f"));
    let place = project.places().remove(0);
    let made = [
        project.state.join("trumanfs"),
        place.clone(),
        place.join(".trash"),
    ];
    for path in made {
        assert_eq!(path.metadata().unwrap().uid(), 65534, "{}", path.display());
    }
    // A directory of root's is no state home of that user, who has no home directory.
    chown(&project.state, Some(0), Some(0)).unwrap();
    let other = AgentProject {
        state: project.base().join("state"),
        path: project.base().join("other"),
        dir: tempfile::tempdir().unwrap(),
    };
    fs::create_dir(&other.path).unwrap();
    chown(&other.path, Some(65534), Some(65534)).unwrap();
    good(&other.agent("touch new"));
    assert!(other.has_own_state());
}

/// Through another mount nothing can be moved to the trash.
#[test]
fn project_on_another_mount_is_refused_by_name() {
    need_mount!();
    need_root!("to mount");
    need_tools!("unshare", "mount");
    let project = AgentProject::new();
    good(&project.agent("rm f"));
    let script = "mkdir other; mount --bind project other; cd other; exec \"$0\" undo . --run last";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, binary()]);
    command
        .env("XDG_STATE_HOME", &project.state)
        .current_dir(project.base());
    let output = run_limited(command, LIMIT);
    assert!(
        err(&output).contains("lies on another mount"),
        "{}",
        describe(&output)
    );
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
}

#[test]
fn stores_are_listed_forgotten_and_moved() {
    need_mount!();
    let mut project = AgentProject::new();
    assert_eq!(project.trumanfs(&["stores"]).status.code(), Some(1));
    // A state in the project comes over with its history.
    good(&project.trumanfs(&["exec", "--root", ".", "--", "rm f"]));
    assert!(project.has_own_state());
    good(&project.trumanfs(&["stores", "move", "."]));
    assert!(!project.has_own_state());
    assert!(!project.trumanfs(&["stores", "move", "."]).status.success());
    good(&project.trumanfs(&["undo", ".", "--session", "last"]));
    assert!(project.path.join("f").exists());
    good(&project.trumanfs(&[
        "agent",
        "--keep-state",
        "x",
        "--",
        "sh",
        "-c",
        "rm f; echo 1 >~/x",
    ]));
    let listed = good(&project.trumanfs(&["stores"]));
    assert!(
        listed.starts_with(&format!("{}\n", project.path.display())),
        "{listed}"
    );
    assert!(!listed.contains("not at its path"), "{listed}");
    // A mounted store is not forgotten; a store that is gone is known by the path that it had.
    let gate = project.path.join("end");
    let script = "touch begun; while [ ! -e end ]; do sleep 0.05; done";
    let mut running = begin(project.command(&["agent", "--", "sh", "-c", script]));
    until("the agent begins", || project.path.join("begun").exists());
    let refused = project.trumanfs(&["stores", "forget", "."]);
    fs::write(gate, "").unwrap();
    assert!(running.wait().unwrap().success());
    assert_eq!(refused.status.code(), Some(6), "{}", describe(&refused));
    let gone = project.path.clone();
    project.path = project.base().join("moved");
    fs::rename(&gone, &project.path).unwrap();
    let listed = good(&project.trumanfs(&["stores", "--json"]));
    assert!(listed.contains("\"is_at_path\":false"), "{listed}");
    good(&project.trumanfs(&["stores", "forget", gone.to_str().unwrap()]));
    assert!(project.places().is_empty());
    let left = good(&shell(&project.state, "find . -mindepth 2"));
    assert_eq!(left.trim(), "./trumanfs/agents");
    // A state in the project is forgotten no less.
    good(&project.trumanfs(&["exec", "--root", ".", "--", "mkdir d; touch d/e; rm -r d"]));
    good(&project.trumanfs(&["stores", "forget", "."]));
    assert!(!project.has_own_state());
    assert_eq!(
        project.trumanfs(&["stores", "forget", "."]).status.code(),
        Some(6)
    );
}
