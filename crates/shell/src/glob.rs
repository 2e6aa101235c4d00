//! Globs: `*`, `?`, `[ ]` and `**` in words, matched against the files of the home (bash(1), Pathname Expansion, with
//! `globstar`).
//!
//! A leading dot is matched by a literal dot only. A pattern without matches stays as typed.

use std::io;

use super::call::ShellState;
use super::pattern::GlobPattern;
use rustix::fs::FileType;
use trumanfs_executor::home::DirEntry;
use trumanfs_types::error::Error;

/// The maximum depth of `**`.
const MAX_DEPTH: usize = 100;

/// Returns the matching paths, sorted bytewise. `pattern` has a backslash before each quoted byte.
///
/// # Errors
/// `TimedOut` where the line's time limit has passed.
pub(super) fn expand(state: &ShellState, pattern: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let parts: Vec<&[u8]> = pattern.split(|b| *b == b'/').collect();
    match_parts(state, Vec::new(), &parts, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns whether a text has an unescaped special character.
pub(super) fn is_pattern(text: &[u8]) -> bool {
    let mut escaped = false;
    text.iter().any(|byte| {
        let special = !escaped && matches!(byte, b'*' | b'?' | b'[');
        escaped = !escaped && *byte == b'\\';
        special
    })
}

/// Removes the backslashes.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = false;
    let keep = |byte: &&u8| {
        escaped = !escaped && **byte == b'\\';
        !escaped
    };
    text.iter().filter(keep).copied().collect()
}

/// Matches the remaining parts below `so_far`, a path that ends with a slash or is empty.
fn match_parts(
    state: &ShellState,
    so_far: Vec<u8>,
    parts: &[&[u8]],
    found: &mut Vec<Vec<u8>>,
) -> io::Result<()> {
    state.deadline.check()?;
    let Some((first, rest)) = parts.split_first() else {
        return Ok(());
    };
    if *first == b"**" {
        return match_globstar(state, so_far, rest, found, 0);
    }
    if !is_pattern(first) {
        let mut path = so_far;
        path.extend(unescaped(first));
        if rest.is_empty() {
            if exists(state, &path) {
                found.push(path);
            }
            return Ok(());
        }
        path.push(b'/');
        return match_parts(state, path, rest, found);
    }
    let pattern = GlobPattern::new(first);
    let hidden = first.starts_with(b".") || first.starts_with(b"\\.");
    for entry in list_entries(state, &so_far) {
        if (entry.name.starts_with(b".") && !hidden) || !pattern.matches(&entry.name) {
            continue;
        }
        let mut path = so_far.clone();
        path.extend_from_slice(&entry.name);
        if rest.is_empty() {
            found.push(path);
        } else if entry.kind == FileType::Directory {
            path.push(b'/');
            match_parts(state, path, rest, found)?;
        }
    }
    Ok(())
}

/// Matches `**` with no directory and with each directory below.
fn match_globstar(
    state: &ShellState,
    so_far: Vec<u8>,
    rest: &[&[u8]],
    found: &mut Vec<Vec<u8>>,
    depth: usize,
) -> io::Result<()> {
    state.deadline.check()?;
    if depth == 0 {
        match rest {
            // `a/**` also matches `a/`.
            [] if !so_far.is_empty() && exists(state, &so_far) => found.push(so_far.clone()),
            [b""] => {}
            rest => match_parts(state, so_far.clone(), rest, found)?,
        }
    }
    for entry in list_entries(state, &so_far) {
        if entry.name.starts_with(b".") {
            continue;
        }
        let mut path = so_far.clone();
        path.extend_from_slice(&entry.name);
        if rest.is_empty() {
            found.push(path.clone());
        }
        if entry.kind == FileType::Directory && depth < MAX_DEPTH {
            path.push(b'/');
            match rest {
                [] => {}
                [b""] => found.push(path.clone()),
                rest => match_parts(state, path.clone(), rest, found)?,
            }
            match_globstar(state, path, rest, found, depth + 1)?;
        }
    }
    Ok(())
}

fn exists(state: &ShellState, path: &[u8]) -> bool {
    state
        .path(path)
        .and_then(|path| state.home.stat(&path))
        .is_ok()
}

/// Lists a directory; in one that cannot be listed nothing matches.
fn list_entries(state: &ShellState, dir: &[u8]) -> Vec<DirEntry> {
    let dir = if dir.is_empty() { b"." } else { dir };
    let listed: Result<_, Error> = state.path(dir).and_then(|dir| state.home.list(&dir));
    listed.unwrap_or_default()
}
