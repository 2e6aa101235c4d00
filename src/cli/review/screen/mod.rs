//! The screen of `trumanfs review`: the list of changed paths with the difference beside it, and keys that decide what
//! stays.
//!
//! `state` is what is shown, and pure; `keys` says what a key does; `draw` makes a frame of the state; `worker` reads
//! the store and carries out what was decided, on a thread of its own. This file has the loop that connects them.

mod difference;
mod draw;
mod editor;
mod events;
mod groups;
mod key_guard;
mod key_parser;
mod keys;
mod list;
mod listing;
mod navigation;
mod pane;
mod prompts;
mod reviewed_store;
mod row_tags;
mod state;
mod style;
mod terminal;
mod text;
mod worker;
mod worker_messages;

use std::time::Instant;

use rustix::io::Errno;
use signal_hook::consts::SIGHUP;

use crate::error::Result;
use key_guard::KeyGuard;
use state::{ScreenEffect, ScreenState, WorkerActivity};
use style::ScreenStyles;
use terminal::{ScreenEvent, ScreenTerminal, ask_to_stop};
use worker::ReviewWorker;

pub(super) use worker::ReviewSubject;

/// The way in which the screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum ScreenExit {
    /// By its key.
    Quit,
    /// By a signal.
    Signal(i32),
}

/// Shows the screen until it is left. The terminal is given back as it was, whatever happens.
///
/// # Errors
/// What the terminal says; the work has ended.
pub(super) fn show(subject: ReviewSubject, title: String, colour: bool) -> Result<ScreenExit> {
    let work = ReviewWorker::start(subject)?;
    let mut terminal = ScreenTerminal::take(ScreenStyles { colour })?;
    let mut state = ScreenState::new(title);
    let mut guard = KeyGuard::new(Instant::now());
    loop {
        let is_answerable = guard.is_open(state.question(), Instant::now());
        if is_answerable && !state.is_answerable {
            // Nobody had seen what it would answer.
            terminal.drop_typed();
        }
        state.is_answerable = is_answerable;
        match terminal.draw(&mut state) {
            // The terminal is gone.
            Err(error) if error.errno() == Errno::IO => return Ok(ScreenExit::Signal(SIGHUP)),
            drawn => drawn?,
        }
        guard.note_drawn(state.question(), Instant::now());
        if let Some(request) = state.request_tags() {
            work.send(request);
        }
        let left = guard.time_left(state.is_answerable, Instant::now());
        for event in terminal.wait(work.wake_fd(), left)? {
            let effects = match event {
                ScreenEvent::Key(_) if !guard.admits(state.question(), Instant::now()) => {
                    Vec::new()
                }
                ScreenEvent::Key(key) => state.handle_key(key),
                ScreenEvent::WorkerEvents => {
                    let news = work.take_events()?.into_iter();
                    news.flat_map(|news| state.handle_event(news)).collect()
                }
                // Each frame asks for the size.
                ScreenEvent::Resized => Vec::new(),
                ScreenEvent::Back => {
                    terminal.retake()?;
                    Vec::new()
                }
                ScreenEvent::Stop => {
                    terminal.stop()?;
                    Vec::new()
                }
                ScreenEvent::End(signal) => {
                    drop(terminal);
                    if state.busy == Some(WorkerActivity::Changing) {
                        work.finish();
                    }
                    return Ok(ScreenExit::Signal(signal));
                }
            };
            for effect in effects {
                match effect {
                    ScreenEffect::Request(order) => work.send(order),
                    ScreenEffect::Redraw => terminal.clear()?,
                    ScreenEffect::Suspend => ask_to_stop(),
                    ScreenEffect::Edit(text) => {
                        let edited = terminal.lend(|| editor::edit(&text))?;
                        if let Some(order) = state.note_edited(edited) {
                            work.send(order);
                        }
                    }
                    ScreenEffect::Quit => return Ok(ScreenExit::Quit),
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests;
