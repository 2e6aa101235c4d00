//! The validators of programs' words: [`Validator`], by the names that policies use.

/// The kind of validator that judges the words of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Validator {
    /// The rules of every program, with the words of one that is known by name (`sort`, `cargo`), or of none (`""`).
    Generic(&'static str),
    Git,
    Pytest,
    Npm,
    Pnpm,
    Npx,
    Lerna,
    Node,
    Dotnet,
    Python,
    PowerShell,
    /// The entry `*`, which is no program.
    #[default]
    Every,
}

/// The programs that have a validator of their own.
const OWN: &[(&str, Validator)] = &[
    ("git", Validator::Git),
    ("pytest", Validator::Pytest),
    ("npm", Validator::Npm),
    ("pnpm", Validator::Pnpm),
    ("npx", Validator::Npx),
    ("lerna", Validator::Lerna),
    ("node", Validator::Node),
    ("dotnet", Validator::Dotnet),
    ("python", Validator::Python),
    ("python3", Validator::Python),
    ("powershell", Validator::PowerShell),
    ("pwsh", Validator::PowerShell),
    // What policies of this schema call the rules of every program.
    ("generic", Validator::Generic("")),
    ("os_basic", Validator::Generic("")),
];

/// The programs that the rules of every program know something about: which flags take values, which words are paths.
pub(super) const KNOWN: &[&str] = &[
    "awk",
    "basename",
    "cargo",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "env",
    "file",
    "find",
    "gawk",
    "grep",
    "gzip",
    "head",
    "jq",
    "make",
    "mawk",
    "printf",
    "sed",
    "seq",
    "sha256sum",
    "sort",
    "stat",
    "tail",
    "tar",
    "tee",
    "test",
    "tr",
    "uniq",
    "wc",
    "which",
    "whoami",
    "xargs",
];

impl Validator {
    /// Returns the validator that has this name.
    pub(super) fn named(name: &str) -> Option<Validator> {
        let own = OWN.iter().find(|(known, _)| *known == name);
        let known = || KNOWN.iter().find(|known| **known == name);
        own.map(|(_, validator)| *validator)
            .or_else(|| known().map(|name| Validator::Generic(name)))
    }

    /// Returns the validator of a program whose entry names none.
    pub(super) fn of_program(name: &str) -> Validator {
        Validator::named(name)
            .filter(|_| !matches!(name, "generic" | "os_basic"))
            .unwrap_or(Validator::Generic(""))
    }
}
