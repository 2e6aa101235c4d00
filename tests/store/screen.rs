//! The screen of `review`, driven at a pseudo-terminal: what is shown, what keys change, and that the terminal is given
//! back on every way out.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::terminal::Terminal;
use crate::common::{Home, binary, describe, need_mount, need_tools, trumanfs};

/// Longer than the screen waits for the rest of a key.
const AFTER_ESC: Duration = Duration::from_secs(1);

/// Runs a line of the shell as a run of its own.
#[track_caller]
pub(super) fn run(home: &Home, line: &str) {
    let at = home.home().to_str().unwrap();
    let output = trumanfs(&["exec", "--root", at, "--", line]);
    assert!(output.status.success(), "{}", describe(&output));
}

/// Thirty numbered lines, some of them otherwise.
fn numbered(changed: &[(usize, &str)]) -> String {
    let line = |n: usize| {
        let changed = changed.iter().find(|(at, _)| *at == n);
        changed.map_or_else(|| format!("line {n}\n"), |(_, line)| format!("{line}\n"))
    };
    (1..=30).map(line).collect()
}

fn four_files(store: &Path) {
    for name in ["a", "b", "c", "d"] {
        fs::write(store.join(name), numbered(&[])).unwrap();
    }
}

/// Opens the screen of a home or a store, and waits until it takes keys.
#[track_caller]
pub(super) fn open(target: &Path, more: &[&str], size: (u16, u16)) -> Terminal {
    let command = [&[binary(), "review", target.to_str().unwrap()], more].concat();
    let mut person = Terminal::start(size.0, size.1, &command, &[]);
    person.wait_for_keys();
    person
}

/// Presses Esc, and gives the screen time to see that nothing follows.
fn escape(person: &Terminal) {
    person.types("\u{1b}");
    std::thread::sleep(AFTER_ESC);
}

#[track_caller]
pub(super) fn quit(mut person: Terminal) {
    person.types("q");
    let status = person.end();
    assert!(status.success(), "{status}:\n{}", person.screen());
    person.is_as_before();
}

/// A path is taken back, brought back, and accepted; the list follows.
#[test]
fn paths_are_taken_back_brought_back_and_accepted() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a; echo other > b");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("2 paths by path");
    person.wait_for("+more");
    person.types("r");
    person.wait_for("take back the changes of /a? [y/n]");
    person.types("n");
    person.wait_for("nothing was changed");
    assert_eq!(
        fs::read_to_string(home.path("a")).unwrap(),
        numbered(&[]) + "more\n"
    );
    person.confirms("r");
    person.wait_for("1 path by path");
    let screen = person.wait_for("put back the content of /a");
    assert!(screen.contains("trumanfs redo"), "{screen}");
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), numbered(&[]));
    person.types("u");
    person.wait_for("undo the last thing");
    person.confirms("");
    person.wait_for("2 paths by path");
    assert_eq!(
        fs::read_to_string(home.path("a")).unwrap(),
        numbered(&[]) + "more\n"
    );
    person.types("k");
    person.wait_for(">M /a");
    person.confirms("a");
    person.wait_for("accepted 1 path");
    person.wait_for("1 path by path");
    person.types("u");
    person.wait_for("accepting cannot be taken back");
    quit(person);
    let fsck = trumanfs(&["fsck", home.store().to_str().unwrap()]);
    assert!(fsck.status.success(), "{}", describe(&fsck));
}

/// The case of the issue: a run changed three files, somebody changed a fourth by hand, and one hunk of one of the three is
/// taken back. Files and screens are compared.
#[test]
fn one_hunk_of_one_of_three_files_is_taken_back() {
    need_mount!();
    need_tools!("setsid");
    let agent = [
        (3, "line three"),
        (15, "line fifteen"),
        (27, "line twenty-seven"),
    ];
    let prepare = |store: &Path| {
        four_files(store);
        fs::write(store.join("new"), numbered(&agent)).unwrap();
    };
    let home = Home::prepared(prepare, &[]);
    run(&home, "cat new > a; cat new > b; cat new > c");
    fs::write(home.path("d"), numbered(&[(1, "by hand")])).unwrap();
    let journal = home.journal();
    let last = journal.iter().rev().find(|record| record["op"] == "run");
    let id = last.unwrap()["origin"]["run"].as_str().unwrap().to_owned();
    let mut person = open(home.home(), &["--run", &id], (22, 110));
    person.wait_for("3 paths by path");
    person.types("j\t");
    person.wait_for("|@@ -1,6 +1,6 @@ hunk 1");
    person.types("j");
    person.wait_for("|@@ -12,7 +12,7 @@ hunk 2");
    person.types("r");
    person.wait_for("take back hunk 2 of /b? [y/n]");
    person.confirms("");
    person.wait_for("put back the content of /b");
    let screen = person.wait_gone("hunk 2");
    let time = &screen[screen.find("last changed ").unwrap()..][13..32];
    let target = home.home().to_str().unwrap();
    let shown = screen
        .replace(time, "TIME")
        .replace(&time[11..16], "HH:MM")
        .replace(target, "HOME");
    let (list, difference): (Vec<&str>, Vec<&str>) = shown
        .lines()
        .skip(1)
        .take(17)
        .filter_map(|row| row.split_once(" │ ").or(row.split_once(" │")))
        .map(|(list, difference)| (list.trim_end(), difference))
        .unzip();
    let short = &id[..4];
    assert_eq!(
        list[..4],
        [
            &format!(" M /a                        trumanfs {short} HH:MM")[..],
            &format!(">M /b                        trumanfs {short} HH:MM"),
            &format!(" M /c                        trumanfs {short} HH:MM"),
            "",
        ],
        "{screen}"
    );
    assert_eq!(difference[0], "/b", "{screen}");
    assert_eq!(difference[1], "last changed TIME", "{screen}");
    assert_eq!(
        difference[3..],
        [
            " line 1",
            " line 2",
            "-line 3",
            "+line three",
            " line 4",
            " line 5",
            " line 6",
            "|@@ -24,7 +24,7 @@ hunk 3",
            "| line 24",
            "| line 25",
            "| line 26",
            "|-line 27",
            "|+line twenty-seven",
            "| line 28",
        ],
        "{screen}"
    );
    assert_eq!(
        fs::read_to_string(home.path("b")).unwrap(),
        numbered(&[agent[0], agent[2]])
    );
    for name in ["a", "c"] {
        assert_eq!(
            fs::read_to_string(home.path(name)).unwrap(),
            numbered(&agent)
        );
    }
    assert_eq!(
        fs::read_to_string(home.path("d")).unwrap(),
        numbered(&[(1, "by hand")])
    );
    // The hunk comes back, and somebody changes its lines: a conflict, which is named, and nothing is changed.
    person.confirms("u");
    person.wait_for("hunk 2");
    let by_hand = [agent[0], (15, "mine"), agent[2]];
    fs::write(home.path("b"), numbered(&by_hand)).unwrap();
    person.wait_for("hunk 2, changed by others since");
    person.types("\tg");
    person.wait_for("|@@ -1,6 +1,6 @@ hunk 1");
    person.confirms("jr");
    let screen = person.wait_for("1 conflict in the way; nothing was changed");
    let said = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("/b: the lines of @@ -12,7 +12,7 @@"),
        "{screen}"
    );
    assert!(
        said.contains("were changed by others: operation"),
        "{screen}"
    );
    assert!(said.contains("--keep-both or --force"), "{screen}");
    assert_eq!(
        fs::read_to_string(home.path("b")).unwrap(),
        numbered(&by_hand)
    );
    person.types("x");
    // Another hunk of the same file can be accepted, and leaves the difference.
    person.types("g");
    person.wait_for("|@@ -1,6 +1,6 @@ hunk 1");
    person.confirms("a");
    person.wait_for("accepted the hunk");
    person.wait_gone("hunk 1");
    quit(person);
    let fsck = trumanfs(&["fsck", home.store().to_str().unwrap()]);
    assert!(fsck.status.success(), "{}", describe(&fsck));
}

/// What is decided is what was seen: lines that somebody changes while the question is asked stay.
#[test]
fn what_was_not_seen_is_not_taken_back() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a; echo more >> b");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("+more");
    person.types("\tr");
    person.wait_for("take back hunk 1 of /a?");
    let by_hand = numbered(&[]) + "mine\n";
    fs::write(home.path("a"), &by_hand).unwrap();
    person.confirms("");
    // By the hunk's digest, by the list's number, or by the edit's own check: whichever notices first.
    person.wait("that it has changed", |screen| {
        screen.contains("changed meanwhile") || screen.contains("it was not done")
    });
    assert_eq!(fs::read_to_string(home.path("a")).unwrap(), by_hand);
    person.types("x");
    person.wait_for("+mine");
    quit(person);
}

/// On the heading of a group, the whole group is meant: of a run, what that run changed and nobody else.
#[test]
fn a_whole_group_is_taken_back_or_accepted() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo first >> a; echo first >> b");
    run(&home, "echo second >> c; rm d");
    home.sh("echo by-hand > e; echo by-hand > f");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("6 paths by path");
    person.types("b");
    let screen = person.wait_for("6 paths by run");
    assert!(screen.contains("in no run (2)"), "{screen}");
    assert!(screen.contains("(2) echo second >> c; rm d"), "{screen}");
    // The older run is the last group.
    person.types("Gkk");
    person.wait_for("echo first >> a; echo first >> b");
    person.types("r");
    person.wait_for("take back everything that run");
    person.confirms("");
    person.wait_for("4 paths by run");
    for name in ["a", "b"] {
        assert_eq!(fs::read_to_string(home.path(name)).unwrap(), numbered(&[]));
    }
    // What no run did is a group as well, by its paths.
    person.types("g");
    person.wait_for(">- in no run (2)");
    person.types("a");
    person.wait_for("accept all changes of 2 listed paths: in no run?");
    person.confirms("");
    person.wait_for("2 paths by run");
    assert_eq!(fs::read_to_string(home.path("e")).unwrap(), "by-hand\n");
    assert!(!home.path("d").exists());
    quit(person);
}

/// What somebody else does shows within seconds, also in the difference that is open.
#[test]
fn the_screen_follows_the_home() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> b");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("+more");
    home.sh("echo early > a; echo yet-more >> b");
    let screen = person.wait_for("+yet-more");
    // The selection stays on its path.
    assert!(
        screen.contains("2 paths by path") && screen.contains(">M /b"),
        "{screen}"
    );
    // Written to a file that is open already: no record says so.
    let mut file = fs::File::options()
        .append(true)
        .open(home.path("b"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"first\n").unwrap();
    person.wait_for("+first");
    std::io::Write::write_all(&mut file, b"second\n").unwrap();
    person.wait_for("+second");
    quit(person);
}

/// A difference that takes long to read is followed as well, less often.
#[test]
fn screen_follows_a_large_file() {
    need_mount!();
    need_tools!("setsid");
    let lines = |every: u32| -> String {
        let word = |n| {
            if n % every == 0 {
                "changed"
            } else {
                "the line"
            }
        };
        (0..6_000).map(|n| format!("{} {n}\n", word(n))).collect()
    };
    let (before, after) = (lines(100_000), lines(30));
    let home = Home::prepared(
        |store| fs::write(store.join("large"), &before).unwrap(),
        &[],
    );
    fs::write(home.path("large"), after).unwrap();
    let file = fs::File::options()
        .write(true)
        .open(home.path("large"))
        .unwrap();
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("+changed 30");
    std::os::unix::fs::FileExt::write_all_at(&file, b"again", 0).unwrap();
    person.wait_for("+agained 0");
    quit(person);
}

/// Names and contents that would act on a terminal are written out.
#[test]
fn hostile_names_and_contents_do_nothing() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    let name = "\u{1b}]0;owned\u{7}\u{1b}[2J\nx";
    fs::write(
        home.path(name),
        "\u{1b}]52;c;b3duZWQ=\u{7}\u{9b}31m\r\u{202e}txt\n",
    )
    .unwrap();
    fs::write(home.path("日本語\u{200b}"), "テスト\tx\n").unwrap();
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("2 paths by path");
    person.wait_for("\\x1b]52;c;b3duZWQ=\\x07\\xc2\\x9b31m\\x0d\\xe2\\x80\\xaetxt");
    person.types("j");
    person.wait_for("+テスト");
    person.types("/owned\r");
    person.wait_for(">A …]0;owned\\x07\\x1b[2J\\x0ax");
    quit_and_check(person);
}

fn quit_and_check(mut person: Terminal) {
    person.types("q");
    assert!(person.end().success());
    person.is_as_before();
    let text = String::from_utf8_lossy(&person.bytes);
    for hostile in ["\u{1b}]", "\u{7}", "\u{9b}", "\u{202e}", "\u{200b}"] {
        assert!(!text.contains(hostile), "{hostile:?}");
    }
}

/// The terminal may change its size at any time, and be too small.
#[test]
fn another_size() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    let mut person = open(home.home(), &[], (24, 110));
    person.wait_for("│ /a");
    person.resize(15, 60);
    let screen = person.wait_for("────");
    assert!(!screen.contains('│'), "{screen}");
    person.resize(5, 20);
    person.wait_for("Too small");
    person.types("j");
    person.resize(24, 120);
    person.wait_for("│ /a");
    quit(person);
}

/// A signal ends it, and the terminal is as it was.
#[test]
fn signals_give_the_terminal_back() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut person = open(home.home(), &[], (24, 80));
        person.wait_for("+more");
        assert!(person.is_alternate());
        person.signal(signal);
        let status = person.end();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        person.is_as_before();
    }
    // Half a key is no reason to be deaf.
    let mut person = open(home.home(), &[], (24, 80));
    person.wait_for("+more");
    person.types("\u{1b}[");
    person.signal(Signal::TERM);
    assert_eq!(person.end().signal(), Some(Signal::TERM.as_raw()));
    person.is_as_before();
}

/// What was typed before anybody has seen the screen decides nothing.
#[test]
fn keys_typed_ahead_decide_nothing() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    let command = [binary(), "review", home.home().to_str().unwrap()];
    let mut person = Terminal::start(24, 110, &command, &[]);
    person.types("q");
    person.wait_for_keys();
    person.wait_for("1 path by path");
    quit(person);
}

/// ^Z gives the terminal to the shell, and `fg` brings the screen back.
#[test]
fn it_is_stopped_and_goes_on() {
    need_mount!();
    need_tools!("setsid", "bash");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    let at = home.home().to_str().unwrap();
    let shell = ["bash", "--norc", "--noprofile", "-i"];
    let mut person = Terminal::start(24, 110, &shell, &[("PS1", "outer> ")]);
    person.wait_for("outer>");
    person.types(&format!("{} review {at}\r", binary()));
    for stop in ["\u{1a}", "kill"] {
        person.wait_for("+more");
        person.wait_for_keys();
        assert!(person.is_alternate());
        match stop {
            "kill" => {
                let shell = person.pid().as_raw_nonzero();
                let children = format!("/proc/{shell}/task/{shell}/children");
                let children = fs::read_to_string(children).unwrap();
                let pid = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
                kill_process(pid, Signal::TSTP).unwrap();
            }
            keys => person.types(keys),
        }
        person.wait_for("Stopped");
        assert!(!person.is_alternate());
        person.types("stty -a | grep -o ' icanon'; echo outer$((4+4))\r");
        let screen = person.wait_for("outer8");
        assert!(screen.contains(" icanon"), "{screen}");
        person.types("fg\r");
    }
    person.wait_for("+more");
    person.types("q");
    person.wait_for("outer>");
    person.types("echo code=$?\r");
    person.wait_for("code=0");
    person.types("exit\r");
    assert!(person.end().success());
}

/// A terminal that is closed ends it.
#[test]
fn a_closed_terminal_ends_it() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    let mut person = open(home.home(), &[], (24, 80));
    person.wait_for("+more");
    let status = person.close();
    // Whichever it meets first: the signal, or that nothing can be read there (exit 7).
    let is_hangup = status.signal() == Some(Signal::HUP.as_raw());
    assert!(is_hangup || status.code() == Some(7), "{status}");
}

/// The review as of an earlier point, and a path that is put back as it was then; in a store that nobody has mounted.
#[test]
fn an_earlier_point_and_what_was_there() {
    need_mount!();
    need_tools!("setsid");
    let mut home = Home::prepared(four_files, &[]);
    run(&home, "echo first >> a");
    let output = home.trumanfs(&[
        "checkpoint",
        "create",
        home.home().to_str().unwrap(),
        "half",
    ]);
    assert!(output.status.success(), "{}", describe(&output));
    run(&home, "echo second >> a; rm b");
    home.umount();
    let store = home.store().to_owned();
    let mut person = open(&store, &["--session", "last"], (24, 110));
    person.wait_for("2 paths by path");
    person.wait_for("+second");
    person.types("phalf\r");
    person.wait_for("1 path by path  as of half");
    let screen = person.wait_for("+first");
    assert!(!screen.contains("+second"), "{screen}");
    person.types("r");
    person.wait_for("R puts a path back as it was then");
    person.types("R");
    person.wait_for("put /a back as it was at half");
    person.confirms("");
    person.wait_for("takes that back");
    assert_eq!(
        fs::read_to_string(store.join("a")).unwrap(),
        numbered(&[]) + "first\n"
    );
    person.confirms("u");
    person.wait_for("put back the content of /a");
    let both = numbered(&[]) + "first\nsecond\n";
    assert_eq!(fs::read_to_string(store.join("a")).unwrap(), both);
    person.types("p\r");
    person.wait_for("2 paths by path");
    person.types("pnowhere\r");
    person.wait_for("neither a session, nor an operation");
    escape(&person);
    person.types("/b\r");
    person.wait_for(">D /b");
    quit(person);
}

/// What is no terminal gets the list.
#[test]
fn without_a_terminal_it_is_a_list() {
    need_mount!();
    need_tools!("setsid");
    let home = Home::prepared(four_files, &[]);
    run(&home, "echo more >> a");
    let at = home.home().to_str().unwrap();
    for (more, env) in [(&["--json"][..], ("X", "")), (&[], ("TERM", "dumb"))] {
        let command = [&[binary(), "review", at], more].concat();
        let mut person = Terminal::start(24, 110, &command, &[env]);
        assert_eq!(person.end().code(), Some(1));
        assert!(person.screen().contains("/a"), "{}", person.screen());
        person.is_as_before();
    }
}
