//! From the state to a frame: the header, the list, the footer, and what lies above them.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style as Look;
use ratatui::text::Span;

use super::super::super::output::{TextStyle, count};
use super::difference::expand_tabs_safely;
use super::keys::{KEY_BINDINGS, ROW_SIGNS};
use super::state::{OpenPrompt, PaneHeights, ScreenState, TextPurpose, WorkerActivity};
use super::style::ScreenStyles;
use super::text::{blank, end_of, put, row, wrapped};
use super::{list, pane};

/// From so many columns on, the list and the difference are beside each other.
const MIN_WIDE_COLUMNS: u16 = 100;
/// The smallest screen that shows anything.
const MIN_SCREEN_SIZE: (u16, u16) = (40, 10);
/// The columns of the keys in the help.
const KEY_COLUMNS: u16 = 12;
const KEY_WIDTH: usize = 11;
/// The most rows that a message may take.
const MAX_MESSAGE_ROWS: u16 = 4;
/// The areas of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScreenLayout {
    header: Rect,
    list: Rect,
    /// Between the list and the difference.
    line: Rect,
    pub(super) pane: Rect,
    message: Rect,
    footer: Rect,
}

/// Divides a screen; `None` where it is too small.
pub(super) fn layout(area: Rect) -> Option<ScreenLayout> {
    if area.width < MIN_SCREEN_SIZE.0 || area.height < MIN_SCREEN_SIZE.1 {
        return None;
    }
    let row = |y| Rect::new(area.x, area.y + y, area.width, 1);
    let body = Rect::new(area.x, area.y + 1, area.width, area.height - 3);
    let (list, line, pane) = if area.width >= MIN_WIDE_COLUMNS {
        let left = area.width * 45 / 100;
        let right = body.width - left - 1;
        (
            Rect {
                width: left,
                ..body
            },
            Rect {
                x: body.x + left,
                width: 1,
                ..body
            },
            Rect {
                x: body.x + left + 1,
                width: right,
                ..body
            },
        )
    } else {
        let top = body.height * 2 / 5;
        let bottom = body.height - top - 1;
        (
            Rect {
                height: top,
                ..body
            },
            Rect {
                y: body.y + top,
                height: 1,
                ..body
            },
            Rect {
                y: body.y + top + 1,
                height: bottom,
                ..body
            },
        )
    };
    Some(ScreenLayout {
        header: row(0),
        list,
        line,
        pane,
        message: row(area.height - 2),
        footer: row(area.height - 1),
    })
}

/// Returns the rows that there are for the list and for lines of the difference.
pub(super) fn pane_heights(state: &ScreenState, area: Rect) -> PaneHeights {
    let Some(layout) = layout(area) else {
        return PaneHeights::default();
    };
    let head = pane::head_height(state, layout.pane);
    PaneHeights {
        list: usize::from(layout.list.height),
        lines: usize::from(layout.pane.height.saturating_sub(head)),
    }
}

/// Draws the state. Returns where the cursor is to be, if it is to be seen.
pub(super) fn draw(
    state: &ScreenState,
    styles: ScreenStyles,
    buffer: &mut Buffer,
) -> Option<Position> {
    let area = buffer.area;
    let Some(layout) = layout(area) else {
        let (columns, rows) = MIN_SCREEN_SIZE;
        let what = format!("Too small: {columns}x{rows} at least. q quits.");
        put(buffer, area, 0, &what, Look::default());
        return None;
    };
    draw_header(state, styles, layout.header, buffer);
    list::draw(state, styles, layout.list, buffer);
    let between = if layout.line.width == 1 { "│" } else { "─" };
    for at in layout.line.positions() {
        buffer.set_string(at.x, at.y, between, styles.look_of(TextStyle::Faint));
    }
    pane::draw(state, styles, layout.pane, buffer);
    draw_footer(state, styles, layout.footer, buffer);
    let cursor = draw_message(state, layout.message, buffer);
    draw_overlay(state, styles, area, buffer);
    cursor
}

fn draw_header(state: &ScreenState, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    let mut text = String::new();
    if state.listing.is_some() {
        let number = count(state.count() as u64, "path");
        text.push_str(&format!("  {number} by {}", state.by.name()));
    }
    if let Some(at) = state.shown_point() {
        text.push_str(&format!("  as of {at}"));
    }
    match (state.busy, &state.listing) {
        (Some(WorkerActivity::Changing), _) => text.push_str("  [working…]"),
        (Some(WorkerActivity::Reading | WorkerActivity::Opening), _) | (None, None) => {
            text.push_str("  [reading…]")
        }
        (None, Some(_)) => {}
    }
    // Of a long path the end is what it is known by, and the rest of the line has to be seen.
    let rest = u16::try_from(Span::raw(text.as_str()).width()).unwrap_or(u16::MAX);
    let title = end_of(
        &state.title,
        area.width.saturating_sub(rest.saturating_add(1)),
    );
    let text = format!(" {title}{text}");
    put(buffer, area, 0, &text, styles.look_of(TextStyle::Heading));
}

/// The last line but one: what is asked, typed or said. Returns where the cursor is.
fn draw_message(state: &ScreenState, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (text, is_typed) = match &state.asked {
        OpenPrompt::Sure { question, .. } if state.is_answerable => {
            (format!("{question} [y/n] "), true)
        }
        OpenPrompt::Sure { question, .. } => (question.clone(), true),
        OpenPrompt::Text { of, text } => {
            let prompt = match of {
                TextPurpose::Search => "search: ",
                TextPurpose::Point => {
                    "point (a checkpoint, SESSION:NUMBER, a time, -30m; nothing: now): "
                }
            };
            (format!("{prompt}{text}"), true)
        }
        _ => (state.message.clone(), false),
    };
    let text = expand_tabs_safely(text.as_bytes());
    let room = area.width.saturating_sub(2);
    if is_typed {
        // Its end is where one types.
        let end = put(buffer, area, 1, &end_of(&text, room), Look::default());
        return Some(Position::new(area.x + end.min(area.width - 1), area.y));
    }
    // What was done is said whole: it has the command that takes it back.
    let lines = wrapped(&text, usize::from(room).max(1));
    let rows = u16::try_from(lines.len())
        .unwrap_or(MAX_MESSAGE_ROWS)
        .min(MAX_MESSAGE_ROWS);
    for (place, line) in (0..rows).zip(lines) {
        let area = Rect {
            y: area.y + 1 + place - rows,
            ..area
        };
        blank(area, buffer);
        put(buffer, area, 1, &line, Look::default());
    }
    None
}

/// The last line: keys, once they count.
fn draw_footer(state: &ScreenState, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    if !state.is_answerable {
        return;
    }
    if let OpenPrompt::Sure { .. } = state.asked {
        put(
            buffer,
            area,
            1,
            "y yes  n no",
            styles.look_of(TextStyle::Faint),
        );
        return;
    }
    let mut from = 1;
    for binding in KEY_BINDINGS
        .iter()
        .filter(|binding| !binding.brief.is_empty())
    {
        let text = format!("{} {}", binding.named, binding.brief);
        let width = u16::try_from(Span::raw(text.as_str()).width()).unwrap_or(u16::MAX);
        if from + width > area.width {
            break;
        }
        from = put(buffer, area, from, &text, styles.look_of(TextStyle::Faint)) + 2;
    }
}

/// Returns the lines of the help: the keys, what the letters of a row mean, and its tags.
fn help_lines(width: u16) -> Vec<String> {
    let room = usize::from(width.saturating_sub(4 + KEY_COLUMNS)).max(1);
    let rows = KEY_BINDINGS
        .iter()
        .map(|binding| (binding.named, binding.does))
        .chain(ROW_SIGNS);
    let lines = rows.flat_map(|(named, does)| {
        let lines = wrapped(does, room).into_iter().enumerate();
        lines.map(move |(at, line)| {
            let named = if at == 0 { named } else { "" };
            format!("{named:KEY_WIDTH$} {line}")
        })
    });
    lines.collect()
}

/// The overlay above everything: the help, or a text to be read.
fn draw_overlay(state: &ScreenState, styles: ScreenStyles, area: Rect, buffer: &mut Buffer) {
    let (title, lines, top): (_, Vec<String>, _) = match &state.asked {
        OpenPrompt::Help { top } => ("keys", help_lines(area.width), *top),
        OpenPrompt::Read { title, lines, top } => {
            let width = usize::from(area.width.saturating_sub(4)).max(1);
            let lines = lines
                .iter()
                .flat_map(|line| wrapped(&expand_tabs_safely(line.as_bytes()), width));
            (*title, lines.collect(), *top)
        }
        _ => return,
    };
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height - 2);
    let over = Rect::new(area.x, area.y + 1, area.width, height);
    blank(over, buffer);
    let rule = format!(
        "── {title} ── j k scroll, any other key closes {}",
        "─".repeat(usize::from(area.width))
    );
    put(
        buffer,
        row(over, 0),
        0,
        &rule,
        styles.look_of(TextStyle::Heading),
    );
    let inside = usize::from(height.saturating_sub(2));
    for (place, line) in lines.iter().skip(top).take(inside).enumerate() {
        put(buffer, row(over, place + 1), 2, line, Look::default());
    }
    let end = "─".repeat(usize::from(area.width));
    put(
        buffer,
        row(over, usize::from(height) - 1),
        0,
        &end,
        styles.look_of(TextStyle::Faint),
    );
}
