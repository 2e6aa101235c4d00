//! pytest: flags from a list, and tests by path and by id.

use super::super::scan::{ScanEnd, scan};
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::words::shown;
use super::case::{CheckedCommand, CommandCase};
use super::python;

/// The greatest number of tests that may be named if the policy sets none.
const SELECTORS: u64 = 50;

/// The greatest number of bytes in the words if the policy sets none.
const LENGTH: u64 = 4096;

/// Checks a command of pytest.
pub(super) fn check<'q>(case: &CommandCase<'q>) -> Result<CheckedCommand<'q>, CommandRefusal> {
    let tool = &case.entry.tool;
    let words = case.argv().get(case.first..).unwrap_or_default();
    let length: usize = words.iter().map(|word| word.len() + 1).sum();
    let most = tool.max_argv_len.unwrap_or(LENGTH);
    if length as u64 > most {
        let reason = format!(
            "the words have {length} bytes, and max_argv_len allows {most}; name directories instead of single tests"
        );
        return Err(case.refused(RefusalClass::Argument, "max_argv_len", reason));
    }
    let grammar = case.grammar(None);
    let lists = case.lists(&case.entry.flags, "flags");
    let scanned = scan(case.argv(), case.first, &lists, &grammar, ScanEnd::End)?;
    case.check_values(&scanned)?;
    let most = tool.max_selector_args.unwrap_or(SELECTORS);
    if scanned.arguments.len() as u64 > most {
        let reason = format!(
            "{} tests are named, and max_selector_args allows {most}",
            scanned.arguments.len()
        );
        return Err(case.refused(RefusalClass::Argument, "max_selector_args", reason));
    }
    for argument in &scanned.arguments {
        check_selector(case, argument.word)?;
    }
    let mut checked = case.allow_program(&scanned)?;
    python::surroundings(case, &mut checked);
    if tool.disable_plugin_autoload == Some(true) {
        checked
            .env
            .push(("PYTEST_DISABLE_PLUGIN_AUTOLOAD", b"1".to_vec()));
    }
    Ok(checked)
}

/// Checks a test: `path`, or `path::Class::test[case]`, of which the path counts.
fn check_selector(case: &CommandCase<'_>, word: &[u8]) -> Result<(), CommandRefusal> {
    if word.starts_with(b"@") {
        let reason = format!(
            "{} names a file of flags that no list has looked at; write them out",
            shown(word)
        );
        return Err(case.refused(RefusalClass::Argument, "flags", reason));
    }
    if case.entry.tool.allow_test_paths != Some(true) {
        let reason = format!(
            "{} names tests, and allow_test_paths does not allow that; run all of them, or choose by -k",
            shown(word)
        );
        return Err(case.refused(RefusalClass::Argument, "allow_test_paths", reason));
    }
    let end = word
        .windows(2)
        .position(|two| two == b"::")
        .unwrap_or(word.len());
    let path = word.get(..end).unwrap_or_default();
    case.within
        .check(path)
        .map_err(|_| case.within.outside(word))
}
