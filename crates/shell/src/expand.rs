//! Expansion of words in bash's order: braces, tilde, variables and commands, splitting at blanks, globs, quote
//! removal (bash(1), EXPANSION).

use std::io;

use super::call::ShellState;
use super::syntax::{CommandList, Word, WordAtom};
use super::{brace, glob};

/// A function that runs a command substitution and returns its output.
pub(super) type SubstitutionFn<'r> =
    dyn FnMut(&mut ShellState, &CommandList) -> io::Result<Vec<u8>> + 'r;

/// A word of a command after expansion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ExpandedWord {
    /// The word as passed to the command.
    pub(super) text: Vec<u8>,
    /// The word as typed, where a tilde stood for the root.
    pub(super) tilde: Option<Vec<u8>>,
}

/// The reason for which a word cannot be expanded.
#[derive(Debug)]
pub(super) enum ExpansionError {
    /// A message, to be printed after `bash: `.
    Message(Vec<u8>),
    /// The line's time limit has passed.
    Stopped(io::Error),
}

impl From<io::Error> for ExpansionError {
    fn from(error: io::Error) -> ExpansionError {
        ExpansionError::Stopped(error)
    }
}

/// Expands the words of a command.
pub(super) fn expand_words(
    words: &[Word],
    state: &mut ShellState,
    run: &mut SubstitutionFn<'_>,
) -> Result<Vec<ExpandedWord>, ExpansionError> {
    let mut fields = Vec::new();
    for word in words {
        let Some(braced) = brace::expand(word) else {
            return Err(ExpansionError::Message(b"braces: too many words".to_vec()));
        };
        for word in braced {
            for part in split_word(&word, state, run)? {
                part.globbed(state, &mut fields)?;
            }
        }
    }
    Ok(fields)
}

/// Expands a word without splitting it: the value of an assignment, the text of a here-document.
pub(super) fn expand_text(
    word: &Word,
    state: &mut ShellState,
    run: &mut SubstitutionFn<'_>,
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for (at, atom) in word.0.iter().enumerate() {
        match atom {
            WordAtom::Plain(b'~') if begins_tilde(&word.0, at) => {
                text.extend_from_slice(&root_path(state))
            }
            WordAtom::Plain(byte) | WordAtom::Quoted(byte) => text.push(*byte),
            WordAtom::Nothing => {}
            WordAtom::Variable(name, _) | WordAtom::Bare(name) => {
                let value = variable_value(name, state);
                state.deadline.hold_memory(value.len())?;
                text.extend(value);
            }
            WordAtom::Command(list, _) => text.extend(clean_output(run(state, list)?)),
        }
    }
    Ok(text)
}

/// Returns whether a tilde stands for the home: at the start of a word (in a value, also after a colon), and before a
/// slash or the end, which in a here-string is its newline. `~user` is literal.
fn begins_tilde(atoms: &[WordAtom], at: usize) -> bool {
    let begins = at == 0 || atoms.get(at - 1) == Some(&WordAtom::Plain(b':'));
    let ends = matches!(
        atoms.get(at + 1),
        None | Some(WordAtom::Plain(b'/' | b':' | b'\n'))
    );
    begins && ends
}

fn root_path(state: &ShellState) -> Vec<u8> {
    state.display_path(&trumanfs_types::name::WorldPath::root())
}

fn variable_value(name: &[u8], state: &ShellState) -> Vec<u8> {
    match name {
        b"?" => state.status.to_string().into_bytes(),
        name => state.variables.get(name).cloned().unwrap_or_default(),
    }
}

/// Removes trailing newlines and NUL bytes from a command's output, as in bash.
fn clean_output(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.retain(|b| *b != 0);
    let end = bytes
        .iter()
        .rposition(|b| *b != b'\n')
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

/// A part of a word after splitting.
#[derive(Debug, Default)]
struct WordPart {
    /// The bytes, each with true if it may be special in a glob.
    bytes: Vec<(u8, bool)>,
    /// True if the part is a word even if it is empty.
    is_forced: bool,
    /// The length of the expansion of a tilde at its start.
    tilde: usize,
}

impl WordPart {
    fn push(&mut self, bytes: impl IntoIterator<Item = u8>, special: bool) {
        self.bytes
            .extend(bytes.into_iter().map(|byte| (byte, special)));
    }

    /// Expands globs, if there are any.
    fn globbed(self, state: &ShellState, fields: &mut Vec<ExpandedWord>) -> io::Result<()> {
        let text: Vec<u8> = self.bytes.iter().map(|(byte, _)| *byte).collect();
        if self
            .bytes
            .iter()
            .any(|(byte, special)| *special && matches!(byte, b'*' | b'?' | b'['))
        {
            let mut pattern = Vec::with_capacity(text.len() * 2);
            for (byte, special) in &self.bytes {
                // A slash separates the parts of a pattern, quoted or not.
                if !special && *byte != b'/' {
                    pattern.push(b'\\');
                }
                pattern.push(*byte);
            }
            // A backslash that came out of a variable takes what follows it out of the pattern, as in bash.
            let found = if glob::is_pattern(&pattern) {
                glob::expand(state, &pattern)?
            } else {
                Vec::new()
            };
            if !found.is_empty() {
                fields.extend(
                    found
                        .into_iter()
                        .map(|text| ExpandedWord { text, tilde: None }),
                );
                return Ok(());
            }
        }
        let tilde = (self.tilde > 0).then(|| {
            let mut typed = b"~".to_vec();
            typed.extend(text.iter().skip(self.tilde));
            typed
        });
        fields.push(ExpandedWord { text, tilde });
        Ok(())
    }
}

fn split_word(
    word: &Word,
    state: &mut ShellState,
    run: &mut SubstitutionFn<'_>,
) -> io::Result<Vec<WordPart>> {
    let mut parts = Vec::new();
    let mut part = WordPart::default();
    for (at, atom) in word.0.iter().enumerate() {
        let (value, quoted) = match atom {
            WordAtom::Plain(b'~') if at == 0 && begins_tilde(&word.0, at) => {
                let root = root_path(state);
                part.tilde = root.len();
                part.push(root, false);
                continue;
            }
            WordAtom::Plain(byte) => {
                part.push([*byte], true);
                continue;
            }
            WordAtom::Quoted(byte) => {
                part.push([*byte], false);
                part.is_forced = true;
                continue;
            }
            WordAtom::Nothing => {
                part.is_forced = true;
                continue;
            }
            WordAtom::Variable(name, quoted) => (variable_value(name, state), *quoted),
            WordAtom::Bare(name) => (variable_value(name, state), false),
            WordAtom::Command(list, quoted) => (clean_output(run(state, list)?), *quoted),
        };
        // Each byte is stored with a flag.
        state.deadline.hold_memory(value.len().saturating_mul(2))?;
        if quoted {
            part.push(value, false);
            part.is_forced = true;
            continue;
        }
        for byte in value {
            if !matches!(byte, b' ' | b'\t' | b'\n') {
                part.push([byte], true);
            } else if part.is_forced || !part.bytes.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
        }
    }
    if part.is_forced || !part.bytes.is_empty() {
        parts.push(part);
    }
    Ok(parts)
}
