//! What is changed directly in a project while an agent works there that no wall keeps from it: by an unknown writer, whose
//! changes are not taken for the owner's.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};

use super::agent_fork::ForkedProject;
use super::{LIMIT, begin, err, good, until};
use crate::common::{describe, run_limited};

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
