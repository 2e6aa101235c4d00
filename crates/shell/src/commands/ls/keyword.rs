//! Keywords as the values of options, in full or abbreviated.

use crate::call::{CommandError, usage_error};

/// The status for a wrong operand or option.
pub(super) const OPERAND_ERROR_STATUS: u8 = 2;

/// Looks up a keyword, which may be shortened as long as it is unique.
///
/// # Errors
/// [`CommandError::Usage`] in GNU's words.
pub(super) fn keyword<T: Copy + PartialEq>(
    option: &str,
    typed: &[u8],
    known: &[(&str, T)],
) -> Result<T, CommandError> {
    if let Some((_, exact)) = known.iter().find(|(word, _)| word.as_bytes() == typed) {
        return Ok(*exact);
    }
    let mut begun = known
        .iter()
        .filter(|(word, _)| word.as_bytes().starts_with(typed));
    let what = match begun.next() {
        Some((_, meant)) if begun.all(|(_, other)| other == meant) => return Ok(*meant),
        Some(_) => "ambiguous",
        None => "invalid",
    };
    let begin = format!("{what} argument '");
    let end = format!("' for '{option}'");
    Err(usage_error(
        [begin.as_bytes(), typed, end.as_bytes()].concat(),
    ))
}
