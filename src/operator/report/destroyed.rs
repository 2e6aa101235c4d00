//! The destroyed files and contents, each with the command that restores it.

use super::facts::{quote_for_shell, shell_path};
use super::html::{HtmlFragment, many, size};
use super::{MAX_LISTED, PageData};
use crate::journal::KeepMethod;
use crate::name::{WorldPath, escape};
use crate::operator::kept_versions::KeptVersion;
use crate::operator::trash::TrashEntry;
use crate::operator::usage::program;

impl PageData {
    pub(super) fn write_destroyed(&self, html: &mut HtmlFragment) {
        html.raw("<section aria-labelledby=\"h-gone\"><h2 id=\"h-gone\">What was destroyed, and how to get it back</h2>");
        if self.removed.len() + self.noise.len() + self.overwritten.len() == 0 {
            html.raw("<p class=\"empty\">Nothing that is still kept.</p></section>\n");
            return;
        }
        html.raw("<p class=\"lead\">Everything here is still in the store. The commands put it back, beside what is in its place now if something is; nothing is replaced by restoring what was removed.</p>");
        let is_git = |path: Option<&WorldPath>| {
            path.is_some_and(|path| path.components().any(|part| part.bytes() == b".git"))
        };
        let (git_removed, removed): (Vec<&TrashEntry>, Vec<_>) = self
            .removed
            .iter()
            .partition(|listed| is_git(listed.path.as_ref()));
        let (git_overwritten, overwritten): (Vec<&KeptVersion>, Vec<_>) = self
            .overwritten
            .iter()
            .rev()
            .partition(|version| is_git(Some(&version.path)));
        self.lists(html, &removed, &overwritten);
        if git_removed.len() + git_overwritten.len() > 0 {
            let count = (git_removed.len() + git_overwritten.len()) as u64;
            html.raw("<details class=\"noise\"><summary>Git’s own files: ")
                .text(&many(count, "thing", "things"));
            html.raw("</summary>");
            self.lists(html, &git_removed, &git_overwritten);
            html.raw("</details>");
        }
        if !self.noise.is_empty() {
            let count = many(self.noise.len() as u64, "thing", "things");
            html.raw("<details class=\"noise\"><summary>Noise: ")
                .text(&count);
            html.raw(" that one program made and removed again, lock files, journals of databases</summary><ul class=\"gone\">");
            for listed in self.noise.iter().rev().take(MAX_LISTED) {
                self.entry(html, listed);
            }
            html.raw("</ul>");
            left_out(html, self.noise.len(), "trumanfs trash list");
            html.raw("</details>");
        }
        html.raw("</section>\n");
    }

    /// Writes the lists of removed things and of overwritten contents.
    fn lists(
        &self,
        html: &mut HtmlFragment,
        removed: &[&TrashEntry],
        overwritten: &[&KeptVersion],
    ) {
        if !removed.is_empty() {
            html.raw("<h3>Removed or replaced <span class=\"dim\">")
                .number(removed.len() as u64);
            html.raw("</span></h3><ul class=\"gone\">");
            for listed in removed.iter().take(MAX_LISTED) {
                self.entry(html, listed);
            }
            html.raw("</ul>");
            left_out(html, removed.len(), "trumanfs trash list");
        }
        if !overwritten.is_empty() {
            html.raw("<h3>Overwritten, cut or emptied <span class=\"dim\">")
                .number(overwritten.len() as u64);
            html.raw("</span></h3><ul class=\"gone\">");
            for version in overwritten.iter().take(MAX_LISTED) {
                self.version(html, version);
            }
            html.raw("</ul>");
            left_out(html, overwritten.len(), "trumanfs versions");
        }
    }

    fn entry(&self, html: &mut HtmlFragment, listed: &TrashEntry) {
        let entry = escape(&listed.entry.0);
        let path = listed.path.as_ref().map_or(entry, ToString::to_string);
        html.raw("<li><div><bdi class=\"name\">").text(&path);
        html.raw(if listed.directory {
            "/</bdi>"
        } else {
            "</bdi>"
        });
        let who = program(listed.actor.as_ref());
        html.raw(" <span class=\"what\">")
            .text(&size_and_author(listed.size, &who, &listed.time));
        html.raw("</span></div>");
        let mut command = format!(
            "trumanfs trash restore {} {}",
            self.store,
            quote_for_shell(&listed.entry.0)
        );
        if let Some(path) = listed
            .path
            .as_ref()
            .filter(|_| self.taken.contains(&listed.entry.0))
        {
            let beside = [b"/", path.bytes(), b".restored"].concat();
            command.push_str(&format!(" --to {}", quote_for_shell(&beside)));
        }
        html.command(&command);
        html.raw("</li>");
    }

    fn version(&self, html: &mut HtmlFragment, version: &KeptVersion) {
        html.raw("<li><div><bdi class=\"name\">")
            .text(&version.path.to_string())
            .raw("</bdi>");
        let who = program(version.actor.as_ref());
        html.raw(" <span class=\"what\">").text(&size_and_author(
            version.size,
            &who,
            &version.time,
        ));
        if version.how == KeepMethod::Blocks {
            html.text(", kept block by block");
        }
        html.raw("</span></div>");
        html.command(&format!(
            "trumanfs restore {} {} --at {}:{}",
            self.store,
            shell_path(&version.path),
            quote_for_shell(version.session.as_bytes()),
            version.seq.saturating_sub(1)
        ));
        html.raw("</li>");
    }
}

fn left_out(html: &mut HtmlFragment, all: usize, command: &str) {
    let more = all.saturating_sub(MAX_LISTED) as u64;
    if more > 0 {
        html.raw("<p class=\"more\">").number(more);
        html.raw(&format!(
            " older ones are not listed here; <code>{command}</code> names them.</p>"
        ));
    }
}

fn size_and_author(bytes: u64, who: &str, time: &str) -> String {
    let time = time.get(..19).unwrap_or_default().replace('T', " ");
    match who {
        "" => format!("{}, {time}", size(bytes)),
        who => format!("{}, by {who}, {time}", size(bytes)),
    }
}
