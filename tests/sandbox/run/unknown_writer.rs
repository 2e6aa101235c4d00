//! Direct changes of a project while an agent works there that no wall keeps from it: an unknown writer's, which are not
//! taken for the owner's.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};

use super::agent_fork::{ForkedProject, need_file_rules};
use super::{LIMIT, begin, err, good, until};
use crate::common::{describe, need_mount, run_limited};

const IN_PLACE: &[&str] = &["--sandbox", "none"];
const LIST: &str = "one\ntwo\nthree\nfour\nfive\n";

/// A project with a run that changed the second line of a list, and one during which a line was added directly.
struct ChangedProject {
    project: ForkedProject,
    first: String,
    second: String,
}

impl ChangedProject {
    fn new(first: &str, direct: &str) -> ChangedProject {
        let project = ForkedProject::new();
        fs::write(project.path.join("list"), LIST).unwrap();
        let first = run_of(&project.agent(IN_PLACE, first));
        let direct = direct.replace("PROJECT", project.path.to_str().unwrap());
        let output = project.agent(IN_PLACE, &direct);
        let said = err(&output);
        assert!(
            said.contains("changed meanwhile, by an unknown writer"),
            "{said}"
        );
        ChangedProject {
            first,
            second: run_of(&output),
            project,
        }
    }

    fn undo(&self, run: &str, options: &[&str]) -> Output {
        let words = [&["undo", ".", "--run", run], options].concat();
        self.project.trumanfs(&words)
    }

    /// Checks that something was refused because of the unknown writer, and nothing changed.
    #[track_caller]
    fn is_refused(&self, words: &[&str], what: &str) {
        let before = self.project.tree();
        let output = self.project.trumanfs(words);
        assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
        let wanted = format!("an unknown writer, during run {}", self.second);
        let said = [err(&output), String::from_utf8_lossy(&output.stdout).into()].concat();
        assert!(said.contains(&wanted) && said.contains(what), "{said}");
        assert_eq!(self.project.tree(), before);
    }
}

/// The id of a run, as its summary has it.
#[track_caller]
fn run_of(output: &Output) -> String {
    good(output);
    let said = err(output);
    let after = |word: &str| Some(said.split_once(word)?.1.get(..12)?.to_owned());
    let run = after("--run ").or_else(|| after("(run "));
    run.unwrap_or_else(|| panic!("no run in {said}"))
}

const EDIT: &str = "sed -i s/two/2/ list; echo x >made";

#[test]
fn undo_of_earlier_run_is_a_conflict_and_loses_nothing() {
    let changed = ChangedProject::new(EDIT, "echo bad >>PROJECT/list; echo own >own");
    let project = &changed.project;
    let undo = ["undo", ".", "--run", &changed.first];
    changed.is_refused(&undo, "/list was written to later");
    // The owner's later change keeps the unknown lines, so they stay a conflict.
    fs::write(project.path.join("list"), project.read("list") + "owner\n").unwrap();
    changed.is_refused(&undo, "/list was written to later");
    // A run that found them does not go back beyond them.
    let third = run_of(&project.agent(IN_PLACE, "sed -i s/four/4/ list"));
    fs::write(project.path.join("list"), project.read("list") + "later\n").unwrap();
    good(&changed.undo(&third, &[]));
    let now = "one\n2\nthree\nfour\nfive\nbad\nowner\nlater\n";
    assert_eq!(project.read("list"), now);
    changed.is_refused(&undo, "/list was written to later");
    let beside = changed.undo(&changed.first, &["--keep-both"]);
    assert!(
        matches!(beside.status.code(), Some(0 | 5)),
        "{}",
        describe(&beside)
    );
    let names = project.tree().into_iter();
    let beside = names.filter(|(path, _)| path.to_string_lossy().contains("list.before-"));
    assert_eq!(
        beside.filter_map(|(_, text)| text).collect::<Vec<_>>(),
        [LIST]
    );
    assert_eq!(project.read("list"), now);
    good(&project.trumanfs(&["redo", "."]));
    let forced = changed.undo(&changed.first, &["--force"]);
    assert!(
        matches!(forced.status.code(), Some(0 | 5)),
        "{}",
        describe(&forced)
    );
    assert_eq!(project.read("list"), LIST);
    good(&project.trumanfs(&["redo", "."]));
    assert_eq!(project.read("list"), now);
    good(&project.trumanfs(&["fsck", "."]));
}

#[test]
fn same_lines_by_the_owner_are_merged() {
    let project = ForkedProject::new();
    fs::write(project.path.join("list"), LIST).unwrap();
    let first = run_of(&project.agent(IN_PLACE, EDIT));
    fs::write(project.path.join("list"), project.read("list") + "owner\n").unwrap();
    // What was there when an agent began is the owner's.
    good(&project.agent(IN_PLACE, "echo own >own"));
    good(&project.trumanfs(&["undo", ".", "--run", &first]));
    assert_eq!(project.read("list"), format!("{LIST}owner\n"));
}

#[test]
fn files_removed_made_and_saved_anew_are_conflicts() {
    let changed = ChangedProject::new(
        "echo more >>kept; rm gone; rm -r dir/sub",
        "rm PROJECT/kept; echo new >PROJECT/gone",
    );
    let undo = ["undo", ".", "--run", &changed.first];
    changed.is_refused(&undo, "/kept was removed or moved later");
    changed.is_refused(&undo, "/gone has come to be there later");
    let changed = ChangedProject::new(EDIT, "cd PROJECT; cp list l2; echo bad >>l2; mv l2 list");
    let undo = ["undo", ".", "--run", &changed.first];
    changed.is_refused(&undo, "/list was written to later");
    fs::remove_file(changed.project.path.join("list")).unwrap();
    let made = ChangedProject::new("echo x >made", "echo bad >>PROJECT/made");
    made.is_refused(
        &["undo", ".", "--run", &made.first],
        "/made was written to later",
    );
}

#[test]
fn reject_and_merge_are_conflicts() {
    let changed = ChangedProject::new(EDIT, "echo bad >>PROJECT/list");
    let reject = ["reject", ".", &changed.first, "/list", "--hunk", "1"];
    changed.is_refused(&reject, "/list");
    let project = ForkedProject::new();
    fs::write(project.path.join("list"), LIST).unwrap();
    good(&project.agent(IN_PLACE, "true"));
    let fork = project.dir.path().join("fork");
    let (here, there) = (project.path.to_str().unwrap(), fork.to_str().unwrap());
    good(&project.trumanfs(&["fork", "--copy", here, there]));
    let mut agent = project.agent_command(IN_PLACE, "sed -i s/two/2/ list");
    agent.current_dir(&fork);
    good(&run_limited(agent, LIMIT));
    let direct = format!("echo bad >>{here}/list");
    let second = run_of(&project.agent(IN_PLACE, &direct));
    let merged = project.trumanfs(&["merge", here, there]);
    assert_eq!(merged.status.code(), Some(4), "{}", describe(&merged));
    let wanted = format!("an unknown writer, during run {second}");
    assert!(err(&merged).contains(&wanted), "{}", describe(&merged));
    assert_eq!(project.read("list"), format!("{LIST}bad\n"));
}

#[test]
fn what_a_killed_agent_left_is_recorded_by_the_next_start() {
    let project = ForkedProject::new();
    fs::write(project.path.join("list"), LIST).unwrap();
    let first = run_of(&project.agent(IN_PLACE, EDIT));
    let path = project.path.display();
    let script = format!("echo bad >>{path}/list; touch {path}/ready; sleep 300");
    let mut child = begin(project.agent_command(IN_PLACE, &script));
    until("the agent has begun", || {
        project.path.join("ready").exists()
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let said = err(&project.agent(IN_PLACE, "true"));
    assert!(
        said.contains("by an unknown writer, which may be the agent: /list, /ready"),
        "{said}"
    );
    let undone = project.trumanfs(&["undo", ".", "--run", &first]);
    assert_eq!(undone.status.code(), Some(4), "{}", describe(&undone));
    assert!(
        err(&undone).contains("an unknown writer, during run"),
        "{}",
        describe(&undone)
    );
    let said = err(&project.agent(IN_PLACE, "true"));
    assert!(!said.contains("unknown writer"), "{said}");
}

/// Checks that an agent works in a mounted home at a path of its own, and that all that it changes there is recorded.
#[track_caller]
fn works_in_a_mounted_home(wall: &str) -> (ForkedProject, Output) {
    let project = ForkedProject::new();
    fs::write(project.path.join("list"), LIST).unwrap();
    fs::write(project.path.join("secret"), "secret\n").unwrap();
    let before = project.tree();
    let script = format!(
        "echo first >>kept; sed -i s/two/2/ list; rm gone; (echo child >child &) ; sleep 0.3
         cat secret; echo bad >>dir/file; echo t >$TMPDIR/t && cat $TMPDIR/t; pwd
         echo bad >>{0}/list; echo bad >>{0}/dir/sub/inner; cat {0}/secret; exit 7",
        project.path.display()
    );
    let options = [
        "--sandbox",
        wall,
        "--hide",
        "secret",
        "--read-only",
        "dir/file",
    ];
    let output = project.mounted_agent(&options, &script);
    assert_eq!(output.status.code(), Some(7), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let home = said.lines().nth(1).unwrap_or_default().to_owned();
    assert!(
        said.starts_with("t\n") && home.contains("/homes/"),
        "{}",
        describe(&output)
    );
    assert!(!std::path::Path::new(&home).exists(), "{home}");
    assert!(
        err(&output).contains("Read-only file system"),
        "{}",
        describe(&output)
    );
    assert_eq!(project.read("dir/file"), "file\n");
    assert_eq!(project.read("child"), "child\n");
    let log = good(&project.trumanfs(&["log", ".", "--run", "last", "--json"]));
    for name in ["/kept", "/gone", "/child", "/list"] {
        assert!(log.contains(&format!("{name:?}")), "{name}: {log}");
    }
    let unchanged = before.iter().filter(|(path, _)| path.ends_with("secret"));
    assert!(
        unchanged.eq(project
            .tree()
            .iter()
            .filter(|(path, _)| path.ends_with("secret")))
    );
    (project, output)
}

#[test]
fn mounted_home_without_a_wall_records_what_is_changed_in_it() {
    need_mount!();
    let (project, output) = works_in_a_mounted_home("none");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("secret\n"));
    let said = err(&output);
    let wanted = "2 files of the project changed meanwhile, by an unknown writer, which may be the agent: /dir/sub/inner, /list";
    assert!(said.contains(wanted), "{said}");
    let before = project.tree();
    let undone = project.trumanfs(&["undo", ".", "--run", "last"]);
    assert_eq!(undone.status.code(), Some(4), "{}", describe(&undone));
    let said = err(&undone);
    assert!(
        said.contains("/list was written to later: by an unknown writer, during run"),
        "{said}"
    );
    assert_eq!(project.tree(), before);
}

#[test]
fn mounted_home_is_open_and_its_store_closed_by_rules_about_files() {
    need_mount!();
    need_file_rules!();
    let (project, output) = works_in_a_mounted_home("weak");
    let said = err(&output);
    assert!(
        said.contains("Permission denied") && !said.contains("unknown writer"),
        "{said}"
    );
    assert_eq!(project.read("dir/sub/inner"), "inner\n");
    good(&project.trumanfs(&["undo", ".", "--run", "last"]));
    assert_eq!(project.read("list"), LIST);
    let before = project.tree();
    let output = project.mounted_agent(
        &["--sandbox", "weak", "--discard"],
        "echo x >>kept; rm list",
    );
    good(&output);
    assert_eq!(project.tree(), before, "{}", describe(&output));
}

#[test]
fn two_agents_in_place_of_one_project_are_not_taken_for_each_other() {
    need_mount!();
    let project = ForkedProject::new();
    let mut first = project.command(&["agent", "--sandbox", "none", "--", "sh", "-c"]);
    first.arg("touch ready; until [ -e go ]; do sleep 0.05; done; echo first >>kept");
    let first = begin(first);
    until("the first has begun", || {
        project.path.join("ready").exists()
    });
    let second = project.mounted_agent(IN_PLACE, "echo second >>kept");
    assert_eq!(second.status.code(), Some(123), "{}", describe(&second));
    assert!(
        err(&second).contains("belongs to another run"),
        "{}",
        describe(&second)
    );
    fs::write(project.path.join("go"), "").unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
    assert_eq!(project.read("kept"), "kept\nfirst\n");
}
