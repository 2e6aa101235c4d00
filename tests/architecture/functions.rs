//! Finds the functions of a file and their lengths, from `fn` to the closing brace.

use super::{is_word, line, places};

/// A function: its name, its first line, and how many lines it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// Returns the functions in code without comments and literals; those in others, too.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in places(code, "fn") {
        let rest = &code[at + "fn".len()..];
        let name: String = rest
            .trim_start()
            .chars()
            .take_while(|c| is_word(*c))
            .collect();
        // `fn(u8) -> u8` is a type.
        if name.is_empty() {
            continue;
        }
        if let Some(end) = end(rest) {
            let lines = rest[..end].matches('\n').count() + 1;
            found.push(Function {
                name,
                line: line(code, at),
                lines,
            });
        }
    }
    found
}

/// Returns where the body ends; `None` for one that has none, as in a trait.
fn end(code: &str) -> Option<usize> {
    let (mut depth, mut braces) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' if braces == 0 => depth += 1,
            ')' | ']' if braces == 0 => depth -= 1,
            ';' if depth == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured() {
        let code = "trait T { fn none(a: [u8; 4]); }\nfn short(f: fn(u8)) {}\nfn long<const N: usize>(a: [u8; N])\nwhere\n{\n    if a {\n        fn inner() {\n        }\n    }\n}\n";
        let found: Vec<_> = functions(code)
            .into_iter()
            .map(|f| (f.name, f.line, f.lines))
            .collect();
        let expected = [("short", 2, 1), ("long", 3, 8), ("inner", 7, 2)];
        assert_eq!(
            found,
            expected.map(|(name, line, lines)| (name.to_owned(), line, lines))
        );
    }
}
