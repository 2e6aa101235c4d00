//! The syntax of tools' command lines: [`ToolGrammar`]. The shipped ones are files in `grammars/`, whose README has the
//! keys; a policy adds to them by the key `grammar`.

mod files;
mod flag_value;
mod read;
mod shipped;
mod tool;

pub(super) use files::name;
pub(super) use flag_value::{FlagValue, WordReading};
pub(super) use read::extended;
pub(super) use shipped::grammar;
pub(super) use tool::{
    ArgumentSyntax, FlagFact, FlagWord, ScriptWords, ToolGrammar, UNKNOWN, WordSyntax,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
