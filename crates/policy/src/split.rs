//! A command line as words: POSIX quoting, no expansion, no operators.

use super::verdict::{CommandRefusal, RefusalClass};
use super::words;

/// Splits a command line into words.
///
/// Blanks separate words; `'…'`, `"…"` and `\` quote as in POSIX (XCU 2.2), and nothing is expanded: a quoted `$` is a
/// dollar sign.
///
/// # Errors
/// Unquoted `; & | < > ( ) $ backtick #` and line ends, an open quote, an empty line, and hidden or deceptive characters are refused.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, CommandRefusal> {
    let mut splitter = WordSplitter {
        rest: line,
        words: Vec::new(),
        word: None,
    };
    splitter.line()?;
    let argv = splitter.words;
    if argv.is_empty() {
        return Err(refused(
            "words.empty",
            "the line has no command; name a program",
        ));
    }
    words::check(&argv)?;
    Ok(argv)
}

fn refused(rule: &str, reason: impl Into<String>) -> CommandRefusal {
    CommandRefusal::new(RefusalClass::Words, rule, reason)
}

struct WordSplitter<'l> {
    rest: &'l [u8],
    words: Vec<Vec<u8>>,
    word: Option<Vec<u8>>,
}

impl WordSplitter<'_> {
    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn push(&mut self, byte: u8) {
        self.word.get_or_insert_default().push(byte);
    }

    fn line(&mut self) -> Result<(), CommandRefusal> {
        while let Some(byte) = self.take() {
            match byte {
                b' ' | b'\t' => self.words.extend(self.word.take()),
                b'\'' => self.single()?,
                b'"' => self.double()?,
                b'\\' => match self.take() {
                    Some(b'\n') | None => {
                        return Err(refused(
                            "words.continuation",
                            "the line ends in a backslash; write the command in one line",
                        ));
                    }
                    Some(byte) => self.push(byte),
                },
                b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' | b'$' | b'`' | b'#' => {
                    let sign = char::from(byte);
                    return Err(refused(
                        "words.operator",
                        format!(
                            "`{sign}` stands unquoted, and no shell reads the line: run one program a line, and quote `{sign}` where it is meant as it stands: '{sign}'"
                        ),
                    ));
                }
                b'\n' | b'\r' | 0x0b | 0x0c => {
                    return Err(refused(
                        "words.newline",
                        "the line has a second line; run one program a line, or quote the line end",
                    ));
                }
                byte => self.push(byte),
            }
        }
        self.words.extend(self.word.take());
        Ok(())
    }

    fn single(&mut self) -> Result<(), CommandRefusal> {
        self.word.get_or_insert_default();
        while let Some(byte) = self.take() {
            if byte == b'\'' {
                return Ok(());
            }
            self.push(byte);
        }
        Err(refused(
            "words.quote",
            "a `'` is open at the end of the line; close it",
        ))
    }

    fn double(&mut self) -> Result<(), CommandRefusal> {
        self.word.get_or_insert_default();
        while let Some(byte) = self.take() {
            match (byte, self.rest.first()) {
                (b'"', _) => return Ok(()),
                (b'\\', Some(quoted @ (b'$' | b'`' | b'"' | b'\\'))) => {
                    let quoted = *quoted;
                    self.take();
                    self.push(quoted);
                }
                (b'\\', Some(b'\n')) => {
                    self.take();
                }
                (byte, _) => self.push(byte),
            }
        }
        Err(refused(
            "words.quote",
            "a `\"` is open at the end of the line; close it",
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let argv = split(line.as_bytes()).unwrap();
        argv.into_iter()
            .map(|word| String::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn quotes_join_and_nothing_is_expanded() {
        for (line, argv) in [
            ("git status", vec!["git", "status"]),
            ("  a\t b  ", vec!["a", "b"]),
            (r#"a 'b c'"d e"\ f"#, vec!["a", "b cd e f"]),
            (r#"a '' """#, vec!["a", "", ""]),
            (
                r#"a "$HOME `x` \$ \" \x""#,
                vec!["a", r#"$HOME `x` $ " \x"#],
            ),
            ("a '; | & # $(x)'", vec!["a", "; | & # $(x)"]),
            (r"a \; \#", vec!["a", ";", "#"]),
            ("a 'b\nc'", vec!["a", "b\nc"]),
            (
                "a *.rs ~/x {1,2} !x",
                vec!["a", "*.rs", "~/x", "{1,2}", "!x"],
            ),
            ("a \"b\\\nc\"", vec!["a", "bc"]),
        ] {
            assert_eq!(words(line), argv, "{line}");
        }
    }

    #[test]
    fn operators_and_hidden_characters_are_refused() {
        for (line, rule) in [
            ("a; b", "words.operator"),
            ("a && b", "words.operator"),
            ("a | b", "words.operator"),
            ("a > b", "words.operator"),
            ("a < b", "words.operator"),
            ("a $HOME", "words.operator"),
            ("a $(b)", "words.operator"),
            ("a `b`", "words.operator"),
            ("a b#c", "words.operator"),
            ("(a)", "words.operator"),
            ("a\nb", "words.newline"),
            ("a\rb", "words.newline"),
            ("a \\\nb", "words.continuation"),
            ("a \\", "words.continuation"),
            ("a 'b", "words.quote"),
            ("a \"b", "words.quote"),
            ("", "words.empty"),
            ("  \t", "words.empty"),
            ("a 'x\0'", "words.nul"),
            ("a '\u{202e}x'", "words.bidirectional"),
            ("a x\u{2066}", "words.bidirectional"),
            ("a '\u{2028}'", "words.line_separator"),
            ("a \u{2013}-version", "words.dash"),
            ("a '\u{2014}x'", "words.dash"),
            ("a \u{2212}x", "words.dash"),
        ] {
            assert_eq!(split(line.as_bytes()).unwrap_err().rule, rule, "{line:?}");
        }
        assert!(
            split("a x\u{2013}y".as_bytes()).is_ok(),
            "a dash within a word is a letter like others"
        );
        let long = [&b"a "[..], &vec![b'x'; words::LONGEST]].concat();
        assert_eq!(split(&long).unwrap_err().rule, "words.length");
    }
}
