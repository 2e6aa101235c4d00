//! Flags that have to be there: found, inserted, or their values replaced.

use super::scan::{ParsedFlag, ScanResult};
use super::schema::RequiredFlag;
use super::verdict::{CommandRefusal, RefusalClass};
use trumanfs_types::name::escape;

/// Returns the words with every required flag among them.
///
/// A missing flag is inserted before the word with the number `place`. A wrong value of a flag that has values is
/// replaced.
///
/// # Errors
/// A flag without values contradicts itself: `--x=false`, `--no-x`, `--x false`, also where it would only be inserted
/// before the word `false`.
pub(super) fn insert(
    argv: &[Vec<u8>],
    place: usize,
    required: &[RequiredFlag],
    scanned: &ScanResult<'_>,
    key: &str,
) -> Result<Vec<Vec<u8>>, CommandRefusal> {
    let mut words = argv.to_vec();
    let mut missing: Vec<Vec<u8>> = Vec::new();
    // From the end, so that the numbers of words before stay what they are.
    let mut extra: Vec<(usize, Vec<u8>)> = Vec::new();
    for flag in required {
        check_contradiction(flag, argv, scanned, key)?;
        let Some(value) = flag.values.first() else {
            if scanned.named(&flag.flag).next().is_none() {
                missing.push(flag.flag.clone().into_bytes());
            }
            continue;
        };
        let mut is_there = false;
        for found in scanned.named(&flag.flag) {
            is_there = true;
            if !has_value(found, &flag.values) {
                replace(&mut words, &mut extra, found, value);
            }
        }
        if !is_there {
            missing.extend(written(&flag.flag, value));
        }
    }
    extra.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, word) in extra {
        words.insert(at.min(words.len()), word);
    }
    let place = place.min(words.len());
    if let (Some(flag), Some(next)) = (missing.last(), words.get(place))
        && required
            .iter()
            .any(|one| one.values.is_empty() && one.flag.as_bytes() == flag)
        && is_off(next)
    {
        let (flag, next) = (escape(flag), escape(next));
        let reason = format!(
            "the policy inserts `{flag}` before `{next}`, and some programs would take that for its value; write another word first, or a path as `./{next}`"
        );
        return Err(refused(key, reason));
    }
    words.splice(place..place, missing);
    Ok(words)
}

fn has_value(found: &ParsedFlag, values: &[String]) -> bool {
    let value = found.value.as_deref();
    values.iter().any(|wanted| Some(wanted.as_bytes()) == value)
}

/// Writes a flag with its value: as one word where it has a long name.
fn written(flag: &str, value: &str) -> Vec<Vec<u8>> {
    match flag.starts_with("--") {
        true => vec![format!("{flag}={value}").into_bytes()],
        false => vec![flag.into(), value.into()],
    }
}

fn replace(
    words: &mut [Vec<u8>],
    extra: &mut Vec<(usize, Vec<u8>)>,
    found: &ParsedFlag,
    value: &str,
) {
    if found.takes_next {
        if let Some(word) = words.get_mut(found.at + 1) {
            *word = value.into();
        }
        return;
    }
    let mut written = written(&found.name, value).into_iter();
    if let (Some(word), Some(first)) = (words.get_mut(found.at), written.next()) {
        *word = first;
    }
    extra.extend(written.map(|word| (found.at + 1, word)));
}

/// Checks that nothing says the opposite of a flag without values.
fn check_contradiction(
    flag: &RequiredFlag,
    argv: &[Vec<u8>],
    scanned: &ScanResult<'_>,
    key: &str,
) -> Result<(), CommandRefusal> {
    if !flag.values.is_empty() {
        return Ok(());
    }
    let name = flag.flag.as_str();
    let opposite = match name.strip_prefix("--no-") {
        Some(rest) => format!("--{rest}"),
        None => format!("--no-{}", name.trim_start_matches('-')),
    };
    let next = |found: &ParsedFlag| argv.get(found.at + 1).map(Vec::as_slice);
    let says_no = |found: &ParsedFlag| match found.value.as_deref() {
        Some(value) => value != b"true",
        None => next(found).is_some_and(is_off),
    };
    if scanned.named(name).any(says_no) || scanned.named(&opposite).next().is_some() {
        let reason = format!(
            "the policy requires `{name}`, and the command says the opposite; leave it out, it is inserted"
        );
        return Err(refused(key, reason));
    }
    Ok(())
}

/// Returns whether a word behind a valueless flag turns it off: npm and its like take the next word if it is a truth
/// value.
fn is_off(word: &[u8]) -> bool {
    matches!(word, b"false" | b"null" | b"undefined" | b"0" | b"no")
}

fn refused(key: &str, reason: String) -> CommandRefusal {
    CommandRefusal::new(RefusalClass::Flag, format!("{key}.require_flags"), reason)
}
