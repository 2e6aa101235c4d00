//! npx: packages from a list, and no shell line.

use super::super::grammar::UNKNOWN;
use super::super::scan::{FlagGrammar, FlagLists, ParsedFlag, ScanEnd, scan};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};

/// Flags that hand a line to a shell. No list allows them.
const CALL: &[&str] = &["-c", "--call"];

/// Flags that name a package.
const PACKAGE: &[&str] = &["-p", "--package"];

/// Checks a command of npx.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let lists = case.lists(&case.entry.flags, "flags");
    let grammar = case.grammar(None);
    let scanned = scan(case.argv(), case.first, &lists, &grammar, ScanEnd::Argument)?;
    if scanned
        .flags
        .iter()
        .any(|flag| CALL.contains(&flag.name.as_str()))
    {
        let reason = "`--call` hands a line to a shell, which no list allows; name the command and its words";
        return Err(case.refused(RefusalClass::Flag, "call", reason));
    }
    case.check_values(&scanned)?;
    // What npx passes over does not depend on what a policy says of a flag.
    case.check_greedy(&scanned, &[], "flags")?;
    let is_package = |flag: &&ParsedFlag| PACKAGE.contains(&flag.name.as_str());
    for flag in scanned.flags.iter().filter(is_package) {
        listed(case, flag.value.as_deref().unwrap_or_default())?;
    }
    let Some(command) = case.argv().get(scanned.end) else {
        return bare(case, &scanned.flags);
    };
    let package = listed(case, command)?;
    let rest = case.argv();
    let own = case
        .entry
        .tool
        .packages
        .get(package)
        .and_then(Option::as_ref);
    let behind = FlagLists {
        allowed: vec![own.unwrap_or(&case.entry.flags)],
        required: Vec::new(),
        key: case.key(&format!("packages.{package}.flags")),
        of: format!("npx {package}"),
        ..case.lists(&case.entry.flags, "flags")
    };
    let grammar = FlagGrammar {
        tool: &UNKNOWN,
        ..grammar
    };
    let words = scan(rest, scanned.end + 1, &behind, &grammar, ScanEnd::End)?;
    case.check_values(&words)?;
    for argument in &words.arguments {
        case.within.check(argument.word)?;
    }
    let mut checked = case.allow_program(&scanned)?;
    checked.rule = case.key(&format!("packages.{package}"));
    case.add_surroundings(&mut checked);
    Ok(checked)
}

/// npx without a package opens a shell, unless it is asked for itself.
fn bare<'q>(
    case: &CommandCase<'q>,
    flags: &[ParsedFlag],
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let speaks = |flag: &ParsedFlag| case.tool.information.contains(&flag.name);
    if flags.iter().any(speaks) {
        return Ok(case.allowed("flags"));
    }
    let reason = format!(
        "the command names no package, and would open a shell; {}",
        instead(case)
    );
    Err(case.refused(RefusalClass::Subcommand, "packages", reason))
}

/// Returns the package that a word names, by itself or by an alias.
fn listed<'q>(case: &CommandCase<'q>, word: &[u8]) -> Result<&'q str, CommandRefusal> {
    let tool = &case.entry.tool;
    let name = std::str::from_utf8(word).unwrap_or_default();
    let alias = tool.command_aliases.get(name).map_or(name, String::as_str);
    match tool.packages.get_key_value(alias) {
        Some((package, _)) => Ok(package),
        None => {
            let reason = format!(
                "{} is no package that is allowed, and neither a version nor another source of one is unless it is listed; {}",
                shown(word),
                instead(case)
            );
            Err(case.refused(RefusalClass::Subcommand, "packages", reason))
        }
    }
}

fn instead(case: &CommandCase<'_>) -> String {
    let tool = &case.entry.tool;
    let names: Vec<&str> = tool
        .packages
        .keys()
        .chain(tool.command_aliases.keys())
        .map(String::as_str)
        .collect();
    match names.is_empty() {
        true => "none is allowed".to_owned(),
        false => format!("these are: {}", names.join(" ")),
    }
}
