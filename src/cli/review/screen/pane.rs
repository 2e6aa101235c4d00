//! The difference of the selected path, or what is known of the selected group.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style as Look;

use super::super::super::output::{TextStyle, count};
use super::difference::expand_tabs_safely;
use super::groups::{PathGroup, clock};
use super::state::{FocusedPane, ScreenState};
use super::style::ScreenStyles;
use super::text::{after_columns, put, row};
use super::worker_messages::{LineKind, ShownDifference};
use crate::operator::diff::ChangeStatus;

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
        draw_line(&line.text, line.kind, state.sideways, look, area, buffer);
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
    let items = || state.items_of(group);
    let times = || items().map(|item| item.time);
    let clock = |time: Option<i64>| clock(time.unwrap_or(0), "%Y-%m-%d %H:%M:%S");
    let mut text = vec![group.title.clone()];
    text.extend(group.command.clone());
    text.push(status_counts(items().map(|item| item.status)));
    text.push(format!(
        "last changed between {} and {}",
        clock(times().min()),
        clock(times().max())
    ));
    text.push(String::new());
    // What is folded can be looked over.
    let room = usize::from(area.height).saturating_sub(text.len());
    text.extend(items().take(room).map(|item| {
        let flag = item.flag.map(|flag| format!("  {}", flag.words()));
        let flag = flag.unwrap_or_default();
        format!("{} {}{flag}", item.status.letter(), item.path)
    }));
    if let Some(last) = text
        .last_mut()
        .filter(|_| group.range.len() > room && room > 0)
    {
        *last = format!("… and {} more", group.range.len() + 1 - room);
    }
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

/// `12 paths: 3 modified, 9 added`
fn status_counts(statuses: impl Iterator<Item = ChangeStatus>) -> String {
    let mut found: BTreeMap<ChangeStatus, u64> = BTreeMap::new();
    for status in statuses {
        *found.entry(status).or_default() += 1;
    }
    let parts = found
        .iter()
        .map(|(status, number)| format!("{number} {}", status.word()));
    let parts: Vec<String> = parts.collect();
    format!(
        "{}: {}",
        count(found.values().sum(), "path"),
        parts.join(", ")
    )
}

/// Draws a line of a difference; its sign stays where it is when the difference is moved sideways.
fn draw_line(
    text: &str,
    kind: LineKind,
    sideways: usize,
    look: Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let has_sign = matches!(kind, LineKind::Added | LineKind::Removed | LineKind::Same);
    if sideways == 0 || !has_sign {
        put(buffer, area, 1, text, look);
        return;
    }
    let (sign, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    let from = put(buffer, area, 1, sign, look);
    put(buffer, area, from, &after_columns(rest, sideways), look);
}
