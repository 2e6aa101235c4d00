//! The rules of every program: flags by list, sub-commands by list, and everything that names a file in the home.

use super::super::scan::{FlagGrammar, ParsedArgument, ScanEnd, ScanResult, scan};
use super::super::schema::WordReading;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};
use super::known;

/// Flags that have a program say something of itself and do nothing.
const INFORMATION: &[&str] = &["--version", "-V", "-v", "--help", "-h", "--info"];

/// Checks a command by the rules of every program, with what is known of the program `tool`.
pub(super) fn check<'q>(
    case: &CommandCase<'q>,
    tool: &str,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    check_tokens(case, tool)?;
    match case.entry.subcommands {
        Some(_) => with_subcommand(case, tool),
        None => without(case, tool),
    }
}

/// Refuses words that the entry, or what is known of the program, rules out wherever they stand.
fn check_tokens(case: &CommandCase<'_>, tool: &str) -> Result<(), CommandRefusal> {
    let listed = case.entry.tool.deny_tokens.as_deref();
    let tokens: Vec<&str> = match listed {
        Some(tokens) => tokens.iter().map(String::as_str).collect(),
        None => known::tokens(tool).to_vec(),
    };
    for token in tokens {
        let is_token = |word: &Vec<u8>| {
            let rest = word.strip_prefix(token.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        };
        if case.argv().iter().skip(case.first).any(is_token) {
            let reason = format!(
                "`{token}` is refused in {}, wherever it stands; leave it out",
                case.entry.name
            );
            return Err(case.refused(RefusalClass::Flag, "deny_tokens", reason));
        }
    }
    Ok(())
}

fn with_subcommand<'q>(
    case: &CommandCase<'q>,
    tool: &str,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let takes = |flag: &str| known::takes(tool, flag);
    let before = [&case.entry.root_flags, &case.entry.flags];
    let (found, ahead) = case.subcommand(&before, &takes, &|name| known::alias(tool, name))?;
    let Some(found) = found else {
        return flags_alone(case, &ahead);
    };
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: true,
        dashed_values: known::takes_dashed(tool),
    };
    let scanned = scan(
        case.argv(),
        found.at + 1,
        &case.lists_of(&found),
        &grammar,
        ScanEnd::End,
    )?;
    case.check_values(&scanned)?;
    let key = format!("subcommands.{}", found.name);
    case.check_arguments(&scanned.arguments, &found.sub.arguments, &key, &|_| {
        WordReading::Path
    })?;
    case.allow_subcommand(&found, &scanned)
}

/// A program that has sub-commands, called without one: what it does then is on no list, unless it speaks of itself.
fn flags_alone<'q>(
    case: &CommandCase<'q>,
    ahead: &ScanResult<'_>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let names = &case.entry.root_flags.names;
    let is_known = |name: &str| names.contains_key(name) || INFORMATION.contains(&name);
    if ahead.flags.iter().all(|flag| is_known(&flag.name)) {
        return case.allow_program(ahead);
    }
    let reason = format!(
        "the command names no sub-command of {}; name one behind the flags",
        case.entry.name
    );
    Err(case.refused(RefusalClass::Subcommand, "subcommands", reason))
}

fn without<'q>(case: &CommandCase<'q>, tool: &str) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let takes = |flag: &str| known::takes(tool, flag);
    let grammar = FlagGrammar {
        takes: &takes,
        clusters: known::has_clusters(tool),
        dashed_values: known::takes_dashed(tool),
    };
    // The words of another program are its own.
    let is_rest = known::runs_another(tool) || known::ends_flags(tool);
    let until = if is_rest {
        ScanEnd::Argument
    } else {
        ScanEnd::End
    };
    let lists = case.lists(&case.entry.flags, "flags");
    let mut scanned = scan(case.argv(), case.first, &lists, &grammar, until)?;
    case.check_values(&scanned)?;
    if is_rest {
        let rest = case.argv().iter().enumerate().skip(scanned.end);
        let argument = |(at, word): (usize, &'q Vec<u8>)| ParsedArgument {
            word: word.as_slice(),
            at,
            is_literal: true,
        };
        scanned.arguments = rest.map(argument).collect();
    }
    let reading = known::arguments(tool, &scanned);
    let takes_any = takes_arguments(case);
    case.check_arguments(
        &scanned.arguments,
        &case.entry.arguments,
        "",
        &|number| match takes_any {
            true => reading.of(number),
            false => WordReading::Refused,
        },
    )?;
    if let Some(word) = known::refused_first(tool, case.argv().get(case.first)) {
        let reason = format!(
            "{} stands for flags that no list has looked at; write them with a dash, one by one",
            shown(word)
        );
        return Err(case.refused(RefusalClass::Argument, "arguments", reason));
    }
    case.allow_program(&scanned)
}

/// Returns whether the program may have arguments at all: an empty entry allows the bare program.
fn takes_arguments(case: &CommandCase<'_>) -> bool {
    let entry = case.entry;
    entry
        .tool
        .allow_script_paths
        .unwrap_or(entry.has_flags || entry.arguments.first.is_some())
}
