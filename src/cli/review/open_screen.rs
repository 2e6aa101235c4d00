//! The decision whether a review gets a screen, and the result of that screen.

use std::io::IsTerminal;

use super::super::exit::ExitReason;
use super::super::output::has_colour;
use super::screen::{ReviewSubject, ScreenExit, show};
use crate::client::Client;
use crate::error::Result;
use crate::operator::review::ReviewScope;

/// Returns whether somebody sits at a terminal that can show more than lines.
pub(in crate::cli) fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    !is_dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Reviews on a screen. A signal ends the process as it ends any other, once the terminal is as it was.
///
/// # Errors
/// As [`show`].
pub(super) fn at_screen(
    client: Client,
    scope: ReviewScope,
    target: String,
    all: bool,
) -> Result<ExitReason> {
    match open_screen(client, scope, target, all)? {
        ScreenExit::Quit => Ok(ExitReason::Ok),
        ScreenExit::Signal(signal) => {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            Ok(ExitReason::System)
        }
    }
}

/// Shows the screen of a review until it is left. `target` is as a shell takes it.
///
/// # Errors
/// As [`show`].
pub(in crate::cli) fn open_screen(
    client: Client,
    scope: ReviewScope,
    target: String,
    all: bool,
) -> Result<ScreenExit> {
    let title = format!("review {target}: {}", scope.title());
    let subject = ReviewSubject {
        client,
        target,
        scope,
        all,
    };
    show(subject, title, has_colour(&std::io::stdout()))
}
