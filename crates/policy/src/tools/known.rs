//! Lookups about programs that have no validator of their own: which of their flags take values, which of their
//! arguments name files.
//!
//! A flag that is not here takes no next word, so that word is looked at by itself: what is missing here refuses too
//! much, never too little.

use super::super::scan::ScanResult;
use super::super::schema::{FlagValue, WordReading};
use super::tables::{ArgumentSyntax, ProgramFacts, TABLES};

fn known(program: &str) -> Option<&'static ProgramFacts> {
    TABLES.iter().find(|known| known.program == program)
}

fn has(list: &str, name: &str) -> bool {
    list.split(' ').any(|listed| listed == name)
}

/// Returns what a flag takes, where that is known.
pub(super) fn takes(program: &str, flag: &str) -> Option<FlagValue> {
    let known = known(program)?;
    if has(known.path, flag) {
        return Some(FlagValue::Value(WordReading::Path));
    }
    if has(known.text, flag) {
        return Some(FlagValue::Value(WordReading::Text));
    }
    has(known.attached, flag).then_some(FlagValue::Attached(WordReading::Path))
}

/// Returns what a sub-command is called that has another name too.
pub(super) fn alias<'n>(program: &str, name: &'n str) -> &'n str {
    let aliases = known(program)
        .map(|known| known.aliases)
        .unwrap_or_default();
    let found = aliases.iter().find(|(short, _)| *short == name);
    found.map_or(name, |(_, long)| long)
}

/// Returns the words that are refused wherever they stand.
pub(super) fn tokens(program: &str) -> &'static [&'static str] {
    known(program).map(|known| known.tokens).unwrap_or_default()
}

/// Returns whether `-ab` is `-a -b`.
pub(super) fn has_clusters(program: &str) -> bool {
    !matches!(program, "find" | "test")
}

/// Returns whether a flag takes the next word for its value even where that begins with a dash, as getopt(3) has it.
/// clap, which reads Cargo's, does not.
pub(super) fn takes_dashed(program: &str) -> bool {
    !matches!(program, "" | "cargo")
}

/// Returns whether the first argument ends the flags: what follows are texts, whatever they begin with.
pub(super) fn ends_flags(program: &str) -> bool {
    matches!(program, "echo" | "printf")
}

/// Returns whether the program starts another one, which its arguments name.
pub(super) fn runs_another(program: &str) -> bool {
    known(program).is_some_and(|known| known.arguments == ArgumentSyntax::Program)
}

/// The reading of the arguments of one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArgumentOrder {
    first: WordReading,
    others: WordReading,
}

impl ArgumentOrder {
    /// Returns how the argument with a number, from 0, is read.
    pub(super) fn of(self, number: usize) -> WordReading {
        match number {
            0 => self.first,
            _ => self.others,
        }
    }
}

/// Returns how the arguments of a command are read.
pub(super) fn arguments(program: &str, scanned: &ScanResult<'_>) -> ArgumentOrder {
    let words = known(program).map_or(ArgumentSyntax::Paths, |known| known.arguments);
    let (first, others) = match words {
        ArgumentSyntax::Paths | ArgumentSyntax::Program => (WordReading::Path, WordReading::Path),
        ArgumentSyntax::Texts => (WordReading::Text, WordReading::Text),
        ArgumentSyntax::Script(flags) => {
            let is_brought = flags
                .iter()
                .any(|flag| scanned.named(flag).next().is_some());
            (
                if is_brought {
                    WordReading::Path
                } else {
                    WordReading::Text
                },
                WordReading::Path,
            )
        }
    };
    ArgumentOrder { first, others }
}

/// Returns the first word where it stands for flags although it has no dash: `tar czf x`.
pub(super) fn refused_first<'w>(program: &str, word: Option<&'w Vec<u8>>) -> Option<&'w [u8]> {
    let word = word.filter(|_| program == "tar")?;
    (!word.starts_with(b"-")).then_some(word.as_slice())
}
