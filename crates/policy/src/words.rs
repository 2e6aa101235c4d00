//! Characters that no word may have, because a reader would not see what they do.

use super::verdict::{CommandRefusal, RefusalClass};

/// The longest word, in bytes, and the longest line: what the kernel takes as one argument (`MAX_ARG_STRLEN`, execve(2)).
pub(super) const LONGEST: usize = 128 * 1024;

/// Checks the words of a command.
///
/// # Errors
/// The first character that may not be there.
pub(super) fn check(argv: &[Vec<u8>]) -> Result<(), CommandRefusal> {
    for word in argv {
        if word.len() >= LONGEST {
            return Err(CommandRefusal::new(
                RefusalClass::Words,
                "words.length",
                format!(
                    "a word has {} bytes; the system takes less than {LONGEST}. Put it into a file in the home",
                    word.len()
                ),
            ));
        }
        if let Some((what, rule)) = hidden(word) {
            let reason = format!("{what} in {}; leave it out", shown(word));
            return Err(CommandRefusal::new(RefusalClass::Words, rule, reason));
        }
    }
    Ok(())
}

/// Returns what is wrong with the characters of a word, and the rule against it.
fn hidden(word: &[u8]) -> Option<(String, &'static str)> {
    if word.contains(&0) {
        return Some(("there is a NUL".to_owned(), "words.nul"));
    }
    let text = String::from_utf8_lossy(word);
    for c in text.chars() {
        let (what, rule) = match c {
            '\u{061c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                ("there is a bidirectional control", "words.bidirectional")
            }
            '\u{0085}' | '\u{2028}' | '\u{2029}' => {
                ("there is a Unicode line separator", "words.line_separator")
            }
            _ => continue,
        };
        return Some((format!("{what} (U+{:04X})", u32::from(c)), rule));
    }
    let first = text.chars().next().filter(|c| is_dash(*c))?;
    let code = u32::from(first);
    let what = format!(
        "the word begins with a dash that is no hyphen (U+{code:04X}); flags begin with `-`"
    );
    Some((what, "words.dash"))
}

/// Returns whether a character looks like the hyphen that flags begin with, and is none.
fn is_dash(c: char) -> bool {
    matches!(
        c,
        '\u{00ad}' | '\u{058a}' | '\u{05be}' | '\u{1400}' | '\u{1806}' | '\u{2010}'
            ..='\u{2015}'
                | '\u{2043}'
                | '\u{2052}'
                | '\u{207b}'
                | '\u{208b}'
                | '\u{2212}'
                | '\u{2796}'
                | '\u{2e17}'
                | '\u{2e1a}'
                | '\u{2e3a}'
                | '\u{2e3b}'
                | '\u{2e40}'
                | '\u{2e5d}'
                | '\u{301c}'
                | '\u{3030}'
                | '\u{30a0}'
                | '\u{fe31}'
                | '\u{fe32}'
                | '\u{fe58}'
                | '\u{fe63}'
                | '\u{ff0d}'
                | '\u{10d6e}'
                | '\u{10ead}'
    )
}

/// Returns a word for a message: escaped, and cut where it is long.
pub(super) fn shown(word: &[u8]) -> String {
    const LONG: usize = 80;
    let text = trumanfs_types::name::escape(word);
    match text.char_indices().nth(LONG) {
        Some((cut, _)) => format!("`{}…`", text.get(..cut).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}
