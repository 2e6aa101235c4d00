//! A session as one page that an operator reads afterwards.
//!
//! Owns the page and its words; `page.css` and `page.js` beside this file are a part of it. The page needs nothing else: no
//! network, no other file. Names and contents in it are an occupant's and may mean harm: all of them go through `html.rs`,
//! and a content security policy lets only the page's own style and script work, by their hashes. What is too much is left
//! out, and the page says so.

mod changes;
mod facts;
mod html;
mod timeline;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::diff::Diff;
use super::kept::{self, Version};
use super::point::{Operation, Point};
use super::trash::{self, Listed};
use super::{Store, session};
use crate::error::{Error, Result};
use crate::journal::How;
use crate::name::{WorldPath, escape};
use facts::{Facts, shell, shell_path};
use html::{Html, base64, grouped, many, size};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How many removals, and how many overwritten contents, are listed.
const LISTED: usize = 500;

/// How many programs are listed.
const PROGRAMS: usize = 40;

/// Returns the session that a report is about where none is named: the newest that was a mount.
///
/// # Errors
/// [`Error::Missing`] where there is none; what reading says.
pub fn newest(store: &Store) -> Result<String> {
    let ids = crate::world::settle::sessions(store.state())?;
    let mut last = None;
    for id in ids.into_iter().rev() {
        match session::show(store, id.clone()) {
            Ok(session) if session.home.is_some() => return Ok(id),
            Ok(session) if session.records > 0 => last = last.or(Some(id)),
            _ => {}
        }
    }
    last.ok_or_else(|| Error::Missing {
        what: "the store has no session yet".to_owned(),
        remedy: "Mount it, and work in it.".to_owned(),
    })
}

/// Writes the page on a session. `target` is what a command needs to be given for this store; `step` is told what is being
/// looked at.
///
/// # Errors
/// What reading journal and disk says. Damage is told in the page.
pub fn page(
    store: &Store,
    id: &str,
    target: &[u8],
    step: &mut dyn FnMut(&'static str),
) -> Result<String> {
    step("reading the journal");
    let facts = facts::read(store, id).map_err(|error| match error {
        Error::NotFound => Error::Missing {
            what: format!("session {id} has no journal"),
            remedy: "`trumanfs session list` names the sessions.".to_owned(),
        },
        error => error,
    })?;
    step("looking into the trash");
    let of_session = |listed: &Listed| listed.session.as_deref() == Some(id);
    let mut removed = trash::list(store)?;
    removed.retain(of_session);
    let noise = super::ephemeral::among(store, &removed)?;
    let (noise, mut removed): (Vec<_>, Vec<_>) = removed
        .into_iter()
        .partition(|listed| noise.contains(&listed.entry.0));
    let mut overwritten = kept::list(store)?;
    overwritten.retain(|version| version.session == id);
    // Newest first, and what lies in hidden directories (git's own files) after the rest.
    let hidden = |listed: &Listed| {
        let path = listed.path.as_ref();
        path.is_some_and(|path| path.components().any(|part| part.bytes().starts_with(b".")))
    };
    removed.reverse();
    removed.sort_by_key(hidden);
    let taken = |listed: &&Listed| {
        let path = listed
            .path
            .as_ref()
            .and_then(|path| path.parent().zip(path.name()));
        path.is_some_and(|(dir, name)| {
            store
                .root()
                .dir(&dir)
                .and_then(|dir| dir.stat(name))
                .is_ok()
        })
    };
    let taken = removed
        .iter()
        .take(LISTED)
        .chain(noise.iter().rev().take(LISTED))
        .filter(taken);
    let taken = taken.map(|listed| listed.entry.0.clone()).collect();
    step("comparing the start with the end");
    let from = Point::After(Operation::start_of(id));
    let to = Point::After(Operation {
        session: id.to_owned(),
        seq: facts.last_seq,
    });
    let diff = Diff::between(store, &from, &to, &WorldPath::root());
    step("writing the page");
    let page = Page {
        store: shell(target),
        running: !facts.ended
            && store.is_served()?
            && store.holder()?.is_some_and(|h| h.session == id),
        facts,
        removed,
        noise,
        taken,
        overwritten,
    };
    Ok(page.write(diff))
}

struct Page {
    /// The store, as a shell wants it.
    store: String,
    running: bool,
    facts: Facts,
    removed: Vec<Listed>,
    /// What was removed and nobody will want back.
    noise: Vec<Listed>,
    /// Entries of the trash where something else is in their place now.
    taken: HashSet<Vec<u8>>,
    overwritten: Vec<Version>,
}

impl Page {
    fn write(&self, diff: Result<Diff<'_>>) -> String {
        let mut html = Html::default();
        let hash = |text: &str| base64(&Sha256::digest(text.as_bytes()));
        html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n",
            hash(STYLE),
            hash(SCRIPT)
        ));
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>Session ");
        html.text(&self.facts.id)
            .raw(" · trumanfs</title>\n<style>")
            .raw(STYLE);
        html.raw("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#changes\">Skip to what changed</a>\n");
        self.header(&mut html, &diff);
        html.raw("<main>\n");
        self.timeline(&mut html);
        self.programs(&mut html);
        self.changes(&mut html, &diff);
        self.destroyed(&mut html);
        html.raw("</main>\n");
        self.footer(&mut html);
        html.raw("<script>")
            .raw(SCRIPT)
            .raw("</script>\n</body>\n</html>\n");
        html.done()
    }

    fn header(&self, html: &mut Html, diff: &Result<Diff<'_>>) {
        let facts = &self.facts;
        let (began, last) = (
            facts.began.unwrap_or_default(),
            facts.last.unwrap_or_default(),
        );
        html.raw("<header>\n<p class=\"over\"><span class=\"dome\" aria-hidden=\"true\"></span>trumanfs · session report</p>\n<h1>");
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
        if let Some(damage) = &facts.damage {
            html.raw(
                "<p class=\"warn\"><strong>The journal cannot be believed from there on:</strong> ",
            );
            html.text(damage).raw(". Everything below is what it says before that. <code>trumanfs fsck</code> tells more.</p>\n");
        }
        html.raw("<dl class=\"facts\">");
        let home = facts
            .home
            .as_deref()
            .unwrap_or("not mounted: an operator's command");
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
        html.raw("</dl>\n<ul class=\"cards\">");
        let mut card = |number: String, word: &str, class: &str| {
            html.raw(&format!("<li class=\"card {class}\"><strong>"))
                .text(&number);
            html.raw("</strong><span>").text(word).raw("</span></li>");
        };
        card(grouped(facts.changes), "changes recorded", "");
        if let Ok(diff) = diff {
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
        self.undo(html);
        html.raw("</header>\n");
    }

    /// How to take all of it back.
    fn undo(&self, html: &mut Html) {
        if self.facts.changes == 0 {
            return;
        }
        let id = shell(self.facts.id.as_bytes());
        html.raw("<details class=\"undo\"><summary>Take the whole session back</summary><p>Look first at what that would do; nothing is changed by it:</p>");
        html.command(&format!(
            "trumanfs undo {} --session {id} --dry-run",
            self.store
        ));
        html.raw("<p>Then do it. An undo is recorded too, and can be undone:</p>");
        html.command(&format!("trumanfs undo {} --session {id}", self.store));
        html.raw("</details>\n");
    }

    fn timeline(&self, html: &mut Html) {
        html.raw("<section aria-labelledby=\"h-time\"><h2 id=\"h-time\">When</h2>");
        if self.facts.programs.is_empty() {
            html.raw("<p class=\"empty\">Nothing was changed in this session.</p></section>\n");
            return;
        }
        html.raw("<p class=\"legend\"><span><i class=\"made\"></i> made or changed</span> <span><i class=\"gone\"></i> removed, replaced or overwritten (kept)</span> <span class=\"dim\">times are UTC</span></p><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">");
        html.raw(&timeline::draw(&self.facts)).raw("</div>");
        if !self.facts.marks.is_empty() {
            html.raw("<h3>What an operator did</h3><ol class=\"marks\">");
            for mark in &self.facts.marks {
                html.raw("<li><time>")
                    .text(&mark.time.format("%H:%M:%S").to_string());
                html.raw("</time> ")
                    .text(&mark.what)
                    .raw(" <span class=\"dim\">record ");
                html.number(mark.seq).raw("</span></li>");
            }
            html.raw("</ol>");
            if self.facts.marks_left_out > 0 {
                html.raw("<p class=\"more\">")
                    .number(self.facts.marks_left_out);
                html.raw(" more are not listed.</p>");
            }
        }
        html.raw("</section>\n");
    }

    fn programs(&self, html: &mut Html) {
        let programs = self.facts.busiest();
        if programs.is_empty() {
            return;
        }
        html.raw("<section aria-labelledby=\"h-who\"><h2 id=\"h-who\">Who did what</h2><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Programs\"><table><thead><tr><th scope=\"col\">Program</th>");
        for word in [
            "Processes",
            "Changes",
            "Made",
            "Wrote",
            "Moved",
            "Removed",
            "Attributes",
        ] {
            html.raw(&format!("<th scope=\"col\" class=\"n\">{word}</th>"));
        }
        html.raw("</tr></thead><tbody>");
        for (name, program) in programs.iter().take(PROGRAMS) {
            html.raw("<tr><th scope=\"row\"><bdi>")
                .text(name)
                .raw("</bdi>");
            if !program.path.is_empty() {
                html.raw(" <span class=\"dim path\"><bdi>")
                    .text(&program.path)
                    .raw("</bdi></span>");
            }
            html.raw("</th>");
            let numbers = [
                program.processes.len() as u64,
                program.changes,
                program.created,
                program.written,
                program.moved,
                program.removed,
                program.attributes,
            ];
            for number in numbers {
                html.raw(if number == 0 {
                    "<td class=\"n zero\">"
                } else {
                    "<td class=\"n\">"
                });
                html.number(number).raw("</td>");
            }
            html.raw("</tr>");
        }
        html.raw("</tbody></table></div>");
        let more = programs.len().saturating_sub(PROGRAMS) as u64;
        if more > 0 {
            html.raw("<p class=\"more\">")
                .number(more)
                .raw(" more programs are not listed.</p>");
        }
        html.raw("</section>\n");
    }

    fn changes(&self, html: &mut Html, diff: &Result<Diff<'_>>) {
        html.raw("<section aria-labelledby=\"changes\"><h2 id=\"changes\">What is different</h2>");
        match diff {
            Err(error) => {
                html.raw(
                    "<p class=\"warn\">The start of the session cannot be compared with its end: ",
                );
                html.text(&error.to_string()).raw("</p>");
            }
            Ok(diff) if diff.changes.is_empty() => {
                html.raw(
                    "<p class=\"empty\">Nothing: at its end everything was as at its start.</p>",
                );
            }
            Ok(diff) => {
                html.raw("<p class=\"lead\">The home at the end of the session against its start. Files with a triangle unfold.</p><p class=\"tools\"><label>Find <input type=\"search\" id=\"find\" placeholder=\"part of a path\" autocomplete=\"off\"></label> <button type=\"button\" id=\"open\">Unfold all</button> <button type=\"button\" id=\"close\">Fold all</button></p><div class=\"tree\">");
                html.raw(&changes::tree(diff)).raw("</div>");
            }
        }
        html.raw("</section>\n");
    }

    fn destroyed(&self, html: &mut Html) {
        html.raw("<section aria-labelledby=\"h-gone\"><h2 id=\"h-gone\">What was destroyed, and how to get it back</h2>");
        if self.removed.len() + self.noise.len() + self.overwritten.len() == 0 {
            html.raw("<p class=\"empty\">Nothing that is still kept.</p></section>\n");
            return;
        }
        html.raw("<p class=\"lead\">Everything here is still in the store. The commands put it back, beside what is in its place now if something is; nothing is replaced by restoring what was removed.</p>");
        if !self.removed.is_empty() {
            html.raw("<h3>Removed or replaced <span class=\"dim\">")
                .number(self.removed.len() as u64);
            html.raw("</span></h3><ul class=\"gone\">");
            for listed in self.removed.iter().take(LISTED) {
                self.entry(html, listed);
            }
            html.raw("</ul>");
            left_out(html, self.removed.len(), "trumanfs trash list");
        }
        if !self.overwritten.is_empty() {
            html.raw("<h3>Overwritten, cut or emptied <span class=\"dim\">")
                .number(self.overwritten.len() as u64);
            html.raw("</span></h3><ul class=\"gone\">");
            for version in self.overwritten.iter().rev().take(LISTED) {
                self.version(html, version);
            }
            html.raw("</ul>");
            left_out(html, self.overwritten.len(), "trumanfs versions");
        }
        if !self.noise.is_empty() {
            let count = many(self.noise.len() as u64, "thing", "things");
            html.raw("<details class=\"noise\"><summary>Noise: ")
                .text(&count);
            html.raw(" that one program made and removed again, lock files, journals of databases</summary><ul class=\"gone\">");
            for listed in self.noise.iter().rev().take(LISTED) {
                self.entry(html, listed);
            }
            html.raw("</ul>");
            left_out(html, self.noise.len(), "trumanfs trash list");
            html.raw("</details>");
        }
        html.raw("</section>\n");
    }

    fn entry(&self, html: &mut Html, listed: &Listed) {
        let entry = escape(&listed.entry.0);
        let path = listed.path.as_ref().map_or(entry, ToString::to_string);
        html.raw("<li><div><bdi class=\"name\">").text(&path);
        html.raw(if listed.directory {
            "/</bdi>"
        } else {
            "</bdi>"
        });
        let who = super::usage::program(listed.actor.as_ref());
        html.raw(" <span class=\"what\">")
            .text(&about(listed.size, &who, &listed.time));
        html.raw("</span></div>");
        let mut command = format!(
            "trumanfs trash restore {} {}",
            self.store,
            shell(&listed.entry.0)
        );
        if let Some(path) = listed
            .path
            .as_ref()
            .filter(|_| self.taken.contains(&listed.entry.0))
        {
            let beside = [b"/", path.bytes(), b".restored"].concat();
            command.push_str(&format!(" --to {}", shell(&beside)));
        }
        html.command(&command);
        html.raw("</li>");
    }

    fn version(&self, html: &mut Html, version: &Version) {
        html.raw("<li><div><bdi class=\"name\">")
            .text(&version.path.to_string())
            .raw("</bdi>");
        let who = super::usage::program(version.actor.as_ref());
        html.raw(" <span class=\"what\">")
            .text(&about(version.size, &who, &version.time));
        if version.how == How::Blocks {
            html.text(", kept block by block");
        }
        html.raw("</span></div>");
        html.command(&format!(
            "trumanfs restore {} {} --at {}:{}",
            self.store,
            shell_path(&version.path),
            shell(version.session.as_bytes()),
            version.seq.saturating_sub(1)
        ));
        html.raw("</li>");
    }

    fn footer(&self, html: &mut Html) {
        let now = Utc::now().format("%e %B %Y, %H:%M UTC").to_string();
        html.raw("<footer><p>Written by trumanfs ")
            .raw(env!("CARGO_PKG_VERSION"))
            .raw(" on ");
        html.text(now.trim())
            .raw(", from ")
            .number(self.facts.last_seq)
            .raw(" records of the session’s journal");
        html.raw(match self.facts.damage {
            Some(_) => ", up to where it is damaged.",
            None => ", each of which carries the hash of the one before it; the chain is whole.",
        });
        if self.facts.not_done > 0 {
            html.raw(" ").number(self.facts.not_done).raw(" recorded changes were not done after all, and count in the numbers of programs only.");
        }
        html.raw("</p></footer>\n");
    }
}

fn left_out(html: &mut Html, all: usize, command: &str) {
    let more = all.saturating_sub(LISTED) as u64;
    if more > 0 {
        html.raw("<p class=\"more\">").number(more);
        html.raw(&format!(
            " older ones are not listed here; <code>{command}</code> names them.</p>"
        ));
    }
}

fn about(bytes: u64, who: &str, time: &str) -> String {
    let time = time.get(..19).unwrap_or_default().replace('T', " ");
    match who {
        "" => format!("{}, {time}", size(bytes)),
        who => format!("{}, by {who}, {time}", size(bytes)),
    }
}

/// Writes from when to when.
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
