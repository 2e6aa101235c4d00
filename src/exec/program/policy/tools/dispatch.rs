//! Which validator a case goes to.

use super::super::validator::Validator;
use super::super::verdict::{Class, Refused};
use super::case::{Case, Checked};
use super::{generic, powershell};

/// Checks the words of a case.
///
/// # Errors
/// The first thing that its entry does not allow.
pub(in super::super) fn check<'q>(case: &Case<'q>) -> Result<Checked<'q>, Refused> {
    match case.entry.validator {
        Validator::Generic(known) => generic::check(case, known),
        Validator::PowerShell => powershell::check(case),
        Validator::Git => generic::check(case, ""),
        _ => Err(case.refused(
            Class::Program,
            "validator",
            "this release has no validator for the program yet",
        )),
    }
}
