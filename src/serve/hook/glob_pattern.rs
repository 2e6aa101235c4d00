//! The paths at which a pattern of file names begins to search. Pure: a pattern is a text, and nothing is looked up.

/// The largest length of a pattern in bytes: a longer pattern is not taken apart.
const MAX_PATTERN_BYTES: usize = 4096;

/// The largest number of alternatives that the braces of a pattern may have.
const MAX_ALTERNATIVES: usize = 256;

/// Returns the paths below which everything lies that a pattern can match, one for each alternative of its braces. None
/// where its text does not say that: braces that do not close, a `..` behind a wildcard.
pub(super) fn beginnings(pattern: &str) -> Option<Vec<String>> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return None;
    }
    // A backslash takes a character's meaning away, or is part of a directory's name (Claude Code does not look at it where it
    // takes a pattern's beginning off). Without it the character counts as if it had a meaning, which makes what is known of
    // the pattern less, never more.
    let mut found = Vec::new();
    expand(&pattern.replace('\\', ""), &mut found)?;
    if pattern.contains('\\') {
        expand(pattern, &mut found)?;
    }
    found.iter().map(|one| beginning(one)).collect()
}

/// Expands the braces of a pattern.
fn expand(pattern: &str, found: &mut Vec<String>) -> Option<()> {
    if found.len() >= MAX_ALTERNATIVES {
        return None;
    }
    let Some(open) = pattern.find('{') else {
        found.push(pattern.to_owned());
        return Some(());
    };
    let (before, rest) = (pattern.get(..open)?, pattern.get(open + 1..)?);
    let (choices, after) = choices(rest)?;
    for choice in choices {
        expand(&format!("{before}{choice}{after}"), found)?;
    }
    Some(())
}

/// Returns the choices up to the brace that closes, and what stands behind it.
fn choices(rest: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut begin, mut choices) = (0_usize, 0, Vec::new());
    for (at, character) in rest.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                choices.push(rest.get(begin..at)?);
                begin = at + 1;
                if character == '}' {
                    return Some((choices, rest.get(begin..)?));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the parts of a pattern before its first wildcard.
fn beginning(pattern: &str) -> Option<String> {
    let is_wild = |part: &&str| part.contains(['*', '?', '[']);
    let parts: Vec<&str> = pattern.split('/').collect();
    let plain = parts.iter().take_while(|part| !is_wild(part)).count();
    let (plain, wild) = parts.split_at_checked(plain)?;
    if wild.contains(&"..") {
        return None;
    }
    match plain {
        // A pattern that begins at the root, and with a wildcard.
        [""] => Some("/".to_owned()),
        plain => Some(plain.join("/")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_where_its_text_says() {
        for (pattern, begins) in [
            ("*.txt", Some(&[""][..])),
            ("**/*.rs", Some(&[""])),
            ("src/**/*.rs", Some(&["src"])),
            ("src/a.rs", Some(&["src/a.rs"])),
            ("/etc/*.conf", Some(&["/etc"])),
            ("/*", Some(&["/"])),
            ("/", Some(&["/"])),
            ("../*", Some(&[".."])),
            ("a/../../b*", Some(&["a/../.."])),
            (r"\.\./*", Some(&["..", r"\.\."])),
            (r"/home/a\/*", Some(&["/home/a", r"/home/a\"])),
            (r"\{a", None),
            ("{/etc,src/{a,b}}/*", Some(&["/etc", "src/a", "src/b"])),
            ("{..,x}/*", Some(&["..", "x"])),
            ("{{{..}}}/*", Some(&[".."])),
            ("a{,b}/*", Some(&["a", "ab"])),
            ("{/}etc/*", Some(&["/etc"])),
            (".{.,x}/*", Some(&["..", ".x"])),
            ("~/*", Some(&["~"])),
            ("*/../../etc", None),
            ("[a]/..", None),
            ("{a,b", None),
            ("{a,{b}", None),
            ("}a", Some(&["}a"])),
        ] {
            let expected = begins.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            assert_eq!(beginnings(pattern), expected, "{pattern}");
        }
        assert_eq!(beginnings(&"{a,b}".repeat(9)), None);
        assert_eq!(beginnings(&"{a}".repeat(1000)).unwrap(), ["a".repeat(1000)]);
        assert_eq!(beginnings(&"{".repeat(5000)), None);
    }
}
