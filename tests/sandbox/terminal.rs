//! A terminal of the sandbox's own: what a program sees of it, and what its launcher hears.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{Winsize, tcsetwinsize};
use trumanfs::exec::program::sandbox::{KillCondition, ProgramEnd, ProgramOutcome, launch};

use crate::room::{LIMIT, Room, launcher};

/// What is done at a terminal while a program runs.
struct Typist {
    terminal: OwnedFd,
    shown: String,
    end: Instant,
}

impl Typist {
    /// Waits until something new is shown that has this in it.
    fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(self.read(), "{text:?} is not in {:?}", self.shown);
        }
        let at = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..at);
    }

    /// Reads what is shown; returns whether there was anything.
    fn read(&mut self) -> bool {
        let left = self.end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap();
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        assert_ne!(
            rustix::event::poll(&mut fds, Some(&left)),
            Ok(0),
            "{:?}",
            self.shown
        );
        let mut bytes = [0; 4096];
        match rustix::io::read(&self.terminal, &mut bytes) {
            Ok(some) if some > 0 => {
                self.shown
                    .push_str(&String::from_utf8_lossy(&bytes[..some]));
                true
            }
            // EIO: nobody has the other end any more.
            _ => false,
        }
    }

    fn type_in(&self, text: &str) {
        assert_eq!(
            rustix::io::write(&self.terminal, text.as_bytes()),
            Ok(text.len())
        );
    }
}

/// Runs a script at a terminal of 30 rows and 100 columns, and something beside it; returns its end and how often it was
/// stopped.
fn at_a_terminal(script: &str, beside: impl FnOnce(&mut Typist) + Send) -> (ProgramOutcome, usize) {
    let room = Room::new();
    let mut plan = room.plan(&["bash", "--norc", "-c", script]);
    plan.terminal = Some((30, 100));
    let mut running = launch(plan, &launcher()).unwrap_or_else(|error| panic!("{error}"));
    let end = Instant::now() + LIMIT;
    let mut typist = Typist {
        terminal: running.take_terminal().unwrap(),
        shown: String::new(),
        end,
    };
    let (tell, stops) = mpsc::channel();
    let until = KillCondition {
        deadline: Some(end),
        cancel: None,
    };
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || {
            beside(&mut typist);
            while typist.read() {}
        });
        running.wait_suspending(until, &mut || tell.send(()).unwrap())
    });
    drop(tell);
    (ended, stops.iter().count())
}

#[test]
fn it_has_a_name_and_a_size_that_changes() {
    let script =
        "tty; stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done";
    let (ended, stops) = at_a_terminal(script, |typist| {
        typist.wait_for("/dev/pts/0");
        typist.wait_for("30 100");
        typist.wait_for("ready");
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&typist.terminal, size).unwrap();
        typist.wait_for("40 120");
    });
    assert_eq!((ended.end, stops), (ProgramEnd::Exited(4), 0));
}

#[test]
fn ctrl_c_reaches_what_is_in_the_foreground() {
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let (ended, _) = at_a_terminal(script, |typist| {
        typist.wait_for("ready");
        typist.type_in("\u{3}");
        typist.wait_for("caught");
    });
    assert_eq!(ended.end, ProgramEnd::Exited(5));
}

#[test]
fn ctrl_z_stops_the_program_and_its_launcher_has_it_go_on() {
    let script = "trap 'echo again; exit 6' CONT; echo ready; while :; do sleep 0.05; done";
    let (ended, stops) = at_a_terminal(script, |typist| {
        typist.wait_for("ready");
        typist.type_in("\u{1a}");
        typist.wait_for("again");
    });
    assert_eq!((ended.end, stops), (ProgramEnd::Exited(6), 1));
}

#[test]
fn a_shell_in_it_has_job_control() {
    let script = "PS1='prompt> ' exec bash --norc -i";
    let (ended, stops) = at_a_terminal(script, |typist| {
        typist.wait_for("prompt> ");
        typist.type_in("sleep 1000\n");
        std::thread::sleep(Duration::from_millis(300));
        typist.type_in("\u{1a}");
        typist.wait_for("Stopped");
        typist.type_in("jobs; kill %1; fg; exit 7\n");
        typist.wait_for("sleep 1000");
    });
    assert_eq!((ended.end, stops), (ProgramEnd::Exited(7), 0));
}

#[test]
fn what_is_printed_last_is_not_lost() {
    let (ended, _) = at_a_terminal("seq 1 20000; echo the end", |typist| {
        typist.wait_for("20000");
        typist.wait_for("the end");
    });
    assert_eq!(ended.end, ProgramEnd::Exited(0));
}
