//! `trumanfs agent`: an agent without a policy, in a store that is mounted for it, and what its owner hears and decides
//! at the end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, Store, begin, err, good, parsed, until};
use crate::common::terminal::Terminal;
use crate::common::tree::tree;
use crate::common::watch::is_mountpoint;
use crate::common::{binary, describe, need_mount, need_tools, run_limited, trumanfs};

fn agent(store: &Store, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("agent").arg("--store").arg(&store.store);
    command.args(options).arg("--").args(words);
    command
}

fn run(store: &Store, options: &[&str], script: &str) -> Output {
    run_limited(agent(store, options, &["bash", "-c", script]), LIMIT)
}

/// Begins an agent whose script makes the file `ready`, and waits for that.
fn begin_ready(store: &Store, options: &[&str], script: &str) -> Child {
    let child = begin(agent(store, options, &["bash", "-c", script]));
    until("it runs", || store.store.join("ready").exists());
    child
}

/// Returns the number of the store's daemon, and its home.
fn daemon_and_home(store: &Store) -> (Pid, PathBuf) {
    let status = trumanfs(&["status", store.store.to_str().unwrap(), "--json"]);
    let status = parsed(&status);
    let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    let home = PathBuf::from(status["home"].as_str().unwrap());
    (Pid::from_raw(pid).unwrap(), home)
}

fn text(store: &Store, name: &str) -> String {
    fs::read_to_string(store.store.join(name)).unwrap()
}

#[track_caller]
fn assert_names(said: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
}

fn filled() -> Store {
    let store = Store::new();
    let put = |path: &str, text: &str| fs::write(store.store.join(path), text).unwrap();
    fs::create_dir(store.store.join("dir")).unwrap();
    put("a", "one\ntwo\n");
    put("dir/b", "three\n");
    put("run.sh", "#!/bin/sh\n");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(store.store.join("run.sh"), mode).unwrap();
    std::os::unix::fs::symlink("dir/b", store.store.join("link")).unwrap();
    store
}

const STORM: &str = "echo four >>a; rm -r dir; echo five >new; chmod 600 run.sh; mv link other; mkdir -p x/y; echo 6 >x/y/z";

#[test]
fn what_it_changes_is_listed_and_stays() {
    need_mount!();
    let store = filled();
    let output = run(&store, &[], &format!("pwd; {STORM}; exit 3"));
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let path = store.store.display().to_string();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{path}\n"));
    let said = err(&output);
    let wanted = [
        "/a ",
        "/new ",
        "/dir/b ",
        "/x/y/z ",
        "mode 755 → 600",
        "files differ",
    ];
    assert_names(&said, &wanted);
    store.is_left_alone();
    // The commands that it names work as they stand.
    let commands: Vec<&str> = said
        .lines()
        .filter_map(|line| line.find("trumanfs ").map(|start| &line[start..]))
        .collect();
    assert_eq!(commands.len(), 4, "{said}");
    for command in commands {
        let words = command.replacen("trumanfs", binary(), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &words]).env("TMPDIR", &store.base);
        let output = run_limited(shell, LIMIT);
        let code = i32::from(command.contains(" diff "));
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        if command.contains(" report ") {
            let page = String::from_utf8_lossy(&output.stdout).into_owned();
            let page = Path::new(page.trim_end());
            assert_eq!(
                page.parent(),
                Some(store.base.as_path()),
                "{}",
                describe(&output)
            );
            assert!(
                fs::read_to_string(page).unwrap().contains("run.sh"),
                "{page:?}"
            );
        }
    }
    assert_eq!(text(&store, "a"), "one\ntwo\n");
}

#[test]
fn what_is_discarded_is_as_it_was_byte_for_byte() {
    need_mount!();
    let store = filled();
    let before = tree(&store.store);
    let output = run(&store, &["--discard"], STORM);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(err(&output).contains("undone"), "{}", err(&output));
    assert_eq!(tree(&store.store), before);
    // `redo` brings the changes back.
    let output = trumanfs(&["redo", store.store.to_str().unwrap()]);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(store.store.join("x/y/z").exists());
}

#[test]
fn what_somebody_changed_later_is_not_discarded() {
    need_mount!();
    let store = filled();
    let outer = store.store.join("go");
    let script = "echo agent >a; echo x >new; echo >ready; while ! [ -e go ]; do sleep 0.02; done";
    let mut child = begin_ready(&store, &["--discard"], script);
    let other = run(&store, &[], "echo person >a; echo >go");
    assert!(other.status.success(), "{}", describe(&other));
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(4), "a conflict");
    assert!(outer.exists());
    assert_eq!(text(&store, "a"), "person\n");
}

#[test]
fn two_at_once_each_see_their_own_changes_and_the_last_one_unmounts() {
    need_mount!();
    let store = filled();
    let script = |name: &str| {
        format!("echo x >{name}; while ! [ -e {name}.go ]; do sleep 0.02; done; echo y >>{name}")
    };
    let start = |name: &'static str| {
        let command = agent(&store, &[], &["bash", "-c", &script(name)]);
        std::thread::spawn(move || run_limited(command, LIMIT))
    };
    let (one, two) = (start("one"), start("two"));
    until("both run", || {
        store.store.join("one").exists() && store.store.join("two").exists()
    });
    assert_eq!(store.sessions(), 1, "one mount");
    good(&run(&store, &[], "touch one.go two.go"));
    let (one, two) = (err(&one.join().unwrap()), err(&two.join().unwrap()));
    assert!(one.contains("/one ") && !one.contains("/two "), "{one}");
    assert!(two.contains("/two ") && !two.contains("/one "), "{two}");
    store.is_left_alone();
}

#[test]
fn only_what_is_named_stays_of_its_own_directory() {
    need_mount!();
    let store = Store::new();
    let script = "cd; mkdir -p .claude .cache/x keep/deep other; echo login >.claude/token; echo 1 >.claude.json; echo 2 >.bash_history; echo 3 >keep/deep/er; echo 4 >keep/not";
    let options = ["--profile", "claude", "--keep-state", "keep/deep"];
    let said = run(&store, &options, script);
    assert!(
        err(&said).contains("nothing was changed"),
        "{}",
        describe(&said)
    );
    let left = good(&run(&store, &options, "cd; find . | sort"));
    let wanted =
        ".\n./.claude\n./.claude.json\n./.claude/token\n./keep\n./keep/deep\n./keep/deep/er\n";
    assert_eq!(left, wanted);
    // Another agent has a directory of its own, and the home shows none.
    assert_eq!(
        good(&run(&store, &[], "ls -A ~ .")),
        format!(".:\n\n{}:\n", "/home/agent")
    );
}

#[test]
fn nothing_of_the_environment_is_passed_on_but_what_is_named() {
    need_mount!();
    let store = Store::new();
    let mut command = agent(&store, &["--env", "NAMED", "--env", "SET=1"], &["env"]);
    command
        .env("SECRET", "s3cret")
        .env("NAMED", "n4med")
        .env("TERM", "xterm-256color");
    let said = good(&run_limited(command, LIMIT));
    assert!(
        said.contains("NAMED=n4med\n") && said.contains("SET=1\n"),
        "{said}"
    );
    assert!(said.contains("TERM=xterm-256color\n"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    // A variable that a profile knows as a credential is named, and not passed on.
    let mut command = agent(&store, &["--profile", "claude"], &["env"]);
    command.env("ANTHROPIC_API_KEY", "s3cret");
    let output = run_limited(command, LIMIT);
    assert!(!good(&output).contains("s3cret"));
    let wanted = "--env ANTHROPIC_API_KEY passes it on";
    assert!(err(&output).contains(wanted), "{}", err(&output));
    let output = run(&store, &["--env", "NOT_SET_ANYWHERE"], "true");
    assert_eq!(output.status.code(), Some(123));
    assert!(
        err(&output).contains("NOT_SET_ANYWHERE"),
        "{}",
        err(&output)
    );
}

#[test]
fn nothing_beside_the_store_shows() {
    need_mount!();
    let store = Store::new();
    fs::write(store.base.join("secret"), "x").unwrap();
    let said = good(&run(
        &store,
        &[],
        "ls -A ..; cat ../secret; ls -A /home /root /var /run 2>&1; true",
    ));
    assert!(said.starts_with("store\n"), "{said}");
    assert!(!said.contains("secret\n"), "{said}");
    // Nor is there a network.
    let output = run(&store, &[], "exec 3<>/dev/tcp/198.51.100.1/80");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
}

#[test]
fn one_that_was_killed_is_settled_by_the_next() {
    need_mount!();
    let store = filled();
    let script = "echo agent >a; echo x >new; echo >ready; sleep 1234";
    let mut child = begin_ready(&store, &["--discard"], script);
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    child.wait().unwrap();
    store.is_left_alone();
    let said = err(&run(&store, &[], "true"));
    let wanted = [
        "was killed",
        "/new ",
        "trumanfs undo ",
        "nothing was changed",
    ];
    assert_names(&said, &wanted);
    // Once.
    let said = err(&run(&store, &[], "true"));
    assert!(!said.contains("was killed"), "{said}");
}

#[test]
fn a_daemon_that_dies_loses_nothing() {
    need_mount!();
    let store = filled();
    let script = "echo agent >a; echo >ready; sleep 1234";
    let mut child = begin_ready(&store, &[], script);
    let (daemon, home) = daemon_and_home(&store);
    kill_process(daemon, Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(125));
    assert!(!is_mountpoint(&home), "{} is left", home.display());
    let said = err(&run(&store, &["--discard"], "echo b >later"));
    assert!(said.contains("undone"), "{said}");
    assert_eq!(text(&store, "a"), "agent\n");
    assert!(!store.store.join("later").exists());
}

/// As when the machine goes down: nobody is left to clear anything away.
#[test]
fn launcher_and_daemon_killed_together_lose_nothing_and_leave_no_mount() {
    need_mount!();
    let store = filled();
    let script = "echo agent >a; echo >ready; sleep 1234";
    let mut child = begin_ready(&store, &[], script);
    let (daemon, home) = daemon_and_home(&store);
    let launcher = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(launcher, Signal::STOP).unwrap();
    kill_process(daemon, Signal::KILL).unwrap();
    kill_process(launcher, Signal::KILL).unwrap();
    child.wait().unwrap();
    let said = err(&run(&store, &[], "cat a >b"));
    assert_names(&said, &["was killed", "/a ", "/b "]);
    assert_eq!(text(&store, "b"), "agent\n");
    assert!(!is_mountpoint(&home), "{} is left", home.display());
}

#[test]
fn a_terminal_of_its_own_works_with_a_shell_around_it() {
    need_mount!();
    need_tools!("bash", "python3", "stty", "tput");
    let store = Store::new();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/terminal.py");
    let mut command = Command::new("python3");
    command.arg(driver).arg(binary()).arg(&store.store);
    let said = good(&run_limited(command, LIMIT));
    assert!(said.ends_with("all was as expected\n"), "{said}");
}

/// A person at a terminal, and an agent there.
fn agent_at_terminal(store: &Store, flag: &str, script: &str) -> Terminal {
    let at = store.store.to_str().unwrap();
    let command = [
        binary(),
        "agent",
        "--store",
        at,
        flag,
        "--",
        "sh",
        "-c",
        script,
    ];
    Terminal::start(24, 110, &command, &[])
}

/// An agent that runs at a terminal until it is ended.
fn waiting_agent(store: &Store) -> Terminal {
    let mut person = agent_at_terminal(store, "--keep", "echo ready; sleep 60");
    person.wait_for("ready");
    person
}

/// A signal that ends the launcher gives the terminal back first.
#[test]
fn signals_give_the_terminal_back() {
    need_mount!();
    need_tools!("setsid");
    let store = Store::new();
    for signal in [Signal::QUIT, Signal::TERM, Signal::HUP] {
        let mut person = waiting_agent(&store);
        person.signal(signal);
        person.end();
        person.is_as_before();
    }
}

/// A second signal, which ends the launcher at once, gives the terminal back, too. Both wait for a process that is stopped.
#[test]
fn second_signal_gives_the_terminal_back() {
    need_mount!();
    need_tools!("setsid");
    let store = Store::new();
    let mut person = waiting_agent(&store);
    for signal in [Signal::STOP, Signal::TERM, Signal::HUP, Signal::CONT] {
        person.signal(signal);
    }
    assert!(matches!(person.end().code(), Some(129 | 143)));
    person.is_as_before();
}

/// An agent has the terminal asked what answers hold letters that accept everything, and ends before they come.
#[test]
fn answers_of_the_terminal_decide_nothing() {
    need_mount!();
    need_tools!("setsid");
    let store = Store::new();
    fs::write(store.store.join("mine"), "before\n").unwrap();
    // Its title is what the terminal answers with; it asks for the colours, the cursor, its name, and for mice.
    let script = "echo agent >>mine; printf '\\033]2;ay\\007\\033[21t\\033]11;?\\007\\033[6n\\033[>q\\005\\033[?1000h'; echo asked; read -r _";
    let mut person = agent_at_terminal(&store, "--ask", script);
    let answers =
        "\u{1b}]lay\u{1b}\\\u{1b}]11;rgb:ay/ay\u{7}\u{1b}[24;80R\u{1b}P>|ay\u{1b}\\\u{1b}[M ay";
    person.wait_for("asked");
    person.types("\r");
    // Before the screen is there, and what is no sequence, too.
    person.types(answers);
    person.types("ayay");
    person.wait_for("1 path by path");
    person.wait_for_keys();
    // Late answers have letters in their sequences alone, or come at once.
    person.types(answers);
    person.types("ay");
    person.wait_for("accept the changes of /mine? [y/n]");
    person.types("n");
    person.wait_for("nothing was changed");
    person.types("q");
    let status = person.end();
    assert_eq!(status.code(), Some(0), "{}", person.screen());
    let said = person.screen();
    assert!(
        said.contains("1 path not accepted and not taken back"),
        "{said}"
    );
}

/// `--ask` ends in the screen of a review of the run: what is taken back there is as before, the rest stays.
#[test]
fn asking_ends_in_a_review_of_the_run() {
    need_mount!();
    need_tools!("setsid");
    let store = Store::new();
    fs::write(store.store.join("mine"), "before\n").unwrap();
    let script = "echo agent >>mine; echo new >made";
    let mut person = agent_at_terminal(&store, "--ask", script);
    person.wait_for("2 paths by path");
    person.wait_for(">A /made");
    person.wait_for_keys();
    person.types("jr");
    person.wait_for("take back the changes of /mine?");
    person.confirms("");
    person.wait_for("1 path by path");
    person.types("q");
    let status = person.end();
    assert_eq!(status.code(), Some(0), "{}", person.screen());
    person.is_as_before();
    let said = person.screen();
    assert!(
        said.contains("1 path not accepted and not taken back"),
        "{said}"
    );
    assert_eq!(text(&store, "mine"), "before\n");
    assert_eq!(text(&store, "made"), "new\n");
    // A signal gives the terminal back, unmounts, and takes nothing back.
    let mut person = agent_at_terminal(&store, "--ask", script);
    person.wait_for("M /mine");
    let (_, home) = daemon_and_home(&store);
    person.signal(Signal::TERM);
    let status = person.end();
    assert_eq!(
        status.code(),
        Some(128 + Signal::TERM.as_raw()),
        "{}",
        person.screen()
    );
    person.is_as_before();
    assert_eq!(text(&store, "mine"), "before\nagent\n");
    assert!(!is_mountpoint(&home), "{} is left", home.display());
}

/// Files that git would run on the host come first in the summary and on the screen, and are accepted only by themselves.
#[test]
fn flagged_path_stays_undecided_when_all_is_accepted() {
    need_mount!();
    need_tools!("setsid");
    let store = Store::new();
    fs::create_dir_all(store.store.join(".git/hooks")).unwrap();
    let script = "echo new >Made; echo 'rm -r ~' >.git/hooks/pre-commit";
    let mut person = agent_at_terminal(&store, "--ask", script);
    person.wait_for("2 paths by path");
    person.wait_for("hooks/pre-commit runs");
    person.wait_for_keys();
    person.types("b");
    person.wait_for("2 paths by run");
    person.types("ka");
    person.wait_for("accept everything that run");
    person.confirms("");
    person.wait_for("1 flagged path left");
    person.wait_for("1 path by run");
    person.types("ja");
    person.wait_for("accept the changes of /.git/hooks/pre-commit?");
    person.confirms("");
    person.wait_for("Nothing is left to be reviewed.");
    person.types("q");
    assert_eq!(person.end().code(), Some(0), "{}", person.screen());
    let summary = person.screen();
    let first = "A /.git/hooks/pre-commit  runs on your machine";
    assert!(summary.contains(first), "{summary}");
}

#[test]
fn a_program_of_the_store_is_an_agent_too_and_keys_in_it_are_warned_of() {
    need_mount!();
    let store = Store::new();
    let mode = fs::Permissions::from_mode(0o755);
    fs::write(
        store.store.join("my agent.sh"),
        "#!/bin/sh\ntouch ~/kept ~/not\necho $1 $HOME\n",
    )
    .unwrap();
    fs::set_permissions(store.store.join("my agent.sh"), mode).unwrap();
    fs::create_dir(store.store.join(".ssh")).unwrap();
    let output = run_limited(
        agent(
            &store,
            &["--keep-state", "~/kept"],
            &["./my agent.sh", "hello"],
        ),
        LIMIT,
    );
    assert_eq!(good(&output), "hello /home/agent\n");
    assert!(
        err(&output).contains(".ssh lies in the store"),
        "{}",
        err(&output)
    );
    let own = store.store.join(".trumanfs/agents/my_agent_sh");
    let left: Vec<_> = fs::read_dir(own)
        .unwrap()
        .flatten()
        .map(|one| one.file_name())
        .collect();
    assert_eq!(left, ["kept"]);
    // A pipe is the program's input.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$0\" agent --store . -- cat <'my agent.sh'",
        binary(),
    ]);
    command.current_dir(&store.store);
    assert!(good(&run_limited(command, LIMIT)).starts_with("#!/bin/sh"));
}

#[test]
fn asking_needs_a_terminal_and_other_mistakes_have_remedies() {
    need_mount!();
    let store = Store::new();
    for (options, wanted) in [
        (&["--ask"][..], "--keep or --discard"),
        (&["--net", "bad host"], "allow=HOST"),
        (&["--net", "allow=bad host"], "`bad host` is no host"),
        (&["--keep-state", "../x"], "without `..`"),
        (&["--profile", "nobody"], "possible values"),
        (&["--ask", "--discard"], "cannot be used"),
    ] {
        let output = run(&store, options, "echo x >made");
        assert!(!output.status.success(), "{options:?}");
        assert!(
            err(&output).contains(wanted),
            "{options:?}: {}",
            err(&output)
        );
    }
    assert!(!store.store.join("made").exists());
    let output = run_limited(agent(&store, &[], &["no-such-program"]), LIMIT);
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
}
