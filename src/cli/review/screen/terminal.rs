//! The terminal while the screen is on it: raw, with the other screen of the two that terminals have, and given back on
//! every way out.
//!
//! What can end the screen without its knowing, a panic of any thread, gives the terminal back through a hook. Signals
//! are read like keys.

use std::io::{Stdout, Write, stdout};
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parking_lot::Mutex;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use super::draw::{draw, pane_heights};
use super::key_parser::KeyParser;
use super::keys::Key;
use super::state::ScreenState;
use super::style::ScreenStyles;
use crate::error::{Error, Result};

/// The terminal's former settings; absent while nothing of it is changed.
static FORMER_SETTINGS: Mutex<Option<Termios>> = Mutex::new(None);

/// An event from the terminal or from the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenEvent {
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Something else had it, while this process was stopped.
    Back,
    /// The process is to stop, as by ^Z.
    Stop,
    /// The process is to end.
    End(i32),
    /// There may be news of the work.
    WorkerEvents,
}

/// The terminal.
pub(super) struct ScreenTerminal {
    /// Never dropped: it would complain on standard error of a terminal that is gone, which ends in a panic there.
    screen: ManuallyDrop<ratatui::Terminal<CrosstermBackend<Stdout>>>,
    signals: SignalDelivery<UnixStream, SignalOnly>,
    typed: KeyParser,
    /// The signal to end by that came while another program had the terminal.
    ending: Option<i32>,
    styles: ScreenStyles,
    level: log::LevelFilter,
}

impl ScreenTerminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn take(styles: ScreenStyles) -> Result<ScreenTerminal> {
        let (read, write) = UnixStream::pair().map_err(|error| Error::io("socketpair", &error))?;
        let signals = [SIGWINCH, SIGTSTP, SIGCONT, SIGTERM, SIGINT, SIGHUP];
        let signals = SignalDelivery::with_pipe(read, write, SignalOnly, signals)
            .map_err(|error| Error::io("sigaction", &error))?;
        let backend = CrosstermBackend::new(stdout());
        let screen = ratatui::Terminal::new(backend).map_err(|error| Error::io("ioctl", &error))?;
        let level = log::max_level();
        // What is logged would stand in the middle of the screen.
        log::set_max_level(log::LevelFilter::Off);
        let mut terminal = ScreenTerminal {
            screen: ManuallyDrop::new(screen),
            signals,
            typed: KeyParser::default(),
            ending: None,
            styles,
            level,
        };
        restore_after_panics();
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> Result<()> {
        let input = std::io::stdin();
        let now = tcgetattr(&input).map_err(Error::os("tcgetattr"))?;
        let mut raw = now.clone();
        raw.make_raw();
        FORMER_SETTINGS.lock().get_or_insert(now);
        tcsetattr(&input, OptionalActions::Now, &raw).map_err(Error::os("tcsetattr"))?;
        // What was typed before was not meant for this screen.
        tcflush(&input, QueueSelector::IFlush).map_err(Error::os("tcflush"))?;
        let mut out = stdout();
        queue!(out, EnterAlternateScreen, Hide)
            .and_then(|()| out.flush())
            .map_err(|error| Error::io("write", &error))?;
        self.clear()
    }

    /// Draws the state.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, state: &mut ScreenState) -> Result<()> {
        let styles = self.styles;
        let drawn = self.screen.draw(|frame| {
            state.fit(pane_heights(state, frame.area()));
            if let Some(cursor) = draw(state, styles, frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        });
        drawn.map(drop).map_err(|error| Error::io("write", &error))
    }

    /// Forgets what is on the terminal, so that all of it is drawn anew.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn clear(&mut self) -> Result<()> {
        // ratatui's own `clear` asks the terminal where the cursor is, and would take what is typed for the answer.
        let cleared = self.screen.size().and_then(|size| {
            let area = Rect::new(0, 0, size.width, size.height);
            self.screen.resize(area)
        });
        cleared.map_err(|error| Error::io("write", &error))
    }

    /// Waits until there is something, of the terminal, of a signal, or readable behind `woken`, or this time is over.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn wait(
        &mut self,
        woken: impl AsFd,
        most: Option<Duration>,
    ) -> Result<Vec<ScreenEvent>> {
        if let Some(signal) = self.ending.take() {
            return Ok(vec![ScreenEvent::End(signal)]);
        }
        let input = std::io::stdin();
        let rest = self.typed.waits_for();
        let limit = rest.into_iter().chain(most).min();
        let is_rest = rest.is_some() && limit == rest;
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [
            PollFd::new(self.signals.get_read(), PollFlags::IN),
            PollFd::new(&input, PollFlags::IN),
            PollFd::new(&woken, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, limit.as_ref()) {
            Ok(0) if !is_rest => return Ok(Vec::new()),
            Ok(0) => return Ok(self.typed.end().into_iter().map(ScreenEvent::Key).collect()),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(Error::os("poll")(errno)),
        }
        let [_, typed, news] = fds.map(|fd| fd.revents());
        let mut events: Vec<ScreenEvent> = self.signals.pending().filter_map(of_signal).collect();
        if typed.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            match self.read_keys() {
                // The terminal is gone: what SIGHUP says, where it comes.
                Err(Errno::IO) => events.push(ScreenEvent::End(SIGHUP)),
                Ok(keys) => events.extend(keys.into_iter().map(ScreenEvent::Key)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(Error::os("read")(errno)),
            }
        }
        if !news.is_empty() {
            events.push(ScreenEvent::WorkerEvents);
        }
        Ok(events)
    }

    /// Reads what was typed; `EIO` if the terminal is gone.
    fn read_keys(&mut self) -> std::result::Result<Vec<Key>, Errno> {
        let mut bytes = [0; 1024];
        match rustix::io::read(std::io::stdin(), &mut bytes)? {
            0 => Err(Errno::IO),
            read => Ok(self.typed.take(bytes.get(..read).unwrap_or_default())),
        }
    }

    /// Drops what was typed and is not read yet. The rest of a terminal's answer may come after this, so it is parsed.
    pub(super) fn drop_typed(&mut self) {
        let input = std::io::stdin();
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        // Where the terminal is gone, the next wait says so.
        while matches!(
            rustix::event::poll(&mut fds, Some(&Timespec::default())),
            Ok(1)
        ) && self.read_keys().is_ok()
        {}
    }

    /// Stops this process as ^Z stops a program, until somebody has it go on. Where nobody could, nothing happens.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn stop(&mut self) -> Result<()> {
        if !has_shell() {
            return Ok(());
        }
        give_back();
        // SIGTSTP has a handler here, so it stops nothing.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
        self.enter()
    }

    /// Gives the terminal to another program for as long as `work` takes. What signals asked for meanwhile was meant for
    /// that program, but for those that end this one.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn lend<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        give_back();
        let before = tcgetattr(std::io::stdin()).map_err(Error::os("tcgetattr"))?;
        let done = work();
        // It may have died with settings of its own.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        for signal in self.signals.pending() {
            if matches!(signal, SIGTERM | SIGHUP) {
                self.ending = Some(signal);
            }
        }
        self.enter()?;
        Ok(done)
    }

    /// Makes the terminal the screen's once more, after something else had it.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) fn retake(&mut self) -> Result<()> {
        self.enter()
    }
}

impl Drop for ScreenTerminal {
    fn drop(&mut self) {
        give_back();
        log::set_max_level(self.level);
    }
}

/// Stops this process, because an editor that has the terminal was stopped.
pub(super) fn stop_with_editor() {
    if has_shell() {
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
    }
}

/// Has whoever is in the foreground with this process stop, too: a script that started it.
pub(super) fn ask_to_stop() {
    let _ = rustix::process::kill_current_process_group(Signal::TSTP);
}

fn of_signal(signal: i32) -> Option<ScreenEvent> {
    match signal {
        SIGWINCH => Some(ScreenEvent::Resized),
        SIGCONT => Some(ScreenEvent::Back),
        SIGTSTP => Some(ScreenEvent::Stop),
        signal => Some(ScreenEvent::End(signal)),
    }
}

/// Returns whether a shell with job control could have this process go on: one that is in another group of its session.
fn has_shell() -> bool {
    let session = rustix::process::getsid(None);
    let leader = session.and_then(|session| rustix::process::getpgid(Some(session)));
    leader.is_ok_and(|leader: Pid| leader != rustix::process::getpgrp())
}

/// Gives the terminal back as it was.
fn give_back() {
    let Some(before) = FORMER_SETTINGS.lock().take() else {
        return;
    };
    let mut out = stdout();
    let _ = queue!(out, Show, LeaveAlternateScreen).and_then(|()| out.flush());
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
}

/// Has a panic give the terminal back before it is said.
fn restore_after_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}
