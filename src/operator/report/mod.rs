//! A session as a single page that an operator reads afterwards.
//!
//! Owns the page and its words; `page.css` and `page.js` beside this file are part of it. The page needs no network and
//! no other file. Names and contents in it come from the occupant and may be hostile: all of them go through `html.rs`,
//! and a content security policy admits only the page's own style and script, by their hashes. Long lists are cut, and
//! the page states the rest.

mod changes;
mod destroyed;
mod facts;
mod header;
mod html;
mod hunks;
mod timeline;

use std::collections::HashSet;

use base64ct::{Base64, Encoding};
use chrono::Utc;
use sha2::{Digest, Sha256};

use super::diff::{Diff, PathDifference};
use super::kept_versions::{self, KeptVersion};
use super::point::{Operation, Point};
use super::run::RunSummary;
use super::trash::{self, TrashEntry};
use super::turn::RunTurn;
use super::{Store, session};
use crate::error::{Error, Result};
use crate::name::WorldPath;
use facts::{SessionFacts, quote_for_shell};
use html::HtmlFragment;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The number of removals, and of overwritten contents, that are listed.
const MAX_LISTED: usize = 500;

/// The number of programs that are listed.
const MAX_LISTED_PROGRAMS: usize = 40;

/// The columns of numbers in the table of programs.
const PROGRAM_COLUMNS: [&str; 7] = [
    "Processes",
    "Changes",
    "Made",
    "Wrote",
    "Moved",
    "Removed",
    "Attributes",
];

/// Returns the session to report by default: the newest that was a mount.
///
/// # Errors
/// [`Error::Missing`] where there is none; read errors.
pub fn newest(store: &Store) -> Result<String> {
    let ids = crate::world::store::settle::sessions(store.state())?;
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

/// Writes the page of a session, or of one run in it, or of one turn of that. `target` is the store's argument for commands; `step` is called
/// with each stage's name.
///
/// # Errors
/// Those of reading journal and disk. Damage is noted on the page.
pub fn page(
    store: &Store,
    id: &str,
    (run, turn): (Option<&RunSummary>, Option<&RunTurn>),
    target: &[u8],
    step: &mut dyn FnMut(&'static str),
) -> Result<String> {
    step("reading the journal");
    let facts = facts::read(store, id, (run, turn)).map_err(|error| match error {
        Error::NotFound => Error::Missing {
            what: format!("session {id} has no journal"),
            remedy: "`trumanfs session list` names the sessions.".to_owned(),
        },
        error => error,
    })?;
    step("looking into the trash");
    let mut removed = trash::list(store)?;
    removed.retain(|listed| facts.has(listed.session.as_deref(), listed.seq));
    let noise = super::ephemeral::ephemeral_among(store, &removed)?;
    let (noise, mut removed): (Vec<_>, Vec<_>) = removed
        .into_iter()
        .partition(|listed| noise.contains(&listed.entry.0));
    let mut overwritten = kept_versions::list(store)?;
    overwritten.retain(|kept| facts.has(Some(&kept.session), Some(kept.seq)));
    // Newest first, with hidden directories (git's own files) after the rest.
    let hidden = |listed: &TrashEntry| {
        let path = listed.path.as_ref();
        path.is_some_and(|path| path.components().any(|part| part.bytes().starts_with(b".")))
    };
    removed.reverse();
    removed.sort_by_key(hidden);
    let taken = |listed: &&TrashEntry| {
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
        .take(MAX_LISTED)
        .chain(noise.iter().rev().take(MAX_LISTED))
        .filter(taken);
    let taken = taken.map(|listed| listed.entry.0.clone()).collect();
    step("comparing the start with the end");
    let from = Point::After(Operation::start_of(id));
    let to = Point::After(Operation {
        session: id.to_owned(),
        seq: facts.last_seq,
    });
    let diff = match run {
        Some(run) => Diff::of_run(store, run, &WorldPath::root()),
        None => Diff::between(store, &from, &to, &WorldPath::root()),
    };
    let diff = diff.and_then(|diff| {
        let listed: Result<Vec<PathDifference>> =
            diff.changes().take(changes::MAX_LISTED_CHANGES).collect();
        listed.map(|listed| (diff, listed))
    });
    step("writing the page");
    let page = PageData {
        store: quote_for_shell(target),
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

/// The differences, and the changes that are listed.
type ListedChanges<'a> = (Diff<'a>, Vec<PathDifference>);

/// Everything that a page shows.
struct PageData {
    /// The store's path, quoted for a shell.
    store: String,
    running: bool,
    facts: SessionFacts,
    removed: Vec<TrashEntry>,
    /// Removed files that are not worth restoring.
    noise: Vec<TrashEntry>,
    /// Entries of the trash whose former place is taken.
    taken: HashSet<Vec<u8>>,
    overwritten: Vec<KeptVersion>,
}

impl PageData {
    fn write(&self, diff: Result<ListedChanges<'_>>) -> String {
        let mut html = HtmlFragment::default();
        let hash = |text: &str| Base64::encode_string(&Sha256::digest(text.as_bytes()));
        html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw(&format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n",
            hash(STYLE),
            hash(SCRIPT)
        ));
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
        let about = self.facts.run.as_ref().map(|run| run.id.to_string());
        html.text(self.facts.subject()).raw(" ");
        html.text(about.as_ref().unwrap_or(&self.facts.id))
            .raw(" · trumanfs</title>\n<style>")
            .raw(STYLE);
        html.raw("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#changes\">Skip to what changed</a>\n");
        self.header(&mut html, &diff);
        html.raw("<main>\n");
        self.changes(&mut html, &diff);
        self.timeline(&mut html);
        self.programs(&mut html);
        self.write_destroyed(&mut html);
        self.place(&mut html);
        html.raw("</main>\n");
        self.footer(&mut html);
        html.raw("<script>")
            .raw(SCRIPT)
            .raw("</script>\n</body>\n</html>\n");
        html.into_string()
    }

    fn timeline(&self, html: &mut HtmlFragment) {
        html.raw("<section aria-labelledby=\"h-time\"><h2 id=\"h-time\">When</h2>");
        if self.facts.programs.is_empty() {
            html.raw("<p class=\"empty\">Nothing was changed.</p></section>\n");
            return;
        }
        html.raw("<p class=\"legend\"><span><i class=\"made\"></i> made or changed</span> <span><i class=\"gone\"></i> removed, replaced or overwritten (kept)</span> <span class=\"dim\">times are UTC</span></p><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">");
        for frame in [&timeline::WIDE, &timeline::NARROW] {
            html.raw(&timeline::draw(&self.facts, frame));
        }
        html.raw("</div>");
        if !self.facts.marks.is_empty() {
            html.raw("<h3>What an operator did</h3><ol class=\"marks\">");
            for mark in &self.facts.marks {
                html.raw("<li><time>")
                    .text(&mark.time.format("%H:%M:%S").to_string());
                html.raw("</time> ")
                    .escaped_lines(&mark.what)
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

    fn programs(&self, html: &mut HtmlFragment) {
        let programs = self.facts.busiest();
        if programs.is_empty() {
            return;
        }
        html.raw("<section aria-labelledby=\"h-who\"><h2 id=\"h-who\">Who did what</h2><div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Programs\"><table><thead><tr><th scope=\"col\">Program</th>");
        for word in PROGRAM_COLUMNS {
            html.raw(&format!("<th scope=\"col\" class=\"n\">{word}</th>"));
        }
        html.raw("</tr></thead><tbody>");
        for (name, program) in programs.iter().take(MAX_LISTED_PROGRAMS) {
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
            for (number, word) in numbers.into_iter().zip(PROGRAM_COLUMNS) {
                let class = if number == 0 { "n zero" } else { "n" };
                html.raw(&format!("<td class=\"{class}\" data-column=\"{word}\">"));
                html.number(number).raw("</td>");
            }
            html.raw("</tr>");
        }
        html.raw("</tbody></table></div>");
        let more = programs.len().saturating_sub(MAX_LISTED_PROGRAMS) as u64;
        if more > 0 {
            html.raw("<p class=\"more\">")
                .number(more)
                .raw(" more programs are not listed.</p>");
        }
        html.raw("</section>\n");
    }

    fn changes(&self, html: &mut HtmlFragment, diff: &Result<ListedChanges<'_>>) {
        html.raw("<section aria-labelledby=\"changes\"><h2 id=\"changes\">What is different</h2>");
        match diff {
            Err(error) => {
                html.raw("<p class=\"warn\">The start cannot be compared with the end: ");
                html.text(&error.to_string()).raw("</p>");
            }
            Ok((diff, _)) if diff.is_empty() => {
                html.raw(
                    "<p class=\"empty\">Nothing: at its end everything was as at its start.</p>",
                );
            }
            Ok((diff, listed)) => {
                changes::write_flagged(html, diff);
                html.raw("<p class=\"lead\">The home at the end against the start. Files with a triangle fold.</p><p class=\"tools\"><label>Find <input type=\"search\" id=\"find\" placeholder=\"part of a path\" autocomplete=\"off\"></label> <button type=\"button\" id=\"open\">Unfold all</button> <button type=\"button\" id=\"close\">Fold all</button></p><div class=\"tree\">");
                html.raw(&changes::tree(diff, listed)).raw("</div>");
            }
        }
        html.raw("</section>\n");
    }

    fn footer(&self, html: &mut HtmlFragment) {
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
