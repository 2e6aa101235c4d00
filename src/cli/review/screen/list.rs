//! The list of changed paths, each with who changed it and when.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style as Look;
use ratatui::text::Span;

use super::super::super::inspect::letter;
use super::super::super::output::TextStyle;
use super::difference::expand_tabs_safely;
use super::groups::{ListRow, PathGroup, clock};
use super::state::{FocusedPane, ScreenState};
use super::style::ScreenStyles;
use super::text::{beginning_of, end_of, put, row};
use super::worker_messages::{AuthorLabel, ListedPath};

/// Columns for who changed a path and when.
const AUTHOR_COLUMNS: u16 = 20;

/// Draws the list.
pub(super) fn draw(state: &ScreenState, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    if state.listing.is_some() && state.rows.is_empty() {
        put(
            buffer,
            area,
            1,
            "Nothing is left to be reviewed.",
            Look::default(),
        );
        return;
    }
    let day = state
        .listing
        .as_ref()
        .and_then(|listing| listing.items.iter().map(|item| item.time).max());
    let rows = state.rows.iter().enumerate().skip(state.top);
    for (place, (at, row_of)) in rows.take(usize::from(area.height)).enumerate() {
        let area = row(area, place);
        let is_selected = at == state.selected;
        let marker = if is_selected { ">" } else { " " };
        put(buffer, area, 0, marker, Look::default());
        match row_of {
            ListRow::Group(group) => {
                if let Some(group) = state.groups.get(*group) {
                    heading(group, styles, area, buffer);
                }
            }
            ListRow::Item(item) => {
                if let Some(item) = state.item(*item) {
                    let indent = if state.groups.is_empty() { 1 } else { 3 };
                    line(state, item, (indent, day), styles, area, buffer);
                }
            }
        }
        if is_selected && state.focus == FocusedPane::List {
            buffer.set_style(area, styles.look_of_selected());
        }
    }
}

fn heading(group: &PathGroup, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    let command = group
        .command
        .as_ref()
        .map(|command| format!(" {command}"))
        .unwrap_or_default();
    let text = format!("{} ({}){command}", group.title, group.items.len());
    put(
        buffer,
        area,
        1,
        &expand_tabs_safely(text.as_bytes()),
        styles.look_of(TextStyle::Heading),
    );
}

/// `M /src/main.rs            npm 4k2m 10:15`; a flagged path begins with `!`.
fn line(
    state: &ScreenState,
    item: &ListedPath,
    (indent, newest): (u16, Option<i64>),
    styles: ScreenStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let (letter, style) = letter(item.status);
    let letter = letter.to_string();
    let from = put(buffer, area, indent, &letter, styles.look_of(style)) + 1;
    let about = if area.width >= 2 * AUTHOR_COLUMNS {
        AUTHOR_COLUMNS
    } else {
        0
    };
    let room = area.width.saturating_sub(from + about + 1);
    let mark = if item.flag.is_some() { "! " } else { "" };
    let path = expand_tabs_safely(format!("{mark}{}", item.path).as_bytes());
    put(
        buffer,
        Rect {
            width: from + room,
            ..area
        },
        from,
        &end_of(&path, room),
        Look::default(),
    );
    if about > 0 {
        let who = state
            .listing
            .as_ref()
            .and_then(|listing| listing.who.get(item.who));
        let at = area.width - about;
        put(
            buffer,
            area,
            at,
            &about_item(who, item.time, newest),
            styles.look_of(TextStyle::Faint),
        );
    }
}

/// The author and time of a path's change, in [`ABOUT`] columns.
fn about_item(who: Option<&AuthorLabel>, time: i64, newest: Option<i64>) -> String {
    let nobody = AuthorLabel::default();
    let who = who.unwrap_or(&nobody);
    let run = who.run.map(|run| run.to_string()).unwrap_or_default();
    let run: String = run.chars().take(4).collect();
    let day = |time: i64| clock(time, "%Y-%m-%d");
    let when = if newest.is_some_and(|newest| day(newest) == day(time)) {
        clock(time, "%H:%M")
    } else {
        clock(time, "%m-%d")
    };
    let program = beginning_of(&expand_tabs_safely(who.program.as_bytes()), 8);
    let pad = 8usize.saturating_sub(Span::raw(program.as_str()).width());
    format!("{program}{:pad$} {run:4} {when}", "")
}
