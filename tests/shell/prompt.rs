//! The bundled shell at a terminal, provided by script(1): the prompt, completion, continuation lines, Ctrl-C,
//! history, Ctrl-D.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(60);

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
            crate::common::binary(),
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
    let mut child = Command::new(crate::common::binary())
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

/// Gives lines to `trumanfs shell` over a pipe. Returns what it writes and its status.
fn piped(store: &std::path::Path, lines: &str) -> (String, String, Option<i32>) {
    let mut child = Command::new(crate::common::binary())
        .args(["shell", "--root"])
        .arg(store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended before it has read all.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

/// `if false; then`, line, `rm -r docs`, line, `fi`: only the first line was refused, and the second ran.
#[test]
fn nothing_runs_after_a_line_that_is_refused() {
    for script in [
        "if false; then\nrm -r docs\nfi\n",
        "for x in a; do\nrm -r docs\ndone\n",
        "while false; do\nrm -r docs\ndone\n",
        "until true; do\nrm -r docs\ndone\n",
        "case a in\nb)\nrm -r docs\n;;\nesac\n",
        "select x in a; do\nrm -r docs\ndone\n",
        "f() {\nrm -r docs\n}\n",
        "function f {\nrm -r docs\n}\n",
        "[[ a = b ||\nrm -r docs ]]\nrm -r docs\n",
        "((\n1))\nrm -r docs\n",
        "cat $1 <<E\nrm -r docs\nE\n",
        "cat <<E 3>&1\nrm -r docs\nE\n",
        "x=(\nrm -r docs\n)\n",
        "echo ${x:-a\nrm -r docs\n}\n",
        "echo )\nrm -r docs\n",
        "echo | | echo\nrm -r docs\n",
        "sleep 1 &\nrm -r docs\n",
        "echo a \0 b\nrm -r docs\n",
    ] {
        let store = tempfile::tempdir().unwrap();
        fs::create_dir(store.path().join("docs")).unwrap();
        let (out, err, status) = piped(store.path(), &format!("echo before\n{script}"));
        assert_eq!((&out[..], status), ("before\n", Some(2)), "{script}");
        assert_eq!(err.lines().count(), 1, "{script}: {err}");
        assert!(store.path().join("docs").exists(), "{script}");
    }
}

/// What follows a line on standard input is for its commands to read: `cat > f` took nothing, and what it should have taken ran.
#[test]
fn commands_read_what_follows_their_line() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("docs")).unwrap();
    let ran = piped(store.path(), "cat > f\nrm -r docs\n");
    assert_eq!(ran, (String::new(), String::new(), Some(0)));
    assert!(store.path().join("docs").exists());
    assert_eq!(
        fs::read_to_string(store.path().join("f")).unwrap(),
        "rm -r docs\n"
    );
}

#[test]
fn a_line_goes_on_after_a_backslash() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("docs")).unwrap();
    let script = "echo would run: \\\n rm -r docs\necho \\\n";
    let ran = piped(store.path(), script);
    let out = "would run: rm -r docs\n\n".to_owned();
    assert_eq!(ran, (out, String::new(), Some(0)));
    assert!(store.path().join("docs").exists());
}

/// At a terminal a loop is read to its end, however it gets there, and then refused as one.
#[test]
fn what_a_person_pastes_is_refused_whole() {
    let store = tempfile::tempdir().unwrap();
    fs::create_dir(store.path().join("docs")).unwrap();
    let mut terminal = Terminal::open(store.path());
    terminal.expect("~$ ");
    terminal.press("if false; then\rrm -r docs\rfi\r");
    terminal.expect("if: conditions are not supported");
    terminal.expect("~$ ");
    terminal.press("echo on$?\r");
    terminal.expect("on2");
    terminal.expect("~$ ");
    terminal.press("\x1b[200~for x in a; do\nrm -r docs\ndone\x1b[201~\r");
    terminal.expect("for: loops are not supported");
    terminal.expect("~$ ");
    terminal.press("echo would run: \\\r rm -r docs\r");
    terminal.expect("would run: rm -r docs\r\n");
    terminal.expect("~$ ");
    terminal.press("cat $1 <<E\rrm -r docs\rE\r");
    terminal.expect("$1: special parameters but $? are not supported");
    terminal.expect("~$ ");
    assert!(store.path().join("docs").exists());
    terminal.press("exit\r");
    assert_eq!(terminal.end(), Some(2));
}
