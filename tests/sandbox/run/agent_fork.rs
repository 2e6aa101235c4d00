//! Agents in forks: where no home can be mounted, and where no sandbox can be made. What they change comes into the
//! project as one run when they have ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{LIMIT, begin, err, good, until};
use crate::common::{binary, describe, need_mount, need_tools, run_limited};

/// A project, and a state home beside it.
pub(super) struct ForkedProject {
    pub(super) dir: tempfile::TempDir,
    pub(super) path: PathBuf,
}

impl ForkedProject {
    pub(super) fn new() -> ForkedProject {
        let dir = tempfile::TempDir::with_prefix("trumanfs-fork-").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(path.join("dir/sub")).unwrap();
        for (name, text) in [
            ("list", "one\ntwo\n"),
            ("gone", "gone\n"),
            ("kept", "kept\n"),
            ("dir/file", "file\n"),
            ("dir/sub/inner", "inner\n"),
        ] {
            fs::write(path.join(name), text).unwrap();
        }
        ForkedProject { dir, path }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("state")
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).current_dir(&self.path);
        command.env("XDG_STATE_HOME", self.state());
        command.env("HOME", self.dir.path());
        command
    }

    pub(super) fn trumanfs(&self, args: &[&str]) -> Output {
        run_limited(self.command(args), LIMIT)
    }

    pub(super) fn agent_command(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.command(&["agent", "--home", "fork"]);
        command.args(options).args(["--", "sh", "-c", script]);
        command
    }

    pub(super) fn agent(&self, options: &[&str], script: &str) -> Output {
        run_limited(self.agent_command(options, script), LIMIT)
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in the project, and their contents.
    /// An agent in a mounted home, without namespaces.
    pub(super) fn mounted_agent(&self, options: &[&str], script: &str) -> Output {
        let mut command = self.command(&["agent"]);
        command.args(options).args(["--", "sh", "-c", script]);
        run_limited(command, LIMIT)
    }

    pub(super) fn tree(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.path.clone()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(dir).unwrap().flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => waiting.push(path.clone()),
                    false => found.push((path.clone(), fs::read_to_string(&path).ok())),
                }
            }
        }
        found.sort();
        found
    }

    /// The directories of forks that are there.
    pub(super) fn forks(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.state().join("trumanfs/agent-forks"));
        let paths = listed.into_iter().flatten().flatten();
        paths.map(|entry| entry.path()).collect()
    }
}

/// Whether this kernel has the rules about files that `--sandbox weak` needs.
macro_rules! need_file_rules {
    () => {
        if !trumanfs::exec::program::sandbox::has_file_rules() {
            crate::common::skip!(
                "landlock",
                "this kernel has no Landlock of Linux 6.2 in force"
            );
        }
    };
}

pub(super) use need_file_rules;

const WALLS: [&[&str]; 3] = [&[], &["--sandbox", "weak"], &["--sandbox", "none"]];

#[test]
fn all_changes_come_into_the_project_as_one_run() {
    need_mount!();
    need_file_rules!();
    for options in WALLS {
        let project = ForkedProject::new();
        let before = project.tree();
        let script =
            "printf '1\\n2\\n' >list; rm gone; rm -r dir/sub; mv dir/file dir/moved; mkdir new
            echo n >new/n; ln -s list link; chmod 755 kept; touch -d 2001-01-01 dir .; echo said";
        let output = project.agent(options, script);
        assert_eq!(good(&output), "said\n", "{}", describe(&output));
        assert_eq!(project.read("list"), "1\n2\n");
        assert_eq!(project.read("dir/moved"), "file\n");
        assert_eq!(project.read("new/n"), "n\n");
        assert_eq!(
            fs::read_link(project.path.join("link")).unwrap(),
            Path::new("list")
        );
        let mode = fs::metadata(project.path.join("kept"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        for name in ["gone", "dir/sub", "dir/file", ".trumanfs", ".trash"] {
            assert!(!project.path.join(name).exists(), "{options:?}: {name}");
        }
        assert_eq!(project.forks(), Vec::<PathBuf>::new());
        let log = good(&project.trumanfs(&["log", ".", "--run", "last"]));
        assert!(log.contains("$ sh -c"), "{log}");
        good(&project.trumanfs(&["undo", ".", "--run", "last"]));
        assert_eq!(project.tree(), before, "{options:?}");
    }
}

#[test]
fn agent_sees_the_project_at_its_path_and_nothing_of_the_fork() {
    need_mount!();
    let project = ForkedProject::new();
    let output = project.agent(&[], "pwd; ls -A; ls -A \"$HOME\"");
    let wanted = format!("{}\ndir\ngone\nkept\nlist\n", project.path.display());
    assert_eq!(good(&output), wanted, "{}", describe(&output));
}

#[test]
fn what_was_changed_in_the_project_meanwhile_stays() {
    need_mount!();
    let project = ForkedProject::new();
    let script = "echo agent >list; rm gone; rm -r dir; echo n >only; touch ready; until [ -e go ]; do sleep 0.05; done";
    let child = begin(project.agent_command(&[], script));
    let fork = || {
        let fork = project.forks().first()?.join("fork/project");
        fork.join("ready").exists().then_some(fork)
    };
    until("the agent has begun", || fork().is_some());
    fs::write(project.path.join("list"), "owner\n").unwrap();
    fs::write(project.path.join("gone"), "changed by the owner\n").unwrap();
    fs::write(project.path.join("dir/sub/new"), "the owner's\n").unwrap();
    fs::write(fork().unwrap().join("go"), "").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(project.read("list"), "owner\n");
    assert_eq!(project.read("list.from-agent"), "agent\n");
    assert_eq!(project.read("gone"), "changed by the owner\n");
    assert_eq!(project.read("dir/sub/new"), "the owner's\n");
    assert!(!project.path.join("dir/file").exists());
    assert_eq!(project.read("only"), "n\n");
    let undone = project.trumanfs(&["undo", ".", "--run", "last"]);
    good(&undone);
    assert_eq!(project.read("list"), "owner\n");
    assert!(!project.path.join("list.from-agent").exists());
    assert_eq!(project.read("dir/file"), "file\n");
}

#[test]
fn kinds_that_change_come() {
    need_mount!();
    let project = ForkedProject::new();
    let before = project.tree();
    good(&project.agent(&[], "rm list; mkdir list; echo in >list/in; rm -r dir; echo file >dir; rm kept; ln -s list kept"));
    assert_eq!(project.read("list/in"), "in\n");
    assert_eq!(project.read("dir"), "file\n");
    assert_eq!(
        fs::read_link(project.path.join("kept")).unwrap(),
        Path::new("list")
    );
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert_eq!(project.tree(), before);
}

#[test]
fn names_of_the_stores_own_are_no_way_to_deceive_the_merge() {
    need_mount!();
    let project = ForkedProject::new();
    let script =
        "mkdir .trumanfs .trash; echo '{}' >.trumanfs/fork; echo lost >.trash/f; echo x >list";
    good(&project.agent(&[], script));
    assert_eq!(project.read("list"), "x\n");
    let found = project.tree();
    assert!(found.iter().any(|(path, text)| {
        let name = path.strip_prefix(&project.path).unwrap().to_string_lossy();
        name.starts_with("trash-of-agent.") && text.as_deref() == Some("lost\n")
    }));
    assert!(!project.path.join(".trumanfs").exists());
}

#[test]
fn weak_sandbox_opens_only_what_is_shown() {
    need_file_rules!();
    need_tools!("python3");
    let project = ForkedProject::new();
    let outside = project.dir.path().join("outside");
    fs::write(&outside, "secret\n").unwrap();
    let script = format!(
        "cat {0}; echo bad >{0}; truncate -s0 {0}; rm {0}; ln {0} linked; mv {0} moved; echo bad >{1}/direct
         ls /; ls {1}; cat /proc/$PPID/environ /proc/1/environ; kill $PPID
         echo ok >\"$TMPDIR/t\" && cat \"$TMPDIR/t\"; echo own >~/own && cat ~/own
         grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status",
        outside.display(),
        project.path.display()
    );
    let output = project.agent(&["--sandbox", "weak"], &script);
    let wanted = "ok\nown\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    assert_eq!(good(&output), wanted, "{}", describe(&output));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret\n");
    let said = err(&output);
    assert!(
        said.contains("only rules about files hold the program"),
        "{said}"
    );
    assert!(said.contains("nothing was changed"), "{said}");
    let no_net = "python3 -c 'import socket; socket.socket()'";
    let output = project.agent(&["--sandbox", "weak", "--net", "none"], no_net);
    assert!(
        err(&output).contains("Address family not supported"),
        "{}",
        describe(&output)
    );
    good(&project.agent(&["--sandbox", "weak"], no_net));
}

#[test]
fn processes_left_behind_end_with_an_agent_without_namespaces() {
    need_file_rules!();
    for wall in ["weak", "none"] {
        let project = ForkedProject::new();
        let script =
            "sh -c 'setsid sh -c \"echo \\$\\$ >first; sleep 300\" & (sleep 300 & echo $! >second)'
            until [ -s first ] && [ -s second ]; do sleep 0.05; done";
        good(&project.agent(&["--sandbox", wall], script));
        for name in ["first", "second"] {
            let pid: i32 = project.read(name).trim().parse().unwrap();
            let pid = Pid::from_raw(pid).unwrap();
            assert!(test_kill_process(pid).is_err(), "{wall}: {name} lives");
        }
        let output = project.agent(
            &["--sandbox", wall, "--timeout", "1"],
            "echo $$ >pid; sleep 300",
        );
        assert_eq!(output.status.code(), Some(124), "{}", describe(&output));
        let pid = Pid::from_raw(project.read("pid").trim().parse().unwrap()).unwrap();
        assert!(test_kill_process(pid).is_err(), "{wall}: it lives");
    }
}

#[test]
fn change_made_directly_is_by_an_unknown_writer() {
    let project = ForkedProject::new();
    let script = format!(
        "echo bad >>{}/kept; echo agent >>list",
        project.path.display()
    );
    let output = project.agent(&["--sandbox", "none"], &script);
    let said = err(&output);
    assert!(
        said.contains("by an unknown writer, which may be the agent: /kept"),
        "{said}"
    );
    assert_eq!(project.read("list"), "one\ntwo\nagent\n");
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert_eq!(project.read("kept"), "kept\nbad\n");
    assert_eq!(project.read("list"), "one\ntwo\n");
}

#[test]
fn fork_of_a_killed_agent_is_found_and_can_be_merged() {
    need_file_rules!();
    for options in [&[][..], &["--sandbox", "weak"]] {
        let project = ForkedProject::new();
        let script = "echo half >list; echo $$ >pid; touch ready; sleep 300";
        let mut child = begin(project.agent_command(options, script));
        let fork = || project.forks().first().map(|dir| dir.join("fork/project"));
        until("the agent has begun", || {
            fork().is_some_and(|fork| fork.join("ready").exists())
        });
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        let fork = fork().unwrap();
        if !options.is_empty() {
            let pid = fs::read_to_string(fork.join("pid")).unwrap();
            let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
            until("its processes end", || test_kill_process(pid).is_err());
        }
        assert_eq!(project.read("list"), "one\ntwo\n");
        let output = project.agent(options, "true");
        let said = err(&output);
        let wanted = format!(
            "trumanfs merge {} {}",
            project.path.display(),
            fork.display()
        );
        assert!(said.contains(&wanted), "{said}");
        let paths = [project.path.to_str().unwrap(), fork.to_str().unwrap()];
        good(&project.trumanfs(&["merge", paths[0], paths[1]]));
        assert_eq!(project.read("list"), "half\n");
    }
}

#[test]
fn what_no_agent_in_a_fork_can_have_is_refused() {
    let project = ForkedProject::new();
    for (options, wanted) in [
        (
            &["--home", "fork", "--sandbox", "none", "--net", "none"][..],
            "this network cannot be used",
        ),
        (
            &["--home", "fork", "--sandbox", "weak", "--net", "npm"],
            "this network cannot be used",
        ),
        (
            &["--home", "fork", "--sandbox", "weak", "--publish", "8000"],
            "this network cannot be used",
        ),
        (
            &["--home", "fork", "--sandbox", "weak", "--cache", "npm"],
            "--cache cannot be used",
        ),
        (
            &["--sandbox", "weak", "--also", "/"],
            "--also cannot be used",
        ),
        (&["--home", "fork", "--also", "/nowhere/else"], ""),
    ] {
        let words = [&["agent"], options, &["--", "true"]].concat();
        let output = project.trumanfs(&words);
        assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
        assert!(err(&output).contains(wanted), "{}", describe(&output));
        assert_eq!(project.forks(), Vec::<PathBuf>::new());
    }
    let run = project.trumanfs(&[
        "run",
        "--root",
        ".",
        "--policy",
        "default",
        "--sandbox",
        "none",
        "--",
        "true",
    ]);
    assert_eq!(run.status.code(), Some(2), "{}", describe(&run));
}
