//! Entries that can be used and are hardly meant: those that can start any program, lists that cancel each other, and
//! flags that take a program's name.

use super::grammar::FlagValue;
use super::read::FieldReader;
use super::schema::{ProgramEntry, SubCommand};
use super::validator::Validator;

/// Programs that start whatever their words, or a file in the home, say.
const STARTERS: &[(&str, &str)] = &[
    ("awk", "`system()` and pipes of a script"),
    (
        "gawk",
        "`system()` and pipes of a script, unless --sandbox is required",
    ),
    ("mawk", "`system()` and pipes of a script"),
    (
        "sed",
        "the `e` command of a script, unless --sandbox is required",
    ),
    ("xargs", "its first argument"),
    ("env", "its first argument"),
    ("nice", "its first argument"),
    ("nohup", "its first argument"),
    ("timeout", "its first argument"),
    ("time", "its first argument"),
    ("make", "a makefile in the home"),
    ("tar", "--checkpoint-action, --to-command and -I"),
    ("sh", "its script"),
    ("bash", "its script"),
    ("dash", "its script"),
    ("zsh", "its script"),
    ("perl", "its script"),
    ("ruby", "its script"),
    ("vim", "`!`"),
    ("vi", "`!`"),
    ("less", "`!`"),
    ("man", "its pager"),
    ("ssh", "ProxyCommand and the far side"),
    ("gdb", "`shell`"),
    ("git-shell", "its commands"),
];

/// Warns of what an entry of a sound policy can start, and of lists that cancel each other.
pub(super) fn warn(r: &mut FieldReader<'_>, entry: &ProgramEntry) {
    starters(r, entry);
    own_lists(r, entry);
    for (name, sub) in entry.subcommands.iter().flatten() {
        r.under(name, |r| subcommand(r, entry, name, sub));
    }
}

fn requires(entry: &ProgramEntry, flag: &str) -> bool {
    entry
        .require_flags
        .iter()
        .any(|required| required.flag == flag)
}

fn allows(entry: &ProgramEntry, flag: &str) -> bool {
    let listed = entry.flags.names.get(flag);
    listed.is_some_and(|takes| !matches!(takes, FlagValue::OneOf(_)))
        || entry
            .flags
            .exact
            .iter()
            .any(|exact| exact.starts_with(flag))
}

fn starters(r: &mut FieldReader<'_>, entry: &ProgramEntry) {
    let starter = STARTERS.iter().find(|(name, _)| *name == entry.name);
    let is_pinned =
        requires(entry, "--sandbox") || entry.name == "xargs" && names_no_starter(entry);
    if let Some((name, how)) = starter.filter(|_| !is_pinned) {
        r.warn(entry.line, format!("`{name}` can start any program: {how}. What it starts stays in the sandbox, and this policy does not judge it"));
    }
    find(r, entry);
    for (validator, flags) in [
        (Validator::Python, &["-c", "-m"][..]),
        (
            Validator::Node,
            &[
                "-e",
                "--eval",
                "-p",
                "--print",
                "-r",
                "--require",
                "--import",
                "--loader",
            ],
        ),
        (Validator::Npx, &["-c", "--call"]),
        (
            Validator::Pytest,
            &[
                "-p",
                "-c",
                "--rootdir",
                "--confcutdir",
                "-o",
                "--override-ini",
            ],
        ),
    ] {
        for flag in flags
            .iter()
            .filter(|flag| entry.validator == validator && allows(entry, flag))
        {
            r.warn(
                entry.line,
                format!("`{flag}` runs code that the policy does not judge"),
            );
        }
    }
}

/// Returns whether the first arguments of an entry are listed, and none of them can start any program.
fn names_no_starter(entry: &ProgramEntry) -> bool {
    let is_starter = |program: &String| STARTERS.iter().any(|(name, _)| name == program);
    let first = entry.arguments.first.as_ref();
    first.is_some_and(|programs| !programs.iter().any(is_starter))
}

fn find(r: &mut FieldReader<'_>, entry: &ProgramEntry) {
    if entry.name != "find" {
        return;
    }
    let tokens = entry.tool.deny_tokens.as_ref();
    for flag in ["-exec", "-execdir", "-ok", "-okdir", "-delete"] {
        // Without a list of its own, an entry has the built-in one, which has all of these.
        let is_denied = tokens.is_none_or(|tokens| tokens.iter().any(|token| token == flag));
        let message = match (allows(entry, flag), is_denied) {
            (false, _) => continue,
            (true, true) => format!(
                "`find {flag}` could start any program or delete a tree; deny_tokens refuses it all the same"
            ),
            (true, false) => format!(
                "`find {flag}` can start any program or delete a tree; deny_tokens without it allows that"
            ),
        };
        r.warn(entry.line, message);
    }
}

/// A list that another one cancels.
fn own_lists(r: &mut FieldReader<'_>, entry: &ProgramEntry) {
    for flag in entry
        .deny_flags
        .iter()
        .filter(|flag| entry.flags.names.contains_key(*flag))
    {
        r.warn(
            entry.line,
            format!("`{flag}` is on flags and on deny_global_flags, which wins"),
        );
    }
    for name in &entry.deny_subcommands {
        if entry
            .subcommands
            .as_ref()
            .is_some_and(|all| all.contains_key(name))
        {
            r.warn(
                entry.line,
                format!("`{name}` is on subcommands and on deny_subcommands, which wins"),
            );
        }
    }
}

fn subcommand(r: &mut FieldReader<'_>, entry: &ProgramEntry, name: &str, sub: &SubCommand) {
    for flag in sub.flags.names.keys() {
        if entry.deny_flags.contains(flag) || sub.deny_flags.contains(flag) {
            r.warn(
                entry.line,
                format!("`{flag}` is on flags and on a list that refuses it, which wins"),
            );
        }
    }
    let how = match (entry.validator, name) {
        (
            Validator::Git,
            "bisect" | "difftool" | "mergetool" | "filter-branch" | "submodule" | "daemon" | "hook"
            | "instaweb",
        ) => "starts programs that its words or the repository name",
        (Validator::Git, "config") if sub.arguments.first.is_none() => {
            "sets what later commands of git start; first_argument limits the keys"
        }
        (
            Validator::Npm | Validator::Pnpm | Validator::Lerna,
            "exec" | "dlx" | "x" | "create" | "init",
        ) => "starts any package's program",
        _ => return,
    };
    r.warn(entry.line, format!("`{} {name}` {how}", entry.name));
}
