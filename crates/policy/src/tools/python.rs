//! Python: its own flags from a list, then a script in the home; what follows belongs to the script.

use super::super::scan::{ScanEnd, scan};
use super::super::validator::Validator;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};

/// Checks a command of Python.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let lists = case.lists(&case.entry.flags, "flags");
    let grammar = case.grammar(None);
    let scanned = scan(case.argv(), case.first, &lists, &grammar, ScanEnd::Argument)?;
    case.check_values(&scanned)?;
    let has = |names: &[String]| scanned.flags.iter().any(|flag| names.contains(&flag.name));
    let has_code = has(&case.tool.last_flags);
    let rest = case.argv().get(scanned.end..).unwrap_or_default();
    if rest.is_empty() && !has_code && !has(&case.tool.information) {
        case.check_input("python")?;
    }
    let script = rest.first().filter(|_| !has_code);
    if let Some(script) = script {
        if script == b"-" {
            let reason = "a script on standard input has no place in the home; write it into a file, and name that";
            return Err(case.refused(RefusalClass::Argument, "allow_script_paths", reason));
        }
        if case.entry.tool.allow_script_paths != Some(true) {
            let reason = format!(
                "{} is a script, and allow_script_paths does not allow scripts",
                shown(script)
            );
            return Err(case.refused(RefusalClass::Argument, "allow_script_paths", reason));
        }
    }
    for word in rest {
        case.within.check_unknown(word)?;
    }
    let mut checked = case.allow_program(&scanned)?;
    surroundings(case, &mut checked);
    Ok(checked)
}

/// Adds what Python needs around it: modules come from where they are installed and not from the working directory, and
/// a virtual environment of the home is active. Its Python is a file that the home's occupant can replace, so that is the
/// program only where the entry lets code of the home run anyway.
pub(super) fn surroundings(case: &CommandCase<'_>, checked: &mut CheckedCommand<'_>) {
    checked.env.push(("PYTHONSAFEPATH", b"1".to_vec()));
    if case.entry.tool.detect_venv == Some(false) {
        return;
    }
    for project in case.projects() {
        for name in [&b".venv"[..], b"venv"] {
            let dir = [project.as_slice(), name].join(&b'/');
            let mark = [dir.as_slice(), b"pyvenv.cfg"].join(&b'/');
            if case.exists(&mark) {
                checked.path.push([dir.as_slice(), b"bin"].join(&b'/'));
                checked.runs_home_code = runs_home_code(case);
                checked.env.push(("VIRTUAL_ENV", dir));
                return;
            }
        }
    }
}

/// Returns whether an entry lets code of the home's occupant run: tests, scripts, or code on the line or on standard input.
fn runs_home_code(case: &CommandCase<'_>) -> bool {
    case.entry.validator == Validator::Pytest
        || case.entry.tool.allow_script_paths == Some(true)
        || case.mode("repl") == Some(true)
        || case.entry.flags.names.contains_key("-c")
}
