//! `-regex`, `-iregex` and `-regextype`: an expression that matches a whole path as printed.

use std::cell::RefCell;
use std::io;

use regex_automata::meta;

use crate::call::{CommandError, LineRejection, usage_error};
use crate::commands::expression::{
    InterruptibleDfa, PatternError, PosixSyntax, TOO_LARGE, compile_dfa, is_big,
    translate_for_paths,
};
use crate::deadline::Deadline;

/// A compiled expression for paths.
#[derive(Debug)]
pub(super) struct PathRegex {
    regex: meta::Regex,
    /// An interruptible automaton, for an expression whose search may take long.
    interruptible: Option<RefCell<InterruptibleDfa>>,
}

impl PathRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// A malformed expression, or an unsupported one.
    pub(super) fn new(
        typed: &[u8],
        pattern: &[u8],
        syntax: &PosixSyntax,
    ) -> Result<PathRegex, CommandError> {
        let compiled = compile(pattern, syntax, typed == b"-iregex");
        compiled.map_err(|wrong| match wrong {
            PatternError::Malformed(message) => {
                let before = b"failed to compile regular expression '";
                usage_error([&before[..], pattern, b"': ", message.as_bytes()].concat())
            }
            wrong => wrong.into_command_error("find -regex", 1),
        })
    }

    /// Returns whether a whole path matches.
    ///
    /// # Errors
    /// `TimedOut`, for an expression that may take long.
    pub(super) fn matches(&self, path: &[u8], deadline: &Deadline) -> io::Result<bool> {
        let interruptible = self.interruptible.as_ref();
        let found = interruptible.map(|interruptible| {
            let mut interruptible = interruptible.borrow_mut();
            interruptible.first_end(path, 0..path.len(), deadline)
        });
        match found {
            Some(Ok(end)) => Ok(end.is_some()),
            Some(Err(Some(error))) => Err(error),
            Some(Err(None)) | None => Ok(self.regex.is_match(path)),
        }
    }
}

fn compile(
    pattern: &[u8],
    syntax: &PosixSyntax,
    ignore_case: bool,
) -> Result<PathRegex, PatternError> {
    let hir = translate_for_paths(pattern, syntax, ignore_case)?;
    let regex = meta::Builder::new()
        .configure(meta::Config::new().utf8_empty(false))
        .build_from_hir(&hir)
        .map_err(|_| TOO_LARGE)?;
    let interruptible = match is_big(&hir) {
        true => Some(InterruptibleDfa::new(compile_dfa(&hir).ok_or(TOO_LARGE)?)),
        false => None,
    };
    Ok(PathRegex {
        regex,
        interruptible: interruptible.map(RefCell::new),
    })
}

/// Returns the dialect with a name of `-regextype`.
///
/// # Errors
/// An unknown name, in GNU's words.
pub(super) fn parse_syntax(name: &[u8]) -> Result<&'static PosixSyntax, CommandError> {
    PosixSyntax::named(name).ok_or_else(|| {
        let known: Vec<String> = PosixSyntax::names()
            .map(|name| format!("'{name}'"))
            .collect();
        let message = b"Unknown regular expression type '";
        let names = known.join(", ");
        usage_error([&message[..], name, b"'; valid types are ", names.as_bytes()].concat())
    })
}

/// Returns the rejection of a line with an unsupported expression, if it is one.
pub(super) fn unsupported_regex(
    typed: &[u8],
    pattern: &[u8],
    syntax: &PosixSyntax,
) -> Option<LineRejection> {
    let wrong = translate_for_paths(pattern, syntax, typed == b"-iregex").err()?;
    wrong.into_rejection("find -regex")
}
