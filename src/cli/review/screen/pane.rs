//! The difference of the selected path, or what is known of the selected group.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style as Look;

use super::super::super::output::{TextStyle, count};
use super::difference::expand_tabs_safely;
use super::groups::{PathGroup, clock};
use super::state::{FocusedPane, ScreenState};
use super::style::ScreenStyles;
use super::text::{put, row};
use super::worker_messages::{LineKind, ShownDifference};

/// Returns how many rows are above the lines of the difference.
pub(super) fn head_height(state: &ScreenState, area: Rect) -> u16 {
    let head = state.difference().map_or(0, |shown| shown.head.len());
    // Something of the difference is to be seen.
    u16::try_from(head).unwrap_or(u16::MAX).min(area.height / 2)
}

/// Draws it.
pub(super) fn draw(state: &ScreenState, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    if let Some(group) = state.selected_group() {
        return of_group(state, group, styles, area, buffer);
    }
    let Some(shown) = state.difference() else {
        return;
    };
    let head = head_height(state, area);
    for (place, line) in shown.head.iter().take(usize::from(head)).enumerate() {
        let look = match place {
            0 => styles.look_of(TextStyle::Heading),
            _ => styles.look_of(TextStyle::Faint),
        };
        put(buffer, row(area, place), 1, line, look);
    }
    let below = Rect {
        y: area.y + head,
        height: area.height - head,
        ..area
    };
    lines(state, shown, styles, below, buffer);
}

fn lines(
    state: &ScreenState,
    shown: &ShownDifference,
    styles: ScreenStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let is_in = state.focus == FocusedPane::Difference;
    let line = |number: usize| shown.hunks.get(number).map(|hunk| hunk.line);
    let chosen = line(state.hunk);
    let end = line(state.hunk + 1).unwrap_or(shown.lines.len());
    let seen = shown.lines.iter().enumerate().skip(state.first_line);
    for (place, (at, line)) in seen.take(usize::from(area.height)).enumerate() {
        let area = row(area, place);
        let is_chosen = is_in && chosen.is_some_and(|from| (from..end).contains(&at));
        put(
            buffer,
            area,
            0,
            if is_chosen { "|" } else { " " },
            Look::default(),
        );
        let look = match line.kind {
            LineKind::Hunk => styles.look_of(TextStyle::Changed),
            LineKind::Added => styles.look_of(TextStyle::Added),
            LineKind::Removed => styles.look_of(TextStyle::Removed),
            LineKind::Said => styles.look_of(TextStyle::Faint),
            LineKind::Same => Look::default(),
        };
        put(buffer, area, 1, &line.text, look);
        if is_in && chosen == Some(at) {
            buffer.set_style(area, styles.look_of_selected());
        }
    }
}

fn of_group(
    state: &ScreenState,
    group: &PathGroup,
    styles: ScreenStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let items = || group.items.iter().filter_map(|at| state.item(*at));
    let times = || items().map(|item| item.time);
    let clock = |time: Option<i64>| clock(time.unwrap_or(0), "%Y-%m-%d %H:%M:%S");
    let mut text = vec![group.title.clone()];
    text.extend(group.command.clone());
    text.push(count(group.items.len() as u64, "path"));
    text.push(format!(
        "last changed between {} and {}",
        clock(times().min()),
        clock(times().max())
    ));
    for (place, line) in text.iter().enumerate() {
        let look = match place {
            0 => styles.look_of(TextStyle::Heading),
            _ => Look::default(),
        };
        put(
            buffer,
            row(area, place),
            1,
            &expand_tabs_safely(line.as_bytes()),
            look,
        );
    }
}
