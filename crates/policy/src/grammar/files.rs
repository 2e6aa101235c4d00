//! The files of grammars that this program brings along, as text.

/// The grammars of some tools.
pub(super) struct GrammarFile {
    /// The tools, known without reading the file.
    pub(super) tools: &'static [&'static str],
    pub(super) text: &'static str,
}

pub(super) static FILES: [GrammarFile; 10] = [
    GrammarFile {
        tools: &[
            "basename",
            "cut",
            "dirname",
            "du",
            "echo",
            "env",
            "file",
            "head",
            "printf",
            "seq",
            "sha256sum",
            "sort",
            "stat",
            "tail",
            "tee",
            "test",
            "tr",
            "uniq",
            "wc",
            "which",
            "whoami",
        ],
        text: include_str!("../../grammars/basic.yaml"),
    },
    GrammarFile {
        tools: &["cargo"],
        text: include_str!("../../grammars/cargo.yaml"),
    },
    GrammarFile {
        tools: &["dotnet"],
        text: include_str!("../../grammars/dotnet.yaml"),
    },
    GrammarFile {
        tools: &["find", "xargs"],
        text: include_str!("../../grammars/findutils.yaml"),
    },
    GrammarFile {
        tools: &["git"],
        text: include_str!("../../grammars/git.yaml"),
    },
    GrammarFile {
        tools: &["make"],
        text: include_str!("../../grammars/make.yaml"),
    },
    GrammarFile {
        tools: &["node"],
        text: include_str!("../../grammars/node.yaml"),
    },
    GrammarFile {
        tools: &["lerna", "npm", "npx", "pnpm"],
        text: include_str!("../../grammars/npm.yaml"),
    },
    GrammarFile {
        tools: &["pytest", "python"],
        text: include_str!("../../grammars/python.yaml"),
    },
    GrammarFile {
        tools: &[
            "awk", "diff", "gawk", "grep", "gzip", "jq", "mawk", "sed", "tar",
        ],
        text: include_str!("../../grammars/text_tools.yaml"),
    },
];

/// Returns the name of a tool that has a shipped grammar, and the file.
pub(super) fn find(tool: &str) -> Option<(&'static str, &'static GrammarFile)> {
    FILES.iter().find_map(|file| {
        let name = file.tools.iter().find(|name| **name == tool)?;
        Some((*name, file))
    })
}

/// Returns the name of a tool that has a shipped grammar.
pub(in super::super) fn name(tool: &str) -> Option<&'static str> {
    find(tool).map(|(name, _)| name)
}
