//! Brace expansion: `{a,b}`, `{1..9}`, `{a..e..2}` (bash(1), Brace Expansion). It precedes all other expansions.

use super::lex::is_in_name;
use super::syntax::{Word, WordAtom};

/// The maximum number of words that one word may expand to.
const MAX_WORDS: usize = 100_000;

/// The maximum number of opening braces in a word: finding the partner of each takes time proportional to the word.
const MAX_BRACES: usize = 1000;
/// The maximum total size of the words in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Expands the braces of a word, in order; `None` where that exceeds a limit.
pub(super) fn expand(word: &Word) -> Option<Vec<Word>> {
    if !word.0.contains(&WordAtom::Plain(b'{')) {
        return Some(vec![word.clone()]);
    }
    let braces = word.0.iter().filter(|atom| **atom == WordAtom::Plain(b'{'));
    if braces.count() > MAX_BRACES {
        return None;
    }
    let words = expand_atoms(&word.0)?;
    Some(
        words
            .into_iter()
            .map(|word| Word(lengthen_names(word)))
            .collect(),
    )
}

/// Lengthens the names of variables by the bytes after them: `$x{a,b}` is `$xa $xb`.
fn lengthen_names(word: Vec<WordAtom>) -> Vec<WordAtom> {
    let mut atoms = Vec::with_capacity(word.len());
    for atom in word {
        match (atoms.last_mut(), atom) {
            (Some(WordAtom::Bare(name)), WordAtom::Plain(byte)) if is_in_name(byte) => {
                *name = [&**name, &[byte]].concat().into();
            }
            (_, atom) => atoms.push(atom),
        }
    }
    atoms
}

fn expand_atoms(word: &[WordAtom]) -> Option<Vec<Vec<WordAtom>>> {
    for (at, _) in word
        .iter()
        .enumerate()
        .filter(|(_, atom)| **atom == WordAtom::Plain(b'{'))
    {
        let Some((inside, after)) = split_group(word.get(at + 1..)?) else {
            continue;
        };
        let Some(choices) = choices(inside) else {
            continue;
        };
        let before = word.get(..at)?;
        let after = expand_atoms(after)?;
        let mut words = Vec::new();
        let mut bytes = 0;
        for choice in choices? {
            let lengths = after
                .iter()
                .map(|after| before.len() + choice.len() + after.len());
            bytes += lengths.sum::<usize>();
            if words.len() + after.len() > MAX_WORDS || bytes > MAX_BYTES {
                return None;
            }
            words.extend(after.iter().map(|after| [before, &choice, after].concat()));
        }
        return Some(words);
    }
    Some(vec![word.to_vec()])
}

/// Splits the text after a brace into the part up to its partner, and the rest.
fn split_group(text: &[WordAtom]) -> Option<(&[WordAtom], &[WordAtom])> {
    let mut depth = 0;
    for (at, atom) in text.iter().enumerate() {
        match atom {
            WordAtom::Plain(b'{') => depth += 1,
            WordAtom::Plain(b'}') if depth == 0 => {
                return Some((text.get(..at)?, text.get(at + 1..)?));
            }
            WordAtom::Plain(b'}') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the expansion of a pair of braces; `None` where they are literal, `Some(None)` where a limit is exceeded.
fn choices(inside: &[WordAtom]) -> Option<Option<Vec<Vec<WordAtom>>>> {
    let mut depth = 0;
    let mut parts = vec![Vec::new()];
    for atom in inside {
        match atom {
            WordAtom::Plain(b',') if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            WordAtom::Plain(b'{') => depth += 1,
            WordAtom::Plain(b'}') => depth -= 1,
            _ => {}
        }
        parts.last_mut()?.push(atom.clone());
    }
    if parts.len() == 1 {
        return expand_sequence(&Word(inside.to_vec()).plain()?);
    }
    let mut all = Vec::new();
    for part in &parts {
        let Some(expanded) = expand_atoms(part) else {
            return Some(None);
        };
        all.extend(expanded);
        if all.len() > MAX_WORDS {
            return Some(None);
        }
    }
    Some(Some(all))
}

/// Returns the members of a sequence such as `1..9` or `a..e`, with an optional step.
fn expand_sequence(text: &[u8]) -> Option<Option<Vec<Vec<WordAtom>>>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split("..");
    let (from, to, step) = (parts.next()?, parts.next()?, parts.next());
    if parts.next().is_some() {
        return None;
    }
    let step: i64 = step.map_or(Some(1), |step| step.parse().ok())?;
    let step = step.unsigned_abs().max(1);
    let (first, last, width, letters) = match (from.parse::<i64>(), to.parse::<i64>()) {
        (Ok(first), Ok(last)) => {
            let padded = |text: &str| {
                text.trim_start_matches('-').starts_with('0')
                    && text.trim_start_matches('-').len() > 1
            };
            let width = if padded(from) || padded(to) {
                from.len().max(to.len())
            } else {
                0
            };
            (first, last, width, false)
        }
        _ => match (from.as_bytes(), to.as_bytes()) {
            ([a], [b]) if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                (i64::from(*a), i64::from(*b), 0, true)
            }
            _ => return None,
        },
    };
    if first.abs_diff(last) / step >= MAX_WORDS as u64 {
        return Some(None);
    }
    let count = first.abs_diff(last) / step;
    let members = (0..=count).map(|n| {
        let way = i64::try_from(n * step).unwrap_or(0);
        let member = if first <= last {
            first + way
        } else {
            first - way
        };
        let text = match (letters, u8::try_from(member)) {
            (true, Ok(letter)) => vec![letter],
            _ => format!("{member:0width$}").into_bytes(),
        };
        let atom = |byte| {
            if is_in_name(byte) {
                WordAtom::Plain(byte)
            } else {
                WordAtom::Quoted(byte)
            }
        };
        text.into_iter().map(atom).collect()
    });
    Some(Some(members.collect()))
}
