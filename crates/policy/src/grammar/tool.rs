//! [`ToolGrammar`]: the syntax of one tool's command line, and the lookups in it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::flag_value::{FlagValue, WordReading};

/// The facts about flags, by name.
pub(super) type FlagTable = BTreeMap<String, FlagFact>;

/// The facts about one flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct FlagFact {
    pub(in super::super) takes: FlagValue,
    /// True if the tool takes the next word as a value even where it begins with a dash.
    pub(in super::super) takes_dashed: bool,
}

/// The flags of some sub-commands.
#[derive(Debug, Clone, Default)]
pub(super) struct SubcommandGrammar {
    pub(super) names: Vec<String>,
    pub(super) flags: FlagTable,
    pub(super) script_flags: Option<Vec<String>>,
}

/// The way in which a tool reads its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ArgumentSyntax {
    /// Each may name a file.
    Paths,
    /// None does.
    Texts,
    /// The first is another program, and the words behind it belong to it.
    Program,
    /// Each names a project or a file of tests, which a sub-command allows or not.
    Projects,
}

/// The syntax of a word that may name a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum WordSyntax {
    Paths,
    /// Revisions, ranges, pathspecs and addresses of repositories.
    Git,
}

/// The way in which words reach a package's script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ScriptWords {
    /// At once.
    Direct,
    /// Behind `--`.
    Dashed,
}

/// The syntax of a tool's command line. `grammars/README.md` has the meaning of each field, by the same name.
#[derive(Debug, Clone)]
pub(in super::super) struct ToolGrammar {
    pub(super) flags: FlagTable,
    /// In the order of the file: the first that has a flag counts.
    pub(super) subcommands: Vec<SubcommandGrammar>,
    /// Other names of sub-commands, with the one that a policy uses.
    pub(super) aliases: BTreeMap<String, String>,
    /// Other names of flags, with the one of the table.
    pub(super) spellings: BTreeMap<String, String>,
    /// Other words of a flag's value, by the flag.
    pub(super) values: BTreeMap<String, Vec<(String, String)>>,
    pub(super) script_flags: Option<Vec<String>>,
    pub(super) negations: bool,
    pub(super) dashed_values: bool,
    pub(in super::super) clusters: bool,
    pub(in super::super) needs_subcommand: bool,
    pub(in super::super) root_flags: bool,
    pub(in super::super) idle: bool,
    pub(in super::super) arguments: ArgumentSyntax,
    pub(in super::super) flags_end: bool,
    pub(in super::super) last_flags: Vec<String>,
    pub(in super::super) bare_flags: bool,
    pub(in super::super) deny_tokens: Vec<String>,
    pub(in super::super) information: Vec<String>,
    pub(in super::super) greedy: bool,
    pub(in super::super) words: WordSyntax,
    pub(in super::super) line_ranges: Vec<String>,
    pub(in super::super) slashes: bool,
    pub(in super::super) scripts: Option<ScriptWords>,
    pub(in super::super) environment: BTreeMap<String, String>,
    pub(in super::super) project_programs: Option<String>,
}

/// The grammar of a tool of which nothing is known: no flag takes the next word, and each argument may name a file.
pub(in super::super) const UNKNOWN: ToolGrammar = ToolGrammar {
    flags: BTreeMap::new(),
    subcommands: Vec::new(),
    aliases: BTreeMap::new(),
    spellings: BTreeMap::new(),
    values: BTreeMap::new(),
    script_flags: None,
    negations: false,
    dashed_values: false,
    clusters: true,
    needs_subcommand: false,
    root_flags: true,
    idle: false,
    arguments: ArgumentSyntax::Paths,
    flags_end: false,
    last_flags: Vec::new(),
    bare_flags: false,
    deny_tokens: Vec::new(),
    information: Vec::new(),
    greedy: false,
    words: WordSyntax::Paths,
    line_ranges: Vec::new(),
    slashes: false,
    scripts: None,
    environment: BTreeMap::new(),
    project_programs: None,
};

/// A word that is a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct FlagWord<'w> {
    /// The name of the flag, as the table has it.
    pub(in super::super) name: Cow<'w, str>,
    /// The value in the same word.
    pub(in super::super) value: Option<&'w str>,
}

impl ToolGrammar {
    /// Returns what is known of a flag, behind a sub-command or without one.
    ///
    /// A flag that is not here takes no next word, so that word is looked at by itself: what is missing here refuses too
    /// much, never too little.
    pub(in super::super) fn fact(&self, subcommand: Option<&str>, flag: &str) -> Option<FlagFact> {
        let rows = subcommand.into_iter().flat_map(|name| self.rows(name));
        let tables = rows.map(|row| &row.flags).chain([&self.flags]);
        let fact = tables.into_iter().find_map(|flags| flags.get(flag));
        let is_negation = || self.negations && flag.starts_with("--no-");
        fact.cloned().or_else(|| {
            is_negation().then_some(FlagFact {
                takes: FlagValue::Attached(WordReading::Path),
                takes_dashed: false,
            })
        })
    }

    fn rows(&self, subcommand: &str) -> impl Iterator<Item = &SubcommandGrammar> {
        let is_of = move |row: &&SubcommandGrammar| row.names.iter().any(|name| name == subcommand);
        self.subcommands.iter().filter(is_of)
    }

    /// Returns the flags that bring a script, if the first argument is one without them.
    pub(in super::super) fn script_flags(&self, subcommand: Option<&str>) -> Option<&[String]> {
        match subcommand {
            Some(name) => self.rows(name).find_map(|row| row.script_flags.as_deref()),
            None => self.script_flags.as_deref(),
        }
    }

    /// Returns the name by which a policy calls a sub-command.
    pub(in super::super) fn subcommand_name<'n>(&'n self, typed: &'n str) -> &'n str {
        self.aliases.get(typed).map_or(typed, String::as_str)
    }

    /// Takes a word apart; nothing for one that is no flag.
    pub(in super::super) fn flag_word<'w>(&self, word: &'w str) -> Option<FlagWord<'w>> {
        if !self.slashes {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let is_flag = word.len() > 1 && word.starts_with('-');
            return is_flag.then_some(FlagWord {
                name: name.into(),
                value,
            });
        }
        if word.starts_with('@') {
            return Some(FlagWord {
                name: word.into(),
                value: None,
            });
        }
        let rest = word
            .strip_prefix("--")
            .or_else(|| word.strip_prefix(['-', '/']))?;
        let (name, value) = match rest.split_once([':', '=']) {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        let name = format!("--{name}");
        let name = self.spellings.get(&name).cloned().unwrap_or(name);
        Some(FlagWord {
            name: name.into(),
            value,
        })
    }

    /// Returns whether a flag of a policy is the flag of this name.
    pub(in super::super) fn is_same_flag(&self, listed: &str, name: &str) -> bool {
        listed == name
            || self.slashes
                && self
                    .flag_word(listed)
                    .is_some_and(|listed| listed.name == name)
    }

    /// Returns the word that a value of a flag stands for.
    pub(in super::super) fn value_word(&self, flag: &str, value: Vec<u8>) -> Vec<u8> {
        let words = self.values.get(flag).into_iter().flatten();
        let is_same = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
        let found = words
            .into_iter()
            .find(|(other, long)| is_same(other) || is_same(long));
        match found {
            Some((_, long)) => long.as_bytes().to_vec(),
            None => value,
        }
    }
}
