//! The bundled shell at a terminal, which script(1) makes: the prompt, completion, lines that go on, Ctrl-C, history, Ctrl-D.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(20);

struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(root: &std::path::Path) -> Terminal {
        // script(1) runs its command by $SHELL. A dash that stays as its parent would take the Ctrl-C too, end of it, and
        // leave its own status.
        let line = format!(
            "exec {} shell --root {}",
            env!("CARGO_BIN_EXE_trumanfs"),
            root.display()
        );
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--echo",
                "never",
                "--command",
                &line,
                "/dev/null",
            ])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut screen) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                let _ = sender.send(bytes[..read].to_vec());
            }
        });
        Terminal {
            child,
            keys,
            shown,
            seen: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        let mut to = self.keys.as_ref().unwrap();
        to.write_all(keys.as_bytes()).unwrap();
        to.flush().unwrap();
    }

    /// Waits for the end. Returns the status.
    fn end(&mut self) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end; {:?}", self.seen);
    }

    /// Waits until a text is shown, and forgets what was shown up to its end.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = LIMIT.saturating_sub(start.elapsed());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} is not shown, but {:?}", self.seen),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.keys.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_types() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("a directory")).unwrap();
    fs::write(store.path().join("a directory/file.txt"), "in it\n").unwrap();
    let mut terminal = Terminal::open(store.path());
    terminal.expect("~$ ");
    terminal.press("cd a\t\r");
    terminal.expect("~/a directory$ ");
    terminal.press("cat f\t\r");
    terminal.expect("in it");
    terminal.expect("~/a directory$ ");
    // Ctrl-C ends the line that is typed, and the one that runs.
    terminal.press("half a line\x03");
    terminal.expect("~/a directory$ ");
    terminal.press("cat\r");
    terminal.expect("cat");
    std::thread::sleep(Duration::from_millis(300));
    terminal.press("\x03");
    terminal.expect("interrupted");
    terminal.expect("~/a directory$ ");
    // A quote goes on over lines; the key up brings a line back.
    terminal.press("echo 'one\rtwo'\r");
    terminal.expect("one\r\ntwo\r\n");
    terminal.expect("~/a directory$ ");
    terminal.press("echo again$?\r");
    terminal.expect("again0");
    terminal.press("\x1b[A\r");
    terminal.expect("again0");
    terminal.expect("$ ");
    terminal.press("false\r");
    terminal.expect("$ ");
    terminal.press("\x04");
    assert_eq!(terminal.end(), Some(1));
}

#[test]
fn lines_come_from_a_pipe_too() {
    let store = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_trumanfs"))
        .args(["shell", "--root"])
        .arg(store.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = "x=5; mkdir d\ncd d\ncat <<E > f\n$x\nE\ncat f; pwd\nfalse\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let expected = format!("5\n{}/d\n", store.path().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(output.status.code(), Some(1));
}
