//! The groups in which `trumanfs --help` lists the verbs.
//!
//! Owns which verb belongs to what a person wants to do. The descriptions are clap's; a test holds the table against
//! the real list of verbs.

use clap::Command;

/// The headings, each with its verbs.
const GROUPS: &[(&str, &[&str])] = &[
    ("Work", &["agent", "run", "exec", "shell", "policy"]),
    (
        "Look",
        &[
            "log", "show", "diff", "review", "report", "versions", "cat", "session", "usage",
        ],
    ),
    (
        "Take back",
        &[
            "undo",
            "redo",
            "restore",
            "accept",
            "reject",
            "checkpoint",
            "mark",
            "trash",
        ],
    ),
    (
        "Homes and stores",
        &[
            "mount", "umount", "status", "fork", "merge", "stores", "expire", "fsck", "doctor",
        ],
    ),
    (
        "Serve",
        &[
            #[cfg(feature = "mcp")]
            "serve",
            "hook",
            "completions",
            "man",
        ],
    ),
    ("Signed tasks", &["task", "lease", "result", "key"]),
];

/// The width of a line where no terminal says another one.
const USUAL_WIDTH: usize = 100;
/// The width of a verb, with the spaces around it.
const VERB_WIDTH: usize = 14;
/// The least width of a description.
const MIN_TEXT_WIDTH: usize = 20;

/// Has a command's help list its verbs in groups, and everything else that lists them keep that order.
pub(super) fn add(mut command: Command) -> Command {
    let text = list(&command, width());
    let verbs = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter());
    for (place, verb) in verbs.enumerate() {
        command = command.mut_subcommand(verb, |verb| verb.display_order(place));
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{text}\nOptions:\n{{options}}{{after-help}}"
    ))
}

fn list(command: &Command, width: usize) -> String {
    let mut text = String::new();
    for (heading, verbs) in GROUPS {
        text.push_str(&format!("\n{heading}:\n"));
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let room = width.saturating_sub(VERB_WIDTH).max(MIN_TEXT_WIDTH);
            let mut name = *verb;
            for line in wrap(&about, room) {
                text.push_str(&format!("  {name:<0$}{line}\n", VERB_WIDTH - 2));
                name = "";
            }
        }
    }
    text
}

/// Divides a text into lines at its spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the width of the terminal, at most the usual one.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    match columns {
        0 => USUAL_WIDTH,
        columns => columns.min(USUAL_WIDTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = crate::cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut real: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, verbs)| verbs.iter().copied())
            .collect();
        assert_eq!(grouped.first(), Some(&"agent"));
        real.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, real);
    }

    #[test]
    fn lines_are_as_wide_as_asked() {
        let command = crate::cli::command();
        for width in [40, 80, 100] {
            for line in list(&command, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    }
}
