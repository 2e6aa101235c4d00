//! The screen of `trumanfs review`: the list of changed paths with the difference beside it, and keys that decide what
//! stays.
//!
//! `state` is what is shown, and pure; `keys` says what a key does; `draw` makes a frame of the state; `work` reads the
//! store and carries out what was decided, on a thread of its own. This file has the loop that connects them.

mod asking;
mod deeds;
mod difference;
mod draw;
mod groups;
mod guard;
mod hearing;
mod keys;
mod list;
mod listing;
mod moving;
mod orders;
mod pane;
mod state;
mod style;
mod terminal;
mod text;
mod typed;
mod work;

use std::time::Instant;

use rustix::io::Errno;
use signal_hook::consts::SIGHUP;

use crate::error::Result;
use guard::KeyGuard;
use state::{Busy, Effect, State};
use style::Styles;
use terminal::{Event, Terminal, ask_to_stop};
use work::Work;

pub(super) use work::Subject;

/// How the screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Left {
    /// By its key.
    Quit,
    /// By a signal.
    Signal(i32),
}

/// Shows the screen until it is left. The terminal is given back as it was, whatever happens.
///
/// # Errors
/// What the terminal says; the work has ended.
pub(super) fn show(subject: Subject, title: String, colour: bool) -> Result<Left> {
    let work = Work::start(subject)?;
    let mut terminal = Terminal::take(Styles { colour })?;
    let mut state = State::new(title);
    let mut guard = KeyGuard::default();
    loop {
        state.is_answerable = guard.is_open(state.question(), Instant::now());
        match terminal.draw(&mut state) {
            // The terminal is gone.
            Err(error) if error.errno() == Errno::IO => return Ok(Left::Signal(SIGHUP)),
            drawn => drawn?,
        }
        guard.has_drawn(state.question(), Instant::now());
        for event in terminal.wait(work.woken(), guard.left(Instant::now()))? {
            let effects = match event {
                Event::Key(_) if !guard.admits(state.question(), Instant::now()) => Vec::new(),
                Event::Key(key) => state.key(key),
                Event::News => {
                    let news = work.news()?.into_iter();
                    news.flat_map(|news| state.news(news)).collect()
                }
                // Each frame asks for the size.
                Event::Resized => Vec::new(),
                Event::Back => {
                    terminal.again()?;
                    Vec::new()
                }
                Event::Stop => {
                    terminal.stop()?;
                    Vec::new()
                }
                Event::End(signal) => {
                    drop(terminal);
                    if state.busy == Some(Busy::Changing) {
                        work.finish();
                    }
                    return Ok(Left::Signal(signal));
                }
            };
            for effect in effects {
                match effect {
                    Effect::Order(order) => work.order(order),
                    Effect::Redraw => terminal.clear()?,
                    Effect::Suspend => ask_to_stop(),
                    Effect::Quit => return Ok(Left::Quit),
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
