//! Writing lines that may be cut into a frame: by their width, as a terminal shows them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style as Look;
use ratatui::text::Span;

/// Writes a line that may be cut, so many columns from the left. Returns the columns that it has taken.
pub(super) fn put(buffer: &mut Buffer, area: Rect, from: u16, text: &str, look: Look) -> u16 {
    let left = usize::from(area.width.saturating_sub(from));
    if left == 0 || area.height == 0 {
        return from;
    }
    let (x, _) = buffer.set_stringn(area.x + from, area.y, text, left, look);
    x.saturating_sub(area.x)
}

/// Returns row `number` of an area; an empty one behind its end.
pub(super) fn row(area: Rect, number: usize) -> Rect {
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    if number < area.height {
        Rect {
            y: area.y + number,
            height: 1,
            ..area
        }
    } else {
        Rect { height: 0, ..area }
    }
}

/// Returns the graphemes of a text, each with its width: a letter and what combines with it are one.
fn graphemes(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let span = Span::raw(text);
    let parts = span.styled_graphemes(Look::default());
    let parts: Vec<(usize, usize)> = parts
        .map(|part| (part.symbol.len(), Span::raw(part.symbol).width()))
        .collect();
    let mut from = 0;
    parts.into_iter().filter_map(move |(length, width)| {
        let part = text.get(from..from + length);
        from += length;
        part.map(|part| (part, width))
    })
}

/// Returns the end of a text that has room in so many columns: of a path, that is what it is known by.
pub(super) fn end_of(text: &str, room: u16) -> String {
    let room = usize::from(room);
    let mut left = Span::raw(text).width();
    if left <= room {
        return text.to_owned();
    }
    let mut rest = text;
    for (part, width) in graphemes(text) {
        if left < room {
            break;
        }
        rest = rest.get(part.len()..).unwrap_or_default();
        left -= width.min(left);
    }
    format!("…{rest}")
}

/// Returns the beginning of a text that has room in so many columns.
pub(super) fn beginning_of(text: &str, room: usize) -> String {
    let mut taken = 0;
    let fits = |(_, width): &(&str, usize)| {
        taken += width;
        taken <= room
    };
    graphemes(text)
        .take_while(fits)
        .map(|(part, _)| part)
        .collect()
}

/// Returns a text without so many columns at its beginning; of what is two columns wide, the second one is empty.
pub(super) fn after_columns(text: &str, columns: usize) -> String {
    let mut at = 0;
    let mut rest = String::new();
    for (part, width) in graphemes(text) {
        if at >= columns {
            rest.push_str(part);
        } else if at + width > columns {
            rest.extend(std::iter::repeat_n(' ', at + width - columns));
        }
        at += width;
    }
    rest
}

/// Makes an area empty.
pub(super) fn blank(area: Rect, buffer: &mut Buffer) {
    for at in area.positions() {
        if let Some(cell) = buffer.cell_mut(at) {
            cell.reset();
        }
    }
}

/// Breaks a line that is to be read whole.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        let is_full = Span::raw(line.as_str()).width() + Span::raw(word.trim_end()).width() > width;
        if is_full && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut word = word.to_owned();
        while Span::raw(word.as_str()).width() > width {
            let first = beginning_of(&word, width);
            let Some(rest) = word.get(first.len()..).filter(|_| !first.is_empty()) else {
                break;
            };
            let rest = rest.to_owned();
            lines.push(first);
            word = rest;
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}
