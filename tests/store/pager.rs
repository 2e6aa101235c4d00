//! The pager of `log`, `diff` and `show`, and the zone of times: on a terminal, and where there is none.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::common::terminal::Terminal;
use crate::common::{Home, binary, need_mount, need_tools, trumanfs};

fn prepared() -> Home {
    let files = |store: &Path| fs::write(store.join("f"), "one\n").unwrap();
    let mut home = Home::prepared(files, &[]);
    for number in 0..40 {
        fs::write(home.home().join("f"), format!("{number}\n")).unwrap();
    }
    home.umount();
    home
}

/// Runs the program at a terminal, and returns its exit code and everything that the terminal was sent.
#[track_caller]
fn at_terminal(words: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let command = [&[binary()], words].concat();
    let mut terminal = Terminal::start(24, 100, &command, env);
    let status = terminal.end();
    let sent = String::from_utf8_lossy(&terminal.bytes).into_owned();
    (status.code(), sent)
}

#[test]
fn pager_shows_what_is_printed_on_a_terminal_only() {
    need_mount!();
    need_tools!("sed", "head");
    let home = prepared();
    let store = home.store().to_str().unwrap();
    let marked = ("TRUMANFS_PAGER", "sed 's/^/PAGED /'");
    for (words, code) in [
        (&["log", store, "--all"][..], 0),
        (&["diff", store], 1),
        (&["diff", store, "--patch"], 1),
        (&["show", store, "3"], 0),
        // A failure is said behind what the pager shows, and ends with its own code.
        (&["log", store, "--session", "nosuch"], 3),
    ] {
        let (ended, sent) = at_terminal(words, &[marked, ("PAGER", "false")]);
        assert_eq!(ended, Some(code), "{words:?}: {sent}");
        assert_eq!(sent.contains("PAGED "), code != 3, "{words:?}: {sent}");
        assert_eq!(sent.contains("no session is called"), code == 3, "{sent}");
    }
    // PAGER counts where there is no other; a setting without a word means none.
    let (_, sent) = at_terminal(&["diff", store], &[("PAGER", "sed s/^/PAGED/")]);
    assert!(sent.contains("PAGED"), "{sent}");
    for (words, env) in [
        (&["diff", store, "--no-pager"][..], &[marked][..]),
        (&["diff", store, "--json"], &[marked]),
        (
            &["diff", store],
            &[("TRUMANFS_PAGER", ""), ("PAGER", "false")],
        ),
        (&["diff", store], &[("TRUMANFS_PAGER", "/no/such/pager")]),
        (&["diff", store], &[marked, ("TERM", "dumb")]),
        (&["status", store], &[marked]),
    ] {
        let (ended, sent) = at_terminal(words, env);
        assert!(!sent.contains("PAGED "), "{words:?}: {sent}");
        assert!(
            sent.contains("/f") || sent.contains("not mounted"),
            "{sent}"
        );
        assert!(matches!(ended, Some(0 | 1)), "{words:?}: {sent}");
    }
    let output = trumanfs(&["diff", store]);
    assert!(output.stdout.starts_with(b"M  /f"));
}

#[test]
fn pager_that_is_left_early_is_no_failure() {
    need_mount!();
    need_tools!("head");
    let home = prepared();
    let store = home.store().to_str().unwrap();
    for pager in ["head -n 1", "true", "sh -c 'exit 3'"] {
        let (ended, sent) = at_terminal(&["log", store, "--all"], &[("TRUMANFS_PAGER", pager)]);
        assert!(matches!(ended, Some(0)), "{pager}: {ended:?} {sent}");
        assert!(!sent.contains("trumanfs:"), "{pager}: {sent}");
        assert!(
            !sent.to_lowercase().contains("broken pipe"),
            "{pager}: {sent}"
        );
    }
}

#[test]
fn pager_is_less_that_ends_if_all_fits() {
    need_mount!();
    need_tools!("less");
    let home = prepared();
    let store = home.store().to_str().unwrap();
    let (ended, sent) = at_terminal(&["diff", store], &[("PAGER", "less")]);
    assert_eq!(ended, Some(1), "{sent}");
    assert!(sent.contains("/f"), "{sent}");
    // More than a screen: less waits, colours are colours, an interrupt ends neither.
    let command = [binary(), "log", store, "--all"];
    let mut terminal = Terminal::start(10, 100, &command, &[("PAGER", "less")]);
    let screen = terminal.wait_for("truncate /f");
    assert!(!screen.contains("ESC"), "{screen}");
    terminal.wait_for(":");
    terminal.signal(Signal::INT);
    terminal.types("G");
    terminal.wait_for("(END)");
    terminal.types("q");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.is_as_before();
}

#[test]
fn times_are_local_on_a_terminal_and_utc_elsewhere() {
    need_mount!();
    let home = prepared();
    let store = home.store().to_str().unwrap();
    // Rules of a zone need no database.
    let zone = ("TZ", "XYZ-05:30");
    let (_, sent) = at_terminal(&["log", store, "--all", "--no-pager"], &[zone]);
    assert!(sent.contains(" +0530"), "{sent}");
    let (_, paged) = at_terminal(&["log", store, "--all"], &[zone, ("PAGER", "sed -n p")]);
    assert_eq!(paged, sent);
    let (_, utc) = at_terminal(&["show", store, "3", "--no-pager"], &[("TZ", "UTC0")]);
    assert!(utc.contains(" UTC") && !utc.contains("+0000"), "{utc}");
    // What is shown can be typed.
    let at = sent.lines().nth(1).unwrap();
    let at = at.split("\x1b[2m").nth(1).unwrap().split("\x1b[0m").next();
    let at = at.unwrap();
    let output = trumanfs(&["log", store, "--all", "--since", at, "--json"]);
    assert!(output.status.success());
    let output = trumanfs(&["log", store, "--all", "--since", "1h"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !text.contains("+0530") && text.contains("truncate /f"),
        "{text}"
    );
    for time in ["today", "5m", "-5m", "yesterday"] {
        let output = trumanfs(&["log", store, "--all", "--since", time, "--until", "now"]);
        assert!(output.status.success(), "{time}");
    }
}
