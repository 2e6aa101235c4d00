//! The picture of a session: a lane for each program, a bar for each time slice.
//!
//! The axis is broken where nothing happened for long, so that activity gets the width.

use super::facts::{SessionFacts, SliceCounts, add};
use super::html::{HtmlFragment, many};

/// The number of programs with a lane of their own.
const MAX_LANES: usize = 8;
/// The maximum number of characters in a lane's name, so that it fits to the left of the bars.
const MAX_NAME_CHARS: usize = 22;
/// The height of the highest bar.
const BAR_HEIGHT: f64 = 30.0;
/// The width of a character of a time, about.
const CHARACTER_WIDTH: f64 = 7.5;
/// The maximum number of idle slices drawn; a longer gap is drawn this wide, as a break.
const MAX_IDLE_SLICES: usize = 4;
const TOP: usize = 26;
/// The fewest slices that the axis has room for: a single one must not look like all of the time.
const MIN_SLICES: usize = 12;

/// The measures of the picture: one for wide pages, and one for narrow ones.
pub(super) struct TimelineFrame {
    /// The class, and the end of ids.
    class: &'static str,
    width: usize,
    /// Where the bars begin and end.
    left: usize,
    right: usize,
    /// The height of a lane.
    lane: usize,
    /// True if the name of a lane is above its bars.
    is_name_above: bool,
    /// The number of times along the axis, about.
    ticks: i64,
}

/// The picture beside whose bars there is room for names.
pub(super) const WIDE: TimelineFrame = TimelineFrame {
    class: "full",
    width: 1000,
    left: 190,
    right: 970,
    lane: 44,
    is_name_above: false,
    ticks: 7,
};

/// The picture for a phone, or half a screen.
pub(super) const NARROW: TimelineFrame = TimelineFrame {
    class: "narrow",
    width: 460,
    left: 8,
    right: 452,
    lane: 60,
    is_name_above: true,
    ticks: 3,
};

/// Draws the timeline.
pub(super) fn draw(facts: &SessionFacts, frame: &TimelineFrame) -> String {
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
    let count = scale.at.last().map_or(1, |last| last + 1).max(MIN_SLICES);
    let step = (frame.right - frame.left) as f64 / count as f64;
    let bottom = TOP + lanes.len() * frame.lane;
    let (width, height, class) = (frame.width, bottom + 30, frame.class);
    html.raw(&format!(
        "<svg class=\"timeline {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"tl-t-{class} tl-d-{class}\">\
         <title id=\"tl-t-{class}\">Activity over time</title><desc id=\"tl-d-{class}\">One lane for each program; the table of programs has the same numbers.</desc>"
    ));
    if scale.is_broken() {
        scale.axis(&mut html, (facts, frame), step, bottom)
    } else {
        axis(&mut html, (facts, frame), count, step, bottom)
    }
    for (row, (name, slices)) in lanes.iter().enumerate() {
        lane(
            &mut html,
            (facts, frame),
            (name, slices),
            TOP + row * frame.lane,
            (&scale, step),
        );
    }
    marks(&mut html, (facts, frame), &scale, (count, step), bottom);
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
    fn axis(
        &self,
        html: &mut HtmlFragment,
        (facts, frame): (&SessionFacts, &TimelineFrame),
        step: f64,
        bottom: usize,
    ) {
        let form = if facts.width < 1000 {
            "%H:%M:%S%.3f"
        } else {
            "%H:%M:%S"
        };
        let began = facts.began.unwrap_or_default();
        let mut after_break = true;
        let mut last = f64::MIN;
        for (i, at) in self.at.iter().enumerate() {
            let stands = self.at.get(i + 1) == Some(at);
            let x = frame.left as f64 + *at as f64 * step;
            if stands && !after_break {
                html.raw(&format!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">//</text>",
                    bottom + 6
                ));
            }
            if !stands && after_break {
                let time = began + chrono::TimeDelta::milliseconds(i as i64 * facts.width);
                let time = time.format(form).to_string();
                if x - last > (time.len() + 1) as f64 * CHARACTER_WIDTH {
                    tick(html, frame, x, bottom, &time);
                    last = x;
                }
            }
            after_break = stands;
        }
    }
}

/// Draws a time below the axis, where all of it is within the picture.
fn tick(html: &mut HtmlFragment, frame: &TimelineFrame, x: f64, bottom: usize, time: &str) {
    html.raw(&format!(
        "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>",
        bottom + 4
    ));
    let half = time.len() as f64 * CHARACTER_WIDTH / 2.0;
    let x = x.max(half).min(frame.width as f64 - half);
    html.raw(&format!(
        "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{time}</text>",
        bottom + 22
    ));
}

fn lane(
    html: &mut HtmlFragment,
    (facts, frame): (&SessionFacts, &TimelineFrame),
    (name, slices): (&str, &[SliceCounts]),
    top: usize,
    (scale, step): (&BarScale, f64),
) {
    let bottom = (top + frame.lane - 8) as f64;
    let short: String = match name.chars().count() {
        0..=MAX_NAME_CHARS => name.to_owned(),
        _ => name.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect(),
    };
    let (class, x, y) = if frame.is_name_above {
        ("lane above", frame.left, top + 14)
    } else {
        ("lane", frame.left - 12, top + frame.lane / 2 + 8)
    };
    html.raw(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">"));
    html.text(&short).raw("</text>");
    html.raw(&format!(
        "<line class=\"base\" x1=\"{}\" x2=\"{}\" y1=\"{bottom}\" y2=\"{bottom}\"/>",
        frame.left, frame.right
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
        let full = (f64::from(all) / f64::from(most)).sqrt() * BAR_HEIGHT;
        let full = full.max(3.0);
        let red = full * f64::from(*destroyed) / f64::from(all);
        let red = if *destroyed > 0 { red.max(2.0) } else { 0.0 };
        let at = scale.place(i as f64);
        let (x, width) = (frame.left as f64 + at * step, (step - 1.0).max(1.0));
        let from = facts.began.unwrap_or_default()
            + chrono::TimeDelta::milliseconds(i as i64 * facts.width);
        html.raw("<g><title>");
        html.text(&format!(
            "{name}, {}: {}",
            from.format("%H:%M:%S%.3f"),
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
fn axis(
    html: &mut HtmlFragment,
    (facts, frame): (&SessionFacts, &TimelineFrame),
    count: usize,
    step: f64,
    bottom: usize,
) {
    let began = facts.began.unwrap_or_default();
    let total = facts.width.saturating_mul(count as i64);
    // In milliseconds.
    let round = [
        10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
        600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
    ];
    let wanted = total / frame.ticks;
    let tick_width = round.into_iter().find(|tick| *tick >= wanted);
    let tick_width = tick_width.unwrap_or(wanted / 86_400_000 * 86_400_000 + 86_400_000);
    let format = if tick_width < 1000 {
        "%H:%M:%S%.3f"
    } else if tick_width < 60_000 {
        "%H:%M:%S"
    } else if total > 3 * 86_400_000 {
        "%d %b"
    } else {
        "%H:%M"
    };
    let start = began.timestamp_millis();
    let mut at = (start / tick_width + 1) * tick_width;
    while at < start + total {
        let x = frame.left as f64 + (at - start) as f64 / facts.width as f64 * step;
        let time = chrono::DateTime::from_timestamp_millis(at).unwrap_or_default();
        tick(html, frame, x, bottom, &time.format(format).to_string());
        at += tick_width;
    }
}

/// Draws checkpoints, undos and purges, numbered as in the list below the picture.
fn marks(
    html: &mut HtmlFragment,
    (facts, frame): (&SessionFacts, &TimelineFrame),
    scale: &BarScale,
    (count, step): (usize, f64),
    bottom: usize,
) {
    let began = facts.began.unwrap_or_default();
    for (i, mark) in facts.marks.iter().enumerate().take(30) {
        let since = (mark.time - began).num_milliseconds().max(0) as f64 / facts.width as f64;
        let x = frame.left as f64 + scale.place(since).min(count as f64) * step;
        html.raw(&format!(
            "<g class=\"mark\"><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"20\" y2=\"{bottom}\"/><circle cx=\"{x:.1}\" cy=\"11\" r=\"9\"/><text x=\"{x:.1}\" y=\"15\">{}</text><title>",
            i + 1
        ));
        html.text(&mark.what).raw("</title></g>");
    }
}
