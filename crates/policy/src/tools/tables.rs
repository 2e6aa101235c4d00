//! Flags and arguments of programs by their manuals: GNU coreutils, findutils, sed, gawk, diffutils, tar,
//! gzip, grep, make; jq; Cargo. A program that is here behaves as its manual says, so a wrong line is a hole: tests in
//! the table of decisions go through them.

/// The flags and arguments of one program. The lists are separated by blanks.
pub(super) struct ProgramFacts {
    pub(super) program: &'static str,
    /// Flags with a value that may name a file.
    pub(super) path: &'static str,
    /// Flags with a value that names none.
    pub(super) text: &'static str,
    /// Flags with a value behind `=`, or none.
    pub(super) attached: &'static str,
    pub(super) arguments: ArgumentSyntax,
    /// Words that are refused wherever they stand, unless an entry has a list of its own.
    pub(super) tokens: &'static [&'static str],
    pub(super) aliases: &'static [(&'static str, &'static str)],
}

/// The way in which a program reads its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentSyntax {
    /// Each may name a file.
    Paths,
    /// None does.
    Texts,
    /// The first is an expression or a script, unless one of these flags brings one; the others may name files.
    Script(&'static [&'static str]),
    /// The first is another program, and what follows belongs to it.
    Program,
}

const PLAIN: ProgramFacts = ProgramFacts {
    program: "",
    path: "",
    text: "",
    attached: "",
    arguments: ArgumentSyntax::Paths,
    tokens: &[],
    aliases: &[],
};

/// Programs by name.
pub(super) const TABLES: &[ProgramFacts] = &[
    ProgramFacts {
        program: "awk",
        path: "-f --file",
        text: "-F -v --field-separator --assign",
        arguments: ArgumentSyntax::Script(&["-f", "--file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "gawk",
        path: "-f --file",
        text: "-F -v --field-separator --assign",
        arguments: ArgumentSyntax::Script(&["-f", "--file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "mawk",
        path: "-f --file",
        text: "-F -v --field-separator --assign",
        arguments: ArgumentSyntax::Script(&["-f", "--file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "basename",
        text: "-s --suffix",
        ..PLAIN
    },
    ProgramFacts {
        program: "cargo",
        path: "--manifest-path --target-dir --lockfile-path --path -C -p --package --exclude --bin --example --test --bench --config --root --target",
        text: "-j --jobs -F --features --profile --color --message-format -Z --edition --depth -e --edges -i --invert --prune -f --format --limit --name --vcs --rename --branch --tag --rev",
        attached: "--timings --list",
        aliases: &[
            ("b", "build"),
            ("c", "check"),
            ("d", "doc"),
            ("t", "test"),
            ("r", "run"),
            ("rm", "remove"),
        ],
        ..PLAIN
    },
    ProgramFacts {
        program: "cut",
        text: "-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
        ..PLAIN
    },
    ProgramFacts {
        program: "diff",
        text: "-U -C -W -I -L -F -x --label --width --ignore-matching-lines --show-function-line --exclude",
        attached: "--color --unified --context",
        path: "-S -X --from-file --to-file --starting-file --exclude-from",
        ..PLAIN
    },
    ProgramFacts {
        program: "du",
        text: "-d -t -B --max-depth --threshold --block-size --exclude",
        path: "-X --files0-from --exclude-from",
        attached: "--time",
        ..PLAIN
    },
    ProgramFacts {
        program: "echo",
        arguments: ArgumentSyntax::Texts,
        ..PLAIN
    },
    ProgramFacts {
        program: "env",
        path: "-C --chdir",
        text: "-u --unset",
        arguments: ArgumentSyntax::Program,
        ..PLAIN
    },
    ProgramFacts {
        program: "file",
        path: "-m -f --magic-file --files-from",
        text: "-F -P --separator --parameter",
        ..PLAIN
    },
    ProgramFacts {
        program: "find",
        text: "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size -mtime -atime -ctime -mmin -amin -cmin -newermt -perm -user -group -uid -gid -links -inum -used -fstype -printf",
        path: "-newer -anewer -cnewer -samefile",
        tokens: &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "-files0-from",
        ],
        ..PLAIN
    },
    ProgramFacts {
        program: "grep",
        text: "-e --regexp -m --max-count -A -B -C --after-context --before-context --context --include --exclude --exclude-dir --label -D -d --devices --directories --binary-files",
        path: "-f --file --exclude-from",
        attached: "--color --colour",
        arguments: ArgumentSyntax::Script(&["-e", "--regexp", "-f", "--file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "gzip",
        text: "-S --suffix",
        ..PLAIN
    },
    ProgramFacts {
        program: "head",
        text: "-n -c --lines --bytes",
        ..PLAIN
    },
    ProgramFacts {
        program: "jq",
        path: "-f --from-file -L",
        text: "--indent",
        arguments: ArgumentSyntax::Script(&["-f", "--from-file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "make",
        path: "-f -C -I -o -W --file --makefile --directory --include-dir --old-file --what-if",
        text: "",
        attached: "-j -l --jobs --load-average",
        ..PLAIN
    },
    ProgramFacts {
        program: "printf",
        arguments: ArgumentSyntax::Texts,
        ..PLAIN
    },
    ProgramFacts {
        program: "sed",
        path: "-f --file",
        text: "-e --expression -l --line-length",
        attached: "-i --in-place",
        arguments: ArgumentSyntax::Script(&["-e", "--expression", "-f", "--file"]),
        ..PLAIN
    },
    ProgramFacts {
        program: "seq",
        text: "-f -s --format --separator",
        arguments: ArgumentSyntax::Texts,
        ..PLAIN
    },
    ProgramFacts {
        program: "sort",
        path: "-o -T --output --temporary-directory --files0-from --random-source --compress-program",
        text: "-k -t -S --key --field-separator --buffer-size --batch-size --parallel",
        ..PLAIN
    },
    ProgramFacts {
        program: "stat",
        text: "-c --format --printf",
        ..PLAIN
    },
    ProgramFacts {
        program: "tail",
        text: "-n -c --lines --bytes",
        ..PLAIN
    },
    ProgramFacts {
        program: "tar",
        path: "-f -C -T -X -I -g --file --directory --files-from --exclude-from --use-compress-program --listed-incremental --add-file --mtime",
        text: "--exclude --strip-components --transform --owner --group --mode --sort --format",
        ..PLAIN
    },
    ProgramFacts {
        program: "tr",
        arguments: ArgumentSyntax::Texts,
        ..PLAIN
    },
    ProgramFacts {
        program: "uniq",
        text: "-f -s -w --skip-fields --skip-chars --check-chars",
        ..PLAIN
    },
    ProgramFacts {
        program: "which",
        arguments: ArgumentSyntax::Texts,
        ..PLAIN
    },
    ProgramFacts {
        program: "xargs",
        path: "-a --arg-file",
        text: "-d -E -I -L -n -P -s --delimiter --max-args --max-procs --max-chars --process-slot-var",
        arguments: ArgumentSyntax::Program,
        ..PLAIN
    },
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// As for git: a program with such a flag and nothing behind it must miss a value. What is not installed here, or does
    /// not know the flag, says nothing about it.
    #[test]
    fn flags_that_take_any_word_take_one() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wrong, mut asked) = (Vec::new(), 0);
        for known in TABLES.iter().filter(|known| known.program != "cargo") {
            for flag in known.text.split(' ').filter(|flag| !flag.is_empty()) {
                let mut command = Command::new(known.program);
                command.args((known.program == "find").then_some("."));
                command
                    .arg(flag)
                    .current_dir(dir.path())
                    .env("LC_ALL", "C")
                    .stdin(Stdio::null());
                let Ok(output) = command.output() else {
                    continue;
                };
                asked += 1;
                let said = String::from_utf8_lossy(&output.stderr);
                let misses = [
                    "argument",
                    "parameter",
                    "requires",
                    "not an option",
                    "unrecognized",
                ];
                if output.status.success() || !misses.iter().any(|miss| said.contains(miss)) {
                    wrong.push(format!("{} {flag}: {said}", known.program));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(asked > 20, "only {asked} flags could be tried");
    }
}
