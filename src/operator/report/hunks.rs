//! The difference of two texts, line by line, as HTML. Bounded in lines and in their length; the page states how much
//! is left out.

use similar::{Algorithm, ChangeTag, TextDiff};

use super::html::HtmlFragment;

/// The maximum number of lines of one difference.
const MAX_LINES: usize = 400;
/// The maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 500;
/// The number of unchanged lines that are shown around a change.
const CONTEXT_LINES: usize = 3;

/// Writes the difference of two texts.
pub(super) fn hunks(html: &mut HtmlFragment, before: &[u8], after: &[u8]) {
    let old: Vec<&[u8]> = before.split_inclusive(|b| *b == b'\n').collect();
    let new: Vec<&[u8]> = after.split_inclusive(|b| *b == b'\n').collect();
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Histogram)
        .timeout(std::time::Duration::from_secs(1))
        .newline_terminated(true)
        .diff_slices(&old, &new);
    html.raw("<div class=\"diff\" tabindex=\"0\" role=\"region\" aria-label=\"Difference\"><pre>");
    let mut count = 0;
    'all: for hunk in diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .iter_hunks()
    {
        html.raw("<span class=\"h\">")
            .text(hunk.header().to_string().trim_end())
            .raw("\n</span>");
        for change in hunk.iter_changes() {
            if count >= MAX_LINES {
                html.raw(
                    "<span class=\"h\">… and more. trumanfs diff --patch shows all of it.\n</span>",
                );
                break 'all;
            }
            count += 1;
            let (tag, sign) = match change.tag() {
                ChangeTag::Insert => ("ins", '+'),
                ChangeTag::Delete => ("del", '-'),
                ChangeTag::Equal => ("span", ' '),
            };
            let line = change.value();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let cut = line.get(..MAX_LINE_BYTES).unwrap_or(line);
            html.raw(&format!("<{tag}>{sign}"))
                .text(&String::from_utf8_lossy(cut));
            if cut.len() < line.len() {
                html.raw(" …");
            }
            html.raw(&format!("\n</{tag}>"));
        }
    }
    html.raw("</pre></div>");
}
