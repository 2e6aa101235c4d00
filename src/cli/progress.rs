//! Progress of long work, shown on a terminal and nowhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows, on a terminal only, how far a work of so many bytes is.
pub(super) fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {elapsed}");
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Shows, on a terminal only, that something is being done.
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message(what);
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}
