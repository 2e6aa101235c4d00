//! The author of a change, in words.

use crate::operator::review::ChangeAuthor;

/// Names who changed something: `sed (run 4k2m9x0c7d1f)`.
pub(super) fn named(who: &ChangeAuthor) -> String {
    let program = match who.program.as_str() {
        "" => who.kind.word(),
        program => program,
    };
    match who.run {
        Some(run) => format!("{program} (run {run})"),
        None => program.to_owned(),
    }
}
