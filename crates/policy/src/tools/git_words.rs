//! Words of git: revisions, ranges, paths, pathspecs and addresses of repositories.

use super::super::verdict::{CommandRefusal, RefusalClass};
use super::super::within::HomeBounds;
use super::super::words::shown;
use trumanfs_types::name::WorldPath;

/// Checks a revision, a range, a path, a pathspec or the address of a repository.
pub(super) fn check_word(
    within: HomeBounds<'_>,
    program: &str,
    word: &[u8],
) -> Result<(), CommandRefusal> {
    if names_helper(word) {
        let reason = format!(
            "{} names a transport helper, which is a program; give a URL or a path",
            shown(word)
        );
        return Err(CommandRefusal::new(
            RefusalClass::Argument,
            format!("{program}.arguments"),
            reason,
        ));
    }
    let Some(spec) = word.strip_prefix(b":") else {
        return within.check(word);
    };
    // A pathspec: `:/x` and `:(top)x` begin at the top of the working tree, `:!x` and `:^x` exclude (gitglossary(7)).
    let root = WorldPath::root();
    let from_top = HomeBounds {
        cwd: &root,
        ..within
    };
    let rest = match spec {
        [b'(', ..] => match spec.iter().position(|b| *b == b')') {
            Some(end) => spec.get(end + 1..).unwrap_or_default(),
            None => spec,
        },
        [b'/' | b'!' | b'^', rest @ ..] => rest,
        spec => spec,
    };
    match from_top.leads_out(rest) || (!spec.starts_with(b"/") && within.leads_out(rest)) {
        true => Err(within.outside(word)),
        false => Ok(()),
    }
}

/// `HELPER::ADDRESS` starts `git-remote-HELPER` (gitremote-helpers(7)).
fn names_helper(word: &[u8]) -> bool {
    let Some(at) = word.windows(2).position(|two| two == b"::") else {
        return false;
    };
    let helper = word.get(..at).unwrap_or_default();
    !helper.is_empty()
        && helper
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'))
}

/// Checks the value of `-L`: `1,5:FILE`, `/regex/,+3:FILE`, `:function:FILE` (git-log(1)). The file comes last.
pub(super) fn check_lines(within: HomeBounds<'_>, value: &[u8]) -> Result<(), CommandRefusal> {
    let file = value.rsplit(|b| *b == b':').next().unwrap_or_default();
    match value.contains(&b':') {
        true => within.check(file),
        false => Ok(()),
    }
}
