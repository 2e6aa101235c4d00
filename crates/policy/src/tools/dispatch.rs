//! The choice of the validator for a case.

use super::super::validator::Validator;
use super::super::verdict::{CommandRefusal, RefusalClass};
use super::case::{CheckedCommand, CommandCase};
use super::{dotnet, generic, git, node, npm, npx, powershell, pytest, python, runner};

/// Checks the words of a case.
///
/// # Errors
/// The first thing that its entry does not allow.
pub(in super::super) fn check<'q>(
    case: &CommandCase<'q>,
) -> Result<CheckedCommand<'q>, CommandRefusal> {
    match case.entry.validator {
        Validator::Generic(known) => generic::check(case, known),
        Validator::Git => git::check(case),
        Validator::Pytest => pytest::check(case),
        Validator::Npm => runner::check(case, &npm::NPM),
        Validator::Pnpm => runner::check(case, &npm::PNPM),
        Validator::Lerna => runner::check(case, &npm::LERNA),
        Validator::Npx => npx::check(case),
        Validator::Node => node::check(case),
        Validator::Dotnet => dotnet::check(case),
        Validator::Python => python::check(case),
        Validator::PowerShell => powershell::check(case),
        Validator::Every => Err(case.refused(RefusalClass::Program, "", "`*` is no program")),
    }
}
