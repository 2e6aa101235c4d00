//! The tags of a row: words on what kind of a change it is, apart from its lines.

use crate::client::Review;
use crate::error::Result;
use crate::operator::diff::{Diff, DiffSide, PathDifference, PathFlag};

/// The bits that let somebody run a file.
const RUN_BITS: u32 = 0o111;
/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;

/// Returns the tags of a listed path, by its place in the order.
///
/// # Errors
/// As [`Review::change`].
pub(super) fn tags_of(review: &Review<'_>, place: usize) -> Result<Vec<&'static str>> {
    let (Some(change), Some(diff)) = (review.change(place)?, review.diff()) else {
        return Ok(Vec::new());
    };
    let flag = change.flag.map(|flag| match flag {
        PathFlag::RunsOnHost => "runs",
        PathFlag::LeadsOut => "out",
    });
    let mut tags: Vec<&'static str> = flag.into_iter().collect();
    let difference = &change.difference;
    tags.extend(tags_of_attributes(difference));
    if has_binary(diff, difference) {
        tags.push("bin");
    }
    Ok(tags)
}

fn tags_of_attributes(difference: &PathDifference) -> Vec<&'static str> {
    let mut tags = Vec::new();
    let (before, after) = (difference.before, difference.after);
    let Some(after) = after.filter(|side| !side.is_dir()) else {
        let is_changed = before
            .zip(after)
            .is_some_and(|(one, other)| one.mode != other.mode);
        return is_changed.then_some("mode").into_iter().collect();
    };
    match after.kind {
        "file" => {}
        "symlink" => tags.push("link"),
        _ => tags.push("special"),
    }
    let gained = |bits: u32| {
        let had = before.filter(|side| side.kind == "file");
        after.kind == "file" && after.mode & bits & !had.map_or(0, |side| side.mode) != 0
    };
    if gained(SET_IDS) {
        tags.push("setid");
    }
    let is_new_program = after.mode & RUN_BITS != 0
        && after.kind == "file"
        && before.is_none_or(|side| side.mode & RUN_BITS == 0);
    if is_new_program {
        tags.push("exec");
    } else if before.is_some_and(|before| before.mode != after.mode) {
        tags.push("mode");
    }
    if before.is_some_and(|before| (before.uid, before.gid) != (after.uid, after.gid)) {
        tags.push("owner");
    }
    tags
}

/// Returns whether a content is binary that came or changed. One that cannot be read is not looked at.
fn has_binary(diff: &Diff<'_>, difference: &PathDifference) -> bool {
    let is_file = |side: &DiffSide| side.kind == "file" && side.size > 0;
    let is_new = difference.before.is_none() || difference.content;
    if !is_new || !difference.after.as_ref().is_some_and(is_file) {
        return false;
    }
    let contents = diff.contents(difference);
    let after = contents.ok().and_then(|(_, after)| after);
    after.is_some_and(|after| after.is_binary().unwrap_or(false))
}
