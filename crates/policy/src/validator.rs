//! The validators of programs' words: [`Validator`], by the names that policies use.

use super::grammar;

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

impl Validator {
    /// Returns the validator that has this name.
    pub(super) fn named(name: &str) -> Option<Validator> {
        let own = OWN.iter().find(|(known, _)| *known == name);
        own.map(|(_, validator)| *validator)
            .or_else(|| grammar::name(name).map(Validator::Generic))
    }

    /// Returns the name of the shipped grammar; that of no tool where nothing is known.
    pub(super) fn tool(self) -> &'static str {
        match self {
            Validator::Generic(name) => name,
            Validator::Git => "git",
            Validator::Pytest => "pytest",
            Validator::Npm => "npm",
            Validator::Pnpm => "pnpm",
            Validator::Npx => "npx",
            Validator::Lerna => "lerna",
            Validator::Node => "node",
            Validator::Dotnet => "dotnet",
            Validator::Python => "python",
            Validator::PowerShell | Validator::Every => "",
        }
    }

    /// Returns the validator of a program whose entry names none.
    pub(super) fn of_program(name: &str) -> Validator {
        Validator::named(name)
            .filter(|_| !matches!(name, "generic" | "os_basic"))
            .unwrap_or(Validator::Generic(""))
    }
}
