//! `find`: walks down from starting points and evaluates an expression for each entry.
//!
//! Entries are visited in the order of their names at each level, where GNU's find has the order of the directory.
//! The walk keeps one listing for each level and no stack frame, so depth costs memory only. Symlinks do not exist
//! here, so `-H`, `-L` and `-P` have no effect, nor has `-O`. A directory that has gone is reported, and the walk goes on.

mod eval;
mod exec;
mod messages;
mod parse;
mod predicate;
mod printf;
mod regex;

use crate::call::{Call, CommandError, CommandResult, LineRejection};
use crate::commands::expression::PosixSyntax;
use eval::{FindRun, VisitedEntry};
use parse::FindPlan;
use printf::PrintFormat;
use regex::unsupported_regex;
use trumanfs_executor::home::DirEntry;
use trumanfs_types::name::{Name, WorldPath};

/// Returns the rejection of a line with a call that has an unsupported pattern or format. A word is `None` where an
/// expansion decides about it; arguments behind such a word are looked at when the command runs.
pub(crate) fn find_unsupported(args: &[Option<Vec<u8>>]) -> Option<LineRejection> {
    let mut syntax = PosixSyntax::FIND_DEFAULT;
    let mut words = args.iter().map_while(Option::as_deref);
    while let Some(word) = words.next() {
        let rejection = match word {
            b"-regextype" => {
                syntax = PosixSyntax::named(words.next()?)?;
                None
            }
            b"-regex" | b"-iregex" => unsupported_regex(word, words.next()?, syntax),
            b"-printf" => PrintFormat::parse(words.next()?).err(),
            b"-exec" => {
                words.find(|word| matches!(*word, b";" | b"+"));
                None
            }
            b"-name" | b"-iname" | b"-path" | b"-ipath" => {
                words.next();
                None
            }
            _ => None,
        };
        if rejection.is_some() {
            return rejection;
        }
    }
    None
}

pub(crate) fn find(call: &mut Call<'_>) -> CommandResult {
    let args = call.args;
    let (starts, expression) = split_args(args);
    let plan = FindPlan::read(expression, call)?;
    let mut finder = FindRun::new(call, &plan);
    let here = [b".".to_vec()];
    for start in if starts.is_empty() { &here } else { starts } {
        walk(&mut finder, start)?;
        if finder.quit {
            break;
        }
    }
    finder.finish()
}

/// Splits starting points from the expression, which begins with the first word that can only belong to one.
fn split_args(args: &[Vec<u8>]) -> (&[Vec<u8>], &[Vec<u8>]) {
    let is_option =
        |arg: &Vec<u8>| matches!(&arg[..], b"-H" | b"-L" | b"-P" | [b'-', b'O', b'0'..=b'9']);
    let options = args.iter().take_while(|arg| is_option(arg)).count();
    let mut rest = args.get(options..).unwrap_or_default();
    if let [first, after @ ..] = rest
        && first == b"--"
    {
        rest = after;
    }
    let begins = |arg: &Vec<u8>| matches!(&arg[..], [b'-', _, ..] | b"(" | b"!");
    let starts = rest.iter().position(begins).unwrap_or(rest.len());
    rest.split_at(starts)
}

/// A directory whose entries are being visited.
struct DirectoryLevel {
    /// The entries still to be visited, the next one last.
    entries: Vec<DirEntry>,
    /// The length of its path as printed.
    shown: usize,
}

impl DirectoryLevel {
    fn new(mut entries: Vec<DirEntry>, shown: usize) -> DirectoryLevel {
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        DirectoryLevel { entries, shown }
    }
}

/// Walks down from a starting point.
fn walk(finder: &mut FindRun<'_, '_>, start: &[u8]) -> Result<(), CommandError> {
    finder.call.check()?;
    finder.start = start.len();
    let found = finder.call.path(start);
    let found = found.and_then(|path| Ok((finder.call.home().stat(&path)?, path)));
    let (meta, mut path) = match found {
        Ok(found) => found,
        Err(error) => return finder.report_path_error(start, &error),
    };
    // The path, as printed, of the current directory, and for a moment of an entry in it.
    let mut shown = start.to_vec();
    let mut levels: Vec<DirectoryLevel> = Vec::new();
    let top = VisitedEntry::top(start, &path, meta);
    let entered = enter(finder, &top)?;
    levels.extend(entered.map(|entries| DirectoryLevel::new(entries, shown.len())));
    while let Some(level) = levels.last_mut() {
        finder.call.check()?;
        if finder.quit {
            return Ok(());
        }
        shown.truncate(level.shown);
        let Some(entry) = level.entries.pop() else {
            levels.pop();
            leave(finder, (start, &meta), &shown, &path, levels.len())?;
            path = path.parent().unwrap_or_default();
            continue;
        };
        if shown.last() != Some(&b'/') {
            shown.push(b'/');
        }
        shown.extend_from_slice(&entry.name);
        let visit = VisitedEntry::entry(&shown, &path, &entry, levels.len());
        if let Some(entries) = enter(finder, &visit)? {
            path.push(name_of(&entry)?);
            levels.push(DirectoryLevel::new(entries, shown.len()));
        }
    }
    Ok(())
}

/// Visits an entry: evaluates the expression, unless a directory's content comes first (`-depth`), and lists a
/// directory that is to be walked.
fn enter(
    finder: &mut FindRun<'_, '_>,
    visit: &VisitedEntry<'_>,
) -> Result<Option<Vec<DirEntry>>, CommandError> {
    let plan = finder.plan;
    let inside = visit.is_dir() && visit.depth < plan.max_depth;
    if !plan.contents_first || !inside {
        let pruned = finder.evaluate(visit)?;
        if !inside || finder.quit || pruned && !plan.contents_first {
            return Ok(None);
        }
    }
    let listed = visit.path().and_then(|path| finder.call.home().list(&path));
    match listed {
        Ok(entries) => Ok(Some(entries)),
        Err(error) => {
            finder.report_path_error(visit.shown, &error)?;
            // With `-depth`, it is still evaluated on the way out.
            Ok(plan.contents_first.then(Vec::new))
        }
    }
}

/// Leaves a directory; with `-depth`, this is when it is evaluated.
fn leave(
    finder: &mut FindRun<'_, '_>,
    (start, meta): (&[u8], &trumanfs_types::meta::Meta),
    shown: &[u8],
    path: &WorldPath,
    depth: usize,
) -> Result<(), CommandError> {
    if !finder.plan.contents_first {
        return Ok(());
    }
    let visit = match (depth, path.parent(), path.name()) {
        (0, ..) => VisitedEntry::top(start, path, *meta),
        (_, Some(parent), Some(name)) => {
            return finder
                .evaluate(&VisitedEntry::directory(shown, &parent, name, depth))
                .map(drop);
        }
        _ => return Ok(()),
    };
    finder.evaluate(&visit).map(drop)
}

fn name_of(entry: &DirEntry) -> Result<Name<'_>, CommandError> {
    // A listing has only valid names.
    Name::new(&entry.name)
        .map_err(|error| CommandError::Stream(std::io::Error::from(error.errno())))
}

#[cfg(test)]
mod tests;
