//! The rules of every program, by its grammar: flags by list, sub-commands by list, and everything that names a file in
//! the home.

use super::super::grammar::{ArgumentSyntax, WordReading, WordSyntax};
use super::super::scan::{ParsedArgument, ScanEnd, ScanResult, scan};

use super::super::validator::Validator;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase, SubCommandMatch};
use super::{node, npx, powershell, pytest, python, runner};

/// Flags that have a program say something of itself and do nothing.
const INFORMATION: &[&str] = &["--version", "-V", "-v", "--help", "-h", "--info"];

/// Checks the words of a case.
///
/// # Errors
/// The first thing that its entry does not allow.
pub(in super::super) fn check<'q>(
    case: &CommandCase<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    match case.entry.validator {
        Validator::Pytest => pytest::check(case),
        Validator::Npx => npx::check(case),
        Validator::Node => node::check(case),
        Validator::Python => python::check(case),
        Validator::PowerShell => powershell::check(case),
        Validator::Every => Err(case.refused(RefusalClass::Program, "", "`*` is no program")),
        Validator::Generic(_)
        | Validator::Git
        | Validator::Npm
        | Validator::Pnpm
        | Validator::Lerna
        | Validator::Dotnet => by_grammar(case),
    }
}

fn by_grammar<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    check_tokens(case)?;
    let has_list = case.entry.subcommands.is_some();
    if case.tool.needs_subcommand && !has_list && case.argv().len() == case.first {
        return Ok(case.allowed(""));
    }
    if has_list || case.tool.needs_subcommand {
        with_subcommand(case)
    } else {
        without(case)
    }
}

/// Refuses words that the entry, or the grammar of the program, rules out wherever they stand.
fn check_tokens(case: &CommandCase<'_>) -> Result<(), CommandRefusal> {
    let listed = case.entry.tool.deny_tokens.as_ref();
    for token in listed.unwrap_or(&case.tool.deny_tokens) {
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

fn with_subcommand<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let (found, ahead) = case.subcommand()?;
    case.check_greedy(&ahead, &case.root_flags(), "root_flags")?;
    let mut checked = match found {
        None => flags_alone(case, &ahead)?,
        Some(found) => match case.tool.scripts {
            Some(passed) if runner::runs_script(&found) => runner::check(case, passed, &found)?,
            _ => subcommand(case, &found)?,
        },
    };
    case.add_surroundings(&mut checked);
    Ok(checked)
}

fn subcommand<'q>(
    case: &CommandCase<'q>,
    found: &SubCommandMatch<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let (lists, grammar) = (case.lists_of(found), case.grammar(Some(found.name)));
    let scanned = scan(case.argv(), found.at + 1, &lists, &grammar, ScanEnd::End)?;
    case.check_values(&scanned)?;
    let key = format!("subcommands.{}", found.name);
    case.check_greedy(&scanned, &lists.allowed, &format!("{key}.flags"))?;
    runner::check_installed(case, found, &scanned)?;
    let rules = &found.sub.arguments;
    if case.tool.words == WordSyntax::Git {
        // Which arguments there may be is the policy's; what they name is looked at in any case.
        case.check_arguments(&scanned.arguments, rules, &key, &|_| WordReading::Text)?;
        let reading = argument_reading(case, Some(found.name), &scanned);
        for (number, argument) in scanned.arguments.iter().enumerate() {
            if reading(number) == WordReading::Path {
                case.check_path(argument.word)?;
            }
        }
    } else {
        check_projects(case, found, &scanned, &key)?;
        case.check_arguments(&scanned.arguments, rules, &key, &|_| WordReading::Path)?;
    }
    case.allow_subcommand(found, &scanned)
}

/// Checks that a sub-command may have arguments, where each is a project or a file of tests.
fn check_projects(
    case: &CommandCase<'_>,
    found: &SubCommandMatch<'_>,
    scanned: &ScanResult<'_>,
    key: &str,
) -> Result<(), CommandRefusal> {
    let (sub, rules) = (found.sub, &found.sub.arguments);
    let is_open = [sub.allow_project_paths, sub.allow_test_paths].contains(&Some(true));
    let is_listed = is_open || rules.kinds.is_some() || rules.first.is_some();
    let first = scanned.arguments.first();
    match first.filter(|_| case.tool.arguments == ArgumentSyntax::Projects && !is_listed) {
        None => Ok(()),
        Some(argument) => {
            let reason = format!(
                "{} is a path, and neither allow_project_paths nor allow_test_paths allows one for `{}`; run it in the project's directory",
                shown(argument.word),
                found.typed
            );
            let key = format!("{key}.allow_project_paths");
            Err(case.refused(RefusalClass::Argument, &key, reason))
        }
    }
}

/// Returns how the argument of each number, from 0, is read.
fn argument_reading(
    case: &CommandCase<'_>,
    subcommand: Option<&str>,
    scanned: &ScanResult<'_>,
) -> impl Fn(usize) -> WordReading {
    let script_flags = case.tool.script_flags(subcommand);
    let is_brought = |flags: &[String]| scanned.flags.iter().any(|flag| flags.contains(&flag.name));
    let has_script = script_flags.is_some_and(|flags| !is_brought(flags));
    let are_texts = case.tool.arguments == ArgumentSyntax::Texts;
    move |number| match are_texts || number == 0 && has_script {
        true => WordReading::Text,
        false => WordReading::Path,
    }
}

/// A program that has sub-commands, called without one: what it does then is on no list, unless it speaks of itself.
fn flags_alone<'q>(
    case: &CommandCase<'q>,
    ahead: &ScanResult<'_>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let names = &case.entry.root_flags.names;
    let is_known = |name: &str| names.contains_key(name) || INFORMATION.contains(&name);
    if case.tool.idle || ahead.flags.iter().all(|flag| is_known(&flag.name)) {
        return case.allow_program(ahead);
    }
    let reason = format!(
        "the command names no sub-command of {}; name one behind the flags",
        case.entry.name
    );
    Err(case.refused(RefusalClass::Subcommand, "subcommands", reason))
}

fn without<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    // The words of another program are its own.
    let is_rest = case.tool.flags_end || case.tool.arguments == ArgumentSyntax::Program;
    let until = if is_rest {
        ScanEnd::Argument
    } else {
        ScanEnd::End
    };
    let lists = case.lists(&case.entry.flags, "flags");
    let grammar = case.grammar(None);
    let mut scanned = scan(case.argv(), case.first, &lists, &grammar, until)?;
    case.check_values(&scanned)?;
    case.check_greedy(&scanned, &lists.allowed, "flags")?;
    if is_rest {
        let rest = case.argv().iter().enumerate().skip(scanned.end);
        let argument = |(at, word): (usize, &'q Vec<u8>)| ParsedArgument {
            word: word.as_slice(),
            at,
        };
        scanned.arguments = rest.map(argument).collect();
    }
    let reading = argument_reading(case, None, &scanned);
    let takes_any = takes_arguments(case);
    let known = |number| match takes_any {
        true => reading(number),
        false => WordReading::Refused,
    };
    case.check_arguments(&scanned.arguments, &case.entry.arguments, "", &known)?;
    let first = case.argv().get(case.first);
    if let Some(word) = first.filter(|word| case.tool.bare_flags && !word.starts_with(b"-")) {
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
