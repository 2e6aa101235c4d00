//! The picture of a session: a lane for each program, a bar for each time slice.
//!
//! The axis is broken where nothing happened for long, so that activity gets the width.

use super::facts::{MAX_SLICES, SessionFacts, SliceCounts, add};
use super::html::{HtmlFragment, many};

/// The number of programs with a lane of their own.
const MAX_LANES: usize = 8;
const LANE: usize = 44;
const LEFT: usize = 190;
/// The maximum number of characters in a lane's name, so that it fits to the left of the bars.
const MAX_NAME_CHARS: usize = 22;
/// The maximum number of idle slices drawn; a longer gap is drawn this wide, as a break.
const MAX_IDLE_SLICES: usize = 4;
const WIDTH: usize = 1000;
const RIGHT: usize = 970;
const TOP: usize = 26;

/// Draws the timeline.
pub(super) fn draw(facts: &SessionFacts) -> String {
    let mut html = HtmlFragment::default();
    let programs = facts.busiest();
    let mut lanes: Vec<(String, Vec<SliceCounts>)> = Vec::new();
    for (i, (name, program)) in programs.iter().enumerate() {
        match lanes.get_mut(MAX_LANES - 1) {
            Some((name, slices)) if i >= MAX_LANES && programs.len() > MAX_LANES => {
                *name = format!("{} others", programs.len() - MAX_LANES + 1);
                slices.resize(slices.len().max(program.slices.len()), (0, 0));
                for (sum, slice) in slices.iter_mut().zip(&program.slices) {
                    *sum = add(*sum, slice);
                }
            }
            _ => lanes.push(((*name).to_owned(), program.slices.clone())),
        }
    }
    let scale = BarScale::of(&lanes);
    // A short session fills the width, too.
    let count = scale
        .at
        .last()
        .map_or(1, |last| last + 1)
        .max(MAX_SLICES / 6);
    let step = (RIGHT - LEFT) as f64 / count as f64;
    let height = TOP + lanes.len() * LANE + 30;
    html.raw(&format!(
        "<svg class=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"tl-t tl-d\">\
         <title id=\"tl-t\">Activity over time</title><desc id=\"tl-d\">One lane for each program; the table of programs has the same numbers.</desc>"
    ));
    let bottom = TOP + lanes.len() * LANE;
    if scale.is_broken() {
        scale.axis(&mut html, facts, step, bottom)
    } else {
        axis(&mut html, facts, count, step, bottom)
    }
    for (row, (name, slices)) in lanes.iter().enumerate() {
        lane(
            &mut html,
            facts,
            (name, slices),
            TOP + row * LANE,
            (&scale, step),
        );
    }
    marks(&mut html, facts, &scale, (count, step), bottom);
    html.raw("</svg>");
    html.into_string()
}

/// The position of each slice's bar.
struct BarScale {
    at: Vec<usize>,
}

impl BarScale {
    fn of(lanes: &[(String, Vec<SliceCounts>)]) -> BarScale {
        let length = lanes.iter().map(|(_, slices)| slices.len()).max();
        let (mut at, mut idle, mut next) = (Vec::new(), 0, 0);
        for i in 0..length.unwrap_or(0) {
            let busy = lanes
                .iter()
                .any(|(_, slices)| slices.get(i).is_some_and(|slice| *slice != (0, 0)));
            idle = if busy { 0 } else { idle + 1 };
            at.push(next);
            next += usize::from(idle < MAX_IDLE_SLICES);
        }
        BarScale { at }
    }

    fn is_broken(&self) -> bool {
        self.at.last().is_some_and(|last| last + 1 < self.at.len())
    }

    /// Returns the position of a moment, in slices from the left.
    fn place(&self, slices: f64) -> f64 {
        let whole = slices.floor().max(0.0);
        let at = self.at.get(whole as usize);
        match (at, self.at.last()) {
            (Some(at), _) => *at as f64 + (slices - whole),
            (None, Some(last)) => (last + 1) as f64,
            (None, None) => 0.0,
        }
    }

    /// Draws the times where activity resumes after a break.
    fn axis(&self, html: &mut HtmlFragment, facts: &SessionFacts, step: f64, bottom: usize) {
        let began = facts.began.unwrap_or_default();
        let mut after_break = true;
        let mut last = f64::MIN;
        for (i, at) in self.at.iter().enumerate() {
            let stands = self.at.get(i + 1) == Some(at);
            let x = LEFT as f64 + *at as f64 * step;
            if stands && !after_break {
                html.raw(&format!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">//</text>",
                    bottom + 6
                ));
            }
            if !stands && after_break && x - last > 60.0 {
                let time = began + chrono::TimeDelta::milliseconds(i as i64 * facts.width);
                html.raw(&format!(
                    "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                    bottom + 4,
                    bottom + 22,
                    time.format("%H:%M:%S")
                ));
                last = x;
            }
            after_break = stands;
        }
    }
}

fn lane(
    html: &mut HtmlFragment,
    facts: &SessionFacts,
    (name, slices): (&str, &[SliceCounts]),
    top: usize,
    (scale, step): (&BarScale, f64),
) {
    let bottom = (top + LANE - 8) as f64;
    let short: String = match name.chars().count() {
        0..=MAX_NAME_CHARS => name.to_owned(),
        _ => name.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect(),
    };
    html.raw(&format!(
        "<text class=\"lane\" x=\"{}\" y=\"{}\">",
        LEFT - 12,
        top + LANE / 2 + 8
    ));
    html.text(&short).raw("</text>");
    html.raw(&format!(
        "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
    ));
    let most = slices
        .iter()
        .map(|s| s.0.saturating_add(s.1))
        .max()
        .unwrap_or(1)
        .max(1);
    for (i, (made, destroyed)) in slices.iter().enumerate() {
        let all = made.saturating_add(*destroyed);
        if all == 0 {
            continue;
        }
        // Square-root scaling: one change must be visible beside ten thousand.
        let full = (f64::from(all) / f64::from(most)).sqrt() * (LANE - 14) as f64;
        let full = full.max(3.0);
        let red = full * f64::from(*destroyed) / f64::from(all);
        let red = if *destroyed > 0 { red.max(2.0) } else { 0.0 };
        let at = scale.place(i as f64);
        let (x, width) = (LEFT as f64 + at * step, (step - 1.0).max(1.0));
        let from = facts.began.unwrap_or_default()
            + chrono::TimeDelta::milliseconds(i as i64 * facts.width);
        html.raw("<g><title>");
        html.text(&format!(
            "{name}, {}: {}",
            from.format("%H:%M:%S"),
            many(u64::from(all), "change", "changes")
        ));
        if *destroyed > 0 {
            html.text(&format!(", {destroyed} of them destroying something"));
        }
        html.raw("</title>");
        let mut bar = |class: &str, y: f64, height: f64| {
            html.raw(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1\"/>"
            ));
        };
        if full > red {
            bar("made", bottom - full, full - red);
        }
        if red > 0.0 {
            bar("gone", bottom - red, red);
        }
        html.raw("</g>");
    }
}

/// Draws times along the axis.
fn axis(html: &mut HtmlFragment, facts: &SessionFacts, count: usize, step: f64, bottom: usize) {
    let began = facts.began.unwrap_or_default();
    let total = facts.width.saturating_mul(count as i64);
    let seconds = [
        1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400,
    ];
    let wanted = total / 7;
    let tick = seconds
        .iter()
        .map(|s| s * 1000)
        .find(|tick| *tick >= wanted);
    let tick = tick.unwrap_or(wanted / 86_400_000 * 86_400_000 + 86_400_000);
    let format = if tick < 60_000 {
        "%H:%M:%S"
    } else if total > 3 * 86_400_000 {
        "%d %b"
    } else {
        "%H:%M"
    };
    let start = began.timestamp_millis();
    let mut at = (start / tick + 1) * tick;
    while at < start + total {
        let x = LEFT as f64 + (at - start) as f64 / facts.width as f64 * step;
        let name_id = chrono::DateTime::from_timestamp_millis(at).unwrap_or_default();
        html.raw(&format!(
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            bottom + 4,
            bottom + 22,
            name_id.format(format)
        ));
        at += tick;
    }
}

/// Draws checkpoints, undos and purges, numbered as in the list below the picture.
fn marks(
    html: &mut HtmlFragment,
    facts: &SessionFacts,
    scale: &BarScale,
    (count, step): (usize, f64),
    bottom: usize,
) {
    let began = facts.began.unwrap_or_default();
    for (i, mark) in facts.marks.iter().enumerate().take(30) {
        let since = (mark.time - began).num_milliseconds().max(0) as f64 / facts.width as f64;
        let x = LEFT as f64 + scale.place(since).min(count as f64) * step;
        html.raw(&format!(
            "<g class=\"mark\"><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"20\" y2=\"{bottom}\"/><circle cx=\"{x:.1}\" cy=\"11\" r=\"9\"/><text x=\"{x:.1}\" y=\"15\">{}</text><title>",
            i + 1
        ));
        html.text(&mark.what).raw("</title></g>");
    }
}
