//! git: nothing before the sub-command, every flag from a list, paths and revisions that stay in the home.

use super::super::scan::{FlagGrammar, ScanEnd, scan};
use super::super::schema::WordReading;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::within::HomeBounds;
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};
use super::git_flags;
use trumanfs_types::name::WorldPath;

/// Checks a command of git.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    if case.entry.subcommands.is_none() && case.argv().len() == case.first {
        return Ok(case.allowed(""));
    }
    let found = case.first_subcommand("git")?;
    let takes = |flag: &str| git_flags::takes(found.name, flag);
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: true,
        dashed_values: true,
    };
    let scanned = scan(
        case.argv(),
        found.at + 1,
        &case.lists_of(&found),
        &grammar,
        ScanEnd::End,
    )?;
    for flag in &scanned.flags {
        match (&flag.value, flag.read_as) {
            (Some(value), WordReading::Path) => check_word(case, value)?,
            (Some(value), _) if flag.name == "-L" => check_lines(case, value)?,
            _ => {}
        }
    }
    let key = format!("subcommands.{}", found.name);
    let has_pattern = found.name == "grep"
        && scanned
            .named("-e")
            .chain(scanned.named("-f"))
            .next()
            .is_none();
    // Which arguments there may be is the policy's; what they name is looked at below.
    let is_text = |number: usize| number == 0 && has_pattern;
    case.check_arguments(&scanned.arguments, &found.sub.arguments, &key, &|_| {
        WordReading::Text
    })?;
    for (number, argument) in scanned.arguments.iter().enumerate() {
        if !is_text(number) {
            check_word(case, argument.word)?;
        }
    }
    case.allow_subcommand(&found, &scanned)
}

/// Checks a revision, a range, a path, a pathspec or the address of a repository.
fn check_word(case: &CommandCase<'_>, word: &[u8]) -> Result<(), CommandRefusal> {
    if names_helper(word) {
        let reason = format!(
            "{} names a transport helper, which is a program; give a URL or a path",
            shown(word)
        );
        return Err(case.refused(RefusalClass::Argument, "arguments", reason));
    }
    let Some(spec) = word.strip_prefix(b":") else {
        return case.within.check(word);
    };
    // A pathspec: `:/x` and `:(top)x` begin at the top of the working tree, `:!x` and `:^x` exclude (gitglossary(7)).
    let root = WorldPath::root();
    let from_top = HomeBounds {
        cwd: &root,
        ..case.within
    };
    let rest = match spec {
        [b'(', ..] => match spec.iter().position(|b| *b == b')') {
            Some(end) => spec.get(end + 1..).unwrap_or_default(),
            None => spec,
        },
        [b'/' | b'!' | b'^', rest @ ..] => rest,
        spec => spec,
    };
    match from_top.leads_out(rest) || (!spec.starts_with(b"/") && case.within.leads_out(rest)) {
        true => Err(case.within.outside(word)),
        false => Ok(()),
    }
}

/// `HELPER::ADDRESS` starts `git-remote-HELPER` (gitremote-helpers(7)).
fn names_helper(word: &[u8]) -> bool {
    let Some(at) = word.windows(2).position(|two| two == b"::") else {
        return false;
    };
    let helper = word.get(..at).unwrap_or_default();
    !helper.is_empty()
        && helper
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'))
}

/// Checks the value of `-L`: `1,5:FILE`, `/regex/,+3:FILE`, `:function:FILE` (git-log(1)). The file comes last.
fn check_lines(case: &CommandCase<'_>, value: &[u8]) -> Result<(), CommandRefusal> {
    let file = value.rsplit(|b| *b == b':').next().unwrap_or_default();
    match value.contains(&b':') {
        true => case.within.check(file),
        false => Ok(()),
    }
}
