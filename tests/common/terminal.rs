//! A pseudo-terminal that a test sits at: it types, and looks at what a terminal would show.

use std::fs::File;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// How long anything may take to be shown.
const LIMIT: Duration = Duration::from_secs(30);

/// The terminal, and what has been started at it.
pub(crate) struct Terminal {
    master: OwnedFd,
    /// Kept open, so that the settings can be looked at when the program has ended.
    slave: OwnedFd,
    child: Child,
    parser: vt100::Parser,
    /// Everything that was written to the terminal.
    pub(crate) bytes: Vec<u8>,
    /// As the settings were before the program began.
    pub(crate) before: Termios,
}

impl Terminal {
    /// Starts a program at a terminal of so many rows and columns, as the leader of its session.
    pub(crate) fn start(rows: u16, columns: u16, command: &[&str], env: &[(&str, &str)]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&master, size(rows, columns)).unwrap();
        let stdio = || Stdio::from(File::from(slave.try_clone().unwrap()));
        let mut setsid = Command::new("setsid");
        // A shell without job control starts what it puts into the background with these ignored, and that is inherited.
        let signals = ["env", "--default-signal=INT,QUIT"];
        setsid.arg("--ctty").args(signals).args(command);
        setsid.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        setsid.envs(env.iter().copied());
        let before = tcgetattr(&slave).unwrap();
        let child = setsid.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = child.spawn().unwrap();
        Terminal {
            master,
            slave,
            child,
            parser: vt100::Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
            before,
        }
    }

    /// Returns the process, which is the leader of its session.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn types(&self, text: &str) {
        let written = rustix::io::write(&self.master, text.as_bytes());
        assert_eq!(written, Ok(text.len()));
    }

    /// Waits until the screen of a review takes keys: from then on it names them.
    #[track_caller]
    pub(crate) fn wait_for_keys(&mut self) {
        self.wait_for("? help");
    }

    /// Presses keys that have something asked, and says yes once that can be answered.
    #[track_caller]
    pub(crate) fn confirms(&mut self, keys: &str) {
        self.types(keys);
        self.wait_for("[y/n]");
        self.types("y");
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.parser
            .screen_mut()
            .set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
    }

    /// Returns what is on the screen: its rows, without spaces at their ends.
    pub(crate) fn screen(&self) -> String {
        let (_, columns) = self.parser.screen().size();
        let rows = self.parser.screen().rows(0, columns.get());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Returns the columns in which a character stands, from the top row that has it.
    pub(crate) fn columns_of(&self, wanted: &str) -> Vec<u16> {
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        let cells =
            (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let is_it = |(row, column): &(u16, u16)| {
            screen
                .cell(*row, *column)
                .is_some_and(|cell| cell.contents() == wanted)
        };
        cells.filter(is_it).map(|(_, column)| column).collect()
    }

    /// Returns whether the other screen of the two that terminals have is shown.
    pub(crate) fn is_alternate(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            let is_open = self.read(end);
            assert!(
                is_open && Instant::now() < end,
                "{what}: not on the screen{}:\n{}",
                if is_open {
                    ""
                } else {
                    ", and the program has ended"
                },
                self.screen()
            );
        }
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until a text has left the screen.
    #[track_caller]
    pub(crate) fn wait_gone(&mut self, text: &str) -> String {
        self.wait(&format!("without {text:?}"), |screen| {
            !screen.contains(text)
        })
    }

    /// Reads what there is, waiting for something until then at most. Returns whether there may be more.
    fn read(&mut self, end: Instant) -> bool {
        // A program that has ended shows no more; the slave that is held open here would keep the other end waiting.
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        let limit = match ended {
            true => Duration::ZERO,
            false => end
                .saturating_duration_since(Instant::now())
                .min(Duration::from_millis(100)),
        };
        let limit = Timespec::try_from(limit).unwrap();
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&limit)) == Ok(0) {
            return !ended;
        }
        let mut bytes = [0; 65536];
        let read = rustix::io::read(&self.master, &mut bytes).unwrap_or(0);
        self.parser.process(&bytes[..read]);
        self.bytes.extend_from_slice(&bytes[..read]);
        read > 0
    }

    /// Waits until the program has ended, and everything that it wrote was read.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        while self.read(end) {
            assert!(
                Instant::now() < end,
                "the program goes on:\n{}",
                self.screen()
            );
        }
        self.child.wait().unwrap()
    }

    /// Closes the terminal, and waits until the program has ended.
    #[track_caller]
    pub(crate) fn close(mut self) -> ExitStatus {
        let (none, _) = std::os::unix::net::UnixStream::pair().unwrap();
        self.master = none.into();
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the program goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the terminal is as it was: its settings, the screen, the cursor.
    #[track_caller]
    pub(crate) fn is_as_before(&self) {
        let now = tcgetattr(self.slave.as_fd()).unwrap();
        let settings = |of: &Termios| format!("{of:?}");
        assert_eq!(settings(&now), settings(&self.before));
        assert!(!self.is_alternate(), "{}", self.screen());
        assert!(!self.parser.screen().hide_cursor());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
