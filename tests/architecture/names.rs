//! Finds the types of a file and the doc comments that open with a question word.

use super::{is_word, line, places};

/// The words that introduce a type.
const KINDS: &[&str] = &["struct", "enum", "trait", "union", "type"];

/// A type: its name, its line, and whether other files can see it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) is_visible: bool,
}

impl TypeName {
    /// Returns whether the name is a single word: `Plan`, not `UndoPlan`.
    pub(super) fn is_one_word(&self) -> bool {
        self.name.chars().skip(1).all(|c| !c.is_uppercase())
    }
}

/// Returns the types that code without comments and literals defines. Associated types of a trait or an implementation are
/// named after it and do not count.
pub(super) fn types(code: &str) -> Vec<TypeName> {
    let mut found = Vec::new();
    for kind in KINDS {
        for at in places(code, kind) {
            let start = code[..at].rfind('\n').map_or(0, |end| end + 1);
            let before = &code[start..at];
            let is_definition = match before.trim() {
                "" => true,
                words => words.starts_with("pub") || words == "unsafe",
            };
            let name: String = code[at + kind.len()..]
                .trim_start()
                .chars()
                .take_while(|c| is_word(*c))
                .collect();
            let is_associated = *kind == "type" && before.starts_with(' ');
            if is_definition && !is_associated && name.starts_with(|c: char| c.is_uppercase()) {
                found.push(TypeName {
                    name,
                    line: line(code, at),
                    is_visible: before.trim().starts_with("pub"),
                });
            }
        }
    }
    found
}

/// The words with which no doc comment opens: it names the thing.
const OPENINGS: &[&str] = &["What", "Who", "Whether", "How", "It"];

/// Returns the lines at which a doc comment opens with one of these words.
pub(super) fn vague_openings(text: &str) -> Vec<usize> {
    let doc = |line: &str| {
        let line = line.trim_start();
        let text = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?;
        (!text.starts_with('/')).then(|| text.trim().to_owned())
    };
    let mut found = Vec::new();
    let mut previous = None;
    for (number, line) in text.lines().enumerate() {
        let this = doc(line);
        if let (None, Some(text)) = (&previous, &this) {
            let first: String = text.chars().take_while(|c| c.is_alphabetic()).collect();
            if OPENINGS.contains(&first.as_str()) {
                found.push(number + 1);
            }
        }
        previous = this;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_with_what_sees_them() {
        let code = "pub struct Store;\n    pub(super) enum UndoPlan {}\ntrait Own {\n    type Item;\n}\ntype Pair = (u8, u8);\nfn f(x: impl Trait) -> structure {}\n";
        let mut found: Vec<_> = types(code)
            .into_iter()
            .map(|one| {
                (
                    one.line,
                    one.name.clone(),
                    one.is_visible,
                    one.is_one_word(),
                )
            })
            .collect();
        found.sort();
        let expected = [
            (1, "Store", true, true),
            (2, "UndoPlan", true, false),
            (3, "Own", false, true),
            (6, "Pair", false, true),
        ];
        assert_eq!(
            found,
            expected.map(|(line, name, seen, one)| (line, name.to_owned(), seen, one))
        );
    }

    #[test]
    fn openings_are_found_at_the_first_line_only() {
        let text = "//! What it is.\n\n/// Returns a name.\n/// What follows is not the opening.\nfn f() {}\n/// How long\nconst A: u8 = 0;\n// It is no doc comment.\n";
        assert_eq!(vague_openings(text), [1, 6]);
    }
}
