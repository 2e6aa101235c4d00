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
use super::worker_messages::AuthorLabel;

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
    for (place, (at, (row_of, depth))) in rows.take(usize::from(area.height)).enumerate() {
        let area = row(area, place);
        let is_selected = at == state.selected;
        let marker = if is_selected { ">" } else { " " };
        put(buffer, area, 0, marker, Look::default());
        let indent = u16::try_from(depth.saturating_mul(2)).unwrap_or(u16::MAX);
        let indent = indent.min(area.width / 3) + 1;
        match row_of {
            ListRow::Group(group) => {
                if let Some(group) = state.arrangement.groups.get(*group) {
                    heading(state, group, indent, styles, area, buffer);
                }
            }
            ListRow::Item(item) => {
                line(state, *item, (indent, day), styles, area, buffer);
            }
        }
        if is_selected && state.focus == FocusedPane::List {
            buffer.set_style(area, styles.look_of_selected());
        }
    }
}

/// `+/src/ (120)`, or with `-` if it is unfolded; `*` if all of it is marked.
fn heading(
    state: &ScreenState,
    group: &PathGroup,
    indent: u16,
    styles: ScreenStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let command = group
        .command
        .as_ref()
        .map(|command| format!(" {command}"))
        .unwrap_or_default();
    let sign = if state.folds.is_folded(group) {
        "+"
    } else {
        "-"
    };
    let marked = match state.marked_in(group) {
        0 => String::new(),
        number => format!(" *{number}"),
    };
    let text = format!(
        "{sign} {} ({}){marked}{command}",
        group.title,
        group.range.len()
    );
    put(
        buffer,
        area,
        indent,
        &expand_tabs_safely(text.as_bytes()),
        styles.look_of(TextStyle::Heading),
    );
}

/// `M /src/main.rs            npm 4k2m 10:15`; a flagged path begins with `!`, a marked one with `*`.
fn line(
    state: &ScreenState,
    place: usize,
    (indent, newest): (u16, Option<i64>),
    styles: ScreenStyles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Some(item) = state.item(place) else {
        return;
    };
    if state.marked.contains(&place) {
        put(
            buffer,
            area,
            indent - 1,
            "*",
            styles.look_of(TextStyle::Heading),
        );
    }
    let (letter, style) = letter(item.status);
    let letter = letter.to_string();
    let from = put(buffer, area, indent, &letter, styles.look_of(style)) + 1;
    let about = if area.width >= 2 * AUTHOR_COLUMNS {
        AUTHOR_COLUMNS
    } else {
        0
    };
    let tags = state
        .tags
        .get(&item.seen())
        .map_or(&[][..], Vec::as_slice)
        .join(" ");
    // The path is what the row is known by.
    let room = area.width.saturating_sub(from + about + 1);
    let tag_room = u16::try_from(tags.len() + 1).unwrap_or(u16::MAX);
    let tag_room = if tags.is_empty() || tag_room > room / 2 {
        0
    } else {
        tag_room
    };
    let room = room - tag_room;
    let mark = if item.flag.is_some() { "! " } else { "" };
    let path = expand_tabs_safely(format!("{mark}{}", item.path).as_bytes());
    let area_of_path = Rect {
        width: from + room,
        ..area
    };
    let end = put(
        buffer,
        area_of_path,
        from,
        &end_of(&path, room),
        Look::default(),
    );
    if tag_room > 0 {
        put(
            buffer,
            area,
            end + 1,
            &tags,
            styles.look_of(TextStyle::Removed),
        );
    }
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
