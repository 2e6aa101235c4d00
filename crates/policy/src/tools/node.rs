//! node: a script in the home, tests, or the prompt; code on the command line only where its flag is listed.

use super::super::scan::{ScanEnd, scan};
use super::super::schema::RequiredFlag;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};
use trumanfs_types::name::WorldPath;

/// Checks a command of node.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let tests = case
        .entry
        .tool
        .allow_test_mode
        .or_else(|| case.mode("test"))
        .unwrap_or(false);
    let mut lists = case.lists(&case.entry.flags, "flags");
    let test = RequiredFlag {
        flag: "--test".to_owned(),
        values: Vec::new(),
    };
    if tests {
        lists.required.push(&test);
    }
    check_spelling(case)?;
    let grammar = case.grammar(None);
    let scanned = scan(case.argv(), case.first, &lists, &grammar, ScanEnd::Argument)?;
    case.check_values(&scanned)?;
    case.check_greedy(&scanned, &[&case.entry.flags], "flags")?;
    let rest = case.argv().get(scanned.end..).unwrap_or_default();
    let has = |names: &[String]| scanned.flags.iter().any(|flag| names.contains(&flag.name));
    let code = case.tool.script_flags(None).unwrap_or_default();
    let is_test = scanned.named("--test").next().is_some();
    match rest.first() {
        // What node does with the words is said by a flag that is listed.
        _ if has(code) || has(&case.tool.information) => {}
        _ if is_test && !tests => {
            return Err(case.refused(
                RefusalClass::Subcommand,
                "allow_test_mode",
                "neither allow_test_mode nor modes.test allows `--test`",
            ));
        }
        _ if is_test => {}
        Some(script) => check_script(case, script)?,
        None => case.check_input("node")?,
    }
    for word in rest {
        case.within.check_unknown(word)?;
    }
    let mut checked = case.allow_program(&scanned)?;
    case.add_surroundings(&mut checked);
    Ok(checked)
}

/// node reads `--in_spect` as `--in-spect`, so a list that refuses one refuses the other.
fn check_spelling(case: &CommandCase<'_>) -> Result<(), CommandRefusal> {
    for word in case.argv().iter().skip(case.first) {
        let Some(text) = std::str::from_utf8(word)
            .ok()
            .filter(|text| text.starts_with("--"))
        else {
            break;
        };
        let name = text.split('=').next().unwrap_or_default();
        if name.contains('_') {
            let reason = format!(
                "`{name}` is another spelling of `{}`; write that",
                name.replace('_', "-")
            );
            return Err(case.refused(RefusalClass::Flag, "flags", reason));
        }
    }
    Ok(())
}

fn check_script(case: &CommandCase<'_>, script: &[u8]) -> Result<(), CommandRefusal> {
    let tool = &case.entry.tool;
    if script == b"-" || script == b"inspect" || script == b"debug" {
        let reason = format!(
            "{} is no script but a mode of node; name a script in the home",
            shown(script)
        );
        return Err(case.refused(RefusalClass::Subcommand, "modes", reason));
    }
    let by_mode = case.mode("script");
    let is_allowed = tool
        .allow_script_paths
        .or(by_mode)
        .unwrap_or(tool.allowed_entrypoints.is_some());
    if !is_allowed || by_mode == Some(false) {
        let reason = format!(
            "{} is a script, and neither allow_script_paths nor modes.script allows scripts",
            shown(script)
        );
        return Err(case.refused(RefusalClass::Argument, "allow_script_paths", reason));
    }
    case.within.check(script)?;
    let Some(entrypoints) = &tool.allowed_entrypoints else {
        return Ok(());
    };
    let path = relative(case, script);
    let is_listed = entrypoints
        .iter()
        .any(|listed| WorldPath::parse(listed.as_bytes()).is_ok_and(|listed| Some(listed) == path));
    match is_listed {
        true => Ok(()),
        false => {
            let names: Vec<&str> = entrypoints.iter().map(String::as_str).collect();
            let reason = format!(
                "{} is on no list of entry points; these are, from the home: {}",
                shown(script),
                names.join(" ")
            );
            Err(case.refused(RefusalClass::Argument, "allowed_entrypoints", reason))
        }
    }
}

/// Returns a path as one from the home.
fn relative(case: &CommandCase<'_>, script: &[u8]) -> Option<WorldPath> {
    if script.starts_with(b"/") {
        return WorldPath::parse(&case.within.below_home(script)?).ok();
    }
    let path = [case.within.cwd.bytes(), script].join(&b'/');
    WorldPath::parse(&path).ok()
}
