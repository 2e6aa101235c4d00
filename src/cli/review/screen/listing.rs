//! The list of a review as plain data.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::worker_messages::{AuthorLabel, ListedPath, ReviewListing};
use crate::client::Review;
use crate::name::WorldPath;
use crate::operator::review::ChangeAuthor;

/// Makes the list of a review.
pub(super) fn make_listing(review: &Review<'_>, number: u64, at: Option<String>) -> ReviewListing {
    let mut listing = ReviewListing {
        number,
        at,
        ..ReviewListing::default()
    };
    // Without the classes nothing is folded for them.
    let classes = review.classes().unwrap_or_default();
    let mut places: HashMap<ChangeAuthor, usize> = HashMap::new();
    for place in 0..review.len() {
        let Some((status, path)) = review.path(place) else {
            continue;
        };
        let last = review.last(place);
        let who = last.map(|(who, _)| match places.get(who) {
            Some(known) => *known,
            None => {
                listing.who.push(AuthorLabel {
                    run: who.run,
                    program: match who.program.as_str() {
                        "" => who.kind.word().to_owned(),
                        program => program.to_owned(),
                    },
                    command: who
                        .run
                        .and_then(|run| review.command(run))
                        .map(str::to_owned),
                });
                places.insert(who.clone(), listing.who.len() - 1);
                listing.who.len() - 1
            }
        });
        listing.items.push(ListedPath {
            path,
            status,
            flag: review.flag(place),
            class: classes.get(place).copied().unwrap_or_default(),
            who: who.unwrap_or(usize::MAX),
            time: last.map_or(0, |(_, time)| time),
        });
    }
    listing
}

/// Returns the place of a path in a review.
pub(super) fn place_of(review: &Review<'_>, path: &WorldPath) -> Option<usize> {
    let at = |place: usize| review.path(place).map(|(_, at)| at);
    let (mut from, mut to) = (0, review.len());
    while from < to {
        let middle = from + (to - from) / 2;
        match at(middle)?.cmp(path) {
            Ordering::Less => from = middle + 1,
            Ordering::Greater => to = middle,
            Ordering::Equal => return Some(middle),
        }
    }
    // The order of a review need not be that of the bytes.
    (0..review.len()).find(|place| at(*place).as_ref() == Some(path))
}
