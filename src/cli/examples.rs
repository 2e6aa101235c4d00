//! Examples of each verb, which its help and its manual page end with.

use clap::Command;

/// The verb, and what somebody may type: one or more lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("mount", "trumanfs mount ~/project ~/agent-home"),
    ("umount", "trumanfs umount ~/agent-home"),
    ("status", "trumanfs status ~/agent-home"),
    ("session list", "trumanfs session list ~/project"),
    ("session show", "trumanfs session show ~/project last"),
    ("log", "trumanfs log ~/project --since -30m --path '*.rs'"),
    ("show", "trumanfs show ~/project 357"),
    (
        "diff",
        "trumanfs diff ~/project before-the-agent..now --patch",
    ),
    ("versions", "trumanfs versions ~/project README.md"),
    ("cat", "trumanfs cat ~/project README.md --at -2h"),
    ("usage", "trumanfs usage ~/project --depth 2"),
    (
        "expire",
        "trumanfs expire ~/project --keep-within 30d --keep-checkpoints --dry-run",
    ),
    ("undo", "trumanfs undo ~/project --session last --dry-run"),
    ("redo", "trumanfs redo ~/project"),
    ("mark", "trumanfs mark 'fix the tests'"),
    ("review", "trumanfs review ~/project"),
    ("accept", "trumanfs accept ~/project last src"),
    (
        "reject",
        "trumanfs reject ~/project last README.md --hunk 2",
    ),
    ("restore", "trumanfs restore ~/project src --at -1h"),
    (
        "checkpoint create",
        "trumanfs checkpoint create ~/project before-the-agent",
    ),
    ("checkpoint list", "trumanfs checkpoint list ~/project"),
    ("fork", "trumanfs fork ~/project attempt"),
    ("merge", "trumanfs merge ~/project attempt src --dry-run"),
    ("trash list", "trumanfs trash list ~/project"),
    (
        "trash restore",
        "trumanfs trash restore ~/project 20260116T101530.123456Z_notes.txt",
    ),
    ("trash usage", "trumanfs trash usage ~/project"),
    (
        "trash purge",
        "trumanfs trash purge ~/project --older-than 30d --dry-run",
    ),
    ("stores", "trumanfs stores"),
    ("stores forget", "trumanfs stores forget ~/project"),
    ("stores move", "trumanfs stores move ~/project"),
    ("report", "trumanfs report ~/project --html session.html"),
    ("fsck", "trumanfs fsck ~/project"),
    (
        "agent",
        "trumanfs agent --ask -- claude
trumanfs agent --net allow=api.example.com --env API_KEY -- ./my-agent
trumanfs agent --discard -- bash
trumanfs agent --net ask -- claude
trumanfs agent --explain -- claude",
    ),
    (
        "agent allow",
        "trumanfs agent allow last example.org:443 --once",
    ),
    (
        "agent deny",
        "trumanfs agent deny last example.org --reason 'use the mirror'",
    ),
    ("agent asks", "trumanfs agent asks --follow"),
    (
        "run",
        "trumanfs run --root ~/project --policy default -- git status",
    ),
    (
        "exec",
        "trumanfs exec --root ~/project 'grep -rn TODO src | head'",
    ),
    ("shell", "trumanfs shell --root ~/project"),
    (
        "task run",
        "trumanfs task run --manifest move.json --lease lease.json --config task.toml",
    ),
    (
        "task undo",
        "trumanfs task undo --result result.json --lease lease.json --config task.toml",
    ),
    (
        "task log verify",
        "trumanfs task log verify --config task.toml",
    ),
    (
        "task clock",
        "trumanfs task clock --accept-lower --config task.toml",
    ),
    ("policy check", "trumanfs policy check policy.yaml"),
    (
        "policy explain",
        "trumanfs policy explain --policy default -- 'git push --force'",
    ),
    ("policy trust", "trumanfs policy trust ~/project"),
    #[cfg(feature = "mcp")]
    (
        "serve mcp",
        "claude mcp add home -- trumanfs serve mcp --root ~/project --policy default",
    ),
    (
        "hook",
        "trumanfs hook claude-code --root ~/agent-home < event.json",
    ),
    (
        "key new",
        "trumanfs key new --role executor --out /etc/trumanfs/executor.key",
    ),
    (
        "lease issue",
        "trumanfs lease issue --key kernel.key --manifest m.json --iss planner --aud files --base /work/home --ttl 60",
    ),
    (
        "lease revoke",
        "trumanfs lease revoke --key kernel.key --revocations revoked.json 5f0c6c1e52a9d1b7c3a84f7be2d09316",
    ),
    (
        "result verify",
        "trumanfs result verify r.json --trust trust.json",
    ),
    ("doctor", "trumanfs doctor"),
    ("completions", "trumanfs completions bash"),
    ("man", "trumanfs man ~/.local/share/man/man1"),
];

/// Adds the examples to the help of a command and of all below it.
pub(super) fn add(command: Command) -> Command {
    add_below(command, "")
}

fn add_below(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(&name, |sub| add_below(sub, &path));
    }
    let examples = EXAMPLES.iter().find(|(verb, _)| *verb == path.trim_start());
    let Some((_, examples)) = examples else {
        return command;
    };
    let before = command.get_after_help().map(ToString::to_string);
    let before = before.map_or_else(String::new, |before| format!("{before}\n\n"));
    let (title, indented) = if examples.contains('\n') {
        ("Examples: ", examples.replace('\n', "\n          "))
    } else {
        ("Example: ", (*examples).to_owned())
    };
    command.after_help(before + title + &indented)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cli::{command, inspect};

    /// The words of a line with single quotes, from this program's name to where a redirection begins.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        let words = words.into_iter().skip_while(|word| word != "trumanfs");
        words.take_while(|word| word != "<").collect()
    }

    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, String)>) {
        let subs = || {
            command
                .get_subcommands()
                .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        };
        // A command with subcommands may be a verb by itself.
        if subs().next().is_none() || !command.is_subcommand_required_set() {
            let help = command.get_after_help().map(ToString::to_string);
            found.push((path.trim_start().to_owned(), help.unwrap_or_default()));
        }
        for sub in subs() {
            leaves(sub, &format!("{path} {}", sub.get_name()), found);
        }
    }

    #[test]
    fn every_verb_has_an_example_and_every_example_is_one() {
        let mut found = Vec::new();
        leaves(&command(), "", &mut found);
        for (verb, help) in &found {
            assert!(help.contains("Example"), "{verb}: {help:?}");
            let known = EXAMPLES.iter().any(|(known, _)| known == verb);
            assert!(known, "{verb} has no example");
        }
        assert_eq!(found.len(), EXAMPLES.len());
        let lines = EXAMPLES.iter();
        let lines = lines.flat_map(|(verb, lines)| lines.lines().map(move |line| (verb, line)));
        for (verb, example) in lines {
            let parsed = command().try_get_matches_from(
                words(example)
                    .into_iter()
                    .map(|word| inspect::range_value(word.into())),
            );
            let matches = parsed.unwrap_or_else(|error| panic!("{verb}: {error}"));
            assert_eq!(matches.subcommand_name(), verb.split(' ').next());
        }
    }
}
