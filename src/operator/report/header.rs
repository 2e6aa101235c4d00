//! The head of the page: the session, its end, the totals, and the command that undoes all of it.

use chrono::{DateTime, Utc};

use super::facts::quote_for_shell;
use super::html::{HtmlFragment, grouped, size};
use super::{ListedChanges, PageData, changes};
use crate::error::Result;
use crate::operator::session::{FOR_REQUESTS, is_for_requests};

/// The number of directories of volatile things that are named.
const MAX_VOLATILE_DIRS: usize = 20;

impl PageData {
    pub(super) fn header(&self, html: &mut HtmlFragment, diff: &Result<ListedChanges<'_>>) {
        let facts = &self.facts;
        let (began, last) = (
            facts.began.unwrap_or_default(),
            facts.last.unwrap_or_default(),
        );
        html.raw("<header>\n<p class=\"over\"><span class=\"dome\" aria-hidden=\"true\"></span>trumanfs · ");
        html.text(facts.subject()).raw(" report</p>\n<h1>");
        html.text(&period(began, last))
            .raw("</h1>\n<p class=\"chips\">");
        let (class, state) = match (&facts.damage, facts.ended, self.running) {
            (Some(_), ..) => ("bad", "the journal is damaged"),
            (None, true, _) => ("good", "ended cleanly"),
            (None, false, true) => ("live", "still running"),
            (None, false, false) => ("bad", "ended abruptly"),
        };
        html.raw(&format!("<span class=\"chip {class}\">"))
            .text(state)
            .raw("</span> ");
        html.raw("<span class=\"chip\">")
            .text(&duration(last - began))
            .raw("</span> <code class=\"chip\">");
        html.text(&facts.id).raw("</code></p>\n");
        self.run(html);
        if let Some(damage) = &facts.damage {
            html.raw(
                "<p class=\"warn\"><strong>The journal cannot be believed from there on:</strong> ",
            );
            html.text(damage).raw(". Everything below is what it says before that. <code>trumanfs fsck</code> tells more.</p>\n");
        }
        html.raw("<ul class=\"cards\">");
        let mut card = |number: String, word: &str, class: &str| {
            html.raw(&format!("<li class=\"card {class}\"><strong>"))
                .text(&number);
            html.raw("</strong><span>").text(word).raw("</span></li>");
        };
        card(grouped(facts.changes), "changes recorded", "");
        if let Ok((diff, _)) = diff {
            let [added, modified, renamed, removed] = changes::counts(diff);
            card(grouped(added), "paths added", "added");
            card(grouped(modified), "modified", "modified");
            card(grouped(renamed), "renamed", "renamed");
            card(grouped(removed), "removed", "removed");
        }
        let disk: u64 = self.removed.iter().chain(&self.noise).map(|l| l.disk).sum();
        let disk = disk + self.overwritten.iter().map(|v| v.disk).sum::<u64>();
        let kept = self.removed.len() + self.noise.len() + self.overwritten.len();
        card(
            grouped(kept as u64),
            "things kept that were destroyed",
            "kept",
        );
        card(size(disk), "they take on disk", "kept");
        html.raw("</ul>\n");
        for (dir, (things, bytes)) in facts.volatile.iter().take(MAX_VOLATILE_DIRS) {
            html.raw("<p class=\"dim\">Volatile, and gone for good: ");
            html.text(&format!(
                "{} things, {}, in ",
                grouped(*things),
                size(*bytes)
            ));
            html.raw("<code>").text(dir).raw("</code></p>\n");
        }
        self.undo(html);
        html.raw("</header>\n");
    }

    /// Writes where the session was.
    pub(super) fn place(&self, html: &mut HtmlFragment) {
        let facts = &self.facts;
        html.raw("<section aria-labelledby=\"h-where\"><h2 id=\"h-where\">Where</h2>");
        html.raw("<dl class=\"facts\">");
        let home = facts
            .home
            .as_deref()
            .map_or("not mounted: an operator's command", |home| {
                if is_for_requests(home) {
                    FOR_REQUESTS
                } else {
                    home
                }
            });
        for (word, value) in [
            ("Home", home),
            ("Store", &self.store),
            ("Machine", &facts.host),
            ("Release", &facts.release),
        ] {
            html.raw("<div><dt>")
                .raw(word)
                .raw("</dt><dd><bdi>")
                .text(value)
                .raw("</bdi></dd></div>");
        }
        html.raw("</dl></section>\n");
    }

    /// Writes the command of the run, where the page is about a run.
    fn run(&self, html: &mut HtmlFragment) {
        let Some(run) = &self.facts.run else {
            return;
        };
        let command = run.command.as_deref();
        html.raw("<p class=\"lead\">");
        if let Some(turn) = &self.facts.turn {
            html.text(&turn.mark.to_string()).raw("</p>\n<p>of ");
        }
        html.text(run.kind.word());
        html.raw(" <code>").text(&run.id.to_string());
        html.raw("</code>:</p>\n<pre class=\"command\"><code>");
        html.escaped_lines(command.unwrap_or("(its record is lost)"));
        html.raw("</code></pre>\n");
    }

    /// Writes the command that undoes all of it.
    fn undo(&self, html: &mut HtmlFragment) {
        if self.facts.changes == 0 {
            return;
        }
        let subject = self.facts.subject();
        let which = match (&self.facts.run, &self.facts.turn) {
            (Some(run), Some(turn)) => format!("--run {} --turn {}", run.id, turn.mark.turn),
            (Some(run), None) => format!("--run {}", run.id),
            (None, _) => format!("--session {}", quote_for_shell(self.facts.id.as_bytes())),
        };
        html.raw("<details class=\"undo\"><summary>Take the whole ");
        html.raw(subject).raw(
            " back</summary><p>Look first at what that would do; nothing is changed by it:</p>",
        );
        html.command(&format!("trumanfs undo {} {which} --dry-run", self.store));
        html.raw("<p>Then do it. An undo is recorded too, and can be undone:</p>");
        html.command(&format!("trumanfs undo {} {which}", self.store));
        html.raw("</details>\n");
    }
}

/// Formats the start and end of the session.
fn period(began: DateTime<Utc>, last: DateTime<Utc>) -> String {
    let day = |time: DateTime<Utc>| time.format("%e %B %Y").to_string().trim().to_owned();
    let (from, to) = (began.format("%H:%M"), last.format("%H:%M"));
    if day(began) == day(last) {
        format!("{}, {from} – {to} UTC", day(began))
    } else {
        format!("{}, {from} – {}, {to} UTC", day(began), day(last))
    }
}

fn duration(time: chrono::TimeDelta) -> String {
    let seconds = time.num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}
