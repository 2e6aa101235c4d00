//! Flags of git's sub-commands that take values, by their manual pages (git 2.47). A flag that is not here takes none:
//! the word behind it is then looked at by itself.

use super::super::schema::{FlagValue, WordReading};

/// Flags of some sub-commands. All lists are separated by blanks.
struct FlagRow {
    subcommands: &'static str,
    /// With a value that names no file of the home's surroundings: messages, dates, formats, numbers, patterns.
    text: &'static str,
    /// With a value that may name a file or a revision.
    path: &'static str,
    /// With a value in the same word, or none.
    attached: &'static str,
}

const ROWS: &[FlagRow] = &[
    FlagRow {
        subcommands: "log show rev-list reflog whatchanged range-diff format-patch diff diff-tree diff-index diff-files",
        text: "--max-count --skip --since --after --until --before --author --committer --grep -S -G -L --diff-filter --word-diff-regex --inter-hunk-context --date --encoding --src-prefix --dst-prefix --line-prefix --ws-error-highlight -I --ignore-matching-lines --anchored --diff-algorithm --diff-merges",
        path: "--output -O --glob --exclude --skip-to --rotate-to",
        attached: "-U --unified --pretty --format --stat --color --abbrev -M -C -B -D --find-renames --find-copies --break-rewrites --decorate --branches --tags --remotes --relative --word-diff --color-moved --color-moved-ws --submodule --ignore-submodules --dirstat --max-parents --min-parents --stat-width -l -X -w --textconv",
    },
    // Where it is no number of commits: `format-patch -n` numbers, `diff -n` is nothing.
    FlagRow {
        subcommands: "log show rev-list reflog whatchanged",
        text: "-n",
        path: "",
        attached: "",
    },
    FlagRow {
        subcommands: "shortlog",
        text: "--since --after --until --before --author --grep --group --date --max-count --skip",
        path: "",
        attached: "-w --format",
    },
    FlagRow {
        subcommands: "format-patch",
        text: "--start-number -v --reroll-count --subject-prefix --to --cc --in-reply-to --suffix --filename-max-length",
        path: "-o --output-directory --interdiff --range-diff --signature-file --base",
        attached: "--thread --from --attach --inline --cover-from-description --rfc",
    },
    FlagRow {
        subcommands: "commit",
        text: "-m --message --author --date --trailer --cleanup",
        path: "-F --file -t --template -C -c --reuse-message --reedit-message --fixup --squash --pathspec-from-file",
        attached: "-S --gpg-sign -u --untracked-files",
    },
    FlagRow {
        subcommands: "status",
        text: "",
        path: "",
        attached: "--porcelain -u --untracked-files --ignore-submodules --ignored --column -M --find-renames",
    },
    FlagRow {
        subcommands: "blame annotate",
        text: "-L --since --date --abbrev",
        path: "-S --contents --ignore-rev --ignore-revs-file",
        attached: "-C -M",
    },
    FlagRow {
        subcommands: "branch",
        text: "--sort --format",
        path: "-u --set-upstream-to --contains --no-contains --points-at",
        attached: "--color --abbrev --column --track -t",
    },
    FlagRow {
        subcommands: "checkout switch restore",
        text: "--conflict",
        path: "-b -B -c -C --create --force-create --orphan -s --source --pathspec-from-file",
        attached: "--track -t --recurse-submodules",
    },
    FlagRow {
        subcommands: "tag",
        text: "-m --message --trailer --sort --format --cleanup",
        path: "-F --file -u --local-user --contains --no-contains --points-at",
        attached: "-n --column --color",
    },
    FlagRow {
        subcommands: "merge pull revert cherry-pick rebase",
        text: "-X --strategy-option --cleanup",
        path: "--strategy --onto --into-name",
        attached: "--log -S --gpg-sign --rebase --recurse-submodules --rebase-merges --autostash",
    },
    FlagRow {
        subcommands: "merge",
        text: "-m --message",
        path: "-F --file -s",
        attached: "",
    },
    FlagRow {
        subcommands: "rebase",
        text: "-C --whitespace",
        path: "-s -x --exec",
        attached: "",
    },
    FlagRow {
        subcommands: "pull",
        text: "",
        path: "-s",
        attached: "",
    },
    FlagRow {
        subcommands: "cherry-pick revert",
        text: "-m --mainline",
        path: "",
        attached: "",
    },
    FlagRow {
        subcommands: "stash",
        text: "-m --message",
        path: "--pathspec-from-file",
        attached: "",
    },
    FlagRow {
        subcommands: "clone fetch pull push ls-remote",
        text: "--depth --deepen --shallow-since -j --jobs --server-option --push-option --filter --sort",
        path: "--upload-pack --receive-pack --exec --refmap --shallow-exclude --negotiation-tip --repo",
        attached: "--recurse-submodules --force-with-lease --signed",
    },
    FlagRow {
        subcommands: "clone",
        text: "-c --config --bundle-uri",
        path: "-b --branch -o --origin -u --template --reference --reference-if-able --separate-git-dir --revision",
        attached: "",
    },
    FlagRow {
        subcommands: "grep",
        text: "-e -A -B -C --after-context --before-context --context -m --max-count --max-depth --threads",
        path: "-f",
        attached: "-O --open-files-in-pager --color",
    },
    FlagRow {
        subcommands: "describe",
        text: "--match --exclude --candidates",
        path: "",
        attached: "--dirty --broken --abbrev",
    },
    FlagRow {
        subcommands: "archive",
        text: "--format --prefix --mtime",
        path: "-o --output --remote --exec --add-file",
        attached: "",
    },
    FlagRow {
        subcommands: "ls-files",
        text: "-x --exclude --format",
        path: "-X --exclude-from --exclude-per-directory --with-tree",
        attached: "--abbrev --color",
    },
    FlagRow {
        subcommands: "for-each-ref",
        text: "--format --sort --count --exclude",
        path: "--points-at --contains --no-contains",
        attached: "--color",
    },
    FlagRow {
        subcommands: "ls-tree",
        text: "--format",
        path: "",
        attached: "--abbrev",
    },
    FlagRow {
        subcommands: "clean",
        text: "-e --exclude",
        path: "",
        attached: "",
    },
    FlagRow {
        subcommands: "config",
        text: "--default --type --comment --value",
        path: "-f --file --blob",
        attached: "",
    },
    FlagRow {
        subcommands: "apply am",
        text: "--include --exclude --whitespace",
        path: "--directory --build-fake-ancestor",
        attached: "-p -C",
    },
    FlagRow {
        subcommands: "init",
        text: "--object-format --ref-format",
        path: "-b --initial-branch --template --separate-git-dir",
        attached: "--shared",
    },
    FlagRow {
        subcommands: "add rm reset",
        text: "--chmod",
        path: "--pathspec-from-file",
        attached: "",
    },
    FlagRow {
        subcommands: "worktree",
        text: "--reason --expire",
        path: "-b -B",
        attached: "",
    },
    FlagRow {
        subcommands: "notes",
        text: "-m",
        path: "-F -C -c --ref",
        attached: "",
    },
    FlagRow {
        subcommands: "rev-parse",
        text: "",
        path: "--git-path --resolve-git-dir --prefix",
        attached: "--short --abbrev-ref --disambiguate --branches --tags",
    },
];

/// Returns what a flag of a sub-command takes, where it takes a value.
pub(super) fn takes(subcommand: &str, flag: &str) -> Option<FlagValue> {
    let has = |list: &str, name: &str| list.split(' ').any(|listed| listed == name);
    for row in ROWS.iter().filter(|row| has(row.subcommands, subcommand)) {
        if has(row.text, flag) {
            return Some(FlagValue::Value(WordReading::Text));
        }
        if has(row.path, flag) {
            return Some(FlagValue::Value(WordReading::Path));
        }
        if has(row.attached, flag) {
            return Some(FlagValue::Attached(WordReading::Text));
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A flag that is said to take the next word and does not would let that word pass unseen. So git, asked with such a
    /// flag and nothing behind it, must miss a value, or not know the flag.
    #[test]
    fn flags_that_take_any_word_take_one() {
        if Command::new("git").arg("--version").output().is_err() {
            crate::need::skip!("git", "needs git");
        }
        let dir = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(dir.path())
                .args(words)
                .env("LC_ALL", "C")
                .env("GIT_EDITOR", "true");
            git.env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CEILING_DIRECTORIES", dir.path());
            git.stdin(std::process::Stdio::null()).output().unwrap()
        };
        for words in [
            &["init", "-q"][..],
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "x",
            ],
        ] {
            assert!(git(words).status.success());
        }
        let misses = [
            "value",
            "argument",
            "unknown",
            "invalid option",
            "unrecognized",
            "expects",
            "requires",
            "usage:",
        ];
        let mut wrong = Vec::new();
        for row in ROWS {
            for (subcommand, flag) in row
                .subcommands
                .split(' ')
                .flat_map(|sub| row.text.split(' ').map(move |flag| (sub, flag)))
            {
                if flag.is_empty() {
                    continue;
                }
                let output = git(&[subcommand, flag]);
                let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
                if output.status.success() || !misses.iter().any(|miss| said.contains(miss)) {
                    wrong.push(format!("git {subcommand} {flag}: {said}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
